/* default_model.c - finds the demo model by the path of the running program, /proc/self/exe. */
#include "cli/default_model.h"

#include "reprise/options.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *const places[] = {"../share/reprise/demo.gguf", "../assets/demo.gguf",
                                     "../../assets/demo.gguf"};

enum { N_PLACES = sizeof places / sizeof places[0] };

const char *cli_default_model(const char **searched) {
    static char path[PATH_MAX + 64], text[4 * PATH_MAX];
    char        program[PATH_MAX];
    *searched = text;
    snprintf(text, sizeof text, "REPRISE_MODEL is not set");
    if (rp_option(RP_OPT_MODEL)[0] != '\0') return rp_option(RP_OPT_MODEL);
    const ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    if (n <= 0) return NULL;
    program[n]  = '\0';
    char *slash = strrchr(program, '/');
    if (slash == NULL) return NULL;
    *slash = '\0';
    for (int i = 0; i < N_PLACES; i++) {
        snprintf(path, sizeof path, "%s/%s", program, places[i]);
        if (access(path, R_OK) == 0) return path;
        const size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, ", there is no %s", path);
    }
    return NULL;
}

/* default_model.c - finds the demo model by the path of the running program. */
#include "cli/default_model.h"

#include "reprise/options.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

/* Relative to the folder of the program, in the order of the search (default_model.h). */
static const char *const places[] = {"../share/reprise/demo.gguf", "../assets/demo.gguf", "../../assets/demo.gguf"};

enum { N_PLACES = sizeof places / sizeof places[0] };

/* The absolute path of the running program. Without /proc, as in a bare chroot, it is found by the path by which the
 * program was started. */
static bool find_program(char path[PATH_MAX]) {
    const char *started = (const char *)getauxval(AT_EXECFN);
    if (realpath("/proc/self/exe", path) != NULL) return true;
    return started != NULL && realpath(started, path) != NULL;
}

const char *cli_default_model(const char **searched) {
    static char path[PATH_MAX + 64], text[4 * PATH_MAX];
    char        program[PATH_MAX];
    *searched = text;
    snprintf(text, sizeof text, "REPRISE_MODEL is not set");
    if (rp_option(RP_OPT_MODEL)[0] != '\0') return rp_option(RP_OPT_MODEL);
    if (!find_program(program)) return NULL;
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

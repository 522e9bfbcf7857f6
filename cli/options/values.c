/* values.c - a table of the arguments whose values are known. */
#include "cli/options/values.h"

#include "cli/predict/predict.h"
#include "cli/users/scenario.h"

#include "reprise/reprise.h"

#include <stdio.h>
#include <string.h>

/* The name of chat template i; NULL after the last. */
static const char *template_at(int i) {
    const char *name = rp_chat_name((RpChatKind)i);
    return strcmp(name, "?") != 0 ? name : NULL;
}

static const char *gpu_at(int i) { return i < cli_n_gpus ? cli_gpus[i].name : NULL; }
static const char *scenario_at(int i) { return cli_scenario(i) != NULL ? cli_scenario(i)->name : NULL; }

static const struct {
    const char *arg;
    ValueKind   kind;
    const char *words;
    const char *(*at)(int i); /* words that a table of the library has; NULL at its end */
} table[] = {
    {"MODEL",    VALUE_MODEL, NULL,                      NULL                },
    {"IN",       VALUE_MODEL, NULL,                      NULL                },
    {"FILE",     VALUE_FILE,  NULL,                      NULL                },
    {"OUT",      VALUE_FILE,  NULL,                      NULL                },
    {"A",        VALUE_MODEL, NULL,                      NULL                },
    {"B",        VALUE_MODEL, NULL,                      NULL                },
    {"WHEN",     VALUE_WORDS, "auto always never",       NULL                },
    {"LAYOUT",   VALUE_WORDS, "on off auto codebook",    NULL                },
    {"PHASE",    VALUE_WORDS, "decode prefill both",     NULL                },
    {"GPU",      VALUE_WORDS, NULL,                      gpu_at              },
    {"SCENARIO", VALUE_WORDS, NULL,                      scenario_at         },
    {"SHELL",    VALUE_WORDS, "bash zsh fish",           NULL                },
    {"DEVICE",   VALUE_WORDS, "auto cpu cuda",           NULL                },
    {"MODE",     VALUE_WORDS, "auto eager replay loop",  NULL                },
    {"CACHE",    VALUE_WORDS, "f16 q8_0",                NULL                },
    {"TYPE",     VALUE_WORDS, NULL,                      rp_convert_type_name},
    {"PASS",     VALUE_WORDS, NULL,                      rp_pass_name        },
    {"PRESET",   VALUE_WORDS, "list",                    rp_synth_preset_name},
    {"POOLING",  VALUE_WORDS, "none mean cls last rank", NULL                },
    {"FORMAT",   VALUE_WORDS, "text json npy",           NULL                },
    {"TEMPLATE", VALUE_WORDS, NULL,                      template_at         },
};

enum { N = sizeof table / sizeof table[0] };

/* The row of an argument; -1: any text may be its value. */
static int find(const char *arg) {
    for (int i = 0; arg != NULL && i < N; i++)
        if (strcmp(table[i].arg, arg) == 0) return i;
    return -1;
}

ValueKind cli_value_kind(const char *arg) {
    const int i = find(arg);
    return i >= 0 ? table[i].kind : VALUE_ANY;
}

const char *cli_value_words(const char *arg, char *buf, size_t size) {
    const int i = find(arg);
    size_t    n = 0;
    buf[0]      = '\0';
    if (i < 0) return buf;
    if (table[i].words != NULL) n = (size_t)snprintf(buf, size, "%s", table[i].words);
    for (int k = 0; table[i].at != NULL && table[i].at(k) != NULL && n < size; k++)
        n += (size_t)snprintf(buf + n, size - n, "%s%s", n > 0 ? " " : "", table[i].at(k));
    return buf;
}

/* "{TYPE}" in a note is replaced by the words of the argument TYPE, so that lists in texts stay complete. */
bool cli_next_note(const char **notes, char *line, size_t size) {
    const char  *from = *notes;
    const size_t n = strcspn(from, "\n"), name = strcspn(from, "{"), end = strcspn(from, "}");
    char         arg[16], words[512];
    if (*from == '\0') return false;
    if (name < end && end < n) {
        snprintf(arg, sizeof arg, "%.*s", (int)(end - name - 1), from + name + 1);
        snprintf(line, size, "%.*s%s%.*s", (int)name, from, cli_value_words(arg, words, sizeof words),
                 (int)(n - end - 1), from + end + 1);
    } else {
        snprintf(line, size, "%.*s", (int)n, from);
    }
    *notes += n + (from[n] == '\n');
    return true;
}

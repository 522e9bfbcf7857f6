/* diff_open.c - opens one argument of --diff: a saved dump, or a graph that is built and dumped to memory. */
#include "cli/diff/diff.h"

#include "cli/common.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* For the error that lists them; apply_setting has the same ones. */
static const char SETTINGS[] = "raw, after=PASS, passes=LIST, tokens=N, ctx=N, kv=TYPE, type=TYPE";

/* The text after "key=" in `word`; NULL if it does not begin so. */
static const char *value_of(const char *word, const char *key) {
    const size_t n = strlen(key);
    return strncmp(word, key, n) == 0 && word[n] == '=' ? word + n + 1 : NULL;
}

static RpStatus set_number(const char *word, const char *value, int32_t least, int32_t *out) {
    char *end;
    errno        = 0;
    const long n = strtol(value, &end, 10);
    if (end == value || *end != '\0' || errno != 0 || n < least || n > 1 << 24)
        return rp_fail(RP_E_ARG, "%s: must be a whole number from %d to %d", word, least, 1 << 24);
    *out = (int32_t)n;
    return RP_OK;
}

/* Applies `word` to *s if it is one of SETTINGS, else returns false. An invalid value sets *st. */
static bool apply_setting(const char *word, GraphSource *s, RpStatus *st) {
    const struct {
        const char  *key;
        const char **text;
        int32_t     *number;
    } rows[] = {
        {"after",  &s->after,  NULL      },
        {"passes", &s->passes, NULL      },
        {"kv",     &s->kv,     NULL      },
        {"type",   &s->type,   NULL      },
        {"tokens", NULL,       &s->tokens},
        {"ctx",    NULL,       &s->ctx   },
    };
    if (strcmp(word, "raw") == 0) return s->raw = true;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *value = value_of(word, rows[i].key);
        if (value == NULL) continue;
        if (rows[i].text == &s->after || rows[i].text == &s->passes) s->raw = false; /* overrides --raw */
        if (rows[i].text != NULL)
            *rows[i].text = value;
        else if (*st == RP_OK)
            *st = set_number(word, value, rows[i].number == &s->tokens ? 1 : 0, rows[i].number);
        return true;
    }
    return false;
}

/* Parses "MODEL:SETTING:SETTING" from its end, as MODEL may contain colons. The first word that is no
 * setting, with all before it, is the model. Shortens `text`. */
static RpStatus parse_source(char *text, GraphSource *s) {
    RpStatus st = RP_OK;
    while (text[0] != '\0') {
        char *colon = strrchr(text, ':'), *word = colon != NULL ? colon + 1 : text;
        if (!apply_setting(word, s, &st)) break;
        if (word > text)
            word[-1] = '\0';
        else
            text = word + strlen(word);
    }
    if (text[0] != '\0') s->model = text;
    return st;
}

/* Without this check a mistyped setting would be reported as a model file that does not exist. */
static RpStatus check_model(const char *label, const GraphSource *s) {
    if (s->model == NULL)
        return rp_fail(RP_E_ARG, "%s: no model is given: put one before the settings, or use -m FILE", label);
    if (access(s->model, F_OK) == 0) return RP_OK;
    for (int i = 0; rp_synth_preset_name(i) != NULL; i++)
        if (strcmp(rp_synth_preset_name(i), s->model) == 0) return RP_OK;
    return rp_fail(RP_E_ARG,
                   "%s: '%s' is neither a file nor a preset; settings that may follow, each after a colon: %s", label,
                   s->model, SETTINGS);
}

static RpStatus dump_to_memory(const ComputeGraph *g, Text *out) {
    FILE *f = open_memstream(&out->bytes, &out->n);
    if (f == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a dump");
    const RpStatus st = rp_graph_dump(g, &(RpDumpOptions){.format = RP_DUMP_JSON}, f);
    if (fclose(f) != 0 && st == RP_OK) return rp_fail(RP_E_NOMEM, "out of memory for a dump");
    return st;
}

/* Builds the graph that the source describes, dumps it as JSON and reads the dump. */
static RpStatus build(const char *label, const GraphSource *s, DiffGraph *out) {
    RpModel      *m    = NULL;
    ComputeGraph *g    = NULL;
    Text          dump = {0};
    RpStatus      st   = cli_graph_source_open(s, &m);
    if (st == RP_OK) st = cli_graph_source_build(s, m, out->title, sizeof out->title, &g);
    if (st == RP_OK) st = dump_to_memory(g, &dump);
    if (st == RP_OK) st = cli_diff_read(dump.bytes, dump.n, label, out);
    free(dump.bytes);
    rp_graph_free(g);
    rp_model_free(m);
    return st;
}

/* A dump is "-", a name that ends in .json, a pipe, or a file whose first character other than white space is { or [. A
 * pipe is not read to find out: what was read would be lost, and models are never pipes. */
static bool is_dump(const char *path) {
    const size_t n = strlen(path);
    struct stat  st;
    if (strcmp(path, "-") == 0 || (n > 5 && strcmp(path + n - 5, ".json") == 0)) return true;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) return true;
    FILE *f = fopen(path, "rb");
    int   c = ' ';
    while (f != NULL && (c == ' ' || c == '\n' || c == '\r' || c == '\t')) c = fgetc(f);
    if (f != NULL) fclose(f);
    return c == '{' || c == '[';
}

static RpStatus read_dump(const char *path, DiffGraph *out) {
    Text     text;
    RpStatus st = cli_read_text(NULL, path, &text);
    if (st == RP_OK) st = cli_diff_read(text.bytes, text.n, path, out);
    free(text.bytes);
    return st;
}

RpStatus cli_diff_open(const char *text, const GraphSource *defaults, DiffGraph *out) {
    *out = (DiffGraph){.label = text};
    if (is_dump(text)) return read_dump(text, out);
    GraphSource s    = *defaults;
    char       *copy = strdup(text);
    if (copy == NULL) return rp_fail(RP_E_NOMEM, "out of memory for '%s'", text);
    RpStatus st = parse_source(copy, &s);
    if (st == RP_OK) st = check_model(text, &s);
    if (st == RP_OK) st = build(text, &s, out);
    free(copy);
    return st;
}

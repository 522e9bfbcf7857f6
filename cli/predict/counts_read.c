/* counts_read.c - reads the JSON of `reprise-sim bench counts`. Every member that the model uses must be there, apart
 * from those that older counts lack. */
#include "cli/predict/predict.h"

#include "cli/common.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* The place in the file, for errors. */
typedef struct Reader {
    const char *path;
    int         kernel; /* index of the kernel that is read */
} Reader;

static RpStatus missing(const Reader *r, const char *member, const char *wanted) {
    return rp_fail(RP_E_FORMAT, "%s: kernel %d: \"%s\" is missing or not %s", r->path, r->kernel, member, wanted);
}

/* RP_E_FORMAT unless the member is a number of at least lo. */
static RpStatus get_number(const Reader *r, const json_t *o, const char *member, double lo, double *out) {
    const json_t *v = json_object_get(o, member);
    if (!json_is_number(v) || !(json_number_value(v) >= lo))
        return missing(r, member, lo > 0 ? "positive" : "a number");
    *out = json_number_value(v);
    return RP_OK;
}

/* 0 if it is missing: counts may be older than the member. */
static RpStatus get_optional(const Reader *r, const json_t *o, const char *member, double *out) {
    *out = 0.0;
    return json_object_get(o, member) == NULL ? RP_OK : get_number(r, o, member, 0, out);
}

/* RP_E_FORMAT unless the member is a whole number from lo to hi. */
static RpStatus get_int(const Reader *r, const json_t *o, const char *member, int lo, int hi, int *out) {
    const json_t *v = json_object_get(o, member);
    if (!json_is_integer(v) || json_integer_value(v) < lo || json_integer_value(v) > hi)
        return rp_fail(RP_E_FORMAT, "%s: kernel %d: \"%s\" is missing or not a number from %d to %d", r->path,
                       r->kernel, member, lo, hi);
    *out = (int)json_integer_value(v);
    return RP_OK;
}

/* Shortened if need be; control characters become '?'. */
static void copy_text(const char *text, char out[64]) {
    snprintf(out, 64, "%s", text != NULL ? text : "");
    for (char *c = out; *c != '\0'; c++)
        if ((unsigned char)*c < ' ' || (unsigned char)*c > '~') *c = '?';
}

/* The name of a file without its folders and its extension. */
static void copy_name(const char *path, char out[64]) {
    const char *slash = strrchr(path, '/');
    copy_text(slash != NULL ? slash + 1 : path, out);
    char *dot = strrchr(out, '.');
    if (dot != NULL && dot != out) *dot = '\0';
}

/* Keeps the classes that have a pipe of their own. `instructions` is the sum of all classes. */
static RpStatus get_instructions(const Reader *r, const json_t *o, KernelCounts *k) {
    json_t     *classes = json_object_get(o, "warp_instructions"), *v;
    const char *name;
    if (!json_is_object(classes)) return missing(r, "warp_instructions", "an object");
    RP_TRY(get_number(r, classes, "int", 0, &k->ints));
    RP_TRY(get_number(r, classes, "dot", 0, &k->dots));
    RP_TRY(get_number(r, classes, "float", 0, &k->floats));
    RP_TRY(get_number(r, classes, "double", 0, &k->doubles));
    json_object_foreach(classes, name, v) {
        double n = 0.0;
        RP_TRY(get_number(r, classes, name, 0, &n));
        k->instructions += n;
    }
    return RP_OK;
}

static RpStatus get_traffic(const Reader *r, const json_t *o, KernelCounts *k) {
    const json_t *bytes = json_object_get(o, "bytes");
    double        cache = 0.0, contention = 0.0;
    if (!json_is_object(bytes)) return missing(r, "bytes", "an object");
    RP_TRY(get_number(r, bytes, "weights", 0, &k->dram_bytes));
    RP_TRY(get_number(r, bytes, "cache", 0, &cache));
    RP_TRY(get_number(r, bytes, "activations", 0, &k->activation_bytes));
    RP_TRY(get_number(r, o, "barriers", 0, &k->barriers));
    RP_TRY(get_number(r, o, "atomics", 0, &k->atomics));
    RP_TRY(get_number(r, o, "atomic_contention", 0, &contention));
    RP_TRY(get_optional(r, o, "early_bytes", &k->early_bytes));
    RP_TRY(get_optional(r, o, "tensor_f16_ops", &k->tensor_f16));
    RP_TRY(get_optional(r, o, "tensor_s8_ops", &k->tensor_s8));
    k->dram_bytes += cache;
    k->atomics += contention;
    return RP_OK;
}

static RpStatus get_kernel(const Reader *r, const json_t *o, KernelCounts *k) {
    const json_t *grid          = json_object_get(o, "grid");
    int           blocks_per_sm = 0;
    double        flight        = 0.0;
    copy_text(json_string_value(json_object_get(o, "name")), k->name);
    copy_text(json_string_value(json_object_get(o, "node")), k->node);
    if (!json_is_array(grid) || json_array_size(grid) != 3) return missing(r, "grid", "3 numbers");
    k->blocks = 1.0;
    for (size_t d = 0; d < 3; d++) k->blocks *= json_number_value(json_array_get(grid, d));
    if (!(k->blocks >= 1.0)) return missing(r, "grid", "3 positive numbers");
    RP_TRY(get_optional(r, o, "sms", &k->sms));
    RP_TRY(get_number(r, o, "launches", 1, &k->launches));
    RP_TRY(get_int(r, o, "block", 1, 1024, &k->threads));
    RP_TRY(get_int(r, o, "registers", 1, 255, &k->registers)); /* 0: counted with --no-registers */
    RP_TRY(get_int(r, o, "shared_bytes", 0, 1 << 20, &k->shared_bytes));
    RP_TRY(get_int(r, o, "blocks_per_sm", 1, 64, &blocks_per_sm));
    RP_TRY(get_number(r, o, "bytes_in_flight", 0, &flight)); /* of a full SM of the counted architecture */
    k->warp_flight = flight / blocks_per_sm / ((k->threads + 31) / 32);
    RP_TRY(get_instructions(r, o, k));
    return get_traffic(r, o, k);
}

/* Reads a step and all its kernels. Counts of a prefill are refused: the model is made for decode. */
static RpStatus get_step(const char *path, const json_t *o, StepCounts *out) {
    Reader        r    = {.path = path};
    const json_t *list = json_object_get(o, "kernels"), *preset = json_object_get(o, "preset");
    const char   *phase    = json_string_value(json_object_get(o, "phase"));
    const json_t *position = json_object_get(o, "position");
    if (!json_is_array(list) || json_array_size(list) == 0 || phase == NULL || !json_is_integer(position))
        return rp_fail(RP_E_FORMAT, "%s: not the output of `reprise-sim bench counts --phase decode --json`", path);
    if (strcmp(phase, "decode") != 0)
        return rp_fail(RP_E_FORMAT, "%s: counts of phase '%s'; only decode is predicted", path, phase);
    copy_name(path, out->name);
    copy_text(json_string_value(preset), out->preset);
    out->position = (int)json_integer_value(position);
    out->kernels  = calloc(json_array_size(list), sizeof *out->kernels);
    if (out->kernels == NULL) return rp_fail(RP_E_NOMEM, "%s: out of memory", path);
    for (; r.kernel < (int)json_array_size(list); r.kernel++)
        RP_TRY(get_kernel(&r, json_array_get(list, (size_t)r.kernel), &out->kernels[r.kernel]));
    out->n_kernels = r.kernel;
    return RP_OK;
}

RpStatus cli_counts_read(const char *path, StepCounts *out) {
    Text         text;
    json_error_t error;
    *out = (StepCounts){0};
    RP_TRY(cli_read_text(NULL, path, &text));
    json_t  *json = json_loadb(text.bytes, text.n, 0, &error);
    RpStatus st;
    if (json == NULL)
        st = rp_fail(RP_E_FORMAT, "%s: line %d, column %d: %s", path, error.line, error.column, error.text);
    else
        st = get_step(path, json, out);
    json_decref(json);
    free(text.bytes);
    if (st != RP_OK) cli_counts_free(out);
    return st;
}

void cli_counts_free(StepCounts *c) {
    free(c->kernels);
    *c = (StepCounts){0};
}

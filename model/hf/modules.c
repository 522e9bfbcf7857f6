/* Directories of sentence-transformers: modules.json lists a Transformer, which is the model, the pooling of its
 * hidden states, and what happens to the pooled vector. Whether that is normalised is up to RpEmbedderOptions. */
#include "model/hf/hf.h"

#include <stdio.h>
#include <string.h>

typedef struct Mode {
    const char *name, *older; /* in "pooling_mode", and as a flag of older files */
    uint32_t    type;         /* <arch>.pooling_type; 0: the library lacks it */
} Mode;

static const Mode modes[] = {
    {"mean",                 "pooling_mode_mean_tokens",          1},
    {"cls",                  "pooling_mode_cls_token",            2},
    {"lasttoken",            "pooling_mode_lasttoken",            3},
    {"max",                  "pooling_mode_max_tokens",           0},
    {"mean_sqrt_len_tokens", "pooling_mode_mean_sqrt_len_tokens", 0},
    {"weightedmean",         "pooling_mode_weightedmean_tokens",  0},
};

enum { N_MODES = sizeof modes / sizeof modes[0] };

/* The type behind the last dot of "sentence_transformers.models.Pooling"; "": it is of another package. */
static RpGgufString last_word(RpGgufString type) {
    static const char package[] = "sentence_transformers.";
    if (type.len < sizeof package || memcmp(type.ptr, package, sizeof package - 1) != 0) return (RpGgufString){"", 0};
    const char *dot = memrchr(type.ptr, '.', type.len);
    return (RpGgufString){dot + 1, type.len - (size_t)(dot + 1 - type.ptr)};
}

static bool is(RpGgufString s, const char *text) { return s.len == strlen(text) && memcmp(s.ptr, text, s.len) == 0; }

typedef enum Kind { TRANSFORMER, POOLING, DENSE, NORMALIZE, N_KINDS } Kind;

typedef struct Modules {
    HfModel    *m;
    const Json *j;
    Kind        last;                     /* of the module before */
    char        pooling[HF_FOLDER_BYTES]; /* the folder of the pooling; "": there is none */
} Modules;

/* Keys of a linear layer that are not computed. */
static RpStatus check_dense(const Json *j) {
    static const char *const names[] = {"module_input_name", "module_output_name"};
    const JsonNode          *act     = rp_json_get(j, j->nodes, "activation_function");
    const JsonNode          *added   = rp_json_get(j, j->nodes, "use_residual");
    const RpGgufString       text    = rp_json_string(j, act);
    if (!rp_json_is(j, act, "torch.nn.modules.linear.Identity"))
        return rp_fail(RP_E_UNSUPPORTED,
                       "%s: activation_function '%.*s' is not supported (there is torch.nn.modules.linear.Identity)",
                       j->path, (int)(text.len < 96 ? text.len : 96), text.ptr);
    if (added != NULL && added->type == JSON_TRUE)
        return rp_fail(RP_E_UNSUPPORTED, "%s: use_residual is not supported", j->path);
    for (int i = 0; i < 2; i++) {
        const JsonNode *name = rp_json_get(j, j->nodes, names[i]);
        if (name != NULL && name->type != JSON_NULL && !rp_json_is(j, name, "sentence_embedding"))
            return rp_fail(RP_E_UNSUPPORTED, "%s: another %s than sentence_embedding is not supported", j->path,
                           names[i]);
    }
    return RP_OK;
}

/* config.json of a folder, which modules.json names. */
static RpStatus read_folder(HfModel *m, const char *folder, Json *out) {
    char name[HF_FOLDER_BYTES + 16];
    snprintf(name, sizeof name, "%s/config.json", folder);
    RP_TRY(rp_hf_json(&m->dir, name, out));
    return out->nodes != NULL ? RP_OK
                              : rp_fail(RP_E_IO, "%s: modules.json names a module in %s, and there is no %s",
                                        m->dir.path, folder, name);
}

static RpStatus add_dense(HfModel *m, const char *folder) {
    Json     j  = {0};
    RpStatus st = read_folder(m, folder, &j);
    if (st == RP_OK) st = check_dense(&j);
    rp_json_free(&j);
    if (st == RP_OK) memcpy(m->dense[m->n_dense++], folder, HF_FOLDER_BYTES);
    return st;
}

/* Whether a module of that kind may be number i. */
static bool has_place(const Modules *s, Kind kind, uint32_t i) {
    if (i == 0 || kind == TRANSFORMER) return i == 0 && kind == TRANSFORMER;
    if (kind == POOLING) return i == 1;
    return kind == NORMALIZE || (i > 1 && s->last != NORMALIZE && s->m->n_dense < HF_MAX_DENSE);
}

static RpStatus check_module(Modules *s, const JsonNode *x, uint32_t i) {
    static const char *const kinds[N_KINDS] = {"Transformer", "Pooling", "Dense", "Normalize"};
    const Json              *j              = s->j;
    const RpGgufString       type = rp_json_string(j, rp_json_get(j, x, "type")), word = last_word(type),
                       path      = rp_json_string(j, rp_json_get(j, x, "path"));
    char folder[HF_FOLDER_BYTES] = "";
    Kind kind                    = TRANSFORMER;
    while (kind < N_KINDS && !is(word, kinds[kind])) kind++;
    if (kind == N_KINDS)
        return rp_fail(RP_E_UNSUPPORTED,
                       "%s: module %u is a '%.*s', which is not supported (there are Transformer, Pooling, Dense and "
                       "Normalize)",
                       j->path, i, (int)(type.len < 96 ? type.len : 96), type.ptr);
    if (!has_place(s, kind, i))
        return rp_fail(RP_E_UNSUPPORTED, "%s: a %s as module %u is not supported", j->path, kinds[kind], i);
    s->last = kind;
    if (kind == NORMALIZE || (kind == TRANSFORMER && path.len == 0)) return RP_OK;
    if (kind == TRANSFORMER)
        return rp_fail(RP_E_UNSUPPORTED, "%s: a Transformer in the folder '%.*s' is not supported", j->path,
                       (int)(path.len < 96 ? path.len : 96), path.ptr);
    if (path.len == 0 || path.len >= sizeof folder || memchr(path.ptr, '\0', path.len) != NULL)
        return rp_fail(RP_E_FORMAT, "%s: the path of module %u is no name of a folder", j->path, i);
    memcpy(folder, path.ptr, path.len);
    if (kind == DENSE) return add_dense(s->m, folder);
    memcpy(s->pooling, folder, sizeof folder);
    return RP_OK;
}

/* The options of the Transformer: the first file of these names, as sentence-transformers looks for them. */
static RpStatus read_sentences(HfModel *m) {
    static const char *const kinds[] = {"bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet"};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0] && m->sentences.nodes == NULL; i++) {
        char name[64];
        snprintf(name, sizeof name, "sentence_%s_config.json", kinds[i]);
        RP_TRY(rp_hf_json(&m->dir, name, &m->sentences));
    }
    return RP_OK;
}

/* Without modules.json the pooling is in the folder that most directories have. */
RpStatus rp_hf_modules(HfModel *m) {
    Json     list = {0};
    Modules  s    = {.m = m, .j = &list};
    uint32_t i    = 0;
    RP_TRY(read_sentences(m));
    RpStatus st = rp_hf_json_list(&m->dir, "modules.json", &list);
    if (st == RP_OK && list.nodes == NULL) return rp_hf_json(&m->dir, "1_Pooling/config.json", &m->pooling);
    const JsonNode *x = st == RP_OK ? rp_json_first(&list, list.nodes) : NULL;
    for (; x != NULL && st == RP_OK; x = rp_json_next(&list, list.nodes, x)) st = check_module(&s, x, i++);
    rp_json_free(&list);
    RP_TRY(st);
    return s.pooling[0] != '\0' ? read_folder(m, s.pooling, &m->pooling) : RP_OK;
}

static RpStatus put_mode(const HfModel *m, RpGgufString name) {
    const char *path = m->pooling.path;
    for (int i = 0; i < N_MODES; i++)
        if (is(name, modes[i].name) && modes[i].type > 0) {
            rp_hf_put_u32(m, "pooling_type", modes[i].type);
            return RP_OK;
        }
    return rp_fail(RP_E_UNSUPPORTED, "%s: pooling_mode '%.*s' is not supported (there are mean, cls and lasttoken)",
                   path, (int)(name.len < 32 ? name.len : 32), name.ptr);
}

/* "pooling_mode" of newer files: a name, or a list of names whose vectors follow one another. */
static RpStatus newer_mode(const HfModel *m, const JsonNode *mode) {
    const Json     *j   = &m->pooling;
    const JsonNode *one = mode->type == JSON_ARRAY ? rp_json_first(j, mode) : mode;
    if (one == NULL || one->type != JSON_STRING)
        return rp_fail(RP_E_FORMAT, "%s: pooling_mode is neither a text nor a list of texts", j->path);
    if (mode->type == JSON_ARRAY && mode->n > 1)
        return rp_fail(RP_E_UNSUPPORTED, "%s: two modes of pooling are not supported", j->path);
    return put_mode(m, rp_json_string(j, one));
}

RpStatus rp_hf_pooling(HfModel *m) {
    const Json *j   = &m->pooling;
    int         set = -1;
    if (j->nodes == NULL) return RP_OK;
    const JsonNode *newer = rp_json_get(j, j->nodes, "pooling_mode");
    if (newer != NULL) return newer_mode(m, newer);
    for (int i = 0; i < N_MODES; i++) {
        const JsonNode *flag = rp_json_get(j, j->nodes, modes[i].older);
        if (flag == NULL || flag->type != JSON_TRUE) continue;
        if (modes[i].type == 0) return rp_fail(RP_E_UNSUPPORTED, "%s: %s is not supported", j->path, modes[i].older);
        if (set >= 0) return rp_fail(RP_E_UNSUPPORTED, "%s: two modes of pooling are not supported", j->path);
        set = i;
    }
    rp_hf_put_u32(m, "pooling_type", modes[set >= 0 ? set : 0].type); /* mean, if no flag is set */
    return RP_OK;
}

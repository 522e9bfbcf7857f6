/* The sampling that a model file recommends: general.sampling.*, which llama.cpp's converter takes from
 * generation_config.json. */
#include "base/argument.h"
#include "base/sized.h"
#include "model/gguf/gguf_file.h"
#include "model/sampler/chain.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_RECENT = 1048576 };

static const struct {
    const char *key, *name; /* general.sampling.KEY; the member of RpSamplerParams */
    size_t      at;         /* its offset */
    bool        whole;
    double      least, most;
} rows[] = {
    {"temp",            "temperature",     offsetof(RpSamplerParams, temperature),     false, 0.0,             1e6        },
    {"top_k",           "top_k",           offsetof(RpSamplerParams, top_k),           true,  -1.0,            INT32_MAX  },
    {"top_p",           "top_p",           offsetof(RpSamplerParams, top_p),           false, (double)FLT_MIN, 1.0        },
    {"min_p",           "min_p",           offsetof(RpSamplerParams, min_p),           false, 0.0,             1.0        },
    {"penalty_repeat",  "repeat_penalty",  offsetof(RpSamplerParams, repeat_penalty),  false, (double)FLT_MIN, 1e6        },
    {"penalty_last_n",  "repeat_last_n",   offsetof(RpSamplerParams, repeat_last_n),   true,  -1.0,            MOST_RECENT},
    {"xtc_probability", "xtc_probability", offsetof(RpSamplerParams, xtc_probability), false, 0.0,             1.0        },
    {"xtc_threshold",   "xtc_threshold",   offsetof(RpSamplerParams, xtc_threshold),   false, 0.0,             1.0        },
    {"mirostat",        "mirostat",        offsetof(RpSamplerParams, mirostat),        true,  0.0,             2.0        },
    {"mirostat_tau",    "mirostat_tau",    offsetof(RpSamplerParams, mirostat_tau),    false, 0.0,             1e6        },
    {"mirostat_eta",    "mirostat_eta",    offsetof(RpSamplerParams, mirostat_eta),    false, 0.0,             1e6        },
};
enum { N_ROWS = sizeof rows / sizeof *rows };

static void *member(RpSamplerParams *p, int i) { return (char *)p + rows[i].at; }

static bool is_unset(RpSamplerParams *p, int i) {
    return rows[i].whole ? *(int32_t *)member(p, i) == INT32_MIN : isnan(*(float *)member(p, i));
}

static void set(RpSamplerParams *p, int i, double x) {
    if (rows[i].whole)
        *(int32_t *)member(p, i) = (int32_t)x;
    else
        *(float *)member(p, i) = (float)x;
}

/* The value of the file in *x; NaN: it has none. */
static RpStatus read_row(const RpGgufFile *f, int i, double *x) {
    char key[64];
    snprintf(key, sizeof key, "general.sampling.%s", rows[i].key);
    const RpGgufValue *v = rp_gguf_find(f, key);
    *x                   = (double)NAN;
    if (v == NULL) return RP_OK;
    if (v->type == RP_GGUF_STRING || v->type == RP_GGUF_ARRAY)
        return rp_fail(RP_E_FORMAT, "%s: %s is no number", rp_gguf_path(f), key);
    *x = rp_gguf_number_at(v, 0);
    const bool bad =
        rows[i].whole && (*x != floor(*x) || (rows[i].most == 2.0 && *x == 1.0)); /* there is no Mirostat 1 */
    if (!(*x >= rows[i].least && *x <= rows[i].most) || bad)
        return rp_fail(RP_E_FORMAT, "%s: %s is %g, which a sampler does not take", rp_gguf_path(f), key, *x);
    if (*x == -1.0) *x = rows[i].at == offsetof(RpSamplerParams, top_k) ? 0.0 : MOST_RECENT; /* llama.cpp: all */
    return RP_OK;
}

static void say(char *text, size_t bytes, const char *name, double x) {
    const size_t n = strlen(text);
    snprintf(text + n, bytes - n, "%s%s %g", n > 0 ? ", " : "", name, x);
}

/* A file that names steps without a temperature means 1, the default of transformers. */
static RpStatus find_temperature(const RpGgufFile *f, double *out) {
    RP_TRY(read_row(f, 0, out));
    for (int i = 1; i <= 3 && isnan(*out); i++) {
        double x;
        RP_TRY(read_row(f, i, &x));
        if (!isnan(x)) *out = 1.0;
    }
    return RP_OK;
}

/* The order of the steps; *said: the file gave another one than the usual. Unset is NULL, as in the defaults. */
static RpStatus find_order(const RpGgufFile *f, RpSamplerParams *p, bool *said) {
    int8_t   order[MAX_STEPS], usual[MAX_STEPS];
    RpStatus st;
    char     why[256];
    *said = p->samplers == NULL && f->samplers != NULL && f->samplers[0] != '\0';
    if (p->samplers == NULL && f->samplers == NULL && rp_gguf_find(f, "general.sampling.sequence") != NULL)
        return rp_fail(RP_E_FORMAT, "%s: general.sampling.sequence is no text", rp_gguf_path(f));
    if (!*said) return RP_OK;
    const int n = rp_chain_order(f->samplers, order, &st);
    snprintf(why, sizeof why, "%s", rp_last_error());
    if (st != RP_OK) return rp_fail(RP_E_FORMAT, "%s: general.sampling.sequence: %s", rp_gguf_path(f), why);
    *said = rp_chain_order(NULL, usual, &st) != n || memcmp(order, usual, (size_t)n * sizeof *order) != 0;
    if (*said) p->samplers = f->samplers; /* a GPU samples in the usual order only */
    return RP_OK;
}

void rp_sampler_unset_sized(RpSamplerParams *out, size_t out_bytes) {
    RpSamplerParams p = rp_sampler_defaults();
    for (int i = 0; i < N_ROWS; i++) set(&p, i, rows[i].whole ? (double)INT32_MIN : (double)NAN);
    rp_sized_out(out, out_bytes, &p, sizeof p);
}

RpStatus rp_sampler_recommended_sized(const RpGgufFile *f, RpSamplerParams *params, size_t params_bytes, char *said,
                                      size_t said_bytes) {
    RP_NOT_NULL(f, "f");
    RP_NOT_NULL(params, "params");
    RpSamplerParams p, defaults = rp_sampler_defaults();
    char            text[512] = "";
    if (said != NULL && said_bytes > 0) said[0] = '\0';
    RP_TRY(rp_sized_in(&p, sizeof p, params, params_bytes, "RpSamplerParams"));
    for (int i = 0; i < N_ROWS; i++) {
        double x;
        if (!is_unset(&p, i)) continue;
        RP_TRY(i == 0 ? find_temperature(f, &x) : read_row(f, i, &x));
        if (isnan(x)) {
            memcpy(member(&p, i), member(&defaults, i), sizeof(int32_t));
            continue;
        }
        set(&p, i, x);
        say(text, sizeof text, rows[i].name, x);
    }
    bool ordered;
    RP_TRY(find_order(f, &p, &ordered));
    const size_t n = strlen(text);
    if (ordered) snprintf(text + n, sizeof text - n, "%ssamplers %s", n > 0 ? ", " : "", p.samplers);
    rp_sized_out(params, params_bytes, &p, sizeof p);
    if (said != NULL && said_bytes > 0) snprintf(said, said_bytes, "%s", text);
    return RP_OK;
}

/* Factors of rows of weights, which Falcon-H1 gives in config.json for each projection. They are multiplied into copies
 * of the weights, as convert_hf_to_gguf.py does. A weight whose factors are 1 is mapped. */
#include "model/hf/hf.h"
#include "reprise/quants.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const HfFactor *rp_hf_factor(const HfModel *m, const char *name) {
    const char *in_layer = strncmp(name, "blk.", 4) == 0 ? strchr(name + 4, '.') : NULL;
    for (int i = 0; i < m->n_factors && in_layer != NULL; i++)
        if (strcmp(in_layer + 1, m->factors[i].name) == 0) return &m->factors[i];
    return NULL;
}

RpStatus rp_hf_multiply(const HfModel *m, const HfFactor *f, const char *name, RpDtype from, const void *in,
                        const RpTensorView *out) {
    const int64_t n    = out->ne[0];
    const size_t  each = rp_row_bytes(from, n), out_bytes = rp_row_bytes(out->dtype, n);
    char         *raw = malloc(each + 1); /* rows of the file may be at odd addresses */
    float        *row = malloc((size_t)n * sizeof *row + 1);
    RpStatus      st =
        raw != NULL && row != NULL ? RP_OK : rp_fail(RP_E_NOMEM, "out of memory for rows of %lld", (long long)n);
    int part = 0;
    for (int64_t r = 0, end = f->rows[0]; r < rp_view_rows(out) && st == RP_OK; r++) {
        while (r >= end && part + 1 < f->n) end += f->rows[++part];
        char *to = (char *)out->data + (size_t)r * out_bytes;
        memcpy(raw, (const char *)in + (size_t)r * each, each);
        rp_dequantize_row(from, raw, n, row);
        for (int64_t i = 0; i < n; i++) row[i] *= (float)f->by[part];
        st = rp_quantize_row(out->dtype, row, n, to);
        if (st == RP_OK) rp_dequantize_row(out->dtype, to, n, row);
        for (int64_t i = 0; i < n && st == RP_OK; i++)
            if (!isfinite(row[i]))
                st = rp_fail(RP_E_FORMAT,
                             "%s: tensor %s: a product with its multiplier is beyond the numbers of its type",
                             m->dir.path, name);
    }
    free(raw);
    free(row);
    return st;
}

static bool is_one(const HfFactor *f) {
    for (int i = 0; i < f->n; i++)
        if (f->by[i] != 1.0) return false;
    return true;
}

static void add(HfModel *m, const HfFactor *f) {
    if (!is_one(f)) m->factors[m->n_factors++] = *f;
}

/* A list of n numbers; 1 where there is none. */
static RpStatus numbers(const HfModel *m, const char *name, int n, double *out) {
    const JsonNode *list = rp_hf_value(m, name), *x = list != NULL ? rp_json_first(&m->config, list) : NULL;
    if (list != NULL && (list->type != JSON_ARRAY || list->n != (uint32_t)n))
        return rp_fail(RP_E_FORMAT, "%s: %s is not a list of %d numbers", m->config.path, name, n);
    for (int i = 0; i < n; i++) {
        out[i] = x != NULL ? rp_json_number(&m->config, x) : 1.0;
        if (!(out[i] > -1e6 && out[i] < 1e6))
            return rp_fail(RP_E_FORMAT, "%s: %s has an element that is no number from -1e6 to 1e6", m->config.path,
                           name);
        if (x != NULL) x = rp_json_next(&m->config, list, x);
    }
    return RP_OK;
}

/* Rows of ssm_in: z and x of `inner` channels, b and c of all groups, a step of each head. */
RpStatus rp_hf_falcon_factors(HfModel *m, int64_t inner) {
    double   in, key, out, mlp[2], ssm_in, ssm_out, ssm[5];
    uint32_t state;
    RP_TRY(rp_hf_number(m, m->text, "attention_in_multiplier", 1.0, &in));
    RP_TRY(rp_hf_number(m, m->text, "key_multiplier", 1.0, &key));
    RP_TRY(rp_hf_number(m, m->text, "attention_out_multiplier", 1.0, &out));
    RP_TRY(rp_hf_number(m, m->text, "ssm_in_multiplier", 1.0, &ssm_in));
    RP_TRY(rp_hf_number(m, m->text, "ssm_out_multiplier", 1.0, &ssm_out));
    RP_TRY(numbers(m, "mlp_multipliers", 2, mlp));
    RP_TRY(numbers(m, "ssm_multipliers", 5, ssm));
    RP_TRY(rp_hf_count(m, "mamba_d_state", (double)NAN, &state));
    for (int i = 0; i < 5; i++) ssm[i] *= ssm_in;
    const int64_t bc = m->sizes.n_group * state;
    add(m, &(HfFactor){.name = "attn_q.weight", .n = 1, .by = {in}});
    add(m, &(HfFactor){.name = "attn_k.weight", .n = 1, .by = {in * key}});
    add(m, &(HfFactor){.name = "attn_v.weight", .n = 1, .by = {in}});
    add(m, &(HfFactor){.name = "attn_output.weight", .n = 1, .by = {out}});
    add(m, &(HfFactor){.name = "ffn_gate.weight", .n = 1, .by = {mlp[0]}});
    add(m, &(HfFactor){.name = "ffn_down.weight", .n = 1, .by = {mlp[1]}});
    add(m, &(HfFactor){.name = "ssm_out.weight", .n = 1, .by = {ssm_out}});
    add(m, &(HfFactor){
               .name = "ssm_in.weight",
               .n    = 5,
               .rows = {inner,  inner,  bc,     bc,     0     },
               .by   = {ssm[0], ssm[1], ssm[2], ssm[3], ssm[4]}
    });
    return RP_OK;
}

/* The activation of the feed-forward, and its numbers in the file. */
#include "model/config.h"

#include <math.h>
#include <string.h>

/* Files of ModernBERT may say the activation: Granite Embedding R2 with 97M parameters has SiLU. */
static RpStatus read_name(const ConfigReader *r, ModelConfig *c) {
    static const struct {
        const char *name;
        Activation  activation;
    } names[] = {
        {"gelu", ACTIVATION_GELU_TANH},
        {"silu", ACTIVATION_SILU     }
    };
    char         key[128];
    RpGgufString s = {"", 0};
    RP_TRY(rp_gguf_get_string(r->file, rp_config_key(r, "hidden_activation", key, sizeof key), &s));
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (s.len == strlen(names[i].name) && memcmp(s.ptr, names[i].name, s.len) == 0) {
            c->activation = names[i].activation;
            return RP_OK;
        }
    if (s.len == 0) return RP_OK;
    return rp_fail(RP_E_UNSUPPORTED, "%s: %s '%.*s' is not supported (there are gelu and silu)", rp_gguf_path(r->file),
                   key, (int)(s.len < 32 ? s.len : 32), s.ptr);
}

/* Numbers of xIELU, of all layers or of each. Files have them before softplus(x) = log(1 + exp(x)):
 *
 *     positive = softplus(xielu.alpha_p),  negative = xielu.beta + softplus(xielu.alpha_n) */
enum { ALPHA_P, ALPHA_N, BETA, EPS };

static RpStatus read_xielu(const ConfigReader *r, ModelConfig *c) {
    static const char *const keys[] = {
        [ALPHA_P] = "xielu.alpha_p", [ALPHA_N] = "xielu.alpha_n", [BETA] = "xielu.beta", [EPS] = "xielu.eps"};
    for (int k = 0; k < 4; k++) {
        const RpGgufValue *v = rp_gguf_find(r->file, keys[k]);
        if (v == NULL) return rp_fail(RP_E_FORMAT, "%s: %s is missing", rp_gguf_path(r->file), keys[k]);
        const bool list = v->type == RP_GGUF_ARRAY;
        if ((list ? v->elem_type : v->type) != RP_GGUF_F32 || (list && v->n != (uint64_t)c->n_layer))
            return rp_fail(RP_E_FORMAT, "%s: %s must be a float, or an array of %d, one for each layer",
                           rp_gguf_path(r->file), keys[k], c->n_layer);
        for (uint64_t i = 0; i < (list ? v->n : 1); i++) {
            const double x = rp_gguf_number_at(v, i);
            if (!isfinite(x) || (k == EPS && !(x < 0.0)))
                return rp_fail(RP_E_FORMAT, "%s: %s is %g for layer %llu, must be %s", rp_gguf_path(r->file), keys[k],
                               x, (unsigned long long)i, k == EPS ? "below 0" : "finite");
        }
        c->xielu[k] = v;
    }
    return RP_OK;
}

static double softplus(double x) { return x > 30.0 ? x : log1p(exp(x)); }

RpXieluParams rp_config_xielu(const ModelConfig *c, int layer) {
    double x[4];
    for (int k = 0; k < 4; k++)
        x[k] = rp_gguf_number_at(c->xielu[k], c->xielu[k]->type == RP_GGUF_ARRAY ? (uint64_t)layer : 0);
    return (RpXieluParams){.positive = (float)softplus(x[ALPHA_P]),
                           .negative = (float)(x[BETA] + softplus(x[ALPHA_N])),
                           .beta     = (float)x[BETA],
                           .eps      = (float)x[EPS]};
}

RpStatus rp_config_read_activation(const ConfigReader *r, ModelConfig *c) {
    c->activation = c->arch->activation;
    if (c->activation == ACTIVATION_XIELU) return read_xielu(r, c);
    return c->arch->first_bare ? read_name(r, c) : RP_OK;
}

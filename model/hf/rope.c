/* RoPE scaling: "rope_scaling" and "rope_theta" of config.json, or "rope_parameters" of newer files, which for
 * models with two kinds of layers has one object for each. */
#include "model/hf/hf.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Adds a vector to the tensors of the file. */
static RpStatus add_vector(HfModel *m, const char *name, int64_t n, float **out) {
    *out = calloc((size_t)n + 1, sizeof **out);
    if (*out == NULL || m->n_vectors == HF_MAX_VECTORS) {
        free(*out);
        return rp_fail(RP_E_NOMEM, "%s: out of memory", m->dir.path);
    }
    m->vectors[m->n_vectors++] = (HfVector){.name = name, .x = *out, .n = n};
    return RP_OK;
}

/* original_max_position_embeddings stands in the scaling, or in config.json itself, which transformers prefers. */
static RpStatus original_context(const HfModel *m, const JsonNode *scaling, uint32_t n_trained, double *out) {
    static const char name[] = "original_max_position_embeddings";
    const bool        phi3   = strcmp(m->family->arch, "phi3") == 0; /* which has a default of its own */
    double            outer;
    RP_TRY(rp_hf_number(m, m->text, name, phi3 ? 4096.0 : n_trained, &outer));
    RP_TRY(rp_hf_number(m, scaling, name, outer, out));
    if (*out != outer && (phi3 || rp_hf_value(m, name) != NULL))
        return rp_fail(RP_E_UNSUPPORTED, "%s: %s is both %g and %g", m->config.path, name, outer, *out);
    if (*out >= 2.0 && *out <= 2147483647.0) return RP_OK;
    return rp_fail(RP_E_FORMAT, "%s: %s is %g", m->config.path, name, *out);
}

/* Llama 3.1: pairs that turn seldom are slowed down by `factor`, and those between are blended. GGUF keeps the
 * divisors of the frequencies. */
static RpStatus llama3(HfModel *m, const JsonNode *scaling, uint32_t head_dim, uint32_t n_trained, double base) {
    double factor, low, high, n_orig;
    RP_TRY(rp_hf_number(m, scaling, "factor", (double)NAN, &factor));
    RP_TRY(rp_hf_number(m, scaling, "low_freq_factor", 1.0, &low));
    RP_TRY(rp_hf_number(m, scaling, "high_freq_factor", 4.0, &high));
    RP_TRY(original_context(m, scaling, n_trained, &n_orig));
    if (!(factor >= 1.0) || !(low > 0.0) || !(high > low) || head_dim < 2 || head_dim > 65536)
        return rp_fail(RP_E_FORMAT, "%s: rope scaling llama3 by %g between %g and %g is not possible", m->config.path,
                       factor, low, high);
    float *factors;
    RP_TRY(add_vector(m, "rope_freqs.weight", head_dim / 2, &factors));
    for (uint32_t i = 0; i < head_dim / 2; i++) {
        const double turns =
            n_orig * pow(base, -2.0 * i / head_dim) / (2.0 * 3.14159265358979323846); /* in the old context */
        double divisor = turns < low ? factor : 1.0;
        if (turns >= low && turns <= high) {
            const double smooth = (turns - low) / (high - low);
            divisor             = 1.0 / ((1.0 - smooth) / factor + smooth);
        }
        factors[i] = (float)divisor;
    }
    return RP_OK;
}

typedef struct YarnNumbers {
    double factor, n_orig, fast, slow, magnitude;
} YarnNumbers;

static RpStatus read_factor(const HfModel *m, const JsonNode *scaling, uint32_t n_trained, double *factor,
                            double *n_orig) {
    RP_TRY(rp_hf_number(m, scaling, "factor", (double)NAN, factor));
    RP_TRY(original_context(m, scaling, n_trained, n_orig));
    if (*factor >= 1.0) return RP_OK;
    return rp_fail(RP_E_FORMAT, "%s: rope scaling by %g from a context of %g is not possible", m->config.path, *factor,
                   *n_orig);
}

static void put_scaling(const HfModel *m, const char *type, double factor, double n_orig) {
    rp_hf_put_text(m, "rope.scaling.type", type);
    rp_hf_put_f32(m, "rope.scaling.factor", factor);
    rp_hf_put_u32(m, "rope.scaling.original_context_length", (uint32_t)n_orig);
}

static RpStatus linear(const HfModel *m, const JsonNode *scaling, uint32_t n_trained) {
    double factor, n_orig;
    RP_TRY(read_factor(m, scaling, n_trained, &factor, &n_orig));
    put_scaling(m, "linear", factor, n_orig);
    return RP_OK;
}

/* A multiplier m of YaRN's magnitude. */
static double yarn_magnitude(double factor, double m) { return 1.0 + 0.1 * m * log(factor); }

/* If the borders of YaRN are not rounded to whole pairs, each pair has a divisor. Behind the pair that turns beta_slow
 * times in the old context, frequencies are divided by `factor`. Before the pair that turns beta_fast times they are
 * unchanged, and between the two they are blended. Equal to Peng et al. 2023 (arXiv:2309.00071) without rounding. */
static RpStatus yarn_factors(HfModel *m, const YarnNumbers *y, uint32_t head_dim, double base) {
    const double turns = head_dim / (2.0 * log(base)), pi = 3.14159265358979323846;
    double low = turns * log(y->n_orig / (y->fast * 2.0 * pi)), high = turns * log(y->n_orig / (y->slow * 2.0 * pi));
    float *out;
    low  = fmax(low, 0.0);
    high = fmin(high, head_dim - 1.0);
    if (low == high) high += 0.001;
    RP_TRY(add_vector(m, "rope_freqs.weight", head_dim / 2, &out));
    for (uint32_t i = 0; i < head_dim / 2; i++) {
        const double ramp = fmin(fmax((i - low) / (high - low), 0.0), 1.0);
        out[i]            = (float)(1.0 / (ramp / y->factor + 1.0 - ramp));
    }
    rp_hf_put_f32(m, "rope.scaling.attn_factor", y->magnitude);
    return RP_OK;
}

/* attention_factor is the magnitude itself; GGUF has what multiplies 1 + 0.1 ln(factor). */
static RpStatus yarn(HfModel *m, const JsonNode *scaling, uint32_t head_dim, uint32_t n_trained, double base) {
    YarnNumbers y;
    double      mscale, all;
    bool        whole;
    RP_TRY(read_factor(m, scaling, n_trained, &y.factor, &y.n_orig));
    RP_TRY(rp_hf_number(m, scaling, "beta_fast", 32.0, &y.fast));
    RP_TRY(rp_hf_number(m, scaling, "beta_slow", 1.0, &y.slow));
    RP_TRY(rp_hf_number(m, scaling, "mscale", 0.0, &mscale));
    RP_TRY(rp_hf_number(m, scaling, "mscale_all_dim", 0.0, &all));
    RP_TRY(rp_hf_flag(m, scaling, "truncate", true, &whole));
    const double usual = yarn_magnitude(y.factor, 1.0),
                 both  = yarn_magnitude(y.factor, mscale) / yarn_magnitude(y.factor, all);
    RP_TRY(rp_hf_number(m, scaling, "attention_factor", mscale != 0.0 && all != 0.0 ? both : usual, &y.magnitude));
    if (m->family->latent) {
        if (fabs(y.magnitude - 1.0) > 1e-9 || !whole)
            return rp_hf_refuse(m, "mscale", "YaRN of latent attention whose mscale is not mscale_all_dim");
        put_scaling(m, "yarn", y.factor, y.n_orig);
        rp_hf_put_f32(m, "rope.scaling.yarn_beta_fast", y.fast);
        rp_hf_put_f32(m, "rope.scaling.yarn_beta_slow", y.slow);
        rp_hf_put_f32(m, "rope.scaling.yarn_log_multiplier", 0.1 * all);
        /* the magnitude of mistral4 is usual / yarn_magnitude(all) */
        if (strcmp(m->family->arch, "mistral4") == 0)
            rp_hf_put_f32(m, "rope.scaling.attn_factor", yarn_magnitude(y.factor, all) / usual);
        return RP_OK;
    }
    if (!whole) {
        if (!(y.fast > 0.0 && y.slow > 0.0 && base > 1.0) || head_dim < 2 || head_dim > 65536)
            return rp_fail(RP_E_FORMAT, "%s: YaRN between %g and %g turns is not possible", m->config.path, y.fast,
                           y.slow);
        return yarn_factors(m, &y, head_dim, base);
    }
    put_scaling(m, "yarn", y.factor, y.n_orig);
    rp_hf_put_f32(m, "rope.scaling.yarn_beta_fast", y.fast);
    rp_hf_put_f32(m, "rope.scaling.yarn_beta_slow", y.slow);
    rp_hf_put_f32(m, "rope.scaling.attn_factor", y.magnitude / usual);
    return RP_OK;
}

/* A divisor for each pair. */
static RpStatus copy_factors(HfModel *m, const JsonNode *scaling, const char *key, const char *name, uint32_t n_pairs) {
    const JsonNode *list = rp_json_get(&m->config, scaling, key),
                   *x    = list != NULL ? rp_json_first(&m->config, list) : NULL;
    float *out;
    if (list == NULL || list->type != JSON_ARRAY || list->n != n_pairs)
        return rp_fail(RP_E_FORMAT, "%s: %s is not a list of %u numbers", m->config.path, key, n_pairs);
    RP_TRY(add_vector(m, name, n_pairs, &out));
    for (uint32_t i = 0; i < n_pairs; i++, x = rp_json_next(&m->config, list, x)) {
        out[i] = (float)rp_json_number(&m->config, x);
        if (!(out[i] > 0.0f) || !isfinite(out[i]))
            return rp_fail(RP_E_FORMAT, "%s: %s has an element that is no positive number", m->config.path, key);
    }
    return RP_OK;
}

/* Phi 3: other divisors for contexts beyond the original one. The magnitude is attention_factor, or
 * sqrt(1 + ln(factor) / ln(n_orig)) with the factor n_trained / n_orig where none is given. */
static RpStatus longrope(HfModel *m, const JsonNode *scaling, uint32_t head_dim, uint32_t n_trained) {
    double n_orig, magnitude, longer;
    RP_TRY(original_context(m, scaling, n_trained, &n_orig));
    RP_TRY(rp_hf_number(m, scaling, "factor", n_trained / n_orig, &longer));
    RP_TRY(rp_hf_number(m, scaling, "attention_factor", longer > 1.0 ? sqrt(1.0 + log(longer) / log(n_orig)) : 1.0,
                        &magnitude));
    rp_hf_put_text(m, "rope.scaling.type", "longrope");
    rp_hf_put_f32(m, "rope.scaling.attn_factor", magnitude);
    rp_hf_put_u32(m, "rope.scaling.original_context_length", (uint32_t)n_orig);
    RP_TRY(copy_factors(m, scaling, "long_factor", "rope_factors_long.weight", head_dim / 2));
    return copy_factors(m, scaling, "short_factor", "rope_factors_short.weight", head_dim / 2);
}

/* Gemma 4: the first pairs of a head rotate, and the others have a divisor that leaves no angle. */
static RpStatus proportional(HfModel *m, const JsonNode *scaling, uint32_t head_dim) {
    double part, factor;
    float *out;
    RP_TRY(rp_hf_number(m, scaling, "partial_rotary_factor", 1.0, &part));
    RP_TRY(rp_hf_number(m, scaling, "factor", 1.0, &factor));
    if (factor != 1.0) return rp_hf_refuse(m, "factor", "proportional RoPE with a factor");
    if (!(part > 0.0 && part <= 1.0))
        return rp_fail(RP_E_FORMAT, "%s: partial_rotary_factor is %g", m->config.path, part);
    RP_TRY(add_vector(m, "rope_freqs.weight", head_dim / 2, &out));
    const uint32_t n = (uint32_t)(part * head_dim / 2.0);
    for (uint32_t i = 0; i < head_dim / 2; i++) out[i] = i < n ? 1.0f : 1e30f;
    return RP_OK;
}

const JsonNode *rp_hf_rope_type(const HfModel *m, const JsonNode *scaling) {
    const JsonNode *type = rp_json_get(&m->config, scaling, "rope_type");
    return type != NULL ? type : rp_json_get(&m->config, scaling, "type");
}

/* Without a type there may only be what every type has. */
static RpStatus check_untyped(const HfModel *m, const JsonNode *scaling) {
    const Json *j = &m->config;
    for (const JsonNode *x = rp_json_first(j, scaling); x != NULL; x = rp_json_next(j, scaling, x)) {
        const RpGgufString key  = rp_json_key(j, x);
        const bool         base = key.len == 10 && memcmp(key.ptr, "rope_theta", 10) == 0,
                   part         = key.len == 21 && memcmp(key.ptr, "partial_rotary_factor", 21) == 0;
        if (!base && !part)
            return rp_fail(RP_E_FORMAT, "%s: rope_type is missing beside %.*s", m->config.path,
                           (int)(key.len < 48 ? key.len : 48), key.ptr);
    }
    return RP_OK;
}

static bool is_gemma4(const HfModel *m) { return strncmp(m->family->arch, "gemma4", 6) == 0; } /* or its assistant */

/* Older files of Phi 3 call it "su" or "yarn". */
static bool is_longrope(const HfModel *m, const JsonNode *type) {
    const Json *j = &m->config;
    return strcmp(m->family->arch, "phi3") == 0 &&
           (rp_json_is(j, type, "longrope") || rp_json_is(j, type, "su") || rp_json_is(j, type, "yarn"));
}

static RpStatus scaling_of(HfModel *m, const JsonNode *scaling, uint32_t head_dim, uint32_t n_trained, double base) {
    const JsonNode *type = rp_hf_rope_type(m, scaling);
    if (type == NULL) return check_untyped(m, scaling);
    /* the dynamic scaling begins behind max_position_embeddings, where no session goes */
    if (rp_json_is(&m->config, type, "default") || rp_json_is(&m->config, type, "dynamic")) return RP_OK;
    /* of older files of Qwen2-VL: sections without scaling */
    if (rp_json_is(&m->config, type, "mrope") && strcmp(m->family->arch, "qwen2vl") == 0) return RP_OK;
    if (rp_json_is(&m->config, type, "linear")) return linear(m, scaling, n_trained);
    if (is_longrope(m, type)) return longrope(m, scaling, head_dim, n_trained);
    if (rp_json_is(&m->config, type, "yarn")) return yarn(m, scaling, head_dim, n_trained, base);
    if (rp_json_is(&m->config, type, "llama3")) return llama3(m, scaling, head_dim, n_trained, base);
    if (rp_json_is(&m->config, type, "proportional") && is_gemma4(m)) return proportional(m, scaling, head_dim);
    const RpGgufString text = rp_json_string(&m->config, type);
    return rp_fail(RP_E_UNSUPPORTED,
                   "%s: rope_type '%.*s' is not supported (there are default, dynamic, linear, llama3, yarn, "
                   "longrope of Phi3, and proportional of Gemma4)",
                   m->config.path, (int)(text.len < 32 ? text.len : 32), text.ptr);
}

/* Where config.json has rope_parameters and rope_scaling, transformers takes rope_scaling, unless it is empty. */
const JsonNode *rp_hf_rope_object(const HfModel *m) {
    const JsonNode *newer = rp_hf_value(m, "rope_parameters"), *older = rp_hf_value(m, "rope_scaling");
    return newer == NULL || (older != NULL && (older->type != JSON_OBJECT || older->n > 0)) ? older : newer;
}

/* Hunyuan: a fixed alpha stretches the base, beside the type dynamic. */
static RpStatus stretch_base(const HfModel *m, const JsonNode *scaling, uint32_t head_dim, double *base) {
    double       alpha;
    const double d = head_dim;
    if (strncmp(m->family->arch, "hunyuan", 7) != 0 || !rp_json_is(&m->config, rp_hf_rope_type(m, scaling), "dynamic"))
        return RP_OK;
    RP_TRY(rp_hf_number(m, scaling, "alpha", 0.0, &alpha));
    if (alpha == 0.0) return RP_OK;
    if (!(alpha >= 1.0) || head_dim <= 2)
        return rp_fail(RP_E_FORMAT, "%s: alpha is %g for heads of %u", m->config.path, alpha, head_dim);
    *base *= pow(alpha, d / (d - 2.0));
    return RP_OK;
}

/* *full: the object of a model with one kind of layers, or of its layers without a window; NULL: there is none. */
static RpStatus rope_objects(const HfModel *m, const JsonNode **full, const JsonNode **window) {
    const JsonNode *newer = rp_hf_value(m, "rope_parameters"), *one = rp_hf_rope_object(m);
    *full   = one;
    *window = NULL;
    if (newer != NULL && one != newer && m->family->windows) /* some such families merge the two objects */
        return rp_hf_refuse(m, "rope_scaling", "it beside rope_parameters");
    if (newer != NULL && one == newer && rp_json_get(&m->config, newer, "full_attention") != NULL) {
        *full   = rp_json_get(&m->config, newer, "full_attention");
        *window = rp_json_get(&m->config, newer, "sliding_attention");
    }
    if (*window != NULL && (*window)->type == JSON_NULL) *window = NULL;
    if ((*full == NULL || (*full)->type == JSON_OBJECT) && (*window == NULL || (*window)->type == JSON_OBJECT))
        return RP_OK;
    return rp_fail(RP_E_FORMAT, "%s: %s is no object", m->config.path,
                   one == newer ? "rope_parameters" : "rope_scaling");
}

RpStatus rp_hf_rope_number(const HfModel *m, const char *name, double fallback, double *out) {
    const JsonNode *full, *window;
    double          other;
    RP_TRY(rope_objects(m, &full, &window));
    RP_TRY(rp_hf_number(m, m->text, name, fallback, out));
    RP_TRY(rp_hf_number(m, window, name, *out, &other));
    RP_TRY(rp_hf_number(m, full, name, *out, out));
    if (window == NULL || other == *out) return RP_OK;
    return rp_hf_refuse(m, name, "another value for layers with a window");
}

/* Keys of the bases of older files; window NULL: layers with a window have no base of their own. */
typedef struct Bases {
    const char *full, *window;
} Bases;

static Bases bases_of(const char *arch) {
    if (strcmp(arch, "gemma3") == 0 || strcmp(arch, "gemma-embedding") == 0)
        return (Bases){"rope_theta", "rope_local_base_freq"};
    if (strcmp(arch, "modern-bert") == 0) return (Bases){"global_rope_theta", "local_rope_theta"};
    return (Bases){"rope_theta", NULL};
}

RpStatus rp_hf_rope(HfModel *m, uint32_t head_dim, uint32_t n_trained) {
    const bool      gemma4 = is_gemma4(m);
    const Bases     bases  = bases_of(m->family->arch);
    const JsonNode *full, *window;
    double          base, window_base;
    RP_TRY(rope_objects(m, &full, &window));
    if (gemma4 && (full == NULL || window == NULL)) /* its usual values are not those of other families */
        return rp_fail(RP_E_FORMAT, "%s: rope_parameters of both kinds of layers are missing", m->config.path);
    RP_TRY(rp_hf_number(m, m->text, bases.full, 1e4, &base));
    window_base = base;
    if (bases.window != NULL) RP_TRY(rp_hf_number(m, m->text, bases.window, 1e4, &window_base));
    RP_TRY(rp_hf_number(m, full, "rope_theta", base, &base));
    if (window == NULL && bases.window == NULL) window_base = base;
    RP_TRY(rp_hf_number(m, window, "rope_theta", window_base, &window_base));
    RP_TRY(stretch_base(m, full, head_dim, &base));
    rp_hf_put_f32(m, "rope.freq_base", base);
    if (m->family->windows) rp_hf_put_f32(m, "rope.freq_base_swa", window_base);
    const JsonNode *type = rp_hf_rope_type(m, window);
    if (type != NULL && !rp_json_is(&m->config, type, "default"))
        return rp_hf_refuse(m, "sliding_attention", "RoPE scaling of layers with a window");
    if (type == NULL) RP_TRY(check_untyped(m, window));
    return scaling_of(m, full, head_dim, n_trained, base);
}

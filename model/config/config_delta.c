/* The keys of recurrent layers and of M-RoPE. Counts are checked against each
 * other, so that the graph can rely on them (I11). */
#include "model/config.h"

#include "base/limits.h"

/* Which layers are delta nets: each but the n-th, or as an array of booleans says, one for each layer of the file. */
static RpStatus read_delta_layers(const ConfigReader *r, ModelConfig *c) {
    char               key[128];
    const uint64_t     n = (uint64_t)c->n_layer + (uint64_t)c->n_layer_next;
    const RpGgufValue *v = rp_gguf_find(r->file, rp_config_key(r, "attention.recurrent_layers", key, sizeof key));
    if (v == NULL)
        return rp_config_count(r, "full_attention_interval", (uint32_t)c->layers.attention.n, 4096,
                               &c->layers.attention.n);
    if (v->type != RP_GGUF_ARRAY || v->elem_type != RP_GGUF_BOOL || v->n != n)
        return rp_fail(RP_E_FORMAT, "%s: %s must be an array of %llu booleans", rp_gguf_path(r->file), key,
                       (unsigned long long)n);
    c->delta_layers = v;
    return RP_OK;
}

RpStatus rp_config_read_taps(const ConfigReader *r, const char *key, ModelConfig *c) {
    RP_TRY(rp_config_count(r, key, 0, RP_CONV_MAX_TAPS, &c->taps));
    if (c->taps >= 2) return RP_OK;
    return rp_fail(RP_E_FORMAT, "%s: %s.%s is 1, must be 2 or more", rp_gguf_path(r->file), r->arch, key);
}

RpStatus rp_config_read_delta(const ConfigReader *r, ModelConfig *c) {
    DeltaConfig *d     = &c->delta;
    int32_t      inner = 0;
    RP_TRY(read_delta_layers(r, c));
    RP_TRY(rp_config_read_taps(r, "ssm.conv_kernel", c));
    RP_TRY(rp_config_count(r, "ssm.state_size", 0, RP_DELTA_MAX_DIM, &d->dim));
    RP_TRY(rp_config_count(r, "ssm.group_count", 0, 4096, &d->n_key));
    RP_TRY(rp_config_count(r, "ssm.time_step_rank", 0, 4096, &d->n_head));
    RP_TRY(rp_config_count(r, "ssm.inner_size", 0, 1u << 20, &inner));
    if (d->n_head % d->n_key != 0 || (int64_t)inner != (int64_t)d->dim * d->n_head)
        return rp_fail(
            RP_E_FORMAT,
            "%s: a delta net of %d heads of %d for values, %d for keys and an inner size of %d is not possible",
            rp_gguf_path(r->file), d->n_head, d->dim, d->n_key, inner);
    return RP_OK;
}

RpStatus rp_config_read_ssm(const ConfigReader *r, ModelConfig *c) {
    SsmConfig *s     = &c->ssm;
    int32_t    inner = 0;
    RP_TRY(rp_config_read_taps(r, "ssm.conv_kernel", c));
    RP_TRY(rp_config_count(r, "ssm.state_size", 0, RP_SSM_MAX_STATE, &s->state));
    RP_TRY(rp_config_count(r, "ssm.group_count", 0, 4096, &s->n_group));
    RP_TRY(rp_config_count(r, "ssm.time_step_rank", 0, 4096, &s->n_head));
    RP_TRY(rp_config_count(r, "ssm.inner_size", 0, 1u << 20, &inner));
    if (inner % s->n_head != 0 || s->n_head % s->n_group != 0)
        return rp_fail(RP_E_FORMAT, "%s: a selective scan of %d channels in %d heads and %d groups is not possible",
                       rp_gguf_path(r->file), inner, s->n_head, s->n_group);
    s->dim = inner / s->n_head;
    return RP_OK;
}

size_t rp_config_state_bytes(const ModelConfig *c) {
    const DeltaConfig *d      = &c->delta;
    const SsmConfig   *s      = &c->ssm;
    const int64_t      window = c->taps - 1;
    int64_t            floats = 0;
    for (int i = 0; i < c->n_layer; i++) {
        const AttentionKind kind = rp_config_layer(c, i).attention;
        if (kind == ATTENTION_DELTA) floats += window * rp_delta_channels(d) + (int64_t)d->dim * d->dim * d->n_head;
        if (kind == ATTENTION_CONV) floats += window * c->n_embd;
        if (kind == ATTENTION_SSM || c->arch->parallel_ssm)
            floats += window * rp_ssm_channels(s) + (int64_t)s->n_head * s->dim * s->state;
    }
    return (size_t)floats * sizeof(float);
}

bool rp_config_are_sections(const RpGgufValue *v) {
    return v->type == RP_GGUF_ARRAY && v->n == 4 && (v->elem_type == RP_GGUF_I32 || v->elem_type == RP_GGUF_U32);
}

/* Pairs of q and k take the position of time, height or width. For text these positions are equal, so this is RoPE with
 * pairs (i, i+n/2), in whichever order the sections are laid out. Pairs outside of all sections are refused. llama.cpp
 * gives the position 0 to pairs that sections in turns do not reach, such as 61 and 62 of {24, 20, 20}. Here they
 * take time, as in transformers. */
RpStatus rp_config_read_sections(const ConfigReader *r, const ModelConfig *c) {
    char               key[128];
    const RpGgufValue *v = rp_gguf_find(r->file, rp_config_key(r, "rope.dimension_sections", key, sizeof key));
    double             length[4];
    if (v == NULL) return rp_fail(RP_E_FORMAT, "%s: %s is missing", rp_gguf_path(r->file), key);
    if (!rp_config_are_sections(v))
        return rp_fail(RP_E_FORMAT, "%s: %s must be an array of 4 integers", rp_gguf_path(r->file), key);
    for (int i = 0; i < 4; i++) {
        length[i] = rp_gguf_number_at(v, (uint64_t)i);
        if (length[i] < 0.0)
            return rp_fail(RP_E_FORMAT, "%s: %s has the element %g, must not be negative", rp_gguf_path(r->file), key,
                           length[i]);
    }
    const double n = length[0] + length[1] + length[2], n_pairs = c->rope.n_dims / 2;
    if (n >= n_pairs) return RP_OK;
    return rp_fail(RP_E_UNSUPPORTED, "%s: %s {%g, %g, %g, %g} leaves out pair %g of %g", rp_gguf_path(r->file), key,
                   length[0], length[1], length[2], length[3], n, n_pairs);
}

/* Names of tensors: maps the names of Hugging Face to those of GGUF. */
#include "model/hf/hf.h"

#include <stdio.h>
#include <string.h>

static const HfName outside[] = {
    {"model.embed_tokens.weight",               "token_embd.weight"           },
    {"model.norm.weight",                       "output_norm.weight"          },
    {"model.norm.bias",                         "output_norm.bias"            },
    {"model.word_embeddings.weight",            "token_embd.weight"           }, /* of Ling */
    {"lm_head.weight",                          "output.weight"               },
    {"model.embedding_norm.weight",             "token_embd_norm.weight"      },
    {"model.final_layernorm.weight",            "output_norm.weight"          },
    {"backbone.embeddings.weight",              "token_embd.weight"           },
    {"backbone.norm_f.weight",                  "output_norm.weight"          },
    {"model.embed_tokens_per_layer.weight",     "per_layer_token_embd.weight" },
    {"model.per_layer_model_projection.weight", "per_layer_model_proj.weight" },
    {"model.per_layer_projection_norm.weight",  "per_layer_proj_norm.weight"  },
    {"pre_projection.weight",                   "nextn.pre_projection.weight" }, /* of assistants */
    {"post_projection.weight",                  "nextn.post_projection.weight"},
    {"embeddings.word_embeddings.weight",       "token_embd.weight"           },
    {"embeddings.position_embeddings.weight",   "position_embd.weight"        },
    {"embeddings.token_type_embeddings.weight", "token_types.weight"          },
    {"embeddings.LayerNorm.weight",             "token_embd_norm.weight"      },
    {"embeddings.LayerNorm.bias",               "token_embd_norm.bias"        },
    {"embeddings.LayerNorm.gamma",              "token_embd_norm.weight"      }, /* of older files */
    {"embeddings.LayerNorm.beta",               "token_embd_norm.bias"        },
    {"embeddings.tok_embeddings.weight",        "token_embd.weight"           },
    {"embeddings.norm.weight",                  "token_embd_norm.weight"      },
    {"final_norm.weight",                       "output_norm.weight"          },
    {"dense_2.weight",                          "dense_2.weight"              }, /* of HfModel.dense */
    {"dense_2.bias",                            "dense_2.bias"                },
    {"dense_3.weight",                          "dense_3.weight"              },
};

/* Behind "model.layers.N." and "blk.N.". A row ends at the last word: ".weight" or ".bias" follows. */
static const HfName inside[] = {
    {"input_layernorm",             "attn_norm"         },
    {"post_attention_layernorm",    "ffn_norm"          },
    {"self_attn.q_proj",            "attn_q"            },
    {"self_attn.k_proj",            "attn_k"            },
    {"self_attn.v_proj",            "attn_v"            },
    {"self_attn.o_proj",            "attn_output"       },
    {"self_attn.q_norm",            "attn_q_norm"       },
    {"self_attn.k_norm",            "attn_k_norm"       },
    {"mlp.gate_proj",               "ffn_gate"          },
    {"mlp.up_proj",                 "ffn_up"            },
    {"mlp.down_proj",               "ffn_down"          },
    {"mlp.gate",                    "ffn_gate_inp"      },
    {"block_sparse_moe.gate",       "ffn_gate_inp"      },
    {"mlp.shared_expert_gate",      "ffn_gate_inp_shexp"},
    {"mlp.shared_expert.gate_proj", "ffn_gate_shexp"    },
    {"mlp.shared_expert.up_proj",   "ffn_up_shexp"      },
    {"mlp.shared_expert.down_proj", "ffn_down_shexp"    },
};

/* The same of a layer that predicts further tokens. */
static const HfName next[] = {
    {"eh_proj",          "nextn.eh_proj"         },
    {"enorm",            "nextn.enorm"           },
    {"hnorm",            "nextn.hnorm"           },
    {"embed_tokens",     "nextn.embed_tokens"    },
    {"shared_head.norm", "nextn.shared_head_norm"},
    {"shared_head.head", "nextn.shared_head_head"},
};

/* Behind "model.layers.N." and the number of the expert. */
static const HfName experts[] = {
    {"gate_proj", "ffn_gate_exps"},
    {"up_proj",   "ffn_up_exps"  },
    {"down_proj", "ffn_down_exps"},
    {"w1",        "ffn_gate_exps"},
    {"w3",        "ffn_up_exps"  },
    {"w2",        "ffn_down_exps"},
};

/* The text model does not read tensors whose names begin with these words. They belong to images, to multi-token
 * prediction, and to the tables by which assistants preselect candidates. */
static const char *const ignored[] = {"vision_tower.",
                                      "multi_modal_projector.",
                                      "model.vision_tower.",
                                      "model.multi_modal_projector.",
                                      "visual.",
                                      "model.visual.",
                                      "model.mtp_",
                                      "masked_embedding.",
                                      "model.audio_tower.",
                                      "model.embed_vision.",
                                      "model.embed_audio.",
                                      "model.vision_embedder.",
                                      "pooler.",
                                      "embeddings.position_ids"};

/* Encoders are read without the heads that fill in masked words; the names of these heads begin so. */
static const char *const ignored_heads[] = {"lm_head.", "cls.", "head.", "decoder."};

#define COUNT(rows) (sizeof(rows) / sizeof(rows)[0])

/* Takes a word from the front of a name. */
static bool take(RpGgufString *s, const char *word) {
    const size_t n = strlen(word);
    if (s->len < n || memcmp(s->ptr, word, n) != 0) return false;
    s->ptr += n;
    s->len -= n;
    return true;
}

/* A number without leading zeros, and the dot behind it. */
static bool take_number(RpGgufString *s, int32_t *out) {
    size_t i = 0;
    *out     = 0;
    for (; i < s->len && i < 5 && s->ptr[i] >= '0' && s->ptr[i] <= '9'; i++) *out = 10 * *out + (s->ptr[i] - '0');
    if (i == 0 || i == s->len || s->ptr[i] != '.' || (i > 1 && s->ptr[0] == '0')) return false;
    s->ptr += i + 1;
    s->len -= i + 1;
    return true;
}

static bool is(RpGgufString s, const char *text) { return s.len == strlen(text) && memcmp(s.ptr, text, s.len) == 0; }

/* The role of a name by its ending: ".weight", ".bias", or the scales of a weight in FP8. */
static HfRole ending(RpGgufString s, const char **out) {
    *out = s.len > 0 && is(s, ".bias") ? "bias" : "weight";
    if (is(s, ".weight") || is(s, ".bias")) return HF_TENSOR;
    return is(s, ".weight_scale_inv") || is(s, ".weight_scale") ? HF_SCALE : HF_UNKNOWN;
}

/* Older files of BERT have LayerNorm.gamma and LayerNorm.beta. */
static bool is_old_norm(const char *row, RpGgufString s, const char **out) {
    *out = is(s, ".gamma") ? "weight" : "bias";
    return strstr(row, "LayerNorm") != NULL && (is(s, ".gamma") || is(s, ".beta"));
}

static HfRole find(const HfName *rows, size_t n, RpGgufString s, int32_t layer, char out[HF_NAME_BYTES]) {
    for (size_t i = 0; i < n && rows[i].hf != NULL; i++) {
        RpGgufString rest = s;
        const char  *end;
        if (!take(&rest, rows[i].hf)) continue;
        const HfRole role = is_old_norm(rows[i].hf, rest, &end) ? HF_TENSOR : ending(rest, &end);
        if (role == HF_UNKNOWN) continue;
        snprintf(out, HF_NAME_BYTES, "blk.%d.%s.%s%s", layer, rows[i].gguf, end, role == HF_SCALE ? "#scale" : "");
        return role;
    }
    return HF_UNKNOWN;
}

/* The name is that of the row, or that of the scales of its weight. */
static HfRole part_role(const HfPart *p, RpGgufString s) {
    RpGgufString rest = s;
    char         weight[HF_NAME_BYTES];
    const char  *end;
    if (is(s, p->hf)) return strchr(p->gguf, '#') != NULL ? HF_SCALE : p->piece >= 0 ? HF_PIECE : HF_TENSOR;
    const char *dot = strstr(p->hf, ".weight");
    if (dot == NULL) return HF_UNKNOWN;
    snprintf(weight, sizeof weight, "%.*s", (int)(dot - p->hf), p->hf);
    return take(&rest, weight) && ending(rest, &end) == HF_SCALE ? HF_SCALE : HF_UNKNOWN;
}

static HfRole find_part(const HfPart *rows, RpGgufString s, int32_t layer, int nth, HfTarget *out) {
    for (const HfPart *p = rows; p != NULL && p->hf != NULL; p++) {
        const HfRole role = part_role(p, s);
        if (role == HF_UNKNOWN || nth-- > 0) continue;
        out->form   = role == HF_SCALE ? FORM_WHOLE : p->form;
        out->number = p->piece;
        snprintf(out->name, sizeof out->name, "blk.%d.%s%s", layer, p->gguf,
                 role == HF_SCALE && strchr(p->gguf, '#') == NULL ? "#scale" : "");
        return role;
    }
    return HF_UNKNOWN;
}

static bool take_experts(RpGgufString *s) {
    return take(s, "mlp.experts.") || take(s, "block_sparse_moe.experts.") || take(s, "feed_forward.experts.") ||
           take(s, "mixer.experts.");
}

/* A tensor of a layer; s is behind "model.layers.". */
static HfRole layer_name(const HfModel *m, RpGgufString s, int nth, HfTarget *out) {
    int32_t layer;
    HfRole  role;
    if (!take_number(&s, &layer)) return HF_UNKNOWN;
    if (is(s, "self_attn.rotary_emb.inv_freq")) return HF_IGNORED;
    if (layer >= m->n_layer && m->n_left_out > 0) return HF_IGNORED;
    role = find_part(m->parts, s, layer, nth, out);
    if (role != HF_UNKNOWN || nth > 0) return role;
    if (is(s, "mlp.gate.e_score_correction_bias") || is(s, "block_sparse_moe.e_score_correction_bias") ||
        is(s, "mlp.moe_statics.e_score_correction_bias") || is(s, "mixer.gate.e_score_correction_bias") ||
        is(s, "feed_forward.expert_bias") || is(s, "mlp.gate.expert_bias")) {
        snprintf(out->name, HF_NAME_BYTES, "blk.%d.exp_probs_b.bias", layer);
        return HF_TENSOR;
    }
    if (is(s, "self_attn.sinks")) {
        snprintf(out->name, HF_NAME_BYTES, "blk.%d.attn_sinks.weight", layer);
        return HF_TENSOR;
    }
    RpGgufString e = s;
    if (take_experts(&e) && take_number(&e, &out->number)) {
        role = find(experts, COUNT(experts), e, layer, out->name);
        return role == HF_TENSOR ? HF_EXPERT : role;
    }
    out->number = -1;
    role        = layer >= m->n_layer ? find(next, COUNT(next), s, layer, out->name) : HF_UNKNOWN;
    if (role != HF_UNKNOWN) return role;
    role = m->family->names != NULL ? find(m->family->names, SIZE_MAX, s, layer, out->name) : HF_UNKNOWN;
    return role != HF_UNKNOWN ? role : find(inside, COUNT(inside), s, layer, out->name);
}

/* Models without a head lack "model." in front. */
static bool is_outside(RpGgufString s, const char *hf) {
    return is(s, hf) || (strncmp(hf, "model.", 6) == 0 && is(s, hf + 6));
}

void rp_hf_name(const HfModel *m, RpGgufString name, int nth, HfTarget *out) {
    RpGgufString s = name;
    char         plain[HF_NAME_BYTES];
    *out = (HfTarget){.role = HF_IGNORED, .number = -1};
    if (m->family->encoder) (void)(take(&s, "bert.") || take(&s, "roberta.") || take(&s, "model."));
    for (const HfName *row = m->family->head; row != NULL && row->hf != NULL && nth == 0; row++)
        if (is(s, row->hf)) {
            snprintf(out->name, HF_NAME_BYTES, "%s", row->gguf);
            out->role = HF_TENSOR;
            return;
        }
    for (size_t i = 0; i < COUNT(ignored_heads) && m->family->encoder; i++)
        if (take(&s, ignored_heads[i])) return;
    for (size_t i = 0; i < COUNT(ignored); i++)
        if (take(&s, ignored[i])) return;
    if (take(&s, "mtp.") || take(&s, "model.mtp.")) {
        if (m->n_layer_next == 0) return;
        out->role = HF_UNKNOWN;
        if (!rp_hf_mtp_name(m, s, plain, sizeof plain)) return;
        s = (RpGgufString){plain, strlen(plain)};
    }
    /* models that also see images: model.language_model.layers, or language_model.model.layers */
    if (take(&s, "model.language_model.") || take(&s, "language_model.model.")) {
        snprintf(plain, sizeof plain, "model.%.*s", (int)(s.len < 96 ? s.len : 96), s.ptr);
        s = (RpGgufString){plain, strlen(plain)};
    }
    (void)take(&s, "language_model.");
    out->role = HF_UNKNOWN;
    for (size_t i = 0; i < COUNT(outside) && nth == 0; i++)
        if (is_outside(s, outside[i].hf) && (m->n_dense > 0 || strncmp(outside[i].hf, "dense_", 6) != 0)) {
            snprintf(out->name, HF_NAME_BYTES, "%s", outside[i].gguf);
            out->role = HF_TENSOR;
            if (strcmp(outside[i].gguf, "position_embd.weight") == 0) out->form = FORM_POSITIONS;
            return;
        }
    if (is(s, "lm_head.weight_scale_inv")) return;
    if (take(&s, "model.layers.") || take(&s, "backbone.layers.") || take(&s, "encoder.layer.") || take(&s, "layers."))
        out->role = layer_name(m, s, nth, out);
}

/* Appends a name; families spell some in several ways. */
static void add_name(char out[HF_NAME_BYTES], const char *hf, const char *end) {
    const size_t n = strlen(out);
    snprintf(out + n, HF_NAME_BYTES - n, "%s%s%s%s", n > 0 ? " or " : "", hf, end[0] != '\0' ? "." : "", end);
}

/* Adds the rows whose name in GGUF is `name`, without ".weight" or ".bias". */
static void add_rows(const HfName *rows, size_t n, RpGgufString name, char out[HF_NAME_BYTES]) {
    for (size_t i = 0; i < n && rows[i].hf != NULL; i++) {
        RpGgufString rest = name;
        const char  *end;
        if (take(&rest, rows[i].gguf) && ending(rest, &end) == HF_TENSOR) add_name(out, rows[i].hf, end);
    }
}

/* Whether a name outside of layers may be one of the family: encoders and Nemotron have prefixes of their own, Ling its
 * word for the embedding. */
static bool may_have(const HfFamily *f, const char *hf) {
    const bool model = strncmp(hf, "model.", 6) == 0, backbone = strncmp(hf, "backbone.", 9) == 0;
    if (strncmp(f->arch, "nemotron", 8) == 0) return backbone || strcmp(hf, "lm_head.weight") == 0;
    if (strcmp(f->arch, "bailingmoe2") == 0 && strcmp(hf, "model.embed_tokens.weight") == 0) return false;
    if (strcmp(hf, "model.word_embeddings.weight") == 0) return strcmp(f->arch, "bailingmoe2") == 0;
    return !backbone && (f->encoder ? !model : strncmp(hf, "embeddings.", 11) != 0);
}

bool rp_hf_name_of(const HfFamily *f, RpGgufString name, char out[HF_NAME_BYTES]) {
    RpGgufString s = name;
    int32_t      layer;
    out[0] = '\0';
    for (const HfName *row = f->head; row != NULL && row->hf != NULL; row++)
        if (is(name, row->gguf)) add_name(out, row->hf, "");
    for (size_t i = 0; i < COUNT(outside); i++)
        if (is(name, outside[i].gguf) && may_have(f, outside[i].hf)) add_name(out, outside[i].hf, "");
    if (out[0] != '\0' || !take(&s, "blk.") || !take_number(&s, &layer)) return out[0] != '\0';
    for (const HfPart *p = f->parts; p != NULL && p->hf != NULL && out[0] == '\0'; p++)
        if (is(s, p->gguf)) add_name(out, p->hf, "");
    if (out[0] == '\0' && f->names != NULL) add_rows(f->names, SIZE_MAX, s, out);
    if (out[0] == '\0') add_rows(inside, COUNT(inside), s, out);
    const size_t n = strlen(out);
    if (n > 0) snprintf(out + n, HF_NAME_BYTES - n, " of layer %d", layer);
    return n > 0;
}

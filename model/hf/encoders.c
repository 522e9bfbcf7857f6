/* Encoders: the keys of BERT and ModernBERT, and the words of BERT. */
#include "model/hf/tokenizer/tokenizer.h"

#include <string.h>

/* Behind "encoder.layer.N." */
const HfName rp_hf_bert_names[] = {
    {"attention.self.query",       "attn_q"           },
    {"attention.self.key",         "attn_k"           },
    {"attention.self.value",       "attn_v"           },
    {"attention.output.dense",     "attn_output"      },
    {"attention.output.LayerNorm", "attn_output_norm" },
    {"intermediate.dense",         "ffn_up"           },
    {"output.dense",               "ffn_down"         },
    {"output.LayerNorm",           "layer_output_norm"},
    {NULL,                         NULL               }
};

/* Behind "layers.N." */
const HfName rp_hf_modern_bert_names[] = {
    {"attn.Wqkv", "attn_qkv"   },
    {"attn.Wo",   "attn_output"},
    {"mlp_norm",  "ffn_norm"   },
    {"mlp.Wi",    "ffn_up"     },
    {"mlp.Wo",    "ffn_down"   },
    {"attn_norm", "attn_norm"  },
    {NULL,        NULL         }
};

RpStatus rp_hf_modern_bert_keys(HfModel *m) {
    static const char *const biases[] = {"norm_bias", "attention_bias", "mlp_bias"};
    const JsonNode          *act      = rp_hf_value(m, "hidden_activation");
    for (int i = 0; i < 3; i++) RP_TRY(rp_hf_never(m, biases[i], "a bias"));
    if (act != NULL && !rp_json_is(&m->config, act, "gelu") && !rp_json_is(&m->config, act, "silu"))
        return rp_hf_refuse(m, "hidden_activation", "another one than gelu and silu");
    rp_hf_put_text(m, "hidden_activation", rp_json_is(&m->config, act, "silu") ? "silu" : "gelu");
    rp_hf_put_bool(m, "attention.causal", false);
    return rp_hf_copy_number(m, "norm_eps", 1e-5, "attention.layer_norm_epsilon");
}

RpStatus rp_hf_bert_keys(HfModel *m) {
    RP_TRY(rp_hf_only_text(m, "position_embedding_type", "absolute"));
    RP_TRY(rp_hf_never(m, "is_decoder", "attention to positions before alone"));
    rp_hf_put_bool(m, "attention.causal", false);
    uint32_t types; /* for other readers of a file that is made of the directory */
    RP_TRY(rp_hf_count(m, "type_vocab_size", 2, &types));
    rp_gguf_put_u32(m->out, "tokenizer.ggml.token_type_count", types);
    if (m->family->head == rp_hf_roberta_head && types > 1) /* transformers gives both texts the type 0 */
        return rp_hf_refuse(m, "type_vocab_size", "a head of RoBERTa with types of tokens");
    return rp_hf_copy_number(m, "layer_norm_eps", 1e-12, "attention.layer_norm_epsilon");
}

/* ---- WordPiece ---- */

static const JsonNode *part(const HfVocabulary *v, const char *name) { return rp_json_get(v->j, v->j->nodes, name); }

RpStatus rp_hf_wordpiece(HfVocabulary *v) {
    const JsonNode *normalizer = part(v, "normalizer"), *pre = part(v, "pre_tokenizer");
    const JsonNode *prefix  = rp_json_get(v->j, v->model, "continuing_subword_prefix"),
                   *longest = rp_json_get(v->j, v->model, "max_input_chars_per_word"),
                   *accents = rp_json_get(v->j, normalizer, "strip_accents");
    if (!rp_json_is(v->j, rp_json_get(v->j, normalizer, "type"), "BertNormalizer"))
        return rp_hf_unsupported(v, "normalizer of WordPiece", rp_json_get(v->j, normalizer, "type"));
    if (!rp_json_is(v->j, rp_json_get(v->j, pre, "type"), "BertPreTokenizer"))
        return rp_hf_unsupported(v, "pre_tokenizer of WordPiece", rp_json_get(v->j, pre, "type"));
    if (!rp_hf_option(v, normalizer, "clean_text", true) || !rp_hf_option(v, normalizer, "handle_chinese_chars", true))
        return rp_fail(RP_E_UNSUPPORTED, "%s: a BertNormalizer without clean_text or handle_chinese_chars", v->j->path);
    if (!rp_json_is(v->j, prefix, "##")) return rp_hf_unsupported(v, "continuing_subword_prefix", prefix);
    if (longest != NULL && rp_json_number(v->j, longest) != 100.0)
        return rp_hf_unsupported(v, "max_input_chars_per_word", longest);
    const bool lower = rp_hf_option(v, normalizer, "lowercase", true);
    RP_TRY(rp_hf_normalizer(v));
    rp_gguf_put_string(v->m->out, "tokenizer.ggml.model", "bert");
    rp_gguf_put_bool(v->m->out, "tokenizer.ggml.normalizer.lowercase", lower);
    rp_gguf_put_bool(v->m->out, "tokenizer.ggml.normalizer.strip_accents",
                     accents != NULL && accents->type != JSON_NULL ? accents->type == JSON_TRUE : lower);
    return RP_OK;
}

/* "##ing" goes on in a word: files of GGUF have "ing", and U+2581 in front of tokens that begin one. */
void rp_hf_put_word(const HfVocabulary *v, const HfToken *t) {
    static const char mark[] = HF_SPACE_MARK;
    char              text[512];
    if (t->type != HF_TOKEN_NORMAL || t->text.len > sizeof text - sizeof mark)
        rp_gguf_put_text(v->m->out, t->text.ptr, t->text.len);
    else if (t->text.len > 2 && memcmp(t->text.ptr, "##", 2) == 0)
        rp_gguf_put_text(v->m->out, t->text.ptr + 2, t->text.len - 2);
    else {
        memcpy(text, mark, sizeof mark - 1);
        memcpy(text + sizeof mark - 1, t->text.ptr, t->text.len);
        rp_gguf_put_text(v->m->out, text, sizeof mark - 1 + t->text.len);
    }
}

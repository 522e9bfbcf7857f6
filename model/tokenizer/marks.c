/* This file finds three kinds of special tokens: tokens that end a reply, marks of chat formats, and marks of prompts
 * for code in the middle of a file (FIM). It finds them by keys of the file, or by texts, since many files lack the
 * keys. Keys and texts are those that llama.cpp knows. The tokens become control tokens: files that have them as normal
 * or user-defined tokens would let a message forge a turn. */
#include "model/tokenizer/tokenizer_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_TEXTS = 8 };

static const struct {
    const char *keys[2]; /* tokenizer.ggml.KEY_token_id; the second is that of older files */
    const char *texts[MOST_TEXTS];
} fim[RP_FIM_COUNT] = {
    [RP_FIM_PRE] = {{"fim_pre", "prefix"},
                    {"<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<｜fim▁begin｜>", "<PRE>", "▁<PRE>",
                     "<|code_prefix|>", "<|prefix|>"}                                                             },
    [RP_FIM_SUF] = {{"fim_suf", "suffix"},
                    {"<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<｜fim▁hole｜>", "<SUF>", "▁<SUF>",
                     "<|code_suffix|>", "<|suffix|>"}                                                             },
    [RP_FIM_MID] = {{"fim_mid", "middle"},
                    {"<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<｜fim▁end｜>", "<MID>", "▁<MID>",
                     "<|code_middle|>", "<|middle|>"}                                                             },
    [RP_FIM_PAD] = {{"fim_pad"},           {"<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"}            },
    [RP_FIM_REP] = {{"fim_rep"},           {"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"}},
    [RP_FIM_SEP] = {{"fim_sep"},           {"<|file_sep|>"}                                                       },
};

static RpStatus load_fim(RpTokenizer *tk, const RpGgufFile *f) {
    char key[64];
    for (int which = 0; which < RP_FIM_COUNT; which++) {
        int32_t *id = &tk->fim[which];
        *id         = -1;
        if (tk->words) continue; /* their [PAD] is no mark of FIM */
        for (int i = 0; i < 2 && fim[which].keys[i] != NULL && *id < 0; i++) {
            snprintf(key, sizeof key, "tokenizer.ggml.%s_token_id", fim[which].keys[i]);
            RP_TRY(rp_tokenizer_load_id(tk, f, key, id));
        }
        for (int i = 0; i < MOST_TEXTS && fim[which].texts[i] != NULL && *id < 0; i++)
            *id = rp_tokenizer_find(tk, fim[which].texts[i]);
        if (*id < 0) continue;
        tk->types[*id] = TOKEN_CONTROL;
        /* Behind the text that was asked for, models begin a further file. */
        if (which == RP_FIM_PAD || which == RP_FIM_REP || which == RP_FIM_SEP) tk->ends[*id] = true;
    }
    return RP_OK;
}

static bool is_user_defined(const RpTokenizer *tk, const char *text) {
    const int32_t id = rp_tokenizer_find(tk, text);
    return id >= 0 && tk->types[id] == TOKEN_USER_DEFINED;
}

/* The vocabularies of Gemma and PLaMo have </s> for HTML, beside <sub> and others. */
static bool has_html(const RpTokenizer *tk) {
    return rp_tokenizer_find(tk, "<|tool_response>") >= 0 || rp_tokenizer_find(tk, "<|plamo:eos|>") >= 0 ||
           (is_user_defined(tk, "</s>") && is_user_defined(tk, "<sub>") && is_user_defined(tk, "</sub>"));
}

static RpStatus load_ends(RpTokenizer *tk, const RpGgufFile *f) {
    static const char *const keys[]  = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                        "tokenizer.ggml.eom_token_id"};
    static const char *const texts[] = {"<|eot_id|>",
                                        "<|eom_id|>",
                                        "<|im_end|>",
                                        "<|end|>",
                                        "<|return|>",
                                        "<|flush|>",
                                        "<|calls|>",
                                        "<|endoftext|>",
                                        "<end_of_turn>",
                                        "<|end_of_text|>",
                                        "<EOT>",
                                        "_<EOT>",
                                        "[EOT]",
                                        "[EOS]",
                                        "</s>",
                                        "<eos>",
                                        "<turn|>",
                                        "<|tool_response>",
                                        "<|plamo:eos|>",
                                        "[e~[",
                                        "<end_of_utterance>",
                                        "<｜end▁of▁sentence｜>"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        int32_t id = -1;
        RP_TRY(rp_tokenizer_load_id(tk, f, keys[i], &id));
        if (i == 0 && id >= 0) tk->eos = id;
        if (id >= 0) tk->ends[id] = true;
    }
    if (tk->eos >= 0) tk->ends[tk->eos] = true;
    const RpGgufValue *listed = rp_gguf_find(f, "tokenizer.hf.end_tokens");
    for (uint64_t i = 0; listed != NULL && i < listed->n; i++) {
        const double id = rp_gguf_number_at(listed, i);
        if (id >= 0.0 && id < (double)tk->n_vocab) tk->ends[(int32_t)id] = true;
    }
    const bool html = has_html(tk);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        const int32_t id = rp_tokenizer_find(tk, texts[i]);
        if (id < 0 || (html && strcmp(texts[i], "</s>") == 0)) continue;
        tk->ends[id]  = true;
        tk->types[id] = TOKEN_CONTROL;
    }
    return RP_OK;
}

static RpStatus load_suppressed(RpTokenizer *tk, const RpGgufFile *f) {
    const RpGgufValue *v = rp_gguf_find(f, "tokenizer.ggml.suppress_tokens");
    if (v == NULL) return RP_OK;
    if (v->type != RP_GGUF_ARRAY || (v->elem_type != RP_GGUF_I32 && v->elem_type != RP_GGUF_U32))
        return rp_fail(RP_E_FORMAT, "%s: tokenizer.ggml.suppress_tokens must be an array of i32 or u32",
                       rp_gguf_path(f));
    tk->suppressed = malloc(((size_t)v->n + 1) * sizeof *tk->suppressed);
    if (tk->suppressed == NULL) return rp_fail(RP_E_NOMEM, "%s: out of memory for a tokenizer", rp_gguf_path(f));
    for (uint64_t i = 0; i < v->n; i++) {
        const double id = rp_gguf_number_at(v, i);
        if (id >= 0.0 && id < (double)tk->n_vocab) tk->suppressed[tk->n_suppressed++] = (int32_t)id;
    }
    return RP_OK;
}

/* Replies of gpt-oss and Solar Open have several messages, which <|end|> separates. */
static void find_messages(RpTokenizer *tk) {
    const int32_t call = rp_tokenizer_find(tk, "<|call|>"), end = rp_tokenizer_find(tk, "<|end|>");
    const bool    solar = rp_tokenizer_find(tk, "<|calls|>") >= 0 && rp_tokenizer_find(tk, "<|flush|>") >= 0;
    const bool    oss   = call >= 0 && rp_tokenizer_find(tk, "<|channel|>") >= 0;
    if (end < 0 || (!oss && !solar)) return;
    tk->ends[end] = false;
    if (!oss) return;
    tk->ends[call]  = true;
    tk->types[call] = TOKEN_CONTROL;
}

RpStatus rp_tokenizer_load_marks(RpTokenizer *tk, const RpGgufFile *f) {
    static const char *const turns[] = {
        "<|im_start|>", "<|start_header_id|>", "<|end_header_id|>", "<start_of_turn>", "[INST]", "[/INST]", "<s>"};
    RP_TRY(load_ends(tk, f));
    RP_TRY(load_suppressed(tk, f));
    find_messages(tk);
    for (size_t i = 0; i < sizeof turns / sizeof turns[0]; i++) {
        const int32_t id = rp_tokenizer_find(tk, turns[i]);
        /* Elsewhere <s> is a text: HTML in Gemma, untrained in Qwen. */
        if (id >= 0 && (strcmp(turns[i], "<s>") != 0 || id == tk->bos)) tk->types[id] = TOKEN_CONTROL;
    }
    return load_fim(tk, f);
}

const int32_t *rp_tokenizer_suppressed(const RpTokenizer *tk, size_t *n) {
    const size_t found = tk != NULL ? tk->n_suppressed : 0;
    if (n != NULL) *n = found;
    return found > 0 ? tk->suppressed : NULL;
}

int32_t rp_tokenizer_fim(const RpTokenizer *tk, RpFimToken which) {
    return tk != NULL && (unsigned)which < RP_FIM_COUNT ? tk->fim[which] : -1;
}

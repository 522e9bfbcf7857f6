/* tokenizer.h - tokenizer.json as keys "tokenizer.ggml.*", and as keys "tokenizer.hf.*" where GGUF has none:
 *
 *     expressions     strings: regular expressions of the pre-tokenizer, one after the other (pretokenizer.c)
 *     dropped         bools, one for each: text between its matches is left out
 *     normalizers     three strings for each step of the normalizer (model/tokenizer/normalizer.h)
 *     normalized      u32: added tokens that are looked for in the normalised text
 *     ignore_merges   bool: a piece that is a token as a whole skips the merges
 *     merges          strings: the merges of a "llama" vocabulary, by rank (model/tokenizer/tokenizer_spm.c)
 *     space_prefix    "never", "prepend", "always" or "first": where U+2581 is put in front
 *     split_words     bool: each U+2581 begins a piece
 *     split_spaces    bool: white space separates words, and is dropped
 *     strip           u8 for each token, flags: 1 takes the white space in front of it, 2 that behind it, 4 is found as
 *                     a word of its own alone, 8 (with 4) other tokens end the text that it is looked for in
 *     log_probs       f64: the log probabilities of a unigram vocabulary, NaN for what is no piece (unigram.c)
 *     end_tokens      u32: all tokens that end a reply
 *
 * Features that the library lacks are refused by their name in tokenizer.json. */
#ifndef MODEL_HF_TOKENIZER_TOKENIZER_H
#define MODEL_HF_TOKENIZER_TOKENIZER_H

#include "model/hf/hf.h"

#include <string.h>

#define HF_SPACE_MARK "\xe2\x96\x81" /* U+2581, which stands for a space */

static inline RpGgufString rp_hf_text_of(const char *s) { return (RpGgufString){s, strlen(s)}; }

enum { HF_TOKEN_NORMAL = 1, HF_MAX_STEPS = 16 };

/* A step of the normalizer: its kind, a pattern and a replacement, as in tokenizer.hf.normalizers. */
typedef struct HfStep {
    RpGgufString text[3];
    char        *own; /* owned text of the pattern, or NULL */
} HfStep;

typedef struct HfToken {
    RpGgufString text;
    uint8_t      type;  /* of tokenizer.ggml.token_type; 0: no token has this id */
    uint8_t      strip; /* see above */
    bool         normalized;
    float        score; /* minus the lowest rank of a merge that makes it */
} HfToken;

typedef struct HfVocabulary {
    HfModel        *m;
    const Json     *j;
    const JsonNode *model;  /* of tokenizer.json */
    HfToken        *tokens; /* [n] by id */
    uint32_t        n;
    double         *log_probs;      /* [n] of a unigram model, NaN for what is no piece */
    bool            unigram, words; /* words: WordPiece */
    bool            byte_level;     /* else SentencePiece: U+2581 for spaces */
    bool            split_words, split_spaces;
    bool            spaces_marked;       /* Metaspace was read */
    bool            strips;              /* some token has `strip` */
    bool            prepends, replaces;  /* normalizers: U+2581 in front of a text, and for its spaces */
    HfStep          steps[HF_MAX_STEPS]; /* the other normalizers */
    uint32_t        n_steps;
    const char     *space_prefix;
    uint32_t        bos, eos; /* that the post-processor puts around a text; UINT32_MAX: none */
    uint32_t        sep;      /* behind eos, in front of the second text of a pair; UINT32_MAX: none */
    bool            no_pair;  /* pairs of texts have other special tokens */
} HfVocabulary;

/* normalizer and pre_tokenizer; sets byte_level, split_words, split_spaces, space_prefix, prepends, replaces and puts
 * the expressions. */
RP_NODISCARD RpStatus rp_hf_pipeline(HfVocabulary *v);

/* The parts of a Sequence, or the one part that is none; `part` is NULL behind the last. `list` is "normalizers",
 * "pretokenizers" or "processors". */
typedef struct HfParts {
    const JsonNode *list, *part;
} HfParts;

HfParts rp_hf_parts(const HfVocabulary *v, const char *name, const char *list);
void    rp_hf_next_part(const HfVocabulary *v, HfParts *p);

/* A boolean of an object of tokenizer.json; `fallback` where it is absent or null. */
bool rp_hf_option(const HfVocabulary *v, const JsonNode *object, const char *name, bool fallback);

/* A text that is looked for as it stands, as an expression: each byte of punctuation is escaped. The caller frees
 * out->ptr. */
RP_NODISCARD RpStatus rp_hf_escaped(const HfVocabulary *v, RpGgufString s, RpGgufString *out);

/* normalizer, but of WordPiece only what stands in front of it; sets prepends, replaces and space_prefix, and puts the
 * other steps (normalize.c). */
RP_NODISCARD RpStatus rp_hf_normalizer(HfVocabulary *v);

/* The same of WordPiece, whose texts of tokens differ from those of GGUF (encoders.c). */
RP_NODISCARD RpStatus rp_hf_wordpiece(HfVocabulary *v);
void                  rp_hf_put_word(const HfVocabulary *v, const HfToken *t);

/* RP_E_UNSUPPORTED for an expression that PCRE2 reads otherwise than Onigmo, the library of tokenizers. */
RP_NODISCARD RpStatus rp_hf_check_expression(const HfVocabulary *v, RpGgufString text);

/* post_processor; sets bos, eos, sep and no_pair. */
RP_NODISCARD RpStatus rp_hf_post_processor(HfVocabulary *v);

/* Ids of special tokens, and the chat template. */
RP_NODISCARD RpStatus rp_hf_special_tokens(const HfVocabulary *v);

/* The id of the token of that text, or UINT32_MAX. Takes time proportional to n. */
uint32_t rp_hf_token(const HfVocabulary *v, RpGgufString text);

RP_NODISCARD RpStatus rp_hf_unsupported(const HfVocabulary *v, const char *part, const JsonNode *what);

#endif

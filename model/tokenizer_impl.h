/* tokenizer_impl.h - the inside of a Tokenizer. */
#ifndef MODEL_TOKENIZER_IMPL_H
#define MODEL_TOKENIZER_IMPL_H

#include "reprise/tokenizer.h"

#include "model/strings.h"

/* tokenizer.ggml.token_type */
typedef enum TokenType {
    TOKEN_NORMAL = 1,
    TOKEN_UNKNOWN,
    TOKEN_CONTROL,
    TOKEN_USER_DEFINED,
    TOKEN_UNUSED,
    TOKEN_BYTE
} TokenType;

typedef struct Pretokenizer Pretokenizer; /* the regular expressions of a pre-tokenizer */

/* A pair of neighbours that may be joined; `order` is the smaller the sooner. */
typedef struct Merge {
    int32_t left, right, joined;
    int32_t rank;
} Merge;

struct Tokenizer {
    const char *kind;
    char        pre[32];
    char       *memory; /* every string below */
    size_t      used;
    int32_t     n_vocab;
    GgufString *pieces; /* what each token prints */
    TokenType  *types;
    bool       *ends;    /* tokens that end a reply */
    float      *scores;  /* SentencePiece */
    StringTable by_text; /* of texts as the file has them; SentencePiece merges in it */

    bool    add_bos, add_eos, add_space_prefix, ignore_merges;
    int32_t bos, eos, unknown;
    int32_t byte_token[256]; /* -1 where a byte has none */

    /* byte-level BPE */
    StringTable symbols; /* bytes that a merge can make: of tokens first, by id, then what is no token */
    Merge      *merges;  /* hashed by (left, right) */
    size_t      n_merge_slots;
    Pretokenizer   *pretokenizer;

    /* tokens that are found in raw text, by falling length */
    int32_t    *special;
    size_t      n_special;
    StringTable special_texts; /* numbered as in `special` */
};

/* Symbols of a text under merging: a linked list, and a heap of joins to do. */
typedef struct Symbol {
    int32_t     prev, next; /* -1: none; a symbol of length 0 has been joined to its left */
    const char *text;
    size_t      len;
    int32_t     id; /* BPE: its number in `symbols`, or -1 */
} Symbol;

/* One join: done if both symbols still are what they were. */
typedef struct Join {
    int32_t left, right;
    size_t  len;
    float   score; /* greatest first, then leftmost */
    int32_t id;
} Join;

typedef struct MergeWork {
    Symbol *symbols;
    Join   *heap;
    size_t  n_symbols, symbol_capacity, n_joins, join_capacity;
} MergeWork;

void                  rp_merge_work_free(MergeWork *w);
RP_NODISCARD RpStatus rp_merge_add_symbol(MergeWork *w, const char *text, size_t len, int32_t id);
RP_NODISCARD RpStatus rp_merge_push(MergeWork *w, Join join);

/* Looks a pair of neighbours up, and pushes their join where there is one. */
typedef RpStatus TryJoin(const Tokenizer *tk, MergeWork *w, int32_t left, int32_t right);

/* Joins until nothing is left to join. */
RP_NODISCARD RpStatus rp_merge_all(const Tokenizer *tk, MergeWork *w, TryJoin *try_join);

RP_NODISCARD RpStatus rp_bpe_load(Tokenizer *tk, const GgufFile *f);
RP_NODISCARD RpStatus rp_bpe_encode(const Tokenizer *tk, const char *text, size_t len, MergeWork *w,
                                    TokenList *out);
RP_NODISCARD RpStatus rp_spm_load(Tokenizer *tk, const GgufFile *f);
RP_NODISCARD RpStatus rp_spm_encode(const Tokenizer *tk, const char *text, size_t len, bool prefix,
                                    MergeWork *w, TokenList *out);

/* RP_E_UNSUPPORTED for a name that is not in the table. */
RP_NODISCARD RpStatus rp_pretokenizer_new(const char *name, Pretokenizer **out, bool *ignore_merges, bool *add_bos);
void                  rp_pretokenizer_free(Pretokenizer *s);

/* Calls back with every piece of the text in order; together they are the text. */
typedef RpStatus      PieceCallback(const char *piece, size_t len, void *user);
RP_NODISCARD RpStatus rp_pretokenize(const Pretokenizer *s, const char *text, size_t len, PieceCallback *callback,
                               void *user);

/* Memory of the tokenizer for n bytes; NULL when the estimate at load was wrong. */
char *rp_tokenizer_bytes(Tokenizer *tk, size_t n);

/* Length of the UTF-8 character at p, 1 for an ill-formed byte; n >= 1 bytes are there. */
size_t rp_utf8_length(const char *p, size_t n);

#endif

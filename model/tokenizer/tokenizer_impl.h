/* tokenizer_impl.h - the inside of an RpTokenizer, and the functions that its kinds share.
 *
 *     text -> fragments, cut at special tokens             (tokenize.c)
 *     gpt2:   fragment -> pre-tokenizer pieces -> merges over bytes      -> ids
 *     llama:  fragment -> U+2581 for spaces    -> merges over characters -> ids
 *     t5:     fragment -> U+2581 for spaces    -> most probable pieces   -> ids
 *     bert:   fragment -> words                -> longest tokens         -> ids
 */
#ifndef MODEL_TOKENIZER_TOKENIZER_IMPL_H
#define MODEL_TOKENIZER_TOKENIZER_IMPL_H

#include "reprise/tokenizer.h"

#include "model/tokenizer/charsmap.h"
#include "model/tokenizer/normalizer.h"
#include "model/tokenizer/single_word.h"
#include "model/tokenizer/strings.h"

/* tokenizer.ggml.token_type */
typedef enum TokenType {
    TOKEN_NORMAL = 1,
    TOKEN_UNKNOWN,
    TOKEN_CONTROL,
    TOKEN_USER_DEFINED,
    TOKEN_UNUSED,
    TOKEN_BYTE
} TokenType;

/* Flags of a special token. STRIP_: it takes the white space on this side, which then has no tokens of its own.
 * SINGLE_WORD: it is found only as a word of its own. SINGLE_IN_FRAGMENT: for this, special tokens that were found
 * before it end the text. */
enum { STRIP_LEFT = 1 << 0, STRIP_RIGHT = 1 << 1, SINGLE_WORD = 1 << 2, SINGLE_IN_FRAGMENT = 1 << 3 };

/* Where U+2581 is put in front of a text. Fragments are what special tokens leave of it. */
typedef enum SpacePrefix {
    PREFIX_EACH,        /* of each fragment */
    PREFIX_EACH_ABSENT, /* of each that does not begin with one, or with a space */
    PREFIX_FIRST_ABSENT /* the same, at the beginning of the whole text alone */
} SpacePrefix;

typedef struct Pretokenizer Pretokenizer; /* its compiled regular expressions */

/* A BPE merge rule: neighbours `left` and `right` become `merged`, all numbers in RpTokenizer.symbols. The rule
 * of the lowest rank is applied first. */
typedef struct BpeMerge {
    int32_t left, right, merged;
    int32_t rank; /* place in tokenizer.ggml.merges; -1: a free slot */
} BpeMerge;

struct RpTokenizer {
    const char   *kind; /* "gpt2", "llama", "t5" or "bert" */
    char          pre[32];
    char         *memory;     /* holds every string below, since the file may be closed */
    size_t        used, room; /* bytes */
    int32_t       n_vocab;
    RpGgufString *pieces; /* [n_vocab]: the bytes that a token prints */
    TokenType    *types;
    bool         *ends;              /* tokens that end a reply */
    int32_t       fim[RP_FIM_COUNT]; /* -1: none */
    int32_t      *suppressed;        /* [n_suppressed] tokens that are never sampled */
    size_t        n_suppressed;
    float        *scores;    /* SentencePiece; NULL for byte-level BPE */
    double       *log_probs; /* unigram: [n_vocab], NaN for what is no piece; else NULL */
    double        unknown_log_prob;
    size_t        longest; /* bytes of a piece */
    StringTable   by_text; /* token texts as in the file; SentencePiece looks up its merges here */

    bool        add_bos, add_eos, add_space_prefix, ignore_merges;
    SpacePrefix space_prefix; /* of add_space_prefix */
    bool        gemma4;       /* SentencePiece: merges by tokenizer.ggml.merges, runs of line ends as whole tokens */
    bool        split_words;  /* SentencePiece: no merge goes over the beginning of a word */
    bool        split_spaces; /* SentencePiece: white space separates words, and is dropped */
    Normalizer *normalizer;   /* of a Hugging Face directory, or NULL */
    int32_t     bos, eos, unknown, sep;    /* -1: none */
    bool        normalizes, merges_spaces; /* unigram of a GGUF file: see charsmap.c */
    Charsmap    map;
    bool        add_sep;              /* SEP behind a text, and between two */
    bool        words;                /* WordPiece (wordpiece.c), */
    bool        lower, strip_accents; /* whose texts are in lower case, and without accents */
    int32_t     byte_token[256];      /* the token of a single byte, -1: none */

    /* byte-level BPE; also SentencePiece with merges of a Hugging Face directory */
    StringTable   symbols; /* byte strings: the tokens by id, then results of merges that are not tokens */
    BpeMerge     *merges;  /* [n_merge_slots], rp_hash of (left, right), linear probing */
    size_t        n_merge_slots;
    Pretokenizer *pretokenizer;

    uint64_t *joins; /* [RP_JOIN_BITS / 64] see rp_tokenizer_joins */

    uint8_t        *strip;           /* [n_vocab] STRIP_ and SINGLE_ flags, or NULL: no token has one */
    WordCharacters *word_characters; /* of SINGLE_WORD, or NULL: no token has it */

    /* tokens that are found in raw text, longest first */
    int32_t    *special;
    size_t      n_special;
    StringTable special_texts; /* numbered as in `special` */
};

/* A stretch of text during merging, in a linked list over the array BpeMerger.symbols. */
typedef struct Symbol {
    int32_t  prev, next; /* -1: none */
    uint32_t at, len;    /* in BpeMerger.text; len 0: merged into its left neighbour */
    int32_t  id;         /* BPE: its number in RpTokenizer.symbols, or -1 */
} Symbol;

/* A merge that is possible: symbols[left] and symbols[right], `len` bytes together. It is stale, and skipped,
 * if either has changed since. */
typedef struct BpeCandidate {
    int32_t  left, right;
    uint32_t len;   /* of both when it was pushed */
    float    score; /* highest first, then leftmost */
    int32_t  id;    /* of the result */
} BpeCandidate;

/* Longest stretch of text in bytes whose characters can all be joined by merges. Merging takes up to 60 bytes of memory
 * for each of its bytes. */
enum { RP_MAX_MERGED_BYTES = 16 << 20 };

/* Work space of a merge, reused from piece to piece. Zero-initialise. */
typedef struct BpeMerger {
    const char   *text; /* borrowed */
    Symbol       *symbols;
    BpeCandidate *heap;
    size_t        n_symbols, symbol_capacity, n_candidates, candidate_capacity;
} BpeMerger;

void rp_bpe_merger_free(BpeMerger *merger);

/* Begins with no symbols of text[0..len), with room for len. RP_E_ARG above RP_MAX_MERGED_BYTES. */
RP_NODISCARD RpStatus rp_bpe_merger_begin(BpeMerger *merger, const char *text, size_t len);

/* Appends the symbol text[at..at+len), which begins where the last one ends. */
void                  rp_bpe_merger_add_symbol(BpeMerger *merger, size_t at, size_t len, int32_t id);
RP_NODISCARD RpStatus rp_bpe_merger_push(BpeMerger *merger, BpeCandidate candidate);

/* Looks up a pair of neighbours and pushes a candidate if they can be merged. */
typedef RpStatus ProposeMerge(const RpTokenizer *tk, BpeMerger *merger, int32_t left, int32_t right);

/* Merges the symbols that were added, best candidate first, until no candidate is left. O(n log n). */
RP_NODISCARD RpStatus rp_bpe_merge_all(const RpTokenizer *tk, BpeMerger *merger, ProposeMerge *propose_merge);

/* load: fills `pieces` and the tables of its kind. encode: appends the tokens of a text without special
 * tokens. `prefix`: a space is put in front. */
RP_NODISCARD RpStatus rp_bpe_load(RpTokenizer *tk, const RpGgufFile *f);
RP_NODISCARD RpStatus rp_bpe_encode(const RpTokenizer *tk, const char *text, size_t len, BpeMerger *merger,
                                    RpTokenList *out);
/* The rule for a pair of symbols, or one with a negative rank: there is none. */
const BpeMerge *rp_bpe_find_merge(const RpTokenizer *tk, int32_t left, int32_t right);
/* Room for n rules; and a rule, unless its pair has one already. */
RP_NODISCARD RpStatus rp_bpe_merges_begin(RpTokenizer *tk, uint64_t n);
void                  rp_bpe_merges_add(RpTokenizer *tk, BpeMerge m);
RP_NODISCARD RpStatus rp_spm_load(RpTokenizer *tk, const RpGgufFile *f);
RP_NODISCARD RpStatus rp_spm_encode(const RpTokenizer *tk, const char *text, size_t len, bool prefix, BpeMerger *merger,
                                    RpTokenList *out);

/* wordpiece.c */
RP_NODISCARD RpStatus rp_wordpiece_load(RpTokenizer *tk, const RpGgufFile *f);
RP_NODISCARD RpStatus rp_wordpiece_encode(const RpTokenizer *tk, const char *text, size_t len, RpTokenList *out);

/* charsmap.c: the normalisation of unigram models in GGUF files. */
RP_NODISCARD RpStatus rp_charsmap_load(RpTokenizer *tk, const RpGgufFile *f);
RP_NODISCARD RpStatus rp_charsmap_encode(const RpTokenizer *tk, const char *text, size_t len, bool prefix,
                                         RpTokenList *out);

/* unigram.c: the pieces of the greatest probability for a text that rp_spm_encode has marked. */
RP_NODISCARD RpStatus rp_unigram_load(RpTokenizer *tk, const RpGgufFile *f);
RP_NODISCARD RpStatus rp_unigram_encode(const RpTokenizer *tk, const char *text, size_t len, RpTokenList *out);

/* The token that a text may become, or -1: no control, unknown or byte token. */
int32_t rp_spm_token_of(const RpTokenizer *tk, const char *text, size_t len);

/* Whether a merge may join a symbol that ends with the character (BPE: byte) a and one that begins with b. If not, a
 * text can be cut between them: the tokens of both parts are those of the whole. So the memory for merging grows with
 * the longest part and not with the text. A set of hashes of pairs: it may say true for a pair that no token has. */
enum { RP_JOIN_BITS = 1 << 21 };
bool                  rp_tokenizer_joins(const RpTokenizer *tk, uint32_t a, uint32_t b);
RP_NODISCARD RpStatus rp_tokenizer_add_join(RpTokenizer *tk, uint32_t a, uint32_t b);

/* Compiles the expressions of a pre-tokenizer. RP_E_UNSUPPORTED for a name that is not in the table. */
RP_NODISCARD RpStatus rp_pretokenizer_new(const char *name, Pretokenizer **out, bool *ignore_merges, bool *add_bos);
/* The same with the expressions of a file, strings of tokenizer.hf.expressions (model/hf/tokenizer/tokenizer.h). */
RP_NODISCARD RpStatus rp_pretokenizer_of_file(const RpGgufFile *f, const RpGgufValue *expressions, Pretokenizer **out);
void                  rp_pretokenizer_free(Pretokenizer *s);

/* Calls back with every piece of the text in order. The pieces cover the text without gap or overlap. */
typedef RpStatus      PieceCallback(const char *piece, size_t len, void *user);
RP_NODISCARD RpStatus rp_pretokenize(const Pretokenizer *s, const char *text, size_t len, PieceCallback *callback,
                                     void *user);

/* Takes n bytes of the tokenizer's memory, which load_texts made large enough for all calls of a load: the texts in a
 * file do not change after it is opened (gguf.h). */
char *rp_tokenizer_bytes(RpTokenizer *tk, size_t n);

/* Reads the id of a key; *out keeps its value where the key is absent. RP_E_FORMAT: outside of the vocabulary. */
RP_NODISCARD RpStatus rp_tokenizer_load_id(const RpTokenizer *tk, const RpGgufFile *f, const char *key, int32_t *out);

/* Fills ends and fim, and makes marks control tokens (marks.c). Behind the texts and types. */
RP_NODISCARD RpStatus rp_tokenizer_load_marks(RpTokenizer *tk, const RpGgufFile *f);

#endif

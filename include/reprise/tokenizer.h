/* tokenizer.h - text to token ids and back, as the model file's metadata says.
 *
 *   Tokenizer *tk;  TokenList ids = {0};
 *   RP_TRY(rp_tokenizer_new(gguf, &tk));
 *   RP_TRY(rp_tokenize(tk, text, len, RP_TOK_ADD_BOS | RP_TOK_PARSE_SPECIAL, &ids));
 *   ...
 *   rp_token_list_free(&ids);
 *
 * Kinds: byte-level BPE ("gpt2", split by the regular expression that tokenizer.ggml.pre names), SentencePiece
 * ("llama") by merges of highest score with byte fallback; gemma files use the latter with their own settings. Any
 * other kind, or an unknown pre-tokenizer, is refused by name.
 */
#ifndef REPRISE_TOKENIZER_H
#define REPRISE_TOKENIZER_H

#include "reprise/gguf.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct Tokenizer Tokenizer;

typedef struct TokenList {
    int32_t *ids;
    size_t   n, capacity;
} TokenList;

void rp_token_list_free(TokenList *list);
RP_NODISCARD RpStatus rp_token_list_push(TokenList *list, int32_t id); /* RP_E_NOMEM */

enum {
    RP_TOK_ADD_SPECIAL   = 1 << 0, /* BOS and EOS where the file asks for them */
    RP_TOK_PARSE_SPECIAL = 1 << 1  /* the text of a control token in the input stands for that token */
};

/* Copies what it needs: the file may be closed afterwards. RP_E_UNSUPPORTED, RP_E_FORMAT, RP_E_NOMEM. */
RP_NODISCARD RpStatus rp_tokenizer_new(const GgufFile *f, Tokenizer **out);
void                  rp_tokenizer_free(Tokenizer *tk);

const char *rp_tokenizer_kind(const Tokenizer *tk); /* "gpt2" or "llama" */
const char *rp_tokenizer_pre(const Tokenizer *tk);  /* "smollm", ..., "" where it has none */
int32_t     rp_tokenizer_n_vocab(const Tokenizer *tk);
int32_t     rp_tokenizer_bos(const Tokenizer *tk); /* -1 where there is none */
int32_t     rp_tokenizer_eos(const Tokenizer *tk);
bool        rp_tokenizer_adds_bos(const Tokenizer *tk);

/* True for every token that ends a reply: eos, eot, <|im_end|>, <end_of_turn>, <|eot_id|> and the like. */
bool rp_tokenizer_is_end(const Tokenizer *tk, int32_t id);

/* True for control tokens, which print as nothing. */
bool rp_tokenizer_is_control(const Tokenizer *tk, int32_t id);

/* The id of a token by its exact text, or -1. */
int32_t rp_tokenizer_find(const Tokenizer *tk, const char *text);

/* Appends to `out`. Bytes that are not UTF-8 are tokenised as bytes; the text may hold NULs. A byte
 * that the vocabulary has no token for becomes the unknown token; where there is none either, RP_E_UNSUPPORTED. */
RP_NODISCARD RpStatus rp_tokenize(const Tokenizer *tk, const char *text, size_t len, unsigned flags, TokenList *out);

/* The bytes of one token: may be a part of a UTF-8 character. Valid as long as the tokenizer. For a control token the
 * bytes of its text when `special`, otherwise none. RP_E_ARG for an id outside the vocabulary. */
RP_NODISCARD RpStatus rp_token_bytes(const Tokenizer *tk, int32_t id, bool special, GgufString *out);

/* Joins the bytes of successive tokens and lets out whole UTF-8 characters only. Zero-initialise. */
typedef struct Utf8Stream {
    unsigned char held[4];
    unsigned      n_held;
} Utf8Stream;

/* Takes n bytes, writes what is complete to out (room for n + 4 + 3*(n + 4) bytes: an ill-formed byte becomes U+FFFD)
 * and returns how many bytes that were. */
size_t rp_utf8_feed(Utf8Stream *u, const char *bytes, size_t n, char *out);

/* At the end: what is still held, as U+FFFD. Returns 0 or 3; room for 3 bytes. */
size_t rp_utf8_flush(Utf8Stream *u, char *out);

/* Chat templates. The kinds are recognised by the marks that tokenizer.chat_template contains. */
typedef enum ChatKind { RP_CHAT_CHATML, RP_CHAT_LLAMA3, RP_CHAT_MISTRAL, RP_CHAT_GEMMA, RP_CHAT_LLAMA2 } ChatKind;

/* RP_E_UNSUPPORTED, with the first words of the template, where it is none of these or the file has none. */
RP_NODISCARD RpStatus rp_chat_detect(const GgufFile *f, ChatKind *out);

/* By name: chatml, llama3, mistral, gemma, llama2. RP_E_ARG lists the names. */
RP_NODISCARD RpStatus rp_chat_from_name(const char *name, ChatKind *out);
const char           *rp_chat_name(ChatKind kind);

typedef struct ChatMessage {
    const char *role; /* "system", "user", "assistant" */
    const char *text;
} ChatMessage;

/* The messages as text to tokenise with RP_TOK_PARSE_SPECIAL, ending where the assistant's reply begins. A
 * beginning-of-sequence token is not part of it (RP_TOK_ADD_SPECIAL adds that). *out is the caller's, to free().
 * RP_E_ARG for an unknown role or an order that the template forbids. */
RP_NODISCARD RpStatus rp_chat_format(ChatKind kind, const ChatMessage *messages, size_t n, char **out);

#ifdef __cplusplus
}
#endif
#endif

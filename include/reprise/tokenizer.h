/* tokenizer.h - text to token ids and back, as the metadata of the model file says. A tokenizer is read-only after
 * rp_tokenizer_new and may be used by several threads.
 *
 *   RpTokenizer *tk;  RpTokenList ids = {0};
 *   RP_TRY(rp_tokenizer_new(gguf, &tk));
 *   RP_TRY(rp_tokenize(tk, text, len, RP_TOK_ADD_SPECIAL | RP_TOK_PARSE_SPECIAL, &ids));
 *   for (size_t i = 0; i < ids.n; i++) printf("%d ", (int)ids.ids[i]);
 *   rp_token_list_free(&ids);
 *   rp_tokenizer_free(tk);
 *
 * These kinds (tokenizer.ggml.model) are implemented:
 *   "gpt2"   byte-level BPE; the pre-tokenizer that tokenizer.ggml.pre names splits the text by a regular expression
 *   "llama"  SentencePiece: merges the neighbours of highest score, with byte fallback; gemma files use it too
 *   "gemma4" BPE of Gemma 4: spaces are U+2581, with byte fallback
 *   "t5"     unigram: the pieces with the largest sum of scores
 *   "bert"   WordPiece
 * Any other kind, or an unknown pre-tokenizer, is refused by name.
 */
#ifndef REPRISE_TOKENIZER_H
#define REPRISE_TOKENIZER_H

#include "reprise/gguf.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct RpTokenizer RpTokenizer;

/* A growing array of ids. Zero-initialise it; it owns `ids`. */
typedef struct RpTokenList {
    int32_t *ids;
    size_t   n, capacity;
} RpTokenList;

/* Frees the ids and leaves an empty list, which can be used again. */
RP_API void rp_token_list_free(RpTokenList *list);

/* Appends one id. RP_E_NOMEM leaves the list as it was. */
RP_API RP_NODISCARD RpStatus rp_token_list_push(RpTokenList *list, int32_t id);

enum {
    RP_TOK_ADD_SPECIAL   = 1 << 0, /* put BOS in front and EOS behind if the file asks for them */
    RP_TOK_PARSE_SPECIAL = 1 << 1  /* "<|im_end|>" in the text becomes that control token; else it is plain text, which
                                      never gives a control token */
};

/* Copies everything it needs from the file, which may be closed afterwards. The caller frees *out; on failure it is
 * NULL. RP_E_UNSUPPORTED for another kind or pre-tokenizer, RP_E_FORMAT for bad metadata, RP_E_NOMEM. */
RP_API RP_NODISCARD RpStatus rp_tokenizer_new(const RpGgufFile *f, RpTokenizer **out);
RP_API void                  rp_tokenizer_free(RpTokenizer *tk); /* NULL is allowed */

RP_API const char *rp_tokenizer_kind(const RpTokenizer *tk); /* "gpt2", "llama", "t5", "bert"; "" for NULL; static */
RP_API const char *rp_tokenizer_pre(const RpTokenizer *tk);  /* "smollm", ..., "" if there is none; owned by tk */
RP_API int32_t     rp_tokenizer_n_vocab(const RpTokenizer *tk);
RP_API int32_t     rp_tokenizer_bos(const RpTokenizer *tk);      /* -1: none */
RP_API int32_t     rp_tokenizer_eos(const RpTokenizer *tk);      /* -1: none */
RP_API bool        rp_tokenizer_adds_bos(const RpTokenizer *tk); /* true: RP_TOK_ADD_SPECIAL puts BOS in front */

/* True for every token that ends a reply: the EOS, EOT and EOM ids of the file, the marks of the known chat formats
 * (<|im_end|>, <end_of_turn>, <|eot_id|>, ...), and RP_FIM_REP, RP_FIM_SEP and RP_FIM_PAD. <|end|> does not end one if
 * the vocabulary has the tokens of gpt-oss or Solar Open, whose replies have several messages. False for an id outside
 * the vocabulary. */
RP_API bool rp_tokenizer_is_end(const RpTokenizer *tk, int32_t id);

/* Tokens of prompts for code in the middle of a file (fill in the middle), as
 *     [REP repository] [SEP file name, text of another file]... PRE text before SUF text behind MID
 * after which the model writes what is between. REP, SEP and PAD end a reply. */
typedef enum RpFimToken {
    RP_FIM_PRE = 0,
    RP_FIM_SUF = 1,
    RP_FIM_MID = 2,
    RP_FIM_PAD = 3,
    RP_FIM_REP = 4,
    RP_FIM_SEP = 5
} RpFimToken;
enum { RP_FIM_COUNT = 6 };

/* The id that tokenizer.ggml.fim_pre_token_id and its like name, or that of the first text of those that llama.cpp
 * knows (<|fim_prefix|>, <fim_prefix>, <PRE>, ...); -1: none. */
RP_API int32_t rp_tokenizer_fim(const RpTokenizer *tk, RpFimToken which);

/* The tokens that replies must never have (tokenizer.ggml.suppress_tokens, or suppress_tokens of a directory's
 * generation_config.json), such as marks of images in Gemma 4. Ids outside of the vocabulary are left out. *n: how
 * many. Owned by the tokenizer; NULL if there are none. rp_sampler_suppress applies them. */
RP_API const int32_t *rp_tokenizer_suppressed(const RpTokenizer *tk, size_t *n);

/* True for control tokens and the unknown token, which print as nothing. False outside the vocabulary. */
RP_API bool rp_tokenizer_is_control(const RpTokenizer *tk, int32_t id);

/* The id of a token by its text exactly as the file stores it, or -1. */
RP_API int32_t rp_tokenizer_find(const RpTokenizer *tk, const char *text);

/* Appends the tokens of text[0..len) to `out`. The text may contain NULs; NULL if `len` is 0. Bytes that are not UTF-8
 * are tokenised as single bytes. A byte without a token becomes the unknown token, or RP_E_UNSUPPORTED if there is
 * none. RP_E_ARG for a text of 256 MiB or more, RP_E_NOMEM. After a failure `out` may hold a part of the tokens. */
RP_API RP_NODISCARD RpStatus rp_tokenize(const RpTokenizer *tk, const char *text, size_t len, unsigned flags,
                                         RpTokenList *out);

/* The same for a text with foreign parts, such as a template around the message of a user. control[i] says whether
 * byte i may be part of a control token; NULL: no byte may. A control token is found only where all of its bytes may be
 * part of one; elsewhere its text is plain text. The mask does not cut the text in any other way: a text that spells no
 * control token has the ids of rp_tokenize. With RP_TOK_PARSE_SPECIAL the mask has no effect. */
RP_API RP_NODISCARD RpStatus rp_tokenize_masked(const RpTokenizer *tk, const char *text, const bool *control,
                                                size_t len, unsigned flags, RpTokenList *out);

/* The bytes of one token, owned by the tokenizer and not terminated. They may be a part of a UTF-8 character: join them
 * with RpUtf8Stream. Control tokens and the unknown token give their text if `special`, else no bytes.
 * RP_E_ARG for an id outside the vocabulary. */
RP_API RP_NODISCARD RpStatus rp_token_bytes(const RpTokenizer *tk, int32_t id, bool special, RpGgufString *out);

/* Turns the bytes of successive tokens into whole UTF-8 characters (RFC 3629). Zero-initialise it; it owns nothing.
 *
 *   RpUtf8Stream u = {{0}, 0};
 *   size_t n_out = rp_utf8_feed(&u, bytes.ptr, bytes.len, out);    // out: 4 * bytes.len + 16 bytes of room */
typedef struct RpUtf8Stream {
    unsigned char held[4]; /* the beginning of a character that is not complete yet */
    unsigned      n_held;
} RpUtf8Stream;

/* Takes n bytes, writes the characters that are now complete to out and returns their bytes. `out` needs room for
 * n + 4 + 3*(n + 4) = 4*n + 16 bytes, because an ill-formed byte becomes U+FFFD, which has three. */
RP_API size_t rp_utf8_feed(RpUtf8Stream *u, const char *bytes, size_t n, char *out);

/* At the end of the stream: an incomplete character becomes U+FFFD. Returns 0 or 3; `out` needs room for 3 bytes. */
RP_API size_t rp_utf8_flush(RpUtf8Stream *u, char *out);

/* A chat template: a program in Jinja that makes the text of a prompt from messages, as model files have one
 * (tokenizer.chat_template). It is run as transformers of Python runs it, and bounded: it takes at most 20 million
 * steps and 64 MiB of text. It is read-only: several threads may use it.
 *
 *   const RpChatMessage messages[] = {{"system", "Be brief."}, {"user", text}};
 *   RpTokenizer *tk;  RpChatTemplate *t;  RpTokenList ids = {0};
 *   RP_TRY(rp_tokenizer_new(gguf, &tk));
 *   RP_TRY(rp_chat_template_of(gguf, tk, &t));
 *   RP_TRY(rp_chat_template_tokenize(tk, t, messages, 2, RP_TOK_ADD_SPECIAL, &ids)); */
typedef struct RpChatTemplate RpChatTemplate;

/* The template of a file. Copies what it needs. `tk` is the tokenizer of the file: its BOS and EOS become bos_token
 * and eos_token. RP_E_UNSUPPORTED for a file without a template; RP_E_FORMAT, with "chat_template:LINE:COLUMN: ",
 * for one that is no Jinja or has a statement that is not supported. The caller frees *out; after a failure it is
 * NULL. */
RP_API RP_NODISCARD RpStatus rp_chat_template_of(const RpGgufFile *f, const RpTokenizer *tk, RpChatTemplate **out);

/* The same for any text of n bytes; errors call it `name`. */
RP_API RP_NODISCARD RpStatus rp_chat_template_new(const RpTokenizer *tk, const char *name, const char *text, size_t n,
                                                  RpChatTemplate **out);
RP_API void                  rp_chat_template_free(RpChatTemplate *t); /* NULL is allowed */

/* Chat formats, for files without a template. They are not Jinja. */
typedef enum RpChatKind { RP_CHAT_CHATML, RP_CHAT_LLAMA3, RP_CHAT_MISTRAL, RP_CHAT_GEMMA, RP_CHAT_LLAMA2 } RpChatKind;

/* Recognises a format by the marks that the template of the file contains, and does not run it: the text can differ
 * from that of the template. rp_chat_template_of is better. RP_E_UNSUPPORTED, with the beginning of the template,
 * for any other format or a file without a template. RP_E_FORMAT if the template is not a string. */
RP_API RP_NODISCARD RpStatus rp_chat_detect(const RpGgufFile *f, RpChatKind *out);

/* By name: chatml, llama3, mistral, gemma, llama2. RP_E_ARG lists the names. */
RP_API RP_NODISCARD RpStatus rp_chat_from_name(const char *name, RpChatKind *out);
RP_API const char           *rp_chat_name(RpChatKind kind); /* static storage; "?" for no kind */

typedef struct RpChatMessage {
    const char *role; /* "system", "user", "assistant" */
    const char *text;
} RpChatMessage;

/* Appends the tokens of a conversation to `out`; they end where the assistant's reply begins. The marks of the format
 * are control tokens. Messages are plain text: "<|im_end|>" in one is the text of a user, and does not end the turn.
 * Borrows the messages during the call. Messages must be: system? (user assistant)* user.
 *   flags  RP_TOK_ADD_SPECIAL: BOS in front, as the file asks. RP_TOK_PARSE_SPECIAL: control tokens are recognised in
 *          the messages too; only for messages from a source that may write turns of its own.
 * mistral and llama2: [INST] is a control token only if the vocabulary has it, as from Mistral 7B v0.3 on. Else it is
 * plain text, which a message can imitate.
 * RP_E_ARG for an unknown role or another order; errors of rp_tokenize.
 *
 *   const RpChatMessage messages[] = {{"system", "Be brief."}, {"user", text}};
 *   RpTokenizer *tk;  RpChatKind kind;  RpTokenList ids = {0};
 *   RP_TRY(rp_tokenizer_new(gguf, &tk));
 *   RP_TRY(rp_chat_detect(gguf, &kind));
 *   RP_TRY(rp_chat_tokenize(tk, kind, messages, 2, RP_TOK_ADD_SPECIAL, &ids)); */
RP_API RP_NODISCARD RpStatus        rp_chat_tokenize_sized(const RpTokenizer *tk, RpChatKind kind,
                                                           const RpChatMessage *messages, size_t message_bytes, size_t n,
                                                           unsigned flags, RpTokenList *out);
RP_NODISCARD static inline RpStatus rp_chat_tokenize(const RpTokenizer *tk, RpChatKind kind,
                                                     const RpChatMessage *messages, size_t n, unsigned flags,
                                                     RpTokenList *out) {
    return rp_chat_tokenize_sized(tk, kind, messages, sizeof *messages, n, flags, out);
}

/* The conversation as text, and for each of its bytes whether it may be part of a control token: bytes of the
 * format may, bytes of messages may not. This is what rp_chat_tokenize gives to rp_tokenize_masked, for callers that
 * tokenise a part of it. The BOS token is not part of the text. *text is terminated; the caller frees *text and
 * *control with free(). Messages and errors as above. After a failure both are NULL. */
RP_API RP_NODISCARD RpStatus        rp_chat_format_masked_sized(RpChatKind kind, const RpChatMessage *messages,
                                                                size_t message_bytes, size_t n, char **text, bool **control);
RP_NODISCARD static inline RpStatus rp_chat_format_masked(RpChatKind kind, const RpChatMessage *messages, size_t n,
                                                          char **text, bool **control) {
    return rp_chat_format_masked_sized(kind, messages, sizeof *messages, n, text, control);
}

/* The text alone, to be shown. It does not say which bytes belong to messages: tokenised with RP_TOK_PARSE_SPECIAL, a
 * message can forge turns. The caller frees *out with free(). */
RP_API RP_NODISCARD RpStatus rp_chat_format_sized(RpChatKind kind, const RpChatMessage *messages, size_t message_bytes,
                                                  size_t n, char **out);
RP_NODISCARD static inline RpStatus rp_chat_format(RpChatKind kind, const RpChatMessage *messages, size_t n,
                                                   char **out) {
    return rp_chat_format_sized(kind, messages, sizeof *messages, n, out);
}

/* The conversation as text by a template, and for each of its bytes whether it may be part of a control token, as
 * above: of the template, and of the names of known roles. The template decides which roles and orders it takes. The
 * text ends where the reply begins. It does not begin with the BOS token if the tokenizer adds it
 * (rp_tokenizer_adds_bos). RP_E_ARG if the template fails, with the place: where it refuses the conversation, or
 * uses what is undefined. RP_E_UNSUPPORTED beyond a limit, RP_E_NOMEM. *text is terminated; the caller frees *text
 * and *control with free(). After a failure both are NULL. */
RP_API RP_NODISCARD RpStatus rp_chat_template_format_sized(const RpChatTemplate *t, const RpChatMessage *messages,
                                                           size_t message_bytes, size_t n, char **text, bool **control);
RP_NODISCARD static inline RpStatus rp_chat_template_format(const RpChatTemplate *t, const RpChatMessage *messages,
                                                            size_t n, char **text, bool **control) {
    return rp_chat_template_format_sized(t, messages, sizeof *messages, n, text, control);
}

/* Appends the tokens of a conversation by a template to `out`; flags as of rp_chat_tokenize. Errors as above, and of
 * rp_tokenize. */
RP_API RP_NODISCARD RpStatus        rp_chat_template_tokenize_sized(const RpTokenizer *tk, const RpChatTemplate *t,
                                                                    const RpChatMessage *messages, size_t message_bytes,
                                                                    size_t n, unsigned flags, RpTokenList *out);
RP_NODISCARD static inline RpStatus rp_chat_template_tokenize(const RpTokenizer *tk, const RpChatTemplate *t,
                                                              const RpChatMessage *messages, size_t n, unsigned flags,
                                                              RpTokenList *out) {
    return rp_chat_template_tokenize_sized(tk, t, messages, sizeof *messages, n, flags, out);
}

/* The text from JSON of n bytes: an object whose members are the variables of the template, as transformers has them:
 *
 *     {"messages": [{"role": "user", "content": "Hi"}, ...], "tools": [...], "enable_thinking": false}
 *
 * add_generation_prompt is true if it is not given, tools and documents are none. No string in it may be part of a
 * control token, except the names of known roles. RP_E_FORMAT for bad JSON. */
RP_API RP_NODISCARD RpStatus rp_chat_template_render(const RpChatTemplate *t, const char *json, size_t n, char **text,
                                                     bool **control);

#ifdef __cplusplus
}
#endif
#endif

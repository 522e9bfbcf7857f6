/* plain.h - paths that need no stream: their bodies are read and their answers written at once. Errors are written by
 * api_error_body; the errors of count_tokens are written by api_messages.error_body. */
#ifndef SERVER_API_PLAIN_H
#define SERVER_API_PLAIN_H

#include "server/api/api.h"

/* Anthropic's /v1/messages/count_tokens: the body is that of /v1/messages, and max_tokens may be absent. The tokens are
 * those of the prompt of out->chat. */
bool api_count_tokens_parse(const json_t *body, const ApiRequest *defaults, ApiRequest *out, ApiError *error);
void api_count_tokens_body(int32_t n, Bytes *out);

/* The properties of a model in answers. Texts are borrowed; those that are NULL are left out or "". */
typedef struct ApiModel {
    const char *id, *architecture, *quantization, *digest, *chat_template, *sampling;
    int64_t     created; /* seconds since 1970: of the file */
    int64_t     n_params, size;
    int32_t     n_vocab, n_ctx, n_ctx_train, n_embd;
    bool        tools, thinking, insert, embedding; /* capabilities */
} ApiModel;

/* /v1/models, for clients of OpenAI and of Anthropic, with llama.cpp's `meta` */
void api_models_body(const ApiModel *models, size_t n, Bytes *out);
void api_model_body(const ApiModel *model, Bytes *out); /* /v1/models/ID */

/* Ollama's /api/tags and /api/show. */
void api_tags_body(const ApiModel *models, size_t n, Bytes *out);
bool api_show_parse(const json_t *body, const char **model, ApiError *error); /* borrowed from the body */
void api_show_body(const ApiModel *model, Bytes *out);

/* /v1/embeddings */
typedef struct ApiEmbeddingRequest {
    char   *model;      /* or NULL */
    json_t *inputs;     /* an array of strings and of arrays of token ids */
    bool    base64;     /* else arrays of numbers */
    int32_t dimensions; /* 0: all; else the first ones, scaled to length 1 */
} ApiEmbeddingRequest;

/* `n_embd`: the size of the model's embeddings, which `dimensions` must not exceed. */
bool api_embeddings_parse(const json_t *body, int32_t n_embd, ApiEmbeddingRequest *out, ApiError *error);
void api_embeddings_free(ApiEmbeddingRequest *r);
/* `rows`: f32 [n, n_embd] */
void api_embeddings_body(const ApiEmbeddingRequest *r, const char *model, const float *rows, size_t n, int32_t n_embd,
                         int64_t n_tokens, Bytes *out);

/* llama.cpp's /tokenize and /detokenize. False: *error. */
bool api_tokenize(const json_t *body, const RpTokenizer *tk, Bytes *out, ApiError *error);
bool api_detokenize(const json_t *body, const RpTokenizer *tk, Bytes *out, ApiError *error);

#endif

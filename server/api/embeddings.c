/* /v1/embeddings (plain.h). */
#include "server/api/json.h"
#include "server/api/plain.h"
#include "server/api/sampling.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_INPUTS = 2048 };

static bool read_request(const json_t *body, int32_t n_embd, ApiEmbeddingRequest *r, ApiError *e) {
    const char *format     = "float";
    int64_t     dimensions = 0;
    if (!api_copy_string(body, "model", &r->model, e) || !api_read_string(body, "", "encoding_format", &format, e) ||
        !api_read_whole(body, "", "dimensions", 1, n_embd, &dimensions, e) ||
        !api_read_texts(body, "input", MAX_INPUTS, &r->inputs, e))
        return false;
    r->dimensions = (int32_t)dimensions;
    r->base64     = strcmp(format, "base64") == 0;
    return r->base64 || strcmp(format, "float") == 0 ||
           api_refuse(e, "", "encoding_format", "must be \"float\" or \"base64\"");
}

bool api_embeddings_parse(const json_t *body, int32_t n_embd, ApiEmbeddingRequest *out, ApiError *error) {
    *out = (ApiEmbeddingRequest){0};
    if (read_request(body, n_embd, out, error)) return true;
    api_embeddings_free(out);
    return false;
}

void api_embeddings_free(ApiEmbeddingRequest *r) {
    free(r->model);
    json_decref(r->inputs);
    *r = (ApiEmbeddingRequest){0};
}

/* The f32 of a row, the lowest byte first, in base 64 (RFC 4648). */
static void put_base64(const float *row, int32_t n, double scale, Bytes *out) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint32_t          bits     = 0;
    int               held     = 0; /* bytes in `bits` */
    char              text[4];
    for (int64_t i = 0; i < 4 * (int64_t)n; i++) {
        const float x = (float)((double)row[i / 4] * scale);
        uint32_t    word;
        memcpy(&word, &x, sizeof word);
        bits = bits << 8 | (word >> 8 * (i % 4) & 0xff);
        if (++held < 3 && i + 1 < 4 * (int64_t)n) continue;
        const int pad = 3 - held;
        bits <<= 8 * pad;
        for (int k = 0; k < 4; k++) text[k] = k > held ? '=' : digits[bits >> (18 - 6 * k) & 63];
        bytes_put(out, text, sizeof text);
        bits = 0;
        held = 0;
    }
}

static void put_row(const ApiEmbeddingRequest *r, const float *row, int32_t n_embd, Bytes *out) {
    const int32_t n   = r->dimensions > 0 ? r->dimensions : n_embd;
    double        sum = 0, scale = 1;
    for (int32_t i = 0; i < n; i++) sum += (double)row[i] * (double)row[i];
    if (r->dimensions > 0 && sum > 0) scale = 1 / sqrt(sum);
    bytes_text(out, r->base64 ? "\"" : "[");
    if (r->base64) put_base64(row, n, scale, out);
    for (int32_t i = 0; i < n && !r->base64; i++) json_put(out, "%r%f", i > 0 ? "," : "", (double)row[i] * scale);
    bytes_text(out, r->base64 ? "\"" : "]");
}

void api_embeddings_body(const ApiEmbeddingRequest *r, const char *model, const float *rows, size_t n, int32_t n_embd,
                         int64_t n_tokens, Bytes *out) {
    json_put(out, "{'object':'list','data':[");
    for (size_t i = 0; i < n; i++) {
        json_put(out, "%r{'object':'embedding','index':%l,'embedding':", i > 0 ? "," : "", (int64_t)i);
        put_row(r, rows + i * (size_t)n_embd, n_embd, out);
        bytes_text(out, "}");
    }
    json_put(out, "],'model':%s,'usage':{'prompt_tokens':%l,'total_tokens':%l}}", model, n_tokens, n_tokens);
}

/* Fuzz target: a body of any path of the server, and the events of its replies.
 *     byte 0  the path    then  the body, to a NUL    then  events of three bytes, and of a text:
 *         kind of the event    choice    bytes of the text
 * Each answer is JSON, and so is the data of each event of a stream. */
#include "server/api/json.h"
#include "server/api/plain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const paths[] = {"/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages",
                                    "/infill"};
enum { N_PATHS = sizeof paths / sizeof *paths, COUNT = N_PATHS, EMBEDDINGS, SHOW, TOKENIZE, DETOKENIZE, N_KINDS };

static RpTokenizer *tokenizer;

static void expect(bool holds, const char *what, const char *text) {
    if (holds) return;
    fprintf(stderr, "%s\n%s\n", what, text);
    abort();
}

static void expect_json(const char *text, size_t n) {
    json_t *parsed = json_loadb(text, n, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL);
    expect(json_is_object(parsed), "the answer is no JSON", text);
    json_decref(parsed);
}

/* Events of a stream: lines "event: NAME", "data: JSON", and comments, each event ended by an empty line. */
static void expect_events(const Bytes *out) {
    for (size_t i = 0, n; i < out->n; i += n + 1) {
        const char *line = out->p + i, *end = memchr(line, '\n', out->n - i);
        expect(end != NULL, "a line of a stream has no end", line);
        n = (size_t)(end - line);
        if (n == 0 || *line == ':' || strncmp(line, "event: ", 7) == 0 || strncmp(line, "data: [DONE]", 12) == 0)
            continue;
        expect(n > 6 && strncmp(line, "data: ", 6) == 0, "a line of a stream has no name", line);
        expect_json(line + 6, n - 6);
    }
}

/* A call with arguments, that ends or becomes malformed. */
static void call_events(const ApiFormat *f, ApiAnswer *a, int choice, int32_t call, bool malformed, Bytes *out) {
    RpReplyEvent e = {.call = call, .text = "{\"a\":", .len = 5, .id = "c", .name = "f"};
    e.kind         = RP_REPLY_CALL_BEGIN;
    f->event(a, choice, &e, out);
    e.kind = RP_REPLY_CALL_ARGUMENTS;
    f->event(a, choice, &e, out);
    if (!malformed) {
        e.text = " 1}", e.len = 3;
        f->event(a, choice, &e, out);
    }
    e.kind = malformed ? RP_REPLY_MALFORMED : RP_REPLY_CALL_END;
    f->event(a, choice, &e, out);
}

static void play(const ApiRequest *r, ApiAnswer *a, int n_choices, const uint8_t *data, size_t size, Bytes *out) {
    const ApiFormat     *f     = r->format;
    const ApiError       error = {.status = 500, .type = "server_error", .message = "it \"failed\"\n\xff"};
    const RpTokenLogprob top[] = {
        {40,         -0.5f},
        {1000000000, -1.0f},
        {-1,         0.0f }
    };
    int32_t calls = 0;
    api_answer_begin(a, out);
    while (size >= 3) {
        const int    choice = data[1] % n_choices;
        const size_t n      = data[2] < size - 3 ? data[2] : size - 3;
        char        *text   = malloc(n + 1);
        if (text == NULL) break;
        memcpy(text, data + 3, n);
        text[n]        = '\0';
        RpReplyEvent e = {.kind = RP_REPLY_TEXT, .call = -1, .text = text, .len = n};
        switch (data[0] % 8) {
        case 0:
            e.kind = RP_REPLY_REASONING;
            break;
        case 1:
            e.kind = RP_REPLY_MALFORMED;
            break;
        case 2:
            call_events(f, a, choice, calls++, n % 2 != 0, out);
            break;
        case 3:
            if (r->stream) f->ping(a, out);
            break;
        case 4:
            api_answer_logprobs(a, choice, top, top + 1, n % 3);
            break;
        case 5:
            e.kind = RP_REPLY_CALL_END, e.call = (int32_t)n;
            break;
        default:
            break;
        }
        f->event(a, choice, &e, out);
        free(text);
        data += 3 + n, size -= 3 + n;
    }
    for (int i = 0; i < n_choices; i++) {
        const ApiEnd end = {.reason      = (RpStopReason)(size > 0 ? data[0] % 6 : 0),
                            .stop        = size > 1 ? "\"\n" : NULL,
                            .n_prompt    = 5,
                            .n_generated = 3};
        f->end_choice(a, i, &end, out);
    }
    if (size > 0 && data[0] >= 0x80) {
        if (!r->stream) bytes_clear(out);
        f->fail(a, &error, out);
    } else {
        api_answer_end(a, out);
    }
}

static void answer(const ApiRequest *r, const uint8_t *data, size_t size) {
    const ApiOrigin origin    = {.id = "x", .model = "m\xff", .created = 1, .fingerprint = "f", .tokenizer = tokenizer};
    const size_t    n_prompts = r->kind == API_COMPLETION ? json_array_size(r->prompts) : 1;
    Bytes           out       = {0};
    ApiAnswer      *a         = api_answer_open(r, &origin);
    expect(a != NULL, "out of memory", "");
    play(r, a, (int)n_prompts * r->n, data, size, &out);
    expect(!out.failed, "out of memory", "");
    if (r->stream)
        expect_events(&out);
    else
        expect_json(out.p, out.n);
    api_answer_close(a);
    bytes_free(&out);
}

static bool read_plain(int kind, const json_t *body, Bytes *out, ApiError *error) {
    const float         row[4]   = {1, 2, 3, 4};
    const ApiRequest    defaults = {.sampler = rp_sampler_defaults()};
    const char         *name;
    ApiEmbeddingRequest embedding;
    ApiRequest          r;
    if (kind == TOKENIZE) return api_tokenize(body, tokenizer, out, error);
    if (kind == DETOKENIZE) return api_detokenize(body, tokenizer, out, error);
    if (kind == COUNT) {
        if (!api_count_tokens_parse(body, &defaults, &r, error)) return false;
        api_request_free(&r);
        api_count_tokens_body(1, out);
    } else if (kind == SHOW) {
        if (!api_show_parse(body, &name, error)) return false;
        api_show_body(&(ApiModel){.id = name}, out);
    } else {
        if (!api_embeddings_parse(body, 4, &embedding, error)) return false;
        api_embeddings_body(&embedding, embedding.model, row, 1, 4, 1, out);
        api_embeddings_free(&embedding);
    }
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const ApiRequest defaults = {.sampler = rp_sampler_defaults()};
    if (tokenizer == NULL) {
        RpGgufFile *g;
        expect(rp_gguf_open(RP_SOURCE_DIR "/assets/demo.gguf", &g) == RP_OK && rp_tokenizer_new(g, &tokenizer) == RP_OK,
               "no vocabulary", "");
        rp_gguf_close(g);
    }
    if (size < 2) return -1;
    const int      kind = data[0] % N_KINDS;
    const uint8_t *text = data + 1, *nul = memchr(text, 0, size - 1);
    const size_t   n     = nul != NULL ? (size_t)(nul - text) : size - 1;
    const size_t   left  = nul != NULL ? size - n - 2 : 0;
    json_t        *body  = NULL;
    Bytes          out   = {0};
    ApiError       error = {0};
    ApiRequest     r;
    bool           ok = api_body_read((const char *)text, n, &body, &error);
    if (ok && kind < N_PATHS) {
        ok = api_format_of(paths[kind])->parse(api_format_of(paths[kind]), body, &defaults, &r, &error);
        if (ok) {
            answer(&r, left > 0 ? nul + 1 : text, left);
            api_request_free(&r);
        }
    } else if (ok) {
        ok = read_plain(kind, body, &out, &error);
        if (ok) expect_json(out.p, out.n);
    }
    if (!ok) {
        expect(error.status == 400 && error.message[0] != '\0', "a refusal without a text", "");
        bytes_clear(&out);
        if (kind < N_PATHS)
            api_format_of(paths[kind])->error_body(&error, &out);
        else
            api_error_body(&error, &out);
        expect_json(out.p, out.n);
    }
    json_decref(body);
    bytes_free(&out);
    return 0;
}

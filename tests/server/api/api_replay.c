/* Prints what a format of the server answers. The input is a line with the path, a line with the body, and a line for
 * each event (replay.h). The output is a line with the status, and the bytes of the answer. Paths without a stream
 * answer with two models, an embedding (3, 4, 12) for each input, and a count of 17 tokens.
 *
 *   api_replay VOCABULARY.gguf < INPUT */
#include "server/api/plain.h"
#include "tests/server/api/replay.h"

#include <stdlib.h>

static char *read_line(void) {
    char   *line = NULL;
    size_t  room = 0;
    ssize_t n    = getline(&line, &room, stdin);
    if (n > 0 && line[n - 1] == '\n') line[--n] = '\0';
    if (n >= 0) return line;
    free(line);
    return NULL;
}

/* A path of plain.h; 0: it is none. */
static int answer_plain(const char *path, const char *text, Bytes *out) {
    const ApiModel models[] = {
        {.id = "a", .created = 1764000000, .n_ctx = 512},
        {.id = "b",         .created = 1                     }
    };
    const float         rows[]   = {3, 4, 12, 3, 4, 12};
    const ApiRequest    defaults = replay_defaults();
    ApiEmbeddingRequest embedding;
    ApiRequest          r;
    ApiError            error = {0};
    json_t             *body  = NULL;
    bool                ok    = true;
    if (strcmp(path, "/v1/models") == 0) {
        api_models_body(models, 2, out);
    } else if (strcmp(path, "/v1/embeddings") == 0) {
        ok = api_body_read(text, strlen(text), &body, &error) && api_embeddings_parse(body, 3, &embedding, &error);
        if (ok) {
            const size_t n = json_array_size(embedding.inputs);
            api_embeddings_body(&embedding, "a", rows, n < 2 ? n : 2, 3, 5, out);
            api_embeddings_free(&embedding);
        }
    } else if (strcmp(path, "/v1/messages/count_tokens") == 0) {
        ok = api_body_read(text, strlen(text), &body, &error) && api_count_tokens_parse(body, &defaults, &r, &error);
        if (ok) {
            api_count_tokens_body(17, out);
            api_request_free(&r);
        }
    } else {
        return 0;
    }
    json_decref(body);
    if (!ok) api_error_body(&error, out);
    return ok ? 200 : error.status;
}

int main(int argc, char **argv) {
    RpGgufFile  *g      = NULL;
    RpTokenizer *tk     = NULL;
    Bytes        out    = {0};
    int          status = 0;
    if (argc != 2 || rp_gguf_open(argv[1], &g) != RP_OK || rp_tokenizer_new(g, &tk) != RP_OK) return 2;
    char   *path = read_line(), *body = read_line(), *line;
    json_t *events = json_array();
    while ((line = read_line()) != NULL) {
        json_array_append_new(events, json_loads(line, 0, NULL));
        free(line);
    }
    if (path != NULL && body != NULL) status = answer_plain(path, body, &out);
    if (path != NULL && body != NULL && status == 0) status = replay(path, body, events, tk, &out);
    printf("%d\n", status);
    fwrite(out.p, 1, out.n, stdout);
    free(path), free(body), json_decref(events);
    bytes_free(&out), rp_tokenizer_free(tk), rp_gguf_close(g);
    return status == 0;
}

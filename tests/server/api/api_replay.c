/* Prints what a format of the server answers. The input is a line with the path, a line with the body, and a line for
 * each event (replay.h). The output is a line with the status, and the bytes of the answer.
 *
 *   api_replay VOCABULARY.gguf < INPUT */
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
    if (path != NULL && body != NULL) status = replay(path, body, events, tk, &out);
    printf("%d\n", status);
    fwrite(out.p, 1, out.n, stdout);
    free(path), free(body), json_decref(events);
    bytes_free(&out), rp_tokenizer_free(tk), rp_gguf_close(g);
    return status == 0;
}

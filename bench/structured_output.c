/* Masks of structured output, without a model: schemas and texts of MaskBench (github.com/guidance-ai/jsonschemabench,
 * maskbench/data), tokenised with the vocabulary of a GGUF file.
 *
 *     bench_structured_output VOCABULARY.gguf FILE.json ...     or "-" for a list of files on the standard input
 *
 * A file has a schema, and values that do or do not satisfy it. Each value is written as Python's json.dumps does, and
 * its tokens are taken one by one as long as the mask allows them. A schema passes if it compiles and exactly the valid
 * values are taken to their end. Times are those of one thread. */
#include "base/text/json_read.h"
#include "reprise/reprise.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_TEXT = 64 << 20, SLOW_US = 20000 };

typedef struct Times {
    double *us;
    size_t  n, room;
} Times;

typedef struct Bench {
    RpTokenizer    *tk;
    RpGrammarVocab *vocab;
    uint32_t       *bits;
    char           *text;
    size_t          n_text;
    Times           compile, mask, accept;
    int             schemas, refused, passed, with_notes, invalid_accepted, valid_refused, failed;
    bool            verbose;
} Bench;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static void keep(Times *t, double us) {
    if (t->n == t->room) t->us = realloc(t->us, (t->room = t->room * 2 + 1024) * sizeof *t->us);
    if (t->us == NULL) abort();
    t->us[t->n++] = us;
}

static int rising(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void print_times(const char *name, Times *t) {
    static const double shares[] = {0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999};
    double              sum      = 0;
    if (t->n == 0) return;
    qsort(t->us, t->n, sizeof *t->us, rising);
    for (size_t i = 0; i < t->n; i++) sum += t->us[i];
    printf("%-8s n %zu  mean %.1f us ", name, t->n, sum / (double)t->n);
    for (size_t i = 0; i < sizeof shares / sizeof shares[0]; i++)
        printf(" p%g %.1f", shares[i] * 100, t->us[(size_t)(shares[i] * (double)(t->n - 1))]);
    printf("  max %.1f\n", t->us[t->n - 1]);
}

static void put(Bench *b, const char *p, size_t n) {
    if (b->n_text + n > MAX_TEXT) abort();
    memcpy(b->text + b->n_text, p, n);
    b->n_text += n;
}

static void put_string(Bench *b, RpGgufString s) {
    static const char letters[] = "\bb\ff\nn\rr\tt\"\"\\\\";
    put(b, "\"", 1);
    for (size_t i = 0; i < s.len; i++) {
        const char *found = s.ptr[i] != '\0' ? strchr("\b\f\n\r\t\"\\", s.ptr[i]) : NULL;
        char        hex[8];
        if (found != NULL) {
            put(b, "\\", 1);
            put(b, strchr(letters, s.ptr[i]) + 1, 1);
        } else if ((unsigned char)s.ptr[i] < 0x20) {
            snprintf(hex, sizeof hex, "\\u%04x", (unsigned)s.ptr[i]);
            put(b, hex, 6);
        } else {
            put(b, s.ptr + i, 1);
        }
    }
    put(b, "\"", 1);
}

static void put_value(Bench *b, const Json *j, const JsonNode *n) {
    static const char *const words[] = {[JSON_NULL] = "null", [JSON_FALSE] = "false", [JSON_TRUE] = "true"};
    bool                     first   = true;
    if (n->type <= JSON_TRUE) {
        put(b, words[n->type], strlen(words[n->type]));
    } else if (n->type == JSON_NUMBER) {
        put(b, rp_json_string(j, n).ptr, rp_json_string(j, n).len);
    } else if (n->type == JSON_STRING) {
        put_string(b, rp_json_string(j, n));
    } else {
        put(b, n->type == JSON_ARRAY ? "[" : "{", 1);
        for (const JsonNode *c = rp_json_first(j, n); c != NULL; c = rp_json_next(j, n, c), first = false) {
            if (!first) put(b, ", ", 2);
            if (n->type == JSON_OBJECT) {
                put_string(b, rp_json_key(j, c));
                put(b, ": ", 2);
            }
            put_value(b, j, c);
        }
        put(b, n->type == JSON_ARRAY ? "]" : "}", 1);
    }
}

/* The text of a member of the file as it stands there: schemas are given as they are. */
static void put_member(Bench *b, const Json *j, const JsonNode *n) {
    b->n_text = 0;
    put_value(b, j, n);
}

/* True if every token was allowed and the text is complete. -1: an error. */
static int take(Bench *b, RpMatcher *m) {
    RpTokenList ids = {0};
    int         ok  = 1;
    if (rp_tokenize(b->tk, b->text, b->n_text, 0, &ids) != RP_OK) return -1;
    rp_matcher_reset(m);
    for (size_t i = 0; i < ids.n && ok == 1; i++) {
        const double start = now();
        if (rp_matcher_mask(m, b->bits) != RP_OK) ok = -1;
        const double middle = now();
        keep(&b->mask, middle - start);
        if (b->verbose && middle - start > SLOW_US)
            printf("slow mask: %.0f us behind %zu tokens of %.60s\n", middle - start, i, b->text);
        if (ok == 1 && (b->bits[ids.ids[i] / 32] >> (ids.ids[i] % 32) & 1) == 0) ok = 0;
        if (ok == 1 && rp_matcher_accept(m, ids.ids[i]) != RP_OK) ok = -1;
        keep(&b->accept, now() - middle);
    }
    rp_token_list_free(&ids);
    return ok == 1 ? rp_matcher_complete(m) : ok;
}

static void run_tests(Bench *b, const char *path, const Json *j, const RpGrammar *g) {
    const JsonNode *tests  = rp_json_get(j, j->nodes, "tests");
    RpMatcher      *m      = NULL;
    bool            passed = true;
    if (rp_matcher_new(g, b->vocab, &m) != RP_OK) passed = false;
    for (const JsonNode *t = rp_json_first(j, tests); t != NULL && m != NULL; t = rp_json_next(j, tests, t)) {
        const bool valid = rp_json_get(j, t, "valid")->type == JSON_TRUE;
        put_member(b, j, rp_json_get(j, t, "data"));
        const int taken = take(b, m);
        if (taken == (int)valid) continue;
        passed = false;
        if (taken < 0)
            b->failed++;
        else if (valid)
            b->valid_refused++;
        else
            b->invalid_accepted++;
        if (b->verbose)
            printf("%s: %s: %.*s%s\n", path,
                   taken < 0 ? rp_last_error()
                   : valid   ? "valid refused"
                             : "INVALID ACCEPTED",
                   (int)(b->n_text < 300 ? b->n_text : 300), b->text,
                   rp_grammar_n_notes(g) > 0 ? rp_grammar_note_at(g, 0) : "");
    }
    rp_matcher_free(m);
    b->passed += passed;
    b->with_notes += rp_grammar_n_notes(g) > 0;
}

static void run_file(Bench *b, const char *path) {
    FILE      *f = fopen(path, "rb");
    Json       j = {0};
    RpGrammar *g = NULL;
    if (f == NULL) return;
    const size_t n = fread(b->text, 1, MAX_TEXT, f);
    fclose(f);
    if (rp_json_read_nested(path, b->text, n, 512, &j) == RP_OK) {
        b->schemas++;
        put_member(b, &j, rp_json_get(&j, j.nodes, "schema"));
        const double   start = now();
        const RpStatus st    = rp_grammar_json_schema(b->text, b->n_text, 0, &g);
        keep(&b->compile, now() - start);
        if (st == RP_OK)
            run_tests(b, path, &j, g);
        else
            b->refused++;
        if (st != RP_OK && b->verbose) printf("%s: refused: %s\n", path, rp_last_error());
    } else if (b->verbose) {
        printf("%s: not read: %s\n", path, rp_last_error());
    }
    rp_grammar_free(g);
    rp_json_free(&j);
}

int main(int argc, char **argv) {
    Bench       b = {.text = malloc(MAX_TEXT), .verbose = getenv("BENCH_VERBOSE") != NULL};
    RpGgufFile *file;
    char        line[4096];
    if (argc < 3 || b.text == NULL) return fprintf(stderr, "%s VOCABULARY.gguf FILE.json ... | -\n", argv[0]), 2;
    if (rp_gguf_open(argv[1], &file) != RP_OK || rp_tokenizer_new(file, &b.tk) != RP_OK)
        return fprintf(stderr, "%s\n", rp_last_error()), 1;
    const double start = now();
    if (rp_grammar_vocab_new(b.tk, &b.vocab) != RP_OK) return fprintf(stderr, "%s\n", rp_last_error()), 1;
    printf("vocabulary of %d tokens, made in %.1f ms\n", rp_grammar_vocab_size(b.vocab), (now() - start) * 1e-3);
    b.bits = calloc((size_t)rp_grammar_vocab_size(b.vocab) / 32 + 1, sizeof *b.bits);
    if (b.bits == NULL) return 1;
    if (strcmp(argv[2], "-") == 0) {
        while (fgets(line, sizeof line, stdin) != NULL) {
            line[strcspn(line, "\n")] = '\0';
            run_file(&b, line);
        }
    } else {
        for (int i = 2; i < argc; i++) run_file(&b, argv[i]);
    }
    printf("schemas %d  passed %d (%.1f %%)  refused %d  with notes %d\n", b.schemas, b.passed,
           100.0 * b.passed / (b.schemas > 0 ? b.schemas : 1), b.refused, b.with_notes);
    printf("values: invalid accepted %d  valid refused %d  failed %d\n", b.invalid_accepted, b.valid_refused, b.failed);
    print_times("compile", &b.compile);
    print_times("mask", &b.mask);
    print_times("accept", &b.accept);
    free(b.compile.us), free(b.mask.us), free(b.accept.us), free(b.bits), free(b.text);
    rp_grammar_vocab_free(b.vocab);
    rp_tokenizer_free(b.tk);
    rp_gguf_close(file);
    return 0;
}

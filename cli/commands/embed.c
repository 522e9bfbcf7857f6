/* embed.c - `reprise embed`: embeddings of texts, as numbers, JSON or a file of NumPy, or their cosines. */
#include "cli/commands.h"
#include "cli/embeddings.h"
#include "cli/provenance/npy.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NORM_NOT_GIVEN = -100 };

static struct {
    const char *model, *prompt, *file, *pooling, *format, *passes, *out;
    int32_t     normalize, dimensions, threads, ctx;
    bool        cosine, quiet;
    DeviceArgs  device;
} args = {.normalize = NORM_NOT_GIVEN};

/* One row for each text, or for each token with pooling none. */
typedef struct Vectors {
    float    *x; /* [n][n_out] */
    size_t    n, n_out;
    size_t   *rows; /* [n_texts] rows of each text */
    size_t    n_texts;
    RpPooling pooling;
} Vectors;

/* --normalize has the numbers of llama.cpp's embd_normalize: -1 none; 0 scales the largest value to 32760; p > 0
 * divides by the p-norm. */
static int32_t norm_of(int32_t n) {
    if (n == NORM_NOT_GIVEN) return RP_NORMALIZE_DEFAULT;
    return n == 0 ? RP_NORMALIZE_MAX : n;
}

static RpStatus add_rows(Vectors *v, size_t n, float **out) {
    float *x = realloc(v->x, (v->n + n) * v->n_out * sizeof *x);
    if (x == NULL) return rp_fail(RP_E_NOMEM, "out of memory for %zu vectors", v->n + n);
    v->x = x;
    *out = x + v->n * v->n_out;
    v->n += n;
    v->rows[v->n_texts++] = n;
    return RP_OK;
}

static RpStatus embed_line(RpEmbedder *e, const RpModel *m, RpGgufString line, RpTokenList *ids, Vectors *v) {
    float *out = NULL;
    ids->n     = 0;
    if (line.len == 0) return rp_fail(RP_E_ARG, "an empty text has no embedding");
    RP_TRY(rp_tokenize(rp_model_tokenizer(m), line.ptr, line.len, RP_TOK_ADD_SPECIAL, ids));
    RP_TRY(add_rows(v, v->pooling == RP_POOLING_NONE ? ids->n : 1, &out));
    return rp_embed(e, ids->ids, ids->n, out);
}

static RpStatus embed_lines(RpEmbedder *e, const RpModel *m, const Lines *lines, Vectors *v) {
    const RpEmbedderInfo info     = rp_embedder_info(e);
    Progress             progress = {.label = "texts", .off = args.quiet || lines->n < 2};
    RpTokenList          ids      = {0};
    RpStatus             st       = RP_OK;
    v->n_out                      = (size_t)info.n_out;
    v->pooling                    = info.pooling;
    v->rows                       = calloc(lines->n, sizeof *v->rows);
    if (v->rows == NULL) return rp_fail(RP_E_NOMEM, "out of memory for %zu texts", lines->n);
    for (size_t i = 0; i < lines->n && st == RP_OK; i++) {
        st = embed_line(e, m, lines->line[i], &ids, v);
        if (!cli_progress(&progress, (double)(i + 1), (double)lines->n) && st == RP_OK)
            st = rp_fail(RP_E_CANCELLED, "interrupted");
    }
    cli_progress_end(&progress);
    rp_token_list_free(&ids);
    return st;
}

static double cosine(const Vectors *v, size_t a, size_t b) {
    const float *x = v->x + a * v->n_out, *y = v->x + b * v->n_out;
    double       dot = 0.0, xx = 0.0, yy = 0.0;
    for (size_t i = 0; i < v->n_out; i++) {
        dot += (double)x[i] * (double)y[i];
        xx += (double)x[i] * (double)x[i];
        yy += (double)y[i] * (double)y[i];
    }
    return xx > 0.0 && yy > 0.0 ? dot / sqrt(xx * yy) : 0.0;
}

/* "[1,2]" of JSON, or "1 2" and a line end. */
static void print_row(FILE *out, const Vectors *v, size_t row, bool json) {
    const size_t n = args.cosine ? v->n : v->n_out;
    if (json) fputc('[', out);
    for (size_t i = 0; i < n; i++) {
        if (i > 0) fputc(json ? ',' : ' ', out);
        if (args.cosine)
            fprintf(out, json ? "%.7g" : "%7.4f", cosine(v, row, i));
        else
            fprintf(out, "%.9g", (double)v->x[row * v->n_out + i]);
    }
    fputs(json ? "]" : "\n", out);
}

static void print_json(FILE *out, const Vectors *v) {
    const bool each = v->pooling == RP_POOLING_NONE && !args.cosine;
    size_t     row  = 0;
    fprintf(out, "{\"pooling\":\"%s\",\"dimensions\":%zu,\"%s\":[", rp_pooling_name(v->pooling), v->n_out,
            args.cosine ? "cosines" : "embeddings");
    for (size_t t = 0; t < (args.cosine ? v->n : v->n_texts); t++) {
        if (t > 0) fputc(',', out);
        if (each) fputc('[', out);
        for (size_t i = 0; i < (args.cosine ? 1 : v->rows[t]); i++) {
            if (i > 0) fputc(',', out);
            print_row(out, v, row++, true);
        }
        if (each) fputc(']', out);
    }
    fputs("]}\n", out);
}

static void print_npy(FILE *out, const Vectors *v) {
    cli_npy_head("<f4", (const size_t[]){v->n, v->n_out}, 2, out);
    fwrite(v->x, sizeof *v->x, v->n * v->n_out, out);
}

static void print_text(FILE *out, const Vectors *v) {
    for (size_t row = 0; row < v->n; row++) print_row(out, v, row, false);
}

static RpStatus print_vectors(const Vectors *v) {
    RpNewFile *file;
    FILE      *out;
    RP_TRY(cli_open_output(args.out, &file, &out));
    if (strcmp(args.format, "json") == 0)
        print_json(out, v);
    else if (strcmp(args.format, "npy") == 0)
        print_npy(out, v);
    else
        print_text(out, v);
    return cli_close_output(file, RP_OK);
}

static RpStatus embed(RpModel *m, Lines *lines, RpEmbedder **e, Vectors *v) {
    RpEmbedderOptions o = {.n_ctx      = args.ctx,
                           .n_threads  = args.threads,
                           .passes     = args.passes,
                           .normalize  = norm_of(args.normalize),
                           .dimensions = args.dimensions};
    if (args.pooling != NULL) RP_TRY(rp_pooling_from_name(args.pooling, &o.pooling));
    RP_TRY(cli_need_tokenizer(m, args.model));
    RP_TRY(cli_read_lines(args.prompt, args.prompt != NULL ? NULL : args.file, args.prompt != NULL, lines));
    if (lines->n == 0) return rp_fail(RP_E_ARG, "%s: there is no text", args.file);
    RP_TRY(cli_open_embedder(m, &args.device, &o, e));
    RP_TRY(embed_lines(*e, m, lines, v));
    return print_vectors(v);
}

static bool is_format(const char *format) {
    return strcmp(format, "json") == 0 || strcmp(format, "text") == 0 || strcmp(format, "npy") == 0;
}

static int run(void) {
    RpModel    *m     = NULL;
    RpEmbedder *e     = NULL;
    Lines       lines = {0};
    Vectors     v     = {0};
    if (args.format == NULL) args.format = "text";
    if (args.prompt != NULL && args.file != NULL) {
        cli_say("reprise embed", "-p and -f exclude each other (see `reprise embed --help`)");
        return EXIT_USAGE;
    }
    if (!is_format(args.format) || (args.cosine && strcmp(args.format, "npy") == 0)) {
        cli_say("reprise embed", "--format '%.32s': must be text, json or, without --cosine, npy", args.format);
        return EXIT_USAGE;
    }
    if (args.prompt == NULL && args.file == NULL) args.file = "-";
    cli_catch_interrupts();
    RpStatus st = cli_open_model(args.model, &args.device, args.quiet, &m);
    if (st == RP_OK) st = embed(m, &lines, &e, &v);
    rp_embedder_free(e);
    free(v.x);
    free(v.rows);
    cli_free_lines(&lines);
    rp_model_free(m);
    return cli_exit(st);
}

static const Option options[] = {
    OPTION_MODEL(args.model),
    CLI_TEXT("prompt", 'p', args.prompt, "TEXT", "one text; -: standard input, all of it"),
    CLI_FILE(FILE_READ, "file", 'f', args.file, "FILE", "a text on each line; - (default): standard input"),
    CLI_FILE(FILE_WRITTEN, "output", 'o', args.out, "OUT", "write to a file; -: standard output (default)"),
    CLI_TEXT("pooling", 0, args.pooling, "POOLING", "none, mean, cls, last or rank; default: as the file says"),
    CLI_INT("normalize", 0, args.normalize, "N",
            "-1: none; 0: the largest number becomes 32760; 1, 2 (default), 3, ...: the p-norm becomes 1", -1, 64),
    CLI_INT("dimensions", 0, args.dimensions, "D", "only the first D numbers of a vector; 0 (default): all", 0, 0),
    CLI_TEXT("format", 0, args.format, "FORMAT", "text (default), json or npy"),
    CLI_FLAG("cosine", 0, args.cosine, "print the cosine of each vector with each other"),
    OPTION_THREADS(args.threads),
    OPTION_CTX(args.ctx),
    OPTIONS_DEVICE(args.device),
    OPTION_BACKEND(args.device),
    OPTION_LORA(args.device.adapters),
    OPTION_PASSES(args.passes),
    OPTION_QUIET(args.quiet),
};

const Command cli_command_embed = {
    .name      = "embed",
    .help      = "compute the embeddings of texts",
    .usage     = "[MODEL] [-p TEXT | -f FILE] [options]",
    .notes     = "Empty lines of a file are left out. Control tokens that a text spells are plain text. With pooling "
                 "none a text has a vector for each of its tokens.\n"
                 "A text that is longer than the context (-c) is an error.\n"
                 "--dimensions is for models that were trained so that the first numbers are an embedding too.",
    .options   = options,
    .n_options = sizeof options / sizeof options[0],
    .run       = run};

/* embeddings.c - lines of texts, and embedders by the options of the command line. */
#include "cli/embeddings.h"

#include <stdlib.h>
#include <string.h>

void cli_free_lines(Lines *lines) {
    free(lines->text.bytes);
    free(lines->line);
    *lines = (Lines){0};
}

/* The end of the line that begins at `from`. */
static size_t end_of(const Text *t, size_t from) {
    const char *end = memchr(t->bytes + from, '\n', t->n - from);
    return end != NULL ? (size_t)(end - t->bytes) : t->n;
}

RpStatus cli_read_lines(const char *given, const char *path, bool whole, Lines *out) {
    size_t room = 1;
    *out        = (Lines){0};
    RP_TRY(cli_read_text(given, path, &out->text));
    for (size_t i = 0; i < out->text.n; i++) room += out->text.bytes[i] == '\n';
    out->line = calloc(room, sizeof *out->line);
    if (out->line == NULL) {
        cli_free_lines(out);
        return rp_fail(RP_E_NOMEM, "out of memory for %zu lines", room);
    }
    if (whole) {
        out->line[out->n++] = (RpGgufString){out->text.bytes, out->text.n};
        return RP_OK;
    }
    for (size_t from = 0; from < out->text.n;) {
        const size_t end = end_of(&out->text, from);
        size_t       n   = end - from;
        if (n > 0 && out->text.bytes[from + n - 1] == '\r') n--;
        if (n > 0) out->line[out->n++] = (RpGgufString){out->text.bytes + from, n};
        from = end + 1;
    }
    return RP_OK;
}

RpStatus cli_open_embedder(const RpModel *m, const DeviceArgs *d, RpEmbedderOptions *o, RpEmbedder **out) {
    RP_TRY(cli_mode(d->mode, &o->mode));
    o->device        = d->name;
    o->require_cuda  = d->require_cuda;
    o->require_graph = d->require_graph;
    o->repack        = d->repack;
    o->backend       = d->backend;
    RP_TRY(rp_embedder_open(m, o, out));
    const RpEmbedderInfo info = rp_embedder_info(*out);
    const RpExecutorInfo e    = {
           .device = info.device, .reason = info.reason, .fell_back = info.fell_back, .mode = o->mode};
    cli_report_fallback(&e, o->mode);
    return RP_OK;
}

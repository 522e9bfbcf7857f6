/* page.c - collects what a page shows. A graph goes through its JSON dump, so that a page has the fields of a dump. */
#include "cli/page/page.h"

#include "cli/common.h"

#include <stdlib.h>

/* The text that `dump` writes. The caller frees it, also after a failure. */
typedef RpStatus DumpText(const void *what, const RpDumpOptions *o, FILE *out);

static RpStatus dump_graph(const void *what, const RpDumpOptions *o, FILE *out) { return rp_graph_dump(what, o, out); }

static RpStatus dump_plan(const void *what, const RpDumpOptions *o, FILE *out) {
    return rp_plan_dump(what, o->format, out);
}

static RpStatus to_memory(DumpText *dump, const void *what, const RpDumpOptions *o, Text *text) {
    FILE *f = open_memstream(&text->bytes, &text->n);
    if (f == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a page");
    const RpStatus st = dump(what, o, f);
    if (fclose(f) != 0 && st == RP_OK) return rp_fail(RP_E_NOMEM, "out of memory for a page");
    return st;
}

static RpStatus read_graph(const ComputeGraph *g, const RpDumpOptions *o, DiffGraph *out) {
    Text     text = {0};
    RpStatus st   = to_memory(dump_graph, g, o, &text);
    *out          = (DiffGraph){.label = ""};
    if (st == RP_OK) st = cli_diff_read(text.bytes, text.n, "the graph", out);
    free(text.bytes);
    return st;
}

static RpStatus read_plan(const ExecPlan *plan, json_t **out) {
    Text     text = {0};
    RpStatus st   = to_memory(dump_plan, plan, &(RpDumpOptions){.format = RP_DUMP_JSON}, &text);
    if (st == RP_OK) *out = json_loadb(text.bytes, text.n, 0, NULL);
    if (st == RP_OK && *out == NULL) st = rp_fail(RP_E_NOMEM, "out of memory for a page");
    free(text.bytes);
    return st;
}

RpStatus cli_page_graph_to(const RpModel *m, const ComputeGraph *g, const PageOptions *o, FILE *out) {
    ExecPlan *plan;
    RP_TRY(rp_plan_new(g, &plan));
    const RpDumpOptions dumped = {.format = RP_DUMP_JSON, .title = o->title, .notes = o->notes};
    const Why           why    = {.model = m, .graph = g, .plan = plan, .hash = o->hash};
    DiffGraph           graph;
    PageData            data = {.graphs = {&graph}, .why = &why, .times = o->times, .base_names = o->base_names};
    RpStatus            st   = read_graph(g, &dumped, &graph);
    if (st == RP_OK) st = read_plan(plan, &data.plan);
    if (st == RP_OK) st = cli_page_write(&data, out);
    json_decref(data.plan);
    cli_diff_free(&graph);
    rp_plan_free(plan);
    return st;
}

RpStatus cli_page_graph(const RpModel *m, const ComputeGraph *g, const PageOptions *o, const char *path) {
    RpNewFile *file;
    FILE      *out;
    RP_TRY(cli_open_output(path, &file, &out));
    return cli_close_output(file, cli_page_graph_to(m, g, o, out));
}

RpStatus cli_page_diff(const DiffGraph *a, const DiffGraph *b, const char *path) {
    RpNewFile *file;
    FILE      *out;
    RP_TRY(cli_open_output(path, &file, &out));
    return cli_close_output(file, cli_page_write(
                                      &(PageData){
                                          .graphs = {a, b},
                                            .times = ""
    },
                                      out));
}

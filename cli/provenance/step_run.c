/* step_run.c - runs a model in parts. The graph of the prompt and that of decode share device, weights and states. */
#include "cli/provenance/step_run.h"

#include "cli/common.h"

#include <stdlib.h>
#include <string.h>

enum { N_DEFAULT = 8, MAX_PROMPT = 4096 };

static void close_graph(StepGraph *g) {
    rp_executor_free(g->exec);
    rp_plan_free(g->plan);
    rp_graph_free(g->graph);
    *g = (StepGraph){0};
}

void cli_step_run_close(StepRun *r) {
    close_graph(&r->decode);
    close_graph(&r->prompt);
}

static RpStatus open_graph(StepRun *r, StepGraph *g, int32_t n_tok, RpExecutor *share) {
    const RpModelGraphOptions graph = {.n_tok = n_tok, .n_ctx = r->o.n_prompt + r->o.n_decode, .kv_type = r->o.kv_type};
    const RpExecutorOptions   exec  = {.n_threads    = r->o.n_threads,
                                       .share        = share,
                                       .device       = r->o.device,
                                       .require_cuda = r->o.require_cuda,
                                       .mode         = RP_MODE_EAGER};
    RP_TRY(rp_cpu_isa_set(r->o.isa));
    RP_TRY(rp_model_graph(r->model, &graph, &g->graph));
    RP_TRY(rp_graph_optimize(g->graph, r->o.passes));
    RP_TRY(rp_plan_new(g->graph, &g->plan));
    RP_TRY(rp_executor_open(g->plan, &exec, &g->exec));
    const RpExecutorInfo info = rp_executor_info(g->exec);
    cli_report_fallback(&info, RP_MODE_EAGER);
    return RP_OK;
}

RpStatus cli_step_run_open(StepRun *r, const RpModel *m, const StepRunOptions *o) {
    const int32_t n_train = rp_model_info(m)->n_ctx_train;
    *r                    = (StepRun){.model = m, .o = *o};
    if (o->n_prompt > n_train - o->n_decode)
        return rp_fail(RP_E_ARG, "%d tokens and %d decode steps: the model was trained for %d positions", o->n_prompt,
                       o->n_decode, n_train);
    RP_TRY(open_graph(r, &r->prompt, o->n_prompt, NULL));
    return o->n_decode > 0 ? open_graph(r, &r->decode, 1, r->prompt.exec) : RP_OK;
}

static int32_t *input_of(const StepGraph *g, const char *name) {
    const TensorNode *node = rp_graph_find(g->graph, name);
    return node != NULL ? rp_executor_data(g->exec, node) : NULL;
}

void cli_step_run_begin(StepRun *r, const int32_t *tokens, int32_t n) {
    if (r->now != NULL) r->n_past += r->now == &r->prompt ? r->o.n_prompt : 1;
    r->now         = r->now == NULL ? &r->prompt : &r->decode;
    r->n_done      = 0;
    int32_t *pos   = input_of(r->now, "pos");
    int32_t *slots = input_of(r->now, "slots"); /* of recurrent states: slot 0 has that after the last token */
    input_of(r->now, "out_rows")[0] = n - 1;
    memcpy(input_of(r->now, "tokens"), tokens, (size_t)n * sizeof *tokens);
    for (int32_t i = 0; i < n; i++) pos[i] = r->n_past + i;
    if (slots == NULL) return;
    slots[0] = r->n_past == 0 ? -1 : 0;
    for (int32_t i = 0; i < n; i++) slots[1 + i] = i == n - 1 ? 0 : -1;
}

int cli_step_run_n(const StepRun *r) { return rp_plan_memory(r->now->plan).n_steps; }

RpStatus cli_step_run_to(StepRun *r, int end) {
    if (end <= r->n_done) return RP_OK;
    RP_TRY(rp_cpu_isa_set(r->o.isa));
    RP_TRY(rp_executor_run_steps(r->now->exec, r->n_done, end));
    r->n_done = end;
    return RP_OK;
}

RpStatus cli_step_run_end(StepRun *r, int32_t *next) {
    RP_TRY(cli_step_run_to(r, cli_step_run_n(r)));
    const float *logits = rp_executor_data(r->now->exec, rp_graph_find(r->now->graph, "logits"));
    *next               = 0;
    for (int32_t i = 1; i < rp_model_info(r->model)->n_vocab; i++)
        if (logits[i] > logits[*next]) *next = i;
    return RP_OK;
}

/* ---- tokens ---- */

static RpStatus push(RpTokenList *out, int32_t id) {
    return rp_token_list_push(out, id) == RP_OK ? RP_OK : rp_fail(RP_E_NOMEM, "out of memory for tokens");
}

/* "1,2,3" */
static RpStatus read_ids(const char *text, int32_t n_vocab, RpTokenList *out) {
    for (const char *p = text;; p++) {
        char      *end;
        const long id = strtol(p, &end, 10);
        if (end == p || (*end != ',' && *end != '\0'))
            return rp_fail(RP_E_ARG, "--ids %s: must be numbers with commas between them", text);
        if (id < 0 || id >= n_vocab)
            return rp_fail(RP_E_ARG, "--ids: token %ld is outside of the vocabulary of %d", id, n_vocab);
        RP_TRY(push(out, (int32_t)id));
        if (*end == '\0') return RP_OK;
        p = end;
    }
}

RpStatus cli_step_tokens(const RpModel *m, const char *path, const char *prompt, const char *ids, RpTokenList *out) {
    const int32_t n_vocab = rp_model_info(m)->n_vocab;
    if (prompt != NULL && ids != NULL) return rp_fail(RP_E_ARG, "-p and --ids exclude each other");
    if (ids != NULL) {
        RP_TRY(read_ids(ids, n_vocab, out));
    } else if (prompt != NULL) {
        RP_TRY(cli_need_tokenizer(m, path));
        RP_TRY(rp_tokenize(rp_model_tokenizer(m), prompt, strlen(prompt), RP_TOK_ADD_SPECIAL, out));
    }
    for (uint64_t i = 0; i < N_DEFAULT && prompt == NULL && ids == NULL; i++)
        RP_TRY(push(out, (int32_t)(rp_random_uniform(1, i) * (float)n_vocab) % n_vocab));
    if (out->n == 0 || out->n > MAX_PROMPT)
        return rp_fail(RP_E_ARG, "a prompt of %zu tokens: must be from 1 to %d", out->n, MAX_PROMPT);
    return RP_OK;
}

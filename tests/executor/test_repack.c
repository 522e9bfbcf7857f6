/* The choice of weights that are copied to the layout of interleaved rows (executor/repack.h). The model has the mix
 * IQ3_M: its queries and keys are IQ3_S, its values are Q4_K. A plan of many tokens and a plan of one share the copies.
 */
#include "tests/support/folder.h"
#include "tests/support/repack.h"

#include "executor/backend.h"
#include "fallback/products/repack.h"

typedef struct Opened {
    ComputeGraph *g;
    ExecPlan     *plan;
    RpExecutor   *e;
} Opened;

static Opened open_plan(const RpModel *m, int32_t n_tok, RpExecutorOptions o) {
    Opened p    = {0};
    o.n_threads = 1, o.device = "cpu";
    OK(rp_model_graph(m, &(RpModelGraphOptions){.n_tok = n_tok, .n_ctx = 64}, &p.g));
    OK(rp_graph_optimize(p.g, NULL));
    OK(rp_plan_new(p.g, &p.plan));
    OK(rp_executor_open(p.plan, &o, &p.e));
    return p;
}

static void close_plan(Opened *p) {
    rp_executor_free(p->e);
    rp_plan_free(p->plan);
    rp_graph_free(p->g);
}

/* The sources of a type that the kernels could read from a copy, and those that they do. */
static void count(const Opened *p, RpDtype type, int *can, int *are) {
    *can = *are = 0;
    for (int i = 0; i < p->plan->n_steps; i++)
        for (int k = 0; k < RP_MAX_SRC; k++) {
            const RpTensorView *w = &p->e->args[i].src[k];
            if (!rp_is_present(w) || w->dtype != type || p->plan->steps[i].src[k].space != SPACE_WEIGHT) continue;
            *are += rp_is_repacked(w);
            *can += rp_is_repacked(w) || rp_cpu_can_repack(p->plan->steps[i].op, &p->e->args[i], k);
        }
}

TestSuite(repack, .init = make_folder, .fini = remove_folder);

Test(repack, is_chosen_by_the_type_of_each_weight) {
    char     path[128];
    RpModel *m;
    int      can, are;
    snprintf(path, sizeof path, "%s/mix.gguf", folder);
    OK(rp_requantize(RP_SOURCE_DIR "/tests/golden/tiny/llama-mix-k.gguf", path, "IQ3_M", NULL, NULL));
    OK(rp_model_open(path, NULL, &m));
    for (int all = 0; all < 2; all++) {
        Opened many = open_plan(m, 8, (RpExecutorOptions){.repack = all ? "on" : "codebook"});
        Opened one  = open_plan(m, 1, (RpExecutorOptions){.share = many.e});
        for (int p = 0; p < 2; p++) {
            const Opened *plan = p == 0 ? &many : &one;
            count(plan, RP_IQ3_S, &can, &are);
            cr_expect(can >= 2, "%d weights of IQ3_S", can);
            cr_expect_eq(are, all || copies_gain(RP_IQ3_S) ? can : 0, "IQ3_S, plan %d: %d of %d", p, are, can);
            count(plan, RP_Q4_K, &can, &are);
            cr_expect(can >= 1, "%d weights of Q4_K", can);
            cr_expect_eq(are, all ? can : 0, "Q4_K, plan %d: %d of %d", p, are, can);
        }
        close_plan(&one), close_plan(&many);
    }
    rp_model_free(m);
}

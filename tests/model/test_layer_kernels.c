/* The number of kernels that each kind of layer has in a decode step, after all passes. docs/passes.md states the same
 * numbers. The graph of an engine's step of one sequence, whose cache has blocks, must have as many as that of a
 * session. */
#include "tests/support/case.h"
#include "tests/support/golden.h"

#include "graph/graph.h"

enum { N_CTX = 64, MAX_LAYERS = 16 };

/* steps[i]: kernels of layer i; those outside of the layers behind the last one. */
static void count(const RpModel *m, const RpModelGraphOptions *o, int steps[MAX_LAYERS + 1]) {
    const int     n_layer = rp_model_info(m)->n_layer;
    ComputeGraph *g;
    OK(rp_model_graph(m, o, &g));
    OK(rp_graph_optimize(g, ""));
    cr_assert_leq(n_layer, MAX_LAYERS);
    memset(steps, 0, (MAX_LAYERS + 1) * sizeof *steps);
    int all = 0;
    for (int i = 0; i < rp_graph_n_nodes(g); i++) {
        const TensorNode *n = rp_graph_node(g, i);
        if (!node_is_kernel(n)) continue;
        steps[rp_node_layer(n) < 0 ? n_layer : rp_node_layer(n)]++;
        all++;
    }
    cr_assert_eq(all, rp_graph_n_steps(g));
    rp_graph_free(g);
}

Test(layer_kernels, each_kind_of_layer_has_its_number) {
    static const struct {
        const char *name;
        int         kernels[8]; /* of each layer */
    } cases[] = {
        {"llama-f32",         {5, 5}             },
        {"gemma2-f32",        {5, 5, 5}          },
        {"qwen3moe-f32",      {6, 6}             },
        {"gemma4-f32",        {7, 7, 7, 7, 7, 7} }, /* with embeddings of layers; the last two read caches of others */
        {"gemma4-moe-f32",    {8, 8, 8}          }, /* dense and experts */
        {"qwen35-f32",        {7, 6}             }, /* delta net, attention with gates */
        {"qwen3next-f32",     {8, 7}             },
        {"lfm2-f32",          {5, 5, 5}          },
        {"falcon-h1-f32",     {9, 9}             }, /* attention beside a scan */
        {"granitehybrid-f32", {6, 5, 6}          },
        {"deepseek2-f32",     {8, 11}            }, /* queries of low rank; then experts, and shared ones of another size */
        {"qwen2moe-f32",      {9, 9}             }, /* a shared expert of another size, with a gate */
        {"ernie4_5-moe-f32",  {5, 8, 8}          }, /* without a gate */
        {"ministral-f32",     {6, 6}             }, /* temperature of queries */
        {"nemotron_h-f32",    {4, 2, 3, 4, 2}    }, /* scan, dense, attention */
        {"qwen3vlmoe-f32",    {6, 6}             },
        {"mistral4-f32",      {9, 9}             }, /* low rank, experts, a shared one of the same size */
        {"seed_oss-f32",      {5, 5}             },
        {"exaone4-f32",       {5, 5}             },
        {"hunyuan-dense-f32", {11, 11}           }, /* norms of queries and keys behind RoPE */
        {"cohere2-f32",       {6, 6, 6, 6, 6}    }, /* LayerNorm, read by attention and feed-forward */
        {"dots1-f32",         {5, 6, 6}          }, /* a shared expert of the same size */
        {"afmoe-f32",         {7, 11, 11, 16, 11}}, /* a gate of attention; a shared expert before a norm; no RoPE in 3 */
        {"muse-glimmer-f32",  {7, 7, 7, 12}      }, /* a gate of attention; no RoPE in 3 */
        {"starcoder2-f32",    {7, 7}             }, /* LayerNorm */
        {"gpt2-f32",          {7, 7}             },
        {"command-r-f32",     {6, 6}             },
        {"stablelm-parallel", {17, 17}           }, /* norms with weights for each head */
        {"apertus-f32",       {6, 6}             }, /* xIELU */
        {"mellum-f32",        {6, 6, 6, 6}       },
        {"deepseek-f32",      {5, 6}             }, /* a shared expert of the same size */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        RpModel  *m = golden_open_tiny(cases[i].name);
        int       steps[MAX_LAYERS + 1];
        const int n_layer = rp_model_info(m)->n_layer;
        count(m, &(RpModelGraphOptions){.n_tok = 1, .n_ctx = N_CTX}, steps);
        for (int l = 0; l < n_layer; l++) cr_expect_eq(steps[l], cases[i].kernels[l], "%s, layer %d", cases[i].name, l);
        rp_model_free(m);
    }
}

Test(layer_kernels, a_column_of_an_engine_has_those_of_a_session) {
    static const char *const names[] = {"llama-mix",   "qwen3-f32",         "qwen3moe-mix",   "gemma3-mix",
                                        "gemma4-mix",  "qwen35-f32",        "deepseek2-f32",  "falcon-h1-mix",
                                        "gpt-oss-f32", "granitehybrid-f32", "nemotron_h-f32", "smollm3-f32"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        RpModel  *m = golden_open_tiny(names[i]);
        int       session[MAX_LAYERS + 1], engine[MAX_LAYERS + 1];
        const int n_layer = rp_model_info(m)->n_layer;
        count(m, &(RpModelGraphOptions){.n_tok = 1, .n_ctx = N_CTX}, session);
        count(m, &(RpModelGraphOptions){.n_tok = 1, .n_ctx = N_CTX, .n_seq = 1, .block = 32, .n_blocks = 2}, engine);
        for (int l = 0; l <= n_layer; l++) cr_expect_eq(engine[l], session[l], "%s, layer %d", names[i], l);
        rp_model_free(m);
    }
}

/* Fuzz target: any bytes as a model file. They are parsed, every value and tensor is read, and if they are a
 * model its graph is built and optimised. Errors are fine; crashes and reads outside the buffer are not (I11). */
#include "reprise/model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t sum_of(const void *p, size_t n) {
    size_t sum = 0;
    for (size_t i = 0; i < n; i++) sum += ((const unsigned char *)p)[i];
    return sum;
}

static size_t walk(const RpGgufFile *f) {
    size_t sum = 0;
    for (int64_t i = 0; i < rp_gguf_n_values(f); i++) {
        const RpGgufValue *v      = rp_gguf_value(f, i);
        const void        *cursor = v->data;
        sum += sum_of(v->key.ptr, v->key.len);
        for (uint64_t k = 0; k < v->n; k++) {
            if (v->elem_type == RP_GGUF_STRING) {
                const RpGgufString s = rp_gguf_next_string(&cursor);
                sum += sum_of(s.ptr, s.len);
            } else {
                sum += rp_gguf_number_at(v, k) > 0.0;
            }
        }
    }
    for (int64_t i = 0; i < rp_gguf_n_tensors(f); i++) {
        const RpGgufTensor *t = rp_gguf_tensor(f, i);
        sum += sum_of(t->name.ptr, t->name.len);
        if (t->known) sum += sum_of(t->view.data, t->bytes);
    }
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    RpGgufFile            *f;
    RpModel               *m;
    ComputeGraph          *g;
    static volatile size_t sink;
    if (rp_gguf_open_memory(data, size, "fuzz", &f) != RP_OK) return 0;
    sink = sink + walk(f);
    rp_gguf_close(f);
    if (rp_model_open_memory(data, size, "fuzz", &m) != RP_OK) return 0;
    const RpModelGraphOptions graph = {.n_tok = 2, .n_ctx = 16, .embeddings = rp_model_info(m)->bidirectional};
    if (rp_model_graph(m, &graph, &g) == RP_OK) {
        if (rp_graph_optimize(g, NULL) != RP_OK) __builtin_trap(); /* optimising a finished graph must succeed */
        rp_graph_free(g);
    }
    rp_model_free(m);
    return 0;
}

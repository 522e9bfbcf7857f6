/* The parameters of a trainer with lora_rank: a pair for each matrix w [n,m] of the layers, but not of routers and
 * experts
 *
 *     <w>.lora_a [n,rank]   normal numbers of deviation 1 / sqrt(3 n), as PEFT's uniform ones
 *     <w>.lora_b [rank,m]   zeros, so the first step begins with the model itself
 *
 * The pairs are described as tensors of a file, so that graph, restore and checkpoint treat them as weights. */
#include "train/trainer.h"

#include "model/convert/random.h"
#include "model/gguf/gguf_file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A matrix that begins as random numbers or zeros; its name is owned by it. */
typedef struct Matrix {
    RpGgufTensor tensor;
    char         name[128];
} Matrix;

struct TrainAdapter {
    AdapterPair *pairs;
    Matrix      *matrices; /* [2 * n_pairs]: a and b of each pair */
    int          n_pairs;
};

static bool is_trained(const RpModel *m, const RpGgufTensor *t) {
    static const char router[] = ".ffn_gate_inp";
    return rp_model_adapts(m, t) && t != m->output &&
           memmem(t->name.ptr, t->name.len, router, sizeof router - 1) == NULL;
}

static RpStatus describe(Matrix *x, const RpGgufTensor *w, const char *suffix, int64_t ne0, int64_t ne1) {
    const size_t row = (size_t)ne0 * sizeof(float), bytes = row * (size_t)ne1;
    const int    n = snprintf(x->name, sizeof x->name, "%.*s%s", (int)w->name.len, w->name.ptr, suffix);
    if (n < 0 || (size_t)n >= sizeof x->name)
        return rp_fail(RP_E_UNSUPPORTED, "training: the name of tensor %.*s is too long", 96, w->name.ptr);
    x->tensor = (RpGgufTensor){
        .name  = {x->name,                 (size_t)n                               },
        .known = true,
        .bytes = bytes,
        .view  = { .dtype = RP_F32, .ne = {ne0, ne1, 1, 1}, .nb = {sizeof(float), row, bytes, bytes}},
    };
    return RP_OK;
}

static RpStatus add_pair(TrainAdapter *a, const RpGgufTensor *w, int32_t rank, float scale) {
    Matrix *x = &a->matrices[2 * a->n_pairs];
    RP_TRY(describe(&x[0], w, ".lora_a", w->view.ne[0], rank));
    RP_TRY(describe(&x[1], w, ".lora_b", rank, w->view.ne[1]));
    a->pairs[a->n_pairs++] = (AdapterPair){.weight = w, .a = &x[0].tensor, .b = &x[1].tensor, .scale = scale};
    return RP_OK;
}

void rp_trainer_free_adapter(TrainAdapter *a) {
    if (a == NULL) return;
    free(a->pairs);
    free(a->matrices);
    free(a);
}

RpStatus rp_trainer_plan_adapter(RpTrainer *t) {
    const RpModel *m = t->model;
    const size_t   n = (size_t)rp_gguf_n_tensors(m->file);
    if (t->o.lora_rank == 0) return RP_OK;
    TrainAdapter *a = t->adapter = calloc(1, sizeof *t->adapter);
    if (a != NULL) {
        a->pairs    = calloc(n, sizeof *a->pairs);
        a->matrices = calloc(2 * n, sizeof *a->matrices);
    }
    if (a == NULL || a->pairs == NULL || a->matrices == NULL)
        return rp_fail(RP_E_NOMEM, "out of memory for an adapter");
    for (size_t i = 0; i < n; i++) {
        const RpGgufTensor *w = rp_gguf_tensor(m->file, (int64_t)i);
        if (!rp_gguf_is_training(w->name) && is_trained(m, w))
            RP_TRY(add_pair(a, w, t->o.lora_rank, t->o.lora_alpha / (float)t->o.lora_rank));
    }
    return RP_OK;
}

const AdapterPair *rp_trainer_pairs(const RpTrainer *t, int *n) {
    *n = t->adapter != NULL ? t->adapter->n_pairs : 0;
    return t->adapter != NULL ? t->adapter->pairs : NULL;
}

void rp_trainer_begin_matrix(const RpTrainer *t, int i, float *x) {
    const TrainParam *p     = &t->params[i];
    const bool        is_b  = p->tensor->name.ptr[p->tensor->name.len - 1] == 'b';
    const float       scale = 1.0f / sqrtf(3.0f * (float)p->tensor->view.ne[0]);
    uint64_t          state = rp_mix64(t->o.seed + 1) + (uint64_t)i;
    for (int64_t k = 0; k < p->n; k++) x[k] = is_b ? 0.0f : scale * rp_normal(&state);
}

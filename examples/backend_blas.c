/* A backend (reprise/backend.h) that computes matrix products of many columns by OpenBLAS, as a prefill has them, and
 * hands all other steps to the built-in kernels. Products are ops of their own only where no pass has fused them:
 *
 *     reprise generate --backend ./backend_blas.so --passes -all -p "Once upon a time"
 *
 * It is built as backend_blas.so where OpenBLAS is installed, and needs no function of the library. */
#include "reprise/backend.h"

#include <cblas.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

enum { MIN_COLUMNS = 8 }; /* fewer columns are bound by memory, where the built-in kernels read quantised weights */

typedef struct Blas {
    const RpBackendHost *host;
    bool                *takes; /* by step */
    int                  n_taken;
    float               *weights; /* of one product, dequantised */
    char                 text[96];
} Blas;

static bool is_matrix(const RpTensorView *v) { return v->ne[2] == 1 && v->ne[3] == 1; }

/* w [k,m] constant, x f32 [k,t] -> y f32 [m,t] */
static bool is_product(const RpBackendHost *host, const RpBackendPlan *plan, int i) {
    if (host->step_op(plan, i) != RP_OP_MUL_MAT) return false;
    const RpOpArgs     *a = host->step_args(plan, i);
    const RpTensorView *w = &a->mul_mat.w, *x = &a->mul_mat.x;
    if ((host->step_constants(plan, i) & 1u << RP_SOURCE(mul_mat, w)) == 0 || x->dtype != RP_F32) return false;
    if (a->params->mul_mat.bound != RP_BOUND_NONE || x->ne[1] < MIN_COLUMNS) return false;
    return is_matrix(w) && is_matrix(x) && x->nb[0] == sizeof(float) && x->nb[1] % sizeof(float) == 0;
}

static RpStatus open_blas(const RpBackendHost *host, RpBackendPlan *plan, void **self) {
    Blas     *b = *self = calloc(1, sizeof *b);
    const int n         = host->n_steps(plan);
    size_t    elems     = 0;
    if (b == NULL) return host->fail(RP_E_NOMEM, "out of memory");
    b->host  = host;
    b->takes = calloc((size_t)n + 1, sizeof *b->takes);
    if (b->takes == NULL) return host->fail(RP_E_NOMEM, "out of memory");
    for (int i = 0; i < n; i++) {
        if (!is_product(host, plan, i)) continue;
        const RpTensorView *w     = &host->step_args(plan, i)->mul_mat.w;
        const size_t        needs = w->dtype != RP_F32 ? (size_t)(w->ne[0] * w->ne[1]) : 0;
        b->takes[i]               = true;
        b->n_taken++;
        if (needs > elems) elems = needs;
    }
    b->weights = malloc(elems * sizeof *b->weights + 1);
    if (b->weights == NULL) return host->fail(RP_E_NOMEM, "out of memory for dequantised weights");
    snprintf(b->text, sizeof b->text, "%d of %d steps by OpenBLAS %s", b->n_taken, n, OPENBLAS_VERSION);
    return RP_OK;
}

/* Row-major: y [t,m] = x [t,k] * transposed w [m,k]. */
static void product(const Blas *b, const RpOpArgs *a) {
    const RpTensorView *w = &a->mul_mat.w, *x = &a->mul_mat.x, *y = &a->dst;
    const float        *rows   = w->data;
    size_t              stride = w->nb[1] / sizeof(float);
    if (w->dtype != RP_F32) {
        for (int64_t r = 0; r < w->ne[1]; r++)
            b->host->dequantize_row(w->dtype, rp_view_row(w, r), w->ne[0], b->weights + r * w->ne[0]);
        rows   = b->weights;
        stride = (size_t)w->ne[0];
    }
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (blasint)x->ne[1], (blasint)w->ne[1], (blasint)w->ne[0], 1.0f,
                x->data, (blasint)(x->nb[1] / sizeof(float)), rows, (blasint)stride, 0.0f, y->data,
                (blasint)(y->nb[1] / sizeof(float)));
}

/* Steps between two products go to the built-in kernels in one call. */
static RpStatus run(void *self, RpBackendPlan *plan) {
    const Blas *b = self;
    const int   n = b->host->n_steps(plan);
    for (int i = 0, end; i < n; i = end) {
        for (end = i; end < n && !b->takes[end]; end++) {
        }
        RP_TRY(b->host->run_steps(plan, i, end));
        if (end < n) product(b, b->host->step_args(plan, end++));
    }
    return RP_OK;
}

static void free_blas(void *self) {
    Blas *b = self;
    free(b->takes);
    free(b->weights);
    free(b);
}

static const char *describe(void *self) { return ((const Blas *)self)->text; }

__attribute__((visibility("default"))) RpBackendEntry rp_backend;

const RpBackend *rp_backend(void) {
    static const RpBackend backend = {.bytes    = sizeof backend,
                                      .abi      = RP_BACKEND_ABI,
                                      .name     = "blas",
                                      .open     = open_blas,
                                      .run      = run,
                                      .free     = free_blas,
                                      .describe = describe};
    return &backend;
}

/* Memory of others as weights, inputs and outputs without a copy: addresses, values that change there, each refusal
 * with its text, and the deleter, which is called exactly once. The reference is the same graph with its own memory. */
#include "tests/support/case.h"
#include "tests/support/golden.h"

#include "base/external/dlpack.h"
#include "reprise/external.h"

enum { N = 4, M = 3, T = 2 };

/* ---- a producer of DLPack tensors that counts calls of its deleter ---- */

typedef struct Produced {
    struct DLManagedTensor          plain;
    struct DLManagedTensorVersioned versioned;
    int64_t                         shape[5], strides[5];
    int                             deleted;
} Produced;

static void delete_plain(struct DLManagedTensor *t) { ((Produced *)t->manager)->deleted++; }
static void delete_versioned(struct DLManagedTensorVersioned *t) { ((Produced *)t->manager)->deleted++; }
static void count(void *user) { ++*(int *)user; }

/* An f32 tensor [rows, cols] of DLPack. */
static void produce(Produced *p, void *data, int64_t rows, int64_t cols) {
    *p = (Produced){
        .shape = {rows, cols},
          .strides = {cols, 1   }
    };
    p->plain.tensor = (DlTensor){
        .data    = data,
        .device  = {.type = DL_CPU},
        .ndim    = 2,
        .dtype   = { .code = DL_FLOAT, .bits = 32, .lanes = 1},
        .shape   = p->shape,
        .strides = p->strides
    };
    p->plain.manager     = p;
    p->plain.deleter     = delete_plain;
    p->versioned         = (struct DLManagedTensorVersioned){.major = 1, .minor = 2, .manager = p};
    p->versioned.tensor  = p->plain.tensor;
    p->versioned.deleter = delete_versioned;
}

/* ---- y = silu(w x), with x and w outside ---- */

typedef struct Net {
    ComputeGraph *g;
    TensorNode   *x, *y;
    ExecPlan     *plan;
    RpExecutor   *exec;
} Net;

static RpTensorView matrix(float *data, int64_t ne0, int64_t ne1) {
    return rp_view_contiguous(RP_F32, (const int64_t[]){ne0, ne1, 1, 1}, data);
}

static Net open_net(RpExternalTensor *w, float *own_w) {
    Net                n      = {.g = rp_graph_new()};
    const RpTensorView view   = matrix(own_w, N, M);
    TensorNode        *weight = w != NULL ? rp_graph_weight_external(n.g, "w", w) : rp_graph_weight(n.g, "w", &view);
    n.x                       = rp_graph_input(n.g, "x", RP_F32, (const int64_t[]){N, T, 1, 1});
    n.y                       = rp_node_set_name(rp_silu(n.g, rp_mul_mat(n.g, weight, n.x)), "y");
    OK(rp_graph_finish(n.g, &n.y, 1));
    OK(rp_plan_new(n.g, &n.plan));
    OK(rp_executor_open(n.plan, &(RpExecutorOptions){.n_threads = 2}, &n.exec));
    return n;
}

static void close_net(Net *n) {
    rp_executor_free(n->exec);
    rp_plan_free(n->plan);
    rp_graph_free(n->g);
}

static void fill(float *v, int n, float first) {
    for (int i = 0; i < n; i++) v[i] = first + 0.25f * (float)i;
}

static RpExternalTensor *tensor_of(const char *name, float *data, int64_t ne0, int64_t ne1) {
    RpExternalTensor *t;
    OK(rp_external_new(&(RpExternalMemory){.name = name, .view = matrix(data, ne0, ne1)}, &t));
    return t;
}

/* The bits of the net in its own memory. */
static void reference(float *w, const float *x, float *y) {
    Net n = open_net(NULL, w);
    memcpy(rp_executor_data(n.exec, n.x), x, N * T * sizeof *x);
    OK(rp_executor_run(n.exec));
    memcpy(y, rp_executor_data(n.exec, n.y), M * T * sizeof *y);
    close_net(&n);
}

Test(external, weights_inputs_and_outputs_are_used_where_they_lie) {
    float w[N * M], x[N * T], y[M * T], want[M * T];
    fill(w, N * M, -1.0f), fill(x, N * T, 0.5f);
    Produced p;
    produce(&p, w, M, N);
    RpExternalTensor *tw, *tx = tensor_of("x", x, N, T), *ty = tensor_of("y", y, M, T);
    OK(rp_external_from_dlpack(&p.plain, "w", &tw));
    Net n = open_net(tw, NULL);
    cr_expect_eq(rp_node_external(rp_graph_find(n.g, "w")), tw);
    OK(rp_executor_tensor_bind(n.exec, n.x, tx));
    OK(rp_executor_tensor_bind(n.exec, n.y, ty));
    cr_expect_eq(rp_executor_data(n.exec, n.x), (void *)x);
    cr_expect_eq(rp_executor_data(n.exec, n.y), (void *)y);
    for (int i = 0; i < 2; i++) { /* values that change outside are used by the next run */
        OK(rp_executor_run(n.exec));
        reference(w, x, want);
        cr_expect_arr_eq(y, want, sizeof want, CASE(i));
        w[5] += 2.0f, x[1] -= 3.0f;
    }
    OK(rp_executor_poison(n.exec));
    cr_expect_neq(y[0], y[0], "the bound output is filled with NaN");
    OK(rp_executor_tensor_bind(n.exec, n.y, NULL));
    OK(rp_executor_run(n.exec));
    cr_expect_neq(y[0], y[0], "after unbinding the result is in memory of the executor");
    reference(w, x, want);
    cr_expect_arr_eq(rp_executor_data(n.exec, n.y), want, sizeof want);
    rp_external_free(tw), rp_external_free(tx), rp_external_free(ty);
    cr_expect_eq(p.deleted, 0, "the graph still has the weight");
    close_net(&n);
    cr_expect_eq(p.deleted, 1);
}

Test(external, results_outlive_their_executor) {
    float w[N * M], x[N * T], want[M * T];
    fill(w, N * M, -1.0f), fill(x, N * T, 0.5f);
    reference(w, x, want);
    for (int versioned = 0; versioned < 2; versioned++) {
        Net n = open_net(NULL, w);
        memcpy(rp_executor_data(n.exec, n.x), x, sizeof x);
        OK(rp_executor_run(n.exec));
        RpExternalTensor                *t;
        struct DLManagedTensor          *plain = NULL;
        struct DLManagedTensorVersioned *v     = NULL;
        OK(rp_executor_tensor(n.exec, n.y, &t));
        cr_expect_eq(rp_external_view(t).data, rp_executor_data(n.exec, n.y), CASE(versioned));
        if (versioned)
            OK(rp_external_to_dlpack_versioned(t, &v));
        else
            OK(rp_external_to_dlpack(t, &plain));
        rp_external_free(t);
        close_net(&n);
        const DlTensor *d = versioned ? &v->tensor : &plain->tensor;
        cr_expect_eq(d->ndim, 2, CASE(versioned));
        cr_expect(d->shape[0] == T && d->shape[1] == M && d->strides[0] == M && d->strides[1] == 1, CASE(versioned));
        cr_expect(d->device.type == DL_CPU && d->dtype.code == DL_FLOAT && d->dtype.bits == 32, CASE(versioned));
        cr_expect_arr_eq(d->data, want, sizeof want, CASE(versioned));
        if (versioned)
            v->deleter(v);
        else
            plain->deleter(plain);
    }
}

/* An executor that shares uses the arena of its owner; a result keeps it after both are gone. */
Test(external, results_of_executors_that_share) {
    float w[N * M];
    fill(w, N * M, -1.0f);
    Net         n = open_net(NULL, w);
    RpExecutor *second;
    OK(rp_executor_open(n.plan, &(RpExecutorOptions){.share = n.exec}, &second));
    fill(rp_executor_data(second, n.x), N * T, 0.5f);
    OK(rp_executor_run(second));
    RpExternalTensor *t;
    OK(rp_executor_tensor(second, n.y, &t));
    float want[M * T];
    memcpy(want, rp_executor_data(second, n.y), sizeof want);
    rp_executor_free(second);
    close_net(&n);
    cr_expect_arr_eq(rp_external_view(t).data, want, sizeof want);
    rp_external_free(t);
}

/* A bound tensor as a result of the executor: the same memory, held too. */
Test(external, a_bound_tensor_can_be_passed_on) {
    float w[N * M], y[M * T];
    int   freed = 0;
    fill(w, N * M, -1.0f);
    Net               n = open_net(NULL, w);
    RpExternalTensor *ty, *again;
    OK(rp_external_new(&(RpExternalMemory){.view = matrix(y, M, T), .release = count, .user = &freed}, &ty));
    OK(rp_executor_tensor_bind(n.exec, n.y, ty));
    rp_external_free(ty);
    OK(rp_executor_tensor(n.exec, n.y, &again));
    cr_expect_eq(rp_external_view(again).data, (void *)y);
    close_net(&n);
    cr_expect_eq(freed, 0);
    rp_external_free(again);
    cr_expect_eq(freed, 1);
}

Test(external, types_and_dimensions_of_dlpack) {
    static const struct {
        int     code, bits;
        RpDtype dtype;
    } types[] = {
        {DL_FLOAT,  32, RP_F32 },
        {DL_FLOAT,  16, RP_F16 },
        {DL_BFLOAT, 16, RP_BF16},
        {DL_INT,    32, RP_I32 }
    };
    _Alignas(8) char memory[256] = {0};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        for (int ndim = 0; ndim <= RP_MAX_DIMS; ndim++) {
            Produced          p;
            RpExternalTensor *t;
            produce(&p, memory, 1, 1);
            p.versioned.tensor.dtype       = (DlDataType){(uint8_t)types[i].code, (uint8_t)types[i].bits, 1};
            p.versioned.tensor.ndim        = ndim;
            p.versioned.tensor.strides     = NULL;
            p.versioned.tensor.byte_offset = 8;
            for (int d = 0; d < ndim; d++) p.shape[d] = d + 1;
            OK(rp_external_from_dlpack_versioned(&p.versioned, NULL, &t));
            const RpTensorView v = rp_external_view(t);
            cr_expect_eq(v.dtype, types[i].dtype, CASE(i, ndim));
            cr_expect_eq(v.data, (void *)(memory + 8), CASE(i, ndim));
            for (int d = 0; d < RP_MAX_DIMS; d++) cr_expect_eq(v.ne[d], d < ndim ? ndim - d : 1, CASE(i, ndim, d));
            cr_expect(rp_view_is_contiguous(&v), CASE(i, ndim));
            struct DLManagedTensor *back;
            OK(rp_external_to_dlpack(t, &back));
            cr_expect_eq(back->tensor.dtype.code, types[i].code, CASE(i, ndim));
            cr_expect_eq(back->tensor.dtype.bits, types[i].bits, CASE(i, ndim));
            rp_external_free(t);
            cr_expect_eq(p.deleted, 0, CASE(i, ndim));
            back->deleter(back);
            cr_expect_eq(p.deleted, 1, CASE(i, ndim));
        }
}

Test(external, read_only_memory_says_so) {
    float    x[N * T] = {0};
    Produced p;
    produce(&p, x, T, N);
    p.versioned.flags = DL_FLAG_READ_ONLY;
    RpExternalTensor *t;
    OK(rp_external_from_dlpack_versioned(&p.versioned, "x", &t));
    cr_expect(rp_external_read_only(t));
    struct DLManagedTensor          *plain;
    struct DLManagedTensorVersioned *v;
    REFUSED(rp_external_to_dlpack(t, &plain), RP_E_UNSUPPORTED,
            "external tensor 'x' is for reading only: only DLPack 1.x can say so");
    cr_expect_null(plain);
    OK(rp_external_to_dlpack_versioned(t, &v));
    cr_expect_eq(v->flags, (uint64_t)DL_FLAG_READ_ONLY);
    v->deleter(v);
    rp_external_free(t);
    cr_expect_eq(p.deleted, 1);
}

/* ---- refusals ---- */

/* The tensor is refused with this text, and given back at once. */
#define REFUSED_DLPACK(change, status, text)                                                                           \
    do {                                                                                                               \
        float             memory[16] = {0};                                                                            \
        Produced          p;                                                                                           \
        RpExternalTensor *t = (void *)1;                                                                               \
        produce(&p, memory, M, N);                                                                                     \
        DlTensor *d = &p.versioned.tensor;                                                                             \
        change;                                                                                                        \
        (void)d;                                                                                                       \
        REFUSED(rp_external_from_dlpack_versioned(&p.versioned, "w", &t), status, text);                               \
        cr_expect_null(t, text);                                                                                       \
        cr_expect_eq(p.deleted, 1, text);                                                                              \
    } while (0)

Test(external, bad_dlpack_tensors_are_refused_and_given_back) {
    REFUSED_DLPACK(p.versioned.major = 2, RP_E_UNSUPPORTED, "DLPack tensor 'w': version 2.2, must be 1.x");
    REFUSED_DLPACK(d->device.type = 10, RP_E_UNSUPPORTED,
                   "DLPack tensor 'w': a device of type 10, must be memory of the host or of CUDA");
    REFUSED_DLPACK(d->dtype.bits = 64, RP_E_DTYPE,
                   "DLPack tensor 'w': type code 2, 64 bits, 1 lanes: must be f32, f16, bf16 or i32");
    REFUSED_DLPACK(d->dtype.lanes = 4, RP_E_DTYPE, "type code 2, 32 bits, 4 lanes");
    REFUSED_DLPACK(d->ndim = 5, RP_E_SHAPE, "DLPack tensor 'w': 5 dimensions, must be from 0 to 4");
    REFUSED_DLPACK(d->ndim = -1, RP_E_SHAPE, "DLPack tensor 'w': -1 dimensions");
    REFUSED_DLPACK(d->shape = NULL, RP_E_ARG, "DLPack tensor 'w': it has no shape");
    REFUSED_DLPACK(p.shape[0] = 0, RP_E_SHAPE,
                   "external tensor 'w' f32 [4,0]: dimensions must be positive, and bytes fit into 64 bits");
    REFUSED_DLPACK(p.shape[1] = -4, RP_E_SHAPE, "dimensions must be positive");
    REFUSED_DLPACK(p.shape[0] = INT64_MAX / 2, RP_E_SHAPE, "dimensions must be positive");
    REFUSED_DLPACK(p.strides[0] = -4, RP_E_UNSUPPORTED, "DLPack tensor 'w': stride -4 of dimension 0 must be positive");
    REFUSED_DLPACK((p.strides[0] = 0, p.strides[1] = 0), RP_E_UNSUPPORTED,
                   "DLPack tensor 'w': stride 0 of dimension 1 must be positive");
    REFUSED_DLPACK(p.strides[0] = INT64_MAX / 2, RP_E_SHAPE,
                   "DLPack tensor 'w': stride 4611686018427387903 of dimension 0 is beyond 64 bits");
    REFUSED_DLPACK(p.strides[0] = INT64_MAX / 4, RP_E_SHAPE,
                   "external tensor 'w' f32 [4,3]: its last byte is beyond 64 bits");
    REFUSED_DLPACK(d->byte_offset = UINT64_MAX, RP_E_SHAPE,
                   "DLPack tensor 'w': byte offset 18446744073709551615 is beyond 64 bits");
    REFUSED_DLPACK(d->byte_offset = 2, RP_E_ARG, "external tensor 'w' f32 [4,3]: its address is not a multiple of 4");
    REFUSED_DLPACK(d->data = NULL, RP_E_ARG, "external tensor 'w' f32 [4,3]: it has no data");
    REFUSED_DLPACK(d->device = ((DlDevice){DL_CUDA, -1}), RP_E_ARG,
                   "external tensor 'w': device 'cuda:-1', must be cpu or cuda:N");
}

Test(external, without_a_place_for_the_result_the_tensor_is_given_back) {
    float    memory[N * M] = {0};
    Produced p;
    int      freed = 0;
    produce(&p, memory, M, N);
    REFUSED(rp_external_from_dlpack(&p.plain, NULL, NULL), RP_E_ARG, "rp_external_from_dlpack: out is NULL");
    REFUSED(rp_external_from_dlpack_versioned(&p.versioned, NULL, NULL), RP_E_ARG, "out is NULL");
    cr_expect_eq(p.deleted, 2);
    const RpExternalMemory m = {.view = matrix(memory, N, M), .release = count, .user = &freed};
    REFUSED(rp_external_new(&m, NULL), RP_E_ARG, "rp_external_new: out is NULL");
    cr_expect_eq(freed, 1);
    p.plain.deleter = NULL; /* allowed: nothing to do */
    RpExternalTensor *t;
    OK(rp_external_from_dlpack(&p.plain, NULL, &t));
    rp_external_free(t);
}

#define REFUSED_MEMORY(change, status, text)                                                                                   \
    do {                                                                                                                       \
        float             memory[N * M] = {0};                                                                                 \
        int               freed         = 0;                                                                                   \
        RpExternalTensor *t             = (void *)1;                                                                           \
        RpExternalMemory  m             = {                                                                                    \
                         .name = "w", .view = matrix(memory, N, M), .bytes = sizeof memory, .release = count, .user = &freed}; \
        change;                                                                                                                \
        REFUSED(rp_external_new(&m, &t), status, text);                                                                        \
        cr_expect_null(t, text);                                                                                               \
        cr_expect_eq(freed, 1, text);                                                                                          \
    } while (0)

Test(external, bad_descriptors_are_refused_and_given_back) {
    REFUSED_MEMORY(m.bytes--, RP_E_SHAPE, "external tensor 'w' f32 [4,3]: it takes 48 bytes, the memory has 47");
    REFUSED_MEMORY(m.view.nb[1] = 17, RP_E_ARG,
                   "external tensor 'w' f32 [4,3]: stride 17 of dimension 1 is not a multiple of 4");
    REFUSED_MEMORY(m.view.dtype = RP_Q4_0, RP_E_DTYPE, "external tensor 'w': type q4_0, must be f32, f16, bf16 or i32");
    REFUSED_MEMORY(m.device = "tpu", RP_E_ARG, "external tensor 'w': device 'tpu', must be cpu or cuda:N");
    REFUSED_MEMORY(m.device = "cuda:1x", RP_E_ARG, "device 'cuda:1x'");
    REFUSED_MEMORY(m.flags = 6, RP_E_ARG, "external tensor 'w': unknown flags 0x6");
}

/* A tensor with another view of 64 floats. */
static RpExternalTensor *tensor_with(RpDtype dtype, int64_t ne0, int64_t ne1, size_t nb0, size_t nb1,
                                     const char *device, uint64_t flags) {
    static float      memory[64];
    RpExternalTensor *t;
    RpExternalMemory  m = {.name   = "a",
                           .view   = rp_view_contiguous(dtype, (const int64_t[]){ne0, ne1, 1, 1}, memory),
                           .device = device,
                           .flags  = flags};
    if (nb0 != 0) m.view.nb[0] = nb0, m.view.nb[1] = nb1;
    OK(rp_external_new(&m, &t));
    return t;
}

static void refuse_bind(Net *n, const TensorNode *node, RpExternalTensor *t, RpStatus status, const char *text) {
    REFUSED(rp_executor_tensor_bind(n->exec, node, t), status, text);
    rp_external_free(t);
}

Test(external, tensors_that_do_not_fit_a_node_are_refused_and_what_was_bound_stays) {
    float w[N * M], x[N * T], y[M * T], big[64];
    fill(w, N * M, -1.0f), fill(x, N * T, 0.5f);
    Net               n  = open_net(NULL, w);
    RpExternalTensor *tx = tensor_of("x", x, N, T), *ty = tensor_of("y", y, M, T);
    OK(rp_executor_tensor_bind(n.exec, n.x, tx));
    OK(rp_executor_tensor_bind(n.exec, n.y, ty));
    refuse_bind(&n, n.x, tensor_with(RP_F16, N, T, 0, 0, NULL, 0), RP_E_DTYPE,
                "input 'x' f32 [4,2]: external tensor 'a' f16 [4,2] has another type");
    refuse_bind(&n, n.x, tensor_with(RP_F32, T, N, 0, 0, NULL, 0), RP_E_SHAPE,
                "input 'x' f32 [4,2]: external tensor 'a' f32 [2,4] has another shape");
    refuse_bind(&n, n.x, tensor_with(RP_F32, N, T, 8, 4, NULL, 0), RP_E_SHAPE,
                "input 'x' f32 [4,2]: external tensor 'a' f32 [4,2] is not contiguous");
    refuse_bind(&n, n.x, tensor_with(RP_F32, N, T, 0, 0, "cuda:1", 0), RP_E_ARG,
                "input 'x' f32 [4,2] of an executor on cpu: external tensor 'a' f32 [4,2] is memory of cuda:1");
    refuse_bind(&n, n.y, tensor_with(RP_F32, M, T, 0, 0, NULL, RP_EXTERNAL_READ_ONLY), RP_E_ARG,
                "output 'y' of silu f32 [3,2]: external tensor 'a' f32 [3,2] is for reading only");
    REFUSED(rp_executor_tensor_bind(n.exec, rp_graph_find(n.g, "w"), tx), RP_E_ARG,
            "'w' is neither an input nor an output in memory of the executor");
    refuse_bind(&n, n.y, tensor_of("a", x + 2, M, T), RP_E_ARG,
                "output 'y' of silu: external tensor 'a' f32 [3,2] overlaps the memory of x");
    refuse_bind(&n, n.y, tensor_of("a", w + 6, M, T), RP_E_ARG, "overlaps the memory of a weight");
    OK(rp_executor_tensor_bind(n.exec, n.x, NULL));
    RpExternalTensor *own;
    OK(rp_executor_tensor(n.exec, n.x, &own));
    refuse_bind(&n, n.x, own, RP_E_ARG, "input 'x': external tensor 'x' f32 [4,2] overlaps the memory of the executor");
    OK(rp_executor_tensor_bind(n.exec, n.x, tx));
    cr_expect_eq(rp_executor_data(n.exec, n.x), (void *)x);
    cr_expect_eq(rp_executor_data(n.exec, n.y), (void *)y);
    OK(rp_executor_run(n.exec));
    reference(w, x, big);
    cr_expect_arr_eq(y, big, sizeof y);
    rp_external_free(tx), rp_external_free(ty);
    close_net(&n);
}

/* An output that is half of another node has no buffer of its own. */
Test(external, an_output_that_is_a_view_is_refused) {
    ComputeGraph *g   = rp_graph_new();
    TensorNode   *x   = rp_graph_input(g, "x", RP_F32, (const int64_t[]){N, T, 1, 1});
    TensorNode   *s   = rp_node_set_name(rp_silu(g, x), "s");
    TensorNode   *y[] = {
          rp_scale(g, s, 2.0f, 0.0f),
          rp_node_set_name(rp_view(g, s, &(RpViewParams){.ne = {N, 1, 1, 1}, .nb = {4, 16, 16, 16}}
            ), "v")
    };
    ExecPlan   *plan;
    RpExecutor *exec;
    OK(rp_graph_finish(g, y, 2));
    OK(rp_plan_new(g, &plan));
    OK(rp_executor_open(plan, NULL, &exec));
    RpExternalTensor *t = tensor_with(RP_F32, N, 1, 0, 0, NULL, 0);
    REFUSED(rp_executor_tensor_bind(exec, y[1], t), RP_E_UNSUPPORTED,
            "output 'v' of view f32 [4] is a part of 's', or another order of its elements: no tensor can be bound");
    rp_external_free(t);
    OK(rp_executor_tensor(exec, y[1], &t)); /* as a result it can be given away */
    cr_expect_eq(rp_external_view(t).data, rp_executor_data(exec, y[1]));
    rp_external_free(t);
    rp_executor_free(exec);
    rp_plan_free(plan);
    rp_graph_free(g);
}

static void refuse_weight(RpExternalTensor *t, RpStatus status, const char *text) {
    ComputeGraph *g = rp_graph_new();
    cr_expect_null(rp_graph_weight_external(g, "w", t), "%s", text);
    REFUSED(rp_graph_finish(g, NULL, 0), status, text);
    rp_graph_free(g);
    rp_external_free(t);
}

Test(external, weights_in_another_order_or_on_a_gpu_are_refused) {
    refuse_weight(tensor_with(RP_F32, N, M, 12, 4, NULL, 0), RP_E_SHAPE,
                  "weight 'w': external tensor f32 [4,3] has strides of another order: rows must follow one another");
    refuse_weight(tensor_with(RP_F32, N, M, 4, 8, NULL, 0), RP_E_SHAPE, "has strides of another order");
    refuse_weight(tensor_with(RP_F32, N, M, 0, 0, "cuda:0", 0), RP_E_UNSUPPORTED,
                  "weight 'w': external tensor f32 [4,3] is memory of a GPU: weights are read from the host");
    refuse_weight(NULL, RP_E_ARG, "rp_graph_weight_external: t is NULL");
    ComputeGraph     *g = rp_graph_new();
    RpExternalTensor *t = tensor_with(RP_F32, N, M, 0, 0, NULL, 0);
    cr_expect_null(rp_graph_weight_external(g, NULL, t));
    REFUSED(rp_graph_finish(g, NULL, 0), RP_E_ARG, "rp_graph_weight_external: name is NULL");
    rp_external_free(t);
    rp_graph_free(g);
}

/* Rows with gaps between them, as a slice of columns of a larger matrix has. */
Test(external, rows_of_a_weight_may_have_gaps) {
    float memory[64], packed[N * M], x[N * T], want[M * T];
    fill(memory, 64, -2.0f), fill(x, N * T, 0.5f);
    for (int i = 0; i < N * M; i++) packed[i] = memory[1 + i / N * 9 + i % N];
    RpTensorView v = matrix(memory + 1, N, M);
    v.nb[1]        = 9 * sizeof(float);
    RpExternalTensor *t;
    OK(rp_external_new(&(RpExternalMemory){.name = "w", .view = v}, &t));
    Net n = open_net(t, NULL);
    rp_external_free(t);
    memcpy(rp_executor_data(n.exec, n.x), x, sizeof x);
    OK(rp_executor_run(n.exec));
    reference(packed, x, want);
    cr_expect_arr_eq(rp_executor_data(n.exec, n.y), want, sizeof want);
    close_net(&n);
}

/* A graph that fails later gives its weights back too. */
Test(external, a_graph_that_fails_gives_its_tensors_back) {
    float             w[N * M] = {0};
    int               freed    = 0;
    RpExternalTensor *t;
    OK(rp_external_new(&(RpExternalMemory){.view = matrix(w, N, M), .release = count, .user = &freed}, &t));
    ComputeGraph *g = rp_graph_new();
    TensorNode   *a = rp_graph_weight_external(g, "w", t);
    (void)rp_mul_mat(g, a, rp_graph_input(g, "x", RP_F32, (const int64_t[]){N + 1, T, 1, 1}));
    REFUSED(rp_graph_finish(g, &a, 1), RP_E_SHAPE, "mul_mat (node 2): sources w='w' f32 [4,3], x='x' f32 [5,2]");
    rp_external_free(t);
    cr_expect_eq(freed, 0);
    rp_graph_free(g);
    cr_expect_eq(freed, 1);
}

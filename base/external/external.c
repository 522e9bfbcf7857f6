/* External tensors: what a descriptor says is checked here once, so that graphs and executors only compare types and
 * shapes. Sizes are computed with overflow checks: shapes and strides come from other programs. */
#include "base/external/external.h"

#include "base/argument.h"
#include "base/format.h"
#include "base/sized.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "external tensor 'x' f32 [4,3]" */
static const char *describe(const RpExternalTensor *t, char *text, size_t size) {
    char shape[96];
    snprintf(text, size, "external tensor '%s' %s", t->name, rp_format_shape(&t->view, shape, sizeof shape));
    return text;
}

/* ---- checks ---- */

static RpStatus check_type(const RpExternalTensor *t) {
    const RpDtype d = t->view.dtype;
    if (d == RP_F32 || d == RP_F16 || d == RP_BF16 || d == RP_I32) return RP_OK;
    return rp_fail(RP_E_DTYPE, "external tensor '%s': type %s, must be f32, f16, bf16 or i32", t->name,
                   rp_dtype_name(d));
}

static RpStatus check_shape(const RpExternalTensor *t) {
    char    text[192];
    int64_t elems = 1;
    for (int i = 0; i < RP_MAX_DIMS; i++) {
        /* The limit of leaves of a graph: bytes fit into 64 bits. */
        if (t->view.ne[i] < 1 || t->view.ne[i] > (INT64_MAX >> 5) / elems)
            return rp_fail(RP_E_SHAPE, "%s: dimensions must be positive, and bytes fit into 64 bits",
                           describe(t, text, sizeof text));
        elems *= t->view.ne[i];
    }
    return RP_OK;
}

/* rp_view_extent_bytes with a check of each sum and product; false: beyond the address space. */
static bool extent(const RpTensorView *v, size_t *bytes) {
    *bytes = rp_row_bytes(v->dtype, 1);
    for (int i = 0; i < RP_MAX_DIMS; i++) {
        size_t part;
        if (__builtin_mul_overflow((size_t)(v->ne[i] - 1), v->nb[i], &part) ||
            __builtin_add_overflow(*bytes, part, bytes))
            return false;
    }
    uintptr_t end;
    return !__builtin_add_overflow((uintptr_t)v->data, *bytes, &end);
}

static RpStatus check_memory(RpExternalTensor *t, size_t bytes) {
    RpTensorView *v = &t->view;
    char          text[192];
    describe(t, text, sizeof text);
    const size_t element = rp_row_bytes(v->dtype, 1);
    size_t       needed;
    if ((v->nb[0] | v->nb[1] | v->nb[2] | v->nb[3]) == 0) *v = rp_view_contiguous(v->dtype, v->ne, v->data);
    if (v->data == NULL) return rp_fail(RP_E_ARG, "%s: it has no data", text);
    if ((uintptr_t)v->data % element != 0)
        return rp_fail(RP_E_ARG, "%s: its address is not a multiple of %zu", text, element);
    for (int i = 0; i < RP_MAX_DIMS; i++)
        if (v->ne[i] > 1 && v->nb[i] % element != 0)
            return rp_fail(RP_E_ARG, "%s: stride %zu of dimension %d is not a multiple of %zu", text, v->nb[i], i,
                           element);
    if (!extent(v, &needed)) return rp_fail(RP_E_SHAPE, "%s: its last byte is beyond 64 bits", text);
    if (bytes != 0 && needed > bytes)
        return rp_fail(RP_E_SHAPE, "%s: it takes %zu bytes, the memory has %zu", text, needed, bytes);
    return RP_OK;
}

static RpStatus check_device(RpExternalTensor *t, const char *device) {
    int index = 0, end = 0;
    if (device == NULL) device = "cpu";
    const bool gpu = sscanf(device, "cuda:%5d%n", &index, &end) == 1 && device[end] == '\0' && index >= 0;
    if (!gpu && strcmp(device, "cpu") != 0)
        return rp_fail(RP_E_ARG, "external tensor '%s': device '%s', must be cpu or cuda:N", t->name, device);
    if (gpu)
        snprintf(t->device, sizeof t->device, "cuda:%d", index);
    else
        snprintf(t->device, sizeof t->device, "cpu");
    return RP_OK;
}

static RpStatus fill(RpExternalTensor *t, const RpExternalMemory *m) {
    t->holders   = 1;
    t->view      = m->view;
    t->read_only = (m->flags & RP_EXTERNAL_READ_ONLY) != 0;
    snprintf(t->name, sizeof t->name, "%s", m->name != NULL ? m->name : "");
    if ((m->flags & ~(uint64_t)RP_EXTERNAL_READ_ONLY) != 0)
        return rp_fail(RP_E_ARG, "external tensor '%s': unknown flags 0x%llx", t->name, (unsigned long long)m->flags);
    RP_TRY(check_device(t, m->device));
    RP_TRY(check_type(t));
    RP_TRY(check_shape(t));
    RP_TRY(check_memory(t, m->bytes));
    t->release = m->release;
    t->user    = m->user;
    return RP_OK;
}

/* ---- life ---- */

static RpStatus external_new(const RpExternalMemory *m, RpExternalTensor **out) {
    RpExternalTensor *t  = calloc(1, sizeof *t);
    const RpStatus    st = t != NULL ? fill(t, m) : rp_fail(RP_E_NOMEM, "out of memory for an external tensor");
    if (st == RP_OK)
        *out = t;
    else
        free(t);
    return st;
}

RpStatus rp_external_new_sized(const RpExternalMemory *memory, size_t memory_bytes, RpExternalTensor **out) {
    RP_NOT_NULL(memory, "memory");
    if (out != NULL) *out = NULL;
    RpExternalMemory m;
    RP_TRY(rp_sized_in(&m, sizeof m, memory, memory_bytes, "RpExternalMemory"));
    const RpStatus st = out != NULL ? external_new(&m, out) : rp_argument_is_null(__func__, "out");
    if (st != RP_OK && m.release != NULL) m.release(m.user);
    return st;
}

RpExternalTensor *rp_external_hold(RpExternalTensor *t) {
    atomic_fetch_add_explicit(&t->holders, 1, memory_order_relaxed);
    return t;
}

void rp_external_free(RpExternalTensor *t) {
    if (t == NULL || atomic_fetch_sub_explicit(&t->holders, 1, memory_order_acq_rel) > 1) return;
    if (t->release != NULL) t->release(t->user);
    free(t);
}

RpTensorView rp_external_view(const RpExternalTensor *t) { return t != NULL ? t->view : (RpTensorView){0}; }
const char  *rp_external_device(const RpExternalTensor *t) { return t != NULL ? t->device : ""; }
bool         rp_external_read_only(const RpExternalTensor *t) { return t != NULL && t->read_only; }

RpStatus rp_external_fits(const RpExternalTensor *t, const char *what, const RpTensorView *want) {
    char text[192], shape[96];
    rp_format_shape(want, shape, sizeof shape);
    if (t->view.dtype != want->dtype)
        return rp_fail(RP_E_DTYPE, "%s %s: %s has another type", what, shape, describe(t, text, sizeof text));
    if (memcmp(t->view.ne, want->ne, sizeof want->ne) != 0)
        return rp_fail(RP_E_SHAPE, "%s %s: %s has another shape", what, shape, describe(t, text, sizeof text));
    return RP_OK;
}

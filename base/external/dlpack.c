/* DLPack in both directions. The tensor of another library is taken over: whatever happens, its deleter runs once. */
#include "base/external/dlpack.h"

#include "base/argument.h"
#include "base/external/external.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- from DLPack ---- */

static RpStatus type_of(const char *name, DlDataType d, RpDtype *out) {
    static const struct {
        uint8_t code, bits;
        RpDtype dtype;
    } known[] = {
        {DL_FLOAT,  32, RP_F32 },
        {DL_FLOAT,  16, RP_F16 },
        {DL_BFLOAT, 16, RP_BF16},
        {DL_INT,    32, RP_I32 }
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (d.code == known[i].code && d.bits == known[i].bits && d.lanes == 1) {
            *out = known[i].dtype;
            return RP_OK;
        }
    return rp_fail(RP_E_DTYPE, "DLPack tensor '%s': type code %d, %d bits, %d lanes: must be f32, f16, bf16 or i32",
                   name, d.code, d.bits, d.lanes);
}

static RpStatus device_of(const char *tensor, DlDevice d, char *name, size_t size) {
    if (d.type == DL_CPU || d.type == DL_CUDA_HOST)
        snprintf(name, size, "cpu");
    else if (d.type == DL_CUDA)
        snprintf(name, size, "cuda:%d", d.id);
    else
        return rp_fail(RP_E_UNSUPPORTED,
                       "DLPack tensor '%s': a device of type %d, must be memory of the host or of CUDA", tensor,
                       d.type);
    return RP_OK;
}

/* Dimension i of the view is dimension ndim-1-i of DLPack. The stride of a dimension of 1 may be anything. */
static RpStatus shape_of(const char *name, const DlTensor *d, RpTensorView *v) {
    if (d->ndim < 0 || d->ndim > RP_MAX_DIMS)
        return rp_fail(RP_E_SHAPE, "DLPack tensor '%s': %d dimensions, must be from 0 to %d", name, d->ndim,
                       RP_MAX_DIMS);
    if (d->ndim > 0 && d->shape == NULL) return rp_fail(RP_E_ARG, "DLPack tensor '%s': it has no shape", name);
    for (int i = 0; i < RP_MAX_DIMS; i++) v->ne[i] = i < d->ndim ? d->shape[d->ndim - 1 - i] : 1;
    if (d->strides == NULL) return RP_OK; /* nb stays 0: contiguous */
    const int64_t element = (int64_t)rp_row_bytes(v->dtype, 1);
    int64_t       nb      = element;
    for (int i = 0; i < RP_MAX_DIMS; i++) {
        const int at = d->ndim - 1 - i;
        if (at >= 0 && v->ne[i] > 1) {
            if (d->strides[at] <= 0) /* 0: a broadcast tensor, whose elements share memory */
                return rp_fail(RP_E_UNSUPPORTED, "DLPack tensor '%s': stride %lld of dimension %d must be positive",
                               name, (long long)d->strides[at], at);
            if (__builtin_mul_overflow(d->strides[at], element, &nb))
                return rp_fail(RP_E_SHAPE, "DLPack tensor '%s': stride %lld of dimension %d is beyond 64 bits", name,
                               (long long)d->strides[at], at);
        }
        v->nb[i] = (size_t)nb;
        if (v->ne[i] > 0 && __builtin_mul_overflow(nb, v->ne[i], &nb)) nb = element; /* of dimensions of 1 only */
    }
    return RP_OK;
}

static RpStatus describe(const DlTensor *d, RpExternalMemory *m, char *device, size_t device_size) {
    const char *name = m->name != NULL ? m->name : "";
    uintptr_t   address;
    RP_TRY(type_of(name, d->dtype, &m->view.dtype));
    RP_TRY(device_of(name, d->device, device, device_size));
    m->device = device;
    RP_TRY(shape_of(name, d, &m->view));
    if (__builtin_add_overflow((uintptr_t)d->data, (uintptr_t)d->byte_offset, &address))
        return rp_fail(RP_E_SHAPE, "DLPack tensor '%s': byte offset %llu is beyond 64 bits", name,
                       (unsigned long long)d->byte_offset);
    if (d->data != NULL) m->view.data = (void *)address;
    return RP_OK;
}

static void let_go(void *user) {
    struct DLManagedTensor *t = user;
    if (t->deleter != NULL) t->deleter(t);
}

static void let_go_versioned(void *user) {
    struct DLManagedTensorVersioned *t = user;
    if (t->deleter != NULL) t->deleter(t);
}

/* `m` has release and user, which are called here if the descriptor cannot be made, else by rp_external_new. */
static RpStatus take_over(const DlTensor *d, RpExternalMemory *m, RpExternalTensor **out) {
    char           device[32];
    const RpStatus st = describe(d, m, device, sizeof device);
    if (st == RP_OK) return rp_external_new(m, out);
    m->release(m->user);
    return st;
}

RpStatus rp_external_from_dlpack(struct DLManagedTensor *tensor, const char *name, RpExternalTensor **out) {
    RP_NOT_NULL(tensor, "tensor");
    RpExternalMemory m = {.name = name, .release = let_go, .user = tensor};
    if (out == NULL) let_go(tensor);
    RP_OUT(out, "out");
    return take_over(&tensor->tensor, &m, out);
}

RpStatus rp_external_from_dlpack_versioned(struct DLManagedTensorVersioned *tensor, const char *name,
                                           RpExternalTensor **out) {
    RP_NOT_NULL(tensor, "tensor");
    RpExternalMemory m = {.name = name, .release = let_go_versioned, .user = tensor};
    if (out == NULL) let_go_versioned(tensor);
    RP_OUT(out, "out");
    if (tensor->major != DLPACK_MAJOR) {
        const RpStatus st = rp_fail(RP_E_UNSUPPORTED, "DLPack tensor '%s': version %u.%u, must be %d.x",
                                    name != NULL ? name : "", tensor->major, tensor->minor, DLPACK_MAJOR);
        let_go_versioned(tensor);
        return st;
    }
    if ((tensor->flags & DL_FLAG_READ_ONLY) != 0) m.flags = RP_EXTERNAL_READ_ONLY;
    return take_over(&tensor->tensor, &m, out);
}

/* ---- to DLPack ---- */

/* The struct that a consumer gets, and the data that the struct points to. */
typedef struct Exported {
    union {
        struct DLManagedTensor          plain;
        struct DLManagedTensorVersioned versioned;
    };
    int64_t shape[RP_MAX_DIMS], strides[RP_MAX_DIMS];
} Exported;

static void delete_plain(struct DLManagedTensor *self) {
    rp_external_free(self->manager);
    free(self);
}

static void delete_versioned(struct DLManagedTensorVersioned *self) {
    rp_external_free(self->manager);
    free(self);
}

static DlDataType dl_type(RpDtype dtype) {
    return (DlDataType){.code  = dtype == RP_I32    ? DL_INT
                                 : dtype == RP_BF16 ? DL_BFLOAT
                                                    : DL_FLOAT,
                        .bits  = (uint8_t)(8 * rp_row_bytes(dtype, 1)),
                        .lanes = 1};
}

/* Outer dimensions of 1 are left out. */
static DlTensor dl_tensor(const RpExternalTensor *t, Exported *e) {
    const RpTensorView *v    = &t->view;
    int                 ndim = RP_MAX_DIMS;
    while (ndim > 1 && v->ne[ndim - 1] == 1) ndim--;
    for (int i = 0; i < ndim; i++) {
        e->shape[ndim - 1 - i]   = v->ne[i];
        e->strides[ndim - 1 - i] = (int64_t)(v->nb[i] / rp_row_bytes(v->dtype, 1));
    }
    DlDevice device = {.type = DL_CPU};
    if (sscanf(t->device, "cuda:%d", &device.id) == 1) device.type = DL_CUDA;
    return (DlTensor){.data    = v->data,
                      .device  = device,
                      .ndim    = ndim,
                      .dtype   = dl_type(v->dtype),
                      .shape   = e->shape,
                      .strides = e->strides};
}

static Exported *new_export(void) {
    Exported *e = calloc(1, sizeof *e);
    if (e == NULL) (void)rp_fail(RP_E_NOMEM, "out of memory for a DLPack tensor");
    return e;
}

RpStatus rp_external_to_dlpack(RpExternalTensor *t, struct DLManagedTensor **out) {
    RP_OUT(out, "out");
    RP_NOT_NULL(t, "t");
    if (t->read_only)
        return rp_fail(RP_E_UNSUPPORTED, "external tensor '%s' is for reading only: only DLPack 1.x can say so",
                       t->name);
    Exported *e = new_export();
    if (e == NULL) return RP_E_NOMEM;
    e->plain =
        (struct DLManagedTensor){.tensor = dl_tensor(t, e), .manager = rp_external_hold(t), .deleter = delete_plain};
    *out = &e->plain;
    return RP_OK;
}

RpStatus rp_external_to_dlpack_versioned(RpExternalTensor *t, struct DLManagedTensorVersioned **out) {
    RP_OUT(out, "out");
    RP_NOT_NULL(t, "t");
    Exported *e = new_export();
    if (e == NULL) return RP_E_NOMEM;
    e->versioned = (struct DLManagedTensorVersioned){.major   = DLPACK_MAJOR,
                                                     .minor   = DLPACK_MINOR,
                                                     .manager = rp_external_hold(t),
                                                     .deleter = delete_versioned,
                                                     .flags   = t->read_only ? DL_FLAG_READ_ONLY : 0,
                                                     .tensor  = dl_tensor(t, e)};
    *out         = &e->versioned;
    return RP_OK;
}

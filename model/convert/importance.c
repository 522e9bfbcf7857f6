/* Mean squares from the sums and counts of an importance matrix (model/convert/imatrix.c has the format). */
#include "model/convert/importance.h"

#include "model/convert/importance_dat.h"
#include "model/gguf/gguf_file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct Importance {
    RpGgufFile *file;
    char       *dat; /* what a .dat file says, as GGUF; or NULL */
    float      *values;
};

static bool has_sums(const RpGgufFile *f) {
    for (int64_t i = 0; i < rp_gguf_n_tensors(f); i++)
        if (rp_gguf_ends_with(rp_gguf_tensor(f, i)->name, ".in_sum2")) return true;
    return false;
}

static RpStatus open_file(Importance *m, const char *path) {
    size_t bytes = 0;
    if (!rp_importance_is_dat(path)) return rp_gguf_open(path, &m->file);
    RP_TRY(rp_importance_read_dat(path, &m->dat, &bytes));
    return rp_gguf_open_memory(m->dat, bytes, path, &m->file);
}

RpStatus rp_importance_open(const char *path, Importance **out) {
    Importance *m = calloc(1, sizeof *m);
    if (m == NULL) return rp_fail(RP_E_NOMEM, "%s: out of memory", path);
    RpStatus st = open_file(m, path);
    if (st == RP_OK && !has_sums(m->file))
        st = rp_fail(RP_E_FORMAT, "%s: this is no importance matrix: it has no tensor NAME.in_sum2", path);
    if (st != RP_OK) {
        rp_importance_free(m);
        return st;
    }
    *out = m;
    return RP_OK;
}

void rp_importance_free(Importance *m) {
    if (m == NULL) return;
    rp_gguf_close(m->file);
    free(m->dat);
    free(m->values);
    free(m);
}

const RpGgufFile *rp_importance_file(const Importance *m) { return m->file; }

RpStatus rp_importance_refuse_output(const Importance *m, const char *path) {
    struct stat in, out;
    const char *from = rp_gguf_path(m->file);
    if (m->dat == NULL) return rp_gguf_refuse_output(m->file, path);
    if (stat(from, &in) != 0 || stat(path, &out) != 0 || in.st_dev != out.st_dev || in.st_ino != out.st_ino)
        return RP_OK;
    return rp_fail(RP_E_ARG, "%s and %s are the same file: an output must not be an input", path, from);
}

static const RpGgufTensor *find(const Importance *m, RpGgufString weight, const char *what) {
    char name[160];
    snprintf(name, sizeof name, "%.*s.%s", (int)(weight.len < 128 ? weight.len : 128), weight.ptr, what);
    return rp_gguf_find_tensor(m->file, name);
}

bool rp_importance_has(const Importance *m, RpGgufString weight) { return find(m, weight, "in_sum2") != NULL; }

static RpStatus check(const Importance *m, const RpGgufTensor *t, const RpGgufTensor *sums,
                      const RpGgufTensor *counts) {
    const int           n    = (int)(t->name.len < 96 ? t->name.len : 96);
    const char         *path = rp_gguf_path(m->file);
    const RpTensorView *s = &sums->view, *w = &t->view;
    if (counts == NULL) return rp_fail(RP_E_FORMAT, "%s: %.*s has sums but no counts", path, n, t->name.ptr);
    if (!sums->known || !counts->known || s->dtype != RP_F32 || counts->view.dtype != RP_F32)
        return rp_fail(RP_E_FORMAT, "%s: sums and counts of %.*s must be f32", path, n, t->name.ptr);
    /* several matrices may have one count */
    const int64_t n_sums = rp_view_elems(s), n_counts = rp_view_elems(&counts->view);
    if (n_sums != w->ne[0] * w->ne[2] || (n_counts != 1 && n_counts != w->ne[2]))
        return rp_fail(
            RP_E_SHAPE,
            "%s: %.*s has sums [%lld,%lld] of %lld matrices, but the tensor of the model is [%lld,%lld,%lld]: "
            "this importance matrix is of another model",
            path, n, t->name.ptr, (long long)s->ne[0], (long long)s->ne[1], (long long)n_counts, (long long)w->ne[0],
            (long long)w->ne[1], (long long)w->ne[2]);
    return RP_OK;
}

RpStatus rp_importance_of(Importance *m, const RpGgufTensor *t, const float **out, int64_t *n_mat) {
    const RpGgufTensor *sums = find(m, t->name, "in_sum2"), *counts = find(m, t->name, "counts");
    *out   = NULL;
    *n_mat = t->view.ne[2];
    if (sums == NULL) return RP_OK;
    RP_TRY(check(m, t, sums, counts));
    const int64_t n = t->view.ne[0], all = n * *n_mat, n_counts = rp_view_elems(&counts->view);
    free(m->values);
    m->values = malloc((size_t)all * sizeof *m->values);
    if (m->values == NULL) return rp_fail(RP_E_NOMEM, "%s: out of memory", rp_gguf_path(m->file));
    for (int64_t i = 0; i < all; i++) {
        float sum, count;
        memcpy(&sum, (const char *)sums->view.data + (size_t)i * sizeof sum, sizeof sum);
        memcpy(&count, (const char *)counts->view.data + (size_t)(n_counts == 1 ? 0 : i / n) * sizeof count,
               sizeof count);
        m->values[i] = count > 0.0f ? sum / count : 1.0f;
        if (isfinite(sum) && isfinite(count) && sum >= 0.0f && count >= 0.0f && isfinite(m->values[i])) continue;
        return rp_fail(RP_E_FORMAT, "%s: %.*s: sum %lld is %g over %g tokens: must be finite and not below 0",
                       rp_gguf_path(m->file), (int)(t->name.len < 96 ? t->name.len : 96), t->name.ptr, (long long)i,
                       (double)sum, (double)count);
    }
    *out = m->values;
    return RP_OK;
}

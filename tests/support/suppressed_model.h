/* suppressed_model.h - a model whose file says which tokens are never sampled. */
#ifndef TESTS_SUPPRESSED_MODEL_H
#define TESTS_SUPPRESSED_MODEL_H

#include "model/gguf/gguf_file.h"
#include "model/gguf/gguf_write.h"
#include "reprise/model.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <unistd.h>

static inline RpStatus write_suppressed(const RpGgufFile *f, const int32_t *ids, size_t n, GgufWriter *w) {
    rp_gguf_put_values(w, f, true);
    rp_gguf_put_array(w, "tokenizer.ggml.suppress_tokens", RP_GGUF_I32, n);
    for (size_t i = 0; i < n; i++) rp_gguf_put_element(w, &ids[i], sizeof ids[i]);
    for (int64_t i = 0; i < f->n_tensors; i++) {
        const RpGgufTensor *t = &f->tensors[i];
        rp_gguf_put_tensor(w, t->name.ptr, t->name.len, t->view.dtype, t->view.ne);
    }
    RP_TRY(rp_gguf_writer_begin(w));
    for (int64_t i = 0; i < f->n_tensors; i++)
        RP_TRY(rp_gguf_writer_data(w, f->tensors[i].view.data, f->tensors[i].bytes));
    return RP_OK;
}

/* The model of a file, with these ids in tokenizer.ggml.suppress_tokens. */
static inline RpModel *open_suppressed(const char *path, const int32_t *ids, size_t n) {
    char        copy[64];
    RpGgufFile *f;
    GgufWriter *w;
    RpModel    *m = NULL;
    snprintf(copy, sizeof copy, "/tmp/reprise-suppressed-%d.gguf", (int)getpid());
    cr_assert_eq(rp_gguf_open(path, &f), RP_OK, "%s", rp_last_error());
    cr_assert_eq(rp_gguf_writer_open(copy, &w), RP_OK, "%s", rp_last_error());
    cr_assert_eq(rp_gguf_writer_close(w, write_suppressed(f, ids, n, w)), RP_OK, "%s", rp_last_error());
    rp_gguf_close(f);
    cr_assert_eq(rp_model_open(copy, NULL, &m), RP_OK, "%s", rp_last_error());
    cr_assert_eq(unlink(copy), 0);
    return m;
}

#endif

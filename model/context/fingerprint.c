#include "model/context/fingerprint.h"

#include "base/xxh64.h"
#include "model/gguf/gguf_file.h"

enum { SAMPLE_BYTES = 4096 };

static void add_tensor(RpXxh64 *h, const RpGgufTensor *t) {
    const char  *data = t->view.data;
    const size_t n    = t->bytes < SAMPLE_BYTES ? t->bytes : SAMPLE_BYTES;
    rp_xxh64_add(h, t->name.ptr, t->name.len);
    rp_xxh64_add(h, &t->gguf_type, sizeof t->gguf_type);
    rp_xxh64_add(h, t->view.ne, sizeof t->view.ne);
    if (!t->known || n == 0) return;
    rp_xxh64_add(h, data, n);
    rp_xxh64_add(h, data + (t->bytes - n) / 2, n);
    rp_xxh64_add(h, data + t->bytes - n, n);
}

static void add_file(RpXxh64 *h, const RpGgufFile *f) {
    rp_xxh64_add(h, f->data, f->version != 0 ? f->data_at : f->bytes); /* of a directory: its metadata */
    for (int64_t i = 0; i < f->n_tensors; i++) add_tensor(h, &f->tensors[i]);
}

uint64_t rp_model_fingerprint(const RpModel *m) {
    RpXxh64 h;
    rp_xxh64_begin(&h);
    add_file(&h, m->file);
    for (int i = 0; i < m->n_adapters; i++) add_file(&h, m->adapters[i]);
    for (int i = 0; i < m->n_pairs; i++) rp_xxh64_add(&h, &m->pairs[i].scale, sizeof m->pairs[i].scale);
    return rp_xxh64_end(&h);
}

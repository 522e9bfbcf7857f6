/* Opens a model file, or a Hugging Face directory as one (hf.h). The readers of a model see a directory as an
 * RpGgufFile:
 *
 *     metadata   GGUF in memory, without tensors, written from the JSON files
 *     tensors    views of the mapped shards, and private memory (tensors.c)
 *     parts      the shards and the JSON files, to be closed with it */
#include "model/hf/hf.h"

#include "base/argument.h"
#include "model/gguf/gguf_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static RpStatus read_texts(HfModel *m) {
    bool there;
    RP_TRY(rp_hf_has(&m->dir, "config.json", &there));
    if (!there) return rp_hf_refuse_contents(&m->dir, "there is no config.json");
    RP_TRY(rp_hf_json(&m->dir, "config.json", &m->config));
    if (m->config.nodes == NULL) return rp_fail(RP_E_FORMAT, "%s: config.json is empty", m->dir.path);
    RP_TRY(rp_hf_json(&m->dir, "tokenizer.json", &m->tokenizer));
    RP_TRY(rp_hf_json(&m->dir, "tokenizer_config.json", &m->tokenizer_config));
    RP_TRY(rp_hf_json(&m->dir, "generation_config.json", &m->generation));
    return rp_hf_modules(m);
}

/* The metadata as a file without tensors. */
static RpStatus read_metadata(HfModel *m, RpGgufFile **out) {
    RP_TRY(rp_gguf_writer_memory(m->dir.path, &m->out));
    RP_TRY(rp_hf_config(m));
    RP_TRY(rp_hf_tokenizer(m));
    RP_TRY(rp_gguf_writer_read(m->out, out));
    (*out)->parts.family    = m->family;
    (*out)->parts.norm_rope = m->family->norm_rope;
    (*out)->version         = 0;
    return RP_OK;
}

/* Moves the files to f. JSON files have been read already; f keeps only their identity. */
static RpStatus hand_over(HfModel *m, RpGgufFile *f) {
    f->parts.files   = m->dir.files;
    f->parts.n_files = m->dir.n_files;
    m->dir.files     = NULL;
    m->dir.n_files   = 0;
    for (int i = 0; i < f->parts.n_files; i++) {
        const char *end = strrchr(f->parts.files[i]->path, '.');
        if (strcmp(end, ".safetensors") != 0) RP_TRY(rp_gguf_forget(f->parts.files[i]));
    }
    return RP_OK;
}

static RpStatus open_directory(HfModel *m, RpGgufFile **out) {
    RP_TRY(read_texts(m));
    RP_TRY(read_metadata(m, out));
    RP_TRY(rp_hf_tensors(m, *out));
    return hand_over(m, *out);
}

static RpStatus begin_directory(const char *path, bool copy, RpGgufFile **out) {
    HfModel  m  = {.copy = copy};
    RpStatus st = rp_hf_directory_open(path, &m.dir);
    *out        = NULL;
    if (st == RP_OK) st = open_directory(&m, out);
    rp_gguf_writer_drop(m.out);
    rp_json_free(&m.config);
    rp_json_free(&m.tokenizer);
    rp_json_free(&m.tokenizer_config);
    rp_json_free(&m.generation);
    rp_json_free(&m.pooling);
    rp_json_free(&m.sentences);
    for (int i = 0; i < m.n_vectors; i++) free(m.vectors[i].x);
    rp_hf_shards_free(&m.shards);
    rp_hf_directory_close(&m.dir);
    if (st == RP_OK) return RP_OK;
    rp_gguf_close(*out);
    *out = NULL;
    return st;
}

RpStatus rp_gguf_begin_load(const char *path, bool copy, RpGgufFile **out) {
    struct stat info;
    const bool  known = stat(path, &info) == 0;
    if (!known && errno != ENOENT) return rp_fail(RP_E_IO, "%s: %s", path, strerror(errno));
    if (known && S_ISDIR(info.st_mode)) return begin_directory(path, copy, out);
    return rp_gguf_begin_file(path, copy, out); /* also says that there is none */
}

RpStatus rp_gguf_open(const char *path, RpGgufFile **out) {
    RP_OUT(out, "out");
    RP_NOT_NULL(path, "path");
    RP_TRY(rp_gguf_begin_load(path, false, out));
    const RpStatus st = rp_gguf_end_load(*out);
    if (st != RP_OK) {
        rp_gguf_close(*out);
        *out = NULL;
    }
    return st;
}

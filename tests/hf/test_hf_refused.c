/* Directories whose files say what the library would compute otherwise than transformers: each is refused with a
 * text that names file and key or tensor, or is read as transformers reads it. The directories are golden ones
 * (tests/golden/hf) with one text of a file replaced, or hold a few tensors of zeros. */
#include "tests/support/golden.h"

static char folder[64];

static void begin(void) {
    snprintf(folder, sizeof folder, "/tmp/reprise-hf-XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
}

static void end(void) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    cr_expect_eq(system(command), 0);
}

static void write_file(const char *name, const void *data, size_t bytes) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    cr_assert_not_null(f, "%s", path);
    cr_assert_eq(fwrite(data, 1, bytes, f), bytes);
    fclose(f);
}

/* A file below tests/golden with the first `from` replaced; both may be NULL. */
static void copy(const char *dir, const char *name, const char *from, const char *to) {
    enum { ROOM = 1 << 20 };
    char path[512], *p = calloc(1, ROOM);
    snprintf(path, sizeof path, GOLDEN_DIR "%s/%s", dir, name);
    FILE *f = fopen(path, "rb");
    cr_assert(f != NULL && p != NULL, "%s", path);
    size_t n = fread(p, 1, ROOM / 2, f);
    fclose(f);
    if (from != NULL) {
        const size_t n_from = strlen(from), n_to = strlen(to);
        char        *at = memmem(p, n, from, n_from);
        cr_assert_not_null(at, "%s: %s", path, from);
        memmove(at + n_to, at + n_from, n - (size_t)(at - p) - n_from);
        memcpy(at, to, n_to);
        n = n + n_to - n_from;
    }
    write_file(name, p, n);
    free(p);
}

static RpStatus open_folder(void) {
    RpModel       *m  = NULL;
    const RpStatus st = rp_model_open(folder, NULL, &m);
    rp_model_free(m);
    return st;
}

/* ---- weights ---- */

static void write_weights(const char *header, size_t data) {
    const uint64_t n = strlen(header);
    char          *p = calloc(1, 8 + n + data);
    cr_assert_not_null(p);
    memcpy(p, &n, 8);
    memcpy(p + 8, header, n);
    write_file("model.safetensors", p, 8 + n + data);
    free(p);
}

#define TIED  "\"tie_word_embeddings\": false", "\"tie_word_embeddings\": true"
#define LAYER "model.layers.0."
#define TENSOR(name, dtype, shape, offsets)                                                                            \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

/* norm_plus_1 adds 1 to floats. */
Test(hf_refused, norms_that_are_no_vectors_of_floats) {
    begin();
    copy("hf/gemma3", "config.json", NULL, NULL);
    write_weights("{" TENSOR(LAYER "input_layernorm.weight", "F8_E4M3", "[4096]", "[0,4096]") "}", 4096);
    REFUSED(open_folder(), RP_E_FORMAT, "input_layernorm.weight (blk.0.attn_norm.weight): a vector in F8_E4M3");
    write_weights("{" TENSOR(LAYER "input_layernorm.weight", "BF16", "[2,32]", "[0,128]") "}", 128);
    REFUSED(open_folder(), RP_E_FORMAT, "input_layernorm.weight (blk.0.attn_norm.weight): a norm that is no vector");
    end();
}

/* The undefined-behaviour sanitizer sees reads of f16 at odd addresses. */
Test(hf_refused, vectors_and_scales_at_odd_addresses) {
    static const char *const types[] = {"BF16", "F16"};
    char                     header[1024];
    RpGgufFile              *f;
    begin();
    copy("hf/llama", "config.json", TIED);
    for (int i = 0; i < 4; i++) {
        const char *type = types[i / 2];
        const int   n    = snprintf(
                 header, sizeof header,
                 "{\"" LAYER
                 "input_layernorm.weight\":{\"dtype\":\"%s\",\"shape\":[1500],\"data_offsets\":[0,3000]},\"" LAYER
                 "self_attn.q_proj.weight_scale\":{\"dtype\":\"%s\",\"shape\":[],\"data_offsets\":[3000,3002]}," TENSOR(
                     LAYER "self_attn.q_proj.weight", "F8_E4M3", "[4,8]", "[3002,3034]") "}%s",
                 type, type, i % 2 == 0 ? "" : " ");
        write_weights(header, 3034);
        OK(rp_gguf_open(folder, &f));
        const RpGgufTensor *norm = rp_gguf_find_tensor(f, "blk.0.attn_norm.weight");
        cr_assert_not_null(norm, "%s, %d bytes", type, n);
        cr_expect_eq(norm->view.dtype, RP_F32);
        cr_expect_eq(norm->view.ne[0], 1500);
        for (int k = 0; k < 1500; k++)
            cr_assert_eq(((const float *)norm->view.data)[k], 0.0f, "%s, %d bytes, element %d", type, n, k);
        rp_gguf_close(f);
    }
    end();
}

Test(hf_refused, scales_of_fp8) {
#define Q_SCALE "\"" LAYER "self_attn.q_proj.weight_scale_inv\""
    static const struct {
        const char *from, *to, *text;
        RpStatus    status;
    } cases[] = {
        {Q_SCALE,                                "\"" LAYER "self_attn.q_proj.weight_scale_xxx\"",
         "q_proj.weight (blk.0.attn_q.weight): its scales are missing",                                                                      RP_E_FORMAT     },
        {Q_SCALE,                                "\"" LAYER "self_attn.k_proj.weight_scale\"",     "its weight has two tensors of scales",   RP_E_FORMAT     },
        {Q_SCALE,                                "\"" LAYER "input_layernorm.weight_scale\"",      "scales of a weight that is not F8_E4M3", RP_E_FORMAT     },
        {"\"" LAYER "self_attn.q_proj.weight\"", "\"" LAYER "self_attn.q_projxweight\"",
         "scales of a weight that is missing",                                                                                               RP_E_FORMAT     },
        {Q_SCALE,                                "\"blk.0.attn_q.weight#scale\"",
         "tensor blk.0.attn_q.weight#scale: names that begin with train. or contain #",                                                      RP_E_UNSUPPORTED},
    };
    char to[128];
    begin();
    copy("hf/llama-fp8", "config.json", NULL, NULL);
    copy("hf/llama-fp8", "model.safetensors", NULL, NULL);
    OK(open_folder());
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        snprintf(to, sizeof to, "%-*s", (int)strlen(cases[i].from), cases[i].to); /* the header keeps its length */
        copy("hf/llama-fp8", "model.safetensors", cases[i].from, to);
        REFUSED(open_folder(), cases[i].status, cases[i].text);
    }
    end();
}

/* Without weight_block_size there is one scale, or one for each row; 4 scales in a square, or
 * in a row that could be one for each column, are neither. */
Test(hf_refused, shapes_of_scales) {
    static const struct {
        const char *shape;
        bool        good;
    } cases[] = {
        {"[2,2]",   false},
        {"[1,4]",   false},
        {"[4,1,1]", false},
        {"[4]",     true },
        {"[4,1]",   true },
    };
    static const char format[] = "{" TENSOR(LAYER "self_attn.q_proj.weight", "F8_E4M3", "[4,8]", "[0,32]") "," TENSOR(
        LAYER "self_attn.q_proj.weight_scale", "F32", "%s", "[32,48]") "}";
    char        header[1024];
    RpGgufFile *f;
    begin();
    copy("hf/llama", "config.json", TIED);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        snprintf(header, sizeof header, format, cases[i].shape);
        write_weights(header, 48);
        const RpStatus st = rp_gguf_open(folder, &f);
        cr_assert_eq(st, cases[i].good ? RP_OK : RP_E_SHAPE, "%s: %s", cases[i].shape, rp_last_error());
        if (!cases[i].good)
            cr_assert_not_null(strstr(rp_last_error(), "q_proj.weight_scale are ["), "%s", cases[i].shape);
        rp_gguf_close(cases[i].good ? f : NULL);
    }
    end();
}

/* "train.*" is the state of a training in a file of this project, which a model does not use. */
Test(hf_refused, tensors_of_a_training) {
    static const char from[] = LAYER "input_layernorm.weight";
    begin();
    copy("hf/llama", "config.json", NULL, NULL);
    copy("hf/llama", "model.safetensors", from, "train.xxxxxx.0.input_layernorm.weight");
    REFUSED(open_folder(), RP_E_UNSUPPORTED,
            "tensor train.xxxxxx.0.input_layernorm.weight: names that begin with train.");
    cr_assert_eq(strlen(from), strlen("train.xxxxxx.0.input_layernorm.weight"));
    end();
}

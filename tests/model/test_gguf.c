/* The GGUF reader and the checks of a model file. Files are written byte by byte (gguf_writer.h), or a tiny
 * model is changed; every error text is compared. Files end at the end of a mapped page, so that reading past
 * the end is a fault. */
#include "tests/support/case.h"
#include "tests/support/gguf_writer.h"

#include "model/arch_table.h"
#include "model/gguf/gguf_write.h"

#include <math.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* Opens a copy that ends just before an unmapped page:  | ... file | PROT_NONE page | */
static RpStatus open_tight(const void *p, size_t n, RpGgufFile **f, void **memory, size_t *size) {
    *size    = (n + 4095) / 4096 * 4096 + 4096;
    char *at = mmap(NULL, *size + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert_eq(mprotect(at + *size, 4096, PROT_NONE), 0);
    *memory = at;
    *size += 4096;
    at += *size - 4096 - n;
    if (n > 0) memcpy(at, p, n);
    return rp_gguf_open_memory(at, n, "test.gguf", f);
}

static void refuse(Bytes *b, RpStatus status, const char *text) {
    RpGgufFile *f = NULL;
    void       *memory;
    size_t      size;
    REFUSED(open_tight(b->p, b->n, &f, &memory, &size), status, text);
    cr_expect_not_null(strstr(rp_last_error(), "test.gguf: "));
    cr_expect_null(f);
    munmap(memory, size);
    free(b->p);
    *b = (Bytes){0};
}

static void refuse_text(const char *text, size_t n, RpStatus status, const char *what) {
    Bytes b = {0};
    put_bytes(&b, text, n);
    refuse(&b, status, what);
}

Test(gguf, names_the_format_of_files_that_are_not_gguf) {
    refuse_text("", 0, RP_E_FORMAT, "the file is empty");
    refuse_text("PK\x03\x04....", 8, RP_E_FORMAT,
                "this is a zip archive, perhaps a PyTorch checkpoint; convert it to safetensors or GGUF");
    refuse_text("version https://git-lfs.github.com/spec/v1\n", 43, RP_E_FORMAT,
                "this is a Git LFS pointer; fetch the file itself (git lfs pull)");
    refuse_text("<!DOCTYPE html><html>", 21, RP_E_FORMAT, "this is an HTML page; the download went wrong");
    refuse_text("<html><body>", 12, RP_E_FORMAT, "this is an HTML page; the download went wrong");
    refuse_text("\n <!doctype html>", 17, RP_E_FORMAT, "this is an HTML page; the download went wrong");
    refuse_text("{\"error\":\"Repository not found\"}", 33, RP_E_FORMAT,
                "this is an error message of a server; the download went wrong");
    refuse_text("{ \"error\": 1}", 14, RP_E_FORMAT, "this is an error message of a server; the download went wrong");
    refuse_text("Entry not found", 15, RP_E_FORMAT, "this is an error message of a server; the download went wrong");
    refuse_text("Invalid username or password.", 29, RP_E_FORMAT,
                "this is an error message of a server; the download went wrong");
    refuse_text("lmgg\1\0\0\0", 8, RP_E_FORMAT, "this is a GGML file from before GGUF; convert it again");
    refuse_text("\x40\0\0\0\0\0\0\0{\"a\":1}", 15, RP_E_FORMAT,
                "this is a safetensors file: give the directory that it is in");
    refuse_text("{\n  \"architectures\"", 19, RP_E_FORMAT, "this is a JSON file: give the directory that it is in");
    refuse_text("tjgg\3\0\0\0", 8, RP_E_FORMAT, "this is a GGJT file from before GGUF; convert it again");
    refuse_text("FUGG\0\0\0\3", 8, RP_E_UNSUPPORTED, "this is a big-endian GGUF file, which is not supported");
    refuse_text("GGUF\0\0\0\3", 8, RP_E_UNSUPPORTED, "this is a big-endian GGUF file, which is not supported");
    refuse_text("hello", 5, RP_E_FORMAT, "this is not a GGUF file (it does not begin with \"GGUF\")");
    refuse_text("GGU", 3, RP_E_FORMAT, "not a GGUF file");
    refuse_text("GGUF", 4, RP_E_FORMAT, "the version at byte 4 goes past the end of the file (4 bytes; truncated?)");
    RpGgufFile *f;
    REFUSED(rp_gguf_open("/nonexistent/x.gguf", &f), RP_E_IO, "/nonexistent/x.gguf: No such file");
    REFUSED(rp_gguf_open("/", &f), RP_E_IO, "there is no config.json");
    REFUSED(rp_gguf_open("/dev/null", &f), RP_E_IO, "/dev/null: this is not a regular file");
}

#define REFUSE(status, text, ...)                                                                                      \
    do {                                                                                                               \
        Bytes *b = &(Bytes){0};                                                                                        \
        __VA_ARGS__;                                                                                                   \
        refuse(b, (status), (text));                                                                                   \
    } while (0)

Test(gguf, refuses_bad_headers) {
    REFUSE(RP_E_UNSUPPORTED, "GGUF version 1 is not supported (2 and 3 are)", put_header(b, 1, 0, 0));
    REFUSE(RP_E_UNSUPPORTED, "GGUF version 4 is not supported (2 and 3 are)", put_header(b, 4, 0, 0));
    REFUSE(RP_E_FORMAT, "do not fit into 24 bytes", put_header(b, 3, UINT64_C(1) << 60, 0));
    REFUSE(RP_E_FORMAT, "18446744073709551615 values and 0 tensors do not fit into 24 bytes (truncated?)",
           put_header(b, 3, 0, UINT64_MAX));
}

Test(gguf, refuses_bad_values) {
    REFUSE(RP_E_FORMAT, "key a occurs twice", put_header(b, 3, 0, 2), put_key_u32(b, "a", 1), put_key_u32(b, "a", 2));
    REFUSE(RP_E_FORMAT, "a is of the unknown type 13 (byte 33)", put_header(b, 3, 0, 1), put_key(b, "a", 13),
           put_u32(b, 0));
    REFUSE(RP_E_UNSUPPORTED, "a is an array of arrays", put_header(b, 3, 0, 1), put_key(b, "a", RP_GGUF_ARRAY),
           put_u32(b, RP_GGUF_ARRAY), put_u64(b, 0));
    REFUSE(RP_E_FORMAT, "a is a bool of value 2", put_header(b, 3, 0, 1), put_key(b, "a", RP_GGUF_BOOL),
           put_bytes(b, "\2", 1));
    REFUSE(RP_E_FORMAT, "test.gguf: the key of a value at byte 24 is not a name (0 bytes)", put_header(b, 3, 0, 1),
           put_key_u32(b, "", 1));
    REFUSE(RP_E_FORMAT,
           "test.gguf: a: an array at byte 49, of 9223372036854775807 elements, goes past the end of the file (49 "
           "bytes; truncated?)",
           put_header(b, 3, 0, 1), put_key(b, "a", RP_GGUF_ARRAY), put_u32(b, RP_GGUF_U32), put_u64(b, UINT64_MAX / 2));
    REFUSE(RP_E_FORMAT, "an array of strings at byte", put_header(b, 3, 0, 1), put_key(b, "a", RP_GGUF_ARRAY),
           put_u32(b, RP_GGUF_STRING), put_u64(b, UINT64_MAX));
    REFUSE(RP_E_FORMAT, "test.gguf: tokenizer.ggml.tokens: an array of strings at byte", put_header(b, 3, 0, 1),
           put_key(b, "tokenizer.ggml.tokens", RP_GGUF_ARRAY), put_u32(b, RP_GGUF_STRING), put_u64(b, 1u << 31));
    REFUSE(RP_E_FORMAT, "past the end", put_header(b, 3, 0, 1), put_key(b, "a", RP_GGUF_STRING),
           put_u64(b, UINT64_MAX - 7));
    REFUSE(RP_E_FORMAT, "general.alignment is 48, must be a power of two from 8 to 2^20", put_header(b, 3, 0, 1),
           put_key_u32(b, "general.alignment", 48));
    REFUSE(RP_E_FORMAT, "general.alignment is 0", put_header(b, 3, 0, 1), put_key_u32(b, "general.alignment", 0));
}

/* A header and one tensor of [ne0, ne1] with `bytes` of data. */
static void one_tensor(Bytes *b, uint32_t type, uint64_t ne0, uint64_t ne1, uint64_t offset, size_t bytes) {
    put_header(b, 3, 1, 0);
    put_tensor(b, "t", type, ne0, ne1, offset);
    put_data(b, bytes);
}

static void tensor_of_rank(Bytes *b, uint32_t rank) {
    put_header(b, 3, 1, 0);
    put_string(b, "t");
    put_u32(b, rank);
    for (int i = 0; i < 8; i++) put_u64(b, 1);
}

Test(gguf, refuses_bad_tensors) {
    REFUSE(RP_E_FORMAT, "tensor t has 0 dimensions, must be from 1 to 4", tensor_of_rank(b, 0));
    REFUSE(RP_E_FORMAT, "tensor t has 5 dimensions, must be from 1 to 4", tensor_of_rank(b, 5));
    REFUSE(RP_E_FORMAT, "tensor t: dimension 1 is 0", one_tensor(b, 0, 4, 0, 0, 64));
    REFUSE(RP_E_FORMAT, "tensor t: dimension 1 is", one_tensor(b, 0, UINT64_C(1) << 40, UINT64_C(1) << 40, 0, 64));
    REFUSE(RP_E_FORMAT, "tensor t: dimension 0 is", one_tensor(b, 0, UINT64_MAX, 1, 0, 64));
    REFUSE(RP_E_FORMAT, "tensor t: rows of 40 elements are not whole blocks of 32 (Q4_0)",
           one_tensor(b, 2, 40, 1, 0, 64));
    REFUSE(RP_E_FORMAT, "rows of 128 elements are not whole blocks of 256 (Q2_K)", one_tensor(b, 10, 128, 1, 0, 64));
    REFUSE(RP_E_FORMAT, "tensor t is of the unknown type 99", one_tensor(b, 99, 32, 1, 0, 64));
    REFUSE(RP_E_FORMAT, "tensor t is of the unknown type 4", one_tensor(b, 4, 32, 1, 0, 64));
    REFUSE(RP_E_FORMAT,
           "tensor t is of the unknown type 142: ggml has no type of this number, or has withdrawn it (forks of "
           "llama.cpp have "
           "types of their own; programs and plugins can register types)",
           one_tensor(b, 142, 256, 1, 0, 256));
    REFUSE(RP_E_FORMAT, "unknown type 143: ggml has no type of this number", one_tensor(b, 143, 256, 1, 0, 256));
    REFUSE(RP_E_FORMAT, "rows of 64 elements are not whole blocks of 256 (NVFP4)", one_tensor(b, 40, 64, 4, 0, 160));
    REFUSE(RP_E_FORMAT, "its data is not aligned", one_tensor(b, 0, 4, 1, 8, 64));
    REFUSE(RP_E_FORMAT, "tensor t: 64 bytes of data at byte 128 go past the end of the file (160 bytes; truncated?)",
           one_tensor(b, 0, 16, 1, 32, 64));
    REFUSE(RP_E_FORMAT, "go past the end of the file", one_tensor(b, 0, 16, 1, UINT64_MAX - 31, 64));
    REFUSE(RP_E_FORMAT, "the data of the tensors at byte 65 goes past the end of the file", put_header(b, 3, 1, 0),
           put_tensor(b, "t", 0, 4, 1, 0));
    REFUSE(RP_E_FORMAT, "tensor t occurs twice", put_header(b, 3, 2, 0), put_tensor(b, "t", 0, 4, 1, 0),
           put_tensor(b, "t", 0, 4, 1, 32), put_data(b, 64));
    REFUSE(RP_E_FORMAT, "tensors a and b overlap", put_header(b, 3, 2, 0), put_tensor(b, "a", 0, 16, 1, 0),
           put_tensor(b, "b", 0, 4, 1, 32), put_data(b, 64));
}

/* A type whose number forks use for other layouts is known by the bytes that the file has for it. */
Test(gguf, checks_the_bytes_of_types_whose_numbers_forks_reused) {
    static const struct {
        uint32_t    type;
        size_t      bytes, forks; /* of 256 elements, here and in a fork */
        const char *name;
    } types[] = {
        {40, 144, 160, "NVFP4"},
        {41, 36,  48,  "Q1_0" },
        {42, 72,  68,  "Q2_0" }
    };
    for (size_t i = 0; i < 3; i++) {
        char         text[200];
        const size_t n = 32 * types[i].bytes, forks = 32 * types[i].forks; /* 8192 elements */
        RpGgufFile  *f     = NULL;
        Bytes        whole = {0};
        snprintf(text, sizeof text,
                 "tensor t of type %s (%u) takes %zu bytes, but the file has %zu for it: the file is of a fork of "
                 "llama.cpp that uses "
                 "this number for another layout, or damaged",
                 types[i].name, types[i].type, n, forks);
        REFUSE(RP_E_FORMAT, text, one_tensor(b, types[i].type, 1024, 8, 0, forks));
        REFUSE(RP_E_FORMAT, "takes", put_header(b, 3, 2, 0), put_tensor(b, "t", types[i].type, 1024, 8, 0),
               put_tensor(b, "b", 0, 16, 1, forks), put_data(b, forks + 64));
        one_tensor(&whole, types[i].type, 1024, 8, 0, n);
        OK(rp_gguf_open_memory(whole.p, whole.n, "t.gguf", &f));
        rp_gguf_close(f);
        free(whole.p);
    }
}

static void put_one_of_each(Bytes *b) {
    const double  d = -2.5;
    const int64_t i = -7;
    const float   x = 0.5f;
    put_header(b, 3, 2, 8);
    put_key_u32(b, "u", 7);
    put_key(b, "i", RP_GGUF_I64), put_bytes(b, &i, 8);
    put_key(b, "d", RP_GGUF_F64), put_bytes(b, &d, 8);
    put_key(b, "x", RP_GGUF_F32), put_bytes(b, &x, 4);
    put_key(b, "yes", RP_GGUF_BOOL), put_bytes(b, "\1", 1);
    put_key_string(b, "s", "text");
    put_key_strings(b, "list", (const char *const[]){"a", "", "ccc"}, 3);
    put_key_array(b, "numbers", RP_GGUF_I32, (int32_t[]){1, -2, 3}, 3);
    put_tensor(b, "t", 8, 64, 3, 32);
    put_tensor(b, "foreign", 25, 9, 1, 256);
    put_data(b, 288);
}

Test(gguf, names_of_types_and_statuses) {
    RpDtype type;
    REFUSED(rp_dtype_from_gguf(999, &type), RP_E_DTYPE, "tensor type unknown (999) is not supported");
    REFUSED(rp_dtype_from_gguf(25, &type), RP_E_DTYPE, "tensor type I16 (25) is not supported");
    cr_expect_str_eq(rp_status_text((RpStatus)-999), "unknown status");
}

Test(gguf, reads_values_and_tensors) {
    Bytes        b = {0};
    RpGgufFile  *f;
    void        *memory;
    size_t       size;
    uint32_t     u   = 9;
    float        x   = 9.0f;
    bool         yes = false;
    RpGgufString s;
    put_one_of_each(&b);
    OK(open_tight(b.p, b.n, &f, &memory, &size));
    OK(rp_gguf_get_u32(f, "absent", &u));
    cr_expect_eq(u, 9u);
    OK(rp_gguf_get_u32(f, "u", &u));
    OK(rp_gguf_get_f32(f, "d", &x));
    OK(rp_gguf_get_bool(f, "yes", &yes));
    OK(rp_gguf_get_string(f, "s", &s));
    cr_expect(u == 7 && x == -2.5f && yes && s.len == 4 && memcmp(s.ptr, "text", 4) == 0);
    REFUSED(rp_gguf_get_u32(f, "i", &u), RP_E_FORMAT, "test.gguf: i is -7, must be a whole number from 0 to 2^32-1");
    REFUSED(rp_gguf_get_u32(f, "x", &u), RP_E_FORMAT, "x is 0.5");
    REFUSED(rp_gguf_get_u32(f, "yes", &u), RP_E_FORMAT, "whole number");
    REFUSED(rp_gguf_get_u32(f, "s", &u), RP_E_FORMAT, "s is of type string, must be a whole number");
    REFUSED(rp_gguf_get_f32(f, "numbers", &x), RP_E_FORMAT, "numbers is of type array, must be a number");
    REFUSED(rp_gguf_get_bool(f, "u", &yes), RP_E_FORMAT, "u is of type u32, must be a bool");
    REFUSED(rp_gguf_get_string(f, "u", &s), RP_E_FORMAT, "u is of type u32, must be a string");
    const RpGgufValue *list = rp_gguf_find(f, "list"), *numbers = rp_gguf_find(f, "numbers");
    cr_expect(list->n == 3 && rp_gguf_string_at(list, 2).len == 3 && rp_gguf_string_at(list, 1).len == 0);
    cr_expect(numbers->n == 3 && rp_gguf_number_at(numbers, 1) == -2.0);
    const RpGgufTensor *t = rp_gguf_find_tensor(f, "t"), *foreign = rp_gguf_find_tensor(f, "foreign");
    cr_expect(t->known && t->bytes == 204 && t->view.dtype == RP_Q8_0 && t->view.ne[1] == 3 && t->view.nb[1] == 68);
    cr_expect(!foreign->known && foreign->view.data == NULL && foreign->bytes == 18);
    cr_expect_null(rp_gguf_find_tensor(f, "absent"));
    rp_gguf_close(f);
    munmap(memory, size);
    free(b.p);
}

/* Each number type, signed ones below zero. */
Test(gguf, reads_numbers_of_every_type) {
    static const struct {
        RpGgufType type;
        size_t     size;
        union {
            uint8_t  u8;
            int8_t   i8;
            uint16_t u16;
            int16_t  i16;
            uint32_t u32;
            int32_t  i32;
            uint64_t u64;
            int64_t  i64;
            float    f32;
            double   f64;
        } bits;
        double value;
    } numbers[] = {
        {RP_GGUF_U8,  1, {.u8 = 200},           200.0        },
        {RP_GGUF_I8,  1, {.i8 = -100},          -100.0       },
        {RP_GGUF_U16, 2, {.u16 = 60000},        60000.0      },
        {RP_GGUF_I16, 2, {.i16 = -30000},       -30000.0     },
        {RP_GGUF_U32, 4, {.u32 = 4000000000u},  4000000000.0 },
        {RP_GGUF_I32, 4, {.i32 = -2000000000},  -2000000000.0},
        {RP_GGUF_U64, 8, {.u64 = 1ull << 63},   0x1p63       },
        {RP_GGUF_I64, 8, {.i64 = -(1ll << 62)}, -0x1p62      },
        {RP_GGUF_F32, 4, {.f32 = -0.75f},       -0.75        },
        {RP_GGUF_F64, 8, {.f64 = 1e300},        1e300        },
    };
    enum { N = sizeof numbers / sizeof numbers[0] };
    Bytes       b = {0};
    RpGgufFile *f;
    put_header(&b, 3, 0, N + 1);
    for (int i = 0; i < N; i++) {
        char key[8];
        snprintf(key, sizeof key, "n%d", i);
        put_key(&b, key, numbers[i].type);
        put_bytes(&b, &numbers[i].bits, numbers[i].size);
    }
    put_key_string(&b, "text", "7");
    put_data(&b, 0);
    OK(rp_gguf_open_memory(b.p, b.n, "numbers", &f));
    for (int i = 0; i < N; i++) {
        char key[8];
        snprintf(key, sizeof key, "n%d", i);
        cr_expect_eq(rp_gguf_number_at(rp_gguf_find(f, key), 0), numbers[i].value, CASE(i));
        cr_expect(isnan(rp_gguf_number_at(rp_gguf_find(f, key), 1)), CASE(i));
    }
    cr_expect(isnan(rp_gguf_number_at(rp_gguf_find(f, "text"), 0)));
    rp_gguf_close(f);
    free(b.p);
}

Test(gguf, refuses_every_truncation_of_a_small_file) {
    Bytes b = {0};
    put_one_of_each(&b);
    for (size_t n = 0; n + 14 < b.n; n++) { /* the last tensor ends 14 bytes before the file does */
        RpGgufFile *f = NULL;
        void       *memory;
        size_t      size;
        cr_assert_neq(open_tight(b.p, n, &f, &memory, &size), RP_OK, "%zu of %zu bytes", n, b.n);
        munmap(memory, size);
    }
    free(b.p);
}

Test(gguf, more_or_fewer_data_than_announced_are_not_written) {
    static const float x[4];
    char               path[64];
    GgufWriter        *w;
    snprintf(path, sizeof path, "/tmp/rp-test-writer-%d.gguf", (int)getpid());
    OK(rp_gguf_writer_open(path, &w));
    rp_gguf_put_tensor(w, "t", 1, RP_F32, (int64_t[RP_MAX_DIMS]){3, 1, 1, 1});
    OK(rp_gguf_writer_begin(w));
    REFUSED(rp_gguf_writer_data(w, x, 16), RP_E_STATE, "gguf: 16 bytes go past the end of the tensor");
    OK(rp_gguf_writer_data(w, x, 8));
    REFUSED(rp_gguf_writer_close(w, RP_OK), RP_E_STATE, "gguf: tensors are missing");
    cr_expect_neq(access(path, F_OK), 0);
}

/* The bytes of a tiny model. */
static size_t read_tiny(const char *name, char *data, size_t room) {
    char path[1024];
    snprintf(path, sizeof path, "%stiny/%s", GOLDEN_DIR, name);
    FILE *f = fopen(path, "rb");
    cr_assert_not_null(f);
    const size_t n = fread(data, 1, room, f);
    fclose(f);
    cr_assert_lt(n, room);
    return n;
}

Test(gguf, refuses_a_model_truncated_at_any_kilobyte) {
    static char  data[1 << 19];
    char         path[1024];
    const size_t n = read_tiny("llama-mix-k.gguf", data, sizeof data);
    for (size_t cut = 0; cut < n; cut += 1024) {
        RpGgufFile *f = NULL;
        RpModel    *m = NULL;
        void       *memory;
        size_t      size;
        cr_assert_neq(open_tight(data, cut, &f, &memory, &size), RP_OK, "%zu bytes", cut);
        munmap(memory, size);
        snprintf(path, sizeof path, "/tmp/rp-test-%d.gguf", (int)getpid());
        FILE *out = fopen(path, "wb");
        fwrite(data, 1, cut, out);
        fclose(out);
        cr_assert_neq(rp_model_open(path, NULL, &m), RP_OK, "%zu bytes", cut);
        cr_assert_null(m, CASE(cut));
        cr_assert(strncmp(rp_last_error(), path, strlen(path)) == 0, "%s", rp_last_error());
        remove(path);
    }
}

Test(model, refuses_an_unknown_architecture_by_name) {
    static char  data[1 << 19];
    RpModel     *m;
    const size_t n  = read_tiny("llama-q8_0.gguf", data, sizeof data);
    char        *at = memmem(data, n, "general.architecture", 20);
    memcpy(at + 20 + 4 + 8, "lambs", 5);
    cr_assert_eq(rp_model_open_memory(data, n, "m.gguf", &m), RP_E_UNSUPPORTED);
    cr_expect_str_eq(rp_last_error(),
                     "m.gguf: architecture 'lambs' is not supported (docs/models.md lists those that are)");
    cr_assert_null(m);
}

/* A file with the name of an architecture and nothing else. */
static void refuse_arch(const char *arch, const char *text) {
    RpModel *m;
    Bytes    b = {0};
    put_header(&b, 3, 0, 1);
    put_key(&b, "general.architecture", 8);
    put_string(&b, arch);
    cr_assert_eq(rp_model_open_memory(b.p, b.n, "test.gguf", &m), RP_E_UNSUPPORTED);
    cr_expect(strncmp(rp_last_error(), text, strlen(text)) == 0, "%s", rp_last_error());
    free(b.p);
}

Test(model, says_what_a_known_family_needs) {
    static char  data[1 << 19];
    RpModel     *m;
    const size_t n  = read_tiny("llama-q8_0.gguf", data, sizeof data);
    char        *at = memmem(data, n, "general.architecture", 20);
    memcpy(at + 20 + 4 + 8, "rwkv7", 5);
    cr_assert_eq(rp_model_open_memory(data, n, "m.gguf", &m), RP_E_UNSUPPORTED);
    cr_expect_str_eq(rp_last_error(), "m.gguf: architecture 'rwkv7' is not supported: it needs the recurrence of RWKV");
    refuse_arch("gemma3n",
                "test.gguf: architecture 'gemma3n' is not supported: it needs AltUp, LAuReL, and activations "
                "that are cut by their mean and deviation");
    for (int i = 0; rp_arch_name(i) != NULL; i++)
        cr_expect_null(rp_arch_missing(rp_arch_name(i), strlen(rp_arch_name(i))), "%s is supported", rp_arch_name(i));
}

/* Files of llama.cpp that are no models, by general.type. */
Test(model, refuses_files_that_are_no_models_by_their_kind) {
    static const struct {
        const char *type, *want;
    } kinds[] = {
        {"adapter", "a.gguf: this is a LoRA adapter, not a model: give it with --lora beside its model"               },
        {"imatrix", "a.gguf: this is an importance matrix, not a model: reprise quantize takes it with --imatrix"     },
        {"mmproj",  "a.gguf: this is a projector of images or sound, not a model: give the file of its language model"},
        {"context", "a.gguf: this is the context of a conversation, not a model"                                      },
        {"vocab",   "a.gguf: this is a vocabulary, not a model: the file has no weights"                              },
        {"model",   "a.gguf: this is a vocabulary, not a model: the file has no weights"                              },
    };
    const char *const token = "a";
    RpModel          *m;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        Bytes b = {0};
        put_header(&b, 3, 0, 3);
        put_key_string(&b, "general.type", kinds[i].type);
        put_key_string(&b, "general.architecture", "llama");
        put_key_strings(&b, "tokenizer.ggml.tokens", &token, 1);
        cr_assert_eq(rp_model_open_memory(b.p, b.n, "a.gguf", &m), RP_E_FORMAT, CASE(i));
        cr_expect(strncmp(rp_last_error(), kinds[i].want, strlen(kinds[i].want)) == 0, "%s", rp_last_error());
        free(b.p);
    }
}

/* Changes the u32 value of a key of a tiny model; opening it must fail. */
static void refuse_value_of(const char *name, const char *key, uint32_t value, RpStatus status, const char *text) {
    static char  data[1 << 20];
    char         find[128]; /* the key, followed by the type u32 */
    RpModel     *m;
    const size_t n = read_tiny(name, data, sizeof data);
    snprintf(find, sizeof find, "%s%c", key, (char)RP_GGUF_U32);
    char *at = memmem(data, n, find, strlen(find));
    cr_assert_not_null(at, "%s", key);
    memcpy(at + strlen(key) + 4, &value, sizeof value);
    REFUSED(rp_model_open_memory(data, n, "m.gguf", &m), status, text);
}

static void refuse_value(const char *key, uint32_t value, RpStatus status, const char *text) {
    refuse_value_of("llama-q8_0.gguf", key, value, status, text);
}

Test(model, refuses_impossible_hyperparameters) {
    refuse_value("llama.block_count", 0, RP_E_FORMAT, "m.gguf: llama.block_count is 0, must be from 1 to 4096");
    refuse_value("llama.block_count", 3, RP_E_FORMAT, "m.gguf: tensor blk.2.attn_norm.weight is missing");
    refuse_value("llama.block_count", 1u << 31, RP_E_FORMAT, "llama.block_count is 2147483648");
    refuse_value("llama.attention.head_count", 3, RP_E_FORMAT, "3 heads are not a multiple of 2 key heads");
    refuse_value("llama.attention.head_count", 8, RP_E_SHAPE,
                 "tensor blk.0.attn_q.weight is q8_0 [64,64,1,1], must be [64,128]");
    refuse_value("llama.embedding_length", 32, RP_E_SHAPE,
                 "tensor token_embd.weight is q8_0 [64,64,1,1], must be [32,any]");
    refuse_value("llama.attention.value_length", 8, RP_E_UNSUPPORTED,
                 "m.gguf: heads of 16 for keys and 8 for values are not supported");
    refuse_value("llama.feed_forward_length", 128, RP_E_SHAPE, "tensor blk.0.ffn_gate.weight");
    refuse_value("tokenizer.ggml.bos_token_id", 64, RP_E_FORMAT,
                 "tokenizer.ggml.bos_token_id is 64, the vocabulary has 64 tokens");
}

Test(model, refuses_impossible_expert_parameters) {
    refuse_value_of("qwen3moe-mix.gguf", "qwen3moe.expert_used_count", 17, RP_E_FORMAT,
                    "m.gguf: qwen3moe.expert_used_count is 17, must be from 1 to 16");
    refuse_value_of("qwen3moe-mix.gguf", "qwen3moe.expert_used_count", 0, RP_E_FORMAT, "expert_used_count is 0");
    refuse_value_of("qwen3moe-mix.gguf", "qwen3moe.expert_count", 0, RP_E_FORMAT, "expert_count is 0");
    refuse_value_of("qwen3moe-mix.gguf", "qwen3moe.expert_count", 15, RP_E_SHAPE,
                    "tensor blk.0.ffn_gate_inp.weight is f32 [64,16,1,1], must be [64,15]");
    refuse_value_of("qwen3moe-mix.gguf", "qwen3moe.expert_feed_forward_length", 64, RP_E_SHAPE,
                    "tensor blk.0.ffn_gate_exps.weight is");
    refuse_value_of("deepseek2-mix.gguf", "deepseek2.expert_group_count", 3, RP_E_FORMAT,
                    "m.gguf: 4 of 16 experts from 2 of 3 groups is not possible");
    refuse_value_of("deepseek2-mix.gguf", "deepseek2.expert_gating_func", 9, RP_E_UNSUPPORTED,
                    "m.gguf: deepseek2.expert_gating_func 9 is not supported (there are 1: softmax, 2: sigmoid, 3: "
                    "softmax of the chosen)");
    refuse_value_of("deepseek2-mix.gguf", "deepseek2.leading_dense_block_count", 5, RP_E_FORMAT,
                    "m.gguf: 5 dense layers of 2");
    refuse_value_of("deepseek2-mix.gguf", "deepseek2.attention.key_length_mla", 16, RP_E_FORMAT,
                    "m.gguf: heads of 16 with 16 rotated dimensions");
    refuse_value_of("deepseek2-mix.gguf", "deepseek2.attention.q_lora_rank", 65537, RP_E_FORMAT,
                    "m.gguf: a query rank of 65537 is not possible");
    refuse_value_of("deepseek2-temperature.gguf", "deepseek2.attention.temperature_length", 0, RP_E_FORMAT,
                    "m.gguf: deepseek2.attention.temperature_length is 0, must be from 1 to 2147483647");
    refuse_value_of("deepseek2-mix.gguf", "deepseek2.attention.kv_lora_rank", 32, RP_E_SHAPE,
                    "tensor blk.0.attn_kv_a_mqa.weight is");
}

Test(model, refuses_impossible_caches_of_layers) {
    static const char gemma4[] = "gemma4-f32.gguf";
    refuse_value_of(gemma4, "gemma4.attention.shared_kv_layers", 5, RP_E_FORMAT, "m.gguf: 5 of 6 layers share a cache");
    refuse_value_of(gemma4, "gemma4.embedding_length_per_layer_input", 65537, RP_E_FORMAT,
                    "m.gguf: embeddings of layers of 65537");
    refuse_value_of(gemma4, "gemma4.rope.dimension_count_swa", 3, RP_E_FORMAT,
                    "m.gguf: gemma4.rope.dimension_count_swa is 3, must be even");
    refuse_value_of(gemma4, "gemma4.attention.value_length_swa", 4, RP_E_UNSUPPORTED,
                    "for keys and 4 for values are not supported");
    refuse_value_of("qwen2moe-f32.gguf", "qwen2moe.expert_shared_feed_forward_length", 1 << 25, RP_E_FORMAT,
                    "m.gguf: shared experts with a feed-forward length of 33554432");
}

/* An element of an array: behind key, type, type of the elements and their number. */
Test(model, refuses_impossible_arrays_of_layers) {
    static char       data[1 << 20];
    static const char key[] = "gemma4.attention.head_count_kv";
    RpModel          *m;
    const size_t      n  = read_tiny("gemma4-f32.gguf", data, sizeof data);
    char             *at = memmem(data, n, key, sizeof key - 1);
    cr_assert_not_null(at);
    memset(at + sizeof key - 1 + 4 + 4 + 8, 0, 4);
    REFUSED(rp_model_open_memory(data, n, "m.gguf", &m), RP_E_FORMAT,
            "m.gguf: gemma4.attention.head_count_kv has 0 for layer 0, must be from 1 to ");
    at += sizeof key - 1 + 4 + 4 + 8;
    at[0] = at[4];
    at[4 * 5] ^= 3; /* 1 or 2 */
    REFUSED(rp_model_open_memory(data, n, "m.gguf", &m), RP_E_FORMAT,
            "m.gguf: layer 5 cannot read the cache of layer ");
    at[4 * 5] ^= 3;
    memcpy(memmem(data, n, "sliding_window_pattern", 22), "S", 1); /* the same for all layers */
    memcpy((char *)memmem(data, n, "block_count", 11) + 11 + 4, &(uint32_t){5}, 4);
    REFUSED(rp_model_open_memory(data, n, "m.gguf", &m), RP_E_FORMAT, "m.gguf: an array of 6 elements for 5 layers");
}

Test(model, refuses_impossible_numbers_of_layers) {
    refuse_value_of("glm4moe-f32.gguf", "glm4moe.nextn_predict_layers", 3, RP_E_FORMAT,
                    "m.gguf: glm4moe.nextn_predict_layers is 3 of 3 layers");
    refuse_value_of("glm4moe-f32.gguf", "glm4moe.nextn_predict_layers", 0, RP_E_UNSUPPORTED,
                    "m.gguf: architecture glm4moe does not use 4 of the tensors, first blk.2.nextn.eh_proj.weight");
    refuse_value_of(
        "ernie4_5-moe-f32.gguf", "ernie4_5-moe.interleave_moe_layer_step", 2, RP_E_UNSUPPORTED,
        "m.gguf: ernie4_5-moe.interleave_moe_layer_step is 2: experts in some layers only are not supported");
}

/* Puts empty tokens in front of those of a tiny model, so that its array has 64 + `more`. */
static size_t add_tokens(char *data, size_t n, size_t more) {
    enum { KEY = 21 + 4 + 4 }; /* the key, its type and that of the elements */
    char    *at    = memmem(data, n, "tokenizer.ggml.tokens", 21);
    uint64_t count = 64 + more;
    cr_assert_not_null(at);
    at += KEY;
    memcpy(at, &count, sizeof count);
    at += sizeof count;
    memmove(at + 8 * more, at, (size_t)(data + n - at));
    memset(at, 0, 8 * more);
    return n + 8 * more;
}

/* The sizes are compared first: the tokenizer would refuse its 64 types, but not before it had copied all tokens. */
Test(model, compares_the_vocabulary_with_the_embedding_before_it_reads_the_tokens) {
    static char  data[1 << 20];
    RpModel     *m;
    const size_t n = read_tiny("llama-f32.gguf", data, sizeof data / 2);
    REFUSED(rp_model_open_memory(data, add_tokens(data, n, 1 << 16), "m.gguf", &m), RP_E_FORMAT,
            "m.gguf: tokenizer.ggml.tokens has 65600 elements, tensor token_embd.weight [64,64] has 64 rows");
    cr_assert_null(m);
}

/* Renaming the key makes it absent. */
Test(model, refuses_latent_attention_without_lengths_of_heads) {
    static char  data[1 << 19];
    RpModel     *m;
    const size_t n  = read_tiny("deepseek2-mix.gguf", data, sizeof data);
    char        *at = memmem(data, n, "attention.key_length_mla", 24);
    cr_assert_not_null(at);
    at[0] = 'A';
    REFUSED(rp_model_open_memory(data, n, "m.gguf", &m), RP_E_FORMAT,
            "m.gguf: deepseek2.attention.key_length_mla is missing, and there is no tensor blk.0.attn_kv_b.weight");
}

Test(model, refuses_a_vector_of_another_type) {
    static char  data[1 << 19];
    RpModel     *m;
    const size_t n  = read_tiny("llama-q4_0.gguf", data, sizeof data);
    char        *at = memmem(data, n, "blk.1.ffn_norm.weight", 21);
    cr_assert_not_null(at);
    at[21 + 4 + 8] = 2; /* Q4_0 */
    REFUSED(rp_model_open_memory(data, n, "m.gguf", &m), RP_E_DTYPE,
            "m.gguf: tensor blk.1.ffn_norm.weight is q4_0, must be f32, as every vector");
}

/* As the gate of shared experts in files of Qwen3-Next, and the score of rerankers. The halves are those of the f32. */
Test(model, vectors_in_f16_and_bf16_become_f32) {
    static char    data[1 << 19];
    static uint8_t raw[256];
    for (int bf16 = 0; bf16 < 2; bf16++) {
        RpModel     *m;
        RpGgufFile  *f;
        const size_t n  = read_tiny("llama-q4_0.gguf", data, sizeof data);
        char        *at = memmem(data, n, "blk.1.ffn_norm.weight", 21);
        cr_assert_not_null(at, "bf16: %d", bf16);
        at[21 + 4 + 8] = bf16 ? 30 : 1;
        OK(rp_gguf_open_memory(data, n, "m.gguf", &f));
        const RpGgufTensor *t = rp_gguf_find_tensor(f, "blk.1.ffn_norm.weight");
        float               want[64];
        cr_assert_eq(t->view.ne[0], 64, "bf16: %d", bf16);
        memcpy(raw, t->view.data, 2 * 64);
        rp_dequantize_row(bf16 ? RP_BF16 : RP_F16, raw, 64, want);
        rp_gguf_close(f);
        OK(rp_model_open_memory(data, n, "m.gguf", &m));
        t = rp_gguf_find_tensor(rp_model_file(m), "blk.1.ffn_norm.weight");
        cr_expect(t->view.dtype == RP_F32 && t->bytes == sizeof want && memcmp(t->view.data, want, sizeof want) == 0,
                  "%s", bf16 ? "bf16" : "f16");
        rp_model_free(m);
    }
}

Test(model, refuses_a_tensor_of_an_unsupported_type) {
    static char  data[1 << 19];
    RpModel     *m;
    const size_t n  = read_tiny("llama-q4_0.gguf", data, sizeof data);
    char        *at = memmem(data, n, "blk.1.ffn_norm.weight", 21);
    cr_assert_not_null(at);
    at[21 + 4 + 8] = 25; /* behind its number of dimensions and its length: I16, which is no type of weights */
    REFUSED(rp_model_open_memory(data, n, "m.gguf", &m), RP_E_UNSUPPORTED,
            "m.gguf: tensor blk.1.ffn_norm.weight is of type I16 (25), which is not supported");
}

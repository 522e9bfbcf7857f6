/* The GGUF reader. Files are written byte by byte (gguf_writer.h), or a tiny model is cut off; every error text is
 * compared. Files end at the end of a mapped page, so that reading past the end is a fault. */
#include "tests/support/case.h"
#include "tests/support/gguf_writer.h"

#include "model/gguf/gguf_write.h"

#include <dirent.h>
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

/* Bytes of the only file in the folder. */
static int64_t only_file_size(const char *folder) {
    struct stat    info  = {0};
    DIR           *dir   = opendir(folder);
    struct dirent *entry = NULL;
    cr_assert_not_null(dir);
    while ((entry = readdir(dir)) != NULL && (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0))
        continue;
    cr_assert_not_null(entry);
    cr_assert_eq(fstatat(dirfd(dir), entry->d_name, &info, 0), 0, "%s", entry->d_name);
    closedir(dir);
    return info.st_size;
}

/* File systems keep what is written like this on huge pages of the page cache. */
Test(gguf, tensors_are_written_in_pieces_of_huge_pages) {
    enum { HUGE_PAGE = 2 << 20, PIECE = 96 << 10, PIECES = 100 };
    char        folder[64], path[80];
    GgufWriter *w;
    int64_t     size = 0;
    snprintf(folder, sizeof folder, "/tmp/rp-test-writer-%d-XXXXXX", (int)getpid());
    cr_assert_not_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/x.gguf", folder);
    char *data = calloc(1, PIECE);
    OK(rp_gguf_writer_open(path, &w));
    rp_gguf_put_tensor(w, "t", 1, RP_F32, (int64_t[RP_MAX_DIMS]){PIECE / 4, PIECES, 1, 1});
    OK(rp_gguf_writer_begin(w));
    for (int i = 0; i < PIECES; i++) {
        OK(rp_gguf_writer_data(w, data, PIECE));
        size = only_file_size(folder);
        cr_expect_eq(size % HUGE_PAGE, 0, "%lld bytes after %d pieces", (long long)size, i + 1);
    }
    cr_expect_geq(size, 2 * HUGE_PAGE);
    OK(rp_gguf_writer_close(w, RP_OK));
    cr_expect_gt(only_file_size(folder), (int64_t)PIECE * PIECES);
    unlink(path), rmdir(folder), free(data);
}

Test(gguf, refuses_a_model_truncated_at_any_kilobyte) {
    char   path[1024];
    size_t n;
    char  *data = golden_read_tiny("llama-mix-k", &n);
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
    free(data);
}

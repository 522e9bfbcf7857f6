/* npy.c - writes arrays of NumPy and reads them. */
#include "cli/provenance/npy.h"

#include "cli/text_files.h"
#include "reprise/quants.h"

#include <stdlib.h>
#include <string.h>

enum { PREFIX = 10, ALIGN = 64 }; /* magic, version, length of the head; the elements begin at a multiple of 64 */

static const char magic[] = "\x93NUMPY\x01"; /* and the 0 behind it */

void cli_npy_head(const char *descr, const size_t *shape, int n_dims, FILE *out) {
    char head[192];
    int  n = snprintf(head, sizeof head, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
    for (int i = 0; i < n_dims; i++)
        n += snprintf(head + n, sizeof head - (size_t)n, "%s%zu", i > 0 ? ", " : "", shape[i]);
    n += snprintf(head + n, sizeof head - (size_t)n, "%s), }", n_dims == 1 ? "," : "");
    const int padded = (PREFIX + n + 1 + ALIGN - 1) / ALIGN * ALIGN - PREFIX;
    fwrite(magic, 1, sizeof magic, out);
    fputc(padded & 255, out);
    fputc(padded >> 8, out);
    fprintf(out, "%-*s\n", padded - 1, head);
}

int cli_npy_shape(const int64_t ne[RP_MAX_DIMS], size_t shape[RP_MAX_DIMS]) {
    int n = RP_MAX_DIMS;
    while (n > 2 && ne[n - 1] == 1) n--;
    for (int i = 0; i < n; i++) shape[i] = (size_t)ne[n - 1 - i];
    return n;
}

/* ---- reading ---- */

/* The value of a key in the head, which Python wrote as a literal; NULL if there is none. */
static const char *value_of(const char *head, const char *key) {
    char quoted[32];
    snprintf(quoted, sizeof quoted, "'%s':", key);
    const char *p = strstr(head, quoted);
    if (p == NULL) return NULL;
    p += strlen(quoted);
    while (*p == ' ') p++;
    return p;
}

static bool read_shape(const char *p, NpyArray *a) {
    a->n_dims = 0;
    a->n      = 1;
    if (*p++ != '(') return false;
    while (*p != ')') {
        char                    *end;
        const unsigned long long x = strtoull(p, &end, 10);
        if (end == p || a->n_dims == RP_MAX_DIMS || x > SIZE_MAX / 8 / (a->n > 0 ? a->n : 1)) return false;
        a->shape[a->n_dims++] = (size_t)x;
        a->n *= (size_t)x;
        for (p = end; *p == ',' || *p == ' '; p++) {
        }
    }
    return true;
}

static void convert(const char *type, const char *bytes, size_t n, float *out) {
    if (strcmp(type, "f4") == 0) memcpy(out, bytes, n * sizeof *out);
    if (strcmp(type, "f2") == 0) rp_dequantize_row(RP_F16, bytes, (int64_t)n, out);
    for (size_t i = 0; i < n && strcmp(type, "f8") == 0; i++) {
        double x;
        memcpy(&x, bytes + i * sizeof x, sizeof x);
        out[i] = (float)x;
    }
    for (size_t i = 0; i < n && strcmp(type, "i4") == 0; i++) {
        int32_t x;
        memcpy(&x, bytes + i * sizeof x, sizeof x);
        out[i] = (float)x;
    }
}

static RpStatus parse(const char *path, const Text *t, NpyArray *out) {
    const unsigned char *head_bytes = (const unsigned char *)t->bytes + 8;
    if (t->n < PREFIX || memcmp(t->bytes, magic, sizeof magic) != 0)
        return rp_fail(RP_E_FORMAT, "%s: is no array of NumPy, version 1.0", path);
    const size_t head = head_bytes[0] + 256u * head_bytes[1];
    if (t->n < PREFIX + head || head == 0 || t->bytes[PREFIX + head - 1] != '\n')
        return rp_fail(RP_E_FORMAT, "%s: its head is cut off", path);
    t->bytes[PREFIX + head - 1] = '\0';
    const char *text = t->bytes + PREFIX, *descr = value_of(text, "descr"), *order = value_of(text, "fortran_order"),
               *shape = value_of(text, "shape");
    if (descr == NULL || order == NULL || shape == NULL || !read_shape(shape, out))
        return rp_fail(RP_E_FORMAT, "%s: its head has no type, order and shape of at most %d dimensions", path,
                       RP_MAX_DIMS);
    if (strncmp(order, "False", 5) != 0)
        return rp_fail(RP_E_FORMAT, "%s: is in the order of Fortran; numpy.ascontiguousarray changes it", path);
    char type[3] = "";
    if (strnlen(descr, 5) == 5 && descr[0] == '\'' && descr[1] == '<' && descr[4] == '\'') memcpy(type, descr + 2, 2);
    if (strcmp(type, "f2") != 0 && strcmp(type, "f4") != 0 && strcmp(type, "f8") != 0 && strcmp(type, "i4") != 0)
        return rp_fail(RP_E_FORMAT, "%s: its type %.*s is none of '<f2', '<f4', '<f8' and '<i4'", path,
                       (int)strcspn(descr, ",}"), descr);
    const size_t size = (size_t)(type[1] - '0');
    if (t->n - PREFIX - head != out->n * size)
        return rp_fail(RP_E_FORMAT, "%s: has %zu bytes of elements, its shape takes %zu", path, t->n - PREFIX - head,
                       out->n * size);
    out->values = malloc(out->n * sizeof *out->values + 1);
    if (out->values == NULL) return rp_fail(RP_E_NOMEM, "%s: out of memory for %zu elements", path, out->n);
    convert(type, t->bytes + PREFIX + head, out->n, out->values);
    return RP_OK;
}

RpStatus cli_npy_read(const char *path, NpyArray *out) {
    Text t = {0};
    *out   = (NpyArray){0};
    RP_TRY(cli_read_text(NULL, path, &t));
    const RpStatus st = parse(path, &t, out);
    free(t.bytes);
    return st;
}

/* The program of a specialised kernel: the text of the shipped one and an entry with the constants of its launch. For
 * gate_up with two address words:
 *
 *     (text of kernels/fused/gate_up.cu, where kernels are device functions)
 *     struct RpAddresses { unsigned long long a[2]; };
 *     extern "C" RP_ENTRY(256, 3) rp_special(const RpAddresses in) {
 *         const unsigned long long w[] = {in.a[0], 0xcull, 0x1000ull, ..., in.a[1]};
 *         __builtin_assume(gridDim.x == 1792); ...
 *         rp_call(gate_up_kernel<QuantForm<RP_Q4_K> >, w + 0);
 *     }
 *
 * The compiler folds the words into the code, as it would constants of the source. */
#include "executor/cuda/special.h"

#include "base/kernel_text.h"
#include "base/launch.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Removes the name of the anonymous namespace from `at`: "{anonymous}::" of gcc, "_GLOBAL__N__...::" of nvcc. */
static const char *skip_anonymous(const char *at) {
    static const char *const names[] = {"{anonymous}::", "(anonymous namespace)::", "<unnamed>::"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strncmp(at, names[i], strlen(names[i])) == 0) return at + strlen(names[i]);
    if (strncmp(at, "_GLOBAL__N_", 11) != 0) return at;
    const char *end = strstr(at, "::");
    return end != NULL ? end + 2 : at;
}

/* "... [with auto KERNEL = {anonymous}::f<{anonymous}::Silu>]" -> "f<Silu>". False for a compiler with other words. */
static bool name_of(const char *signature, char *out, size_t bytes) {
    const char *at = strstr(signature, "KERNEL = ");
    size_t      n  = 0;
    if (at == NULL) return false;
    for (at += strlen("KERNEL = "); *at != '\0' && *at != ']' && *at != ';'; at++) {
        while (skip_anonymous(at) != at) at = skip_anonymous(at);
        if (*at == '&') continue;
        if (n + 1 == bytes) return false;
        out[n++] = *at;
    }
    out[n] = '\0';
    return n > 0;
}

static bool has(const KernelText *t, const char *call) {
    if (strstr(t->text, call) != NULL) return true;
    for (const char *const *h = t->headers; *h != NULL; h++)
        if (strstr(*h, call) != NULL) return true;
    return false;
}

/* The file that defines the kernel, in its own text or in a header that it includes. Several files may include one
 * header: the file of the op is preferred, otherwise the first file is taken. */
static const KernelText *file_of(const char *op, const char *name) {
    const KernelText *found = NULL;
    char              call[128];
    snprintf(call, sizeof call, " %.*s(", (int)strcspn(name, "<"), name);
    for (const KernelText *t = rp_kernel_texts; t->file != NULL; t++)
        if ((found == NULL || strcmp(t->file, op) == 0) && has(t, call)) found = t;
    return found;
}

static unsigned n_addresses(const SpecialKernel *k) {
    unsigned n = 0;
    for (unsigned i = 0; i < k->n_words; i++) n += k->is_address[i];
    return n;
}

static void write_entry(FILE *f, const SpecialKernel *k, const char *name, const RpKernelInstance *instance,
                        int min_blocks) {
    const char axes[] = "xyz";
    unsigned   a = 0, at = 0;
    fprintf(f, "\nstruct RpAddresses { unsigned long long a[%u]; };\n", n_addresses(k) + 1);
    fprintf(f, "extern \"C\" RP_ENTRY(%u, %d) " SPECIAL_ENTRY "(const RpAddresses in) {\n",
            k->block[0] * k->block[1] * k->block[2], min_blocks);
    fprintf(f, "    const unsigned long long w[] = {");
    for (unsigned i = 0; i < k->n_words; i++)
        if (k->is_address[i])
            fprintf(f, "in.a[%u], ", a++);
        else
            fprintf(f, "0x%" PRIx64 "ull, ", k->words[i]);
    fprintf(f, "0};\n");
    for (int i = 0; i < 3; i++)
        fprintf(f,
                "    __builtin_assume(gridDim.%c == %u && blockDim.%c == %u);\n"
                "    __builtin_assume(blockIdx.%c < %u && threadIdx.%c < %u);\n",
                axes[i], k->grid[i], axes[i], k->block[i], axes[i], k->grid[i], axes[i], k->block[i]);
    fprintf(f, "    rp_call(%s", name);
    for (int i = 0; i < instance->n_arguments; i++) {
        fprintf(f, ", w + %u", at);
        at += rp_special_words(instance->argument_bytes[i]);
    }
    fprintf(f, ");\n}\n");
}

RpStatus rp_special_text(const SpecialKernel *k, const char *op, const RpKernelInstance *instance, int min_blocks,
                         char **text, char file[64]) {
    char   name[256];
    size_t bytes;
    *text = NULL;
    if (!name_of(instance->signature, name, sizeof name))
        return rp_fail(RP_E_NOT_AVAILABLE, "%s: this build does not know its kernel's name", op);
    const KernelText *t = file_of(op, name);
    if (t == NULL) return rp_fail(RP_E_NOT_AVAILABLE, "%s: no text of kernel %s", op, name);
    snprintf(file, 64, "%s.cu", t->file);
    FILE *f = open_memstream(text, &bytes);
    if (f == NULL) return rp_fail(RP_E_NOMEM, "%s: out of memory for its source", op);
    for (const char *const *h = t->headers; *h != NULL; h++) fputs(*h, f);
    fputs(t->text, f);
    write_entry(f, k, name, instance, min_blocks);
    const bool failed = ferror(f) != 0;
    if (fclose(f) == 0 && !failed) return RP_OK;
    free(*text);
    *text = NULL;
    return rp_fail(RP_E_NOMEM, "%s: out of memory for its source", op);
}

/* NVRTC by dlopen. Its prototypes are declared here, since they are the same in all versions from 11.2 on: builds
 * need no header of it, and programs run without the library as long as they compile nothing. */
#include "executor/cuda/nvrtc.h"

#include "reprise/version.h"

#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cuda_runtime_api.h>

typedef struct NvrtcProgram *Program;
enum { NVRTC_OUT_OF_MEMORY = 1, MAX_ARCHITECTURES = 64, MAX_OPTIONS = 64 };

/* X(function, parameters); every function returns a status, 0 for success. */
#define SYMBOLS(X)                                                                                                     \
    X(nvrtcVersion, (int *, int *))                                                                                    \
    X(nvrtcGetNumSupportedArchs, (int *))                                                                              \
    X(nvrtcGetSupportedArchs, (int *))                                                                                 \
    X(nvrtcCreateProgram, (Program *, const char *, const char *, int, const char *const *, const char *const *))      \
    X(nvrtcDestroyProgram, (Program *))                                                                                \
    X(nvrtcAddNameExpression, (Program, const char *))                                                                 \
    X(nvrtcCompileProgram, (Program, int, const char *const *))                                                        \
    X(nvrtcGetProgramLogSize, (Program, size_t *))                                                                     \
    X(nvrtcGetProgramLog, (Program, char *))                                                                           \
    X(nvrtcGetPTXSize, (Program, size_t *))                                                                            \
    X(nvrtcGetPTX, (Program, char *))                                                                                  \
    X(nvrtcGetCUBINSize, (Program, size_t *))                                                                          \
    X(nvrtcGetCUBIN, (Program, char *))                                                                                \
    X(nvrtcGetLoweredName, (Program, const char *, const char **))

struct RpNvrtc {
    void *library;
#define X(name, parameters) int(*name) parameters;
    SYMBOLS(X)
#undef X
    const char *(*nvrtcGetErrorString)(int status);
    int  architectures[MAX_ARCHITECTURES], n_architectures;
    char name[32];
    char include[PATH_MAX + 32]; /* option for the toolkit's headers, or "" */
};

/* ---- opening ---- */

/* The library stays loaded when it is closed: each unloading would leak memory of its C++ runtime, 71 KB. */
enum { FLAGS = RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE };

/* The newest library that matches one of these, as Python packages and toolkits install it. */
static const char *const patterns[] = {
    "/usr/local/cuda/lib64/libnvrtc.so.",
    "/usr/lib/*-linux-gnu/libnvrtc.so.",
    "~/.local/lib/python3*/site-packages/nvidia/*/lib/libnvrtc.so.",
    "/usr/local/lib/python3*/*-packages/nvidia/*/lib/libnvrtc.so.",
    "/usr/lib/python3*/*-packages/nvidia/*/lib/libnvrtc.so.",
};

static void *open_matching(const char *pattern) {
    glob_t found   = {0};
    void  *library = NULL;
    if (glob(pattern, GLOB_TILDE, NULL, &found) == 0)
        for (size_t i = found.gl_pathc; i-- > 0 && library == NULL;) library = dlopen(found.gl_pathv[i], FLAGS);
    globfree(&found);
    return library;
}

/* A library of the runtime's major version: a driver that runs this build also loads what that compiles. */
static void *search(void) {
    char        pattern[PATH_MAX];
    const char *environment = getenv("VIRTUAL_ENV");
    const int   major       = CUDART_VERSION / 1000;
    snprintf(pattern, sizeof pattern, "libnvrtc.so.%d", major);
    void *library = dlopen(pattern, FLAGS);
    if (library == NULL && environment != NULL) {
        snprintf(pattern, sizeof pattern, "%s/lib/python3*/site-packages/nvidia/*/lib/libnvrtc.so.%d", environment,
                 major);
        library = open_matching(pattern);
    }
    for (size_t i = 0; i < sizeof patterns / sizeof patterns[0] && library == NULL; i++) {
        snprintf(pattern, sizeof pattern, "%s%d", patterns[i], major);
        library = open_matching(pattern);
    }
    return library;
}

/* The option for <cuda_fp16.h> and the like, which lie beside the library in a toolkit, or in a package of their
 * own. */
static void find_headers(RpNvrtc *n) {
    static const char *const folders[] = {"/../include", "/../../cuda_runtime/include", "/../../../include"};
    Dl_info                  info;
    char                     real[PATH_MAX], header[PATH_MAX + 64];
    void                    *symbol;
    memcpy(&symbol, &n->nvrtcVersion, sizeof symbol);
    if (dladdr(symbol, &info) == 0 || realpath(info.dli_fname, real) == NULL) return;
    *strrchr(real, '/') = '\0';
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        snprintf(header, sizeof header, "%s%s/cuda_fp16.h", real, folders[i]);
        if (access(header, R_OK) != 0) continue;
        snprintf(n->include, sizeof n->include, "--include-path=%s%s", real, folders[i]);
        return;
    }
}

static RpStatus check(const RpNvrtc *n, int status, const char *call) {
    if (status == 0) return RP_OK;
    return rp_fail(status == NVRTC_OUT_OF_MEMORY ? RP_E_NOMEM : RP_E_NOT_AVAILABLE, "%s: %s: %s (%d)", n->name, call,
                   n->nvrtcGetErrorString(status), status);
}

static RpStatus ask(RpNvrtc *n) {
    int major, minor;
    RP_TRY(check(n, n->nvrtcVersion(&major, &minor), "version"));
    snprintf(n->name, sizeof n->name, "NVRTC %d.%d", major, minor);
    RP_TRY(check(n, n->nvrtcGetNumSupportedArchs(&n->n_architectures), "architectures"));
    if (n->n_architectures < 1 || n->n_architectures > MAX_ARCHITECTURES)
        return rp_fail(RP_E_NOT_AVAILABLE, "%s knows %d architectures", n->name, n->n_architectures);
    return check(n, n->nvrtcGetSupportedArchs(n->architectures), "architectures");
}

static RpStatus open_library(RpNvrtc *n, const char *path) {
    const char *missing = NULL;
    void       *address;
    n->library = path[0] != '\0' ? dlopen(path, FLAGS) : search();
    if (n->library == NULL) {
        const char *why = path[0] != '\0' ? dlerror() : NULL;
        if (why != NULL) return rp_fail(RP_E_NOT_AVAILABLE, "NVRTC: %s", why);
        return rp_fail(RP_E_NOT_AVAILABLE, "NVRTC: no libnvrtc.so.%d in the system, the toolkit or a Python package",
                       CUDART_VERSION / 1000);
    }
    /* ISO C has no cast from void * to a function pointer; POSIX guarantees that the bytes are the address. */
#define X(symbol, parameters)                                                                                          \
    address = dlsym(n->library, #symbol);                                                                              \
    if (address == NULL && missing == NULL) missing = #symbol;                                                         \
    memcpy(&n->symbol, &address, sizeof address);
    SYMBOLS(X)
    X(nvrtcGetErrorString, )
#undef X
    if (missing != NULL) return rp_fail(RP_E_NOT_AVAILABLE, "NVRTC: the library has no %s", missing);
    snprintf(n->name, sizeof n->name, "NVRTC");
    RP_TRY(ask(n));
    find_headers(n);
    return RP_OK;
}

RpStatus rp_nvrtc_open(const char *path, RpNvrtc **out) {
    RpNvrtc *n = calloc(1, sizeof *n);
    *out       = NULL;
    if (n == NULL) return rp_fail(RP_E_NOMEM, "out of memory for NVRTC");
    const RpStatus st = open_library(n, path);
    if (st != RP_OK) {
        rp_nvrtc_close(n);
        return st;
    }
    *out = n;
    return RP_OK;
}

void rp_nvrtc_close(RpNvrtc *n) {
    if (n == NULL) return;
    if (n->library != NULL) (void)dlclose(n->library);
    free(n);
}

const char *rp_nvrtc_name(const RpNvrtc *n) { return n->name; }

RpStatus rp_nvrtc_target(const RpNvrtc *n, int major, int minor, CudaTarget *out) {
    int same = 0, lower = 0;
    for (int i = 0; i < n->n_architectures; i++) {
        const int a = n->architectures[i];
        if (a > 10 * major + minor) continue;
        if (a / 10 == major && a > same) same = a;
        if (a > lower) lower = a;
    }
    *out = (CudaTarget){.architecture = same > 0 ? same : lower, .is_virtual = same == 0};
    if (lower > 0) return RP_OK;
    return rp_fail(RP_E_NOT_AVAILABLE, "%s has no code for compute capability %d.%d", n->name, major, minor);
}

/* ---- compiling ---- */

void rp_cuda_binary_free(CudaBinary *b) {
    free(b->memory);
    *b = (CudaBinary){0};
}

/* All options of a program; `architecture` is storage for the first. Returns their number. */
static int options_of(const RpNvrtc *n, const CudaCode *code, CudaTarget target, char architecture[48],
                      const char *options[MAX_OPTIONS]) {
    int k = 0;
    snprintf(architecture, 48, "--gpu-architecture=%s_%d", target.is_virtual ? "compute" : "sm", target.architecture);
    options[k++] = architecture;
    options[k++] = "--std=c++17";
    options[k++] = "--generate-line-info";
    if (n->include[0] != '\0') options[k++] = n->include;
    for (int i = 0; i < code->n_options && k < MAX_OPTIONS; i++) options[k++] = code->options[i];
    return k;
}

/* A name in quotes, as a string of C: a #line directive reads it like one. */
static void put_file_name(const char *name, FILE *f) {
    fputc('"', f);
    for (const unsigned char *p = (const unsigned char *)name; *p != '\0'; p++) {
        if (*p == '"' || *p == '\\')
            fprintf(f, "\\%c", *p);
        else
            fprintf(f, *p < 0x20 || *p == 0x7f ? "\\%03o" : "%c", *p);
    }
    fputc('"', f);
}

static char *whole_text(const CudaCode *code) {
    char  *text = NULL;
    size_t n;
    FILE  *f = open_memstream(&text, &n);
    if (f == NULL) return NULL;
    fprintf(f, "%s#line 1 ", code->prelude);
    put_file_name(code->file, f);
    fprintf(f, "\n%s", code->text);
    const bool failed = ferror(f) != 0;
    if (fclose(f) == 0 && !failed) return text;
    free(text);
    return NULL;
}

char *rp_nvrtc_key(const RpNvrtc *n, const CudaCode *code, CudaTarget target, size_t *bytes) {
    const char *options[MAX_OPTIONS];
    char        architecture[48], *key = NULL, *text = whole_text(code);
    FILE       *f = text != NULL ? open_memstream(&key, bytes) : NULL;
    if (f != NULL) {
        const int n_options = options_of(n, code, target, architecture, options);
        fprintf(f, "reprise %s%c%s%c%s%c", RP_VERSION, 0, n->name, 0, code->kernel, 0);
        for (int i = 0; i < n_options; i++) fprintf(f, "%s%c", options[i], 0);
        fputs(text, f);
        const bool failed = ferror(f) != 0;
        if (fclose(f) != 0 || failed) {
            free(key);
            key = NULL;
        }
    }
    free(text);
    return key;
}

bool rp_cuda_code_includes_files(const CudaCode *code) {
    if (code->complete) return false;
    for (int i = 0; i < code->n_options; i++) {
        const char *o = code->options[i];
        if (strncmp(o, "-I", 2) == 0 || strstr(o, "include") != NULL) return true;
    }
    for (const char *s = code->text; (s = strstr(s, "include")) != NULL;) {
        s += strlen("include");
        if (s[strspn(s, " \t")] != '<') return true;
    }
    return false;
}

/* Everything that the compiler printed; "" for nothing. NULL without memory. */
static char *log_of(const RpNvrtc *n, Program p) {
    size_t bytes = 0;
    if (n->nvrtcGetProgramLogSize(p, &bytes) != 0) bytes = 0;
    char *log = calloc(1, bytes + 1);
    if (log != NULL && bytes > 0 && n->nvrtcGetProgramLog(p, log) != 0) log[0] = '\0';
    return log;
}

/* The first "...: error: ..." of the log; warnings may come before. */
static RpStatus refused(const RpNvrtc *n, const CudaCode *code, int status, const char *log) {
    const char *at = log != NULL ? strstr(log, " error") : NULL;
    if (status == NVRTC_OUT_OF_MEMORY) return rp_fail(RP_E_NOMEM, "%s: %s: out of memory", code->owner, n->name);
    if (at == NULL)
        return rp_fail(RP_E_ARG, "%s: %s: %s: %s (%d)", code->owner, code->file, n->name,
                       n->nvrtcGetErrorString(status), status);
    if (strstr(log, "__nv_name_map") != NULL)
        return rp_fail(RP_E_ARG, "%s: %s has no kernel '%s': %.500s", code->owner, code->file, code->kernel, log);
    while (at > log && at[-1] != '\n') at--;
    return rp_fail(RP_E_ARG, "%s: %.900s", code->owner, at);
}

/* Copies the results: [cubin | ptx | symbol]. */
static RpStatus take(const RpNvrtc *n, const CudaCode *code, Program p, CudaTarget target, CudaBinary *out) {
    const char *symbol;
    if (!target.is_virtual) RP_TRY(check(n, n->nvrtcGetCUBINSize(p, &out->cubin_bytes), "size of the cubin"));
    RP_TRY(check(n, n->nvrtcGetPTXSize(p, &out->ptx_bytes), "size of the PTX"));
    RP_TRY(check(n, n->nvrtcGetLoweredName(p, code->kernel, &symbol), "name of the kernel"));
    out->symbol_bytes = strlen(symbol) + 1;
    out->memory       = malloc(out->cubin_bytes + out->ptx_bytes + out->symbol_bytes);
    if (out->memory == NULL) return rp_fail(RP_E_NOMEM, "%s: out of memory for its code", code->owner);
    char *ptx   = out->memory + out->cubin_bytes;
    out->cubin  = out->cubin_bytes > 0 ? out->memory : NULL;
    out->ptx    = ptx;
    out->symbol = memcpy(ptx + out->ptx_bytes, symbol, out->symbol_bytes);
    if (out->cubin_bytes > 0) RP_TRY(check(n, n->nvrtcGetCUBIN(p, out->memory), "cubin"));
    return check(n, n->nvrtcGetPTX(p, ptx), "PTX");
}

static RpStatus compile(const RpNvrtc *n, const CudaCode *code, Program p, CudaTarget target, CudaBinary *out,
                        char **log) {
    const char *options[MAX_OPTIONS];
    char        architecture[48];
    RP_TRY(check(n, n->nvrtcAddNameExpression(p, code->kernel), "name of the kernel"));
    const int      status = n->nvrtcCompileProgram(p, options_of(n, code, target, architecture, options), options);
    char          *text   = log_of(n, p);
    const RpStatus st     = status == 0 ? take(n, code, p, target, out) : refused(n, code, status, text);
    if (log != NULL)
        *log = text;
    else
        free(text);
    return st;
}

RpStatus rp_nvrtc_compile(const RpNvrtc *n, const CudaCode *code, CudaTarget target, CudaBinary *out, char **log) {
    Program p = NULL;
    *out      = (CudaBinary){0};
    if (log != NULL) *log = NULL;
    char *text = whole_text(code);
    if (text == NULL) return rp_fail(RP_E_NOMEM, "%s: out of memory for its source", code->owner);
    RpStatus st = check(n, n->nvrtcCreateProgram(&p, text, code->file, 0, NULL, NULL), "program");
    if (st == RP_OK) st = compile(n, code, p, target, out, log);
    if (p != NULL) (void)n->nvrtcDestroyProgram(&p);
    free(text);
    if (st != RP_OK) rp_cuda_binary_free(out);
    return st;
}

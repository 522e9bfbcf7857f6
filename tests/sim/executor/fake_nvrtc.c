/* The functions of NVRTC that the library uses (fake_nvrtc.h). It knows sm_75 and sm_90; the cubin is the PTX behind
 * the first bytes of an ELF file. Any number of threads may call it. */
#include "tests/sim/executor/fake_nvrtc.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#pragma GCC diagnostic ignored "-Wmissing-prototypes" /* those of nvrtc.h, which may be missing */

typedef struct Program {
    char *text, *log, *kernel;
} Program;

enum { FAILED = 4, WRONG_SOURCE = 6 };
static const char elf[] = "\177ELF";
static atomic_int compiled, live;

FakeNvrtcStats fake_nvrtc_stats(void) { return (FakeNvrtcStats){compiled, live}; }

static int status(const char *call) {
    const char *failing = getenv(FAKE_NVRTC_VARIABLE);
    return failing != NULL && strcmp(failing, call) == 0 ? FAILED : 0;
}
#define CALL()                                                                                                         \
    if (status(__func__) != 0) return FAILED

static const char *ptx_of(const Program *p) {
    const char *ptx = strstr(p->text, "PTX:");
    return ptx != NULL ? ptx + 4 : "";
}

int nvrtcVersion(int *major, int *minor) {
    CALL();
    *major = 99, *minor = 1;
    return 0;
}
int nvrtcGetNumSupportedArchs(int *n) {
    CALL();
    *n = 2;
    return 0;
}
int nvrtcGetSupportedArchs(int *architectures) {
    CALL();
    architectures[0] = 75, architectures[1] = 90;
    return 0;
}
const char *nvrtcGetErrorString(int s) { return s == FAILED ? "made to fail" : "compilation failed"; }

int nvrtcCreateProgram(Program **out, const char *text, const char *name, int n, const char *const *headers,
                       const char *const *names) {
    (void)name, (void)n, (void)headers, (void)names;
    CALL();
    *out = calloc(1, sizeof **out);
    if (*out == NULL) return 1;
    (*out)->text = strdup(text);
    live++;
    return 0;
}
int nvrtcDestroyProgram(Program **p) {
    free((*p)->text);
    free((*p)->log);
    free((*p)->kernel);
    free(*p);
    live--;
    return status(__func__);
}
int nvrtcAddNameExpression(Program *p, const char *name) {
    CALL();
    p->kernel = strdup(name);
    return 0;
}

/* "FILE(LINE): error: ..." for a line "#error ..." behind #line 1 "FILE", in which FILE is a string of C. */
static int write_error(Program *p, const char *at) {
    char        file[256];
    size_t      n    = 0;
    int         line = 0;
    const char *s    = strstr(p->text, "#line 1 \"") + strlen("#line 1 \"");
    for (; *s != '"' && n + 1 < sizeof file; n++) {
        unsigned octal;
        if (*s == '\\' && sscanf(s + 1, "%3o", &octal) == 1) {
            file[n] = (char)octal;
            s += 4;
            continue;
        }
        s += *s == '\\';
        file[n] = *s++;
    }
    for (; s < at; s++) line += *s == '\n';
    return asprintf(&p->log, "%.*s(%d): error: #error%.*s\n", (int)n, file, line, (int)strcspn(at + 6, "\n"), at + 6) >=
                   0
               ? WRONG_SOURCE
               : 1;
}
int nvrtcCompileProgram(Program *p, int n, const char *const *options) {
    char entry[256];
    (void)n, (void)options;
    CALL();
    compiled++;
    const char *wrong = strstr(p->text, "\n#error");
    if (wrong != NULL) return write_error(p, wrong + 1);
    snprintf(entry, sizeof entry, ".entry %s(", p->kernel);
    if (strstr(p->text, entry) != NULL) return 0;
    return asprintf(&p->log, "__nv_name_map(2): error: identifier \"%s\" is undefined\n", p->kernel) >= 0 ? WRONG_SOURCE
                                                                                                          : 1;
}
static const char *log_of(const Program *p) { return p->log != NULL ? p->log : ""; }
int                nvrtcGetProgramLogSize(Program *p, size_t *bytes) {
                   CALL();
                   *bytes = strlen(log_of(p)) + 1;
                   return 0;
}
int nvrtcGetProgramLog(Program *p, char *log) {
    CALL();
    strcpy(log, log_of(p));
    return 0;
}
int nvrtcGetPTXSize(Program *p, size_t *bytes) {
    CALL();
    *bytes = strlen(ptx_of(p)) + 1;
    return 0;
}
int nvrtcGetPTX(Program *p, char *ptx) {
    CALL();
    strcpy(ptx, ptx_of(p));
    return 0;
}
int nvrtcGetCUBINSize(Program *p, size_t *bytes) {
    CALL();
    *bytes = sizeof elf + strlen(ptx_of(p));
    return 0;
}
int nvrtcGetCUBIN(Program *p, char *cubin) {
    CALL();
    memcpy(cubin, elf, sizeof elf);
    strcpy(cubin + sizeof elf - 1, ptx_of(p));
    return 0;
}
#ifndef FAKE_WITHOUT_NAMES
int nvrtcGetLoweredName(Program *p, const char *name, const char **out) {
    CALL();
    (void)name;
    *out = p->kernel;
    return 0;
}
#endif

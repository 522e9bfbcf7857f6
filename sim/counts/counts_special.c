/* counts_special.c - PTX of specialised kernels for `reprise-sim bench counts --specialized`: the programs of
 * executor/cuda/special_text.c, by NVRTC, for sm_90, with the cache of compiled kernels. */
#include "sim/counts/counts_run.h"

#include "executor/cuda/compile.h"
#include "executor/cuda/special.h"

#include <stdlib.h>
#include <string.h>

static RpNvrtc *nvrtc;

RpStatus counts_special_open(void) { return nvrtc != NULL ? RP_OK : rp_compiler_open(&nvrtc); }

static char *compile(const char *op, const char *file, const char *text) {
    CudaTarget target;
    CompileJob job = {.code = rp_special_code(op, file, text)};
    char      *ptx = NULL;
    if (rp_nvrtc_target(nvrtc, 9, 0, &target) != RP_OK) return NULL;
    if (!rp_compile_all(nvrtc, target, &job, 1, NULL)) return NULL;
    if (job.status != RP_OK) fprintf(stderr, "%s: as shipped: %s\n", op, job.error);
    if (job.status == RP_OK && strstr(job.binary.ptx, "__local_depot") == NULL)
        ptx = strdup(job.binary.ptx);
    else if (job.status == RP_OK)
        fprintf(stderr, "%s: as shipped: it indexes its arguments\n", op);
    rp_cuda_binary_free(&job.binary);
    return ptx;
}

char *counts_special_ptx(const RpKernelLaunch *l, const char *op, int min_blocks, CountsIsAddress *is_address,
                         uint64_t words[512], unsigned *n) {
    uint64_t      cut[SPECIAL_MAX_WORDS];
    bool          addresses[SPECIAL_MAX_WORDS];
    char          file[64], *text, *ptx = NULL;
    SpecialKernel k = {.words = cut, .is_address = addresses};
    if (l->instance == NULL || !rp_special_cut(l, cut, &k.n_words)) return NULL;
    memcpy(k.grid, l->grid, sizeof k.grid);
    memcpy(k.block, l->block, sizeof k.block);
    *n = 0;
    for (unsigned i = 0; i < k.n_words; i++) {
        addresses[i] = is_address(cut[i]);
        if (addresses[i]) words[(*n)++] = cut[i];
    }
    words[(*n)++] = 0;
    if (rp_special_text(&k, op, l->instance, min_blocks, &text, file) == RP_OK) {
        ptx = compile(op, file, text);
        free(text);
    } else
        fprintf(stderr, "%s\n", rp_last_error());
    return ptx;
}

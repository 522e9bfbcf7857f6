/* The loss of power while an entry of the cache of compiled kernels is written (tests/power/power.h). */
#include "tests/power/folders.h"
#include "tests/power/power.h"

#include "executor/cuda/code_cache.h"

TestSuite(cuda_power_loss, .init = make_folders, .fini = remove_folders);

static const char       key[] = "a key", ptx[] = "PTX of a kernel", symbol[] = "kernel";
static char             cubin[3000];
static const CudaBinary binary = {.cubin        = cubin,
                                  .ptx          = ptx,
                                  .symbol       = symbol,
                                  .cubin_bytes  = sizeof cubin,
                                  .ptx_bytes    = sizeof ptx,
                                  .symbol_bytes = sizeof symbol};

static RpStatus cache_open(const char *dir, CodeCache *c) {
    setenv("XDG_CACHE_HOME", dir, 1);
    return rp_code_cache_open(c);
}

/* An entry is missing, or refused as corrupt, or the one that was written; it can be written again. */
static const char *check_cache(const char *dir, int marks) {
    CodeCache  c;
    CudaBinary b;
    bool       found;
    (void)marks; /* a loss costs time only */
    if (cache_open(dir, &c) != RP_OK) return "the folder cannot be opened";
    RpStatus st = rp_code_cache_read(&c, key, sizeof key, &b, &found);
    if (st == RP_OK && found && (b.cubin_bytes != sizeof cubin || memcmp(b.cubin, cubin, sizeof cubin) != 0))
        return "wrong code";
    rp_cuda_binary_free(&b);
    if (rp_code_cache_write(&c, key, sizeof key, &binary) != RP_OK) return "the entry cannot be written again";
    st = rp_code_cache_read(&c, key, sizeof key, &b, &found);
    rp_cuda_binary_free(&b);
    return st == RP_OK && found ? NULL : "the entry cannot be read again";
}

Test(cuda_power_loss, the_cache_of_compiled_kernels) {
    CodeCache c;
    memset(cubin, 'c', sizeof cubin);
    power_record(folder, POWER_NO_BUG);
    OK(cache_open(folder, &c));
    OK(rp_code_cache_write(&c, key, sizeof key, &binary));
    power_stop();
    const PowerResult r = power_each_state(state, check_cache);
    cr_expect_eq(r.bad, 0, "%d of %d states: %s", r.bad, r.states, r.first);
    cr_expect_gt(r.states, 10);
    cr_log_info("cache: %d states", r.states);
}

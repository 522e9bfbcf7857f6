/* The address sanitizer's checks of vectors, linked with --wrap.
 *
 * Its runtime checks an access of 32 or 64 bytes in a slow loop (__asan_region_is_poisoned): two thirds of the time of
 * suites that decode. Here one or two words of the shadow memory are read first. If they do not show that all bytes can
 * be accessed, the runtime checks and reports. This file is compiled without sanitizers. */
#include <stdint.h>
#include <string.h>

void __asan_get_shadow_mapping(size_t *scale, size_t *offset); /* of the runtime; no public header declares it */
void __real___asan_loadN(uintptr_t at, size_t n);
void __real___asan_storeN(uintptr_t at, size_t n);
void __wrap___asan_loadN(uintptr_t at, size_t n);
void __wrap___asan_storeN(uintptr_t at, size_t n);

enum { SCALE = 3, WORD = 8 }; /* a byte of shadow is for 8 bytes, and is 0 if all of them can be accessed */

static uintptr_t shadow; /* 0: not known yet */

__attribute__((constructor)) static void find_shadow(void) {
    size_t scale, offset;
    __asan_get_shadow_mapping(&scale, &offset);
    if (scale == SCALE) shadow = offset;
}

static uint64_t word(uintptr_t at) {
    uint64_t w;
    memcpy(&w, (const void *)at, sizeof w);
    return w;
}

/* Whether the n bytes at `at` can be accessed. false: perhaps not. */
static int accessible(uintptr_t at, size_t n) {
    if (!shadow || n == 0) return 0;
    const uintptr_t first = shadow + (at >> SCALE), bytes = shadow + ((at + n - 1) >> SCALE) - first + 1;
    if (bytes <= WORD) return (word(first) << 8 * (WORD - bytes)) == 0;
    return bytes <= 2 * WORD && (word(first) | word(first + bytes - WORD)) == 0;
}

void __wrap___asan_loadN(uintptr_t at, size_t n) {
    if (!accessible(at, n)) __real___asan_loadN(at, n);
}

void __wrap___asan_storeN(uintptr_t at, size_t n) {
    if (!accessible(at, n)) __real___asan_storeN(at, n);
}

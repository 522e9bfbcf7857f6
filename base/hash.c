/* SipHash (Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012, https://www.aumasson.jp/siphash)
 * with one round for each word and three at the end, as hash tables in Rust and Python use it. The key of a
 * process is random. */
#include "base/hash.h"

#include <pthread.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/random.h>
#include <time.h>

typedef struct Sip {
    uint64_t v0, v1, v2, v3;
} Sip;

static uint64_t rotate(uint64_t x, int bits) { return x << bits | x >> (64 - bits); }

static void sip_round(Sip *s) {
    s->v0 += s->v1, s->v1 = rotate(s->v1, 13) ^ s->v0, s->v0 = rotate(s->v0, 32);
    s->v2 += s->v3, s->v3 = rotate(s->v3, 16) ^ s->v2;
    s->v0 += s->v3, s->v3 = rotate(s->v3, 21) ^ s->v0;
    s->v2 += s->v1, s->v1 = rotate(s->v1, 17) ^ s->v2, s->v2 = rotate(s->v2, 32);
}

static void sip_word(Sip *s, uint64_t word) {
    s->v3 ^= word;
    sip_round(s);
    s->v0 ^= word;
}

/* The last word is the n % 8 bytes that are left, with n in its highest byte. */
uint64_t rp_siphash(const uint64_t key[2], const void *p, size_t n) {
    Sip                  s = {key[0] ^ 0x736f6d6570736575u, key[1] ^ 0x646f72616e646f6du, key[0] ^ 0x6c7967656e657261u,
                              key[1] ^ 0x7465646279746573u};
    const unsigned char *bytes = p;
    uint64_t             word, last = (uint64_t)n << 56;
    size_t               i = 0;
    for (; n - i >= sizeof word; i += sizeof word) {
        memcpy(&word, bytes + i, sizeof word);
        sip_word(&s, word);
    }
    for (size_t k = 0; i + k < n; k++) last |= (uint64_t)bytes[i + k] << (8 * k);
    sip_word(&s, last);
    s.v2 ^= 0xff;
    for (int k = 0; k < 3; k++) sip_round(&s);
    return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

static uint64_t       process_key[2];
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* If getrandom is missing (an old kernel, a sandbox): the 16 random bytes that the kernel gives every program at its
 * start; else the time. */
static void choose_key(void) {
    if (getrandom(process_key, sizeof process_key, GRND_NONBLOCK) == (ssize_t)sizeof process_key) return;
    const unsigned long at_start = getauxval(AT_RANDOM);
    if (at_start != 0) {
        memcpy(process_key, (const void *)(uintptr_t)at_start, sizeof process_key);
        return;
    }
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_REALTIME, &now);
    process_key[0] = (uint64_t)now.tv_sec;
    process_key[1] = (uint64_t)now.tv_nsec;
}

uint64_t rp_hash(const void *p, size_t n) {
    (void)pthread_once(&once, choose_key);
    return rp_siphash(process_key, p, n);
}

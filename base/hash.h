/* hash.h - the hash of hash tables whose keys come from files. It has a random key, so that a file cannot be
 * made of names that all fall into one slot, for which loading would take quadratic time. Hashes differ from
 * process to process: they choose slots, and no result may depend on them. */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* SipHash-1-3 of n bytes. */
uint64_t rp_siphash(const uint64_t key[2], const void *p, size_t n);

/* The same with the key of this process. */
uint64_t rp_hash(const void *p, size_t n);

#endif

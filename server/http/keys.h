/* keys.h - the keys of clients, from a file with one on each line: "KEY", or "NAME KEY". Lines that begin with # and
 * empty lines are left out. Also how many tokens a key may use. Any thread may use it. */
#ifndef SERVER_HTTP_KEYS_H
#define SERVER_HTTP_KEYS_H

#include "reprise/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct KeyFile KeyFile;
typedef struct Key     Key; /* valid as long as the KeyFile, also after its line is gone */

/* path NULL: no keys are asked for, and all clients share one. tokens_per_minute 0: no limit. RP_E_IO, RP_E_FORMAT,
 * RP_E_NOMEM. The caller frees *out. */
RP_NODISCARD RpStatus keys_open(const char *path, int32_t tokens_per_minute, KeyFile **out);
void                  keys_free(KeyFile *f); /* NULL is allowed */

/* Reads the file again. After a failure the keys are those from before. */
RP_NODISCARD RpStatus keys_reload(KeyFile *f);

bool keys_needed(const KeyFile *f);

/* The key of a client by the values of the headers Authorization ("Bearer KEY") and X-Api-Key, which may be NULL. NULL:
 * there is no such key. The time that this takes does not depend on what the keys are. */
Key *keys_find(KeyFile *f, const char *authorization, const char *api_key);

const char *key_name(const Key *k);

/* Seconds until the key may use tokens again; 0: it may now. */
int32_t key_wait(Key *k);

/* Counts n tokens that the key has used. */
void key_charge(Key *k, int64_t n);

#endif

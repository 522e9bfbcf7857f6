/* Places of sequences by splitmix64 (Steele, Lea, Flood, OOPSLA 2014): sequence i of a training begins at
 *
 *     mix(mix(seed) + i) mod (n - seq)        i = step * sequences of a step + number of the sequence */
#include "cli/train/train.h"

#include <string.h>

static uint64_t mix(uint64_t z) {
    z += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

void cli_train_sequences(const RpTokenList *tokens, int32_t seq, uint64_t seed, int64_t step, size_t n, int32_t *ids,
                         size_t *places) {
    const size_t width = (size_t)seq + 1;
    for (size_t i = 0; i < n; i++) {
        const size_t at = (size_t)(mix(mix(seed) + (uint64_t)step * n + i) % (tokens->n - (size_t)seq));
        memcpy(ids + i * width, tokens->ids + at, width * sizeof *ids);
        if (places != NULL) places[i] = at;
    }
}

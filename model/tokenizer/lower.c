/* Lower case of characters (lower.h). */
#include "model/tokenizer/lower.h"

#include "model/tokenizer/words_unicode.h"

#include <stddef.h>

uint32_t rp_lower(uint32_t code) {
    size_t low = 0, high = sizeof lower_pairs / sizeof lower_pairs[0];
    while (low < high) {
        const size_t mid = low + (high - low) / 2;
        if (code == lower_pairs[mid][0]) return lower_pairs[mid][1];
        if (code < lower_pairs[mid][0]) high = mid;
        if (code > lower_pairs[mid][0]) low = mid + 1;
    }
    return code;
}

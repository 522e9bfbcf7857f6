/* lower.h - lower case of characters. */
#ifndef MODEL_TOKENIZER_LOWER_H
#define MODEL_TOKENIZER_LOWER_H

#include <stdint.h>

/* The first character of the lower case of a character: U+0130 alone has a second one, U+0307. */
uint32_t rp_lower(uint32_t code);

#endif

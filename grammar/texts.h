/* texts.h - one of many texts, with common beginnings shared. */
#ifndef GRAMMAR_TEXTS_H
#define GRAMMAR_TEXTS_H

#include "grammar/rx.h"
#include "reprise/gguf.h"

/* Sorts the texts. */
Rx rp_rx_texts(RxPool *p, RpGgufString *texts, size_t n);

#endif

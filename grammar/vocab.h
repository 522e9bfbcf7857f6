/* vocab.h - a vocabulary as a trie of bytes in preorder, so that a walk is a loop over an array.
 *
 *     i = 0;  while i < n:  the byte of node i is possible ? i + 1 : node i's end
 *
 * There are two: of tokens whose every character is safe in a JSON string (no quote, backslash, control character, and
 * whole characters only), and of all others. Where any safe text may come, a whole subtree of the first is allowed at
 * once; the second is small. */
#ifndef GRAMMAR_VOCAB_H
#define GRAMMAR_VOCAB_H

#include "grammar/grow.h"
#include "reprise/grammar.h"

enum { MAX_TOKEN_BYTES = 1024 };

typedef struct TrieNode {
    uint32_t end;   /* the next node that is not below this one */
    int32_t  token; /* the first with these bytes, or -1 */
    uint32_t ids; /* tokens of the nodes before this one: ids[nodes[i].ids .. nodes[end].ids) are node i's and below */
    uint16_t depth; /* 1 for the first byte */
    uint16_t chars; /* safe tokens: most bytes below this node, which is at least the characters */
    uint8_t  byte;
} TrieNode;

typedef struct Trie {
    TrieNode *nodes; /* [n + 1]: the last has only `ids` */
    size_t    n, room;
    int32_t  *ids;
    size_t    n_ids;
    int       depth; /* the longest token */
} Trie;

typedef enum TrieKind { TRIE_SAFE, TRIE_OTHER, TRIES } TrieKind;

struct RpGrammarVocab {
    const RpTokenizer *tokenizer; /* or NULL; borrowed */
    uint64_t           number;    /* no other vocabulary of the process has it */
    int32_t            n;
    char              *text;
    uint32_t          *offset; /* [n + 1] in text */
    int32_t           *same;   /* the next token of the same bytes, or -1 */
    bool              *is_end;
    int32_t           *end_ids; /* [n_end] */
    size_t             n_end;
    Trie               tries[TRIES];
    uint32_t          *safe;  /* mask of the tokens of TRIE_SAFE */
    size_t             words; /* of a mask */
};

#endif

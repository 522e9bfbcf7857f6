/* structured.h - the options that hold a reply to a grammar. */
#ifndef CLI_STRUCTURED_H
#define CLI_STRUCTURED_H

#include "reprise/reprise.h"

typedef struct StructuredArgs {
    const char *schema, *grammar, *regex;
    bool        json_object;
} StructuredArgs;

#define OPTIONS_STRUCTURED(v)                                                                                          \
    CLI_FILE(FILE_READ, "schema", 0, (v).schema, "FILE", "the reply is JSON that satisfies this JSON Schema"),         \
        CLI_FILE(FILE_READ, "grammar", 0, (v).grammar, "FILE", "the reply is a text of this GBNF grammar"),            \
        CLI_TEXT("regex", 0, (v).regex, "REGEX", "the reply matches this regular expression as a whole"),              \
        CLI_FLAG("json-object", 0, (v).json_object, "the reply is a JSON object")

/* Zero-initialise it. */
typedef struct Structure {
    RpGrammar      *grammar;
    RpGrammarVocab *vocab;
    RpMatcher      *matcher; /* NULL without one of the options */
    char           *text;    /* n bytes that the grammar is made of, or NULL */
    size_t          n;
} Structure;

/* Options that exclude each other; NULL: none. */
const char *cli_structured_wrong(const StructuredArgs *args);

/* Reads the file and makes a matcher for the model. Call cli_structure_free also after a failure. */
RP_NODISCARD RpStatus cli_structure_open(const StructuredArgs *args, const RpModel *m, Structure *out);
void                  cli_structure_free(Structure *s);

#endif

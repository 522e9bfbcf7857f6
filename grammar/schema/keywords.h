/* keywords.h - the keywords of JSON Schema (drafts 4 to 2020-12), and how each is handled. A test compares the table of
 * docs/structured-output.md with this list. */
#ifndef GRAMMAR_SCHEMA_KEYWORDS_H
#define GRAMMAR_SCHEMA_KEYWORDS_H

/* X(keyword, state, remark): KEPT, PARTLY: kept with the limits of the remark, NEVER: refused or weakened, NOTHING: it
 * allows every value. */
#define RP_SCHEMA_KEYWORDS(X)                                                                                          \
    X("type", KEPT, "")                                                                                                \
    X("enum", PARTLY, "with other keywords for arrays or objects: no")                                                 \
    X("const", PARTLY, "as `enum`")                                                                                    \
    X("properties", KEPT, "in this order")                                                                             \
    X("required", KEPT, "")                                                                                            \
    X("additionalProperties", KEPT, "")                                                                                \
    X("patternProperties", PARTLY, "at most 4 patterns")                                                               \
    X("propertyNames", KEPT, "")                                                                                       \
    X("minProperties", PARTLY, "counts repeated names")                                                                \
    X("maxProperties", KEPT, "")                                                                                       \
    X("dependentRequired", KEPT, "")                                                                                   \
    X("dependentSchemas", KEPT, "")                                                                                    \
    X("dependencies", KEPT, "")                                                                                        \
    X("items", KEPT, "")                                                                                               \
    X("prefixItems", KEPT, "")                                                                                         \
    X("additionalItems", KEPT, "")                                                                                     \
    X("minItems", PARTLY, "at most 10,000")                                                                            \
    X("maxItems", PARTLY, "at most 10,000")                                                                            \
    X("contains", PARTLY, "once; without `maxContains`, `minContains` at most 1")                                      \
    X("minContains", PARTLY, "0 and 1")                                                                                \
    X("maxContains", NEVER, "")                                                                                        \
    X("uniqueItems", NEVER, "")                                                                                        \
    X("minLength", KEPT, "")                                                                                           \
    X("maxLength", KEPT, "")                                                                                           \
    X("pattern", PARTLY, "without back references, `\\b`, `\\p`, look-behind, inner look-ahead")                       \
    X("format", PARTLY, "those below, `iri` and `idn-*` in ASCII; others allow every string, with a note")             \
    X("minimum", KEPT, "numbers then have no exponent; so for the next four")                                          \
    X("maximum", KEPT, "")                                                                                             \
    X("exclusiveMinimum", KEPT, "")                                                                                    \
    X("exclusiveMaximum", KEPT, "")                                                                                    \
    X("multipleOf", PARTLY, "of at most 9 digits")                                                                     \
    X("allOf", KEPT, "")                                                                                               \
    X("anyOf", KEPT, "")                                                                                               \
    X("oneOf", PARTLY, "if each two exclude each other, or can be negated")                                            \
    X("not", PARTLY, "of type, const, enum, required, properties, bounds, lengths, pattern, not, anyOf, allOf")        \
    X("if", PARTLY, "as `not`")                                                                                        \
    X("then", KEPT, "")                                                                                                \
    X("else", KEPT, "")                                                                                                \
    X("$ref", PARTLY, "within the schema")                                                                             \
    X("$anchor", KEPT, "")                                                                                             \
    X("$defs", KEPT, "")                                                                                               \
    X("definitions", KEPT, "")                                                                                         \
    X("$dynamicRef", NEVER, "")                                                                                        \
    X("$recursiveRef", NEVER, "")                                                                                      \
    X("unevaluatedProperties", NEVER, "")                                                                              \
    X("unevaluatedItems", NEVER, "")                                                                                   \
    X("$dynamicAnchor", NOTHING, "")                                                                                   \
    X("$id", NOTHING, "")                                                                                              \
    X("id", NOTHING, "")                                                                                               \
    X("$schema", NOTHING, "drafts before 2019-09 ignore what stands beside `$ref`")                                    \
    X("$comment", NOTHING, "")                                                                                         \
    X("$vocabulary", NOTHING, "")                                                                                      \
    X("title", NOTHING, "")                                                                                            \
    X("description", NOTHING, "")                                                                                      \
    X("default", NOTHING, "")                                                                                          \
    X("examples", NOTHING, "")                                                                                         \
    X("deprecated", NOTHING, "")                                                                                       \
    X("readOnly", NOTHING, "")                                                                                         \
    X("writeOnly", NOTHING, "")                                                                                        \
    X("contentEncoding", NOTHING, "")                                                                                  \
    X("contentMediaType", NOTHING, "")                                                                                 \
    X("contentSchema", NOTHING, "")

#endif

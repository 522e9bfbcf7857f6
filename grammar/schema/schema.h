/* schema.h - a JSON Schema becomes rules.
 *
 * A value may have to satisfy several schemas at once: those of allOf, of a $ref with keywords beside it, of a property
 * that two of them name. So a rule belongs to a set of parts (a conjunction). Parts are nodes of the schema's JSON, or
 * consequences of them:
 *
 *     conjunction of parts   expand: follow $ref and allOf; branch: an alternative for each of anyOf, oneOf, if, not;
 *                            gather: what remains for each type, a Shape; then the nodes of the grammar
 *
 * Equal sets have one rule, which is how recursion ends. */
#ifndef GRAMMAR_SCHEMA_SCHEMA_H
#define GRAMMAR_SCHEMA_SCHEMA_H

#include "base/text/json_read.h"
#include "grammar/grammar.h"

typedef enum PartKind {
    PART_SCHEMA,    /* the schema at the node */
    PART_NOT,       /* not the schema at the node */
    PART_NEGATED,   /* not the keyword that is the node: a member of a schema */
    PART_REQUIRED,  /* a property that the node, a string, names */
    PART_FORBIDDEN, /* no property that the node, a string, names; an object */
    PART_NO_KEY,    /* no property of the node's own key, or no object */
    PART_KEY,       /* a property of the node's own key, if it is an object */
    PART_KEY_NOT,   /* an object with a property of the node's own key that does not satisfy the node */
    PART_DEPENDENT, /* a member of dependentRequired, dependentSchemas or dependencies */
    PART_KINDS
} PartKind;

/* The keywords of a part that were expanded to branches; DONE_ALL for other kinds than PART_SCHEMA. */
enum { DONE_ANY_OF = 1, DONE_ONE_OF = 2, DONE_IF = 4, DONE_ALL = 7 };

typedef uint32_t Part; /* node << 7 | done << 4 | kind */

static const Part PART_DONE = DONE_ALL << 4;

static inline Part     part_of(uint32_t node, PartKind kind) { return node << 7 | (uint32_t)kind; }
static inline PartKind part_kind(Part p) { return (PartKind)(p & 15); }
static inline uint32_t part_node(Part p) { return p >> 7; }
static inline unsigned part_done(Part p) { return p >> 4 & 7; }

typedef struct PartList {
    Part  *v;
    size_t n, room;
} PartList;

enum {
    TYPE_NULL    = 1,
    TYPE_BOOLEAN = 2,
    TYPE_NUMBER  = 4,
    TYPE_STRING  = 8,
    TYPE_ARRAY   = 16,
    TYPE_OBJECT  = 32,
    TYPE_ALL     = 63,
    TYPE_INTEGER = 64 /* beside TYPE_NUMBER: integers only */
};

/* The values that a conjunction without branches allows, for each type. */
typedef struct Shape {
    unsigned types;
    Rx       number, string; /* constraints beside the syntax; RX_ALL: none. string: of the content */
    uint32_t min_length, max_length, min_items, max_items, min_members, max_members;
    bool     has_values; /* enum, const: `values` are those that remain */
    PartList values;
    PartList objects;   /* schemas with keywords of objects */
    PartList arrays;    /* schemas with keywords of arrays */
    PartList required;  /* PART_REQUIRED, PART_KEY */
    PartList forbidden; /* PART_FORBIDDEN, PART_NO_KEY */
    PartList key_not;   /* PART_KEY_NOT */
} Shape;

typedef struct SchemaRule {
    uint32_t parts, n_parts; /* in Schema.parts */
    uint32_t rule;
    bool     first; /* the whole text: no whitespace in front */
} SchemaRule;

typedef struct Schema {
    RpGrammar  *g;
    RxPool     *rx;
    Json        json;
    unsigned    flags;
    bool        old_refs; /* drafts before 2019-09: what stands beside $ref is ignored */
    Rx          space;    /* whitespace between tokens */
    Rx          any_char; /* a character of a string */
    Rx          lead;     /* whitespace in front of the value in the making */
    PartList    parts;    /* of all rules */
    SchemaRule *rules;
    size_t      n_rules, rule_room;
    IndexTable  table;
    int         depth; /* of branches */
    int         disjoint_depth;
    size_t      disjoint_calls; /* so far: beyond a limit no two schemas are known to exclude each other */
    size_t      branches;       /* so far */
} Schema;

/* The JSON node and its member. */
static inline const JsonNode *schema_node(const Schema *s, uint32_t node) { return &s->json.nodes[node]; }
static inline uint32_t        schema_index(const Schema *s, const JsonNode *n) { return (uint32_t)(n - s->json.nodes); }
const JsonNode               *rp_schema_get(const Schema *s, uint32_t node, const char *key);

/* A keyword that cannot be kept: a note with RP_GRAMMAR_WEAKEN, else RP_E_UNSUPPORTED. `why` may be "". */
RP_NODISCARD RpStatus rp_schema_drop(Schema *s, uint32_t node, const char *keyword, const char *why);
RP_NODISCARD RpStatus rp_schema_bad(const Schema *s, uint32_t node, const char *what);

RP_NODISCARD RpStatus rp_part_add(PartList *l, Part p);  /* unless it is there, whether done or not */
RP_NODISCARD RpStatus rp_part_push(PartList *l, Part p); /* at the end */

/* ref.c: the node that a $ref names; UINT32_MAX: none. rp_schema_resolve refuses or weakens it then; the other is true
 * if there is one. */
bool                  rp_schema_try_lookup(Schema *s, uint32_t node, const JsonNode *ref, uint32_t *target);
RP_NODISCARD RpStatus rp_schema_resolve(Schema *s, uint32_t node, const JsonNode *ref, uint32_t *target);

/* expand.c: adds what $ref, allOf and negations say, until nothing is new. */
RP_NODISCARD RpStatus rp_schema_expand(Schema *s, PartList *l);

/* branch.c: takes one anyOf, oneOf, if or the like out of l, if there is one. branches[0..*n) are lists of parts to
 * be added, each ended by PART_STOP. */
static const Part     PART_STOP = UINT32_MAX;
RP_NODISCARD RpStatus rp_schema_branch(Schema *s, PartList *l, PartList *branches, bool *found);

/* disjoint.c: true if no value satisfies both. */
bool     rp_schema_disjoint(Schema *s, uint32_t a, uint32_t b);
bool     rp_json_equal(const Json *j, const JsonNode *a, const JsonNode *b);
unsigned rp_schema_types(const Schema *s, uint32_t node); /* by type, const and enum; TYPE_INTEGER as above */
unsigned rp_schema_type_names(const Schema *s, const JsonNode *type); /* of the keyword `type` alone */
unsigned rp_schema_type_of(const Schema *s, const JsonNode *value);

/* gather.c */
RP_NODISCARD RpStatus rp_schema_gather(Schema *s, const PartList *l, Shape *out);
void                  rp_shape_free(Shape *shape);

/* Nodes for the types; each returns the node before `next`. */
RP_NODISCARD RpStatus rp_schema_object(Schema *s, const Shape *shape, uint32_t next, uint32_t *node);
RP_NODISCARD RpStatus rp_schema_array(Schema *s, const Shape *shape, uint32_t next, uint32_t *node);
RP_NODISCARD RpStatus rp_schema_values(Schema *s, const Shape *shape, uint32_t next, uint32_t *node);
Rx                    rp_schema_string(Schema *s, const Shape *shape); /* with quotes */
Rx                    rp_schema_number(Schema *s, const Shape *shape);

/* Compiles a schema into the grammar; *rule is the rule of its texts. */
RP_NODISCARD RpStatus rp_schema_rule(RpGrammar *g, const char *schema, size_t n, unsigned flags, uint32_t *rule);

/* rules.c: the rule of a sorted conjunction, and a call of it, which sorts the list. Rules are made later. */
RP_NODISCARD RpStatus rp_schema_rule_of(Schema *s, const PartList *l, bool first, uint32_t *rule);
RP_NODISCARD RpStatus rp_schema_value(Schema *s, PartList *l, uint32_t next, uint32_t *node);

/* Pieces of text. */
uint32_t              rp_schema_token(Schema *s, Rx token, uint32_t next);   /* whitespace, then the token */
Rx                    rp_schema_text(Schema *s, const char *text, size_t n); /* in a string, without quotes */
RP_NODISCARD RpStatus rp_schema_texts(Schema *s, RpGgufString *texts, size_t n, Rx *out); /* one of them; sorts */
Rx                    rp_schema_quoted(Schema *s, Rx content);
Rx                    rp_schema_pattern(Schema *s, const char *pattern); /* of the syntax of pattern.h */

/* number.c: numbers above or below a bound, without exponent. `lower`: at least the bound, else at most. */
RP_NODISCARD RpStatus rp_schema_bound(Schema *s, RpGgufString bound, bool lower, bool exclusive, Rx *out);
RP_NODISCARD RpStatus rp_schema_multiple(Schema *s, uint32_t node, Rx *out);
RP_NODISCARD RpStatus rp_schema_equal_numbers(Schema *s, RpGgufString number,
                                              Rx *out); /* all decimal texts of the value */
Rx                    rp_schema_decimal(Schema *s);     /* numbers without exponent */

/* format.c: RX_NONE for a format that is not known. */
Rx rp_schema_format(Schema *s, RpGgufString name);

#endif

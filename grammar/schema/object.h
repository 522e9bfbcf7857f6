/* object.h - the members that an object may have. */
#ifndef GRAMMAR_SCHEMA_OBJECT_H
#define GRAMMAR_SCHEMA_OBJECT_H

#include "grammar/schema/schema.h"

enum { MAX_PATTERNS = 4 };

/* A member that the schema names. */
typedef struct NamedMember {
    RpGgufString name;
    bool         required;
    PartList     value; /* all that its value has to satisfy */
} NamedMember;

/* Members with any other name that matches `name`. */
typedef struct OtherMembers {
    Rx       name;
    PartList value;
} OtherMembers;

typedef struct Members {
    NamedMember *named;
    size_t       n_named, room;
    OtherMembers others[1 << MAX_PATTERNS];
    size_t       n_others;
    bool         is_impossible; /* a name is required and forbidden */
} Members;

/* The caller frees *m, also after a failure. */
RP_NODISCARD RpStatus rp_schema_members(Schema *s, const Shape *shape, Members *m);
void                  rp_members_free(Members *m);

#endif

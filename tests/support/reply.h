/* reply.h - the events of a reply, with pieces of one kind joined. `all` has everything in its order:
 *
 *     T text | R reasoning | B number name id | A number arguments | E number written | M number malformed | . */
#ifndef TESTS_REPLY_H
#define TESTS_REPLY_H

#include "reprise/chat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Joined {
    char  *p;
    size_t n, room;
} Joined;

enum { TRANSCRIPT_CALLS = 16 };

typedef struct Transcript {
    Joined all, text, reasoning, malformed, name[TRANSCRIPT_CALLS], arguments[TRANSCRIPT_CALLS];
    int    kind, call; /* of the last event */
    int    n_calls;    /* that ended */
    bool   ended[TRANSCRIPT_CALLS];
    size_t n_events, stop_at; /* the callback returns false at event stop_at; 0: never */
    bool   wrong;             /* an event lacks a field */
} Transcript;

static inline void join(Joined *j, const char *text, size_t n) {
    if (j->n + n + 1 > j->room) {
        j->room = 2 * (j->n + n + 1) + 256;
        j->p    = realloc(j->p, j->room);
        if (j->p == NULL) abort();
    }
    memcpy(j->p + j->n, text, n);
    j->n += n;
    j->p[j->n] = '\0';
}

static inline const char *joined(const Joined *j) { return j->p != NULL ? j->p : ""; }

static inline bool transcript_event(const RpReplyEvent *e, void *user) {
    static const char letters[] = "TRBAEM.";
    Transcript       *t         = user;
    const bool        of_call   = e->kind == RP_REPLY_CALL_BEGIN || e->kind == RP_REPLY_CALL_END;
    const bool        first     = t->n_events++ == 0;
    const int         call      = e->call >= 0 && e->call < TRANSCRIPT_CALLS ? e->call : TRANSCRIPT_CALLS - 1;
    char              head[32];
    t->wrong |=
        e->text == NULL || e->text[e->len] != '\0' || of_call != (e->id != NULL) || of_call != (e->name != NULL);
    if (first || of_call || e->kind == RP_REPLY_END || t->kind != (int)e->kind || t->call != e->call) {
        snprintf(head, sizeof head, e->call >= 0 ? "%c%d " : "%c ", letters[e->kind], (int)e->call);
        if (!first) join(&t->all, "\n", 1);
        join(&t->all, head, strlen(head));
    }
    t->kind = (int)e->kind;
    t->call = e->call;
    if (e->kind == RP_REPLY_CALL_BEGIN) {
        join(&t->name[call], e->name, strlen(e->name));
        join(&t->all, e->name, strlen(e->name));
        join(&t->all, " ", 1);
        join(&t->all, e->id, strlen(e->id));
    }
    join(&t->all, e->text, e->len);
    if (e->kind == RP_REPLY_TEXT) join(&t->text, e->text, e->len);
    if (e->kind == RP_REPLY_REASONING) join(&t->reasoning, e->text, e->len);
    if (e->kind == RP_REPLY_MALFORMED) join(&t->malformed, e->text, e->len);
    if (e->kind == RP_REPLY_CALL_ARGUMENTS) join(&t->arguments[call], e->text, e->len);
    if (e->kind == RP_REPLY_CALL_END) t->n_calls++, t->ended[call] = true;
    return t->stop_at == 0 || t->n_events < t->stop_at;
}

static inline void transcript_free(Transcript *t) {
    free(t->all.p), free(t->text.p), free(t->reasoning.p), free(t->malformed.p);
    for (int i = 0; i < TRANSCRIPT_CALLS; i++) free(t->name[i].p), free(t->arguments[i].p);
    *t = (Transcript){0};
}

#endif

#include "cli/users/users.h"

#include "cli/terminal/clock.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct User {
    const UsersOptions *o;
    const Scenario     *scenario;
    int                 number;
    UsersResult         result;
    pthread_t           thread;
    /* of the present request */
    double start, last; /* last: of the latest piece of text; 0: none yet */
    char  *text;        /* of the reply */
    size_t n_text;
    bool   done;
} User;

static bool add_time(Times *t, double s) {
    if (t->n == t->room) {
        const size_t room  = 2 * t->room + 64;
        double      *grown = realloc(t->s, room * sizeof *grown);
        if (grown == NULL) return false;
        t->s    = grown;
        t->room = room;
    }
    t->s[t->n++] = s;
    return true;
}

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

double cli_times_percentile(Times *t, double p) {
    if (t->n == 0) return 0.0;
    qsort(t->s, t->n, sizeof *t->s, compare);
    size_t i = (size_t)(p / 100.0 * (double)t->n);
    return t->s[i < t->n ? i : t->n - 1];
}

static bool add_text(User *u, const char *text) {
    const size_t n     = strlen(text);
    char        *grown = realloc(u->text, u->n_text + n + 1);
    if (grown == NULL) return false;
    u->text = grown;
    memcpy(u->text + u->n_text, text, n + 1);
    u->n_text += n;
    return true;
}

/* A piece of text has come. */
static bool note_piece(User *u, const char *text) {
    const double now   = cli_now();
    const bool   first = u->last == 0.0;
    if (!add_time(first ? &u->result.first : &u->result.gaps, now - (first ? u->start : u->last))) return false;
    u->last = now;
    return add_text(u, text);
}

static long count_of(const json_t *usage, const char *name) {
    return (long)json_integer_value(json_object_get(usage, name));
}

static bool on_chunk(User *u, const json_t *chunk) {
    const json_t *delta   = json_object_get(json_array_get(json_object_get(chunk, "choices"), 0), "delta");
    const json_t *usage   = json_object_get(chunk, "usage");
    const char   *text    = json_string_value(json_object_get(delta, "content")),
               *reasoning = json_string_value(json_object_get(delta, "reasoning_content"));
    if (reasoning != NULL && reasoning[0] != '\0' && !note_piece(u, reasoning)) return false;
    if (text != NULL && text[0] != '\0' && !note_piece(u, text)) return false;
    if (!json_is_object(usage)) return true;
    u->result.tokens += count_of(usage, "completion_tokens");
    u->result.prompt_tokens += count_of(usage, "prompt_tokens");
    u->result.cached_tokens += count_of(json_object_get(usage, "prompt_tokens_details"), "cached_tokens");
    return true;
}

static bool on_line(char *line, void *user) {
    User *u = user;
    if (strncmp(line, "data:", 5) != 0) return true;
    const char *data = line + 5 + strspn(line + 5, " ");
    if (strcmp(data, "[DONE]") == 0) {
        u->done = true;
        return false;
    }
    json_error_t e;
    json_t      *chunk = json_loads(data, 0, &e);
    const bool   good  = chunk != NULL && json_object_get(chunk, "error") == NULL && on_chunk(u, chunk);
    json_decref(chunk);
    return good;
}

static RpStatus turn(User *u, json_t *history, int i) {
    char *body = cli_scenario_body(u->scenario, u->number, i, u->o->model, history);
    if (body == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a request");
    u->last = 0.0, u->n_text = 0, u->done = false;
    u->start          = cli_now();
    const RpStatus st = cli_post(&(Post){.url     = u->o->url,
                                         .path    = "/v1/chat/completions",
                                         .key     = u->o->key,
                                         .body    = body,
                                         .seconds = u->o->seconds,
                                         .on_line = on_line,
                                         .user    = u});
    free(body);
    RP_TRY(st);
    if (!u->done) return rp_fail(RP_E_IO, "%s:%s: a stream ended early", u->o->url->host, u->o->url->port);
    u->result.requests++;
    json_t *reply = json_pack("{s:s, s:s}", "role", "assistant", "content", u->n_text > 0 ? u->text : "");
    return json_array_append_new(history, reply) == 0 ? RP_OK : rp_fail(RP_E_NOMEM, "out of memory for a reply");
}

static void *run_user(void *user) {
    User   *u       = user;
    json_t *history = json_array();
    for (int i = 0; i < u->scenario->turns && u->result.status == RP_OK; i++) u->result.status = turn(u, history, i);
    if (u->result.status != RP_OK) snprintf(u->result.error, sizeof u->result.error, "%s", rp_last_error());
    json_decref(history);
    free(u->text);
    return NULL;
}

static bool add_times(Times *to, const Times *from) {
    for (size_t i = 0; i < from->n; i++)
        if (!add_time(to, from->s[i])) return false;
    return true;
}

static void add_result(UsersResult *to, const UsersResult *from) {
    if (to->status == RP_OK && from->status != RP_OK) {
        to->status = from->status;
        memcpy(to->error, from->error, sizeof to->error);
    }
    if ((!add_times(&to->first, &from->first) || !add_times(&to->gaps, &from->gaps)) && to->status == RP_OK) {
        to->status = RP_E_NOMEM;
        snprintf(to->error, sizeof to->error, "out of memory for times");
    }
    to->requests += from->requests;
    to->prompt_tokens += from->prompt_tokens;
    to->cached_tokens += from->cached_tokens;
    to->tokens += from->tokens;
}

RpStatus cli_users_run(const UsersOptions *o, const Scenario *scenario, int n, UsersResult *out) {
    *out        = (UsersResult){0};
    User *users = calloc((size_t)n, sizeof *users);
    if (users == NULL) return rp_fail(RP_E_NOMEM, "out of memory for users");
    const double start   = cli_now();
    int          n_began = 0, bad = 0;
    for (; n_began < n && bad == 0; n_began += bad == 0) {
        users[n_began] = (User){.o = o, .scenario = scenario, .number = n_began};
        bad            = pthread_create(&users[n_began].thread, NULL, run_user, &users[n_began]);
    }
    for (int i = 0; i < n_began; i++) pthread_join(users[i].thread, NULL);
    out->seconds = cli_now() - start;
    for (int i = 0; i < n_began; i++) {
        add_result(out, &users[i].result);
        cli_users_free(&users[i].result);
    }
    free(users);
    if (bad != 0) return rp_fail(RP_E_NOMEM, "%s", strerror(bad));
    return out->status == RP_OK ? RP_OK : rp_fail(out->status, "%s", out->error);
}

void cli_users_free(UsersResult *r) {
    free(r->first.s);
    free(r->gaps.s);
    r->first = r->gaps = (Times){0};
}

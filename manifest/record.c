/* record.c - what a run tells of itself while it goes on. */
#include "manifest/manifest.h"

#include "manifest/commit.h"

#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

RpStatus manifest_file(const char *path, ManifestFile *out) {
    *out = (ManifestFile){.path = path};
    return path != NULL ? rp_path_xxh64(path, &out->hash, &out->bytes) : RP_OK;
}

RpStatus manifest_check_path(const char *path) {
    RpUtf8Stream u    = {0};
    size_t       same = 0;
    char         out[16 + 8];
    for (const char *p = path; p != NULL && *p != '\0'; p++) { /* what is ill-formed becomes other bytes */
        const size_t n = rp_utf8_feed(&u, p, 1, out);
        if (strncmp(path + same, out, n) != 0) break;
        same += n;
    }
    if (path == NULL || path[same] == '\0') return RP_OK;
    return rp_fail(RP_E_ARG, "%s: the path is not UTF-8, so that a manifest cannot name the file", path);
}

void manifest_cpu_name(char *out, size_t n) {
    FILE *f = fopen("/proc/cpuinfo", "re");
    char  line[256];
    snprintf(out, n, "unknown CPU");
    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || colon == NULL) continue;
        colon[strcspn(colon, "\n")] = '\0';
        snprintf(out, n, "%s", colon + 1 + (colon[1] == ' '));
        break;
    }
    if (f != NULL) fclose(f);
}

static char           cpu[256];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static char  *options[RP_OPT_COUNT];
static size_t n_options;

/* The options of the environment do not change while a program runs. */
static void find_program(void) {
    manifest_cpu_name(cpu, sizeof cpu);
    for (int i = 0; i < RP_OPT_COUNT; i++) {
        const RpOption o = (RpOption)i;
        if (strcmp(rp_option(o), rp_option_default(o)) == 0) continue;
        if (asprintf(&options[n_options], "%s=%s", rp_option_name(o), rp_option(o)) >= 0) n_options++;
    }
}

void manifest_program(Manifest *m) {
    (void)pthread_once(&once, find_program);
    m->version       = rp_version();
    m->commit        = RP_COMMIT;
    m->environment   = (const char *const *)options;
    m->n_environment = n_options;
    m->cpu           = cpu;
}

void manifest_now(double ago_s, char out[32]) {
    struct tm    tm;
    const time_t then = time(NULL) - (time_t)ago_s;
    strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&then, &tm));
}

RpStatus manifest_run(Manifest *m, const RpExecutorInfo *info, const ExecPlan *plan) {
    m->device      = info->device;
    m->device_name = info->device_name;
    m->mode        = rp_mode_name(info->mode);
    m->threads     = info->n_threads;
    return rp_plan_hash(plan, &m->plan);
}

static bool make_room(ManifestTurn *t) {
    if (t->tokens.n < t->room) return true;
    const size_t room  = 2 * t->room + 64;
    char        *draws = realloc(t->draws, room);
    if (draws == NULL) return false;
    t->draws         = draws;
    uint64_t *logits = realloc(t->logits, room * sizeof *logits);
    if (logits == NULL) return false;
    t->logits = logits;
    t->room   = room;
    return true;
}

void manifest_observe(const RpSampledToken *token, void *turn) {
    ManifestTurn *t = turn;
    if (t->no_memory) return;
    const size_t i = t->tokens.n;
    t->no_memory   = !make_room(t) || rp_token_list_push(&t->tokens, token->token) != RP_OK;
    if (t->no_memory) return;
    const bool has_logits = token->logits != NULL;
    t->logits[i]          = has_logits ? rp_xxh64(token->logits, (size_t)token->n_vocab * sizeof *token->logits) : 0;
    t->draws[i] = !has_logits ? DRAW_GRAMMAR : token->forced ? DRAW_FORCED : token->masked ? DRAW_MASKED : DRAW_FREE;
}

static bool is_text(const char *text, size_t n) {
    json_t    *j  = memchr(text, '\0', n) == NULL ? json_stringn(text, n) : NULL;
    const bool is = j != NULL;
    json_decref(j);
    return is;
}

void manifest_turn_held(ManifestTurn *t, ManifestGrammarKind kind, const char *text, size_t n,
                        const char *chat_template, int32_t reasoning_budget) {
    size_t n_free = 0;
    while (n_free < t->tokens.n && t->draws[n_free] == DRAW_FREE) n_free++;
    if (n_free == t->tokens.n || !is_text(text, n)) return;
    if (chat_template != NULL && !is_text(chat_template, strlen(chat_template))) return;
    t->grammar = (ManifestGrammar){.kind             = kind,
                                   .text             = strndup(text, n),
                                   .chat_template    = chat_template != NULL ? strdup(chat_template) : NULL,
                                   .reasoning_budget = reasoning_budget};
    if (t->grammar.text == NULL || (chat_template != NULL && t->grammar.chat_template == NULL)) t->no_memory = true;
}

void manifest_turn_free(ManifestTurn *t) {
    free(t->grammar.text);
    free(t->grammar.chat_template);
    rp_token_list_free(&t->prompt);
    rp_token_list_free(&t->tokens);
    free(t->draws);
    free(t->logits);
    *t = (ManifestTurn){0};
}

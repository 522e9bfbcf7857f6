/* compare.c - what differs between the environment of a manifest and this one. */
#include "cli/repeat/repeat.h"

#include <inttypes.h>
#include <string.h>

typedef struct Differences {
    RepeatDifference *callback;
    void             *user;
} Differences;

static void text(const Differences *d, const char *what, const char *then, const char *now) {
    if (then == NULL) then = "";
    if (now == NULL) now = "";
    if (strcmp(then, now) != 0) d->callback(what, then, now, d->user);
}

static void hash(const Differences *d, const char *what, uint64_t then, uint64_t now) {
    char a[17], b[17];
    snprintf(a, sizeof a, "%016" PRIx64, then);
    snprintf(b, sizeof b, "%016" PRIx64, now);
    text(d, what, a, b);
}

static void number(const Differences *d, const char *what, int32_t then, int32_t now) {
    char a[16], b[16];
    snprintf(a, sizeof a, "%d", then);
    snprintf(b, sizeof b, "%d", now);
    text(d, what, a, b);
}

static bool has(const Manifest *m, const char *option) {
    for (size_t i = 0; i < m->n_environment; i++)
        if (strcmp(m->environment[i], option) == 0) return true;
    return false;
}

/* Options that one of the two has: "REPRISE_ISA=plain then, not set so now". */
static void environment(const Differences *d, const Manifest *then, const Manifest *now) {
    for (size_t i = 0; i < then->n_environment; i++)
        if (!has(now, then->environment[i])) d->callback("environment", then->environment[i], "", d->user);
    for (size_t i = 0; i < now->n_environment; i++)
        if (!has(then, now->environment[i])) d->callback("environment", "", now->environment[i], d->user);
}

void cli_repeat_compare(const Manifest *then, const Manifest *now, RepeatDifference *callback, void *user) {
    const Differences d = {callback, user};
    text(&d, "version", then->version, now->version);
    text(&d, "commit", then->commit, now->commit);
    hash(&d, "model hash", then->model.hash, now->model.hash);
    for (size_t i = 0; i < then->n_loras; i++) hash(&d, "adapter hash", then->loras[i].hash, now->loras[i].hash);
    hash(&d, "draft model hash", then->draft.hash, now->draft.hash);
    hash(&d, "plan hash", then->plan, now->plan);
    text(&d, "device", then->device, now->device);
    text(&d, "instruction set or GPU", then->device_name, now->device_name);
    text(&d, "CPU", then->cpu, now->cpu);
    text(&d, "mode", then->mode, now->mode);
    number(&d, "threads", then->threads, now->threads);
    environment(&d, then, now);
}

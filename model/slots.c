/* The slots of a session's recurrent states (slots.h). */
#include "model/slots.h"

int32_t rp_slots_find(const StateSlots *s, int32_t n_past) {
    for (int32_t i = 0; i < s->n && n_past > 0; i++)
        if (s->slot[i].n_past == n_past) return i;
    return -1;
}

/* True if slot a is the better one to overwrite: it is free, or was used before the other. */
static bool goes_before(const StateSlots *s, int32_t a, int32_t b) {
    if (s->slot[a].n_past == 0 || s->slot[b].n_past == 0) return s->slot[a].n_past == 0 && s->slot[b].n_past != 0;
    return s->slot[a].used < s->slot[b].used;
}

int32_t rp_slots_take(StateSlots *s, int32_t from) {
    int32_t best = from;
    if (from < 0 || (s->slot[from].kept && s->n > 1)) {
        best = from == 0 ? 1 : 0;
        for (int32_t i = best + 1; i < s->n; i++)
            if (i != from && goes_before(s, i, best)) best = i;
    }
    s->slot[best].n_past = 0;
    s->slot[best].kept   = false;
    return best;
}

/* A slot counts as kept and latest used until all are taken, so that it is taken once. */
void rp_slots_take_last(StateSlots *s, int32_t from, bool stays, int32_t m, int32_t slot[]) {
    const bool kept = from >= 0 && s->slot[from].kept;
    if (from >= 0 && stays) s->slot[from].kept = true, s->slot[from].used = ++s->clock;
    for (int32_t i = 0; i < m; i++) {
        slot[i] = rp_slots_take(s, i == 0 ? from : slot[i - 1]);
        rp_slots_put(s, slot[i], 1);
        s->slot[slot[i]].kept = true;
    }
    if (from >= 0 && stays) s->slot[from].kept = kept;
    for (int32_t i = 0; i < m; i++) s->slot[slot[i]].n_past = 0, s->slot[slot[i]].kept = false;
}

void rp_slots_forget_loose(StateSlots *s, int32_t from) {
    for (int32_t i = 0; i < s->n; i++)
        if (i != from && !s->slot[i].kept) s->slot[i].n_past = 0;
}

void rp_slots_put(StateSlots *s, int32_t slot, int32_t n_past) {
    s->slot[slot].n_past = n_past;
    s->slot[slot].used   = ++s->clock;
}

void rp_slots_keep(StateSlots *s, int32_t n_past) {
    const int32_t slot = rp_slots_find(s, n_past);
    if (slot < 0) return;
    s->slot[slot].kept = true;
    s->slot[slot].used = ++s->clock;
}

void rp_slots_rewind(StateSlots *s, int32_t n_past) {
    for (int32_t i = 0; i < s->n; i++)
        if (s->slot[i].n_past > n_past) s->slot[i].n_past = 0;
    const int32_t slot = rp_slots_find(s, n_past);
    if (slot >= 0) s->slot[slot].used = ++s->clock;
}

int32_t rp_slots_reach(const StateSlots *s, int32_t n_past) {
    int32_t best = 0;
    for (int32_t i = 0; i < s->n; i++)
        if (s->slot[i].n_past <= n_past && s->slot[i].n_past > best) best = s->slot[i].n_past;
    return best;
}

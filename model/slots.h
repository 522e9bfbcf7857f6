/* slots.h - maps numbers of tokens to the slots that hold the recurrent state after them. A slot is a row of each state
 * "window.<layer>", "delta.<layer>" and "ssm.<layer>" (arch_delta.c, arch_ssm.c). Kernels read and write the slots that
 * the input "slots" names, so a state is kept as long as its slot is not written: nothing is copied. */
#ifndef MODEL_SLOTS_H
#define MODEL_SLOTS_H

#include <stdbool.h>
#include <stdint.h>

enum { MAX_SLOTS = 64 };

typedef struct StateSlots {
    int32_t n; /* 0: the model has no recurrent state */
    struct {
        int32_t  n_past; /* number of tokens that led to the state; 0: the slot is free */
        bool     kept;   /* not for the next step to overwrite */
        uint64_t used;   /* the larger, the later it was used */
    } slot[MAX_SLOTS];
    uint64_t clock;
} StateSlots;

/* The slot with the state after n_past tokens; -1: there is none. */
int32_t rp_slots_find(const StateSlots *s, int32_t n_past);

/* The slot for the state that a run leads to from slot `from` (-1: from the beginning): `from` itself, unless its state
 * is kept; else a free one; else the least recently used kept one, whose state is lost. */
int32_t rp_slots_take(StateSlots *s, int32_t from);

/* Slots for the states after each of the last m tokens of a run, m from 1 to s->n, oldest first. `stays`: the state in
 * `from` is not to be overwritten, though it is not kept. */
void rp_slots_take_last(StateSlots *s, int32_t from, bool stays, int32_t m, int32_t slot[]);

/* Forgets the states that are not kept, but for that in slot `from`. */
void rp_slots_forget_loose(StateSlots *s, int32_t from);

/* The run has written the state after n_past tokens. */
void rp_slots_put(StateSlots *s, int32_t slot, int32_t n_past);

/* Keeps the state after n_past tokens, if there is one. */
void rp_slots_keep(StateSlots *s, int32_t n_past);

/* Forgets states after more than n_past tokens. */
void rp_slots_rewind(StateSlots *s, int32_t n_past);

/* The most tokens, n_past or fewer, whose state is there; 0: none. */
int32_t rp_slots_reach(const StateSlots *s, int32_t n_past);

#endif

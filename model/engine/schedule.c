/* Which requests run, and which of their tokens the next step takes.
 *
 * The order of requests is by priority, then by age. Waiting requests start as long as there is a row of the table and
 * room for their tokens. A step takes one token of each request that decodes, with its guesses, then as many tokens of
 * prompts as fit:
 *
 *     running   A decodes   B decodes, 2 guesses   C has 300 tokens of its prompt left
 *     step      A | B b b | C C C ... C            a runner of 64 columns: 60 of C
 *
 * If replies and prompts are apart, a step has a runner of each kind. A reply that is computed again, or that has
 * forced tokens, has several columns of the first kind then:
 *
 *     step      A | B b b | D D D D                a runner of 8 columns
 *               C C C ... C                        a runner of 64 columns: all of C
 *
 * Blocks are taken when their first position is stored. If there is none, the last request in the order that is not
 * part of the step yet gives up its blocks; if that is the request itself, it is left out of the step. The first
 * request in the order always gets its blocks, because the cache holds one sequence of full length. */
#include "model/engine/engine.h"

#include <string.h>

enum { SNAPSHOT_TOKENS = 512 };

/* A request that waits gains a priority every AGING_STEPS steps, and keeps it while it runs. */
static int64_t priority_of(const RpEngine *e, const Request *r) {
    const uint64_t waited = r->row < 0 ? e->stats.steps - r->waits_since : r->waited;
    return (int64_t)r->given.priority + (int64_t)(waited / AGING_STEPS);
}

static bool goes_before(const RpEngine *e, const Request *a, const Request *b) {
    const int64_t of_a = priority_of(e, a), of_b = priority_of(e, b);
    return of_a != of_b ? of_a > of_b : a->id < b->id;
}

/* ---- starting ---- */

int32_t rp_engine_reach(const RpEngine *e, const int32_t *path, int32_t n) {
    for (int32_t before = n + 1; n < before;) {
        before = n;
        n      = rp_states_reach(&e->states, &e->blocks, path, n);
        n      = rp_windows_reach(&e->windows, &e->blocks, path, n);
    }
    return n;
}

/* Finds the published blocks that the request can begin behind. Its last token is left to be run, because its logits
 * are needed. Returns the number of blocks. */
static int32_t find_prefix(const RpEngine *e, Request *r) {
    const int32_t may = rp_request_public(r), before = r->n_tokens - 1;
    const int32_t n = (before < may ? before : may) / e->o.block;
    r->parting      = rp_blocks_find_path(&e->blocks, r->tokens, n, r->blocks);
    return rp_engine_reach(e, r->blocks, r->parting);
}

/* Begins to read its first n blocks. */
static void read_prefix(RpEngine *e, Request *r, int32_t n) {
    for (int32_t i = 0; i < n; i++) rp_blocks_retain(&e->blocks, r->blocks[i]);
    r->n_blocks = r->n_published = n;
    if (e->windows.n == 0) return;
    r->first_window = rp_windows_first(&e->windows, n * e->o.block);
    for (int32_t i = r->first_window; i < n; i++) {
        r->windows[i] = e->blocks.all[r->blocks[i]].window;
        rp_windows_retain(&e->windows, r->windows[i]);
    }
}

/* Takes a slot for its state. If none is left, it takes the slot of its prefix. */
static bool take_state(RpEngine *e, Request *r) {
    if (e->states.n == 0) return true;
    if (r->n_published > 0) {
        r->start = e->blocks.all[r->blocks[r->n_published - 1]].state;
        rp_states_start(&e->states, r->start);
    }
    r->state = rp_states_take(&e->states, &e->blocks, 0);
    if (r->state != STATE_NONE) return true;
    if (r->start == STATE_NONE || e->states.starts[r->start] > 1) return false;
    e->blocks.all[r->blocks[r->n_published - 1]].state = STATE_NONE;
    e->states.starts[r->start]                         = 0;
    r->state                                           = r->start;
    r->start                                           = STATE_NONE;
    return true;
}

/* False if there is no room. Then nothing has changed. */
static bool start(RpEngine *e, Request *r) {
    const int32_t n = find_prefix(e, r), needed = rp_engine_blocks_of(&e->o, r->n_tokens);
    read_prefix(e, r, n);
    /* One more block for each running request, so that a request is not preempted as soon as it starts. */
    const bool fits = needed - n + e->n_running <= rp_blocks_available(&e->blocks);
    if ((!fits && e->n_running > 0) || !take_state(e, r)) {
        rp_request_release(r);
        return false;
    }
    rp_blocks_use(&e->blocks, r->blocks, n);
    r->n_done = n * e->o.block;
    r->waited = e->stats.steps - r->waits_since;
    r->row    = 0;
    while (e->rows[r->row]) r->row++;
    e->rows[r->row] = true;
    return true;
}

static Request *first_waiting(const RpEngine *e) {
    Request *first = NULL;
    for (Request *r = e->waiting; r != NULL; r = r->next)
        if (first == NULL || goes_before(e, r, first)) first = r;
    return first;
}

/* A request of a higher priority takes the place of the last one that runs. */
static void admit(RpEngine *e) {
    for (Request *r; (r = first_waiting(e)) != NULL;) {
        const bool free_row = e->n_running < e->o.n_seq;
        if (!free_row || !start(e, r)) {
            Request *last = e->n_running > 0 ? e->running[e->n_running - 1] : NULL;
            if (last == NULL || priority_of(e, last) >= r->given.priority) return;
            rp_engine_preempt(e, last);
            e->stats.preempted++;
            continue;
        }
        rp_engine_unlink(e, r);
        int i = e->n_running++;
        for (; i > 0 && goes_before(e, r, e->running[i - 1]); i--) e->running[i] = e->running[i - 1];
        e->running[i] = r;
    }
}

/* ---- the step ---- */

/* The last request in the order, behind `r`, that the step does not hold yet. */
static Request *victim(const RpEngine *e, const Request *r) {
    for (int i = e->n_running - 1; i >= 0 && e->running[i] != r; i--)
        if (e->running[i]->n_columns == 0) return e->running[i];
    return NULL;
}

_Static_assert((int)MAX_DRAFT < 32, "guesses are shorter than the shortest block");

/* One more block, and a window block. There are window blocks for all requests that run (rp_windows_least). */
static bool add_block(RpEngine *e, Request *r) {
    const int32_t block = rp_blocks_take(&e->blocks);
    if (block == BLOCK_NONE) return false;
    if (e->windows.n > 0 && (r->windows[r->n_blocks] = rp_windows_take(&e->windows, &e->blocks)) == WINDOW_NONE) {
        rp_blocks_release(&e->blocks, block);
        return false;
    }
    r->blocks[r->n_blocks++] = block;
    return true;
}

/* Takes blocks for its first n tokens; `by_force`: by preempting other requests if needed. False if there are not
 * enough. */
static bool reserve(RpEngine *e, Request *r, int32_t n, bool by_force) {
    while (r->n_blocks < rp_engine_blocks_of(&e->o, n)) {
        if (add_block(e, r)) continue;
        Request *other = by_force ? victim(e, r) : NULL;
        if (other == NULL) return false;
        rp_engine_preempt(e, other);
        e->stats.preempted++;
    }
    return true;
}

static Column *add_column(RpEngine *e, Request *r, int32_t token, int32_t pos, bool output) {
    Column *c = &e->columns[e->n_columns++];
    *c        = (Column){.request = r, .token = token, .pos = pos, .output = output, .keep = STATE_NONE};
    r->n_columns++;
    return c;
}

/* The state after this column is kept for the prefix that ends there: of replies, and in prompts the last two
 * and every SNAPSHOT_TOKENS. */
static void keep_state(RpEngine *e, Column *c) {
    const int32_t block = e->o.block, end = c->pos + 1, n = rp_request_public(c->request);
    if (e->states.n == 0 || end % block != 0 || end > n) return;
    if (end < (n - 1) / block * block && end % SNAPSHOT_TOKENS >= block) return;
    c->keep = rp_states_take(&e->states, &e->blocks, 0);
}

/* The number of guesses with the most expected tokens per second: the expected tokens of a step, divided by its time.
 * Numbers whose time is not known yet are tried. A request that has stopped guessing tries again after PROBE_STEPS
 * steps, then after twice as many each time, and goes on while it is right. `each`: seconds that a guess takes to
 * draft. */
static int32_t guesses_that_pay(const RpEngine *e, Request *r, int32_t n, int32_t others, double each) {
    double         best = 0.0, expected = 1.0, power = 1.0;
    int32_t        best_n = 0;
    const uint64_t steps  = e->stats.steps - r->last_draft;
    for (int32_t k = 0; k <= n; k++, power *= r->accepts, expected += power) {
        const double run = e->times[rp_engine_runner(e, others + 1 + k)].seconds, t = run + k * each;
        if (run == 0.0) return k;
        if ((others + expected) / t > best) best = (others + expected) / t, best_n = k;
    }
    if (best_n > 0) {
        r->probe_steps = PROBE_STEPS;
        return best_n;
    }
    if (steps < r->probe_steps) return steps == 1 && r->goes_on ? 1 : 0;
    r->probe_steps = 2 * r->probe_steps < MAX_PROBE_STEPS ? 2 * r->probe_steps : MAX_PROBE_STEPS;
    return each > 0.0 ? 1 : n;
}

/* The most guesses that a request has use for. */
static int32_t guesses_wanted(const RpEngine *e, const Request *r, int32_t most) {
    const int32_t room = e->o.n_ctx - r->n_tokens, wanted = r->given.max_tokens - r->n_generated - 1;
    int32_t       n = r->given.n_draft;
    if (n > room) n = room;
    if (r->given.max_tokens > 0 && n > wanted) n = wanted;
    if (n > most) n = most;
    return n > 0 ? n : 0;
}

/* Gives the drafter the hidden states of the latest step. */
static RpStatus put_hidden(RpEngine *e) {
    const size_t n_embd = (size_t)e->drafter.n_embd;
    for (int i = 0; i < e->n_running; i++) {
        Request       *r   = e->running[i];
        const int32_t  n   = r->n_hidden;
        const DraftJob job = {.id = r->id, .row = r->row, .tokens = r->tokens, .n_tokens = r->n_tokens};
        r->n_hidden        = 0;
        if (n == 0) continue;
        RP_TRY(rp_drafter_put(&e->drafter, &job, r->n_done - n, n, e->drafter.step + (size_t)r->column * n_embd));
    }
    return RP_OK;
}

/* The tokens that a request must still run. DECODES: one token, whose logits are wanted. PROMPT: tokens that run in the
 * plans of prompts. AGAIN: several tokens of a reply, in those of replies, if they are apart. */
typedef enum Work { DECODES, PROMPT, AGAIN } Work;

static Work work_of(const Request *r) {
    if (r->engine->apart && r->n_done < r->n_prompt) return PROMPT;
    return rp_request_left(r) == 1 ? DECODES : r->engine->apart ? AGAIN : PROMPT;
}

/* Tokens of that work. */
static int32_t work_left(const Request *r) {
    return work_of(r) == PROMPT && r->engine->apart ? r->n_prompt - r->n_done : rp_request_left(r);
}

/* Columns of a step with guesses, at most. */
static int32_t short_step(const RpEngine *e) { return e->o.step_tokens < SHORT_STEP ? e->o.step_tokens : SHORT_STEP; }

/* Lets the drafter guess for all requests that decode. */
static RpStatus draft(RpEngine *e, int32_t decoding, int32_t others) {
    DraftJob jobs[MAX_SEQ];
    Request *of[MAX_SEQ];
    int      n = 0;
    for (int i = 0; i < e->n_running; i++) {
        Request      *r    = e->running[i];
        const int32_t most = guesses_wanted(e, r, (short_step(e) - decoding - others) / decoding);
        r->n_guess         = 0;
        if (work_of(r) != DECODES || most == 0) continue;
        const int32_t k = guesses_that_pay(e, r, most, decoding - 1, e->drafter.seconds / decoding);
        if (k == 0) continue;
        of[n]     = r;
        jobs[n++] = (DraftJob){.id           = r->id,
                               .row          = r->row,
                               .tokens       = r->tokens,
                               .n_tokens     = r->n_tokens,
                               .blocks       = r->blocks,
                               .windows      = r->windows,
                               .n_blocks     = r->n_blocks,
                               .first_window = r->first_window,
                               .guess        = r->guess,
                               .n            = k};
    }
    RP_TRY(rp_drafter_guess(&e->drafter, jobs, n));
    for (int k = 0; k < n; k++) of[k]->n_guess = jobs[k].n;
    return RP_OK;
}

static int32_t guess(const RpEngine *e, Request *r, int32_t most) {
    const int32_t n = guesses_wanted(e, r, most);
    if (e->drafter.model != NULL) return n < r->n_guess ? n : r->n_guess;
    const int32_t found = n > 0 ? rp_draft_lookup(r->tokens, r->n_tokens, n, r->guess) : 0;
    return found > 0 ? guesses_that_pay(e, r, found, e->n_columns - 1, 0.0) : 0;
}

/* States of prefixes that guesses do not take. */
static int32_t states_of_prefixes(const RpEngine *e) {
    const int32_t all = PREFIX_STATES * e->o.n_seq, half = (e->states.n - e->o.n_seq) / 2;
    return all < half ? all : half;
}

static void add_decoding(RpEngine *e, Request *r, int32_t most) {
    if (!reserve(e, r, r->n_tokens, true)) return;
    add_column(e, r, r->tokens[r->n_tokens - 1], r->n_tokens - 1, true);
    const int32_t n = guess(e, r, most), least = states_of_prefixes(e);
    if (n > 0) r->last_draft = e->stats.steps;
    for (int32_t i = 0; i < n && reserve(e, r, r->n_tokens + 1 + i, false); i++) {
        /* Every guess may be the last right one, so the state before it must be kept. */
        Column *before = &e->columns[e->n_columns - 1];
        if (e->states.n > 0 && (before->keep = rp_states_take(&e->states, &e->blocks, least)) == STATE_NONE) return;
        add_column(e, r, r->guess[i], r->n_tokens + i, true);
    }
}

/* The time may have been that of a stall: it is taken again. */
static bool is_old(const RpEngine *e, const RunTime *t) {
    const uint64_t steps = e->stats.steps - t->last_step;
    return steps >= PROBE_STEPS && steps >= t->probe_steps;
}

/* The longest runner of prompts, up to that of n columns, that takes no longer than step_ms beside `other` seconds. One
 * that is not known is tried if those before it are fast enough. The first one that is too slow is tried again when its
 * time is old. At least the runner of one token of a prompt beside `in_runner` columns: a prompt never waits for all
 * replies. */
static int longest_in_time(const RpEngine *e, int32_t in_runner, int32_t n, double other) {
    const int least = rp_engine_find_runner(e->runners, e->prompts, in_runner + 1),
              most  = rp_engine_find_runner(e->runners, e->prompts, n);
    int longest     = least - 1;
    for (int i = least; i <= most; i++) {
        const double run = e->times[i].seconds;
        if (run > 0.0 ? (run + other) * 1e3 <= e->o.step_ms : longest == i - 1) longest = i;
    }
    if (longest < most && is_old(e, &e->times[longest + 1])) longest++;
    return longest > least ? longest : least;
}

/* Tokens of prompts in a step beside `held` columns, which their runner has too if they are not apart. It has as many
 * columns as a runner, unless that is short or nearly full. */
static int32_t prompt_tokens(const RpEngine *e, int32_t held, int32_t wanted) {
    const int32_t room = e->o.step_tokens - held, in_runner = e->apart ? 0 : held;
    const double  other = e->apart && held > 0 ? e->times[rp_engine_runner(e, held)].seconds : 0.0;
    int32_t       n     = in_runner + (wanted < room ? wanted : room);
    int           i     = rp_engine_find_runner(e->runners, e->prompts, n);
    if (held > 0 && e->o.step_ms > 0.0) i = longest_in_time(e, in_runner, n, other);
    const int32_t size = e->runners[i].o.n_tok, shorter = i > e->prompts.first ? e->runners[i - 1].o.n_tok : 0;
    if (n > size) n = size;
    if (n > SHORT_STEP && n < size - size / 8 && shorter > in_runner) n = shorter;
    return n - in_runner;
}

/* Several tokens that the request has: of its prompt, or of its reply. */
static int32_t add_known(RpEngine *e, Request *r, int32_t most) {
    int32_t n = work_left(r) < most ? work_left(r) : most;
    while (n > 0 && !reserve(e, r, r->n_done + n, true)) n = r->n_blocks * e->o.block - r->n_done;
    for (int32_t i = 0; i < n; i++) {
        const int32_t pos = r->n_done + i;
        keep_state(e, add_column(e, r, r->tokens[pos], pos, pos + 1 == r->n_tokens));
    }
    return n > 0 ? n : 0;
}

/* Adds columns of the requests with this work, `budget` at most. */
static void add_work(RpEngine *e, Work work, int32_t budget) {
    for (int i = 0; i < e->n_running && budget > 0; i++)
        if (e->running[i]->n_columns == 0 && work_of(e->running[i]) == work)
            budget -= add_known(e, e->running[i], budget);
}

/* Columns that the plans of replies have beside those that there are. */
static int32_t reply_room(const RpEngine *e) {
    const int32_t brief = short_step(e), last = e->runners[e->replies.end - 1].o.n_tok;
    return (e->n_columns < brief ? brief : last) - e->n_columns;
}

RpStatus rp_engine_schedule(RpEngine *e) {
    int32_t wanted = 0, count[3] = {0, 0, 0};
    if (e->drafter.n_embd > 0) RP_TRY(put_hidden(e));
    admit(e);
    e->n_columns = 0;
    for (int i = 0; i < e->n_running; i++) {
        Request *r   = e->running[i];
        r->n_columns = 0;
        if (e->windows.n > 0) rp_request_leave_windows(r);
        count[work_of(r)]++;
        if (work_of(r) == PROMPT) wanted += work_left(r);
    }
    int32_t       decoding = count[DECODES];
    const int32_t others   = e->n_running - decoding; /* the step has room for one token of each */
    if (e->drafter.model != NULL && decoding > 0) RP_TRY(draft(e, decoding, others));
    for (int i = 0; i < e->n_running; i++) { /* requests behind this one may leave while it is served */
        Request *r = e->running[i];
        if (work_of(r) != DECODES) continue;
        decoding--;
        add_decoding(e, r, short_step(e) - e->n_columns - 1 - decoding - others);
        if (r->n_columns == 1) keep_state(e, &e->columns[e->n_columns - 1]);
    }
    if (count[AGAIN] > 0) add_work(e, AGAIN, reply_room(e));
    e->n_replies = e->n_columns;
    if (wanted > 0) add_work(e, PROMPT, prompt_tokens(e, e->n_columns, wanted));
    if (!e->apart) e->n_replies = e->n_columns;
    return RP_OK;
}

/* The steps of samplers against llama.cpp (tests/golden/samplers.txt, tools/golden/golden_samplers.py): the same
 * candidates are left, with the same probabilities. Edges and refusals by hand. */
#include "model/sampler/chain.h"
#include "reprise/session.h"
#include "tests/support/case.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TINY RP_SOURCE_DIR "/tests/golden/tiny/llama-f32.gguf"

enum { MAX_VOCAB = 1000, MAX_TOKENS = 128, MAX_LINE = 2048 };

/* ---- golden cases ---- */

typedef struct Case {
    char            samplers[128];
    RpSamplerParams p;
    RpLogitBias     bias[4];
    int32_t         n_vocab, n_calls;
    uint32_t        seed;
    float           divisor;
    Chain           chain;
    int32_t         words[RP_STEP_WORDS + 64];
    Candidate       c[MAX_VOCAB];
    float           logits[MAX_VOCAB];
    ChainRun        run;
    bool            open;
} Case;

static uint32_t hash(uint32_t seed, uint32_t i) {
    uint32_t h = seed * 0x9E3779B1u + i * 0x85EBCA77u + 0x165667B1u;
    h          = (h ^ h >> 15) * 0x2C1B3C6Du;
    h          = (h ^ h >> 12) * 0x297A2D39u;
    return h ^ h >> 15;
}

static RpStepState *state_of(Case *c) { return (RpStepState *)(void *)c->words; }

static void set(Case *c, const char *name, const char *value) {
    static const struct {
        const char *name;
        size_t      offset;
        bool        whole;
    } members[] = {
#define NUMBER(m) {#m, offsetof(RpSamplerParams, m), false}
#define WHOLE(m)                                                                                                       \
    { #m, offsetof(RpSamplerParams, m), true }
        NUMBER(temperature),
        NUMBER(top_p),
        NUMBER(min_p),
        NUMBER(repeat_penalty),
        NUMBER(typical_p),
        NUMBER(top_n_sigma),
        NUMBER(frequency_penalty),
        NUMBER(presence_penalty),
        NUMBER(dry_multiplier),
        NUMBER(dry_base),
        NUMBER(xtc_probability),
        NUMBER(xtc_threshold),
        NUMBER(mirostat_tau),
        NUMBER(mirostat_eta),
        NUMBER(dynatemp_range),
        NUMBER(dynatemp_exponent),
        WHOLE(top_k),
        WHOLE(repeat_last_n),
        WHOLE(dry_allowed_length),
        WHOLE(dry_penalty_last_n),
        WHOLE(min_keep),
        WHOLE(mirostat),
    };
    if (strcmp(name, "samplers") == 0) {
        snprintf(c->samplers, sizeof c->samplers, "%s", value);
        c->p.samplers = c->samplers;
        return;
    }
    if (strcmp(name, "bias") == 0) {
        RpLogitBias *b  = &c->bias[c->p.n_logit_bias++];
        b->token        = atoi(value);
        b->bias         = strtof(strchr(value, ':') + 1, NULL);
        c->p.logit_bias = c->bias;
        return;
    }
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        char *at = (char *)&c->p + members[i].offset;
        if (strcmp(name, members[i].name) != 0) continue;
        if (members[i].whole)
            *(int32_t *)(void *)at = atoi(value);
        else
            *(float *)(void *)at = strtof(value, NULL);
        return;
    }
    cr_assert(false, "no parameter %s", name);
}

static void close_case(Case *c) {
    if (c->open) rp_chain_close(&c->chain);
    c->open = false;
}

static void open_case(Case *c, char *line) {
    int at;
    close_case(c);
    memset(c, 0, sizeof *c);
    c->p = rp_sampler_defaults();
    cr_assert_eq(sscanf(line, "case %d %u %f%n", &c->n_vocab, &c->seed, &c->divisor, &at), 3, "%s", line);
    for (char *word = strtok(line + at, " \n"); word != NULL; word = strtok(NULL, " \n")) {
        char *value = strchr(word, '=');
        *value++    = '\0';
        set(c, word, value);
    }
    cr_assert_eq(rp_chain_check(&c->p, c->n_vocab), RP_OK, "%s", rp_last_error());
    cr_assert_eq(rp_chain_open(&c->chain, &c->p, c->n_vocab), RP_OK, "%s", rp_last_error());
    c->open                    = true;
    state_of(c)->repeat_last_n = c->p.repeat_last_n;
}

static int32_t tokens_of(char *text, int32_t *tokens) {
    int32_t n = 0;
    for (char *word = strtok(text, " \n"); word != NULL; word = strtok(NULL, " \n")) tokens[n++] = atoi(word);
    return n;
}

static int by_id(const void *a, const void *b) { return ((const Candidate *)a)->id - ((const Candidate *)b)->id; }

/* The largest relative difference of a probability. */
static double compare(Case *c, char *text, int line) {
    double worst = 0.0;
    for (int32_t i = 0; i < c->n_vocab; i++)
        c->logits[i] =
            (float)(hash(c->seed + (uint32_t)c->n_calls, (uint32_t)i) >> 20) / c->divisor + (float)i / 262144.0f - 4.0f;
    c->run = (ChainRun){.state = state_of(c), .recent = c->words + RP_STEP_WORDS, .logits = c->logits, .c = c->c};
    const int32_t n = rp_chain_filter(&c->chain, &c->run);
    c->n_calls++;
    qsort(c->c, (size_t)n, sizeof *c->c, by_id);
    c->run.sorted = false; /* by id now */
    int32_t i     = 0;
    while (i < n && rp_chain_probability(&c->run, i) == 0.0) i++; /* the golden file has none of these */
    for (char *word = strtok(text, " \n"); word != NULL; word = strtok(NULL, " \n")) {
        const double p = strtod(strchr(word, ':') + 1, NULL);
        cr_assert_lt(i, n, "line %d: %d candidates are left, not token %s", line, n, word);
        cr_assert_eq(c->c[i].id, atoi(word), "line %d: token %d is left, not %s", line, c->c[i].id, word);
        worst = fmax(worst, fabs(rp_chain_probability(&c->run, i) / p - 1.0));
        do i++;
        while (i < n && rp_chain_probability(&c->run, i) == 0.0);
    }
    cr_assert_eq(i, n, "line %d: token %d is left", line, i < n ? c->c[i].id : -1);
    return worst;
}

Test(sampler_chain, leaves_the_candidates_of_llama_cpp) {
    static Case c;
    char        line[MAX_LINE];
    int32_t     tokens[MAX_TOKENS];
    int         number = 0, compared = 0;
    double      worst = 0.0;
    FILE       *f     = fopen(RP_SOURCE_DIR "/tests/golden/samplers.txt", "r");
    cr_assert_not_null(f);
    while (fgets(line, sizeof line, f) != NULL) {
        number++;
        cr_assert_not_null(strchr(line, '\n'), CASE(number));
        if (strncmp(line, "case ", 5) == 0) open_case(&c, line);
        if (strncmp(line, "history ", 8) == 0) {
            const int32_t n = tokens_of(line + 8, tokens);
            for (int32_t i = 0; i < n; i++) {
                rp_step_accept(state_of(&c), c.words + RP_STEP_WORDS, tokens[i]);
                rp_chain_accept(&c.chain, tokens[i]);
            }
        }
        if (strncmp(line, "breaker ", 8) == 0)
            cr_assert_eq(rp_dry_break(&c.chain.dry, tokens, tokens_of(line + 8, tokens)), RP_OK, CASE(number));
        if (strncmp(line, "kept ", 5) == 0) {
            const double difference = compare(&c, line + 5, number);
            cr_expect_lt(difference, 2e-5, "line %d: a probability differs by %g", number, difference);
            worst = fmax(worst, difference);
            compared++;
        }
        int32_t chosen, i = 0;
        if (sscanf(line, "chosen %d", &chosen) != 1) continue;
        while (c.c[i].id != chosen) i++;
        rp_chain_observe(&c.chain, &c.run, i);
    }
    fclose(f);
    close_case(&c);
    cr_assert_gt(compared, 200);
    cr_assert_gt(worst, 0.0, "the probabilities of another program are not all the same bits");
}

/* ---- whole samplers ---- */

static RpSampler *open_sampler(RpSamplerParams p, int32_t n_vocab) {
    RpSampler *s;
    cr_assert_eq(rp_sampler_new(&p, n_vocab, &s), RP_OK, "%s", rp_last_error());
    return s;
}

static RpStatus sample(RpSamplerParams p, const float *logits, int32_t n_vocab, int32_t *token) {
    RpSampler     *s  = open_sampler(p, n_vocab);
    const RpStatus st = rp_sampler_sample(s, logits, token);
    rp_sampler_free(s);
    return st;
}

/* All steps at once. */
static RpSamplerParams full_chain(void) {
    RpSamplerParams p   = rp_sampler_defaults();
    p.temperature       = 0.8f;
    p.top_k             = 40;
    p.top_p             = 0.95f;
    p.min_p             = 0.05f;
    p.repeat_penalty    = 1.1f;
    p.frequency_penalty = 0.2f;
    p.presence_penalty  = 0.1f;
    p.dry_multiplier    = 0.8f;
    p.top_n_sigma       = 2.0f;
    p.typical_p         = 0.9f;
    p.xtc_probability   = 0.5f;
    p.dynatemp_range    = 0.3f;
    return p;
}

/* The op `sample` and a chain with the same steps choose the same tokens, with the same random numbers. */
Test(sampler_chain, the_op_and_the_chain_choose_the_same_tokens) {
    static float logits[2000];
    for (uint32_t round = 0; round < 60; round++) {
        RpSamplerParams p = rp_sampler_defaults();
        for (uint32_t i = 0; i < 2000; i++)
            logits[i] = (float)(hash(round, i) >> 20) / (round % 2 == 0 ? 8.0f : 256.0f);
        p.temperature    = round % 4 == 0 ? 1.0f : 0.3f + (float)(round % 5) / 2.0f;
        p.top_k          = round % 3 == 0 ? 0 : 2 + (int32_t)(hash(round, 3000) % 90);
        p.top_p          = round % 5 == 0 ? 1.0f : 0.2f + (float)(round % 8) / 10.0f;
        p.min_p          = round % 7 == 0 ? 0.0f : (float)(round % 11) / 40.0f;
        p.repeat_penalty = round % 2 == 0 ? 1.0f : 1.2f;
        p.seed           = round;
        RpSampler *op    = open_sampler(p, 2000);
        cr_assert_str_eq(rp_sampler_host_only(op), "", CASE(round));
        p.samplers       = "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature";
        RpSampler *chain = open_sampler(p, 2000);
        cr_assert_str_eq(rp_sampler_host_only(chain), "samplers", CASE(round));
        for (int i = 0; i < 40; i++) {
            int32_t a, b;
            cr_assert_eq(rp_sampler_sample(op, logits, &a), RP_OK, CASE(round, i));
            cr_assert_eq(rp_sampler_sample(chain, logits, &b), RP_OK, CASE(round, i));
            cr_assert_eq(a, b, CASE(round, i));
        }
        rp_sampler_free(op);
        rp_sampler_free(chain);
    }
}

Test(sampler_chain, one_token_left_is_sampled_by_any_steps) {
    float    logits[50];
    int32_t  token;
    uint32_t only[2] = {0, 1u << 3}; /* token 35 */
    for (int32_t left = 0; left < 50; left += 7) {
        for (int i = 0; i < 50; i++) logits[i] = i == left ? -5.0f : i % 2 == 0 ? NAN : -INFINITY;
        cr_assert_eq(sample(full_chain(), logits, 50, &token), RP_OK, "%s", rp_last_error());
        cr_assert_eq(token, left, CASE(left));
    }
    for (int i = 0; i < 50; i++) logits[i] = (float)i / 8.0f;
    RpSampler *s = open_sampler(full_chain(), 50);
    rp_sampler_set_mask(s, only);
    for (int i = 0; i < 20; i++) {
        cr_assert_eq(rp_sampler_sample(s, logits, &token), RP_OK, CASE(i));
        cr_assert_eq(token, 35, CASE(i));
    }
    rp_sampler_free(s);
}

Test(sampler_chain, nothing_to_sample_is_refused) {
    float           logits[5] = {NAN, -INFINITY, NAN, -INFINITY, 1.0f};
    int32_t         token     = 77;
    RpSamplerParams p         = full_chain();
    p.logit_bias              = &(RpLogitBias){4, -INFINITY};
    p.n_logit_bias            = 1;
    cr_assert_eq(sample(p, logits, 5, &token), RP_E_ARG);
    cr_assert_str_eq(rp_last_error(), "nothing to sample: each of the 5 logits is NaN or -inf");
    cr_assert_eq(token, 77);
}

Test(sampler_chain, ties_keep_the_lower_ids) {
    const float     equal[6] = {1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f};
    RpSamplerParams p        = rp_sampler_defaults();
    int32_t         token;
    p.temperature     = 1.0f;
    p.min_keep        = 2; /* makes it a chain */
    p.top_k           = 3;
    RpSampler *s      = open_sampler(p, 6);
    unsigned   set_of = 0;
    for (int i = 0; i < 200; i++) {
        cr_assert_eq(rp_sampler_sample(s, equal, &token), RP_OK, CASE(i));
        set_of |= 1u << token;
    }
    cr_assert_eq(set_of, 7u);
    rp_sampler_free(s);
    p.temperature = 0.0f;
    cr_assert_eq(sample(p, equal, 6, &token), RP_OK);
    cr_assert_eq(token, 0);
}

Test(sampler_chain, plus_infinity_is_certain) {
    const float logits[6] = {1.0f, 2.0f, INFINITY, 0.0f, 3.0f, -1.0f};
    int32_t     token;
    for (uint64_t seed = 0; seed < 10; seed++) {
        RpSamplerParams p = full_chain();
        p.xtc_probability = 0.0f;
        p.seed            = seed;
        cr_assert_eq(sample(p, logits, 6, &token), RP_OK, CASE(seed));
        cr_assert_eq(token, 2, CASE(seed));
    }
}

/* XTC uses one random number where it may drop something, whether it does or not; then the choice uses one. */
Test(sampler_chain, a_seed_gives_the_same_tokens_and_reset_starts_over) {
    float   logits[50];
    int32_t first[40], token;
    size_t  n_words;
    for (int i = 0; i < 50; i++) logits[i] = (float)(hash(5, (uint32_t)i) >> 20) / 1024.0f;
    RpSampler *s = open_sampler(full_chain(), 50);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 40; i++) {
            cr_assert_eq(rp_sampler_sample(s, logits, round == 0 ? &first[i] : &token), RP_OK, CASE(round, i));
            cr_assert(round == 0 || token == first[i], CASE(round, i));
        }
        RpStepState state;
        memcpy(&state, rp_sampler_state(s, &n_words), sizeof state);
        cr_assert(state.drawn_low > 40 && state.drawn_low <= 80, "%u random numbers", state.drawn_low);
        cr_assert_eq(state.n_recent, 40, CASE(round));
        rp_sampler_reset(s);
    }
    rp_sampler_free(s);
}

/* ---- sequence breakers as text ---- */

static const DryBreaker *find_breaker(const Dry *d, int32_t head) {
    const DryBreaker *found = NULL;
    for (size_t i = 0; i < d->n_breakers; i++)
        if (d->breakers[i].head == head) found = &d->breakers[i];
    return found;
}

Test(sampler_chain, finds_the_tokens_of_sequence_breakers) {
    RpGgufFile  *f;
    RpTokenizer *tk;
    RpGgufString word;
    Dry          d;
    cr_assert_eq(rp_gguf_open(RP_SOURCE_DIR "/tests/golden/tokenizer/smollm.gguf", &f), RP_OK, "%s", rp_last_error());
    cr_assert_eq(rp_tokenizer_new(f, &tk), RP_OK, "%s", rp_last_error());
    const char *const texts[] = {":", "AB"};
    RpSamplerParams   p       = full_chain();
    p.tokenizer               = tk;
    p.dry_breakers            = texts;
    p.n_dry_breakers          = 2;
    cr_assert_eq(rp_dry_open(&d, &p), RP_OK, "%s", rp_last_error());
    const int32_t b        = rp_tokenizer_find(tk, "B");
    int           contains = 0, begins = 0;
    for (int32_t id = 0; id < rp_tokenizer_n_vocab(tk); id++) {
        const DryBreaker *found = find_breaker(&d, id);
        cr_assert_eq(rp_token_bytes(tk, id, true, &word), RP_OK, CASE(id));
        const bool whole = memmem(word.ptr, word.len, "AB", 2) != NULL || memchr(word.ptr, ':', word.len) != NULL;
        const bool head  = !whole && word.len > 0 && word.ptr[word.len - 1] == 'A';
        cr_assert_eq(found != NULL, whole || head, CASE(id));
        if (found == NULL) continue;
        cr_assert_eq(found->n, whole ? 0 : 1, CASE(id));
        cr_assert(whole || found->tail[0] == b, CASE(id));
        contains += whole;
        begins += head;
    }
    cr_assert(contains > 1 && begins > 0, "%d and %d tokens", contains, begins);
    rp_dry_close(&d);

    p.dry_breakers   = NULL; /* a newline, a colon, a quotation mark and an asterisk */
    p.n_dry_breakers = 0;
    cr_assert_eq(rp_dry_open(&d, &p), RP_OK, "%s", rp_last_error());
    for (const char *c = ":\"*"; *c != '\0'; c++) {
        const DryBreaker *found = find_breaker(&d, rp_tokenizer_find(tk, (char[]){*c, '\0'}));
        cr_assert(found != NULL && found->n == 0, "%c", *c);
    }
    rp_dry_close(&d);
    rp_tokenizer_free(tk);
    rp_gguf_close(f);
}

/* ---- refusals ---- */

static void refused(RpSamplerParams p, const char *text) {
    RpSampler *s = (RpSampler *)&p;
    cr_expect_eq(rp_sampler_new(&p, 5, &s), RP_E_ARG, "%s", text);
    cr_expect_null(s);
    cr_expect_str_eq(rp_last_error(), text);
}

Test(sampler_chain, refuses_parameters_by_name) {
    static const struct {
        size_t      offset;
        float       value;
        const char *text;
    } cases[] = {
        {offsetof(RpSamplerParams, typical_p),         1.5f,     "typical_p 1.5: must be from 0 to 1"             },
        {offsetof(RpSamplerParams, typical_p),         NAN,      "typical_p nan: must be from 0 to 1"             },
        {offsetof(RpSamplerParams, top_n_sigma),       -1.0f,    "top_n_sigma -1: must be from 0 to 1e6"          },
        {offsetof(RpSamplerParams, frequency_penalty), INFINITY, "frequency_penalty inf: must be from -1e6 to 1e6"},
        {offsetof(RpSamplerParams, presence_penalty),  NAN,      "presence_penalty nan: must be from -1e6 to 1e6" },
        {offsetof(RpSamplerParams, dry_multiplier),    -0.5f,    "dry_multiplier -0.5: must be from 0 to 1e6"     },
        {offsetof(RpSamplerParams, xtc_probability),   1.5f,     "xtc_probability 1.5: must be from 0 to 1"       },
        {offsetof(RpSamplerParams, xtc_threshold),     -1.0f,    "xtc_threshold -1: must be from 0 to 1"          },
        {offsetof(RpSamplerParams, dynatemp_range),    -1.0f,    "dynatemp_range -1: must be from 0 to 1e6"       },
        {offsetof(RpSamplerParams, dynatemp_exponent), NAN,      "dynatemp_exponent nan: must be from 0 to 1e6"   },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        RpSamplerParams p = rp_sampler_defaults();
        memcpy((char *)&p + cases[i].offset, &cases[i].value, sizeof(float));
        refused(p, cases[i].text);
    }
    RpSamplerParams p = rp_sampler_defaults();
    p.dry_base        = 0.5f; /* DRY is off */
    cr_assert_eq(rp_chain_check(&p, 5), RP_OK);
    p.dry_multiplier = 1.0f;
    refused(p, "dry_base 0.5: must be from 1 to 1e6");
    p.dry_base     = 2.0f;
    p.mirostat_tau = -1.0f;
    refused(p, "mirostat_tau -1: must be from 0 to 1e6");
    p.mirostat_tau = 5.0f;
    p.mirostat_eta = NAN;
    refused(p, "mirostat_eta nan: must be from 0 to 1e6");
    p          = rp_sampler_defaults();
    p.mirostat = 1;
    refused(p, "mirostat 1: must be 0 or 2");
    p                    = rp_sampler_defaults();
    p.dry_allowed_length = -1;
    refused(p, "dry_allowed_length -1: must be at least 0");
    p                    = rp_sampler_defaults();
    p.dry_penalty_last_n = 2000000;
    refused(p, "dry_penalty_last_n 2000000: must be from 0 to 1048576");
    p          = rp_sampler_defaults();
    p.min_keep = -2;
    refused(p, "min_keep -2: must be at least 0");
    p          = rp_sampler_defaults();
    p.samplers = "top_k;topp";
    refused(p, "samplers: `topp` is none of penalties, dry, top_n_sigma, top_k, typ_p, top_p, min_p, xtc, temperature");
    p.samplers = "top_k;min_p;top_k";
    refused(p, "samplers: `top_k` twice");
}

Test(sampler_chain, refuses_arrays_by_name) {
    RpSamplerParams   p     = rp_sampler_defaults();
    const char *const bad[] = {"a", ""};
    p.n_logit_bias          = 2;
    refused(p, "logit_bias: 2 pairs at NULL");
    p.logit_bias   = &(RpLogitBias){5, 1.0f};
    p.n_logit_bias = 1;
    refused(p, "logit_bias: token 5: must be from 0 to 4");
    p.logit_bias = &(RpLogitBias){4, NAN};
    refused(p, "logit_bias: the bias of token 4 is NaN");
    p                = rp_sampler_defaults();
    p.n_dry_breakers = 1;
    refused(p, "dry_breakers: 1 strings at NULL");
    p.dry_breakers = bad;
    refused(p, "dry_breakers: the sampler has no tokenizer to find their tokens");
    RpModel *m;
    cr_assert_eq(rp_model_open(TINY, NULL, &m), RP_OK, "%s", rp_last_error());
    p.tokenizer      = rp_model_tokenizer(m);
    p.n_dry_breakers = 2;
    refused(p, "dry_breakers: string 1 must have from 1 to 40 bytes");
    p.n_dry_breakers = 1;
    refused(p, "the tokenizer has 64 tokens, the sampler 5");
    rp_model_free(m);
}

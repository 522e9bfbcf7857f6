/* Real models against llama.cpp: tools/golden_models.py made the files. */
#include "tests/golden.h"

#include <math.h>

enum { MAX_IDS = 4096, N_TOP = 20, N_GREEDY = 64 };

/* Weights of 4 bits with 8-bit activations: both engines round, each its own way. The logits of these models
 * spread over some 20 to 40; a difference of a token's logit of up to 0.6 has been seen between llama.cpp's
 * own builds. */
static const float logit_tolerance = 0.75f;

typedef struct Prompt {
    int32_t ids[MAX_IDS], top[N_TOP], greedy[N_GREEDY];
    float   top_logit[N_TOP], margin[N_GREEDY];
    size_t  n;
} Prompt;

static const char *field(FILE *f, char **line, size_t *size, const char *name) {
    const char *text = golden_line(f, line, size);
    if (text == NULL) return NULL;
    cr_assert(strncmp(text, name, strlen(name)) == 0, "'%.20s' where %s is expected", text, name);
    return text + strlen(name);
}

static bool read_prompt(FILE *f, Prompt *p) {
    char      *line = NULL;
    size_t     size = 0;
    float      top[2 * N_TOP];
    const bool more = field(f, &line, &size, "prompt ") != NULL;
    if (more) {
        p->n = golden_ids(field(f, &line, &size, "ids "), p->ids, MAX_IDS);
        cr_assert_eq(golden_floats(field(f, &line, &size, "top "), top, (size_t)2 * N_TOP),
                     (size_t)2 * N_TOP);
        for (int i = 0; i < N_TOP; i++) {
            p->top[i]       = (int32_t)top[2 * i];
            p->top_logit[i] = top[2 * i + 1];
        }
        cr_assert_eq(golden_ids(field(f, &line, &size, "greedy "), p->greedy, N_GREEDY), (size_t)N_GREEDY);
        cr_assert_eq(golden_floats(field(f, &line, &size, "margin "), p->margin, N_GREEDY), (size_t)N_GREEDY);
    }
    free(line);
    return more;
}

static int32_t best_of(const float *logits, int32_t n) {
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

/* Follows llama.cpp's tokens; wherever ours differs, the two must have been nearly level there. Returns how
 * many differ. */
static int check_greedy(Session *s, const Prompt *p, int prompt, float near) {
    const int32_t n_vocab = rp_model_info(rp_session_model(s))->n_vocab;
    int           differ  = 0;
    for (int i = 0; i < N_GREEDY; i++) {
        const float  *logits = rp_session_logits(s);
        const int32_t best   = best_of(logits, n_vocab);
        if (best != p->greedy[i]) {
            const float lead = logits[best] - logits[p->greedy[i]];
            differ++;
            cr_log_info("prompt %d, token %d: %d leads %d by %g here, llama.cpp's choice led by %g", prompt,
                        i, best, p->greedy[i], (double)lead, (double)p->margin[i]);
            cr_expect(lead + p->margin[i] <= near,
                      "prompt %d, token %d: %d leads %d by %g, llama.cpp's choice led by %g", prompt, i, best,
                      p->greedy[i], (double)lead, (double)p->margin[i]);
        }
        OK(rp_session_step(s, p->greedy[i]));
    }
    return differ;
}

static void check_model(const char *file, const char *golden, int allowed) {
    Model   *m;
    Session *s;
    Prompt  *p       = calloc(1, sizeof *p);
    int      prompts = 0, differ = 0;
    float    worst = 0.0f;
    OK(rp_model_open(model_path(file), NULL, &m));
    OK(rp_session_open(m, &(SessionOptions){.n_ctx = 1024}, &s));
    FILE *f = golden_open(golden);
    for (; read_prompt(f, p); prompts++) {
        OK(rp_session_rewind(s, 0));
        OK(rp_session_prefill(s, p->ids, p->n, NULL, NULL));
        for (int i = 0; i < N_TOP; i++)
            worst = fmaxf(worst, fabsf(rp_session_logits(s)[p->top[i]] - p->top_logit[i]));
        differ += check_greedy(s, p, prompts, logit_tolerance);
    }
    cr_log_info("%s: top-20 logits within %g, %d of %d greedy tokens differ", file, (double)worst, differ,
                prompts * N_GREEDY);
    cr_expect_eq(prompts, 8);
    cr_expect_leq(worst, logit_tolerance);
    cr_expect_leq(differ, allowed);
    fclose(f);
    free(p);
    rp_session_free(s);
    rp_model_free(m);
}

Test(models, smollm2_continues_as_llama_cpp_does) { check_model(SMOLLM2, "smollm2/generate.txt", 8); }
Test(models, gemma3_continues_as_llama_cpp_does) { check_model(GEMMA3, "gemma3/generate.txt", 8); }

/* ---- perplexity ---- */

enum { WINDOW = 256 };

typedef struct Likelihood {
    const int32_t *ids;
    int32_t        n_vocab;
    double         sum;
    size_t         n;
} Likelihood;

static void add_likelihood(size_t i, const float *logits, void *user) {
    Likelihood *l = user;
    if (i + 1 == WINDOW) return;
    double top = -INFINITY, sum = 0.0;
    for (int32_t k = 0; k < l->n_vocab; k++) top = fmax(top, (double)logits[k]);
    for (int32_t k = 0; k < l->n_vocab; k++) sum += exp((double)logits[k] - top);
    l->sum += top + log(sum) - (double)logits[l->ids[i + 1]];
    l->n++;
}

static char *read_text(size_t *len) {
    FILE *f = golden_open("text.txt");
    char *p = malloc(1 << 16);
    *len    = fread(p, 1, 1 << 16, f);
    fclose(f);
    return p;
}

static void check_perplexity(const char *file, const char *golden) {
    Model   *m;
    Session *s;
    size_t   len, size = 0;
    char    *text = read_text(&len), *line = NULL;
    OK(rp_model_open(model_path(file), NULL, &m));
    OK(rp_session_open(m, &(SessionOptions){.n_ctx = WINDOW}, &s));
    const Tokenizer *tk  = rp_model_tokenizer(m);
    TokenList        ids = {0};
    Likelihood       l   = {.n_vocab = rp_model_info(m)->n_vocab};
    OK(rp_tokenize(tk, text, len, RP_TOK_ADD_SPECIAL, &ids));
    for (size_t w = 0; w + WINDOW <= ids.n; w += WINDOW) {
        if (rp_tokenizer_adds_bos(tk)) ids.ids[w] = rp_tokenizer_bos(tk);
        l.ids = ids.ids + w;
        OK(rp_session_rewind(s, 0));
        OK(rp_session_score(s, l.ids, WINDOW, add_likelihood, &l));
    }
    FILE *f = golden_open(golden);
    cr_expect_eq((size_t)(WINDOW - 1) * strtoul(field(f, &line, &size, "windows "), NULL, 10), l.n);
    cr_expect_eq(strtoul(field(f, &line, &size, "targets "), NULL, 10), l.n);
    (void)field(f, &line, &size, "nll ");
    const double want = strtod(field(f, &line, &size, "perplexity "), NULL), got = exp(l.sum / (double)l.n);
    cr_log_info("%s: perplexity %.4f, llama.cpp %.4f", file, got, want);
    cr_expect_leq(fabs(got / want - 1.0), 0.005, "perplexity %g, llama.cpp has %g", got, want);
    free(line);
    free(text);
    fclose(f);
    rp_token_list_free(&ids);
    rp_session_free(s);
    rp_model_free(m);
}

Test(models, smollm2_has_llama_cpp_perplexity) { check_perplexity(SMOLLM2, "smollm2/perplexity.txt"); }
Test(models, gemma3_has_llama_cpp_perplexity) { check_perplexity(GEMMA3, "gemma3/perplexity.txt"); }

/* perplexity.c - `reprise perplexity`: cuts a text into windows of W tokens and scores each from an empty context.
 *
 *   nll(i) = log(sum_j exp(logits[j])) - logits[token i],  i = 1..W-1;   perplexity = exp(mean nll) */
#include "cli/commands.h"
#include "cli/common.h"

#include <math.h>
#include <stdlib.h>

static struct {
    const char *model, *file, *passes, *kv;
    int32_t     window, threads;
    bool        json, quiet;
    DeviceArgs  device;
} args = {.window = 256};

/* Sums of the negative log probability (nll) and of its square over the scored tokens. */
typedef struct Score {
    const int32_t *window;
    int32_t        n_vocab;
    double         sum, squares;
    size_t         n;
} Score;

/* Scores token i + 1 by the logits after token i. The largest logit is subtracted, so that exp does not overflow. */
static void on_logits(size_t i, const float *logits, void *user) {
    Score *s   = user;
    float  max = -HUGE_VALF;
    double sum = 0.0;
    for (int32_t j = 0; j < s->n_vocab; j++) max = logits[j] > max ? logits[j] : max;
    for (int32_t j = 0; j < s->n_vocab; j++) sum += (double)expf(logits[j] - max);
    const double nll = (double)max + log(sum) - (double)logits[s->window[i + 1]];
    s->sum += nll;
    s->squares += nll * nll;
    s->n++;
}

/* Each window has width - 1 scored tokens, since nothing predicts the first. Writes BOS over it where a model
 * expects one. */
static RpStatus score_windows(RpSession *s, RpTokenList *ids, Score *score) {
    const RpTokenizer *tk    = rp_model_tokenizer(rp_session_model(s));
    const size_t       width = (size_t)args.window, n = ids->n / width;
    Progress           progress = {.label = "perplexity", .off = args.quiet};
    RpStatus           st       = RP_OK;
    for (size_t w = 0; w < n && st == RP_OK; w++) {
        int32_t *window = ids->ids + w * width;
        if (rp_tokenizer_adds_bos(tk)) window[0] = rp_tokenizer_bos(tk);
        score->window = window;
        st            = rp_session_rewind(s, 0);
        if (st == RP_OK) st = rp_session_score(s, window, width - 1, on_logits, score);
        if (!cli_progress(&progress, (double)(w + 1), (double)n) && st == RP_OK)
            st = rp_fail(RP_E_CANCELLED, "interrupted");
    }
    cli_progress_end(&progress);
    return st;
}

/* The standard error is that of the mean nll, carried over to exp(mean). */
static void print_result(const Score *s, size_t n_windows, double seconds) {
    const double n = (double)s->n, mean = s->sum / n;
    const double variance = n > 1 ? fmax(s->squares / n - mean * mean, 0.0) * n / (n - 1.0) : 0.0;
    const double ppl = exp(mean), error = ppl * sqrt(variance / n); /* first order, taking tokens as independent */
    if (args.json)
        printf("{\"perplexity\":%.6f,\"standard_error\":%.6f,\"nll\":%.8f,\"tokens\":%zu,\"windows\":%zu,"
               "\"window\":%d,\"seconds\":%.3f}\n",
               ppl, error, mean, s->n, n_windows, args.window, seconds);
    else
        printf("perplexity %.4f +- %.4f over %zu tokens in %zu windows of %d (%.1f tok/s)\n", ppl, error, s->n,
               n_windows, args.window, n / seconds);
}

static RpStatus perplexity(RpModel *m, Text *text, RpTokenList *ids, RpSession **session) {
    RpDtype kv;
    RP_TRY(cli_kv_type(args.kv, &kv));
    RpSessionOptions o     = {.n_ctx = args.window, .n_threads = args.threads, .passes = args.passes, .kv_type = kv};
    Score            score = {.n_vocab = rp_model_info(m)->n_vocab};
    RP_TRY(cli_need_tokenizer(m, args.model));
    RP_TRY(cli_read_text(NULL, args.file, text));
    RP_TRY(rp_tokenize(rp_model_tokenizer(m), text->bytes, text->n, RP_TOK_ADD_SPECIAL, ids));
    if (ids->n < (size_t)args.window)
        return rp_fail(RP_E_ARG, "%s: %zu tokens do not fill one window of %d: give more text or a smaller --window",
                       args.file, ids->n, args.window);
    RP_TRY(cli_open_session(m, &args.device, args.quiet, &o, session));
    const double start = cli_now();
    RP_TRY(score_windows(*session, ids, &score));
    print_result(&score, ids->n / (size_t)args.window, cli_now() - start);
    return RP_OK;
}

static int run(void) {
    RpModel    *m       = NULL;
    RpSession  *session = NULL;
    Text        text    = {0};
    RpTokenList ids     = {0};
    cli_catch_interrupts();
    RpStatus st = cli_open_model(args.model, &args.device, args.quiet, &m);
    if (st == RP_OK) st = perplexity(m, &text, &ids, &session);
    rp_session_free(session);
    rp_token_list_free(&ids);
    free(text.bytes);
    rp_model_free(m);
    return cli_exit(st);
}

static const Option options[] = {
    OPTION_MODEL(args.model),
    CLI_NEEDED(FILE_READ, "file", 'f', args.file, "FILE", "the text; -: standard input"),
    CLI_INT("window", 0, args.window, "N", "tokens per window, default 256", 2, 0),
    OPTION_THREADS(args.threads),
    OPTIONS_SESSION(args),
    OPTION_BACKEND(args.device),
    OPTION_JSON(args.json),
    OPTION_QUIET(args.quiet),
};

const Command cli_command_perplexity = {
    .name      = "perplexity",
    .help      = "measure how well a model predicts a text",
    .usage     = "[MODEL] -f FILE [options]",
    .notes     = "The text is cut into windows; an incomplete last one is left out. Each window starts "
                 "from an empty context. Its first token (BOS if the model adds one) is given, the "
                 "others are predicted.",
    .options   = options,
    .n_options = sizeof options / sizeof options[0],
    .run       = run};

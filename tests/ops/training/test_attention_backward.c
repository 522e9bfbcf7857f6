/* The op attention_backward against the formulas in double, with the whole matrix of scores; against differences of
 * attention in double; and against torch.autograd (tests/golden/backward.txt). */
#include "tests/support/case.h"
#include "tests/support/slope.h"

typedef struct Shape {
    int  batch, n_q, n_k, heads, key_heads, d;
    bool causal;
    int  window;
    bool with_sinks;
} Shape;

/* Rows in the layout of reprise/nn.h: q, y, dy [batch,n_q,heads,d], k, v [batch,n_k,key_heads,d]. */
typedef struct Attention {
    Shape   s;
    double  scale;
    float  *q, *k, *v, *y, *dy, *dq, *dk, *dv, *stats, *sinks;
    double *sinks64, *dsinks64; /* [heads] */
    double *q64, *k64, *v64, *y64, *dy64, *dq64, *dk64, *dv64;
} Attention;

static size_t of_q(const Shape *s) { return (size_t)(s->batch * s->n_q * s->heads * s->d); }
static size_t of_k(const Shape *s) { return (size_t)(s->batch * s->n_k * s->key_heads * s->d); }

static double *q_row(const Attention *a, double *x, int b, int t, int h) {
    return x + (size_t)a->s.d * (size_t)(h + a->s.heads * (t + a->s.n_q * b));
}

static double *k_row(const Attention *a, double *x, int b, int i, int h) {
    return x + (size_t)a->s.d * (size_t)(h * a->s.key_heads / a->s.heads + a->s.key_heads * (i + a->s.n_k * b));
}

static double dot64(const double *x, const double *y, int n) {
    double sum = 0.0;
    for (int c = 0; c < n; c++) sum += x[c] * y[c];
    return sum;
}

/* The probabilities of a row, 0 for keys that it does not see, and that of its sink behind them; returns the end of its
 * keys. */
static int probabilities_of(const Attention *a, int b, int t, int h, double *p) {
    const int last = a->s.causal ? t + a->s.n_k - a->s.n_q + 1 : a->s.n_k, n = last < 0 ? 0 : last,
              from = a->s.window > 0 && n > a->s.window ? n - a->s.window : 0;
    double top = a->s.with_sinks ? a->sinks64[h] : -(double)INFINITY, sum = 0.0;
    for (int i = 0; i < from; i++) p[i] = 0.0;
    for (int i = from; i < n; i++) {
        p[i] = a->scale * dot64(q_row(a, a->q64, b, t, h), k_row(a, a->k64, b, i, h), a->s.d);
        top  = fmax(top, p[i]);
    }
    p[n] = a->s.with_sinks ? exp(a->sinks64[h] - top) : 0.0;
    sum  = p[n];
    for (int i = from; i < n; i++) sum += p[i] = exp(p[i] - top);
    for (int i = 0; i <= n && sum != 0.0; i++) p[i] /= sum;
    return n;
}

static void forward_row(const Attention *a, int b, int t, int h) {
    double   *p = malloc(((size_t)a->s.n_k + 2) * sizeof *p), *y = q_row(a, a->y64, b, t, h);
    const int n = probabilities_of(a, b, t, h, p);
    memset(y, 0, (size_t)a->s.d * sizeof *y);
    for (int i = 0; i < n; i++)
        for (int c = 0; c < a->s.d; c++) y[c] += p[i] * k_row(a, a->v64, b, i, h)[c];
    free(p);
}

static void for_rows(const Attention *a, void f(const Attention *a, int b, int t, int h)) {
    for (int b = 0; b < a->s.batch; b++)
        for (int t = 0; t < a->s.n_q; t++)
            for (int h = 0; h < a->s.heads; h++) f(a, b, t, h);
}

static double loss(const void *of) {
    const Attention *a = of;
    for_rows(a, forward_row);
    return dot64(a->y64, a->dy64, (int)of_q(&a->s));
}

static void gradient_row(const Attention *a, int b, int t, int h) {
    double      *p = malloc(((size_t)a->s.n_k + 2) * sizeof *p), *dy = q_row(a, a->dy64, b, t, h);
    const int    n     = probabilities_of(a, b, t, h, p);
    const double delta = dot64(dy, q_row(a, a->y64, b, t, h), a->s.d);
    a->dsinks64[h] -= p[n] * delta;
    for (int i = 0; i < n; i++) {
        const double *k = k_row(a, a->k64, b, i, h), *v = k_row(a, a->v64, b, i, h), *q = q_row(a, a->q64, b, t, h);
        const double  ds = a->scale * p[i] * (dot64(dy, v, a->s.d) - delta);
        for (int c = 0; c < a->s.d; c++) {
            k_row(a, a->dv64, b, i, h)[c] += p[i] * dy[c];
            k_row(a, a->dk64, b, i, h)[c] += ds * q[c];
            q_row(a, a->dq64, b, t, h)[c] += ds * k[c];
        }
    }
    free(p);
}

static Attention attention_new(Shape s, double scale) {
    Attention    a  = {.s = s, .scale = scale};
    const size_t nq = of_q(&s), nk = of_k(&s);
    a.q = random_floats(nq, 1), a.k = random_floats(nk, 2), a.v = random_floats(nk, 3), a.dy = random_floats(nq, 4);
    a.y = random_floats(nq, 5), a.dq = random_floats(nq, 6), a.dk = random_floats(nk, 7), a.dv = random_floats(nk, 8);
    a.stats = random_floats(4 * (size_t)(s.batch * s.n_q * s.heads), 9);
    a.sinks = random_floats((size_t)s.heads, 10), a.sinks64 = in_double(a.sinks, (size_t)s.heads);
    a.dsinks64 = calloc((size_t)s.heads, 8);
    a.q64 = in_double(a.q, nq), a.k64 = in_double(a.k, nk), a.v64 = in_double(a.v, nk), a.dy64 = in_double(a.dy, nq);
    a.y64 = in_double(a.y, nq), a.dq64 = calloc(nq, 8), a.dk64 = calloc(nk, 8), a.dv64 = calloc(nk, 8);
    for_rows(&a, forward_row);
    for (size_t i = 0; i < nq; i++) a.y[i] = (float)a.y64[i];
    return a;
}

static void attention_free(Attention *a) {
    free(a->q), free(a->k), free(a->v), free(a->y), free(a->dy), free(a->dq), free(a->dk), free(a->dv), free(a->stats),
        free(a->sinks), free(a->sinks64), free(a->dsinks64);
    free(a->q64), free(a->k64), free(a->v64), free(a->y64), free(a->dy64), free(a->dq64), free(a->dk64), free(a->dv64);
}

/* [d,seq,heads,batch] of rows in the layout above. */
static RpTensorView rows_view(float *x, const Shape *s, int seq, int heads) {
    const size_t row = (size_t)s->d * sizeof *x;
    return (RpTensorView){
        .data  = x,
        .dtype = RP_F32,
        .ne    = {s->d,      seq,                 heads, s->batch                         },
        .nb    = {sizeof *x, row * (size_t)heads, row,   row * (size_t)heads * (size_t)seq}
    };
}

static RpOpArgs args_of(const Attention *a, const RpOpParams *p) {
    const Shape *s    = &a->s;
    RpOpArgs     args = {
            .dst    = rows_view(a->dq, s, s->n_q, s->heads),
            .src    = {tensor(RP_F32, a->dy, s->d, s->heads, s->n_q, s->batch), rows_view(a->q, s, s->n_q, s->heads),
                       rows_view(a->k, s, s->n_k, s->key_heads), rows_view(a->v, s, s->n_k, s->key_heads),
                       tensor(RP_F32, a->y, s->d, s->heads, s->n_q, s->batch), rows_view(a->dk, s, s->n_k, s->key_heads),
                       rows_view(a->dv, s, s->n_k, s->key_heads),
                       tensor(RP_F32, a->stats, (s->with_sinks ? 4 : 3) * s->batch * s->n_q * s->heads, 1, 1, 1)},
            .params = p
    };
    if (s->with_sinks) args.attention_backward.sinks = tensor(RP_F32, a->sinks, s->heads, 1, 1, 1);
    return args;
}

static RpOpParams params_of(const Attention *a) {
    return (RpOpParams){
        .attention_backward = {.scale = (float)a->scale, .window = a->s.window, .causal = a->s.causal}
    };
}

static void expect_gradients(const Attention *a, double tolerance) {
    expect_near(a->dq, a->dq64, of_q(&a->s), tolerance);
    expect_near(a->dk, a->dk64, of_k(&a->s), tolerance);
    expect_near(a->dv, a->dv64, of_k(&a->s), tolerance);
}

/* The fourth part of the statistics, summed for each head. */
static void expect_sinks(const Attention *a, double tolerance) {
    const Shape *s = &a->s;
    if (!s->with_sinks) return;
    const float *of_sink = a->stats + 3 * s->batch * s->n_q * s->heads;
    for (int h = 0; h < s->heads; h++) {
        double sum = 0.0;
        for (int b = 0; b < s->batch; b++)
            for (int t = 0; t < s->n_q; t++) sum += (double)of_sink[t + s->n_q * (h + s->heads * b)];
        cr_assert(fabs(sum - a->dsinks64[h]) <= tolerance * s->n_q * s->batch, "sink %d: %.9g, not %.9g", h, sum,
                  a->dsinks64[h]);
    }
}

static void run(const Attention *a, double tolerance) {
    const RpOpParams p    = params_of(a);
    const RpOpArgs   args = args_of(a, &p);
    run_variants(rp_cpu_attention_backward, &args);
    expect_gradients(a, tolerance);
    expect_sinks(a, tolerance);
#ifdef RP_TEST_CUDA
    OK(cuda_run(rp_cpu_attention_backward, &args, a->dq));
    expect_gradients(a, tolerance);
    expect_sinks(a, tolerance);
#endif
}

static void check(Shape s) {
    Attention a = attention_new(s, 1.0 / sqrt((double)s.d));
    a.scale     = (double)(float)a.scale;
    for_rows(&a, forward_row);
    for (size_t i = 0; i < of_q(&s); i++) a.y[i] = (float)a.y64[i];
    for_rows(&a, gradient_row);
    run(&a, 3e-6);
    attention_free(&a);
}

Test(attention_backward, is_the_slope_of_attention) {
    static const Shape shapes[] = {
        {2, 4, 6, 4, 2, 5, false, 0, false},
        {2, 4, 6, 4, 2, 5, true,  0, false},
        {1, 5, 3, 3, 1, 4, true,  0, false},
        {1, 1, 1, 1, 1, 1, false, 0, false},
        {2, 4, 6, 4, 2, 5, true,  2, false},
        {2, 4, 6, 4, 2, 5, true,  0, true },
        {1, 6, 6, 2, 1, 4, true,  3, true },
        {1, 5, 3, 3, 1, 4, true,  1, true },
        {1, 3, 5, 2, 2, 4, false, 2, true }
    };
    for (int k = 0; k < 9; k++) {
        Attention a = attention_new(shapes[k], 0.75);
        slopes(loss, &a, a.q64, of_q(&a.s), a.dq64);
        slopes(loss, &a, a.k64, of_k(&a.s), a.dk64);
        slopes(loss, &a, a.v64, of_k(&a.s), a.dv64);
        slopes(loss, &a, a.sinks64, (size_t)a.s.heads, a.dsinks64);
        for_rows(&a, forward_row);
        run(&a, 1e-6);
        attention_free(&a);
    }
}

/* More and fewer than a tile of 48 queries and keys, heads of whole vectors and with a rest; 128 queries or keys are a
 * tile on the GPU. */
Test(attention_backward, takes_any_number_of_queries_and_keys) {
    check((Shape){1, 49, 97, 2, 1, 17, true, 0, false}), check((Shape){1, 3, 131, 1, 1, 33, true, 0, false});
    check((Shape){2, 31, 31, 2, 2, 16, true, 0, false}), check((Shape){1, 48, 48, 1, 1, 8, false, 0, false});
    check((Shape){1, 49, 97, 2, 1, 17, true, 20, true}), check((Shape){1, 60, 60, 1, 1, 8, true, 2, false});
    check((Shape){1, 48, 48, 2, 2, 8, true, 48, true});
#ifndef RP_TEST_CUDA
    check((Shape){1, 150, 150, 2, 1, 8, true, 50, true}), check((Shape){1, 20, 150, 2, 1, 8, false, 60, true});
    check((Shape){1, 100, 100, 2, 1, 32, true, 0, false}), check((Shape){1, 1, 200, 4, 2, 80, true, 0, false});
    check((Shape){2, 60, 50, 2, 1, 24, true, 0, false}), check((Shape){1, 5, 50, 2, 2, 512, false, 0, false});
#else
    check((Shape){1, 140, 140, 1, 1, 4, true, 130, true});
    check((Shape){1, 131, 5, 1, 1, 4, false, 0, false}), check((Shape){1, 2, 3, 1, 1, 300, true, 0, false});
#endif
}

Test(attention_backward, large_scores_do_not_overflow) {
    Attention a = attention_new((Shape){1, 20, 60, 1, 1, 8, true, 0, false}, 100.0);
    for_rows(&a, gradient_row);
    const RpOpParams p    = params_of(&a);
    const RpOpArgs   args = args_of(&a, &p);
    OK(run_workers(rp_cpu_attention_backward, &args, 1));
    for (size_t i = 0; i < of_q(&a.s); i++) cr_assert(isfinite(a.dq[i]), CASE(i));
    expect_near(a.dv, a.dv64, of_k(&a.s), 1e-4); /* scores near 100 have errors of 1e-5 */
    attention_free(&a);
}

Test(attention_backward, a_nan_stays_in_its_batch_entry_and_key_head) {
    Attention a           = attention_new((Shape){2, 5, 6, 4, 2, 3, false, 0, false}, 0.5);
    a.k[3 * (1 + 2 * 2)]  = NAN; /* batch 0, key 2, key head 1 */
    const RpOpParams p    = params_of(&a);
    const RpOpArgs   args = args_of(&a, &p);
    run_variants(rp_cpu_attention_backward, &args);
    for (int b = 0; b < 2; b++)
        for (int t = 0; t < 5; t++)
            for (int h = 0; h < 4; h++)
                cr_expect_eq(isnan(a.dq[3 * (h + 4 * (t + 5 * b))]) != 0, b == 0 && h >= 2, CASE(b, t, h));
    for (int b = 0; b < 2; b++)
        for (int i = 0; i < 6; i++)
            for (int h = 0; h < 2; h++)
                cr_expect_eq(isnan(a.dv[3 * (h + 2 * (i + 6 * b))]) != 0, b == 0 && h == 1, CASE(b, i, h));
    attention_free(&a);
}

static void values(float *x, double *x64, size_t n, int seed) {
    for (size_t i = 0; i < n; i++) {
        x[i]   = (float)(((int64_t)i * 7919 + seed * 104729) % 2048 - 1024) / 1024.0f;
        x64[i] = (double)x[i];
    }
}

static void read_line(FILE *f, double *out, size_t n) {
    char  *line = NULL, *at;
    size_t size = 0;
    cr_assert_not_null(golden_line(f, &line, &size));
    at = line;
    for (size_t i = 0; i < n; i++) out[i] = strtod(at, &at);
    cr_assert_eq(*at, '\0', "more numbers than the shape has");
    free(line);
}

Test(attention_backward, has_the_gradients_of_torch) {
    FILE  *f    = golden_open("backward.txt");
    char  *line = NULL;
    size_t size = 0;
    int    seen = 0;
    while (golden_line(f, &line, &size) != NULL) {
        Shape  s = {0};
        int    causal;
        double scale;
        s.with_sinks = sscanf(line, "attention_sinks %d %d %d %d %d %d %d %d %lf", &causal, &s.window, &s.batch, &s.n_q,
                              &s.n_k, &s.heads, &s.key_heads, &s.d, &scale) == 9;
        if (!s.with_sinks && sscanf(line, "attention %d %d %d %d %d %d %d %lf", &causal, &s.batch, &s.n_q, &s.n_k,
                                    &s.heads, &s.key_heads, &s.d, &scale) != 8)
            continue;
        s.causal    = causal != 0;
        Attention a = attention_new(s, scale);
        values(a.q, a.q64, of_q(&s), 1), values(a.k, a.k64, of_k(&s), 2), values(a.v, a.v64, of_k(&s), 3);
        values(a.dy, a.dy64, of_q(&s), 4);
        read_line(f, a.y64, of_q(&s)), read_line(f, a.dq64, of_q(&s));
        read_line(f, a.dk64, of_k(&s)), read_line(f, a.dv64, of_k(&s));
        values(a.sinks, a.sinks64, (size_t)s.heads, 5);
        if (s.with_sinks) read_line(f, a.dsinks64, (size_t)s.heads);
        for (size_t i = 0; i < of_q(&s); i++) a.y[i] = (float)a.y64[i];
        run(&a, 1e-6);
        attention_free(&a);
        seen++;
    }
    cr_expect_eq(seen, 7);
    free(line);
    fclose(f);
}

Test(attention_backward, refuses_other_shapes) {
    Attention        a               = attention_new((Shape){1, 4, 4, 2, 2, 4, false, 0, false}, 1.0);
    const RpOpParams p               = params_of(&a);
    RpOpArgs         args            = args_of(&a, &p);
    args.attention_backward.dv.ne[1] = 3;
    REFUSED(run_workers(rp_cpu_attention_backward, &args, 1), RP_E_SHAPE,
            "attention_backward: dv must be f32 [4,4,2]: dy f32 [4,2,4], q f32 [4,4,2], k f32 [4,4,2], v f32 "
            "[4,4,2], y f32 [4,2,4], dk f32 [4,4,2], dv f32 [4,3,2], stats f32 [24], result f32 [4,4,2]");
    args                            = args_of(&a, &p);
    args.attention_backward.k.ne[2] = 3;
    REFUSED(run_workers(rp_cpu_attention_backward, &args, 1), RP_E_SHAPE,
            "attention_backward: heads of q, its dimension 2, must be a multiple of those of k: dy f32 "
            "[4,2,4], q f32 [4,4,2], k f32 [4,4,3], v f32 [4,4,2], y f32 [4,2,4], dk f32 [4,4,2], dv f32 "
            "[4,4,2], stats f32 [24], result f32 [4,4,2]");
    args                          = args_of(&a, &p);
    args.attention_backward.sinks = tensor(RP_F32, a.sinks, 2, 1, 1, 1);
    REFUSED(run_workers(rp_cpu_attention_backward, &args, 1), RP_E_SHAPE,
            "attention_backward: stats must be f32 [32]: dy f32 [4,2,4], q f32 [4,4,2], k f32 [4,4,2], v f32 "
            "[4,4,2], y f32 [4,2,4], dk f32 [4,4,2], dv f32 [4,4,2], stats f32 [24], sinks f32 [2], result "
            "f32 [4,4,2]");
    args                                = args_of(&a, &p);
    args.attention_backward.stats.ne[0] = 8;
    REFUSED(run_workers(rp_cpu_attention_backward, &args, 1), RP_E_SHAPE,
            "attention_backward: stats must be f32 [24]: dy f32 [4,2,4], q f32 [4,4,2], k f32 [4,4,2], v f32 "
            "[4,4,2], y f32 [4,2,4], dk f32 [4,4,2], dv f32 [4,4,2], stats f32 [8], result f32 [4,4,2]");
    attention_free(&a);
}

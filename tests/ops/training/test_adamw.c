/* The op adamw against the formula in double, and against torch.optim.AdamW (tests/golden/adamw.txt). */
#include "tests/support/case.h"
#include "tests/support/kernel_test.h"

typedef struct Optimizer {
    int64_t n;
    float  *p, *g, *m, *v;
    double *p64, *m64, *v64; /* the reference */
} Optimizer;

static Optimizer optimizer_new(int64_t n) {
    Optimizer o = {.n = n, .p = random_floats((size_t)n, 3), .g = random_floats((size_t)n, 4)};
    o.m = calloc((size_t)n, sizeof *o.m), o.v = calloc((size_t)n, sizeof *o.v);
    o.p64 = malloc((size_t)n * sizeof *o.p64);
    o.m64 = calloc((size_t)n, sizeof *o.m64), o.v64 = calloc((size_t)n, sizeof *o.v64);
    for (int64_t i = 0; i < n; i++) o.p64[i] = (double)o.p[i];
    return o;
}

static void optimizer_free(Optimizer *o) {
    free(o->p), free(o->g), free(o->m), free(o->v), free(o->p64), free(o->m64), free(o->v64);
}

static RpOpArgs args_of(const Optimizer *o, const RpOpParams *p) {
    const RpTensorView y = tensor(RP_F32, o->p, o->n, 1, 1, 1);
    return (RpOpArgs){
        .dst    = y,
        .src    = {tensor(RP_F32, o->g, o->n, 1, 1, 1), y, tensor(RP_F32, o->m, o->n, 1, 1, 1),
                   tensor(RP_F32, o->v, o->n, 1, 1, 1)},
        .params = p
    };
}

static void step_in_double(Optimizer *o, const RpAdamwParams *a, int step) {
    const double b1 = (double)a->beta1, b2 = (double)a->beta2, lr = (double)a->lr;
    for (int64_t i = 0; i < o->n; i++) {
        const double g = (double)o->g[i];
        o->p64[i] *= 1.0 - lr * (double)a->weight_decay;
        o->m64[i] += (1.0 - b1) * (g - o->m64[i]);
        o->v64[i]          = b2 * o->v64[i] + (1.0 - b2) * g * g;
        const double denom = sqrt(o->v64[i]) / sqrt(1.0 - pow(b2, step)) + (double)a->eps;
        o->p64[i] -= lr / (1.0 - pow(b1, step)) * o->m64[i] / denom;
    }
}

static void expect_reference(const Optimizer *o, double ulp) {
    for (int64_t i = 0; i < o->n; i++) {
        cr_assert(fabs((double)o->p[i] - o->p64[i]) <= ulp * 0x1p-24 * fmax(1.0, fabs(o->p64[i])), "%d: %.9g, not %.9g",
                  (int)i, (double)o->p[i], o->p64[i]);
        cr_assert(fabs((double)o->m[i] - o->m64[i]) <= ulp * 0x1p-24 * fmax(0.1, fabs(o->m64[i])), CASE(i));
        cr_assert(fabs((double)o->v[i] - o->v64[i]) <= ulp * 0x1p-24 * o->v64[i], CASE(i));
    }
}

Test(adamw, a_step_of_each_size) {
    static const int64_t sizes[] = {1, 31, 33, 1203, 9001};
    const RpOpParams     p       = {
                  .adamw = {0.9f, 0.999f, 1e-8f, 0.01f, 1e-3f, 1}
    };
    for (int k = 0; k < 5; k++) {
        Optimizer      o    = optimizer_new(sizes[k]);
        const RpOpArgs args = args_of(&o, &p);
        run_variants(rp_cpu_adamw, &args);
        step_in_double(&o, &p.adamw, 1);
        expect_reference(&o, 4.0);
        optimizer_free(&o);
    }
}

/* A real one on the device, too: the CUDA kernel has the bits of the CPU's. */
static RpStatus one_step(const RpOpArgs *args, int step) {
#ifdef RP_TEST_CUDA
    if (step % 2 == 0) return cuda_run(rp_cpu_adamw, args, args->dst.data);
#endif
    return run_workers(rp_cpu_adamw, args, 1 + step % 3);
}

/* 1 - lr * weight_decay is exact: a rounding error of it would grow with the steps. */
Test(adamw, a_hundred_steps) {
    enum { STEPS = 100 };
    Optimizer  o = optimizer_new(333);
    RpOpParams p = {
        .adamw = {0.9f, 0.999f, 1e-8f, 0x1p-4f, 0x1p-7f, 0}
    };
    for (int step = 1; step <= STEPS; step++) {
        uint64_t seed = (uint64_t)step;
        for (int64_t i = 0; i < o.n; i++) o.g[i] = random_float(&seed) * (i % 3 == 0 ? 1e-3f : 1.0f);
        p.adamw.step        = step;
        const RpOpArgs args = args_of(&o, &p);
        OK(one_step(&args, step));
        step_in_double(&o, &p.adamw, step);
    }
    expect_reference(&o, 16.0);
    optimizer_free(&o);
}

/* lr and step as data have the bits of lr and step as parameters. Large steps: 1 - beta^step. */
Test(adamw, lr_and_step_may_be_data) {
    static const int32_t steps[] = {1, 7, 1000, 20011, 2000000000};
    for (int k = 0; k < 5; k++) {
        float            lr   = 1e-2f;
        int32_t          step = steps[k];
        Optimizer        a = optimizer_new(100), b = optimizer_new(100);
        const RpOpParams by_value = {
            .adamw = {0.9f, 0.999f, 1e-8f, 0.1f, lr, step}
        };
        const RpOpParams by_data = {
            .adamw = {0.9f, 0.999f, 1e-8f, 0.1f, NAN, -1}
        };
        RpOpArgs first = args_of(&a, &by_value), second = args_of(&b, &by_data);
        second.adamw.lr = tensor(RP_F32, &lr, 1, 1, 1, 1), second.adamw.step = tensor(RP_I32, &step, 1, 1, 1, 1);
        run_variants(rp_cpu_adamw, &first);
        run_variants(rp_cpu_adamw, &second);
        cr_expect_arr_eq(a.p, b.p, 100 * sizeof *a.p, CASE(k));
        step_in_double(&a, &by_value.adamw, step);
        expect_reference(&a, 4.0);
        optimizer_free(&a), optimizer_free(&b);
    }
}

Test(adamw, nan_and_infinity_stay_in_their_element) {
    Optimizer        o = optimizer_new(40);
    const RpOpParams p = {
        .adamw = {0.9f, 0.999f, 1e-8f, 0.01f, 1e-3f, 1}
    };
    o.g[3] = NAN, o.g[5] = INFINITY, o.p[7] = NAN, o.g[9] = 0.0f;
    const RpOpArgs args = args_of(&o, &p);
    OK(run_workers(rp_cpu_adamw, &args, 2));
    for (int i = 0; i < 40; i++) cr_expect_eq(isnan(o.p[i]) != 0, i == 3 || i == 5 || i == 7, CASE(i));
    cr_expect_eq(o.v[5], INFINITY);
    cr_expect(o.m[9] == 0.0f && o.v[9] == 0.0f);
#ifdef RP_TEST_CUDA
    OK(cuda_run(rp_cpu_adamw, &args, o.p));
    for (int i = 0; i < 40; i++) cr_expect_eq(isnan(o.p[i]) != 0, i == 3 || i == 5 || i == 7, CASE(i));
#endif
    optimizer_free(&o);
}

/* A step whose gradients have no finite norm leaves everything as it was. */
Test(adamw, a_norm_that_is_not_finite_skips_the_step) {
    const float      norms[] = {NAN, INFINITY, -INFINITY, 3.0e38f};
    const RpOpParams p       = {
              .adamw = {0.9f, 0.999f, 1e-8f, 0.01f, 1e-3f, 1}
    };
    for (int k = 0; k < 4; k++) {
        float     norm[2] = {norms[k], 0.0f};
        Optimizer o = optimizer_new(100), old = optimizer_new(100);
        o.g[3]          = k < 3 ? NAN : o.g[3];
        RpOpArgs args   = args_of(&o, &p);
        args.adamw.norm = tensor(RP_F32, norm, 2, 1, 1, 1);
        run_variants(rp_cpu_adamw, &args);
        cr_expect_eq(memcmp(o.p, old.p, 100 * sizeof *o.p) == 0, k < 3, CASE(k));
        cr_expect_eq(memcmp(o.m, old.m, 100 * sizeof *o.m) == 0, k < 3, CASE(k));
        cr_expect_eq(memcmp(o.v, old.v, 100 * sizeof *o.v) == 0, k < 3, CASE(k));
        optimizer_free(&o), optimizer_free(&old);
    }
}

static float next_float(char **text) { return strtof(*text, text); }

static void expect_line(FILE *f, const char *what, const float *got, int n) {
    char  *line = NULL, *at;
    size_t size = 0;
    cr_assert_not_null(golden_line(f, &line, &size));
    at = line;
    for (int i = 0; i < n; i++) {
        const double want = (double)next_float(&at);
        cr_assert(fabs((double)got[i] - want) <= 4.0 * 0x1p-23 * fabs(want) + 1e-30, "%s[%d] is %a, not %a", what, i,
                  (double)got[i], want);
    }
    free(line);
}

/* The parameters and gradients of tools/golden/training/golden_adamw.py. */
static void golden_steps(Optimizer *o, RpOpParams *p, int from, int to) {
    for (int step = from; step <= to; step++) {
        for (int i = 0; i < (int)o->n; i++)
            o->g[i] = ldexpf((float)((i * 7919 + step * 104729) % 2048 - 1024), -10 - 4 * (i % 6));
        p->adamw.step       = step;
        const RpOpArgs args = args_of(o, p);
        OK(one_step(&args, step));
    }
}

Test(adamw, has_the_parameters_of_torch) {
    enum { N = 12 };
    FILE      *f    = golden_open("adamw.txt");
    char      *line = NULL;
    size_t     size = 0;
    Optimizer  o    = {0};
    RpOpParams p    = {0};
    int        done = 0, seen = 0;
    while (golden_line(f, &line, &size) != NULL) {
        char *at = line;
        if (strncmp(line, "setting ", 8) == 0) {
            at += 8;
            float *to[] = {&p.adamw.lr, &p.adamw.beta1, &p.adamw.beta2, &p.adamw.eps, &p.adamw.weight_decay};
            for (int i = 0; i < 5; i++) *to[i] = next_float(&at);
            optimizer_free(&o);
            o = optimizer_new(N), done = 0;
            for (int i = 0; i < N; i++) o.p[i] = (float)(i * 37 % 64 - 32) * 0x1p-5f;
            continue;
        }
        const int step = atoi(line + 5);
        golden_steps(&o, &p, done + 1, step);
        expect_line(f, "param", o.p, N), expect_line(f, "m", o.m, N), expect_line(f, "v", o.v, N);
        done = step, seen++;
    }
    cr_expect_eq(seen, 15);
    optimizer_free(&o);
    free(line);
    fclose(f);
}

Test(adamw, refuses_bad_parameters) {
    static const struct {
        RpAdamwParams p;
        const char   *text;
    } bad[] = {
        {{1.0f, 0.9f, 0.0f, 0.0f, 0.1f, 1},  "adamw: beta1 = 1 must be from 0 to below 1"},
        {{0.9f, -0.1f, 0.0f, 0.0f, 0.1f, 1}, "adamw: beta2 = -0.1"                       },
        {{0.9f, 0.9f, -1.0f, 0.0f, 0.1f, 1}, "adamw: eps = -1 must be 0 or more"         },
        {{0.9f, 0.9f, 0.0f, NAN, 0.1f, 1},   "adamw: weight_decay = nan"                 },
        {{0.9f, 0.9f, 0.0f, 0.0f, -0.1f, 1}, "adamw: lr = -0.1"                          },
        {{0.9f, 0.9f, 0.0f, 0.0f, 0.1f, 0},  "adamw: step = 0 must be 1 or more"         },
    };
    Optimizer o = optimizer_new(4);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const RpOpParams p    = {.adamw = bad[i].p};
        const RpOpArgs   args = args_of(&o, &p);
        REFUSED(run_workers(rp_cpu_adamw, &args, 1), RP_E_ARG, bad[i].text);
    }
    optimizer_free(&o);
}

/* A step below 1 that is data is an error on the CPU; the kernel on a GPU cannot return one, and all becomes NaN. */
Test(adamw, refuses_other_shapes_and_steps) {
    Optimizer        o    = optimizer_new(4);
    int32_t          step = 0;
    const RpOpParams p    = {
           .adamw = {0.9f, 0.999f, 1e-8f, 0.01f, 1e-3f, 1}
    };
    RpOpArgs args   = args_of(&o, &p);
    args.adamw.step = tensor(RP_I32, &step, 1, 1, 1, 1);
    REFUSED(run_workers(rp_cpu_adamw, &args, 1), RP_E_ARG, "adamw: step 0: must be at least 1");
#ifdef RP_TEST_CUDA
    OK(cuda_run(rp_cpu_adamw, &args, o.p));
    cr_expect(isnan(o.p[0]) && isnan(o.p[3]));
#endif
    args.adamw.v = tensor(RP_F32, o.v, 3, 1, 1, 1);
    REFUSED(run_workers(rp_cpu_adamw, &args, 1), RP_E_SHAPE,
            "adamw: v must be f32 [4]: grad f32 [4], param f32 [4], m f32 [4], v f32 [3], step i32 [1], "
            "result f32 [4]");
    args.adamw.v     = tensor(RP_F32, o.v, 4, 1, 1, 1);
    args.adamw.param = tensor(RP_F32, o.g, 4, 1, 1, 1);
    REFUSED(run_workers(rp_cpu_adamw, &args, 1), RP_E_ARG,
            "adamw: the result must be the memory of param: grad f32 [4], param f32 [4], m f32 [4], v f32 "
            "[4], step i32 [1], result f32 [4]");
    optimizer_free(&o);
}

/* The op route_backward against differences of route in double, for each combination of its steps. */
#include "tests/support/slope.h"

enum { N = 9, K = 3, TOKENS = 4 };

typedef struct Route {
    double        probs[N * TOKENS], dy[K * TOKENS];
    int32_t       ids[K * TOKENS];
    RpRouteParams p;
} Route;

/* The weights of a token. */
static void weights_of(const Route *r, int t, double *w) {
    double sum = 0.0;
    for (int j = 0; j < K; j++) {
        const int32_t id = r->ids[t * K + j];
        w[j]             = id >= 0 && id < N ? r->probs[t * N + id] : 0.0;
    }
    for (int j = 0; j < K && r->p.soft_max; j++) sum += w[j] = exp(w[j]);
    for (int j = 0; j < K && r->p.soft_max; j++) w[j] /= sum;
    sum = 0.0;
    for (int j = 0; j < K; j++) sum += w[j];
    for (int j = 0; j < K; j++) w[j] *= (double)r->p.scale / (r->p.normalize ? fmax(sum, 0x1p-14) : 1.0);
}

static double loss(const void *of) {
    const Route *r = of;
    double       w[K], sum = 0.0;
    for (int t = 0; t < TOKENS; t++) {
        weights_of(r, t, w);
        for (int j = 0; j < K; j++) sum += r->dy[t * K + j] * w[j];
    }
    return sum;
}

static void check(RpRouteParams route, float size) {
    float           *probs = random_floats(N * TOKENS, 1), *dy = random_floats(K * TOKENS, 2), dx[N * TOKENS];
    double           want[N * TOKENS];
    Route            r = {.p = route};
    const RpOpParams p = {.route_backward = route};
    for (int i = 0; i < N * TOKENS; i++) probs[i] = size * (0.1f + fabsf(probs[i])), r.probs[i] = (double)probs[i];
    for (int i = 0; i < K * TOKENS; i++) {
        r.dy[i]  = (double)dy[i];
        r.ids[i] = (i % K * 2 + i / K) % N;
    }
    r.ids[4] = -1, r.ids[8] = N;
    const RpOpArgs args = {
        .dst    = tensor(RP_F32, dx, N, TOKENS, 1, 1),
        .src    = {tensor(RP_F32, dy, K, TOKENS, 1, 1), tensor(RP_F32, probs, N, TOKENS, 1, 1),
                   tensor(RP_I32, r.ids, K, TOKENS, 1, 1)},
        .params = &p
    };
    run_variants(rp_cpu_route_backward, &args);
    for (int i = 0; i < N * TOKENS; i++) {
        const double at = r.probs[i], h = 1e-4 * at;
        r.probs[i]        = at + h;
        const double more = loss(&r);
        r.probs[i]        = at - h;
        want[i]           = (more - loss(&r)) / (2.0 * h);
        r.probs[i]        = at;
    }
    expect_near(dx, want, N * TOKENS, 2e-6);
    free(probs), free(dy);
}

Test(route_backward, is_the_slope_of_route) {
    for (int k = 0; k < 4; k++)
        check((RpRouteParams){.soft_max = k % 2 != 0, .normalize = k / 2 != 0, .scale = 1.5f}, 1.0f);
}

/* The sum is below 2^-14, by which the values are divided then. */
Test(route_backward, a_small_sum_is_a_constant) { check((RpRouteParams){.normalize = true, .scale = 1.0f}, 1e-6f); }

Test(route_backward, refuses_other_ids) {
    float            a[8]   = {0}, b[8];
    int32_t          ids[4] = {0};
    const RpOpParams p      = {.route_backward = {.scale = 1.0f}};
    const RpOpArgs   args   = {
            .dst    = tensor(RP_F32, b, 4, 2, 1, 1),
            .src    = {tensor(RP_F32, a, 2, 2, 1, 1), tensor(RP_F32, a, 4, 2, 1, 1), tensor(RP_I32, ids, 1, 2, 1, 1)},
            .params = &p
    };
    REFUSED(run_workers(rp_cpu_route_backward, &args, 1), RP_E_SHAPE,
            "route_backward: ids must be i32 [2,2]: dy f32 [2,2], probs f32 [4,2], ids i32 [1,2], result f32 "
            "[4,2]");
}

/* When workers spin briefly: after waits that another program has caused, and not after other long ones. */
#include "base/clock.h"
#include "executor/pool.h"
#include "tests/support/golden.h"
#include "tests/support/hang.h"

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

TestSuite(pool_waits, .init = end_if_it_hangs);

enum { ROUNDS = 6 };

typedef struct Rounds {
    ThreadPool *pool;
    int         n_brief; /* rounds at whose end waits were brief */
    bool        sleeps;
} Rounds;

/* Each worker uses a core for 0.2 ms. With `sleeps` the last worker sleeps for a millisecond instead, and the others
 * wait for it. */
static RpStatus rounds(void *arg, int ith, int nth) {
    Rounds *r = arg;
    for (int i = 0; i < ROUNDS; i++) {
        const double end = rp_seconds() + 200e-6;
        if (r->sleeps && ith == nth - 1) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        while (!r->sleeps && rp_seconds() < end) continue;
        RP_TRY(rp_pool_barrier(r->pool, RP_OK));
        if (ith == 0) r->n_brief += rp_pool_is_brief(r->pool);
    }
    return RP_OK;
}

/* If another program uses a core of this machine during a try, waits are rightly brief. So the test tries again, until
 * no program does. */
Test(pool_waits, for_a_worker_that_sleeps_are_not_lost) {
    Rounds r = {.sleeps = true, .n_brief = 1};
    if (access("/proc/self/schedstat", R_OK) != 0) cr_skip_test("the system has no /proc/self/schedstat");
    for (int i = 0; i < 1000 && r.n_brief > 0; i++) {
        r.n_brief = 0;
        OK(rp_pool_new(2, 20, &r.pool));
        OK(rp_pool_run(r.pool, rounds, &r));
        rp_pool_free(r.pool);
    }
    cr_expect_eq(r.n_brief, 0, "%d rounds of the last try were brief", r.n_brief);
}

static pid_t spinning_child(void) {
    const pid_t child = fork();
    cr_assert_geq(child, 0);
    if (child == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) continue;
    }
    return child;
}

/* Two workers and three other processes on one core. */
Test(pool_waits, beside_other_programs_are_brief) {
    Rounds    r = {0};
    cpu_set_t one;
    pid_t     others[3];
    CPU_ZERO(&one);
    CPU_SET((size_t)sched_getcpu(), &one);
    cr_assert_eq(sched_setaffinity(0, sizeof one, &one), 0);
    for (int i = 0; i < 3; i++) others[i] = spinning_child();
    OK(rp_pool_new(2, 20, &r.pool));
    while (r.n_brief == 0) OK(rp_pool_run(r.pool, rounds, &r));
    for (int i = 0; i < 3; i++) kill(others[i], SIGKILL), waitpid(others[i], NULL, 0);
    rp_pool_free(r.pool);
}

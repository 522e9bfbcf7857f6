/* The host functions of nn.h from several threads at once; tests/nn/test_nn.py compares each function with NumPy. */
#include "reprise/nn.h"
#include "tests/support/case.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N = 100000, THREADS = 4, ROUNDS = 20 };

static float *numbers(void) {
    float *x = malloc(N * sizeof *x);
    for (int i = 0; i < N; i++) x[i] = (float)(i % 1000) * 0.01f - 5.0f;
    return x;
}

typedef struct Caller {
    const float *x, *wanted;
    int          different;
} Caller;

/* Calls that find the pool in use compute alone. */
static void *call_often(void *arg) {
    Caller *c = arg;
    float  *y = malloc(N * sizeof *y);
    for (int i = 0; i < ROUNDS; i++) {
        memset(y, 0, N * sizeof *y);
        if (rp_nn_cpu_silu(c->x, y, N, NULL) != RP_NN_OK) c->different++;
        if (memcmp(y, c->wanted, N * sizeof *y) != 0) c->different++;
    }
    free(y);
    return NULL;
}

Test(nn, calls_at_the_same_time_have_the_same_bits) {
    float    *x = numbers(), *wanted = malloc(N * sizeof *wanted);
    pthread_t threads[THREADS];
    Caller    callers[THREADS];
    for (int i = 0; i < N; i += 1000) /* short calls use the thread of the caller */
        cr_assert_eq(rp_nn_cpu_silu(x + i, wanted + i, 1000, NULL), RP_NN_OK, CASE(i));
    for (int i = 0; i < THREADS; i++) {
        callers[i] = (Caller){x, wanted, 0};
        cr_assert_eq(pthread_create(&threads[i], NULL, call_often, &callers[i]), 0, CASE(i));
    }
    for (int i = 0; i < THREADS; i++) {
        cr_assert_eq(pthread_join(threads[i], NULL), 0, CASE(i));
        cr_expect_eq(callers[i].different, 0, CASE(i));
    }
    free(wanted);
    free(x);
}

/* In a process of its own: the instruction set is asked for once. */
Test(nn, an_unknown_instruction_set_is_an_error) {
    float x[4] = {1, 2, 3, 4};
    int   status;
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        setenv("REPRISE_ISA", "avx9", 1);
        const bool refused = rp_nn_cpu_scale(x, x, 4, 2.0f, NULL) == RP_NN_INVALID_ARGUMENT &&
                             strncmp(rp_nn_last_error(), "REPRISE_ISA=avx9: must be ", 26) == 0 && x[0] == 1.0f;
        unsetenv("REPRISE_ISA");
        _exit(refused && rp_nn_cpu_scale(x, x, 4, 2.0f, NULL) == RP_NN_OK ? 0 : 1);
    }
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

Test(nn, a_bad_number_of_threads_is_an_error) {
    float *x = numbers();
    cr_assert_eq(setenv("REPRISE_THREADS", "many", 1), 0);
    cr_expect_eq(rp_nn_cpu_scale(x, x, N, 2.0f, NULL), RP_NN_INVALID_ARGUMENT);
    cr_expect_str_eq(rp_nn_last_error(), "REPRISE_THREADS='many': must be a number from 0 to 512");
    cr_assert_eq(setenv("REPRISE_THREADS", "2", 1), 0);
    cr_expect_eq(rp_nn_cpu_scale(x, x, N, 2.0f, NULL), RP_NN_OK);
    cr_expect_eq(x[0], -10.0f);
    free(x);
}

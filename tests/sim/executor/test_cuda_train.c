/* Training on the simulated device: a step is one launch of a captured graph for each micro-batch, with the bits
 * of eager launches. */
#include "sim/device/sim.h"
#include "tests/support/case.h"
#include "tests/trainer/training.h"

static void expect_replay(const char *name, int accumulate) {
    RpTrainOptions o = {
        .batch = 1, .seq = 6, .lr = 1e-3f, .accumulate = accumulate, .aux_loss = 0.01f, .device = "cuda"};
    RpModel      *m[2];
    RpTrainer    *t[2];
    RpTrainResult r[2];
    for (int i = 0; i < 2; i++) {
        o.mode          = i == 0 ? RP_MODE_EAGER : RP_MODE_REPLAY;
        o.require_graph = i > 0;
        t[i]            = train_open(name, &o, &m[i]);
        cr_expect_eq(rp_trainer_info(t[i]).mode, o.mode, CASE(i));
        (void)train_steps(t[i], m[i], &o, 1);
        const SimStats before = sim_stats();
        r[i]                  = train_steps(t[i], m[i], &o, 3);
        const SimStats after  = sim_stats();
        cr_expect_eq(after.graph_launches - before.graph_launches, i == 0 ? 0u : 2u * (unsigned)accumulate, CASE(i));
        cr_expect_eq(after.allocs, before.allocs, CASE(i));
        cr_expect(i == 0 || after.launch_calls == before.launch_calls, "kernels were launched one by one");
    }
    cr_expect(r[0].loss == r[1].loss && r[0].grad_norm == r[1].grad_norm);
    train_expect_equal(t[0], t[1], name);
    for (int i = 0; i < 2; i++) train_close(t[i], m[i]);
}

Test(cuda_train, a_step_is_one_launch) {
    expect_replay("llama-f32", 1);
    expect_replay("qwen3moe-f32", 1);
}

Test(cuda_train, a_step_of_micro_batches_is_one_launch_each) { expect_replay("llama-f32", 3); }

/* The device holds as much as rp_trainer_memory says, but for scratch memory of kernels and the padding of
 * states. */
Test(cuda_train, takes_the_memory_that_was_planned) {
    const RpTrainOptions o = {.batch = 4, .seq = 32, .device = "cuda"};
    RpTrainMemory        memory;
    RpModel             *m;
    RpTrainer           *t = train_open("llama-f32", &o, &m);
    OK(rp_trainer_memory(m, &o, &memory));
    const size_t held = rp_trainer_info(t).device_bytes;
    cr_log_info("planned %zu, held %zu", memory.total, held);
    cr_expect(held + 4096 >= memory.total && held <= memory.total + (1 << 20), "planned %zu, held %zu", memory.total,
              held);
    train_close(t, m);
}

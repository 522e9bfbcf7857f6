/* Options, tokens and models with which no trainer is opened, and the texts that say why. */
#include "tests/support/case.h"
#include "tests/trainer/training.h"

#include "reprise/convert.h"

static const RpTrainOptions small = {
    .batch = 2, .seq = 8, .lr = 3e-3f, .warmup = 2, .weight_decay = 0.1f, .aux_loss = 0.02f, .n_threads = 2};

Test(train_refused, refuses_bad_options) {
    static const struct {
        RpTrainOptions o;
        RpStatus       status;
        const char    *text;
    } bad[] = {
        {{.batch = -1},                        RP_E_ARG,         "training: batch = -1: must be 0 or more"                                         },
        {{.seq = -4},                          RP_E_ARG,         "training: seq = -4"                                                              },
        {{.seq = 513},                         RP_E_ARG,         "training: seq = 513: the model is made for at most 512 positions"                },
        {{.batch = 1 << 20, .seq = 512},
         RP_E_ARG,                                               "training: batch = 1048576, seq = 512: must be at most 16777216 tokens together"  },
        {{.accumulate = -1},                   RP_E_ARG,         "training: accumulate = -1"                                                       },
        {{.n_steps = -1},                      RP_E_ARG,         "training: n_steps = -1"                                                          },
        {{.warmup = -1},                       RP_E_ARG,         "training: warmup = -1"                                                           },
        {{.lr = -1e-3f},                       RP_E_ARG,         "training: lr = -0.001: must be 0 or more"                                        },
        {{.lr = NAN},                          RP_E_ARG,         "training: lr = nan"                                                              },
        {{.lr = INFINITY},                     RP_E_ARG,         "training: lr is infinite"                                                        },
        {{.lr_end = -1.0f},                    RP_E_ARG,         "training: lr_end = -1"                                                           },
        {{.beta1 = 1.0f},                      RP_E_ARG,         "training: beta1 = 1, beta2 = 0: must be less than 1"                             },
        {{.beta2 = -0.5f},                     RP_E_ARG,         "training: beta2 = -0.5"                                                          },
        {{.eps = -1.0f},                       RP_E_ARG,         "training: eps = -1"                                                              },
        {{.weight_decay = -1.0f},              RP_E_ARG,         "training: weight_decay = -1"                                                     },
        {{.max_norm = NAN},                    RP_E_ARG,         "training: max_norm = nan"                                                        },
        {{.aux_loss = INFINITY},               RP_E_ARG,         "training: aux_loss is infinite"                                                  },
        {{.schedule = (RpTrainSchedule)7},     RP_E_ARG,         "training: there is no schedule 7"                                                },
        {{.schedule = RP_TRAIN_COSINE},
         RP_E_ARG,                                               "training: n_steps = 0, warmup = 0: a cosine needs more steps than the warm-up"   },
        {{.compute = RP_F16},                  RP_E_UNSUPPORTED, "training: compute = f16: only f32 and bf16 are supported"                        },
        {{.compute = RP_BF16, .lora_rank = 2},
         RP_E_UNSUPPORTED,                                       "training: compute = bf16 with lora_rank = 2: the weights stay as they are stored"},
        {{.lora_rank = -1},                    RP_E_ARG,         "training: lora_rank = -1"                                                        },
        {{.lora_rank = 65},                    RP_E_ARG,         "training: lora_rank = 65: must be at most 64, the model's width"                 },
        {{.lora_alpha = INFINITY},             RP_E_ARG,         "training: lora_alpha is infinite"                                                },
    };
    RpModel *m = golden_open_tiny("llama-f32");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        RpTrainer    *t = NULL;
        RpTrainMemory memory;
        REFUSED(rp_trainer_open(m, &bad[i].o, &t), bad[i].status, bad[i].text);
        cr_expect_null(t, CASE(i));
        REFUSED(rp_trainer_memory(m, &bad[i].o, &memory), bad[i].status, bad[i].text);
    }
    rp_model_free(m);
}

Test(train_refused, refuses_tokens_outside_of_the_vocabulary) {
    int32_t    tokens[18] = {0};
    double     loss;
    RpModel   *m;
    RpTrainer *t = train_open("llama-f32", &small, &m);
    tokens[12]   = 64;
    REFUSED(rp_trainer_step(t, tokens, NULL), RP_E_ARG,
            "training: token 64 at 3 of sequence 1 is outside of the vocabulary of 64");
    REFUSED(rp_trainer_evaluate(t, tokens, 2, &loss), RP_E_ARG, "token 64 at 3 of sequence 1");
    tokens[12] = -2;
    REFUSED(rp_trainer_step(t, tokens, NULL), RP_E_ARG, "token -2 at 3 of sequence 1");
    REFUSED(rp_trainer_evaluate(t, tokens, 0, &loss), RP_E_ARG, "no token to learn: 0 sequences");
    cr_expect_eq(rp_trainer_n_steps(t), 0);
    train_close(t, m);
}

Test(train_refused, refuses_what_does_not_fit) {
    RpTrainer           *t;
    RpModel             *m;
    const RpTrainOptions o = {.batch = 1, .seq = 64};
    OK(rp_model_open_preset("mixtral-8x7b", "Q8_0", &m));
    REFUSED(rp_trainer_open(m, &o, &t), RP_E_NOMEM, "186.8 GB for the weights in f32, 373.6 GB for the optimiser");
    double    gb[6];
    char      device[32];
    const int n =
        sscanf(rp_last_error(),
               "training 1 sequences of 64 tokens takes %lf GB: %lf GB for the weights in f32, %lf GB for the "
               "optimiser, %lf GB for gradients, %lf GB for activations; %lf GB are free on %31s",
               &gb[0], &gb[1], &gb[2], &gb[3], &gb[4], &gb[5], device);
    cr_expect_eq(n, 7, "%s", rp_last_error());
    cr_expect_float_eq(gb[0], gb[1] + gb[2] + gb[3] + gb[4], 0.3, "%s", rp_last_error());
    rp_model_free(m);
}

Test(train_refused, refuses_encoders) {
    RpModel             *m;
    RpTrainer           *t;
    const RpTrainOptions o = {.batch = 1, .seq = 8};
    OK(rp_model_open(GOLDEN_DIR "embed/bert-f32.gguf", NULL, &m));
    REFUSED(rp_trainer_open(m, &o, &t), RP_E_UNSUPPORTED,
            "training: " GOLDEN_DIR "embed/bert-f32.gguf attends to later positions: it can only be run");
    rp_model_free(m);
}

Test(train_refused, refuses_assistants) {
    RpModel             *m = golden_open_tiny("../assistant/gemma4-f32");
    RpTrainer           *t;
    const RpTrainOptions o = {.batch = 1, .seq = 8};
    REFUSED(rp_trainer_open(m, &o, &t), RP_E_UNSUPPORTED,
            "training: " GOLDEN_DIR
            "tiny/../assistant/gemma4-f32.gguf guesses tokens of another model: it can only be run");
    rp_model_free(m);
}

Test(train_refused, refuses_soft_caps) {
    RpModel             *m = golden_open_tiny("gemma2-f32");
    RpTrainer           *t;
    const RpTrainOptions o = {.batch = 1, .seq = 8};
    REFUSED(rp_trainer_open(m, &o, &t), RP_E_UNSUPPORTED,
            "training: " GOLDEN_DIR "tiny/gemma2-f32.gguf has soft caps of scores or logits: it can only be run");
    rp_model_free(m);
}

/* A file of gemma4 without a cap. */
static void refuse_gemma4(const char *name, const char *text) {
    static const char    key[] = "gemma4.final_logit_softcapping";
    size_t               n;
    char                *data = golden_read_tiny(name, &n), *at = memmem(data, n, key, sizeof key - 1);
    RpModel             *m;
    RpTrainer           *t;
    const RpTrainOptions o = {.batch = 1, .seq = 8};
    cr_assert_not_null(at);
    memset(at + sizeof key - 1 + 4, 0, sizeof(float)); /* behind the type */
    OK(rp_model_open_memory(data, n, "g.gguf", &m));
    REFUSED(rp_trainer_open(m, &o, &t), RP_E_UNSUPPORTED, text);
    rp_model_free(m);
    free(data);
}

Test(train_refused, refuses_layers_that_share_caches) {
    refuse_gemma4("gemma4-f32",
                  "training: layers from 4 on of g.gguf read the keys and values of layers before: it can only be run");
}

Test(train_refused, refuses_experts_beside_dense_layers) {
    refuse_gemma4("gemma4-moe-f32", "training: g.gguf has experts beside dense layers: it can only be run");
}

Test(train_refused, refuses_scales_of_whole_weights) {
    RpModel             *m = golden_open_tiny("llama-nvfp4-scaled");
    RpTrainer           *t;
    const RpTrainOptions o = {.batch = 1, .seq = 8};
    REFUSED(rp_trainer_open(m, &o, &t), RP_E_UNSUPPORTED,
            "training: " GOLDEN_DIR
            "tiny/llama-nvfp4-scaled.gguf has a scale of the tensor blk.0.attn_q.weight: it can only be run");
    rp_model_free(m);
}

Test(train_refused, refuses_tensors_that_join_several) {
    RpModel                    *m = golden_open_tiny("phi3-f32");
    RpTrainer                  *t;
    static const RpTrainOptions lora = {.batch = 1, .seq = 8, .lora_rank = 2}, all = {.batch = 1, .seq = 8};
    for (int i = 0; i < 2; i++)
        REFUSED(
            rp_trainer_open(m, i == 0 ? &all : &lora, &t), RP_E_UNSUPPORTED,
            "training: " GOLDEN_DIR
            "tiny/phi3-f32.gguf joins several matrices in one tensor (blk.0.attn_qkv.weight:q): it can only be run");
    rp_model_free(m);
}

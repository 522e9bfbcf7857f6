/* The families of models: the keys and names of tensors that each has in addition to config.c. A family that recombines
 * known keys and names is one row of the table. */
#include "model/hf/hf.h"

/* The rows of arch_table.c leave RoPE out in each fourth layer; a list in config.json must agree. */
static RpStatus smollm3(HfModel *m) {
    const JsonNode *list = rp_hf_value(m, "no_rope_layers");
    uint32_t        interval, i = 0;
    RP_TRY(rp_hf_count(m, "no_rope_layer_interval", 4, &interval));
    if (list != NULL && (list->type != JSON_ARRAY || list->n != (uint32_t)m->n_layer))
        return rp_fail(RP_E_FORMAT, "%s: no_rope_layers is not a list of %d numbers", m->config.path, m->n_layer);
    if (list == NULL && interval != 4) return rp_hf_refuse(m, "no_rope_layer_interval", "another interval than 4");
    for (const JsonNode *x = rp_json_first(&m->config, list); x != NULL; x = rp_json_next(&m->config, list, x)) {
        if (x->type != JSON_NUMBER)
            return rp_fail(RP_E_FORMAT, "%s: no_rope_layers is not a list of %d numbers", m->config.path, m->n_layer);
        if ((rp_json_number(&m->config, x) != 0.0) != (++i % 4 != 0))
            return rp_hf_refuse(m, "no_rope_layers", "another pattern than each fourth layer");
    }
    return RP_OK;
}

static const HfName gemma_names[] = {
    {"post_attention_layernorm",   "post_attention_norm"},
    {"pre_feedforward_layernorm",  "ffn_norm"           },
    {"post_feedforward_layernorm", "post_ffw_norm"      },
    {NULL,                         NULL                 }
};

static const HfName olmo2_names[] = {
    {"post_attention_layernorm",   "post_attention_norm"},
    {"post_feedforward_layernorm", "post_ffw_norm"      },
    {NULL,                         NULL                 }
};

static const HfName seed_oss_names[] = {
    {"post_attention_layernorm", "post_attention_norm"},
    {NULL,                       NULL                 }
};

static const HfName hunyuan_names[] = {
    {"self_attn.query_layernorm", "attn_q_norm"},
    {"self_attn.key_layernorm",   "attn_k_norm"},
    {NULL,                        NULL         }
};

static const HfName hunyuan_moe_names[] = {
    {"self_attn.query_layernorm", "attn_q_norm"   },
    {"self_attn.key_layernorm",   "attn_k_norm"   },
    {"mlp.gate.wg",               "ffn_gate_inp"  },
    {"mlp.shared_mlp.gate_proj",  "ffn_gate_shexp"},
    {"mlp.shared_mlp.up_proj",    "ffn_up_shexp"  },
    {"mlp.shared_mlp.down_proj",  "ffn_down_shexp"},
    {NULL,                        NULL            }
};

static const HfName ling_names[] = {
    {"attention.query_key_value",    "attn_qkv"      },
    {"attention.dense",              "attn_output"   },
    {"attention.query_layernorm",    "attn_q_norm"   },
    {"attention.key_layernorm",      "attn_k_norm"   },
    {"mlp.shared_experts.gate_proj", "ffn_gate_shexp"},
    {"mlp.shared_experts.up_proj",   "ffn_up_shexp"  },
    {"mlp.shared_experts.down_proj", "ffn_down_shexp"},
    {NULL,                           NULL            }
};

static const HfName phi3_names[] = {
    {"self_attn.qkv_proj", "attn_qkv"},
    {"mlp.gate_up_proj",   "ffn_up"  },
    {NULL,                 NULL      }
};

static const HfName glm4_names[] = {
    {"post_self_attn_layernorm", "post_attention_norm"},
    {"post_mlp_layernorm",       "post_ffw_norm"      },
    {"mlp.gate_up_proj",         "ffn_up"             },
    {NULL,                       NULL                 }
};

static const HfName ernie_moe_names[] = {
    {"mlp.shared_experts.gate_proj", "ffn_gate_shexp"},
    {"mlp.shared_experts.up_proj",   "ffn_up_shexp"  },
    {"mlp.shared_experts.down_proj", "ffn_down_shexp"},
    {NULL,                           NULL            }
};

#define EXPERTS "block_sparse_moe."
static const HfPart granite_moe_parts[] = {
    {EXPERTS "input_linear.weight",     "ffn_gate_exps.weight",  FORM_GATE_ROWS, -1},
    {EXPERTS "input_linear.weight",     "ffn_up_exps.weight",    FORM_UP_ROWS,   -1},
    {EXPERTS "output_linear.weight",    "ffn_down_exps.weight",  FORM_WHOLE,     -1},
    {EXPERTS "router.layer.weight",     "ffn_gate_inp.weight",   FORM_WHOLE,     -1},
    {"shared_mlp.input_linear.weight",  "ffn_gate_shexp.weight", FORM_GATE_ROWS, -1},
    {"shared_mlp.input_linear.weight",  "ffn_up_shexp.weight",   FORM_UP_ROWS,   -1},
    {"shared_mlp.output_linear.weight", "ffn_down_shexp.weight", FORM_WHOLE,     -1},
    HF_SCAN_PARTS("mamba."),
    {NULL,                              NULL,                    FORM_WHOLE,     -1}
};

static const HfName deepseek_names[] = {
    {"self_attn.q_a_proj",           "attn_q_a"      },
    {"self_attn.q_a_layernorm",      "attn_q_a_norm" },
    {"self_attn.q_b_proj",           "attn_q_b"      },
    {"self_attn.kv_a_proj_with_mqa", "attn_kv_a_mqa" },
    {"self_attn.kv_a_layernorm",     "attn_kv_a_norm"},
    {"mlp.shared_experts.gate_proj", "ffn_gate_shexp"},
    {"mlp.shared_experts.up_proj",   "ffn_up_shexp"  },
    {"mlp.shared_experts.down_proj", "ffn_down_shexp"},
    {NULL,                           NULL            }
};

static const HfPart deepseek_parts[] = {
    {"self_attn.kv_b_proj.weight", "attn_k_b.weight", FORM_LATENT_KEYS,   -1},
    {"self_attn.kv_b_proj.weight", "attn_v_b.weight", FORM_LATENT_VALUES, -1},
    {NULL,                         NULL,              FORM_WHOLE,         -1}
};

static const HfName gpt_oss_names[] = {
    {"post_attention_layernorm", "post_attention_norm"},
    {"mlp.router",               "ffn_gate_inp"       },
    {NULL,                       NULL                 }
};

static const HfPart gpt_oss_parts[] = {
    {"mlp.experts.gate_up_proj",        "ffn_gate_exps.weight",       FORM_GATE_COLUMNS, -1},
    {"mlp.experts.gate_up_proj",        "ffn_up_exps.weight",         FORM_UP_COLUMNS,   -1},
    {"mlp.experts.down_proj",           "ffn_down_exps.weight",       FORM_TRANSPOSED,   -1},
    {"mlp.experts.gate_up_proj_bias",   "ffn_gate_exps.bias",         FORM_EVEN,         -1},
    {"mlp.experts.gate_up_proj_bias",   "ffn_up_exps.bias",           FORM_ODD,          -1},
    {"mlp.experts.down_proj_bias",      "ffn_down_exps.bias",         FORM_WHOLE,        -1},
    {"mlp.experts.gate_up_proj_blocks", "ffn_gate_exps.weight",       FORM_MXFP4_EVEN,   -1},
    {"mlp.experts.gate_up_proj_blocks", "ffn_up_exps.weight",         FORM_MXFP4_ODD,    -1},
    {"mlp.experts.down_proj_blocks",    "ffn_down_exps.weight",       FORM_MXFP4,        -1},
    {"mlp.experts.gate_up_proj_scales", "ffn_gate_exps.weight#scale", FORM_WHOLE,        -1},
    {"mlp.experts.gate_up_proj_scales", "ffn_up_exps.weight#scale",   FORM_WHOLE,        -1},
    {"mlp.experts.down_proj_scales",    "ffn_down_exps.weight#scale", FORM_WHOLE,        -1},
    {NULL,                              NULL,                         FORM_WHOLE,        -1}
};

static const HfName delta_names[] = {
    {"post_attention_layernorm", "post_attention_norm"},
    {"linear_attn.norm",         "ssm_norm"           },
    {NULL,                       NULL                 }
};

static const HfPart qwen3next_parts[] = {
    {"linear_attn.in_proj_qkvz.weight", "attn_qkv.weight",   FORM_DELTA_Q, 0 },
    {"linear_attn.in_proj_qkvz.weight", "attn_qkv.weight",   FORM_DELTA_K, 1 },
    {"linear_attn.in_proj_qkvz.weight", "attn_qkv.weight",   FORM_DELTA_V, 2 },
    {"linear_attn.in_proj_qkvz.weight", "attn_gate.weight",  FORM_DELTA_Z, -1},
    {"linear_attn.in_proj_ba.weight",   "ssm_ba.weight",     FORM_WHOLE,   -1},
    {"linear_attn.conv1d.weight",       "ssm_conv1d.weight", FORM_CONV,    -1},
    {"linear_attn.A_log",               "ssm_a",             FORM_DECAY,   -1},
    {"linear_attn.dt_bias",             "ssm_dt.bias",       FORM_WHOLE,   -1},
    {"linear_attn.out_proj.weight",     "ssm_out.weight",    FORM_WHOLE,   -1},
    {NULL,                              NULL,                FORM_WHOLE,   -1}
};

static const HfPart qwen35_parts[] = {
    {"linear_attn.in_proj_qkv.weight", "attn_qkv.weight",         FORM_KEY_ROWS,      0 },
    {"linear_attn.in_proj_qkv.weight", "attn_qkv.weight",         FORM_VALUE_ROWS,    1 },
    {"linear_attn.in_proj_z.weight",   "attn_gate.weight",        FORM_TILED_ROWS,    -1},
    {"linear_attn.in_proj_b.weight",   "ssm_beta.weight",         FORM_TILED_ROWS,    -1},
    {"linear_attn.in_proj_a.weight",   "ssm_alpha.weight",        FORM_TILED_ROWS,    -1},
    {"linear_attn.conv1d.weight",      "ssm_conv1d.weight",       FORM_KEY_ROWS,      0 },
    {"linear_attn.conv1d.weight",      "ssm_conv1d.weight",       FORM_VALUE_ROWS,    1 },
    {"linear_attn.A_log",              "ssm_a",                   FORM_TILED_DECAY,   -1},
    {"linear_attn.dt_bias",            "ssm_dt.bias",             FORM_TILED,         -1},
    {"linear_attn.out_proj.weight",    "ssm_out.weight",          FORM_TILED_COLUMNS, -1},
    {"mlp.experts.gate_up_proj",       "ffn_gate_up_exps.weight", FORM_WHOLE,         -1},
    {"mlp.experts.down_proj",          "ffn_down_exps.weight",    FORM_WHOLE,         -1},
    {NULL,                             NULL,                      FORM_WHOLE,         -1}
};

static const HfName lfm2_names[] = {
    {"operator_norm",         "attn_norm"         },
    {"ffn_norm",              "ffn_norm"          },
    {"self_attn.out_proj",    "attn_output"       },
    {"self_attn.q_layernorm", "attn_q_norm"       },
    {"self_attn.k_layernorm", "attn_k_norm"       },
    {"conv.in_proj",          "shortconv.in_proj" },
    {"conv.out_proj",         "shortconv.out_proj"},
    {"feed_forward.w1",       "ffn_gate"          },
    {"feed_forward.w3",       "ffn_up"            },
    {"feed_forward.w2",       "ffn_down"          },
    {"feed_forward.gate",     "ffn_gate_inp"      },
    {NULL,                    NULL                }
};

static const HfPart lfm2_parts[] = {
    {"conv.conv.weight", "shortconv.conv.weight", FORM_TAPS,  -1},
    {NULL,               NULL,                    FORM_WHOLE, -1}
};

static const HfName granite_hybrid_names[] = {
    {"mamba.conv1d",   "ssm_conv1d"},
    {"mamba.in_proj",  "ssm_in"    },
    {"mamba.out_proj", "ssm_out"   },
    {NULL,             NULL        }
};

static const HfName nemotron_h_names[] = {
    {"norm",                           "attn_norm"      },
    {"mixer.q_proj",                   "attn_q"         },
    {"mixer.k_proj",                   "attn_k"         },
    {"mixer.v_proj",                   "attn_v"         },
    {"mixer.o_proj",                   "attn_output"    },
    {"mixer.conv1d",                   "ssm_conv1d"     },
    {"mixer.in_proj",                  "ssm_in"         },
    {"mixer.out_proj",                 "ssm_out"        },
    {"mixer.up_proj",                  "ffn_up"         },
    {"mixer.down_proj",                "ffn_down"       },
    {"mixer.gate",                     "ffn_gate_inp"   },
    {"mixer.fc1_latent_proj",          "ffn_latent_down"},
    {"mixer.fc2_latent_proj",          "ffn_latent_up"  },
    {"mixer.shared_experts.up_proj",   "ffn_up_shexp"   },
    {"mixer.shared_experts.down_proj", "ffn_down_shexp" },
    {NULL,                             NULL             }
};

static const HfName falcon_h1_names[] = {
    {"mamba.conv1d",           "ssm_conv1d"},
    {"mamba.in_proj",          "ssm_in"    },
    {"mamba.out_proj",         "ssm_out"   },
    {"feed_forward.gate_proj", "ffn_gate"  },
    {"feed_forward.up_proj",   "ffn_up"    },
    {"feed_forward.down_proj", "ffn_down"  },
    {NULL,                     NULL        }
};

static const HfPart falcon_h1_parts[] = {
    {"pre_ff_layernorm.weight", "ffn_norm", FORM_WHOLE, -1},
    HF_SCAN_PARTS("mamba."), {NULL,                      NULL,       FORM_WHOLE, -1}
};

static const HfName gemma4_names[] = {
    {"post_attention_layernorm",     "post_attention_norm"},
    {"pre_feedforward_layernorm",    "ffn_norm"           },
    {"post_feedforward_layernorm",   "post_ffw_norm"      },
    {"pre_feedforward_layernorm_2",  "pre_ffw_norm_2"     },
    {"post_feedforward_layernorm_1", "post_ffw_norm_1"    },
    {"post_feedforward_layernorm_2", "post_ffw_norm_2"    },
    {"per_layer_input_gate",         "inp_gate"           },
    {"per_layer_projection",         "proj"               },
    {"post_per_layer_input_norm",    "post_norm"          },
    {"router.proj",                  "ffn_gate_inp"       },
    {NULL,                           NULL                 }
};

/* gate_up_proj has gate and up of all experts side by side. Published files have transposed matrices; files that
 * transformers 5 saves do not. */
static const HfPart qwen3_vl_moe_parts[] = {
    {"mlp.experts.gate_up_proj", "ffn_gate_exps.weight", FORM_LEFT_COLUMNS,  -1},
    {"mlp.experts.gate_up_proj", "ffn_up_exps.weight",   FORM_RIGHT_COLUMNS, -1},
    {"mlp.experts.down_proj",    "ffn_down_exps.weight", FORM_TO_EMBD,       -1},
    {NULL,                       NULL,                   FORM_WHOLE,         -1}
};

static const HfPart mistral4_parts[] = {
    {"self_attn.kv_b_proj.weight", "attn_k_b.weight",         FORM_LATENT_KEYS,   -1},
    {"self_attn.kv_b_proj.weight", "attn_v_b.weight",         FORM_LATENT_VALUES, -1},
    {"mlp.experts.gate_up_proj",   "ffn_gate_up_exps.weight", FORM_WHOLE,         -1},
    {"mlp.experts.down_proj",      "ffn_down_exps.weight",    FORM_WHOLE,         -1},
    {NULL,                         NULL,                      FORM_WHOLE,         -1}
};

static const HfPart gemma4_parts[] = {
    {"layer_scalar",            "layer_output_scale.weight", FORM_WHOLE, -1},
    {"router.scale",            "ffn_gate_inp.scale",        FORM_WHOLE, -1},
    {"router.per_expert_scale", "ffn_down_exps.scale",       FORM_WHOLE, -1},
    {"experts.gate_up_proj",    "ffn_gate_up_exps.weight",   FORM_WHOLE, -1},
    {"experts.down_proj",       "ffn_down_exps.weight",      FORM_WHOLE, -1},
    {NULL,                      NULL,                        FORM_WHOLE, -1}
};

static const HfPart nemotron_h_parts[] = {
    HF_SCAN_PARTS("mixer."), {NULL, NULL, FORM_WHOLE, -1}
};

static const HfName glm4moe_names[] = {
    {"post_attention_layernorm",     "post_attention_norm"},
    {"mlp.shared_experts.gate_proj", "ffn_gate_shexp"     },
    {"mlp.shared_experts.up_proj",   "ffn_up_shexp"       },
    {"mlp.shared_experts.down_proj", "ffn_down_shexp"     },
    {NULL,                           NULL                 }
};

/* clang-format off */
static const HfDefault mistral_defaults[] = {{"sliding_window", 4096}, {NULL, 0}};
static const HfDefault mixtral_defaults[] = {{"rope_theta", 1e6}, {"rms_norm_eps", 1e-5}, {NULL, 0}};
static const HfDefault qwen3_defaults[]   = {{"head_dim", 128}, {NULL, 0}};
static const HfDefault qwen2_vl_defaults[] = {{"rope_theta", 1e6}, {"rms_norm_eps", 1e-5}, {NULL, 0}};
static const HfDefault qwen3_vl_defaults[] = {{"rope_theta", 5e5}, {"head_dim", 128}, {NULL, 0}};
static const HfDefault qwen3_vl_moe_defaults[] = {{"rope_theta", 5e5}, {NULL, 0}};
static const HfDefault gemma1_defaults[]  = {{"head_dim", 256}, {"max_position_embeddings", 8192}, {NULL, 0}};
static const HfDefault gemma2_defaults[]  = {
    {"head_dim", 256}, {"max_position_embeddings", 8192}, {"num_attention_heads", 8}, {"num_key_value_heads", 4},
    {"sliding_window", 4096}, {"sliding_window_pattern", 2}, {"attn_logit_softcapping", 50}, {"final_logit_softcapping", 30},
    {NULL, 0}};
static const HfDefault lfm2_defaults[]    = {{"rope_theta", 1e6}, {"norm_eps", 1e-5}, {"conv_L_cache", 3}, {"block_multiple_of", 256},
                                             {"num_key_value_heads", 8}, {NULL, 0}};
static const HfDefault lfm2_moe_defaults[] = {{"rope_theta", 1e6}, {"norm_eps", 1e-5}, {"conv_L_cache", 3},
                                              {"num_key_value_heads", 8}, {"num_dense_layers", 2}, {NULL, 0}};
static const HfDefault granite_hybrid_defaults[] = {
    {"mamba_d_conv", 4}, {"mamba_d_state", 256}, {"mamba_n_groups", 1}, {"mamba_n_heads", 128}, {"mamba_expand", 2},
    {"shared_intermediate_size", 1024}, {NULL, 0}};
static const HfDefault nemotron_h_defaults[] = {
    {"layer_norm_epsilon", 1e-5}, {"head_dim", 128}, {"num_key_value_heads", 8}, {"conv_kernel", 4}, {"ssm_state_size", 128},
    {"n_groups", 8}, {"mamba_num_heads", 128}, {"mamba_head_dim", 64}, {"n_group", 1}, {"topk_group", 1}, {NULL, 0}};
static const HfDefault falcon_h1_defaults[] = {
    {"rms_norm_eps", 1e-5}, {"num_key_value_heads", 8}, {"mamba_d_conv", 4}, {"mamba_d_state", 256}, {"mamba_n_groups", 1},
    {"mamba_n_heads", 128}, {"mamba_expand", 2}, {"mamba_d_ssm", 1024}, {NULL, 0}};
static const HfDefault gemma4_defaults[] = {
    {"head_dim", 256}, {"num_attention_heads", 8}, {"num_key_value_heads", 4}, {"global_head_dim", 512},
    {"max_position_embeddings", 131072}, {"sliding_window", 512}, {"hidden_size_per_layer_input", 256}, {NULL, 0}};
static const HfDefault gemma4_unified_defaults[] = {
    {"head_dim", 256}, {"num_attention_heads", 8}, {"num_key_value_heads", 4}, {"global_head_dim", 512},
    {"max_position_embeddings", 262144}, {"sliding_window", 1024}, {NULL, 0}};
static const HfDefault gemma_defaults[]   = {
    {"rope_theta", 1e6}, {"vocab_size", 262208}, {"max_position_embeddings", 131072}, {"num_attention_heads", 8},
    {"num_key_value_heads", 4}, {"head_dim", 256}, {"sliding_window", 4096}, {NULL, 0}};
static const HfDefault exaone4_defaults[] = {{"rms_norm_eps", 1e-5}, {"sliding_window", 4096}, {"sliding_window_pattern", 4}, {NULL, 0}};
static const HfDefault cohere2_defaults[] = {{"layer_norm_eps", 1e-5}, {"sliding_window", 4096}, {"sliding_window_pattern", 4}, {NULL, 0}};
static const HfDefault dots1_defaults[]   = {{"first_k_dense_replace", 0}, {"n_group", 1}, {"topk_group", 1}, {NULL, 0}};
static const HfDefault ling_defaults[]    = {
    {"rope_theta", 6e5}, {"head_dim", 128}, {"num_shared_experts", 1}, {"n_group", 8}, {"topk_group", 4}, {"first_k_dense_replace", 1},
    {NULL, 0}};
static const HfDefault smollm3_defaults[] = {{"rope_theta", 2e6}, {NULL, 0}};
static const HfDefault olmo2_defaults[]   = {{"rms_norm_eps", 1e-5}, {NULL, 0}}; /* also of OLMoE, Phi 3 and Hunyuan */
static const HfDefault olmo3_defaults[]   = {{"rope_theta", 5e5}, {"rms_norm_eps", 1e-5}, {"sliding_window", 4096},
                                             {"sliding_window_pattern", 4}, {NULL, 0}};
static const HfDefault glm4_defaults[]    = {{"partial_rotary_factor", 0.5}, {"rms_norm_eps", 1.5625e-7},
                                             {"head_dim", 128}, {NULL, 0}};
static const HfDefault glm4moe_defaults[] = {{"partial_rotary_factor", 0.5}, {"rms_norm_eps", 1e-5}, {NULL, 0}};
static const HfDefault ministral3_defaults[] = {{"head_dim", 128}, {"rms_norm_eps", 1e-5}, {NULL, 0}};
static const HfDefault minimax_defaults[] = {{"rope_theta", 5e6}, {"head_dim", 128}, {NULL, 0}};
static const HfDefault ernie_moe_defaults[] = {{"rope_theta", 5e5}, {"rms_norm_eps", 1e-5}, {NULL, 0}};
static const HfDefault deepseek2_defaults[] = {{"q_lora_rank", 1536}, {"n_shared_experts", 2}, {NULL, 0}};
static const HfDefault deepseek3_defaults[] = {{"q_lora_rank", 1536}, {"n_shared_experts", 1}, {"n_group", 8}, {"topk_group", 4},
                                               {"first_k_dense_replace", 3}, {"routed_scaling_factor", 2.5}, {NULL, 0}};
static const HfDefault glm4_lite_defaults[] = {
    {"rms_norm_eps", 1e-5}, {"q_lora_rank", 768}, {"n_shared_experts", 1}, {"n_group", 1}, {"topk_group", 1},
    {"first_k_dense_replace", 1}, {"routed_scaling_factor", 1.8}, {NULL, 0}};
static const HfDefault mistral4_defaults[] = {{"q_lora_rank", 1024}, {"n_shared_experts", 1}, {"n_group", 1}, {"topk_group", 1},
                                              {"first_k_dense_replace", 0}, {NULL, 0}};
static const HfDefault gpt_oss_defaults[] = {{"rope_theta", 1.5e5}, {"rms_norm_eps", 1e-5}, {"head_dim", 64}, {"sliding_window", 128},
                                             {"sliding_window_pattern", 2}, {NULL, 0}};
static const HfDefault delta_defaults[] = {{"partial_rotary_factor", 0.25}, {"head_dim", 256}, {"linear_conv_kernel_dim", 4},
                                           {NULL, 0}};
static const HfDefault ernie_defaults[]   = {{"rope_theta", 5e5}, {"rms_norm_eps", 1e-5}, {"head_dim", 128}, {NULL, 0}};

static const HfDefault modern_bert_defaults[] = {
    {"global_rope_theta", 160000}, {"max_position_embeddings", 8192}, {"local_attention", 128}, {"norm_eps", 1e-5}, {NULL, 0}};

#define GEMMA4(of, is, its_keys, its_defaults) \
    {.name = of, .arch = is, .activation = "gelu_pytorch_tanh", .activation_key = "hidden_activation", .names = gemma4_names, \
     .parts = gemma4_parts, .tied = true, .windows = true, .own_length = true, .keys = its_keys, .heads = rp_hf_gemma4_heads, \
     .defaults = its_defaults}

#define BERT(of, is_padded) \
    {.name = of, .arch = "bert", .activation = "gelu", .names = rp_hf_bert_names, .encoder = true, .padded = is_padded, \
     .keys = rp_hf_bert_keys}
#define BERT_RANK(of, is_padded, its_head) \
    {.name = of, .arch = "bert", .activation = "gelu", .names = rp_hf_bert_names, .encoder = true, .padded = is_padded, \
     .head = its_head, .keys = rp_hf_bert_keys}
#define MODERN_BERT \
    .arch = "modern-bert", .eps_key = "norm_eps", .names = rp_hf_modern_bert_names, .tied = true, .windows = true, \
    .encoder = true, .keys = rp_hf_modern_bert_keys, .defaults = modern_bert_defaults

const HfFamily rp_hf_families[] = {
    BERT("BertModel", false), BERT("BertForMaskedLM", false), BERT("RobertaModel", true), BERT("RobertaForMaskedLM", true),
    BERT("XLMRobertaModel", true), BERT("XLMRobertaForMaskedLM", true), BERT("CamembertModel", true),
    BERT_RANK("BertForSequenceClassification", false, rp_hf_bert_head),
    BERT_RANK("RobertaForSequenceClassification", true, rp_hf_roberta_head),
    BERT_RANK("XLMRobertaForSequenceClassification", true, rp_hf_roberta_head),
    BERT_RANK("CamembertForSequenceClassification", true, rp_hf_roberta_head),
    {.name = "ModernBertModel", MODERN_BERT}, {.name = "ModernBertForMaskedLM", MODERN_BERT},
    {.name = "ModernBertForSequenceClassification", MODERN_BERT, .head = rp_hf_modern_bert_head},
    {.name = "LlamaForCausalLM", .arch = "llama", .activation = "silu", .norm_rope = true},
    {.name = "MistralForCausalLM", .arch = "llama", .activation = "silu", .norm_rope = true,
     .window_unless_null = true, .defaults = mistral_defaults},
    {.name = "MixtralForCausalLM", .arch = "llama", .activation = "silu", .norm_rope = true,
     .window_unless_null = true, .keys = rp_hf_mixtral_keys, .defaults = mixtral_defaults},
    {.name = "Qwen2ForCausalLM", .arch = "qwen2", .activation = "silu"},
    {.name = "Qwen3ForCausalLM", .arch = "qwen3", .activation = "silu", .defaults = qwen3_defaults},
    {.name = "Qwen2MoeForCausalLM", .arch = "qwen2moe", .activation = "silu", .keys = rp_hf_qwen2_moe_keys},
    {.name = "Qwen3MoeForCausalLM", .arch = "qwen3moe", .activation = "silu", .keys = rp_hf_qwen3_moe_keys},
    {.name = "Qwen2VLForConditionalGeneration", .arch = "qwen2vl", .activation = "silu", .keys = rp_hf_qwen2_vl_keys,
     .defaults = qwen2_vl_defaults},
    {.name = "Qwen2_5_VLForConditionalGeneration", .arch = "qwen2vl", .activation = "silu", .keys = rp_hf_qwen2_vl_keys,
     .defaults = qwen2_vl_defaults},
    {.name = "Qwen3VLForConditionalGeneration", .arch = "qwen3vl", .activation = "silu", .keys = rp_hf_qwen3_vl_keys,
     .defaults = qwen3_vl_defaults},
    {.name = "Qwen3VLMoeForConditionalGeneration", .arch = "qwen3vlmoe", .activation = "silu", .parts = qwen3_vl_moe_parts,
     .keys = rp_hf_qwen3_vl_moe_keys, .defaults = qwen3_vl_moe_defaults},
    {.name = "GemmaForCausalLM", .arch = "gemma", .activation = "gelu_pytorch_tanh", .norm_plus_1 = true, .tied = true,
     .keys = rp_hf_gemma_keys, .defaults = gemma1_defaults},
    {.name = "Gemma2ForCausalLM", .arch = "gemma2", .activation = "gelu_pytorch_tanh", .activation_key = "hidden_activation",
     .names = gemma_names, .norm_plus_1 = true, .tied = true, .windows = true, .keys = rp_hf_gemma2_keys,
     .defaults = gemma2_defaults},
    {.name = "Gemma3ForCausalLM", .arch = "gemma3", .activation = "gelu_pytorch_tanh",
     .activation_key = "hidden_activation", .names = gemma_names, .norm_plus_1 = true, .tied = true, .windows = true,
     .keys = rp_hf_gemma3_keys, .defaults = gemma_defaults},
    {.name = "Gemma3ForConditionalGeneration", .arch = "gemma3", .activation = "gelu_pytorch_tanh",
     .activation_key = "hidden_activation", .names = gemma_names, .norm_plus_1 = true, .tied = true, .windows = true,
     .keys = rp_hf_gemma3_keys, .defaults = gemma_defaults},
    {.name = "Gemma3TextModel", .arch = "gemma3", .activation = "gelu_pytorch_tanh", .activation_key = "hidden_activation",
     .names = gemma_names, .norm_plus_1 = true, .tied = true, .windows = true, .keys = rp_hf_gemma3_keys, .defaults = gemma_defaults},
    {.name = "Gemma3TextModel", .arch = "gemma-embedding", .when = rp_hf_gemma_is_bidirectional, .activation = "gelu_pytorch_tanh",
     .activation_key = "hidden_activation", .names = gemma_names, .norm_plus_1 = true, .tied = true, .windows = true,
     .keys = rp_hf_gemma_embedding_keys, .defaults = gemma_defaults},
    GEMMA4("Gemma4ForCausalLM", "gemma4", rp_hf_gemma4_keys, gemma4_defaults),
    GEMMA4("Gemma4ForConditionalGeneration", "gemma4", rp_hf_gemma4_keys, gemma4_defaults),
    GEMMA4("Gemma4UnifiedForCausalLM", "gemma4", rp_hf_gemma4_keys, gemma4_unified_defaults),
    GEMMA4("Gemma4UnifiedForConditionalGeneration", "gemma4", rp_hf_gemma4_keys, gemma4_unified_defaults),
    GEMMA4("Gemma4AssistantForCausalLM", "gemma4-assistant", rp_hf_gemma4_assistant_keys, gemma4_defaults),
    GEMMA4("Gemma4UnifiedAssistantForCausalLM", "gemma4-assistant", rp_hf_gemma4_assistant_keys, gemma4_unified_defaults),
    {.name = "SmolLM3ForCausalLM", .arch = "smollm3", .activation = "silu", .norm_rope = true, .keys = smollm3,
     .defaults = smollm3_defaults},
    {.name = "GraniteForCausalLM", .arch = "granite", .activation = "silu", .norm_rope = true, .keys = rp_hf_granite_keys},
    {.name = "OlmoeForCausalLM", .arch = "olmoe", .activation = "silu", .keys = rp_hf_olmoe_keys, .defaults = olmo2_defaults},
    {.name = "Olmo2ForCausalLM", .arch = "olmo2", .activation = "silu", .names = olmo2_names, .defaults = olmo2_defaults},
    {.name = "Olmo3ForCausalLM", .arch = "olmo2", .activation = "silu", .names = olmo2_names, .windows = true,
     .defaults = olmo3_defaults},
    {.name = "Phi3ForCausalLM", .arch = "phi3", .activation = "silu", .names = phi3_names, .window_unless_null = true,
     .defaults = olmo2_defaults},
    {.name = "SeedOssForCausalLM", .arch = "seed_oss", .activation = "silu", .names = seed_oss_names, .defaults = qwen3_defaults},
    {.name = "Exaone4ForCausalLM", .arch = "exaone4", .activation = "silu", .names = olmo2_names, .windows = true,
     .window_unless_null = true, .defaults = exaone4_defaults},
    {.name = "Cohere2ForCausalLM", .arch = "cohere2", .activation = "silu", .eps_key = "layer_norm_eps", .tied = true, .windows = true,
     .keys = rp_hf_cohere2_keys, .defaults = cohere2_defaults},
    {.name = "HunYuanDenseV1ForCausalLM", .arch = "hunyuan-dense", .activation = "silu", .names = hunyuan_names,
     .keys = rp_hf_hunyuan_keys, .defaults = olmo2_defaults},
    {.name = "HunYuanMoEV1ForCausalLM", .arch = "hunyuan-moe", .activation = "silu", .names = hunyuan_moe_names, .own_length = true,
     .keys = rp_hf_hunyuan_moe_keys, .defaults = olmo2_defaults},
    {.name = "BailingMoeV2ForCausalLM", .arch = "bailingmoe2", .activation = "silu", .names = ling_names, .keys = rp_hf_ling_keys,
     .defaults = ling_defaults},
    {.name = "Dots1ForCausalLM", .arch = "dots1", .activation = "silu", .names = deepseek_names, .keys = rp_hf_dots1_keys,
     .defaults = dots1_defaults},
    {.name = "Glm4ForCausalLM", .arch = "glm4", .activation = "silu", .names = glm4_names, .defaults = glm4_defaults},
    {.name = "Glm4MoeForCausalLM", .arch = "glm4moe", .mtp = HF_MTP_LAYERS, .activation = "silu", .names = glm4moe_names, .keys = rp_hf_glm4_moe_keys,
     .defaults = glm4moe_defaults},
    {.name = "Ernie4_5ForCausalLM", .arch = "ernie4_5", .activation = "silu", .tied = true, .defaults = ernie_defaults},
    {.name = "Ernie4_5_MoeForCausalLM", .arch = "ernie4_5-moe", .activation = "silu", .names = ernie_moe_names, .tied = true,
     .keys = rp_hf_ernie_moe_keys, .defaults = ernie_moe_defaults},
    {.name = "MiniMaxM2ForCausalLM", .arch = "minimax-m2", .activation = "silu", .rotary_dim = true,
     .keys = rp_hf_minimax_m2_keys, .defaults = minimax_defaults},
    {.name = "GraniteMoeForCausalLM", .arch = "granitemoe", .activation = "silu", .parts = granite_moe_parts, .norm_rope = true,
     .keys = rp_hf_granite_moe_keys},
    {.name = "GraniteMoeSharedForCausalLM", .arch = "granitemoe", .activation = "silu", .parts = granite_moe_parts,
     .norm_rope = true, .keys = rp_hf_granite_moe_keys},
    {.name = "GraniteMoeHybridForCausalLM", .arch = "granitehybrid", .activation = "silu", .names = granite_hybrid_names,
     .parts = granite_moe_parts, .norm_rope = true, .hybrid = true, .own_length = true, .keys = rp_hf_granite_hybrid_keys,
     .defaults = granite_hybrid_defaults},
    {.name = "Lfm2ForCausalLM", .arch = "lfm2", .activation = "silu", .eps_key = "norm_eps", .names = lfm2_names,
     .parts = lfm2_parts, .tied = true, .hybrid = true, .own_length = true, .keys = rp_hf_lfm2_keys, .defaults = lfm2_defaults},
    {.name = "Lfm2VlForConditionalGeneration", .text_type = "lfm2", .arch = "lfm2", .activation = "silu", .eps_key = "norm_eps",
     .names = lfm2_names, .parts = lfm2_parts, .tied = true, .hybrid = true, .own_length = true, .keys = rp_hf_lfm2_keys,
     .defaults = lfm2_defaults},
    {.name = "Lfm2MoeForCausalLM", .arch = "lfm2moe", .activation = "silu", .eps_key = "norm_eps", .names = lfm2_names,
     .parts = lfm2_parts, .tied = true, .hybrid = true, .keys = rp_hf_lfm2_moe_keys, .defaults = lfm2_moe_defaults},
    {.name = "NemotronHForCausalLM", .arch = "nemotron_h", .activation = "relu2", .activation_key = "mlp_hidden_act",
     .eps_key = "layer_norm_epsilon", .names = nemotron_h_names, .parts = nemotron_h_parts, .hybrid = true, .own_length = true,
     .keys = rp_hf_nemotron_h_keys, .defaults = nemotron_h_defaults},
    {.name = "NemotronHForCausalLM", .arch = "nemotron_h_moe", .when = rp_hf_nemotron_has_experts, .activation = "relu2",
     .activation_key = "mlp_hidden_act", .eps_key = "layer_norm_epsilon", .names = nemotron_h_names, .parts = nemotron_h_parts,
     .hybrid = true, .own_length = true, .keys = rp_hf_nemotron_h_moe_keys, .defaults = nemotron_h_defaults},
    {.name = "DeepseekV2ForCausalLM", .arch = "deepseek2", .activation = "silu", .names = deepseek_names, .parts = deepseek_parts,
     .latent = true, .keys = rp_hf_deepseek2_keys, .defaults = deepseek2_defaults},
    {.name = "DeepseekV3ForCausalLM", .arch = "deepseek2", .mtp = HF_MTP_LAYERS, .activation = "silu", .names = deepseek_names, .parts = deepseek_parts,
     .latent = true, .keys = rp_hf_deepseek3_keys, .defaults = deepseek3_defaults},
    {.name = "Glm4MoeLiteForCausalLM", .arch = "deepseek2", .mtp = HF_MTP_LAYERS, .activation = "silu", .names = deepseek_names,
     .parts = deepseek_parts, .latent = true, .keys = rp_hf_deepseek3_keys, .defaults = glm4_lite_defaults},
    {.name = "Mistral4ForCausalLM", .arch = "mistral4", .activation = "silu", .names = deepseek_names,
     .parts = mistral4_parts, .latent = true, .keys = rp_hf_mistral4_keys, .defaults = mistral4_defaults},
    {.name = "FalconH1ForCausalLM", .arch = "falcon-h1", .activation = "silu", .names = falcon_h1_names,
     .parts = falcon_h1_parts, .keys = rp_hf_falcon_h1_keys, .defaults = falcon_h1_defaults},
    {.name = "GptOssForCausalLM", .arch = "gpt-oss", .activation = "silu", .names = gpt_oss_names, .parts = gpt_oss_parts,
     .windows = true, .keys = rp_hf_gpt_oss_keys, .defaults = gpt_oss_defaults},
    {.name = "Qwen3NextForCausalLM", .arch = "qwen3next", .activation = "silu", .names = delta_names, .parts = qwen3next_parts,
     .mtp = HF_MTP_PREFIX, .norm_plus_1 = true, .keys = rp_hf_delta_moe_keys, .defaults = delta_defaults},
    {.name = "Qwen3_5ForCausalLM", .arch = "qwen35", .activation = "silu", .names = delta_names, .parts = qwen35_parts,
     .mtp = HF_MTP_PREFIX, .norm_plus_1 = true, .keys = rp_hf_delta_keys, .defaults = delta_defaults},
    {.name = "Qwen3_5ForConditionalGeneration", .arch = "qwen35", .activation = "silu", .names = delta_names,
     .parts = qwen35_parts, .mtp = HF_MTP_PREFIX, .norm_plus_1 = true, .keys = rp_hf_delta_keys, .defaults = delta_defaults},
    {.name = "Qwen3_5MoeForCausalLM", .arch = "qwen35moe", .activation = "silu", .names = delta_names, .parts = qwen35_parts,
     .mtp = HF_MTP_PREFIX, .norm_plus_1 = true, .keys = rp_hf_delta_moe_keys, .defaults = delta_defaults},
    {.name = "Qwen3_5MoeForConditionalGeneration", .arch = "qwen35moe", .activation = "silu", .names = delta_names,
     .parts = qwen35_parts, .mtp = HF_MTP_PREFIX, .norm_plus_1 = true, .keys = rp_hf_delta_moe_keys, .defaults = delta_defaults},
    {.name = "Ministral3ForCausalLM", .arch = "mistral3", .activation = "silu", .norm_rope = true, .window_unless_null = true,
     .keys = rp_hf_ministral3_keys, .defaults = ministral3_defaults},
    {.name = "Mistral3ForConditionalGeneration", .text_type = "ministral3", .arch = "mistral3", .activation = "silu",
     .norm_rope = true, .window_unless_null = true, .keys = rp_hf_ministral3_keys, .defaults = ministral3_defaults},
    {.name = "Mistral3ForConditionalGeneration", .text_type = "mistral", .arch = "mistral3", .activation = "silu",
     .norm_rope = true, .window_unless_null = true, .defaults = mistral_defaults},
    {.name = "Mistral3ForConditionalGeneration", .text_type = "mistral4", .arch = "mistral4", .activation = "silu",
     .names = deepseek_names, .parts = mistral4_parts, .latent = true, .keys = rp_hf_mistral4_keys, .defaults = mistral4_defaults},
    {.name = NULL},
};
/* clang-format on */

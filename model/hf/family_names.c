/* The names of tensors that families have in addition to those of names.c, and their parts. */
#include "model/hf/hf.h"

const HfName rp_hf_gemma_names[] = {
    {"post_attention_layernorm",   "post_attention_norm"},
    {"pre_feedforward_layernorm",  "ffn_norm"           },
    {"post_feedforward_layernorm", "post_ffw_norm"      },
    {NULL,                         NULL                 }
};

const HfName rp_hf_olmo2_names[] = {
    {"post_attention_layernorm",   "post_attention_norm"},
    {"post_feedforward_layernorm", "post_ffw_norm"      },
    {NULL,                         NULL                 }
};

const HfName rp_hf_afmoe_names[] = {
    {"post_attention_layernorm",     "post_attention_norm"},
    {"pre_mlp_layernorm",            "ffn_norm"           },
    {"post_mlp_layernorm",           "post_ffw_norm"      },
    {"self_attn.gate_proj",          "attn_gate"          },
    {"mlp.router.gate",              "ffn_gate_inp"       },
    {"mlp.shared_experts.gate_proj", "ffn_gate_shexp"     },
    {"mlp.shared_experts.up_proj",   "ffn_up_shexp"       },
    {"mlp.shared_experts.down_proj", "ffn_down_shexp"     },
    {NULL,                           NULL                 }
};

const HfPart rp_hf_afmoe_parts[] = {
    {"mlp.expert_bias",          "exp_probs_b.bias",        FORM_WHOLE, -1},
    {"mlp.experts.gate_up_proj", "ffn_gate_up_exps.weight", FORM_WHOLE, -1},
    {"mlp.experts.down_proj",    "ffn_down_exps.weight",    FORM_WHOLE, -1},
    {NULL,                       NULL,                      FORM_WHOLE, -1}
};

const HfName rp_hf_starcoder2_names[] = {
    {"mlp.c_fc",   "ffn_up"  },
    {"mlp.c_proj", "ffn_down"},
    {NULL,         NULL      }
};

const HfName rp_hf_seed_oss_names[] = {
    {"post_attention_layernorm", "post_attention_norm"},
    {NULL,                       NULL                 }
};

const HfName rp_hf_hunyuan_names[] = {
    {"self_attn.query_layernorm", "attn_q_norm"},
    {"self_attn.key_layernorm",   "attn_k_norm"},
    {NULL,                        NULL         }
};

const HfName rp_hf_hunyuan_moe_names[] = {
    {"self_attn.query_layernorm", "attn_q_norm"   },
    {"self_attn.key_layernorm",   "attn_k_norm"   },
    {"mlp.gate.wg",               "ffn_gate_inp"  },
    {"mlp.shared_mlp.gate_proj",  "ffn_gate_shexp"},
    {"mlp.shared_mlp.up_proj",    "ffn_up_shexp"  },
    {"mlp.shared_mlp.down_proj",  "ffn_down_shexp"},
    {NULL,                        NULL            }
};

const HfName rp_hf_ling_names[] = {
    {"attention.query_key_value",    "attn_qkv"      },
    {"attention.dense",              "attn_output"   },
    {"attention.query_layernorm",    "attn_q_norm"   },
    {"attention.key_layernorm",      "attn_k_norm"   },
    {"mlp.shared_experts.gate_proj", "ffn_gate_shexp"},
    {"mlp.shared_experts.up_proj",   "ffn_up_shexp"  },
    {"mlp.shared_experts.down_proj", "ffn_down_shexp"},
    {NULL,                           NULL            }
};

const HfName rp_hf_phi3_names[] = {
    {"self_attn.qkv_proj", "attn_qkv"},
    {"mlp.gate_up_proj",   "ffn_up"  },
    {NULL,                 NULL      }
};

const HfName rp_hf_glm4_names[] = {
    {"post_self_attn_layernorm", "post_attention_norm"},
    {"post_mlp_layernorm",       "post_ffw_norm"      },
    {"mlp.gate_up_proj",         "ffn_up"             },
    {NULL,                       NULL                 }
};

const HfName rp_hf_ernie_moe_names[] = {
    {"mlp.shared_experts.gate_proj", "ffn_gate_shexp"},
    {"mlp.shared_experts.up_proj",   "ffn_up_shexp"  },
    {"mlp.shared_experts.down_proj", "ffn_down_shexp"},
    {NULL,                           NULL            }
};

#define EXPERTS "block_sparse_moe."
const HfPart rp_hf_granite_moe_parts[] = {
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

const HfName rp_hf_deepseek_names[] = {
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

const HfPart rp_hf_deepseek_parts[] = {
    {"self_attn.kv_b_proj.weight", "attn_k_b.weight", FORM_LATENT_KEYS,   -1},
    {"self_attn.kv_b_proj.weight", "attn_v_b.weight", FORM_LATENT_VALUES, -1},
    {NULL,                         NULL,              FORM_WHOLE,         -1}
};

const HfName rp_hf_gpt_oss_names[] = {
    {"post_attention_layernorm", "post_attention_norm"},
    {"mlp.router",               "ffn_gate_inp"       },
    {NULL,                       NULL                 }
};

const HfPart rp_hf_gpt_oss_parts[] = {
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

const HfName rp_hf_delta_names[] = {
    {"post_attention_layernorm", "post_attention_norm"},
    {"linear_attn.norm",         "ssm_norm"           },
    {NULL,                       NULL                 }
};

const HfPart rp_hf_qwen3next_parts[] = {
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

const HfPart rp_hf_qwen35_parts[] = {
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

const HfName rp_hf_lfm2_names[] = {
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

const HfPart rp_hf_lfm2_parts[] = {
    {"conv.conv.weight", "shortconv.conv.weight", FORM_TAPS,  -1},
    {NULL,               NULL,                    FORM_WHOLE, -1}
};

const HfName rp_hf_granite_hybrid_names[] = {
    {"mamba.conv1d",   "ssm_conv1d"},
    {"mamba.in_proj",  "ssm_in"    },
    {"mamba.out_proj", "ssm_out"   },
    {NULL,             NULL        }
};

const HfName rp_hf_nemotron_h_names[] = {
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

const HfName rp_hf_falcon_h1_names[] = {
    {"mamba.conv1d",           "ssm_conv1d"},
    {"mamba.in_proj",          "ssm_in"    },
    {"mamba.out_proj",         "ssm_out"   },
    {"feed_forward.gate_proj", "ffn_gate"  },
    {"feed_forward.up_proj",   "ffn_up"    },
    {"feed_forward.down_proj", "ffn_down"  },
    {NULL,                     NULL        }
};

const HfPart rp_hf_falcon_h1_parts[] = {
    {"pre_ff_layernorm.weight", "ffn_norm", FORM_WHOLE, -1},
    HF_SCAN_PARTS("mamba."), {NULL,                      NULL,       FORM_WHOLE, -1}
};

const HfName rp_hf_gemma4_names[] = {
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
const HfPart rp_hf_qwen3_vl_moe_parts[] = {
    {"mlp.experts.gate_up_proj", "ffn_gate_exps.weight", FORM_LEFT_COLUMNS,  -1},
    {"mlp.experts.gate_up_proj", "ffn_up_exps.weight",   FORM_RIGHT_COLUMNS, -1},
    {"mlp.experts.down_proj",    "ffn_down_exps.weight", FORM_TO_EMBD,       -1},
    {NULL,                       NULL,                   FORM_WHOLE,         -1}
};

const HfPart rp_hf_mistral4_parts[] = {
    {"self_attn.kv_b_proj.weight", "attn_k_b.weight",         FORM_LATENT_KEYS,   -1},
    {"self_attn.kv_b_proj.weight", "attn_v_b.weight",         FORM_LATENT_VALUES, -1},
    {"mlp.experts.gate_up_proj",   "ffn_gate_up_exps.weight", FORM_WHOLE,         -1},
    {"mlp.experts.down_proj",      "ffn_down_exps.weight",    FORM_WHOLE,         -1},
    {NULL,                         NULL,                      FORM_WHOLE,         -1}
};

const HfPart rp_hf_gemma4_parts[] = {
    {"layer_scalar",            "layer_output_scale.weight", FORM_WHOLE, -1},
    {"router.scale",            "ffn_gate_inp.scale",        FORM_WHOLE, -1},
    {"router.per_expert_scale", "ffn_down_exps.scale",       FORM_WHOLE, -1},
    {"experts.gate_up_proj",    "ffn_gate_up_exps.weight",   FORM_WHOLE, -1},
    {"experts.down_proj",       "ffn_down_exps.weight",      FORM_WHOLE, -1},
    {NULL,                      NULL,                        FORM_WHOLE, -1}
};

const HfPart rp_hf_nemotron_h_parts[] = {
    HF_SCAN_PARTS("mixer."), {NULL, NULL, FORM_WHOLE, -1}
};

const HfName rp_hf_glm4moe_names[] = {
    {"post_attention_layernorm",     "post_attention_norm"},
    {"mlp.shared_experts.gate_proj", "ffn_gate_shexp"     },
    {"mlp.shared_experts.up_proj",   "ffn_up_shexp"       },
    {"mlp.shared_experts.down_proj", "ffn_down_shexp"     },
    {NULL,                           NULL                 }
};

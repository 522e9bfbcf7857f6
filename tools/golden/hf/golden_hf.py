#!/usr/bin/env python3
"""Directories of Hugging Face with tiny random models, and their logits by transformers.

    tools/golden/hf/golden_hf.py OUT_DIRECTORY [NAME...]

NAME/ is a directory as save_pretrained writes it, NAME/logits.txt has token ids and the logits after each, computed in f32: also
for weights in bf16, f16 and FP8, whose values are f32 numbers. The FP8 models are quantised here, by the rule of
model/hf/fp8.h. Run it in an environment with torch, transformers and safetensors."""
import json
import pathlib
import shutil
import sys

import torch
import transformers
from safetensors import safe_open
from safetensors.torch import save_file

N_IDS, N_VOCAB = 14, 64
SHAPE = dict(vocab_size=N_VOCAB, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=64, bos_token_id=1, eos_token_id=2, pad_token_id=None,
             tie_word_embeddings=False)
MOE = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24)
LLAMA3 = dict(rope_type="llama3", rope_theta=10000.0, factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=16)
YARN = dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=16)
LONG = dict(rope_type="longrope", rope_theta=10000.0, partial_rotary_factor=0.5, short_factor=[1.0, 1.5], long_factor=[2.0, 5.0])
OLMO3 = {"sliding_attention": dict(rope_type="default", rope_theta=5000.0), "full_attention": dict(rope_type="default", rope_theta=5000.0)}
MINISTRAL3 = dict(YARN, original_max_position_embeddings=8, mscale=1.0, mscale_all_dim=0.5, llama_4_scaling_beta=0.5, beta_fast=4.0)
GRANITE = dict(embedding_multiplier=3.0, residual_multiplier=0.5, attention_multiplier=0.2, logits_scaling=2.0)
DEEPSEEK = dict(moe_intermediate_size=24, num_experts_per_tok=2, n_shared_experts=2, kv_lora_rank=16, qk_nope_head_dim=16, qk_rope_head_dim=8,
                v_head_dim=24, first_k_dense_replace=1, num_key_value_heads=4, routed_scaling_factor=1.5)
MLA_YARN = dict(YARN, mscale=0.8, mscale_all_dim=0.8)
GPT_OSS = dict(num_local_experts=4, num_experts_per_tok=2, head_dim=16, sliding_window=6,
               rope_parameters=dict(YARN, truncate=False, beta_fast=3.0, beta_slow=0.5))
DELTA = dict(num_hidden_layers=4, head_dim=16, linear_key_head_dim=8, linear_value_head_dim=8, linear_num_key_heads=2, linear_num_value_heads=6)
CONV = dict(conv_L_cache=3, norm_eps=1e-5, layer_types=["conv", "full_attention", "conv"], num_hidden_layers=3)
GRANITE_HYBRID = dict(GRANITE, num_hidden_layers=3, layer_types=["mamba", "attention", "mamba"], mamba_n_heads=8, mamba_n_groups=2, mamba_d_state=16,
                      mamba_chunk_size=8, shared_intermediate_size=40)
NEMOTRON_H = dict(num_hidden_layers=None, mamba_num_heads=8, mamba_head_dim=8, n_groups=2, ssm_state_size=16, chunk_size=8, head_dim=16)
FALCON_H1 = dict(mamba_n_heads=6, mamba_d_ssm=48, mamba_n_groups=2, mamba_d_state=16, mamba_chunk_size=8, head_dim=16, attention_in_multiplier=1.5,
                 attention_out_multiplier=0.75, ssm_in_multiplier=1.25, ssm_out_multiplier=0.5, mlp_multipliers=[0.75, 1.25], key_multiplier=0.5,
                 ssm_multipliers=[0.5, 1.5, 0.75, 1.25, 0.5], lm_head_multiplier=0.25, embedding_multiplier=3.0)
GEMMA4 = dict(head_dim=8, global_head_dim=16, num_hidden_layers=4, sliding_window=6, tie_word_embeddings=True, final_logit_softcapping=12.0,
              vocab_size_per_layer_input=N_VOCAB, layer_types=["sliding_attention", "full_attention"] * 2)
VISION = dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2)
MROPE = dict(rope_type="default", rope_theta=10000.0)
QWEN_VISION = dict(depth=1, embed_dim=16, hidden_size=32, num_heads=2, out_hidden_size=32, intermediate_size=16, patch_size=4, in_channels=1)
QWEN3_VISION = dict(QWEN_VISION, hidden_size=16, num_position_embeddings=16, deepstack_visual_indexes=[0])
MISTRAL4 = dict(DEEPSEEK, n_routed_experts=8, n_shared_experts=1, n_group=1, topk_group=1, q_lora_rank=24, first_k_dense_replace=0, tie_word_embeddings=True)
MISTRAL4_YARN = dict(YARN, original_max_position_embeddings=8, mscale=0.5, mscale_all_dim=0.5, llama_4_scaling_beta=0.5, beta_fast=4.0)
IMAGES = {"Qwen2VL": ("Qwen2VL", QWEN_VISION), "Qwen2_5_VL": ("Qwen2_5_VL", QWEN_VISION), "Qwen3VL": ("Qwen3VL", QWEN3_VISION),
          "Qwen3VLMoe": ("Qwen3VLMoe", QWEN3_VISION), "Mistral4": ("Mistral3", dict(VISION, model_type="pixtral", image_size=16, patch_size=4)), "Gemma4": ("Gemma4", dict(VISION, num_key_value_heads=2, head_dim=8, position_embedding_size=16)),
          "Lfm2": ("Lfm2Vl", dict(VISION, model_type="siglip2_vision_model", num_patches=16, patch_size=4))}
FP8 = dict(quant_method="fp8", activation_scheme="dynamic", fmt="e4m3")

# name: (class, changes of the shape, type, bytes of a shard, quantisation)
MODELS = {
    "llama": ("Llama", {}, torch.float32, None, None),
    "llama-bf16": ("Llama", dict(tie_word_embeddings=True), torch.bfloat16, None, None),
    "llama-f16-shards": ("Llama", dict(attention_bias=True), torch.float16, 8000, None),
    "llama-llama3": ("Llama", dict(rope_parameters=LLAMA3, head_dim=16), torch.float32, None, None),
    "llama-linear": ("Llama", dict(rope_parameters=dict(rope_type="linear", rope_theta=5000.0, factor=4.0)), torch.bfloat16, None, None),
    "llama-fp8": ("Llama", {}, torch.bfloat16, None, dict(FP8, weight_block_size=[16, 24])),
    "llama-fp8-scalar": ("Llama", {}, torch.bfloat16, None, FP8),
    "mistral": ("Mistral", dict(sliding_window=32, head_dim=16), torch.bfloat16, None, None),
    "mixtral": ("Mixtral", dict(num_local_experts=4, num_experts_per_tok=2, sliding_window=None), torch.float32, 30000, None),
    "qwen2": ("Qwen2", {}, torch.float32, None, None),
    "qwen2-yarn": ("Qwen2", dict(rope_parameters=YARN), torch.bfloat16, None, None),
    "qwen3": ("Qwen3", dict(head_dim=16), torch.float32, None, None),
    "qwen2moe": ("Qwen2Moe", dict(MOE, shared_expert_intermediate_size=40), torch.bfloat16, None, None),
    "qwen3moe": ("Qwen3Moe", dict(MOE, norm_topk_prob=True, head_dim=8, num_experts=12), torch.float32, 30000, None),
    "qwen3moe-fp8": ("Qwen3Moe", dict(MOE, norm_topk_prob=True, head_dim=8), torch.bfloat16, None, dict(FP8, weight_block_size=[16, 16])),
    "olmoe": ("Olmoe", dict(num_experts=4, num_experts_per_tok=2), torch.float32, None, None),
    "gemma3": ("Gemma3", dict(head_dim=8, sliding_window=6, num_hidden_layers=6, query_pre_attn_scalar=12, tie_word_embeddings=True,
                              layer_types=["sliding_attention", "full_attention"] * 3), torch.bfloat16, None, None),
    "smollm3": ("SmolLM3", dict(num_hidden_layers=4, use_sliding_window=False), torch.bfloat16, None, None),
    "granite": ("Granite", dict(embedding_multiplier=3.0, residual_multiplier=0.5, attention_multiplier=0.2, logits_scaling=2.0),
                torch.bfloat16, None, None),
    "olmo2": ("Olmo2", {}, torch.bfloat16, None, None),
    "olmo3": ("Olmo3", dict(num_hidden_layers=4, sliding_window=5, rope_parameters=OLMO3), torch.float32, None, None),
    "phi3": ("Phi3", {}, torch.bfloat16, None, None),
    "phi3-window": ("Phi3", dict(sliding_window=20), torch.float32, None, None),
    "phi3-long": ("Phi3", dict(rope_parameters=LONG, original_max_position_embeddings=10), torch.float32, None, None),
    "phi3-short": ("Phi3", dict(rope_parameters=LONG, original_max_position_embeddings=48), torch.float32, None, None),
    "glm4": ("Glm4", dict(head_dim=16, attention_bias=True, rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5)),
             torch.bfloat16, None, None),
    "glm4moe": ("Glm4Moe", dict(n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=24, n_shared_experts=1, n_group=1, topk_group=1,
                                first_k_dense_replace=1, num_hidden_layers=3, head_dim=16, use_qk_norm=True, routed_scaling_factor=1.5,
                                norm_topk_prob=True, rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5)),
                torch.float32, None, None),
    "ernie4_5": ("Ernie4_5", dict(head_dim=8, tie_word_embeddings=True), torch.bfloat16, None, None),
    "ernie4_5-moe": ("Ernie4_5_Moe", dict(moe_num_experts=4, moe_k=2, moe_intermediate_size=24, moe_num_shared_experts=2,
                                          moe_layer_start_index=1), torch.float32, None, None),
    "minimax-m2": ("MiniMaxM2", dict(num_local_experts=4, num_experts_per_tok=2, head_dim=16, rotary_dim=8), torch.bfloat16, None, None),
    "ministral3": ("Ministral3", dict(head_dim=16, rope_parameters=MINISTRAL3), torch.bfloat16, None, None),
    "granitemoe": ("GraniteMoe", dict(GRANITE, num_local_experts=4, num_experts_per_tok=2), torch.bfloat16, None, None),
    "granitemoe-shared": ("GraniteMoeShared", dict(GRANITE, num_local_experts=4, num_experts_per_tok=2, shared_intermediate_size=40),
                          torch.float32, None, None),
    "deepseek2-lite": ("DeepseekV2", dict(DEEPSEEK, n_routed_experts=4, q_lora_rank=None), torch.float32, None, None),
    "deepseek3": ("DeepseekV3", dict(DEEPSEEK, n_routed_experts=8, q_lora_rank=24, n_group=4, topk_group=2, rope_parameters=MLA_YARN), torch.bfloat16,
                  None, None),
    "deepseek3-fp8": ("DeepseekV3", dict(DEEPSEEK, n_routed_experts=4, q_lora_rank=24, n_group=1, topk_group=1), torch.bfloat16, None,
                      dict(FP8, weight_block_size=[16, 16])),
    "gpt-oss": ("GptOss", dict(GPT_OSS, hidden_size=32, intermediate_size=48), torch.bfloat16, None, None),
    "gpt-oss-mxfp4": ("GptOss", dict(GPT_OSS, hidden_size=64, intermediate_size=32), torch.bfloat16, None, dict(quant_method="mxfp4")),
    "qwen3next": ("Qwen3Next", dict(DELTA, **MOE, shared_expert_intermediate_size=40), torch.bfloat16, None, None),
    "qwen3_5": ("Qwen3_5", dict(DELTA), torch.bfloat16, None, None),
    "qwen3_5-moe": ("Qwen3_5Moe", dict(DELTA, **MOE, shared_expert_intermediate_size=40), torch.float32, None, None),
    "qwen3_5-moe-joined": ("Qwen3_5Moe", dict(DELTA, **MOE, shared_expert_intermediate_size=40), torch.bfloat16, None, "joined"),
    "llama-yarn": ("Llama", dict(head_dim=32, rope_parameters=dict(YARN, truncate=False, beta_fast=3.0, beta_slow=0.5)), torch.float32, None, None),
    "gemma": ("Gemma", dict(head_dim=12, tie_word_embeddings=True), torch.bfloat16, None, None),
    "gemma2": ("Gemma2", dict(head_dim=8, sliding_window=6, num_hidden_layers=4, query_pre_attn_scalar=12, tie_word_embeddings=True,
                              attn_logit_softcapping=2.0, final_logit_softcapping=5.0), torch.bfloat16, None, None),
    "lfm2": ("Lfm2", dict(CONV, tie_word_embeddings=True, block_auto_adjust_ff_dim=False), torch.bfloat16, None, None),
    "lfm2-adjusted": ("Lfm2", dict(CONV, block_multiple_of=20, block_ffn_dim_multiplier=1.2), torch.float32, None, None),
    "lfm2-moe": ("Lfm2Moe", dict(CONV, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24, num_dense_layers=1,
                                 routed_scaling_factor=1.5), torch.bfloat16, None, None),
    "granitehybrid": ("GraniteMoeHybrid", dict(GRANITE_HYBRID, num_local_experts=0, num_experts_per_tok=0), torch.bfloat16, None, None),
    "granitehybrid-moe": ("GraniteMoeHybrid", dict(GRANITE_HYBRID, num_local_experts=4), torch.float32, None, None),
    "nemotron_h": ("NemotronH", dict(NEMOTRON_H, hybrid_override_pattern="M-*-"), torch.bfloat16, None, None),
    "nemotron_h-moe": ("NemotronH", dict(NEMOTRON_H, hybrid_override_pattern="ME*E", n_routed_experts=4, moe_intermediate_size=24,
                                         moe_shared_expert_intermediate_size=40, routed_scaling_factor=1.5, moe_latent_size=16),
                       torch.float32, None, None),
    "falcon_h1": ("FalconH1", FALCON_H1, torch.float32, None, None),
    "falcon_h1-norm": ("FalconH1", dict(FALCON_H1, mamba_rms_norm=True, mamba_norm_before_gate=False), torch.bfloat16, None, None),
    "gemma4": ("Gemma4", dict(GEMMA4, hidden_size_per_layer_input=8, num_kv_shared_layers=2, use_double_wide_mlp=True), torch.bfloat16, None, None),
    "gemma4-moe": ("Gemma4", dict(GEMMA4, hidden_size_per_layer_input=0, attention_k_eq_v=True, num_global_key_value_heads=1, enable_moe_block=True,
                                  num_experts=4, top_k_experts=2, moe_intermediate_size=24), torch.float32, None, None),
    "granitehybrid-attention": ("GraniteMoeHybrid", dict(GRANITE_HYBRID, layer_types=["attention"] * 3, position_embedding_type="rope",
                                                         num_local_experts=0, num_experts_per_tok=0), torch.bfloat16, None, None),
    "gemma4-images": ("Gemma4", dict(GEMMA4, pad_token_id=0, hidden_size_per_layer_input=8), torch.bfloat16, None, "images"),
    "lfm2-images": ("Lfm2", dict(CONV, tie_word_embeddings=True, block_auto_adjust_ff_dim=False), torch.bfloat16, None, "images"),
    "qwen2vl": ("Qwen2VL", dict(rope_parameters=dict(MROPE, mrope_section=[1, 2, 1])), torch.bfloat16, None, "images"),
    "qwen2_5vl": ("Qwen2_5_VL", dict(rope_parameters=dict(MROPE, mrope_section=[1, 2, 1]), tie_word_embeddings=True), torch.float32, None, "images"),
    "qwen3vl": ("Qwen3VL", dict(head_dim=16, rope_parameters=dict(MROPE, mrope_section=[4, 2, 2])), torch.bfloat16, None, "images"),
    "qwen3vl-moe": ("Qwen3VLMoe", dict(MOE, head_dim=16, rope_parameters=dict(MROPE, mrope_section=[4, 2, 2])), torch.float32, None, "images"),
    "glm4-lite": ("Glm4MoeLite", dict(DEEPSEEK, n_routed_experts=8, n_shared_experts=1, q_lora_rank=24, n_group=1, topk_group=1), torch.bfloat16, None, None),
    "mistral4": ("Mistral4", dict(MISTRAL4, rope_parameters=MISTRAL4_YARN), torch.float32, None, None),
    "mistral4-images": ("Mistral4", dict(MISTRAL4, rope_parameters=MISTRAL4_YARN), torch.bfloat16, None, "images"),
    "qwen3vl-moe-published": ("Qwen3VLMoe", dict(MOE, head_dim=16, rope_parameters=dict(MROPE, mrope_section=[4, 2, 2])), torch.bfloat16, None,
                              "transposed"),
    "qwen2vl-older": ("Qwen2VL", dict(rope_parameters=dict(MROPE, mrope_section=[1, 2, 1])), torch.bfloat16, None, "older"),
    "seed_oss": ("SeedOss", dict(head_dim=16), torch.bfloat16, None, None),
    "exaone4": ("Exaone4", dict(num_hidden_layers=4, sliding_window=5, rope_parameters=LLAMA3), torch.float32, None, "letters"),
    "exaone4-full": ("Exaone4", dict(num_hidden_layers=4, sliding_window=None, layer_types=["full_attention"] * 4, tie_word_embeddings=True),
                     torch.bfloat16, None, None),
    "cohere2": ("Cohere2", dict(num_hidden_layers=4, sliding_window=5, tie_word_embeddings=True, pad_token_id=0), torch.bfloat16, None, None),
    "hunyuan": ("HunYuanDenseV1", dict(head_dim=16, pad_token_id=0, rope_parameters=dict(rope_type="dynamic", rope_theta=10000.0, alpha=8.0, factor=1.0)),
                torch.bfloat16, None, None),
    "dots1": ("Dots1", dict(n_routed_experts=8, num_experts_per_tok=2, moe_intermediate_size=24, n_shared_experts=2, n_group=4, topk_group=2,
                            first_k_dense_replace=1, num_hidden_layers=3, routed_scaling_factor=1.5, norm_topk_prob=True), torch.float32, None, None),
    "hunyuan-moe": ("HunYuanMoEV1", dict(head_dim=16, pad_token_id=0, num_experts=4, moe_topk=2,
                                         rope_parameters=dict(rope_type="dynamic", rope_theta=10000.0, alpha=8.0, factor=1.0)), torch.bfloat16, None, None),
    "cohere": ("Cohere", dict(tie_word_embeddings=True, pad_token_id=0), torch.bfloat16, None, None),
    "arcee": ("Arcee", dict(rope_parameters=YARN, mlp_bias=True), torch.bfloat16, None, None),
    "afmoe": ("Afmoe", dict(num_hidden_layers=5, head_dim=8, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24, num_shared_experts=2,
                            sliding_window=5, route_scale=1.5, mup_enabled=True), torch.float32, None, None),
    "mellum": ("Mellum", dict(MOE, num_hidden_layers=4, head_dim=12, sliding_window=6, layer_types=["sliding_attention"] * 3 + ["full_attention"], rope_parameters={
        "full_attention": YARN, "sliding_attention": dict(rope_type="default", rope_theta=5000.0)}), torch.bfloat16, None, None),
    "starcoder2": ("Starcoder2", dict(sliding_window=20, tie_word_embeddings=True), torch.bfloat16, None, None),
    "nemotron": ("Nemotron", dict(rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5)), torch.bfloat16, None, None),
    "stablelm": ("StableLm", dict(use_qkv_bias=True, rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5)),
                 torch.float32, None, None),
}


def with_images(kind, text):
    """The class and the configuration of a model that also sees images; `text` is that of its language model."""
    name, vision = IMAGES[kind]
    return name + "ForConditionalGeneration", getattr(transformers, name + "Config")(text_config=text.to_dict(), vision_config=vision,
                                                                                     tie_word_embeddings=text.tie_word_embeddings)


def config_of(kind, changes):
    kind = kind + "Text" if kind in ("Gemma3", "Gemma4", "Qwen3_5", "Qwen3_5Moe", "Qwen2VL", "Qwen2_5_VL", "Qwen3VL", "Qwen3VLMoe") else kind
    return getattr(transformers, kind + "Config")(**{**SHAPE, **changes})


def fp8_blocks(weight, block):
    """Rounds a matrix to FP8. Returns its numbers, their scales, and the bf16 values that they stand for."""
    rows, columns = block or weight.shape
    n = [-(-weight.shape[0] // rows), -(-weight.shape[1] // columns)]
    scales, quants, values = torch.ones(n), torch.zeros(weight.shape), torch.zeros(weight.shape)
    for r in range(n[0]):
        for c in range(n[1]):
            at = slice(r * rows, (r + 1) * rows), slice(c * columns, (c + 1) * columns)
            scales[r, c] = weight[at].abs().max() / 448.0
            quants[at] = (weight[at] / scales[r, c]).to(torch.float8_e4m3fn).float()
            values[at] = quants[at] * scales[r, c]
    return quants.to(torch.float8_e4m3fn), scales if block else scales.reshape(1), values.to(torch.bfloat16)


def mxfp4(weight):
    """Rounds [experts, rows, columns] to MXFP4. Returns the bytes of blocks and scales, and the values that they stand for."""
    values = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])
    x = weight.reshape(*weight.shape[:-1], -1, 32)
    exponent = torch.floor(torch.log2(x.abs().amax(-1, keepdim=True).clamp(min=1e-20))) - 2
    index = (x.abs() / 2**exponent - values.reshape(8, 1, 1, 1, 1)).abs().argmin(0)
    exact = (values[index] * torch.sign(x) * 2**exponent).reshape(weight.shape)
    index = index + 8 * (x < 0)
    return (index[..., 0::2] + 16 * index[..., 1::2]).to(torch.uint8), (exponent[..., 0] + 127).to(torch.uint8), exact


def quantise_mxfp4(tensors, exact, name):
    """The experts of gpt-oss: rows of gate and up in turns, as in the published files."""
    blocks, scales, values = mxfp4(tensors.pop(name).float().transpose(1, 2))
    tensors[name + "_blocks"], tensors[name + "_scales"] = blocks.contiguous(), scales.contiguous()
    exact[name] = values.transpose(1, 2).to(torch.bfloat16).contiguous()


def quantise(directory, quantization):
    """Rewrites the file of a directory with its projections in FP8. Returns the tensors in bf16."""
    path = directory / "model.safetensors"
    tensors, exact = {}, {}
    with safe_open(path, "pt") as file:
        for name in file.keys():
            tensors[name] = exact[name] = file.get_tensor(name)
            if quantization["quant_method"] == "mxfp4":
                if name.endswith(("experts.gate_up_proj", "experts.down_proj")):
                    quantise_mxfp4(tensors, exact, name)
            elif "_proj" in name and name.endswith(".weight"):
                block = quantization.get("weight_block_size")
                tensors[name], scales, exact[name] = fp8_blocks(tensors[name].float(), block)
                tensors[name + "_scale_inv"] = scales
    save_file(tensors, path, metadata={"format": "pt"})
    config = json.loads((directory / "config.json").read_text())
    config["quantization_config"] = quantization
    (directory / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    return exact


def join_experts(directory):
    """Rewrites the file of a directory as the published files of Qwen 3.5 have it: gate and up of all experts are one tensor."""
    path = directory / "model.safetensors"
    with safe_open(path, "pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}
    for name in [n for n in tensors if n.endswith("experts.0.gate_proj.weight")]:
        prefix = name.removesuffix("0.gate_proj.weight")
        part = {which: [tensors.pop(f"{prefix}{i}.{which}_proj.weight") for i in range(MOE["num_experts"])] for which in ("gate", "up", "down")}
        tensors[prefix + "gate_up_proj"] = torch.stack([torch.cat(pair) for pair in zip(part["gate"], part["up"])])
        tensors[prefix + "down_proj"] = torch.stack(part["down"])
    save_file(tensors, path, metadata={"format": "pt"})


def as_older(directory):
    """Rewrites a directory as the published files of Qwen2-VL have it: one object in config.json, and older names of tensors."""
    path = directory / "model.safetensors"
    with safe_open(path, "pt") as file:
        tensors = {name.replace("model.language_model.", "model.").replace("model.visual.", "visual."): file.get_tensor(name) for name in file.keys()}
    save_file(tensors, path, metadata={"format": "pt"})
    config = json.loads((directory / "config.json").read_text())
    text = config.pop("text_config")
    rope = text.pop("rope_parameters")
    text |= dict(model_type="qwen2_vl", rope_theta=rope["rope_theta"], rope_scaling={"type": "mrope", "mrope_section": rope["mrope_section"]})
    (directory / "config.json").write_text(json.dumps(config | text, indent=2) + "\n")


def with_letters(directory):
    """Rewrites config.json as the published files of EXAONE 4.0 have it: letters say which layers have a window."""
    config = json.loads((directory / "config.json").read_text())
    letters = "".join("G" if kind == "full_attention" else "L" for kind in config.pop("layer_types"))
    (directory / "config.json").write_text(json.dumps(config | {"sliding_window_pattern": letters}, indent=2) + "\n")


def transpose_experts(directory):
    """Rewrites the file of a directory as the published files of Qwen3-VL have it: [experts, columns, rows]."""
    path = directory / "model.safetensors"
    with safe_open(path, "pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}
    save_file({k: v.transpose(1, 2).contiguous() if ".experts." in k else v for k, v in tensors.items()}, path, metadata={"format": "pt"})


def make(name, directory, seed):
    kind, changes, dtype, shard, quantization = MODELS[name]
    torch.manual_seed(seed)
    config = config_of(kind, changes)
    of = kind + "ForCausalLM"
    if quantization in ("images", "older", "transposed"):
        of, config = with_images(kind, config)
    model = getattr(transformers, of)(config).float().eval()
    plus_1 = kind in ("Gemma", "Gemma2", "Gemma3", "Qwen3Next", "Qwen3_5", "Qwen3_5Moe", "Nemotron")
    with torch.no_grad():
        for key, weight in model.named_parameters():
            scale = 0.3 if weight.dim() == 1 else 1.6 * weight.shape[-1] ** -0.5
            weight.copy_(torch.randn(weight.shape) * scale + (1.0 if "norm" in key and not plus_1 or "attn.norm" in key else 0.0))
        for key, bias in model.named_buffers():
            if key.endswith("e_score_correction_bias"):
                bias.copy_(torch.randn(bias.shape) * 0.3)
    shutil.rmtree(directory, ignore_errors=True)
    model.to(dtype).save_pretrained(directory, **({"max_shard_size": shard} if shard else {}))
    if quantization == "joined":
        join_experts(directory)
    elif quantization == "older":
        as_older(directory)
    elif quantization == "letters":
        with_letters(directory)
    elif quantization == "transposed":
        transpose_experts(directory)
    elif quantization and quantization != "images":
        exact = quantise(directory, quantization)
        plain = directory / "plain"
        plain.mkdir()
        save_file(exact, plain / "model.safetensors", metadata={"format": "pt"})
        config.save_pretrained(plain)
        (plain / "config.json").write_text(json.dumps({k: v for k, v in json.loads((directory / "config.json").read_text()).items()
                                                       if k != "quantization_config"}))
        model = type(model).from_pretrained(plain, dtype=torch.float32).eval()
        shutil.rmtree(plain)
    ids = torch.randint(0, N_VOCAB, (N_IDS,))
    with torch.no_grad():
        logits = model.float()(ids[None]).logits[0]
    lines = [f"# transformers {transformers.__version__}, torch {torch.__version__.split('+')[0]}", "ids " + " ".join(map(str, ids.tolist()))]
    lines += ["logits " + " ".join(f"{x:.7g}" for x in row) for row in logits.tolist()]
    (directory / "logits.txt").write_text("\n".join(lines) + "\n")


def main():
    out, names = pathlib.Path(sys.argv[1]), sys.argv[2:] or list(MODELS)
    for i, name in enumerate(MODELS):
        if name in names:
            make(name, out / name, i + 1)
            print(name)


if __name__ == "__main__":
    main()

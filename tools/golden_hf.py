#!/usr/bin/env python3
"""Directories of Hugging Face with tiny random models, and their logits by transformers.

    tools/golden_hf.py OUT_DIRECTORY [NAME...]

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
    "llama-yarn": ("Llama", dict(head_dim=32, rope_parameters=dict(YARN, truncate=False, beta_fast=3.0, beta_slow=0.5)), torch.float32, None, None),
}


def config_of(kind, changes):
    kind = "Gemma3Text" if kind == "Gemma3" else kind
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


def quantise(directory, quantization):
    """Rewrites the file of a directory with its projections in FP8. Returns the tensors in bf16."""
    path = directory / "model.safetensors"
    tensors, exact = {}, {}
    with safe_open(path, "pt") as file:
        for name in file.keys():
            tensors[name] = exact[name] = file.get_tensor(name)
            if "_proj" in name and name.endswith(".weight"):
                block = quantization.get("weight_block_size")
                tensors[name], scales, exact[name] = fp8_blocks(tensors[name].float(), block)
                tensors[name + "_scale_inv"] = scales
    save_file(tensors, path, metadata={"format": "pt"})
    config = json.loads((directory / "config.json").read_text())
    config["quantization_config"] = quantization
    (directory / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    return exact


def make(name, directory, seed):
    kind, changes, dtype, shard, quantization = MODELS[name]
    torch.manual_seed(seed)
    config = config_of(kind, changes)
    model = getattr(transformers, kind + "ForCausalLM")(config).float().eval()
    with torch.no_grad():
        for key, weight in model.named_parameters():
            scale = 0.3 if weight.dim() == 1 else 1.6 * weight.shape[-1] ** -0.5
            weight.copy_(torch.randn(weight.shape) * scale + (1.0 if "norm" in key and kind != "Gemma3" else 0.0))
        for key, bias in model.named_buffers():
            if key.endswith("e_score_correction_bias"):
                bias.copy_(torch.randn(bias.shape) * 0.3)
    shutil.rmtree(directory, ignore_errors=True)
    model.to(dtype).save_pretrained(directory, **({"max_shard_size": shard} if shard else {}))
    if quantization:
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

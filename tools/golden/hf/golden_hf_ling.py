#!/usr/bin/env python3
"""A directory of Ling 2.0 with random weights, and its logits by the code that its makers publish (transformers has none).

    tools/golden/hf/golden_hf_ling.py LING_V2 OUT_DIRECTORY

LING_V2 is a clone of github.com/inclusionAI/Ling-V2. OUT_DIRECTORY gets what golden_hf.py writes. The code needs transformers 4.57."""
import importlib
import pathlib
import shutil
import subprocess
import sys
import tempfile

import torch
import transformers

N_IDS, N_VOCAB = 14, 64
SHAPE = dict(vocab_size=N_VOCAB, hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
             max_position_embeddings=64, bos_token_id=1, eos_token_id=2, pad_token_id=0, head_dim=16, partial_rotary_factor=0.5,
             num_experts=8, num_shared_experts=2, num_experts_per_tok=2, n_group=4, topk_group=2, moe_intermediate_size=24,
             first_k_dense_replace=1, routed_scaling_factor=2.5, norm_topk_prob=True, score_function="sigmoid")


def main():
    source, out = pathlib.Path(sys.argv[1]) / "models", pathlib.Path(sys.argv[2])
    commit = subprocess.run(["git", "-C", sys.argv[1], "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    with tempfile.TemporaryDirectory() as folder:  # the files import each other as those of a package
        shutil.copytree(source, pathlib.Path(folder) / "ling")
        sys.path.insert(0, folder)
        of = importlib.import_module("ling.modeling_bailing_moe_v2").BailingMoeV2ForCausalLM
        config_of = importlib.import_module("ling.configuration_bailing_moe_v2").BailingMoeV2Config
    torch.manual_seed(1)
    model = of(config_of(**SHAPE)).float().eval()
    with torch.no_grad():
        for key, weight in model.named_parameters():
            scale = 0.3 if weight.dim() == 1 else 1.6 * weight.shape[-1] ** -0.5
            weight.copy_(torch.randn(weight.shape) * scale + (1.0 if "norm" in key else 0.0))
        for key, bias in model.named_buffers():
            if key.endswith("expert_bias"):
                bias.copy_(torch.randn(bias.shape) * 0.3)
    shutil.rmtree(out, ignore_errors=True)
    model.to(torch.bfloat16).save_pretrained(out)
    ids = torch.randint(0, N_VOCAB, (N_IDS,))
    with torch.no_grad():
        logits = of.from_pretrained(out, dtype=torch.float32).eval()(ids[None]).logits[0]  # frequencies of RoPE have not been bf16
    lines = [f"# inclusionAI/Ling-V2 {commit[:12]}, transformers {transformers.__version__}, torch {torch.__version__.split('+')[0]}",
             "ids " + " ".join(map(str, ids.tolist()))]
    lines += ["logits " + " ".join(f"{x:.7g}" for x in row) for row in logits.tolist()]
    (out / "logits.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()

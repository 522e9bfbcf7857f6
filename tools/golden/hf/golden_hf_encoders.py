#!/usr/bin/env python3
"""Directories of Hugging Face with tiny random encoders, and the mean of their hidden states by transformers.

    tools/golden/hf/golden_hf_encoders.py OUT_DIRECTORY TOKENIZERS

NAME/ is a directory as save_pretrained writes it. NAME/embeddings.txt has token ids and, in the line below, the mean of the hidden
states after the last norm, computed in f32. Lines "text" in front of ids have the text, in hexadecimal, that tokenizers makes these ids
of with TOKENIZERS/xlm-roberta/tokenizer.json. GELU is computed by tanh, as llama.cpp does for these families, while config.json says
gelu. Run it in an environment with torch and transformers."""
import json
import pathlib
import shutil
import sys

import tokenizers
import torch
import transformers

SHAPE = dict(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=40)
TEXTS = ["In the beginning God created the heaven and the earth.", "\ufb01ve  \u2167 caf\u00e9s\r\nA\u030a", "  Two  spaces "]
ROBERTA = dict(SHAPE, pad_token_id=1, bos_token_id=0, eos_token_id=2, type_vocab_size=1, layer_norm_eps=1e-5)
MODERN = dict(SHAPE, num_hidden_layers=5, local_attention=6, pad_token_id=0, bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2,
              rope_parameters=dict(full_attention=dict(rope_type="default", rope_theta=160000.0), sliding_attention=dict(rope_type="default", rope_theta=1000.0)))
GEMMA = dict(SHAPE, num_hidden_layers=3, num_key_value_heads=2, head_dim=8, sliding_window=6, query_pre_attn_scalar=12, sliding_window_pattern=3,
             use_bidirectional_attention=True)

# name: (class, class of the configuration, its values, type)
MODELS = {
    "xlm-roberta": ("XLMRobertaModel", "XLMRobertaConfig", ROBERTA, torch.bfloat16),
    "xlm-roberta-masked": ("XLMRobertaForMaskedLM", "XLMRobertaConfig", ROBERTA, torch.float32),
    "roberta": ("RobertaModel", "RobertaConfig", dict(ROBERTA, pad_token_id=3), torch.float32),
    "modernbert": ("ModernBertModel", "ModernBertConfig", MODERN, torch.float32),
    "modernbert-masked": ("ModernBertForMaskedLM", "ModernBertConfig", dict(MODERN, hidden_activation="silu"), torch.float32),
    "gemma3-text": ("Gemma3TextModel", "Gemma3TextConfig", GEMMA, torch.float32),
}


def make(name, directory, texts, seed):
    of, config_of, values, dtype = MODELS[name]
    torch.manual_seed(seed)
    values = dict(values)
    if texts:
        values["vocab_size"] = texts.get_vocab_size() + 3
    activation = "hidden_activation" if "ern" in of or "Gemma" in of else "hidden_act"
    values.setdefault(activation, "gelu_pytorch_tanh")
    config = getattr(transformers, config_of)(**values)
    model = getattr(transformers, of)(config).float().eval()
    with torch.no_grad():
        for key, weight in model.named_parameters():
            scale = 0.3 if weight.dim() == 1 else 1.6 * weight.shape[-1] ** -0.5
            norm = ("norm" in key or "LayerNorm" in key) and key.endswith("weight") and "Gemma" not in of
            weight.copy_(torch.randn(weight.shape) * scale + (1.0 if norm else 0.0))
    shutil.rmtree(directory, ignore_errors=True)
    model.to(dtype).save_pretrained(directory)
    path = directory / "config.json"
    if values[activation] == "gelu_pytorch_tanh" and "Gemma" not in of:
        path.write_text(path.read_text().replace("gelu_pytorch_tanh", "gelu"))
    model = model.float()
    base = getattr(model, "roberta", None) or getattr(model, "model", None) or model
    cases = [("", torch.randint(4, 64, (n,)).tolist()) for n in (1, 7, 24)] if not texts else [(t, texts.encode(t).ids) for t in TEXTS]
    lines = [f"# transformers {transformers.__version__}, torch {torch.__version__.split('+')[0]}"]
    for text, ids in cases:
        with torch.no_grad():
            states = base(torch.tensor([ids])).last_hidden_state[0]
        lines += [f"text {text.encode().hex()}"] if text else []
        lines += ["ids " + " ".join(map(str, ids)), "mean " + " ".join(f"{x:.7g}" for x in states.mean(0).tolist())]
    (directory / "embeddings.txt").write_text("\n".join(lines) + "\n")


def main():
    out, source = map(pathlib.Path, sys.argv[1:])
    of_xlm = tokenizers.Tokenizer.from_file(str(source / "xlm-roberta" / "tokenizer.json"))
    for i, name in enumerate(MODELS):
        make(name, out / name, of_xlm if name == "xlm-roberta" else None, i + 1)
        print(name, json.loads((out / name / "config.json").read_text())["architectures"])


if __name__ == "__main__":
    main()

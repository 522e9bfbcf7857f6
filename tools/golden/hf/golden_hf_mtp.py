#!/usr/bin/env python3
"""Directories of Hugging Face with tiny random models that have a layer for multi-token prediction (MTP), and its logits.

    tools/golden/hf/golden_hf_mtp.py OUT_DIRECTORY

NAME-mtp/ is as golden_hf.py makes it, with logits.txt of the model without the layer. NAME-mtp/mtp.txt has what golden_mtp.py writes:
tokens, and the hidden state and the logits of the last column. The layer is one of transformers, which runs no layers of this kind for
these families: x = eh_proj [enorm(embedding); hnorm(h)], and the logits are those of shared_head.norm(layer(x)), as in vLLM. All in f32.
Run it in an environment with torch, transformers and safetensors."""
import json
import pathlib
import shutil
import sys

import torch
import transformers
from safetensors import safe_open
from safetensors.torch import save_file

import golden_hf

N = 9
QWEN = ("Qwen3Next", "Qwen3_5", "Qwen3_5Moe")
# name: number of layers in front of the one for MTP, and the seed
MODELS = {"qwen3next": (4, 100), "qwen3_5": (4, 101), "qwen3_5-moe": (4, 102), "glm4moe": (3, 103), "deepseek3": (2, 104), "glm4-lite": (2, 106)}
NAMES = {"eh_proj": "fc", "enorm": "pre_fc_norm_embedding", "hnorm": "pre_fc_norm_hidden", "shared_head.norm": "norm"}


def random_model(kind, config, seed):
    torch.manual_seed(seed)
    model = getattr(transformers, kind + "ForCausalLM")(config).float().eval()
    norm = type(model.model.norm)
    extra = {"eh_proj": torch.nn.Linear(2 * config.hidden_size, config.hidden_size, bias=False)}
    extra |= {name: norm(config.hidden_size, eps=config.rms_norm_eps) for name in ("enorm", "hnorm", "shared_head.norm")}
    parameters = list(model.named_parameters()) + [(f"{n}.{k}", w) for n, module in extra.items() for k, w in module.named_parameters()]
    with torch.no_grad():
        for key, weight in parameters:
            scale = 0.3 if weight.dim() == 1 else 1.6 * weight.shape[-1] ** -0.5
            weight.copy_(torch.randn(weight.shape) * scale + (1.0 if "norm" in key and kind not in QWEN or "attn.norm" in key else 0.0))
        for key, bias in model.named_buffers():
            if key.endswith("e_score_correction_bias"):
                bias.copy_(torch.randn(bias.shape) * 0.3)
    return model, extra


def run_layer(model, extra, layer, tokens):
    """The hidden state and the logits of the last column."""
    kept = {}
    handle = model.model.layers[layer].register_forward_pre_hook(lambda module, args, kwargs: kept.update(kwargs), with_kwargs=True)
    with torch.no_grad():
        model(torch.tensor([tokens]), use_cache=False)  # for the positions and the mask
        handle.remove()
        n = model.config.hidden_size
        hidden = torch.tensor([[(37 * i + 11 * j) % 101 / 50 - 1 for j in range(n)] for i in range(N)])
        embd = model.model.embed_tokens(torch.tensor([tokens]))
        x = extra["eh_proj"](torch.cat([extra["enorm"](embd), extra["hnorm"](hidden[None])], dim=-1))
        y = extra["shared_head.norm"](model.model.layers[layer](x, **{k: v for k, v in kept.items() if k != "hidden_states"}))
        return y[0, -1].tolist(), model.lm_head(y)[0, -1].tolist()


def rewrite(directory, kind, extra, layer):
    """Gives the tensors of the layer the names of the published files, and config.json the layers in front of it."""
    path = directory / "model.safetensors"
    with safe_open(path, "pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}
    for name, module in extra.items():
        tensors[f"mtp.{NAMES[name]}.weight" if kind in QWEN else f"model.layers.{layer}.{name}.weight"] = module.weight.detach().clone()
    if kind in ("DeepseekV3", "Glm4MoeLite"):
        tensors[f"model.layers.{layer}.embed_tokens.weight"] = tensors["model.embed_tokens.weight"].clone()
        tensors[f"model.layers.{layer}.shared_head.head.weight"] = tensors["lm_head.weight"].clone()
    if kind in QWEN:
        tensors = {n.replace(f"model.layers.{layer}.", "mtp.layers.0."): t for n, t in tensors.items()}
    save_file(tensors, path, metadata={"format": "pt"})
    config = json.loads((directory / "config.json").read_text())
    config["num_hidden_layers"] = layer
    for key in ("layer_types", "mlp_layer_types"):
        if config.get(key):
            config[key] = config[key][:layer]
    if kind.startswith("Qwen3_5"):
        config["mtp_num_hidden_layers"] = 1
    if kind == "Glm4MoeLite":  # as in the published file; the class of transformers does not keep it
        config["num_nextn_predict_layers"] = 1
    (directory / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def make(name, directory):
    (layer, seed), (kind, changes, *_) = MODELS[name], golden_hf.MODELS[name]
    of_layers = {"layer_types": ["linear_attention"] * 3 + ["full_attention"] * 2} if kind in QWEN else {}
    config = golden_hf.config_of(kind, {**changes, **of_layers, "num_hidden_layers": layer + 1})
    model, extra = random_model(kind, config, seed)
    tokens = [3 + 7 * i % 40 for i in range(N)]
    hidden, logits = run_layer(model, extra, layer, tokens)
    shutil.rmtree(directory, ignore_errors=True)
    model.save_pretrained(directory)
    rewrite(directory, kind, extra, layer)
    head = f"# transformers {transformers.__version__}, torch {torch.__version__.split('+')[0]}"
    lines = [head, f"model {directory.name}", "tokens " + " ".join(map(str, tokens))]
    lines += [what + "".join(f" {x:.6f}" for x in values) for what, values in (("hidden", hidden), ("logits", logits))]
    (directory / "mtp.txt").write_text("\n".join(lines) + "\n")
    model = type(model).from_pretrained(directory, dtype=torch.float32).eval()
    ids = torch.randint(0, golden_hf.N_VOCAB, (golden_hf.N_IDS,))
    with torch.no_grad():
        rows = model(ids[None]).logits[0].tolist()
    lines = [head, "ids " + " ".join(map(str, ids.tolist()))] + ["logits " + " ".join(f"{x:.7g}" for x in row) for row in rows]
    (directory / "logits.txt").write_text("\n".join(lines) + "\n")


def main():
    for name in MODELS:
        make(name, pathlib.Path(sys.argv[1]) / f"{name}-mtp")
        print(name)


if __name__ == "__main__":
    main()

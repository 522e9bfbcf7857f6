#!/usr/bin/env python3
"""Embeddings of all-MiniLM-L6-v2 by NumPy in float64, with the ids of the package tokenizers.

    tools/golden/hf/golden_minilm.py models/all-minilm-l6-v2 tests/golden/minilm.txt

Each text has two lines: its bytes in hexadecimal with the ids, and the embedding, of length 1. GELU is the one by erf, with which the
model was trained."""
import json
import math
import pathlib
import sys

import numpy as np
import tokenizers

TEXTS = ["This is a test.", "A man is eating food.", "A man is eating a piece of bread.", "The girl is carrying a baby.",
         "What is the capital of France?", "Paris has been the capital of France since the year 987.", "a", "Café Ångström naïve",
         "def f(x):\n    return x ** 2  # square", "中文字符 and more", "In the beginning God created the heaven and the earth. " * 12]


def weights(path):
    data = path.read_bytes()
    n = int.from_bytes(data[:8], "little")
    out = {}
    for name, t in json.loads(data[8:8 + n]).items():
        if name != "__metadata__" and t["dtype"] == "F32":
            a, b = t["data_offsets"]
            out[name] = np.frombuffer(data[8 + n + a:8 + n + b], np.float32).reshape(t["shape"]).astype(np.float64)
    return out


def embed(w, config, ids):
    def linear(x, name):
        return x @ w[name + ".weight"].T + w[name + ".bias"]

    def norm(x, name):
        x = x - x.mean(axis=-1, keepdims=True)
        x = x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + config["layer_norm_eps"])
        return x * w[name + ".weight"] + w[name + ".bias"]

    heads = config["num_attention_heads"]
    erf = np.vectorize(math.erf)
    x = w["embeddings.word_embeddings.weight"][ids] + w["embeddings.token_type_embeddings.weight"][0]
    x = norm(x + w["embeddings.position_embeddings.weight"][:len(ids)], "embeddings.LayerNorm")
    for i in range(config["num_hidden_layers"]):
        p = f"encoder.layer.{i}."
        q, k, v = (linear(x, p + f"attention.self.{n}").reshape(len(ids), heads, -1).transpose(1, 0, 2) for n in ("query", "key", "value"))
        s = q @ k.transpose(0, 2, 1) / math.sqrt(q.shape[-1])
        s = np.exp(s - s.max(axis=-1, keepdims=True))
        h = (s / s.sum(axis=-1, keepdims=True)) @ v
        h = h.transpose(1, 0, 2).reshape(len(ids), -1)
        x = norm(x + linear(h, p + "attention.output.dense"), p + "attention.output.LayerNorm")
        h = linear(x, p + "intermediate.dense")
        h = 0.5 * h * (1.0 + erf(h / math.sqrt(2.0)))
        x = norm(x + linear(h, p + "output.dense"), p + "output.LayerNorm")
    x = x.mean(axis=0)
    return x / np.linalg.norm(x)


def main():
    source = pathlib.Path(sys.argv[1])
    w, config = weights(source / "model.safetensors"), json.loads((source / "config.json").read_text())
    tokenizer = tokenizers.Tokenizer.from_file(str(source / "tokenizer.json"))
    tokenizer.no_truncation(), tokenizer.no_padding()
    with open(sys.argv[2], "w", encoding="ascii") as f:
        print(f"# all-MiniLM-L6-v2, numpy {np.__version__}, tokenizers {tokenizers.__version__}", file=f)
        for text in TEXTS:
            ids = tokenizer.encode(text).ids
            print(text.encode().hex(), *ids, file=f)
            print(*(f"{x:.7f}" for x in embed(w, config, ids)), file=f)


if __name__ == "__main__":
    main()

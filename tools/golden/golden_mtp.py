#!/usr/bin/env python3
"""Logits of the layers that predict further tokens (MTP) of the models in tests/golden/tiny, by NumPy in float64.

    tools/golden/golden_mtp.py tests/golden/tiny tests/golden/mtp.txt

Column i has token tokens[i] and the hidden state h[i], with h[i][j] = ((37 i + 11 j) mod 101) / 50 - 1 in a model with n elements j. As in
the implementations of vLLM and llama.cpp, e = enorm(embedding), h = hnorm(hidden state), the layer's input is eh_proj [e; h] with the
embedding first, and the hidden state for the next guess is shared_head_norm(layer(x)), of which the logits are."""
import pathlib
import sys

import gguf
import numpy as np

import new_types

MODELS = ["glm4moe-f32", "qwen35-mix", "qwen35moe-mix", "qwen3next-mix"]
N = 9


class Mtp:
    def __init__(self, path):
        self.file = gguf.GGUFReader(str(path))
        self.tensors = {t.name: t for t in self.file.tensors}
        self.arch = self.key("general.architecture")
        self.layer = self.key("block_count") - self.key("nextn_predict_layers")

    def key(self, name, default=None):
        field = self.file.get_field(name if name.startswith("general.") else f"{self.arch}.{name}")
        return field.contents() if field is not None else default

    def weight(self, name):
        t = self.tensors[name]
        data = t.data if t.tensor_type == gguf.GGMLQuantizationType.F32 else new_types.dequantize(t.data, t.tensor_type)
        return np.asarray(data, np.float64)

    def of_layer(self, name):
        return self.weight(f"blk.{self.layer}.{name}")

    def has(self, name):
        return f"blk.{self.layer}.{name}" in self.tensors

    def norm(self, x, weight):
        return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + self.key("attention.layer_norm_rms_epsilon")) * weight

    def linear(self, x, name):
        y = x @ self.of_layer(name + ".weight").T
        return y + self.of_layer(name + ".bias") if self.has(name + ".bias") else y

    def rotated(self, x):
        """x [t, heads, dim]: pairs (i, i + n / 2) of the first n elements."""
        n = self.key("rope.dimension_count", x.shape[-1])
        angle = np.arange(len(x))[:, None] * self.key("rope.freq_base", 10000.0) ** (-np.arange(0, n, 2) / n)
        c, s, a, b = np.cos(angle)[:, None], np.sin(angle)[:, None], x[..., :n // 2], x[..., n // 2:n]
        return np.concatenate([a * c - b * s, a * s + b * c, x[..., n:]], axis=-1)

    def attention(self, x):
        heads, heads_kv, dim = self.key("attention.head_count"), self.key("attention.head_count_kv"), self.key("attention.key_length")
        q, gate = self.linear(x, "attn_q").reshape(len(x), heads, -1), None
        if q.shape[-1] == 2 * dim:
            q, gate = q[..., :dim], q[..., dim:]
        k, v = (self.linear(x, name).reshape(len(x), heads_kv, dim) for name in ("attn_k", "attn_v"))
        if self.has("attn_q_norm.weight"):
            q, k = self.norm(q, self.of_layer("attn_q_norm.weight")), self.norm(k, self.of_layer("attn_k_norm.weight"))
        q, k = self.rotated(q), np.repeat(self.rotated(k), heads // heads_kv, axis=1)
        scores = np.einsum("thd,shd->hts", q, k) / np.sqrt(dim)
        scores[:, np.triu(np.ones((len(x), len(x)), bool), 1)] = -np.inf
        p = np.exp(scores - scores.max(axis=-1, keepdims=True))
        y = np.einsum("hts,shd->thd", p / p.sum(axis=-1, keepdims=True), np.repeat(v, heads // heads_kv, axis=1))
        if gate is not None:
            y = y / (1 + np.exp(-gate))
        return self.linear(y.reshape(len(x), -1), "attn_output")

    def gated(self, x, name, of=None):
        w = [self.of_layer(f"ffn_{part}{name}.weight") for part in ("gate", "up", "down")]
        gate, up, down = w if of is None else [m[of] for m in w]
        a = x @ gate.T
        return (a / (1 + np.exp(-a)) * (x @ up.T)) @ down.T

    def feed_forward(self, x):
        if not self.has("ffn_gate_inp.weight"):
            return self.gated(x, "")
        logits = x @ self.of_layer("ffn_gate_inp.weight").T
        if self.key("expert_gating_func", 1) == 2:
            probs = 1 / (1 + np.exp(-logits))
        else:
            probs = np.exp(logits - logits.max(axis=-1, keepdims=True))
            probs /= probs.sum(axis=-1, keepdims=True)
        choice = probs + (self.of_layer("exp_probs_b.bias") if self.has("exp_probs_b.bias") else 0)
        y = np.zeros_like(x)
        for t in range(len(x)):
            chosen = np.argsort(-choice[t], kind="stable")[:self.key("expert_used_count")]
            weights = probs[t, chosen] / probs[t, chosen].sum() * self.key("expert_weights_scale", 1.0)
            y[t] = sum(w * self.gated(x[t], "_exps", e) for w, e in zip(weights, chosen))
        if self.has("ffn_up_shexp.weight"):
            shared = self.gated(x, "_shexp")
            if self.has("ffn_gate_inp_shexp.weight"):
                shared /= 1 + np.exp(-(x @ self.of_layer("ffn_gate_inp_shexp.weight")))[:, None]
            y += shared
        return y

    def run(self, tokens, hidden):
        embd = self.weight("token_embd.weight")
        e = self.norm(embd[tokens], self.of_layer("nextn.enorm.weight"))
        h = self.norm(hidden, self.of_layer("nextn.hnorm.weight"))
        x = np.concatenate([e, h], axis=-1) @ self.of_layer("nextn.eh_proj.weight").T
        x = x + self.attention(self.norm(x, self.of_layer("attn_norm.weight")))
        x = x + self.feed_forward(self.norm(x, self.of_layer("post_attention_norm.weight")))
        x = self.norm(x, self.of_layer("nextn.shared_head_norm.weight"))
        return x, x @ (self.weight("output.weight") if "output.weight" in self.tensors else embd).T


def main():
    folder, out = map(pathlib.Path, sys.argv[1:])
    with out.open("w") as f:
        f.write(f"# numpy {np.__version__}, gguf 0.19.0: model, tokens, hidden states and logits of the last column\n")
        for name in MODELS:
            m = Mtp(folder / f"{name}.gguf")
            n = m.key("embedding_length")
            tokens = [3 + 7 * i % 40 for i in range(N)]
            hidden = np.array([[(37 * i + 11 * j) % 101 / 50 - 1 for j in range(n)] for i in range(N)])
            after, logits = m.run(tokens, hidden)
            f.write(f"model {name}\ntokens {' '.join(map(str, tokens))}\n")
            for what, values in (("hidden", after[-1]), ("logits", logits[-1])):
                f.write(what + "".join(f" {v:.6f}" for v in values) + "\n")


if __name__ == "__main__":
    main()

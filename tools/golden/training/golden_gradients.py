#!/usr/bin/env python3
"""Gradients of whole tiny models by PyTorch in float64, for tests/trainer. Made with PyTorch 2.15.0 and gguf 0.19.0; the first
line of the output names the version.

    golden_gradients.py >tests/golden/gradients.txt

The models are those of tests/golden/tiny, at least one of each family. The decoder below is written from the definitions of
the families, not from Reprise. Its logits are first compared with those of llama.cpp (NAME.txt); the f16 cache of llama.cpp
is the difference that is left.

    model NAME aux FACTOR seq N          the loss is the mean cross entropy plus FACTOR times the auxiliary loss
    loss CROSS_ENTROPY AUX
    TENSOR ELEMENTS LARGEST NORM SUM G...   of its gradient: max |g|, norm, sum of g[i] * cos(i), elements i * ELEMENTS / n

Tokens: those of tokens(), two sequences, the second one with padding at its end. Padding takes part in neither loss."""
import math
import pathlib
import sys

import gguf
import torch
from torch.nn import functional as F

TINY = pathlib.Path(__file__).parents[3] / "tests/golden/tiny"
BATCH, PADDING, STORED = 2, 3, 16
NEIGHBOURS = ("llama", "smollm3", "granite", "granitemoe", "deepseek2")  # RoPE rotates pairs of neighbours, else of halves
torch.set_default_dtype(torch.float64)


def tokens(seq, vocab):
    """[BATCH][seq + 1]; -1 is padding."""
    rows = [[(s * 5 + i * (7 + s) + i * i * (s % 3) + 1) % vocab for i in range(seq + 1)] for s in (3, 4)]
    rows[-1][-PADDING:] = [-1] * PADDING
    return torch.tensor(rows)


def rms_norm(x, w, eps):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + eps) * w


class Model:
    def __init__(self, name):
        reader = gguf.GGUFReader(TINY / f"{name}.gguf")
        self.keys = {key: field.contents() for key, field in reader.fields.items() if not key.startswith("GGUF")}
        self.arch = self.keys["general.architecture"]
        self.w = {t.name: torch.tensor(gguf.quants.dequantize(t.data, t.tensor_type)).to(torch.float64).requires_grad_()
                  for t in reader.tensors}
        self.heads, self.heads_kv = self.key("attention.head_count"), self.key("attention.head_count_kv")
        self.eps, self.used = self.key("attention.layer_norm_rms_epsilon"), self.key("expert_used_count", 0)
        self.window, self.aux = self.key("attention.sliding_window", 0), []
        self.rotated = self.key("rope.dimension_count", self.key("attention.key_length"))
        self.vocab = self.w["token_embd.weight"].shape[0]

    def key(self, suffix, default=None):
        return self.keys.get(f"{self.arch}.{suffix}", default)

    def linear(self, x, name):
        y = x @ self.w[name + ".weight"].T
        return y + self.w[name + ".bias"] if name + ".bias" in self.w else y

    def norm(self, x, name):
        return rms_norm(x, self.w[name + ".weight"], self.eps)

    # ---- positions ----

    def is_local(self, i):
        """Layers with a window: of gemma3 all but each sixth, of gpt-oss every other one, or as the file says."""
        pattern = self.key("attention.sliding_window_pattern")
        if pattern is not None:
            return pattern[i]
        return (self.arch == "gemma3" and i % 6 != 5) or (self.arch == "gpt-oss" and i % 2 == 0)

    def angles(self, i, n):
        """Angles [n, pairs] of the rotation, and its magnitude. Windows of gemma3 have the base 10000, unscaled."""
        d, pair = self.rotated, torch.arange(self.rotated // 2, dtype=torch.float64)
        local = self.arch == "gemma3" and self.is_local(i)
        base = 10000.0 if local else self.key("rope.freq_base", 10000.0)
        kind = None if local else self.key("rope.scaling.type")
        factor, magnitude = self.key("rope.scaling.factor", 1.0), 1.0
        if kind == "ntk":
            base = base * self.key("rope.scaling.alpha") ** (d / (d - 2))
        freq = base ** (-2.0 * pair / d)
        if "rope_freqs.weight" in self.w:
            freq = freq / self.w["rope_freqs.weight"].detach()
        if kind == "linear":
            freq = freq / factor
        if kind == "yarn":  # Peng et al. 2023, arXiv:2309.00071: fast pairs keep their frequency, slow ones are stretched
            original = self.key("rope.scaling.original_context_length")
            low, high = (d * math.log(original / (turns * 2.0 * math.pi)) / (2.0 * math.log(base)) for turns in (32.0, 1.0))
            low, high = max(0.0, math.floor(low)), min(d - 1.0, math.ceil(high))
            keep = 1.0 - ((pair - low) / max(0.001, high - low)).clamp(0.0, 1.0)
            freq = freq * keep + freq / factor * (1.0 - keep)
            if self.key("rope.scaling.yarn_log_multiplier") is None:
                magnitude = 1.0 + 0.1 * math.log(factor)
        return torch.arange(n)[:, None] * freq, magnitude

    def rope(self, x, i):
        """x [batch, n, heads, d]"""
        if self.arch == "smollm3" and i % 4 == 3 or self.key("rope.scaling.finetuned") is False:
            return x
        angle, magnitude = self.angles(i, x.shape[1])
        cos, sin = (magnitude * f(angle)[None, :, None] for f in (torch.cos, torch.sin))
        if self.arch in NEIGHBOURS:
            a, b = x[..., 0::2], x[..., 1::2]
            return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)
        a, b = x.chunk(2, -1)
        return torch.cat((a * cos - b * sin, a * sin + b * cos), -1)

    # ---- attention ----

    def attend(self, q, k, v, scale, i, sinks=None):
        """All [batch, n, heads, d] -> [batch, n, heads * d]. A sink is a further score of each row without a value."""
        n = q.shape[1]
        back = torch.arange(n)[:, None] - torch.arange(n)
        seen = (back >= 0) & (back < (self.window if self.is_local(i) else n))
        scores = (scale * torch.einsum("bthd,bshd->bhts", q, k)).masked_fill(~seen, -math.inf)
        if sinks is not None:
            scores = torch.cat((scores, sinks[None, :, None, None].expand(scores.shape[0], -1, n, 1)), -1)
        return torch.einsum("bhts,bshd->bthd", scores.softmax(-1)[..., :n], v).flatten(-2)

    def attention(self, x, p, i):
        heads = {}
        for which, n in (("q", self.heads), ("k", self.heads_kv), ("v", self.heads_kv)):
            y, norm = self.linear(x, p + f"attn_{which}"), p + f"attn_{which}_norm"
            if self.arch == "olmoe" and which != "v":
                y = self.norm(y, norm)
            y = y.unflatten(-1, (n, -1))
            if self.arch != "olmoe" and norm + ".weight" in self.w:
                y = self.norm(y, norm)
            heads[which] = y if which == "v" else self.rope(y, i)
        k, v = (heads[which].repeat_interleave(self.heads // self.heads_kv, 2) for which in "kv")
        scale = self.key("attention.scale", heads["q"].shape[-1] ** -0.5)
        y = self.attend(heads["q"], k, v, scale, i, self.w.get(p + "attn_sinks.weight"))
        return self.linear(y, p + "attn_output")

    def latent_attention(self, x, p, i):
        """DeepSeek-V2 (arXiv:2405.04434), with the keys and values of every head written out."""
        rank, whole = self.key("attention.kv_lora_rank"), self.key("attention.key_length_mla")
        q = self.norm(self.linear(x, p + "attn_q_a"), p + "attn_q_a_norm") if p + "attn_q_a.weight" in self.w else x
        q = self.linear(q, p + ("attn_q_b" if p + "attn_q_b.weight" in self.w else "attn_q")).unflatten(-1, (self.heads, -1))
        nope = whole - self.rotated
        q = torch.cat((q[..., :nope], self.rope(q[..., nope:], i)), -1)
        kv = self.linear(x, p + "attn_kv_a_mqa")
        latent = self.norm(kv[..., :rank], p + "attn_kv_a_norm")
        shared = self.rope(kv[..., None, rank:], i).expand(-1, -1, self.heads, -1)
        k = torch.cat((torch.einsum("btc,hcn->bthn", latent, self.w[p + "attn_k_b.weight"]), shared), -1)
        v = torch.einsum("btc,hvc->bthv", latent, self.w[p + "attn_v_b.weight"])
        stretch = 1.0 + self.key("rope.scaling.yarn_log_multiplier", 0.0) * math.log(self.key("rope.scaling.factor", 1.0))
        return self.linear(self.attend(q, k, v, stretch * stretch * whole ** -0.5, i), p + "attn_output")

    # ---- feed-forward ----

    def gated(self, x, p, suffix=""):
        act = (lambda g: F.gelu(g, approximate="tanh")) if self.arch == "gemma3" else F.silu
        return self.linear(act(self.linear(x, p + "ffn_gate" + suffix)) * self.linear(x, p + "ffn_up" + suffix),
                           p + "ffn_down" + suffix)

    def choose(self, logits, p):
        """Chosen experts and their weights, [t, used] each."""
        if self.arch == "gpt-oss":
            best, chosen = logits.topk(self.used)
            return chosen, best.softmax(-1)
        probs = logits.sigmoid() if self.key("expert_gating_func") == 2 else logits.softmax(-1)
        score = probs.detach() + self.w.get(p + "exp_probs_b.bias", torch.zeros(())).detach()
        groups = self.key("expert_group_count", 1)
        if groups > 1:  # DeepSeek-V3: only the groups with the largest sums of their two best
            split = score.unflatten(-1, (groups, -1))
            best = split.topk(2).values.sum(-1).topk(self.key("expert_group_used_count")).indices
            taken = torch.zeros(split.shape[:2], dtype=torch.bool).scatter(1, best, True)
            score = split.masked_fill(~taken[..., None], -math.inf).flatten(-2)
        chosen = score.topk(self.used).indices
        weight = probs.gather(1, chosen)
        if self.arch in ("llama", "qwen3moe", "granitemoe") or self.key("expert_weights_norm"):
            weight = weight / weight.sum(-1, keepdim=True)
        return chosen, weight * self.key("expert_weights_scale", 1.0)

    def expert_linear(self, x, name, chosen):
        """x [t, used, d] -> each with the matrix of its expert"""
        y = torch.einsum("tkd,tkfd->tkf", x, self.w[name + ".weight"][chosen])
        return y + self.w[name + ".bias"][chosen] if name + ".bias" in self.w else y

    def experts(self, x, p, real):
        shape, x = x.shape, x.flatten(0, -2)
        logits = self.linear(x, p + "ffn_gate_inp")
        chosen, weight = self.choose(logits, p)
        rows = x[:, None].expand(-1, self.used, -1)
        gate, up = (self.expert_linear(rows, p + f"ffn_{which}_exps", chosen) for which in ("gate", "up"))
        if self.arch == "gpt-oss":
            gate, up = gate.clamp(max=7.0), up.clamp(-7.0, 7.0)
            y = gate * torch.sigmoid(1.702 * gate) * (up + 1.0)
        else:
            y = F.silu(gate) * up
        y = (self.expert_linear(y, p + "ffn_down_exps", chosen) * weight[..., None]).sum(1)
        if p + "ffn_gate_shexp.weight" in self.w:
            open_ = self.w.get(p + "ffn_gate_inp_shexp.weight")
            y = y + self.gated(x, p, "_shexp") * (1.0 if open_ is None else torch.sigmoid(x @ open_)[:, None])
        n, real = logits.shape[1], real.flatten()
        load = F.one_hot(chosen[real].flatten(), n).to(x.dtype).mean(0)
        self.aux.append(n * (load * logits[real].softmax(-1).mean(0)).sum())
        return y.reshape(shape)

    def logits(self, ids, real):
        self.aux = []
        x = F.embedding(ids, self.w["token_embd.weight"]) * self.key("embedding_scale", 1.0)
        if self.arch == "gemma3":
            x = x * math.sqrt(x.shape[-1])
        part = self.key("residual_scale", 1.0)
        for i in range(self.key("block_count")):
            p = f"blk.{i}."
            attention = self.latent_attention if self.arch == "deepseek2" else self.attention
            y = attention(self.norm(x, p + "attn_norm"), p, i)
            if self.arch == "gemma3":
                y = self.norm(y, p + "post_attention_norm")
            x = x + part * y
            h = self.norm(x, p + ("post_attention_norm" if self.arch == "gpt-oss" else "ffn_norm"))
            y = self.experts(h, p, real) if p + "ffn_gate_inp.weight" in self.w else self.gated(h, p)
            if self.arch == "gemma3":
                y = self.norm(y, p + "post_ffw_norm")
            x = x + part * y
        x = self.norm(x, "output_norm")
        return x @ self.w.get("output.weight", self.w["token_embd.weight"]).T / self.key("logit_scale", 1.0)


def check(model, name):
    """Against llama.cpp's logits of the same weights in f32."""
    lines = [line.split() for line in open(TINY / f"{name}.txt", encoding="ascii") if not line.startswith("#")]
    ids = torch.tensor([[int(i) for i in lines[0][1:]]])
    want = torch.tensor([[float(x) for x in line[1:]] for line in lines if line[0] == "exact"])
    with torch.no_grad():
        off = (model.logits(ids, ids >= 0)[0] - want).abs().max() / want.abs().max()
    print(f"{name}: logits off by {off:.2g} of the largest", file=sys.stderr)
    assert off < 2e-3, name


def gradients(name, seq, aux_factor):
    model = Model(name)
    check(model, name)
    ids = tokens(seq, model.vocab)
    inputs, targets = ids[:, :-1], ids[:, 1:]
    logits = model.logits(inputs.clamp(min=0), inputs >= 0)
    loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1)
    aux = sum(model.aux) / len(model.aux) if model.aux else torch.zeros(())
    (loss + aux_factor * aux).backward()
    print(f"model {name} aux {aux_factor:g} seq {seq}")
    print(f"loss {loss.item():.10g} {aux.item():.10g}")
    for key, w in model.w.items():
        if w.grad is None:
            continue
        g = w.grad.flatten()
        n, stored = len(g), min(len(g), STORED)
        some = (g[i * n // stored].item() for i in range(stored))
        total = (g * torch.cos(torch.arange(n, dtype=torch.float64))).sum().item()
        print(key, n, f"{g.abs().max().item():.9g} {g.norm().item():.9g} {total:.9g}", *(f"{x:.8g}" for x in some))


print(f"# tools/golden/training/golden_gradients.py, torch {torch.__version__}")
for dense in ("llama-f32", "llama-bias-mha-linear", "llama-factors", "llama-yarn", "qwen2-f32", "qwen3-f32", "granite-mix",
              "granite-nope", "smollm3-f32"):
    gradients(dense, 16, 0.0)
gradients("gemma3-f32", 16, 0.0)  # longer than its window, as those of gpt-oss
gradients("gpt-oss-f32", 16, 0.02)
for routed in ("mixtral-f32", "qwen2moe-f32", "qwen3moe-f32", "olmoe-f32", "granitemoe-f32", "granitemoe-mix",
               "deepseek2-f32", "deepseek2-mix"):
    gradients(routed, 16, 0.02)

#!/usr/bin/env python3
"""Training runs of tiny models by PyTorch in float64, for tests/trainer. Made with PyTorch 2.15.0 and gguf 0.19.0; the first
line of the output names the version.

    golden_training.py >tests/golden/training.txt

The models are those of tests/golden/tiny. A run begins with its options, then for each step: its number, the mean cross
entropy, the mean auxiliary loss of the layers with experts, the norm of all gradients before clipping. Its last line is the
loss of a validation batch after the last step. The tokens are those of tokens(), which the tests compute too."""
import math
import pathlib

import gguf
import torch
from torch.nn import functional as F

TINY = pathlib.Path(__file__).parents[3] / "tests/golden/tiny"
torch.set_default_dtype(torch.float64)


def tokens(step, batch, seq, vocab):
    """[batch][seq + 1]: one of 8 sequences each, shifted."""
    rows = [[(a * 5 + i * (7 + a) + i * i * (a % 3) + step % 2) % vocab for i in range(seq + 1)]
            for a in ((3 * step + s) % 8 for s in range(batch))]
    return torch.tensor(rows)


def rms_norm(x, w, eps):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + eps) * w


class Model:
    """A decoder of a GGUF file: llama, qwen2, qwen3, qwen2moe, qwen3moe, and deepseek2 without groups of experts."""

    def __init__(self, name):
        reader = gguf.GGUFReader(TINY / f"{name}.gguf")
        self.arch = bytes(reader.fields["general.architecture"].parts[-1]).decode()
        self.w = {t.name: torch.tensor(gguf.quants.dequantize(t.data, t.tensor_type)).to(torch.float64).requires_grad_()
                  for t in reader.tensors}

        def key(suffix, default=None):
            field = reader.fields.get(f"{self.arch}.{suffix}")
            return default if field is None else field.parts[-1][0].item()

        self.layers, self.heads = key("block_count"), key("attention.head_count")
        self.heads_kv, self.dim = key("attention.head_count_kv"), key("attention.key_length")
        self.eps, self.used = key("attention.layer_norm_rms_epsilon"), key("expert_used_count", 0)
        self.base = key("rope.freq_base", 10000.0)
        if self.arch == "deepseek2":
            self.dim, self.rank = key("rope.dimension_count"), key("attention.kv_lora_rank")
            self.nope = key("attention.key_length_mla") - self.dim
        self.vocab = self.w["token_embd.weight"].shape[0]

    def linear(self, x, name):
        y = x @ self.w[name + ".weight"].T
        return y + self.w[name + ".bias"] if name + ".bias" in self.w else y

    def rope(self, x):
        """x [batch, seq, heads, dim]; pairs of neighbours in llama and deepseek2, of halves in the others."""
        half = self.dim // 2
        angle = torch.arange(x.shape[1])[:, None] * self.base ** (-torch.arange(half) * 2.0 / self.dim)
        cos, sin = angle.cos()[None, :, None], angle.sin()[None, :, None]
        if self.arch in ("llama", "deepseek2"):
            a, b = x[..., 0::2], x[..., 1::2]
            return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)
        a, b = x[..., :half], x[..., half:]
        return torch.cat((a * cos - b * sin, a * sin + b * cos), -1)

    def attention(self, x, p):
        batch, seq, _ = x.shape
        q = self.linear(x, p + "attn_q").reshape(batch, seq, self.heads, self.dim)
        k = self.linear(x, p + "attn_k").reshape(batch, seq, self.heads_kv, self.dim)
        v = self.linear(x, p + "attn_v").reshape(batch, seq, self.heads_kv, self.dim)
        if p + "attn_q_norm.weight" in self.w:
            q = rms_norm(q, self.w[p + "attn_q_norm.weight"], self.eps)
            k = rms_norm(k, self.w[p + "attn_k_norm.weight"], self.eps)
        group = self.heads // self.heads_kv
        q, k = self.rope(q).transpose(1, 2), self.rope(k).transpose(1, 2).repeat_interleave(group, 1)
        y = F.scaled_dot_product_attention(q, k, v.transpose(1, 2).repeat_interleave(group, 1), is_causal=True)
        return self.linear(y.transpose(1, 2).reshape(batch, seq, -1), p + "attn_output")

    def latent_attention(self, x, p):
        """DeepSeek-V2 (arXiv:2405.04434), with the keys and values of every head written out."""
        batch, seq, _ = x.shape
        q = self.linear(x, p + "attn_q").reshape(batch, seq, self.heads, self.nope + self.dim)
        q = torch.cat((q[..., :self.nope], self.rope(q[..., self.nope:])), -1)
        kv = self.linear(x, p + "attn_kv_a_mqa")
        latent = rms_norm(kv[..., :self.rank], self.w[p + "attn_kv_a_norm.weight"], self.eps)
        shared = self.rope(kv[..., None, self.rank:]).expand(-1, -1, self.heads, -1)
        k = torch.cat((torch.einsum("btc,hcn->bthn", latent, self.w[p + "attn_k_b.weight"]), shared), -1)
        v = torch.einsum("btc,hvc->bthv", latent, self.w[p + "attn_v_b.weight"])
        y = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True)
        return self.linear(y.transpose(1, 2).reshape(batch, seq, -1), p + "attn_output")

    def gated(self, x, p, suffix=""):
        return self.linear(F.silu(self.linear(x, p + "ffn_gate" + suffix)) * self.linear(x, p + "ffn_up" + suffix),
                           p + "ffn_down" + suffix)

    def experts(self, x, p):
        """The sum over the chosen experts, and the loss that balances them."""
        shape, x = x.shape, x.reshape(-1, x.shape[-1])
        gate, up, down = (self.w[p + f"ffn_{name}_exps.weight"] for name in ("gate", "up", "down"))
        probs = self.linear(x, p + "ffn_gate_inp").softmax(-1)
        weight, chosen = probs.topk(self.used)
        if self.arch == "qwen3moe":
            weight = weight / weight.sum(-1, keepdim=True)
        y = F.silu(torch.einsum("td,tkfd->tkf", x, gate[chosen])) * torch.einsum("td,tkfd->tkf", x, up[chosen])
        y = (torch.einsum("tkf,tkdf->tkd", y, down[chosen]) * weight[..., None]).sum(1)
        if p + "ffn_gate_shexp.weight" in self.w:
            gate = self.w.get(p + "ffn_gate_inp_shexp.weight")
            y = y + self.gated(x, p, "_shexp") * (1.0 if gate is None else torch.sigmoid(x @ gate)[:, None])
        load = F.one_hot(chosen.reshape(-1), probs.shape[1]).to(probs.dtype).mean(0)
        return y.reshape(shape), probs.shape[1] * (load * probs.mean(0)).sum()

    def losses(self, ids):
        """Mean cross entropy, mean auxiliary loss."""
        x, aux = F.embedding(ids[:, :-1], self.w["token_embd.weight"]), []
        for i in range(self.layers):
            p = f"blk.{i}."
            attention = self.latent_attention if self.arch == "deepseek2" else self.attention
            x = x + attention(rms_norm(x, self.w[p + "attn_norm.weight"], self.eps), p)
            h = rms_norm(x, self.w[p + "ffn_norm.weight"], self.eps)
            if p + "ffn_gate_inp.weight" in self.w:
                y, balance = self.experts(h, p)
                aux.append(balance)
            else:
                y = self.gated(h, p)
            x = x + y
        x = rms_norm(x, self.w["output_norm.weight"], self.eps)
        logits = x @ self.w.get("output.weight", self.w["token_embd.weight"]).T
        loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        return loss, sum(aux) / len(aux) if aux else torch.zeros(())


def rate(step, o):
    if step < o["warmup"]:
        return o["lr"] * step / o["warmup"]
    way = (step - o["warmup"]) / (o["n_steps"] - o["warmup"])
    return o["lr_end"] + 0.5 * (1.0 + math.cos(math.pi * way)) * (o["lr"] - o["lr_end"])


def run(name, **o):
    model = Model(name)
    print("run", name, *(f"{key} {value:g}" for key, value in o.items()))
    groups = [{"params": [w for w in model.w.values() if w.dim() > 1], "weight_decay": o["weight_decay"]},
              {"params": [w for w in model.w.values() if w.dim() == 1], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=o["lr"], betas=(o["beta1"], o["beta2"]), eps=1e-8, foreach=False)
    for step in range(1, o["n_steps"] + 1):
        loss, aux = model.losses(tokens(step, o["batch"], o["seq"], model.vocab))
        optimizer.zero_grad()
        (loss + o["aux_loss"] * aux).backward()
        norm = torch.nn.utils.clip_grad_norm_(model.w.values(), o["max_norm"])
        for group in optimizer.param_groups:
            group["lr"] = rate(step, o)
        optimizer.step()
        print(step, f"{loss.item():.9g} {aux.item():.9g} {norm.item():.9g}")
    with torch.no_grad():
        print("evaluate", f"{model.losses(tokens(0, 3, o['seq'], model.vocab))[0].item():.9g}")


print(f"# tools/golden/training/golden_training.py, torch {torch.__version__}")
common = dict(batch=2, seq=16, warmup=10, beta1=0.9, beta2=0.95, weight_decay=0.1, max_norm=1.0, lr=3e-3, lr_end=3e-4)
run("llama-f32", n_steps=200, aux_loss=0.0, **common)
run("qwen3moe-f32", n_steps=200, aux_loss=0.02, **common)
run("qwen2moe-f32", n_steps=60, aux_loss=0.02, **common)
run("qwen2-f32", n_steps=60, aux_loss=0.0, **common)
run("qwen3-f32", n_steps=60, aux_loss=0.0, **common)
run("deepseek2-lite", n_steps=20, aux_loss=0.02, **common)

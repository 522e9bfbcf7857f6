#!/usr/bin/env python3
"""Gradients of attention, RMSNorm, the activation of gpt-oss and the cross entropy of a product by torch.autograd in float64, for
the tests of attention_backward, rms_norm_backward, swiglu_oai_backward and linear_cross_entropy_backward. Made with PyTorch 2.15.0; the first line of the output names the version.

    golden_backward.py >tests/golden/backward.txt

Operands are fractions of 1024 that the tests compute too: values(seed, n)."""
import torch


def values(seed, *shape):
    n = torch.arange(torch.Size(shape).numel(), dtype=torch.int64)
    return (((n * 7919 + seed * 104729) % 2048 - 1024).to(torch.float64) / 1024).reshape(shape).requires_grad_()


def line(tensor):
    print(" ".join(f"{v:.9g}" for v in tensor.flatten().tolist()))


def attention(causal, batch, seq_q, seq_k, heads, key_heads, dim, scale):
    print("attention", int(causal), batch, seq_q, seq_k, heads, key_heads, dim, scale)
    q, dout = values(1, batch, seq_q, heads, dim), values(4, batch, seq_q, heads, dim)
    k, v = values(2, batch, seq_k, key_heads, dim), values(3, batch, seq_k, key_heads, dim)
    group = heads // key_heads
    mask = torch.ones(seq_q, seq_k, dtype=torch.bool)
    if causal:
        mask = mask.tril(seq_k - seq_q)
    out = torch.nn.functional.scaled_dot_product_attention(
        q.transpose(1, 2), k.transpose(1, 2).repeat_interleave(group, 1), v.transpose(1, 2).repeat_interleave(group, 1),
        attn_mask=mask, scale=scale).transpose(1, 2)
    out.backward(dout.detach())
    for result in (out, q.grad, k.grad, v.grad):
        line(result)


def attention_sinks(causal, window, batch, seq_q, seq_k, heads, key_heads, dim, scale):
    """The last `window` of the keys that a query would see without one (0: all), and a further score of each head,
    without a value. The last line is the gradient of these scores."""
    print("attention_sinks", int(causal), window, batch, seq_q, seq_k, heads, key_heads, dim, scale)
    q, dout = values(1, batch, seq_q, heads, dim), values(4, batch, seq_q, heads, dim)
    k, v = values(2, batch, seq_k, key_heads, dim), values(3, batch, seq_k, key_heads, dim)
    sinks, group = values(5, heads), heads // key_heads
    last = torch.arange(seq_q)[:, None] + (seq_k - seq_q) if causal else torch.full((seq_q, 1), seq_k - 1)
    key = torch.arange(seq_k)[None, :]
    seen = (key <= last) & ((key > last - window) if window else True)
    scores = torch.einsum("bthd,bihd->bhti", q, k.repeat_interleave(group, 2)) * scale
    scores = scores.masked_fill(~seen, -torch.inf)
    scores = torch.cat([scores, sinks[None, :, None, None].expand(batch, heads, seq_q, 1)], -1)
    out = torch.einsum("bhti,bihd->bthd", scores.softmax(-1)[..., :-1], v.repeat_interleave(group, 2))
    out.backward(dout.detach())
    for result in (out, q.grad, k.grad, v.grad, sinks.grad):
        line(result)


def swiglu_oai(n, alpha, limit):
    print("swiglu_oai", n, alpha, limit)
    dy, gate, up = values(1, n), values(2, n), values(3, n)
    g, u = gate.clamp(max=limit), up.clamp(-limit, limit)
    (g * torch.sigmoid(alpha * g) * (u + 1)).backward(dy.detach())
    line(gate.grad)
    line(up.grad)


def rms_norm(rows, dim, eps):
    print("rms_norm", rows, dim, eps)
    x, w, dy = values(1, rows, dim), values(2, dim), values(3, rows, dim)
    torch.nn.functional.rms_norm(x, (dim,), w, eps).backward(dy.detach())
    line(x.grad)
    line(w.grad)


def linear_cross_entropy(tokens, dim, vocab, scale):
    """Logits are scale * w x. Every third token, from the second on, has no target. The losses are the first line."""
    print("linear_cross_entropy", tokens, dim, vocab, scale)
    x, w, dy = values(1, tokens, dim), values(2, vocab, dim), values(3, tokens)
    targets = torch.tensor([-1 if t % 3 == 1 else (5 * t + 2) % vocab for t in range(tokens)])
    losses = torch.nn.functional.cross_entropy(scale * (x @ w.T), targets, ignore_index=-1, reduction="none")
    losses.backward(dy.detach())
    for result in (losses, x.grad, w.grad):
        line(result)


print(f"# tools/golden/training/golden_backward.py, torch {torch.__version__}")
attention(False, 2, 3, 5, 4, 2, 4, 0.5)
attention(True, 2, 3, 5, 4, 2, 4, 0.5)
attention(True, 1, 4, 4, 3, 1, 5, 2.0)
rms_norm(3, 7, 1e-5)
attention_sinks(True, 0, 2, 3, 5, 4, 2, 4, 0.5)
attention_sinks(True, 2, 2, 3, 5, 4, 2, 4, 0.5)
attention_sinks(True, 3, 1, 7, 7, 3, 1, 5, 2.0)
attention_sinks(False, 4, 1, 3, 6, 2, 2, 4, 0.5)
swiglu_oai(40, 1.702, 7.0)
swiglu_oai(40, 1.702, 0.6)
linear_cross_entropy(5, 6, 11, 1.0)
linear_cross_entropy(7, 4, 13, 2.5)

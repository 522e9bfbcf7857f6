#!/usr/bin/env python3
"""Gradients of attention and RMSNorm by torch.autograd in float64, for the tests of attention_backward and
rms_norm_backward. Made with PyTorch 2.15.0; the first line of the output names the version.

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


def rms_norm(rows, dim, eps):
    print("rms_norm", rows, dim, eps)
    x, w, dy = values(1, rows, dim), values(2, dim), values(3, rows, dim)
    torch.nn.functional.rms_norm(x, (dim,), w, eps).backward(dy.detach())
    line(x.grad)
    line(w.grad)


print(f"# tools/golden_backward.py, torch {torch.__version__}")
attention(False, 2, 3, 5, 4, 2, 4, 0.5)
attention(True, 2, 3, 5, 4, 2, 4, 0.5)
attention(True, 1, 4, 4, 3, 1, 5, 2.0)
rms_norm(3, 7, 1e-5)

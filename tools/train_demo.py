#!/usr/bin/env python3
"""Trains the demo model: a small mixture of experts on the King James Bible, from Debian's package bible-kjv-text.

    apt-get install bible-kjv
    pip install -r tools/requirements-train.txt
    tools/train_demo.py OUT.gguf [--minutes 60]

Every twentieth chapter is held out for the validation loss. OUT.gguf is F16; `reprise quantize` makes the file that ships
from it. The architecture is qwen3moe: RMSNorm, grouped-query attention with RMS-normalised queries and keys, RoPE, and in
each layer a softmax router that selects 2 of 8 SwiGLU experts per token."""
import argparse
import json
import re
import subprocess
import time

import gguf
import jax
import jax.numpy as jnp
import numpy as np
import optax
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

VOCAB, DIM, LAYERS, HEADS, HEADS_KV, HEAD_DIM, EXPERTS, TOP, FF = 4096, 256, 4, 4, 2, 64, 8, 2, 256
CONTEXT, BATCH, ROPE_BASE, EPS = 256, 16, 10000.0, 1e-6
CAPACITY = 3 * TOP * BATCH * CONTEXT // (2 * EXPERTS)
END = "<|end|>"


def chapters():
    text = subprocess.run(["bible", "-f", "gen1:1-rev22:21"], capture_output=True, text=True, check=True).stdout
    out, last = [], None
    for line in text.splitlines():
        reference, verse = re.match(r"(\S+:)\d+ (.*)", line).groups()
        if reference != last:
            out.append([])
            last = reference
        out[-1].append(verse.strip())
    return [" ".join(verses) for verses in out]


def train_tokenizer(texts):
    tk = Tokenizer(models.BPE())
    tk.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tk.decoder = decoders.ByteLevel()
    tk.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=VOCAB, special_tokens=[END], show_progress=False,
                                                      initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return tk


def init(key):
    def normal(shape, fan_in):
        nonlocal key
        key, sub = jax.random.split(key)
        return jax.random.normal(sub, shape) / np.sqrt(fan_in)

    def layer():
        return {
            "attn_norm": jnp.ones(DIM), "ffn_norm": jnp.ones(DIM), "q_norm": jnp.ones(HEAD_DIM), "k_norm": jnp.ones(HEAD_DIM),
            "q": normal((DIM, HEADS * HEAD_DIM), DIM), "k": normal((DIM, HEADS_KV * HEAD_DIM), DIM),
            "v": normal((DIM, HEADS_KV * HEAD_DIM), DIM),
            "o": normal((HEADS * HEAD_DIM, DIM), HEADS * HEAD_DIM * 2 * LAYERS), "router": normal((DIM, EXPERTS), DIM),
            "gate": normal((EXPERTS, DIM, FF), DIM), "up": normal((EXPERTS, DIM, FF), DIM),
            "down": normal((EXPERTS, FF, DIM), FF * 2 * LAYERS),
        }

    return {"embd": normal((VOCAB, DIM), DIM), "norm": jnp.ones(DIM), "layers": [layer() for _ in range(LAYERS)]}


def rms_norm(x, w):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + EPS) * w


def rope(x):
    angle = jnp.arange(x.shape[1])[:, None] * ROPE_BASE ** (-jnp.arange(0, HEAD_DIM, 2) / HEAD_DIM)
    cos, sin = jnp.cos(angle)[None, :, None], jnp.sin(angle)[None, :, None]
    a, b = x[..., : HEAD_DIM // 2], x[..., HEAD_DIM // 2:]
    return jnp.concatenate([a * cos - b * sin, a * sin + b * cos], -1)


def attention(x, l):
    b, t, _ = x.shape
    q = rope(rms_norm((x @ l["q"]).reshape(b, t, HEADS, HEAD_DIM), l["q_norm"]))
    k = rope(rms_norm((x @ l["k"]).reshape(b, t, HEADS_KV, HEAD_DIM), l["k_norm"]))
    v = (x @ l["v"]).reshape(b, t, HEADS_KV, HEAD_DIM)
    k, v = (jnp.repeat(y, HEADS // HEADS_KV, 2) for y in (k, v))
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(HEAD_DIM)
    scores = jnp.where(jnp.tril(jnp.ones((t, t), bool)), scores, -jnp.inf)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, -1), v).reshape(b, t, -1) @ l["o"]


def experts(x, l):
    """Output of the experts, and the load-balancing loss of the router. An expert takes at most 1.5 times the mean number of
    tokens (CAPACITY); further ones are dropped."""
    shape, x = x.shape, x.reshape(-1, DIM)
    probs = jax.nn.softmax(x @ l["router"], -1)
    weight, chosen = jax.lax.top_k(probs, TOP)
    weight = (weight / weight.sum(-1, keepdims=True)).reshape(-1)
    chosen = chosen.reshape(-1)
    one_hot = jax.nn.one_hot(chosen, EXPERTS, dtype=jnp.int32)
    place = jnp.take_along_axis(jnp.cumsum(one_hot, 0) - 1, chosen[:, None], 1)[:, 0]
    token = jnp.arange(chosen.shape[0]) // TOP
    y = jnp.zeros((EXPERTS, CAPACITY, DIM)).at[chosen, place].set(x[token], mode="drop")
    y = jax.nn.silu(jnp.einsum("ecd,edf->ecf", y, l["gate"])) * jnp.einsum("ecd,edf->ecf", y, l["up"])
    y = jnp.einsum("ecf,efd->ecd", y, l["down"]).at[chosen, place].get(mode="fill", fill_value=0.0)
    balance = EXPERTS * jnp.sum(jnp.mean(one_hot.astype(jnp.float32), 0) * jnp.mean(probs, 0))
    return jnp.sum((y * weight[:, None]).reshape(-1, TOP, DIM), 1).reshape(shape), balance


def losses(p, ids):
    x, balance = p["embd"][ids[:, :-1]], 0.0
    for l in p["layers"]:
        x = x + attention(rms_norm(x, l["attn_norm"]), l)
        y, more = experts(rms_norm(x, l["ffn_norm"]), l)
        x, balance = x + y, balance + more
    logits = rms_norm(x, p["norm"]) @ p["embd"].T
    return optax.softmax_cross_entropy_with_integer_labels(logits, ids[:, 1:]).mean(), balance / LAYERS


def objective(p, ids):
    loss, balance = losses(p, ids)
    return loss + 0.01 * balance, loss


def export(path, p, tk):
    w = gguf.GGUFWriter(path, "qwen3moe")
    w.add_name("King James demo")
    w.add_description("A small mixture of experts trained on the King James Bible")
    w.add_license("public domain text")
    w.add_context_length(CONTEXT)
    w.add_embedding_length(DIM)
    w.add_block_count(LAYERS)
    w.add_feed_forward_length(FF)
    w.add_head_count(HEADS)
    w.add_head_count_kv(HEADS_KV)
    w.add_key_length(HEAD_DIM)
    w.add_value_length(HEAD_DIM)
    w.add_layer_norm_rms_eps(EPS)
    w.add_rope_freq_base(ROPE_BASE)
    w.add_expert_count(EXPERTS)
    w.add_expert_used_count(TOP)
    w.add_expert_feed_forward_length(FF)
    vocab = sorted(tk.get_vocab().items(), key=lambda item: item[1])
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("gpt-2")
    w.add_token_list([t for t, _ in vocab])
    w.add_token_types([3 if t == END else 1 for t, _ in vocab])
    merges = json.loads(tk.to_str())["model"]["merges"]
    w.add_token_merges([m if isinstance(m, str) else " ".join(m) for m in merges])
    w.add_bos_token_id(tk.token_to_id(END))
    w.add_eos_token_id(tk.token_to_id(END))
    w.add_add_bos_token(True)

    def add(name, x):
        x = np.asarray(x, np.float32)
        w.add_tensor(name, x if x.ndim == 1 else np.ascontiguousarray(x, np.float16))

    add("token_embd.weight", p["embd"])
    add("output_norm.weight", p["norm"])
    for i, l in enumerate(p["layers"]):
        for ours, theirs in (("attn_norm", "attn_norm"), ("ffn_norm", "ffn_norm"), ("q_norm", "attn_q_norm"),
                             ("k_norm", "attn_k_norm")):
            add(f"blk.{i}.{theirs}.weight", l[ours])
        for ours, theirs in (("q", "attn_q"), ("k", "attn_k"), ("v", "attn_v"), ("o", "attn_output")):
            add(f"blk.{i}.{theirs}.weight", np.asarray(l[ours]).T)
        w.add_tensor(f"blk.{i}.ffn_gate_inp.weight", np.ascontiguousarray(np.asarray(l["router"], np.float32).T))
        for name in ("gate", "up", "down"):
            add(f"blk.{i}.ffn_{name}_exps.weight", np.asarray(l[name]).transpose(0, 2, 1))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--steps", type=int, default=800)
    args = parser.parse_args()
    texts = chapters()
    held = [t for i, t in enumerate(texts) if i % 20 == 10]
    texts = [t for i, t in enumerate(texts) if i % 20 != 10]
    tk = train_tokenizer(texts)
    ids = [np.array(sum(([tk.token_to_id(END)] + tk.encode(t).ids for t in split), []), np.int32) for split in (texts, held)]
    print(f"{len(texts)} chapters, {ids[0].size} tokens; held out {len(held)}, {ids[1].size}", flush=True)
    params = init(jax.random.PRNGKey(1))
    print(f"{sum(x.size for x in jax.tree.leaves(params)) / 1e6:.2f} M parameters", flush=True)
    schedule = optax.warmup_cosine_decay_schedule(0.0, 2e-3, 60, args.steps, 1e-4)
    decay = jax.tree.map(lambda x: x.ndim > 1, params)
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(schedule, b2=0.95, weight_decay=0.1, mask=decay))
    state = optimizer.init(params)

    @jax.jit
    def step(params, state, batch):
        (_, loss), grads = jax.value_and_grad(objective, has_aux=True)(params, batch)
        updates, state = optimizer.update(grads, state, params)
        return optax.apply_updates(params, updates), state, loss

    evaluate = jax.jit(losses)
    windows = ids[1][: ids[1].size // (CONTEXT + 1) * (CONTEXT + 1)].reshape(-1, CONTEXT + 1)
    windows = windows[: len(windows) // BATCH * BATCH].reshape(-1, BATCH, CONTEXT + 1)
    rng, begin, best = np.random.default_rng(1), time.time(), np.inf
    for n in range(args.steps + 1):
        if n % 200 == 0 or time.time() - begin > args.minutes * 60:
            loss = float(np.mean([evaluate(params, w)[0] for w in windows]))
            print(f"step {n}: validation loss {loss:.4f}, {time.time() - begin:.0f} s", flush=True)
            if loss < best:
                best = loss
                export(args.out, params, tk)
            if time.time() - begin > args.minutes * 60:
                break
        starts = rng.integers(0, ids[0].size - CONTEXT - 1, BATCH)
        params, state, loss = step(params, state, np.stack([ids[0][s: s + CONTEXT + 1] for s in starts]))
        if n % 20 == 0:
            print(f"  {n}: {float(loss):.3f} {time.time() - begin:.0f} s", flush=True)
    print(f"best validation loss {best:.4f} nats per token")


if __name__ == "__main__":
    main()

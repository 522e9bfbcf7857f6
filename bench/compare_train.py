#!/usr/bin/env python3
"""Compares training steps with PyTorch, eager and compiled, and with JAX: tokens per second on the CPU.

    apt-get install bible-kjv
    pip install -r bench/requirements-train.txt
    bench/compare_train.py [-t 2] [-r 7] [-n 2] [--library build/libreprise.so] [--only jax,eager] [--out FILE.md]

A step is forward pass, backward pass, clipping of the gradients and AdamW, in f32, of the demo model: the
weights of assets/demo.gguf, batch 16, sequences of 256 tokens, 2 of 8 experts, and a loss that balances them. The JAX
program is bench/demo_jax.py. PyTorch has the same model with its fastest parts (scaled_dot_product_attention, the
fused AdamW), and two ways to compute the experts: `loop` computes the experts one after the other, each with
its tokens; `padded` is the way of the JAX program, in which an expert takes at most 1.5 times the mean number of tokens.

Each program is a process of its own. They take turns; a measurement is the mean of -n steps. All start with the same
weights and tokens, and the losses of the first steps must agree. Cells are medians (lowest .. highest) of -r measurements;
the ratio is the median over the turns of our rate divided by that of the peer. On a machine that others share, the CPU
seconds of all threads say more than the rates."""
import argparse
import ctypes as ct
import datetime
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import time

from compare_llama import cpu_name, publish

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODEL = ROOT / "assets" / "demo.gguf"
STEPS, TOLERANCE = 3, 1e-2  # steps whose losses are compared, nats
BATCH, SEQ = 16, 256  # as in demo_jax.py
LR, BETA1, BETA2, EPS, DECAY, AUX = 1e-3, 0.9, 0.95, 1e-8, 0.1, 0.01
PROGRAMS = ("reprise", "eager loop", "eager padded", "compile loop", "compile padded", "jax")
TITLES = {"reprise": "Reprise", "eager": "PyTorch eager", "compile": "torch.compile", "jax": "JAX jit"}


# ---- the common model ----


def tokens(np):
    """[BATCH][SEQ + 1]: each sequence is the start of a chapter of the King James Bible."""
    import demo_jax
    from gguf import GGUFReader
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    fields = GGUFReader(MODEL).fields
    vocab = {t: i for i, t in enumerate(fields["tokenizer.ggml.tokens"].contents())}
    merges = [tuple(m.split(" ")) for m in fields["tokenizer.ggml.merges"].contents()]
    tk = Tokenizer(models.BPE(vocab, merges))
    tk.pre_tokenizer, tk.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    ids = (tk.encode(text).ids for text in demo_jax.chapters())
    return np.array([i[:SEQ + 1] for i in ids if len(i) > SEQ][::60][:BATCH], np.int32)


def demo_weights(np):
    """The parameters in the form of bench/demo_jax.py: matrices are [in, out]."""
    from gguf import GGUFReader
    from gguf.quants import dequantize
    file = {t.name: np.array(dequantize(t.data, t.tensor_type), np.float32) for t in GGUFReader(MODEL).tensors}
    names = {"attn_norm": "attn_norm", "ffn_norm": "ffn_norm", "q_norm": "attn_q_norm", "k_norm": "attn_k_norm", "q": "attn_q",
             "k": "attn_k", "v": "attn_v", "o": "attn_output", "router": "ffn_gate_inp", "gate": "ffn_gate_exps",
             "up": "ffn_up_exps", "down": "ffn_down_exps"}
    layers = []
    while f"blk.{len(layers)}.attn_q.weight" in file:
        layer = {ours: file[f"blk.{len(layers)}.{theirs}.weight"] for ours, theirs in names.items()}
        layers.append({k: np.ascontiguousarray(np.swapaxes(w, -1, -2)) if w.ndim > 1 else w for k, w in layer.items()})
    return {"embd": file["token_embd.weight"], "norm": file["output_norm.weight"], "layers": layers}


# ---- the programs: each returns a function that makes a step and returns its loss ----


class TrainOptions(ct.Structure):
    _fields_ = ([(n, ct.c_int32) for n in ("batch", "seq", "accumulate", "n_steps")] + [("lr", ct.c_float), ("lr_end", ct.c_float)] +
                [("schedule", ct.c_int), ("warmup", ct.c_int32)] +
                [(n, ct.c_float) for n in ("beta1", "beta2", "eps", "weight_decay", "max_norm", "aux_loss")] +
                [("recompute", ct.c_bool), ("compute", ct.c_int), ("lora_rank", ct.c_int32), ("lora_alpha", ct.c_float),
                 ("seed", ct.c_uint64), ("n_threads", ct.c_int), ("device", ct.c_char_p), ("require_cuda", ct.c_bool),
                 ("require_graph", ct.c_bool), ("mode", ct.c_int)])


class TrainResult(ct.Structure):
    _fields_ = [("step", ct.c_int64)] + [(n, ct.c_double) for n in ("loss", "aux_loss", "grad_norm", "lr")] + [("n_targets", ct.c_int64)]


def reprise_step(args):
    import numpy as np
    dll = ct.CDLL(os.path.abspath(args.library))
    dll.rp_last_error.restype = ct.c_char_p
    model, trainer, result = ct.c_void_p(), ct.c_void_p(), TrainResult()

    def checked(status):
        if status != 0:
            sys.exit(dll.rp_last_error().decode())
    checked(dll.rp_model_open_sized(str(MODEL).encode(), None, ct.c_size_t(0), ct.byref(model)))
    options = TrainOptions(batch=BATCH, seq=SEQ, n_steps=1000000, lr=LR, beta1=BETA1, beta2=BETA2, eps=EPS, weight_decay=DECAY,
                           aux_loss=AUX, n_threads=args.t, device=b"cpu")
    checked(dll.rp_trainer_open_sized(model, ct.byref(options), ct.c_size_t(ct.sizeof(options)), ct.byref(trainer)))
    ids = tokens(np)

    def step():
        checked(dll.rp_trainer_step_sized(trainer, ids.ctypes.data_as(ct.c_void_p), ct.byref(result),
                                          ct.c_size_t(ct.sizeof(result))))
        return result.loss
    return step


def jax_step(args):
    import jax
    import numpy as np
    import optax
    import demo_jax as d
    params = jax.tree.map(jax.numpy.asarray, demo_weights(np))
    decay = jax.tree.map(lambda x: x.ndim > 1, params)
    optimizer = optax.chain(optax.clip_by_global_norm(1.0),
                            optax.adamw(LR, b1=BETA1, b2=BETA2, eps=EPS, weight_decay=DECAY, mask=decay))
    state, ids = optimizer.init(params), jax.numpy.asarray(tokens(np))

    def update(params, state, batch):
        (_, loss), grads = jax.value_and_grad(d.objective, has_aux=True)(params, batch)
        updates, state = optimizer.update(grads, state, params)
        return optax.apply_updates(params, updates), state, loss
    compiled = jax.jit(update, donate_argnums=(0, 1))

    def step():
        nonlocal params, state
        params, state, loss = compiled(params, state, ids)
        jax.block_until_ready(params)
        return float(loss)
    return step


def torch_experts(torch, x, p, top, padded):
    """As `experts` of bench/demo_jax.py."""
    f, (n, dim), n_expert = torch.nn.functional, x.shape, p["gate"].shape[0]
    probs = torch.softmax(x @ p["router"], -1)
    weight, chosen = torch.topk(probs, top, -1)
    weight, chosen = (weight / weight.sum(-1, keepdim=True)).reshape(-1), chosen.reshape(-1)
    if padded:
        capacity = 3 * top * n // (2 * n_expert)
        hot = f.one_hot(chosen, n_expert)
        place = (hot.cumsum(0) - 1).gather(1, chosen[:, None])[:, 0]
        kept = place < capacity
        at = torch.where(kept, chosen * capacity + place, n_expert * capacity)
        y = x.new_zeros(n_expert * capacity + 1, dim).index_copy(0, at, x.repeat_interleave(top, 0))[:-1].view(n_expert, capacity, dim)
        y = torch.bmm(f.silu(torch.bmm(y, p["gate"])) * torch.bmm(y, p["up"]), p["down"])
        y = f.pad(y.reshape(-1, dim), (0, 0, 0, 1)).index_select(0, at)
        out, load = (y * weight[:, None]).view(n, top, dim).sum(1), hot.float().mean(0)
    else:
        order, counts = chosen.argsort(stable=True), torch.bincount(chosen, minlength=n_expert)
        token = order // top
        parts = []
        for e, y in enumerate(x.index_select(0, token).split(counts.tolist())):
            parts.append((f.silu(y @ p["gate"][e]) * (y @ p["up"][e])) @ p["down"][e])
        y = torch.cat(parts) * weight.index_select(0, order)[:, None]
        out, load = torch.zeros_like(x).index_add(0, token, y), counts / chosen.numel()
    return out, n_expert * (load * probs.mean(0)).sum()


def torch_loss(torch, d, p, ids, cos, sin, padded):
    f = torch.nn.functional
    (b, t), half = (ids.shape[0], ids.shape[1] - 1), d.HEAD_DIM // 2
    x, balance = f.embedding(ids[:, :-1], p["embd"]), 0.0

    def rope(y):  # [b, t, heads, dim]
        a, c = y[..., :half], y[..., half:]
        return torch.cat([a * cos - c * sin, a * sin + c * cos], -1).transpose(1, 2)
    for layer in p["layers"]:
        y = f.rms_norm(x, (d.DIM,), layer["attn_norm"], d.EPS)
        q = rope(f.rms_norm((y @ layer["q"]).view(b, t, d.HEADS, d.HEAD_DIM), (d.HEAD_DIM,), layer["q_norm"], d.EPS))
        k = rope(f.rms_norm((y @ layer["k"]).view(b, t, d.HEADS_KV, d.HEAD_DIM), (d.HEAD_DIM,), layer["k_norm"], d.EPS))
        v = (y @ layer["v"]).view(b, t, d.HEADS_KV, d.HEAD_DIM).transpose(1, 2)
        y = f.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + y.transpose(1, 2).reshape(b, t, -1) @ layer["o"]
        y, more = torch_experts(torch, f.rms_norm(x, (d.DIM,), layer["ffn_norm"], d.EPS).view(-1, d.DIM), layer, d.TOP, padded)
        x, balance = x + y.view(x.shape), balance + more
    logits = f.rms_norm(x, (d.DIM,), p["norm"], d.EPS) @ p["embd"].T
    loss = f.cross_entropy(logits.view(b * t, -1), ids[:, 1:].reshape(-1))
    return loss + AUX * balance / len(p["layers"]), loss


def torch_step(args, compiled, padded):
    import numpy as np
    import torch
    torch.set_num_threads(args.t)
    torch._dynamo.config.capture_scalar_outputs = True
    import demo_jax as d

    def parameter(x):
        return torch.nn.Parameter(torch.from_numpy(x))
    p = demo_weights(np)
    p = {"embd": parameter(p["embd"]), "norm": parameter(p["norm"]),
         "layers": [{k: parameter(w) for k, w in layer.items()} for layer in p["layers"]]}
    every = [p["embd"], p["norm"], *(w for layer in p["layers"] for w in layer.values())]
    optimizer = torch.optim.AdamW([{"params": [w for w in every if w.ndim > 1], "weight_decay": DECAY},
                                   {"params": [w for w in every if w.ndim == 1], "weight_decay": 0.0}],
                                  lr=LR, betas=(BETA1, BETA2), eps=EPS, fused=True)
    ids = torch.from_numpy(tokens(np)).long()
    angle = torch.arange(SEQ)[:, None] * d.ROPE_BASE ** (-torch.arange(0, d.HEAD_DIM, 2) / d.HEAD_DIM)
    cos, sin = angle.cos()[:, None], angle.sin()[:, None]

    def forward():
        return torch_loss(torch, d, p, ids, cos, sin, padded)
    if compiled:
        forward = torch.compile(forward)

    def step():
        optimizer.zero_grad()
        objective, loss = forward()
        objective.backward()
        torch.nn.utils.clip_grad_norm_(every, 1.0)
        optimizer.step()
        return loss.item()
    return step


# ---- processes ----


def work(args):
    """A worker: prints the losses of the first steps, then for each line of input the seconds of a step: elapsed, and of all
    its threads."""
    kind = args.work.split()
    step = reprise_step(args) if kind[0] == "reprise" else jax_step(args) if kind[0] == "jax" else \
        torch_step(args, kind[0] == "compile", kind[1] == "padded")
    print(*(step() for _ in range(STEPS)), flush=True)
    for _line in sys.stdin:
        start, busy = time.perf_counter(), time.process_time()
        for _ in range(args.n):
            step()
        print((time.perf_counter() - start) / args.n, (time.process_time() - busy) / args.n, flush=True)


class Worker:
    def __init__(self, args, name):
        environment = dict(os.environ, OMP_NUM_THREADS=str(args.t), MKL_NUM_THREADS=str(args.t), OMP_WAIT_POLICY="passive",
                           JAX_PLATFORMS="cpu")
        command = [sys.executable, __file__, "--work", name, "-t", str(args.t), "-n", str(args.n), "--library", args.library]
        cpus = sorted(os.sched_getaffinity(0))[:args.t]
        self.name, self.rates, self.busy = name, [], []
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
                                        preexec_fn=lambda: os.sched_setaffinity(0, cpus))
        self.losses = self.read()

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"{self.name} failed")
        return [float(x) for x in line.split()]

    def measure(self):
        self.process.stdin.write("step\n")
        self.process.stdin.flush()
        elapsed, busy = self.read()
        self.rates.append(BATCH * SEQ / elapsed)
        self.busy.append(busy)


def refuse_other_losses(workers):
    for worker in workers[1:]:
        far = max(abs(a - b) for a, b in zip(worker.losses, workers[0].losses))
        if not far < TOLERANCE:
            sys.exit(f"{worker.name}: losses {worker.losses}, but {workers[0].name} has {workers[0].losses}")


def best_of(workers, kind):
    found = [w for w in workers if w.name.split()[0] == kind]
    return max(found, key=lambda w: statistics.median(w.rates), default=None)


def report(args, workers):
    from importlib.metadata import version
    versions = ", ".join(f"{title} {version(name)}" for title, name in (("PyTorch", "torch"), ("JAX", "jax"), ("optax", "optax")))
    lines = [f"{datetime.date.today()}, {cpu_name()}, {args.t} threads; {versions}, Python {platform.python_version()}. Medians (range) of "
             f"{args.r} alternating measurements of {args.n} steps each.", "",
             "| program | experts | tokens/s | Reprise / program | CPU seconds of a step | program / Reprise | losses of the first steps |",
             "|---|---|---|---|---|---|---|"]
    for w in workers:
        kind, *experts = w.name.split()
        best = "" if w is best_of(workers, kind) else " (not its best)"
        cell = f"{statistics.median(w.rates):.0f} ({min(w.rates):.0f} .. {max(w.rates):.0f})"
        ratio = statistics.median(a / b for a, b in zip(workers[0].rates, w.rates))
        busy = f"{statistics.median(w.busy):.2f} | {statistics.median(b / a for a, b in zip(workers[0].busy, w.busy)):.2f}"
        lines.append(f"| {TITLES[kind]}{best} | {experts[0] if experts else 'padded' if kind == 'jax' else ''} | {cell} | {ratio:.2f} | {busy} | "
                     f"{' '.join(f'{x:.4f}' for x in w.losses)} |")
    return "\n".join(lines) + "\n"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("-t", type=int, default=2, help="threads")
    p.add_argument("-r", type=int, default=7, help="measurements of each program")
    p.add_argument("-n", type=int, default=2, help="steps of a measurement")
    p.add_argument("--library", default=str(ROOT / "build" / "libreprise.so"), help="our library")
    p.add_argument("--only", help="peers to measure, comma-separated: eager, compile, jax")
    p.add_argument("--out", help="append the table to this file")
    p.add_argument("--work", help=argparse.SUPPRESS)
    args = p.parse_args()
    if args.work:
        return work(args)
    wanted = args.only.split(",") if args.only is not None else ["eager", "compile", "jax"]
    workers = [Worker(args, name) for name in PROGRAMS if name == "reprise" or name.split()[0] in wanted or name in wanted]
    refuse_other_losses(workers)
    for _ in range(args.r):
        for worker in workers:
            worker.measure()
    text = report(args, workers)
    publish(text, args.out)
    for worker in workers:
        worker.process.stdin.close()
        worker.process.wait()


if __name__ == "__main__":
    main()

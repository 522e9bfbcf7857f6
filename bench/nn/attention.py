#!/usr/bin/env python3
"""Attention of libreprise_nn beside scaled_dot_product_attention of PyTorch on the CPU, in turns in one process.

    attention.py LIBRARY [--threads 2] [--rounds 5] [--dims 64,128] [--seqs 128,512,1024,2048,4096]

LIBRARY is libreprise_nn.so. Batch 1, 8 heads, f32. Each of PyTorch and Reprise gets its own layout: [batch,heads,seq,dim] and
[batch,seq,heads,dim]. A figure is the median over the rounds of PyTorch's time divided by Reprise's: above 1 Reprise is faster.
"""
import argparse
import ctypes
import datetime
import math
import os
import statistics
import time

HEADS = 8
SECONDS = 0.1  # of one measurement
PAUSE = 0.02   # until the threads of the other library sleep


def cpu_name():
    with open("/proc/cpuinfo") as f:
        facts = dict(line.split(":", 1) for line in f.read().split("\n\n")[0].splitlines() if ":" in line)
    facts = {k.strip(): v.strip() for k, v in facts.items()}
    return f"{facts.get('model name', 'unknown CPU')}, family {facts.get('cpu family')}, model {facts.get('model')}"


def measure(call):
    """Seconds of a call."""
    time.sleep(PAUSE)
    call()
    start = time.perf_counter()
    call()
    n = max(1, math.ceil(SECONDS / (time.perf_counter() - start)))
    start = time.perf_counter()
    for _ in range(n):
        call()
    return (time.perf_counter() - start) / n


def checked(dll, code):
    if code != 0:
        raise SystemExit(dll.rp_nn_last_error().decode())


def reprise_call(dll, torch, q, k, v, causal):
    """The call, its result, and what must live as long as it does. Tensors are [batch,seq,heads,dim]."""
    batch, seq_q, heads, dim = q.shape
    sizes = [ctypes.c_int64(batch)] + [ctypes.c_int32(n) for n in (seq_q, k.shape[1], heads, k.shape[2], dim)]
    wanted = ctypes.c_int64()
    checked(dll, dll.rp_nn_cpu_flash_attention_workspace(*sizes, ctypes.byref(wanted)))
    memory, out = torch.empty(max(1, wanted.value), dtype=torch.uint8), torch.empty_like(q)
    arguments = [ctypes.c_void_p(t.data_ptr()) for t in (q, k, v, out)] + sizes
    arguments += [ctypes.c_float(1 / math.sqrt(dim)), ctypes.c_int32(causal), ctypes.c_void_p(memory.data_ptr()), wanted, None]
    return (lambda: checked(dll, dll.rp_nn_cpu_flash_attention(*arguments))), out, memory


def compare(dll, torch, dim, seq, causal, rounds):
    shape = (1, seq, HEADS, dim)
    q, k, v = (torch.randn(shape) for _ in range(3))
    ours, out, _memory = reprise_call(dll, torch, q, k, v, causal)
    theirs_in = [t.transpose(1, 2).contiguous() for t in (q, k, v)]

    def theirs():
        return torch.nn.functional.scaled_dot_product_attention(*theirs_in, is_causal=bool(causal))
    ours()
    difference = (theirs().transpose(1, 2) - out).abs().max().item()
    if not difference < 1e-4:
        raise SystemExit(f"results differ by {difference}")
    times = [(measure(theirs), measure(ours)) for _ in range(rounds)]
    ratio = statistics.median(a / b for a, b in times)
    return statistics.median(a for a, _ in times), statistics.median(b for _, b in times), ratio


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("library")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--dims", default="64,128")
    p.add_argument("--seqs", default="128,512,1024,2048,4096")
    a = p.parse_args()
    os.environ["REPRISE_THREADS"] = str(a.threads)
    import torch
    torch.set_num_threads(a.threads)
    dll = ctypes.CDLL(os.path.abspath(a.library))
    dll.rp_nn_last_error.restype = ctypes.c_char_p
    print(f"{cpu_name()}, {a.threads} threads, {datetime.date.today()}, PyTorch {torch.__version__}\n")
    print("| head_dim | seq | causal | PyTorch, ms | Reprise, ms | GFLOP/s | PyTorch / Reprise |\n|---|---|---|---|---|---|---|")
    with torch.no_grad():
        for dim in map(int, a.dims.split(",")):
            for seq in map(int, a.seqs.split(",")):
                for causal in (0, 1):
                    theirs, ours, ratio = compare(dll, torch, dim, seq, causal, a.rounds)
                    products = 4 * HEADS * dim * (seq * (seq + 1) / 2 if causal else seq * seq)
                    print(f"| {dim} | {seq} | {'yes' if causal else 'no'} | {1e3 * theirs:.3f} | {1e3 * ours:.3f} | "
                          f"{products / ours / 1e9:.0f} | {ratio:.2f} |", flush=True)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Measures gemm and gemv_q of libreprise_nn on the CPU beside NumPy and, if it is installed, PyTorch.

    bench/nn/products.py [--library build/libreprise_nn.so] [-t 2] [-r 15] [--out FILE.md]

All of a row take turns in one process. Cells are medians (lowest .. highest) of GFLOP/s, two operations for each
multiplication; ratios are medians over turns. gemv_q is measured beside the product with the matrix in f32."""
import argparse
import datetime
import os
import pathlib
import statistics
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
GEMM = [(128, 128, 128), (512, 512, 512), (1024, 1024, 1024), (2048, 2048, 2048), (32, 4096, 4096), (1, 4096, 4096)]
GEMV = ["f32", "f16", "q8_0", "q6_k", "q4_k", "q4_0", "mxfp4"]
SIDE = 4096
PAUSE = 0.1  # until the threads of the other library sleep
WARM = 0.02  # until the scheduler has spread those that woke up


def turns(calls, count, operations):
    """GFLOP/s of each call in each turn; a turn lasts some milliseconds."""
    repeats = max(1, round(2e9 / operations / 4))
    rates = [[] for _ in calls]
    for turn in range(count + 1):
        for call, rate in zip(calls, rates):
            time.sleep(PAUSE)
            start = time.perf_counter()
            while time.perf_counter() < start + WARM:
                call()
            start = time.perf_counter()
            for _ in range(repeats):
                call()
            if turn > 0:  # the first one starts threads and reads caches
                rate.append(operations * repeats / (time.perf_counter() - start) / 1e9)
    return rates


def row(name, rates):
    cells = [f"{statistics.median(r):.1f} ({min(r):.1f} .. {max(r):.1f})" for r in rates]
    ratios = [f"{statistics.median(a / b for a, b in zip(rates[0], other)):.2f}" for other in rates[1:]]
    return "| " + " | ".join([name, *cells, *ratios]) + " |"


def gemm_calls(np, torch, host, m, n, k):
    a, b = (np.random.default_rng(i).standard_normal(shape, np.float32) for i, shape in enumerate(((m, k), (k, n))))
    y, out = np.empty((m, n), np.float32), np.empty((m, n), np.float32)
    calls = [lambda: host("gemm", a, b, y, m, n, k, 1.0, 0.0), lambda: np.matmul(a, b, out=out)]
    if torch is not None:
        ta, tb, tc = (torch.from_numpy(x) for x in (a, b, np.empty((m, n), np.float32)))
        calls.append(lambda: torch.mm(ta, tb, out=tc))
    return calls


def gemv_calls(np, torch, host, number):
    w, x, y = (np.random.default_rng(7).standard_normal(shape, np.float32) for shape in ((SIDE, SIDE), SIDE, SIDE))
    blocks = np.empty(host.bytes_of(number, w.size), np.uint8)
    host.host("quantize", number, w, blocks, w.size)
    workspace = host.workspace("gemv_q", number, SIDE, SIDE)
    out = np.empty_like(y)
    calls = [lambda: host("gemv_q", number, blocks, x, y, SIDE, SIDE, *workspace), lambda: np.matmul(w, x, out=out)]
    if torch is not None:
        tw, tx, ty = (torch.from_numpy(v) for v in (w, x, np.empty_like(y)))
        calls.append(lambda: torch.mv(tw, tx, out=ty))
    return calls


def cpu_name():
    for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown CPU"


def measure(args):
    import numpy as np
    from library import Host, Library
    try:
        import torch
    except ImportError:
        torch = None
    library = Library(ROOT, args.library)
    host, others = Host(library), ["NumPy"] + ([f"PyTorch {torch.__version__}"] if torch is not None else [])
    title = " | ".join(["| product", "libreprise_nn, GFLOP/s", *others, *[f"to {o.split()[0]}" for o in others]]) + " |"
    lines = [title, "|" + "---|" * (2 + 2 * len(others))]
    for m, n, k in GEMM:
        lines.append(row(f"gemm {m} x {n} x {k}", turns(gemm_calls(np, torch, host, m, n, k), args.r, 2 * m * n * k)))
    for name in GEMV:
        calls = gemv_calls(np, torch, host, library.types[name][0])
        lines.append(row(f"gemv_q {name} {SIDE} x {SIDE}", turns(calls, args.r, 2 * SIDE * SIDE)))
    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    today = datetime.date.today().isoformat()
    lines += ["", f"{today}, {cpu_name()}, {args.t} threads; NumPy {np.__version__} with {blas['name']} {blas['version']}; "
              f"{args.r} turns, medians (range)."]
    return "\n".join(lines) + "\n"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--library", default=str(ROOT / "build" / "libreprise_nn.so"))
    p.add_argument("-t", type=int, default=os.cpu_count(), help="threads")
    p.add_argument("-r", type=int, default=15, help="turns")
    p.add_argument("--out", help="append the result to this file")
    args = p.parse_args()
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "REPRISE_THREADS"):
        os.environ[variable] = str(args.t)  # read when the libraries are loaded
    sys.path.insert(0, str(ROOT / "tests/nn"))
    text = measure(args)
    print(text, end="")
    if args.out:
        with open(args.out, "a", encoding="utf-8") as f:
            f.write(text)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Compares decode with and without the fusion passes on the CPU: nodes and barriers per token, tokens per second.

    bench/compare_passes.py MODEL.gguf ... [-t 2] [-n 64] [-r 5] [--reprise build/reprise] [--out FILE.md]

"unfused" is the graph after the passes `attention` and `quantize` only; it gives the same bits. Each run is a separate
process, and the two take turns. Cells are medians (lowest .. highest); the ratio is the median over pairs of runs."""
import argparse
import datetime
import json
import pathlib
import statistics
import subprocess

from compare_llama import ROOT, cell, cpu_name

UNFUSED = "-all,+attention,+quantize"


def run(reprise, *args):
    return json.loads(subprocess.run([reprise, *args, "--json"], capture_output=True, check=True, text=True).stdout)


def decode(args, model, passes):
    got = run(args.reprise, "bench", "-m", model, "-p", "1", "-n", str(args.n), "-r", "1", "-t", str(args.t),
              "--device", "cpu", *passes)
    return got["results"][-1]["median_tok_s"]


def counts(args, model, passes):
    got = run(args.reprise, "bench", "launches", "-m", model, "--device", "cpu", *passes)
    return f"{got['steps']} / {got['cpu_barriers']}"


def row(args, model):
    unfused = [f"--passes={UNFUSED}"]
    pairs = [(decode(args, model, unfused), decode(args, model, [])) for _ in range(args.r)]
    before, after = zip(*pairs)
    ratio = statistics.median(b / a for a, b in pairs)
    cells = [pathlib.Path(model).name, counts(args, model, unfused), counts(args, model, [])]
    cells += [cell(v) for v in (before, after)]
    return "| " + " | ".join([*cells, f"{ratio:.2f}"]) + " |"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("models", nargs="+")
    p.add_argument("-t", type=int, default=2, help="threads")
    p.add_argument("-n", type=int, default=64, help="tokens per run")
    p.add_argument("-r", type=int, default=5, help="runs of each")
    p.add_argument("--reprise", default=str(ROOT / "build" / "reprise"), help="the program to measure")
    p.add_argument("--out", help="write the result to this file")
    args = p.parse_args()
    lines = [f"{datetime.date.today()}, {cpu_name()}, {args.t} threads, {args.r} interleaved runs of {args.n} tokens.", "",
             "| model | nodes / barriers per token, unfused | fused | tok/s, unfused | fused | ratio |", "|---|---|---|---|---|---|"]
    lines += [row(args, model) for model in args.models]
    text = "\n".join(lines) + "\n"
    print(text, end="")
    if args.out:
        pathlib.Path(args.out).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

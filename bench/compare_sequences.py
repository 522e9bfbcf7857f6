#!/usr/bin/env python3
"""Compares the tokens a second of several replies at the same time with llama.cpp's llama-batched-bench.

    bench/compare_sequences.py MODEL.gguf ... [-t 2] [-s 1,4,8,16] [-p 512] [-n 24] [-r 3] [--out FILE.md]

The peer is built for this CPU as compare_llama.py builds it. Its replies share a prompt (-pps), which only shortens the run: each has a KV
cache of its own. It runs with flash attention on and off, and the setting with the better median counts. Every run is a separate process, and
the programs take turns. Cells are medians (lowest .. highest) of -r processes; the ratio is to the peer."""
import argparse
import collections
import datetime
import json
import os
import pathlib
import statistics
import sys

from compare_llama import (ROOT, cell, cpu_name, numbers, output, peer_features, peer_program, peer_version, publish, refuse_weak,
                           revision)


def run_peer(program, args, model, flash):
    """Tokens per second by number of sequences."""
    most = max(args.s)
    text = output(str(program), "-m", model, "-t", str(args.t), "-c", str(most * (args.p + args.n) + 256), "-npp", str(args.p), "-ntg", str(args.n),
                  "-npl", ",".join(map(str, args.s)), "-pps", "-fa", flash, "--output-format", "jsonl")
    rows = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    speeds = {r["pl"]: r["speed_tg"] for r in rows}
    missing = [n for n in args.s if n not in speeds]
    if missing:
        sys.exit(f"{program} -m {model} -fa {flash}: no result for {missing} replies at the same time")
    return speeds


def run_reprise(args, model):
    report = json.loads(output(args.reprise, "bench", "sequences", model, "-t", str(args.t), "-s", str(max(args.s)), "-p", str(args.p), "-n", str(args.n),
                               "-q", "--json"))
    return {r["sequences"]: r["tok_s"] for r in report["results"]}


def compare(program, args, model):
    """Rows of the table."""
    speeds = collections.defaultdict(lambda: collections.defaultdict(list))  # by program and setting, then by number of sequences
    for _ in range(args.r):
        for flash in ("on", "off"):
            for n, speed in run_peer(program, args, model, flash).items():
                speeds["llama.cpp", flash][n].append(speed)
        for n, speed in run_reprise(args, model).items():
            speeds["reprise", ""][n].append(speed)
    ours, rows = speeds["reprise", ""], []
    for n in args.s:
        flash = max(("on", "off"), key=lambda f: statistics.median(speeds["llama.cpp", f][n]))
        theirs = speeds["llama.cpp", flash][n]
        mine = statistics.median(ours[n])
        rows.append(f"| {pathlib.Path(model).name.removesuffix('.gguf')} | {args.p} | {n} | {cell(ours[n])} | {mine / statistics.median(ours[args.s[0]]):.2f} | "
                    f"{cell(theirs)} `-fa {flash}` | {mine / statistics.median(theirs):.2f} |")
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("-t", type=int, default=2, help="threads")
    parser.add_argument("-s", type=numbers, default=[1, 4, 8, 16], help="replies at the same time, powers of two, comma-separated")
    parser.add_argument("-p", type=int, default=512, help="tokens of each prompt")
    parser.add_argument("-n", type=int, default=24, help="tokens of each reply")
    parser.add_argument("-r", type=int, default=3, help="processes of each program")
    parser.add_argument("--reprise", default=str(ROOT / "build" / "reprise"), help="the program to measure")
    parser.add_argument("--peer", help="llama-batched-bench, built for this CPU; default: it is built")
    parser.add_argument("--out", help="append the result to this file")
    args = parser.parse_args()
    version, build = peer_version(), "built for this CPU"
    program = args.peer
    if program is None:
        _, folder, sources, how = peer_program(version)
        features = peer_features(folder, sources)
        refuse_weak(features)
        output("ninja", "-C", str(folder), "llama-batched-bench")
        program, build = folder / "bin" / "llama-batched-bench", ", ".join([" ".join(features), *([how] if how else [])])
    rows = [row for model in args.models for row in compare(program, args, model)]
    text = "\n".join([
        f"{datetime.date.today()}, {cpu_name()}, {os.cpu_count()} cores, {args.t} threads; {revision(args.reprise)}; "
        f"llama.cpp of llama-cpp-python {version} ({build}); medians (range) of {args.r} interleaved processes.",
        "",
        "| model | tokens of the prompt | replies | reprise, tok/s of all | times one | llama.cpp | ratio |",
        "|---|---|---|---|---|---|---|",
        *rows,
        "",
    ])
    publish(text, args.out)


if __name__ == "__main__":
    main()

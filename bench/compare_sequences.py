#!/usr/bin/env python3
"""Compares the tokens a second of several replies at the same time with the llama-batched-bench of llama.cpp, and with
the one of ik_llama.cpp if --ik names it.

    bench/compare_sequences.py MODEL.gguf ... [-t 2] [-s 1,4,8,16] [-p 512] [-n 24] [-r 3] [--ik PATH] [--out FILE.md]

llama.cpp is built for this CPU as compare_llama.py builds it. The replies of the peers share a prompt (-pps), which
only shortens the run: each has a KV cache of its own. llama.cpp runs with flash attention on and off, ik_llama.cpp with
run-time repacking off and on, and for each number of replies the setting with the best median counts. Every run is a
separate process, and the programs take turns. Cells are medians (lowest .. highest) of -r processes; the ratio is to the
faster peer."""
import argparse
import collections
import datetime
import json
import os
import pathlib
import re
import statistics
import sys
import tempfile

from compare_llama import (ROOT, best_setting, cell, cpu_name, numbers, output, peer_features, peer_program,
                           peer_version, publish, refuse_unfair, revision)


def settings(program, args):
    """Yields (peer, setting, command line)."""
    for flash in ("on", "off"):
        yield "llama.cpp", f"-fa {flash}", [os.path.abspath(program), "-fa", flash]
    for options in ([], ["-rtr"]) if args.ik else ():
        yield "ik_llama.cpp", "-rtr 1" if options else "-rtr 0", [os.path.abspath(args.ik), "-fa", "on", *options]


def run_peer(command, args, model):
    """Tokens per second by number of sequences, from the table that the program prints."""
    most = max(args.s)
    with tempfile.TemporaryDirectory() as scratch:  # ik_llama.cpp writes a log where it runs
        text = output(*command, "-m", os.path.abspath(model), "-t", str(args.t), "-c", str(most * (args.p + args.n) + 256),
                      "-npp", str(args.p), "-ntg", str(args.n), "-npl", ",".join(map(str, args.s)), "-pps",
                      log=True, folder=scratch)
    lines = [line for line in text.splitlines() if re.match(r"\|[\s\d.|]+\|$", line)]
    rows = [[c.strip() for c in line.split("|")[1:-1]] for line in lines]
    speeds = {int(row[2]): float(row[7]) for row in rows}  # columns B and S_TG
    missing = [n for n in args.s if n not in speeds]
    if missing:
        sys.exit(f"{' '.join(command)} -m {model}: no result for {missing} replies at the same time")
    return speeds


def run_reprise(args, model):
    report = json.loads(output(args.reprise, "bench", "sequences", model, "-t", str(args.t), "-s", str(max(args.s)), "-p", str(args.p), "-n", str(args.n),
                               "-q", "--json"))
    return {r["sequences"]: r["tok_s"] for r in report["results"]}


def compare(program, args, model):
    """Rows of the table."""
    speeds = collections.defaultdict(lambda: collections.defaultdict(list))  # by program and setting, then by number of sequences
    for _ in range(args.r):
        for peer, setting, command in settings(program, args):
            for n, speed in run_peer(command, args, model).items():
                speeds[peer, setting][n].append(speed)
        for n, speed in run_reprise(args, model).items():
            speeds["reprise", ""][n].append(speed)
    ours, rows = speeds.pop(("reprise", "")), []
    for n in args.s:
        mine = statistics.median(ours[n])
        runs = {key: [[speed] for speed in by_number[n]] for key, by_number in speeds.items()}
        cells, best = [], 0
        for peer in ("llama.cpp", "ik_llama.cpp"):
            setting, rates = best_setting(runs, peer)
            theirs = sum(rates or [], [])
            cells.append(f"{cell(theirs)} `{setting}`" if theirs else "-")
            best = max(best, statistics.median(theirs or [0]))
        rows.append(f"| {pathlib.Path(model).name.removesuffix('.gguf')} | {args.p} | {n} | {cell(ours[n])} | {mine / statistics.median(ours[args.s[0]]):.2f} | "
                    f"{' | '.join(cells)} | {mine / best:.2f} |")
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
    parser.add_argument("--peer", help="llama-batched-bench of llama.cpp, built for this CPU; default: it is built")
    parser.add_argument("--ik", help="llama-batched-bench of ik_llama.cpp, built for this CPU")
    parser.add_argument("--out", help="append the result to this file")
    args = parser.parse_args()
    version, build = peer_version(), "built for this CPU"
    program = args.peer
    if program is None:
        _, folder, sources, how = peer_program(version, "native")
        features = peer_features(folder, sources)
        refuse_unfair(features, "native")
        output("ninja", "-C", str(folder), "llama-batched-bench")
        program, build = folder / "bin" / "llama-batched-bench", ", ".join([" ".join(features), *([how] if how else [])])
    rows = [row for model in args.models for row in compare(program, args, model)]
    text = "\n".join([
        f"{datetime.date.today()}, {cpu_name()}, {os.cpu_count()} cores, {args.t} threads; {revision(args.reprise)}; "
        f"llama.cpp of llama-cpp-python {version} ({build}){', ik_llama.cpp' if args.ik else ''}; medians (range) of {args.r} interleaved processes.",
        "",
        "| model | tokens of the prompt | replies | reprise, tok/s of all | times one | llama.cpp | ik_llama.cpp | ratio to the faster |",
        "|---|---|---|---|---|---|---|---|",
        *rows,
        "",
    ])
    publish(text, args.out)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Writes the measurements of scripts/gpu-check.sh as OUTPUT_DIR/<gpu>-<date>.md and .json.

    gpu_report.py MEASUREMENTS_DIR OUTPUT_DIR
"""

import datetime
import json
import os
import re
import sys


def read(folder, name):
    with open(os.path.join(folder, name)) as f:
        return json.load(f)


def median_of(bench, kind):
    return next((r["median_tok_s"] for r in bench["results"] if r["test"].startswith(kind)), 0.0)


def bench_rows(models, copy):
    yield "| model | prefill 512, tok/s | decode, tok/s | GB/s | % of copy | eager | replay | loop | replay / eager time |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for m in models:
        rates, gb_s = m["launches"]["tok_s"], m["bench"]["gb_s"]
        ratio = rates["eager"] / rates["replay"] if rates["replay"] else float("nan")
        yield (
            f"| {m['name']} | {median_of(m['bench'], 'pp'):.0f} | {median_of(m['bench'], 'tg'):.1f} | {gb_s:.0f} | "
            f"{100e9 * gb_s / copy:.1f} | {rates['eager']:.1f} | {rates['replay']:.1f} | {rates['loop']:.1f} | {ratio:.2f} |"
        )


def profile_rows(model, copy):
    ops = {}
    for step in model["profile"].get("steps", []):
        n, us, size = ops.get(step["op"], (0, 0.0, 0))
        ops[step["op"]] = (n + 1, us + step["us"], size + step["bytes"])
    yield "| op | nodes | us | GB/s | % of copy |"
    yield "|---|---|---|---|---|"
    for op, (n, us, size) in sorted(ops.items(), key=lambda item: -item[1][1]):
        rate = size / us / 1e3 if us else 0.0
        yield f"| {op} | {n} | {us:.1f} | {rate:.0f} | {100e9 * rate / copy:.1f} |"


def report(data):
    d = data["device"]
    copy = d["copy_bytes_s"]
    yield f"# {d['name']}, {data['date']}\n"
    yield (
        f"Compute capability {d['compute']}, {d['multiprocessors']} multiprocessors, {d['total_bytes'] / 1e9:.0f} GB, driver for "
        f"CUDA {d['driver'] // 1000}.{d['driver'] % 1000 // 10}. A copy within its memory runs at {copy / 1e9:.0f} GB/s, "
        "bytes read and written. Made by `scripts/gpu-check.sh`; weights are random, shapes those of the models.\n"
    )
    yield from bench_rows(data["models"], copy)
    for m in data["models"]:
        yield f"\n## {m['name']}: decode step at position 512, {m['launches']['kernels_per_token']} kernels\n"
        yield from profile_rows(m, copy)
    yield "\n## Boundaries between kernels (bench/cuda_gaps.cu)\n"
    for key, value in data["gaps"].items():
        yield f"- {key}: {value}"
    yield "\n## Checks\n"
    yield "```\n" + data["checks"].rstrip() + "\n```"


def main():
    folder, out = sys.argv[1], sys.argv[2]
    with open(os.path.join(folder, "checks")) as f:
        checks = f.read()
    data = {
        "date": datetime.date.today().isoformat(),
        "device": read(folder, "devices.json")["cuda"][0],
        "gaps": read(folder, "gaps.json"),
        "models": read(folder, "bench.json"),
        "checks": checks,
    }
    name = re.sub(r"[^a-z0-9]+", "-", data["device"]["name"].lower()).strip("-") + "-" + data["date"]
    for ending, text in (("json", json.dumps(data, indent=1)), ("md", "\n".join(report(data)))):
        path = os.path.join(out, f"{name}.{ending}")
        with open(path, "w") as f:
            f.write(text + "\n")
        print(path)


main()

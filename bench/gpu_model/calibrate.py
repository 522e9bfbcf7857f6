#!/usr/bin/env python3
"""Predicts published decode figures of llama.cpp with the time model of `reprise bench launches --predict`, from counts of
ggml's CUDA kernels, and prints both side by side. Nothing is measured. docs/gpu-model.md explains what is compared.

    bench/gpu_model/calibrate.py build/reprise        # a table in Markdown

ggml_counts.json has the counts of one block of each kernel. launches() is the decode step that ggml launches."""
import json
import math
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
BLOCK_BYTES = {"Q4_K": (144, 256), "Q6_K": (210, 256), "Q8_0": (34, 32)}  # bytes, elements
HEAD = 128


def load(name):
    with open(os.path.join(HERE, name), encoding="utf-8") as f:
        return json.load(f)


COUNTS = {k["name"]: k for k in load("ggml_counts.json")["kernels"]}


def types(model, layer):
    """Types of most matrices, and of V and down: llama.cpp's mix Q4_K_M gives the latter more bits in half of the layers."""
    n = model["layers"]
    if model["type"] != "Q4_K_M":
        return model["type"], model["type"]
    return "Q4_K", "Q6_K" if layer < n // 8 or layer >= 7 * n // 8 or (layer - n // 8) % 3 == 2 else "Q4_K"


def layer_launches(model, layer, form, position):
    """(kernel, blocks) of one layer. Elementwise kernels (RoPE, cache, add, multiply, SiLU) count as quantize_q8_1, which
    also does one pass with an element a thread."""
    width, ffn, q, kv = model["width"], model["ffn"], model["heads"] * HEAD, model["kv_heads"] * HEAD
    base, high = types(model, layer)
    splits = 4 if position >= 512 else 2

    def elementwise(n):
        return ("quantize_q8_1", math.ceil(n / 256))

    def product(dtype, k, rows, gate=""):
        return [elementwise(k), (f"mmvq {dtype}{gate} {k}", rows)]

    def norm():
        return [(f"rms_norm {width}", 1)] + ([elementwise(width)] if form == "2024" else [])

    out = norm() + product(base, width, q) + product(base, width, kv) + product(high, width, kv)
    out += [elementwise(q), elementwise(kv), elementwise(kv)]
    out += [("fattn_vec", model["heads"] * splits), (f"fattn_combine {splits}", model["heads"])]
    out += product(base, q, width) + [elementwise(width)] + norm()
    if form == "2024":  # gate and up before they were fused
        out += 2 * product(base, width, ffn) + [elementwise(ffn), elementwise(ffn)]
    else:
        out += product(base, width, ffn, " gate")
    return out + product(high, ffn, width) + [elementwise(width)]


def launches(model, form, position):
    out = [x for layer in range(model["layers"]) for x in layer_launches(model, layer, form, position)]
    k, head = model["width"], "Q6_K" if model["type"] == "Q4_K_M" else model["type"]
    return out + [(f"rms_norm {k}", 1), ("quantize_q8_1", math.ceil(k / 256)), (f"mmvq {head} {k}", model["vocab"])]


def weight_bytes(name):
    """Of one block, so of one row; two with a gate."""
    if not name.startswith("mmvq"):
        return 0
    words = name.split()
    size, elements = BLOCK_BYTES[words[1]]
    return int(words[-1]) // elements * size * (2 if "gate" in words else 1)


def row(name, blocks, times):
    """A kernel as `reprise-sim bench counts --json` prints it, with the fields that the model reads."""
    c = COUNTS[name]
    return {
        "name": name,
        "node": "",
        "grid": [blocks, 1, 1],
        "block": c["block"],
        "registers": c["registers"],
        "shared_bytes": c["shared_bytes"],
        "blocks_per_sm": 1,
        "launches": times,
        "warp_instructions": {k: n * blocks for k, n in c["warp_instructions"].items()},
        "bytes": {
            "weights": weight_bytes(name) * blocks,
            "cache": c["cache"] * blocks,
            "activations": c["activations"] * blocks,
        },
        "barriers": c["barriers"] * blocks,
        "atomics": 0,
        "atomic_contention": 0,
        "bytes_in_flight": c["warp_flight"] * ((c["block"] + 31) // 32),
    }


def counts(model, form, position):
    times = {}
    for x in launches(model, form, position):
        times[x] = times.get(x, 0) + 1
    return {
        "model": None,
        "preset": None,
        "phase": "decode",
        "position": position,
        "kernels": [row(name, blocks, n) for (name, blocks), n in times.items()],
    }


def predict(program, step, gpu):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "ggml.json")
        with open(path, "w", encoding="utf-8") as f:
            json.dump(step, f)
        p = subprocess.run([program, "bench", "launches", "--predict", path, "--gpu", gpu, "--json"], capture_output=True,
                           text=True, check=True)
    return json.loads(p.stdout)[0]


def compare(program):
    """A row for each published figure, with the predicted one and the relative error."""
    published, out = load("published.json"), []
    for f in published["figures"]:
        source = published["sources"][f["source"]]
        step = counts(published["models"][f["model"]], source["launches"], source["position"])
        p = predict(program, step, f["gpu"])
        device_us = p["us"] if source["launches"] == "2026" else 1e6 / p["tok_s_without_pdl"]
        rate = 1e6 / (device_us + 1e3 * source["host_ms"])
        out.append({**f, "predicted": rate, "error": rate / f["tok_s"] - 1, "percent": p["percent_of_bandwidth"]})
    return out


def markdown(rows):
    lines = ["| model | GPU | published tok/s | source | predicted tok/s | error |", "|---|---|---:|---|---:|---:|"]
    for r in rows:
        lines.append(f"| {r['model']} | {r['gpu']} | {r['tok_s']:g} | {r['source']} | {r['predicted']:.0f} | {100 * r['error']:+.0f} % |")
    return "\n".join(lines)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    print(markdown(compare(sys.argv[1])))

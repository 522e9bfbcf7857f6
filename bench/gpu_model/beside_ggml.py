#!/usr/bin/env python3
"""Predicts the same models with ggml's CUDA kernels and with Reprise's, and prints both side by side, in Markdown. Nothing is
measured. docs/gpu-kernels.md ("Beside ggml's kernels") has the tables and says what they compare.

    bench/gpu_model/beside_ggml.py build/reprise            # prints the tables
    bench/gpu_model/beside_ggml.py build/reprise --write    # and puts them into docs/gpu-kernels.md

Counts, in the form of `reprise-sim bench counts --json`:

    ggml/            ggml's launches of a decode step           ours/, ../counts/     those of Reprise
    ggml/prefill/    of a prompt of 512 tokens                  ours/prefill/

`count_presets.sh` renews Reprise's. A folder is also read by `reprise bench launches --predict bench/gpu_model/ggml`."""
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
PAGE = os.path.join(HERE, "../../docs/gpu-kernels.md")
BEGIN, END = "<!-- ggml: written by bench/gpu_model/beside_ggml.py -->\n", "<!-- end of ggml -->"
GPUS = {"h100": "H100", "h200": "H200", "4090": "RTX 4090"}
STEPS = {
    "llama3-8b": "llama3-8b Q8_0",
    "llama3-8b-q6_k": "llama3-8b Q6_K",
    "llama3-8b-q5_k_s": "llama3-8b Q5_K_S",
    "llama3-8b-q4_k_m": "llama3-8b Q4_K_M",
    "llama3-8b-q4_0": "llama3-8b Q4_0",
    "llama3-8b-mxfp4": "llama3-8b MXFP4",
    "llama3.2-1b-bf16": "llama3.2-1b BF16",
    "qwen3-30b-a3b-q4_k_m": "qwen3-30b-a3b Q4_K_M",
    "gpt-oss-20b-mxfp4": "gpt-oss-20b MXFP4",
}
# Attention of 32 heads with 8 key heads of 128, at position 32000: the cache type and the files of both.
ATTENTION = {"f16": ("llama3-8b-32000", "mixtral-8x7b-32000"), "q8_0": ("llama3-8b-32000-q8_0", "mixtral-8x7b-32000-q8_0")}
PREFILL = {"llama3-8b": "llama3-8b Q8_0", "llama3-8b-q4_k_m": "llama3-8b Q4_K_M"}
GAP_PDL_US = 0.5


def find(side, name):
    """The file of counts, None if there is none."""
    folders = ["ggml"] if side == "ggml" else ["ours", "../counts"]
    paths = [os.path.join(HERE, folder, name + ".json") for folder in folders]
    return next((p for p in paths if os.path.exists(p)), None)


def load(path):
    with open(path, encoding="utf-8") as f:
        return json.load(f)


def predict(program, path, gpu):
    p = subprocess.run([program, "bench", "launches", "--predict", path, "--gpu", gpu, "--json"], capture_output=True, text=True,
                       check=True)
    return json.loads(p.stdout)[0]


def times(step):
    """Microseconds of the step, all limits and without `flight`: the order of the loads in PTX, of which that limit is made,
    is the least that ptxas leaves in flight."""
    launches = sum(k["launches"] for k in step["kernels"])
    gaps = step["us"] - sum(k["launches"] * k["us"] for k in step["kernels"])
    return step["us"], sum(k["launches"] * best_us(k) for k in step["kernels"]) + gaps, gaps, launches


def best_us(kernel):
    return max(kernel[limit + "_us"] for limit in ("memory", "issue", "tensor", "atomics")) + kernel["serial_us"]


def span(low, high):
    low, high = f"{low:.0f}", f"{high:.0f}"
    return low if low == high else f"{low} to {high}"


def table(head, rows):
    lines = [head, ["---"] + ["---:"] * (len(head) - 1)] + rows
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def decode(program):
    def cell(side, name, gpu):
        path = find(side, name)
        if path is None:
            return "not counted"
        p = predict(program, path, gpu)
        all_limits, best, _, _ = times(p)
        percent = p["percent_of_bandwidth"]
        return f"{span(1e6 / all_limits, 1e6 / best)} ({span(percent, percent * all_limits / best)} %)"

    head = ["model"] + [f"{g}, {side}" for g in GPUS.values() for side in ("ggml", "Reprise")]
    rows = [[title] + [cell(side, name, g) for g in GPUS for side in ("ggml", "ours")] for name, title in STEPS.items()]
    return table(head, rows)


def evidence(program):
    all_limits, best, _, _ = times(predict(program, find("ggml", "gpt-oss-20b-mxfp4"), "5090"))
    return f"gpt-oss-20b MXFP4 with ggml's kernels on an RTX 5090: {span(1e6 / all_limits, 1e6 / best)} tok/s."


def is_attention(kernel):
    return kernel["name"].split()[0] in ("FLASH_ATTN_EXT", "attention")


def attention(program):
    """Time of the attention kernels of one layer, without gaps, and the share of the bandwidth that the cache alone takes."""

    def cell(side, name, gpu, bandwidth, cache):
        path = find(side, name)
        if path is None:
            return "not counted"
        kernels = [k for k in predict(program, path, gpu)["kernels"] if is_attention(k)]
        slow, fast = sum(k["us"] for k in kernels), sum(best_us(k) for k in kernels)
        share = cache / 1e3 / bandwidth * 100
        return f"{span(fast, slow)} us ({span(share / slow, share / fast)} %)"

    bandwidths = {"h100": 3350, "h200": 4800, "4090": 1008}
    head = ["cache"] + [f"{g}, {side}" for g in GPUS.values() for side in ("ggml", "Reprise")]
    rows = []
    for kind, (ggml, ours) in ATTENTION.items():
        cache = 32001 * 8 * 128 * 2 * (2 if kind == "f16" else 34 / 32)
        rows.append([kind] + [cell(s, n, g, bandwidths[g], cache) for g in GPUS for s, n in (("ggml", ggml), ("ours", ours))])
    return table(head, rows)


GROUPS = {
    "matrix products": ("mul_mat_vec_q", "mul_mat_vec_f", "quant_kernel", "float_kernel"),
    "attention": ("flash_attn_ext_vec", "flash_attn_combine_results", "attention_kernel", "prefill_kernel"),
    "quantisation of activations": ("quantize_q8_1",),
    "norms": ("rms_norm_f32", "rms_norm_mul_rope_f32"),
    "everything else": (),
}


def group_of(kernel):
    op, name = kernel["name"].split()[:2]
    if op == "get_rows":
        return "everything else"
    return next((g for g, names in GROUPS.items() if name in names), "everything else")


def shares(program, gpu="h100"):
    """Where the time of a step goes, without the limit `flight`: microseconds and launches of each group, gaps apart."""
    names = ["llama3-8b", "llama3-8b-q4_k_m", "qwen3-30b-a3b-q4_k_m", "gpt-oss-20b-mxfp4"]
    steps = {(s, n): predict(program, find(s, n), gpu) for n in names for s in ("ggml", "ours")}

    def cell(step, group):
        kernels = [k for k in step["kernels"] if group_of(k) == group]
        launches = sum(k["launches"] for k in kernels)
        return f"{sum(k['launches'] * best_us(k) for k in kernels):.0f} ({launches})" if launches else "-"

    def total(step):
        _, best, gaps, launches = times(step)
        return f"{gaps:.0f}", f"{best:.0f} ({launches})"

    head = ["H100, us (launches)"] + [f"{STEPS[n]}, {s}" for n in names for s in ("ggml", "Reprise")]
    rows = [[group] + [cell(step, group) for step in steps.values()] for group in GROUPS]
    rows += [["gaps"] + [total(step)[0] for step in steps.values()], ["all"] + [total(step)[1] for step in steps.values()]]
    return table(head, rows)


def prefill_us(program, path, gpu):
    """Limits `issue` and `tensor` of each launch and its serial part. The limits of memory do not hold for many tokens: a weight
    is read by several blocks, which L2 serves."""
    step = load(path)
    step["phase"] = "decode"  # the only one that --predict takes
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "step.json")
        with open(file, "w", encoding="utf-8") as f:
            json.dump(step, f)
        kernels = predict(program, file, gpu)["kernels"]
    gap = GAP_PDL_US if gpu != "4090" else 2 * GAP_PDL_US
    return kernels, lambda k: k["launches"] * (max(k["issue_us"], k["tensor_us"]) + k["serial_us"] + gap)


PRODUCTS = ("mul_mat_q", "mul_mat_q_stream_k_fixup", "quantize_mmq_q8_1", "tile_int8_kernel", "tile_f16_kernel", "prepare_kernel", "quantize_kernel")


def prefill(program):
    head = ["512 tokens, ms"] + [f"{g}, {side}" for g in GPUS.values() for side in ("ggml", "Reprise")]
    rows = []
    for name, title in PREFILL.items():
        parts = {"products and quantisation": [], "attention": [], "all": []}
        for gpu in GPUS:
            for side in ("ggml", "ours"):
                kind = "-int8" if side == "ours" and gpu == "4090" else ""  # RpCudaTuning.prefill_tile
                kernels, us = prefill_us(program, os.path.join(HERE, side, "prefill", name + kind + ".json"), gpu)
                products = sum(us(k) for k in kernels if k["name"].split()[1] in PRODUCTS)
                everything = sum(us(k) for k in kernels)
                parts["products and quantisation"].append(f"{products / 1e3:.1f}")
                parts["attention"].append(f"{sum(us(k) for k in kernels if is_attention(k)) / 1e3:.1f}")
                parts["all"].append(f"{everything / 1e3:.1f} ({512e6 / everything:.0f} tok/s)")
        rows += [[f"{title}, {part}"] + cells for part, cells in parts.items()]
    return table(head, rows)


def markdown(program):
    return "\n\n".join([
        "Decode at position 2047, predicted tok/s and share of the bandwidth:", decode(program), evidence(program),
        "The shorter times on an H100 by kind of kernel, microseconds and launches:", shares(program),
        "Attention of one layer at position 32000 (32 heads, 8 key heads of 128), and the share of the bandwidth that the cache "
        "alone takes:", attention(program),
        "Prefill of 512 tokens:", prefill(program)]) + "\n"  # fmt: skip


def write(text):
    with open(PAGE, encoding="utf-8") as f:
        page = f.read()
    start, end = page.index(BEGIN) + len(BEGIN), page.index(END)
    with open(PAGE, "w", encoding="utf-8") as f:
        f.write(page[:start] + "\n" + text + "\n" + page[end:])


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3) or sys.argv[2:] not in ([], ["--write"]):
        sys.exit(__doc__)
    tables = markdown(sys.argv[1])
    print(tables)
    if sys.argv[2:]:
        write(tables)

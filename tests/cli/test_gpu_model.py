"""`reprise bench launches --predict`: each formula of docs/gpu-model.md where it decides, files that are broken, and how far
predictions of llama.cpp are from published figures.

    test_gpu_model.py PROGRAM SOURCE_DIR [PROGRAM_ON_THE_SIMULATED_DEVICE]

The kernels are made up, so that one limit is far above the others. Expected times are computed here by hand.
"""

import copy
import json
import math
import os
import re
import sys

from cli_program import ON_DEVICE, PROGRAM, SOURCE, TMP, expect, expect_refusal, ok, run, run_on_device, run_tests, temporary

sys.path.insert(0, os.path.join(SOURCE, "bench/gpu_model"))
import beside_ggml  # noqa: E402
import calibrate  # noqa: E402

CLASSES = ("int float double dot convert special memory_global memory_shared shuffle barrier branch atomic other").split()
# 10 blocks an SM of an H100 (132 SMs, 1.98 GHz, 3350 GB/s, 273 ns) that do nothing
IDLE = {
    "name": "gemv", "node": "blk.0.q", "grid": [1320, 1, 1], "block": 256, "registers": 32, "shared_bytes": 0, "blocks_per_sm": 8,
    "launches": 1, "warp_instructions": {c: 0 for c in CLASSES}, "bytes": {"weights": 0, "cache": 0, "activations": 0, "written": 0},
    "atomics": 0, "atomic_contention": 0, "barriers": 0, "bytes_in_flight": 0,
}  # fmt: skip
LATENCY = 273 * 1.5 / 1e3  # us, under load
L2 = 150 * 1.5 / 1e3  # of a load from L2


def kernel(**members):
    k = copy.deepcopy(IDLE)
    for name, value in members.items():
        part = k["bytes"] if name in k["bytes"] else k["warp_instructions"] if name in CLASSES else k
        part[name] = value
    return k


def counts(*kernels, **members):
    return {"model": None, "preset": "made-up", "arch": "sm_90", "phase": "decode", "position": 7, "kernels": list(kernels), **members}


def file_of(step, name="made-up.json"):
    return temporary(name, (step if isinstance(step, str) else json.dumps(step)).encode())


def predict(*kernels, gpu="h100"):
    (row,) = json.loads(ok(run("bench", "launches", "--predict", file_of(counts(*kernels)), "--gpu", gpu, "--json")).out)
    expect(row["predicted"] is True, "what it is", row)
    return row


def is_near(got, wanted, what):
    expect(abs(got - wanted) <= 1e-3 * wanted + 1e-3, f"{what}: {wanted}", got)


def check(k, bound, us, serial=2 * LATENCY, gpu="h100"):
    (time,) = predict(k, gpu=gpu)["kernels"]
    expect(time["bound"] == bound, bound, time)
    is_near(time[bound + "_us"], us, bound)
    is_near(time["us"], us + serial, "limit and serial part")


def test_a_kernel_that_reads_is_bound_by_memory():
    check(kernel(weights=3e8, cache=35e6, bytes_in_flight=8 * 65536), "memory", 335e6 / (0.92 * 3350e3))


def test_a_kernel_that_computes_is_bound_by_issue():
    check(kernel(other=132 * 2.8e6), "issue", 1e6 / 1.98e3)
    check(kernel(other=132 * 2.8e6, grid=[1, 1, 1]), "issue", 132 * 1e6 / 1.98e3)  # all on one SM


def test_a_grid_that_follows_the_gpu_has_as_many_blocks_an_sm_on_each():
    blocks = {"grid": [260, 1, 1], "other": 132 * 2.8e6}  # two an SM of 132; 260 blocks would be three on some of 128 SMs
    check(kernel(sms=132, **blocks), "issue", 264 / 260 * 1e6 / 1.98e3)
    check(kernel(sms=132, **blocks), "issue", 264 / 260 * 132 / 128 * 1e6 / 2.52e3, serial=2 * 215 * 1.5 / 1e3, gpu="4090")
    check(kernel(sms=0, **blocks), "issue", 3 / 260 * 132 * 1e6 / 2.52e3, serial=2 * 215 * 1.5 / 1e3, gpu="4090")
    refused(counts(kernel(sms=-1)), 'kernel 0: "sms" is missing or not a number')


def test_the_slowest_arithmetic_pipe_decides():
    check(kernel(int=132 * 2e6), "issue", 1e6 / 1.98e3)  # 64 lanes: half a warp a clock
    check(kernel(int=132 * 2e6, dot=132 * 2e6), "issue", 4e6 / 2.8 / 1.98e3)  # two pipes: the schedulers are slower
    check(kernel(int=132 * 1e6, dot=132 * 2e6, float=132 * 1e6), "issue", 4e6 / 2.8 / 1.98e3)
    check(kernel(int=132 * 1e6, dot=132 * 3e6), "issue", 1.5e6 / 1.98e3)
    check(kernel(dot=108 * 1e6, float=108 * 1e6, grid=[1080, 1, 1]), "issue", 1e6 / 1.41e3, serial=2 * 330 * 1.5 / 1e3, gpu="a100")
    check(kernel(float=132 * 3e6), "issue", 3e6 / 2.8 / 1.98e3)  # 4 a clock: the schedulers are slower
    check(kernel(double=132 * 1e6), "issue", 0.5e6 / 1.98e3)
    check(kernel(double=128 * 1e6, grid=[1280, 1, 1]), "issue", 16e6 / 2.52e3, serial=2 * 215 * 1.5 / 1e3, gpu="4090")


def test_tensor_cores_bound_products_of_many_columns():
    check(kernel(tensor_f16_ops=989.4e9 / 2), "tensor", 1e3 / 0.63)  # mma reaches 63 % of a Hopper's rate
    check(kernel(tensor_s8_ops=1978.9e9 / 2), "tensor", 1e3 / 0.63)
    check(kernel(tensor_f16_ops=1e9, grid=[1, 1, 1]), "tensor", 132 * 2e9 / 989.4e6 / 0.63)  # all on one SM
    check(kernel(tensor_f16_ops=312e9, tensor_s8_ops=624e9, grid=[1080, 1, 1]), "tensor", 4e3, serial=2 * 330 * 1.5 / 1e3, gpu="a100")
    refused(counts(kernel(tensor_s8_ops="many")), 'kernel 0: "tensor_s8_ops" is missing or not a number')


def test_few_bytes_in_flight_bound_by_latency():
    # 8 blocks of 8 warps with 32 bytes each, of 10 blocks an SM: 2 KB of 1 MB at a time
    check(kernel(weights=132 * 2**20, bytes_in_flight=2048), "flight", 512 * LATENCY)
    check(kernel(weights=132 * 2**20, bytes_in_flight=2048, registers=128), "flight", 4 * 512 * LATENCY)  # 2 blocks an SM
    check(kernel(weights=132 * 2**20, bytes_in_flight=2048, shared_bytes=100 * 1024), "flight", 4 * 512 * LATENCY)
    check(kernel(activations=132 * 2**20, bytes_in_flight=2048), "flight", 512 * LATENCY)  # from L2
    check(kernel(weights=2**20, grid=[1, 1, 1], bytes_in_flight=2048), "flight", 8 * 512 * LATENCY)  # one block on one SM


def test_atomics_and_barriers_add_serial_tails():
    check(kernel(atomics=1e5, atomic_contention=1e5), "atomics", 2e5 / 1.98e3, serial=2 * LATENCY + 3 * L2)
    check(kernel(other=1, barriers=13200), "issue", 0, serial=2 * LATENCY + 10 * 40 / 1.98e3)


def test_early_bytes_are_read_while_the_kernel_before_ends():
    rate, flight = 0.92 * 3350e3, {"bytes_in_flight": 8 * 65536}  # bytes a microsecond
    for before, window in (kernel(), LATENCY + 0.5), (kernel(atomics=1), LATENCY + 3 * L2 + 0.5):
        for early, hidden in (1e6, 1e6 / rate), (8e6, window), (0, 0):
            _, time = predict(before, kernel(weights=1e7, early_bytes=early, **flight))["kernels"]
            is_near(time["hidden_us"], hidden, "hidden")
            is_near(time["memory_us"], 1e7 / rate - hidden, "the rest")
            is_near(time["serial_us"], LATENCY + (L2 if early else LATENCY), "the column comes from L2")
    (first,) = predict(kernel(weights=1e7, early_bytes=8e6, **flight))["kernels"]
    is_near(first["memory_us"], 1e7 / rate, "nothing before it")
    row = predict(kernel(), kernel(weights=1e7, early_bytes=8e6, **flight), gpu="a100")
    is_near(row["kernels"][1]["memory_us"], 1e7 / (0.92 * 2039e3), "no programmatic dependent launch")
    refused(counts(kernel(early_bytes=-1)), '"early_bytes" is missing or not a number')


def test_a_token_is_the_sum_over_launches_with_gaps():
    k = kernel(weights=1e8, launches=30, bytes_in_flight=8 * 65536)
    for gpu, bandwidth, latency, gap in ("h200", 4800, 273, 0.5), ("a100", 2039, 330, 1.0):
        row, one = predict(k, gpu=gpu), 1e8 / (0.92 * bandwidth * 1e3) + 2 * latency * 1.5 / 1e3
        is_near(row["us"], 30 * (one + gap), gpu)
        is_near(row["tok_s_without_pdl"], 1e6 / (30 * (one + 1.0)), gpu)
        is_near(row["percent_of_bandwidth"], 100 * 30 * 1e8 / (row["us"] * 1e3 * bandwidth), gpu)


def test_text_says_predicted():
    path = file_of(counts(kernel(weights=1e8)))
    text = ok(run("bench", "launches", "--predict", path)).text
    expect(text.startswith("predicted, not measured") and "predicted tok/s" in text, "what it is", text)
    for gpu in "a100", "h100", "h100-pcie", "h200", "4090", "5090":
        expect(re.search(rf"^made-up +7 +{gpu} ", text, re.M), gpu, text)


def test_bad_arguments_are_refused():
    path = file_of(counts(kernel()))
    expect_refusal(run("bench", "launches", "--predict", path, "--gpu", "h300"), 1, "no data sheet of GPU 'h300'; known are ", "h100, h100-pcie")
    expect_refusal(run("bench", "launches", "--predict", path, "--preset", "tiny"), 1, "no counts of preset 'tiny'")
    expect_refusal(run("bench", "launches", "--predict", path, "--all-presets"), 2, "--predict goes with")
    expect_refusal(run("bench", "launches", "--preset", "tiny", "--gpu", "h100"), 2, "--gpu is for --predict")
    expect_refusal(run("bench", "launches", "--predict", os.path.join(TMP.name, "none.json")), 1, "none.json")
    empty, deep = os.path.join(TMP.name, "empty"), os.path.join(TMP.name, "deep")
    os.mkdir(empty)
    os.mkdir(deep)
    open(os.path.join(deep, "a" * 240 + ".json"), "w").close()
    deep += "/." * ((3960 - len(deep)) // 2)
    expect_refusal(run("bench", "launches", "--predict", deep), 1, f"a path of {len(deep) + 246} bytes is too long: {TMP.name}")
    expect_refusal(run("bench", "launches", "--predict", empty), 1, "no counts in it (files *.json of `reprise-sim bench counts --json`)")


def refused(step, *words):
    for options in [], ["--json"]:
        expect_refusal(run("bench", "launches", "--predict", file_of(step, "broken.json"), *options), 1, "broken.json", *words)


def test_broken_files_are_refused():
    refused("{", "line 1, column")
    refused("{}", "broken.json: not the output of `reprise-sim bench counts --phase decode --json`")
    refused(counts(), "not the output of")
    refused(counts(kernel(), phase="prefill"), "broken.json: counts of phase 'prefill'; only decode is predicted")
    refused(counts(kernel(), 7), 'kernel 1: "grid"')
    for name in set(IDLE) - {"name", "node"}:
        k = kernel()
        del k[name]
        refused(counts(kernel(), k), f'kernel 1: "{name}" is missing')
    refused(counts(kernel(block=1025)), 'kernel 0: "block" is missing or not a number from 1 to 1024')
    for part in "warp_instructions", "bytes":
        k = kernel()
        del k[part]["double" if part == "warp_instructions" else "weights"]
        refused(counts(k), "kernel 0:", "is missing")
    for name, value in (("grid", [1, 1]), ("grid", [0, 1, 1]), ("block", 1025), ("registers", 0), ("blocks_per_sm", 0), ("launches", 0),
                        ("weights", -1), ("atomics", "many"), ("shared_bytes", 1 << 30), ("int", None)):  # fmt: skip
        refused(counts(kernel(**{name: value})), f'kernel 0: "{name}" is missing or not')


def test_control_characters_do_not_reach_the_terminal():
    text = ok(run("bench", "launches", "--predict", file_of(counts(kernel(name="a\x1b[2Jb"))), "--gpu", "h100")).text
    expect("a?[2Jb" in text, "question marks", text)


def test_counts_of_presets_are_predicted():
    rows = json.loads(ok(run("bench", "launches", "--predict", os.path.join(SOURCE, "bench/counts"), "--json")).out)
    listed = {row["name"] for row in json.loads(ok(run("bench", "launches", "--all-presets", "--json")).out)}
    expect({row["preset"] for row in rows} == listed, "a file for each preset", {row["counts"] for row in rows})
    for row in rows:
        expect(0 < row["percent_of_bandwidth"] < 92 and row["tok_s_without_pdl"] <= row["tok_s"], "possible", row)


def test_committed_counts_are_those_of_the_kernels():
    """Of one preset, and within 10 %: another version of nvcc emits other PTX."""
    if not ON_DEVICE:
        return "no simulated device"
    r = run_on_device("bench", "counts", "--preset", "smollm2-135m", "--phase", "decode", "--json", "-q", "--blocks", "4", "--no-registers")
    if r.code != 0:
        return "this build cannot count"
    with open(os.path.join(SOURCE, "bench/counts/smollm2-135m.json"), encoding="utf-8") as f:
        committed, now = json.load(f)["kernels"], json.loads(r.out)["kernels"]
    how = "bench/gpu_model/count_presets.sh counts again"
    expect([(k["name"], k["grid"], k["launches"]) for k in committed] == [(k["name"], k["grid"], k["launches"]) for k in now], how, now)
    for a, b in zip(committed, now):
        for x, y in ((sum(k["warp_instructions"].values()), k["bytes"]["weights"]) for k in (a, b)), :
            expect(all(abs(m - n) <= 0.1 * n for m, n in zip(x, y)), how, (a, b))


def test_published_figures_of_llama_cpp():
    rows = calibrate.compare(PROGRAM)
    expect(len({r["model"] for r in rows}) >= 3 and len({r["gpu"] for r in rows}) >= 2, "models and GPUs", rows)
    for r in rows:
        expect(abs(r["error"]) <= 0.25, "within 25 %", r)
    with open(os.path.join(SOURCE, "docs/gpu-model.md"), encoding="utf-8") as f:
        expect(calibrate.markdown(rows) in f.read(), "docs/gpu-model.md has this table", calibrate.markdown(rows))


def test_counts_of_ggml_are_those_of_its_kernels():
    folder = os.path.join(SOURCE, "bench/gpu_model/ggml")
    rows = json.loads(ok(run("bench", "launches", "--predict", folder, "--json")).out)
    expect({r["counts"] for r in rows} >= set(beside_ggml.STEPS), "a file for each step", {r["counts"] for r in rows})
    for r in rows:
        expect(0 < r["percent_of_bandwidth"] < 92, "possible", r)
        with open(os.path.join(folder, r["counts"] + ".json"), encoding="utf-8") as f:
            counted = json.load(f)
        expect(len(counted["commit"]) == 40 and counted["nvcc"] and counted["options"], "what was compiled", counted)
        for k in counted["kernels"]:
            expect(sum(k["warp_instructions"].values()) > 0 and 0 < k["sampled_blocks"] <= math.prod(k["grid"]), "counted", k)


def test_ggml_and_reprise_read_the_same_weights():
    """Apart from the row of the embedding that Reprise looks up."""
    for name in beside_ggml.STEPS:
        files = [beside_ggml.find(side, name) for side in ("ggml", "ours")]
        if None not in files:
            steps = [beside_ggml.load(path)["kernels"] for path in files]
            a, b = (sum(k["launches"] * k["bytes"]["weights"] for k in kernels) for kernels in steps)
            expect(abs(a - b) <= 0.04 * b, name, (a, b))  # of sampled blocks


def test_tables_beside_ggml_are_those_of_the_counts():
    tables = beside_ggml.markdown(PROGRAM)
    with open(beside_ggml.PAGE, encoding="utf-8") as f:
        expect(tables in f.read(), "bench/gpu_model/beside_ggml.py PROGRAM --write", tables)


run_tests(globals())

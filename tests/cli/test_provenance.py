"""Where nodes come from, their values, and where two runs part: `reprise graph --why`, `dump` and `diverge`.

    test_provenance.py PROGRAM SOURCE_DIR [PROGRAM_ON_THE_SIMULATED_DEVICE]

References are the bytes of the model files, checksums and differences computed here, the graph before the passes, the logits of
llama.cpp, and differences that are planted.
"""

import ast
import json
import math
import os
import re
import shutil
import struct
import subprocess
import sys
import xml.etree.ElementTree
import zipfile

from cli_program import MIX, ON_DEVICE, SOURCE, TINY, TMP, expect, expect_refusal, ok, run, run_on_device, run_tests, temporary

PRIMES = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
MASK = (1 << 64) - 1


def xxh64(data):
    """The checksum as its specification defines it, seed 0."""
    def rotate(x, n):
        return (x << n | x >> 64 - n) & MASK

    def take(lane, word):
        return rotate((lane + word * PRIMES[1]) & MASK, 31) * PRIMES[0] & MASK

    def word(at, n):
        return int.from_bytes(data[at:at + n], "little")

    at, size = 0, len(data)
    x = PRIMES[4]
    if size >= 32:
        lanes = [(PRIMES[0] + PRIMES[1]) & MASK, PRIMES[1], 0, -PRIMES[0] & MASK]
        for at in range(0, size - 31, 32):
            lanes = [take(lane, word(at + 8 * i, 8)) for i, lane in enumerate(lanes)]
        at = size // 32 * 32
        x = sum(rotate(lane, n) for lane, n in zip(lanes, (1, 7, 12, 18))) & MASK
        for lane in lanes:
            x = ((x ^ take(0, lane)) * PRIMES[0] + PRIMES[3]) & MASK
    x = (x + size) & MASK
    while size - at >= 8:
        x = (rotate(x ^ take(0, word(at, 8)), 27) * PRIMES[0] + PRIMES[3]) & MASK
        at += 8
    if size - at >= 4:
        x = (rotate(x ^ word(at, 4) * PRIMES[0] & MASK, 23) * PRIMES[1] + PRIMES[2]) & MASK
        at += 4
    for byte in data[at:]:
        x = rotate(x ^ byte * PRIMES[4] & MASK, 11) * PRIMES[0] & MASK
    x = (x ^ x >> 33) * PRIMES[1] & MASK
    x = (x ^ x >> 29) * PRIMES[2] & MASK
    return x ^ x >> 32


def expect_text(r, code, pattern):
    """A refusal whose line matches."""
    expect_refusal(r, code)
    expect(re.search(pattern, r.err), f"`{pattern}` expected", r)


def why(model, node, *more):
    return json.loads(ok(run("graph", model, "--why", node, "--json", *more)).out)


def graph(model, *more):
    return json.loads(ok(run("graph", model, "--json", *more)).out)["nodes"]


# ---- graph --why ----


def test_why_tells_the_weights_of_a_node():
    with open(MIX, "rb") as f:
        data = f.read()
    nodes = {n["id"]: n for n in graph(MIX)}
    n_weights = 0
    for id, node in nodes.items():
        if not node["kernel"]:
            continue
        told = why(MIX, f"#{id}")["nodes"][0]
        reads = [s for s in node["sources"] if s is not None and nodes[s]["op"] == "weight"]
        expect([w["node"] for w in told["weights"]] == reads, "the weights that it reads", told)
        for w in told["weights"]:
            expect(w["name"] == nodes[w["node"]]["name"] and w["dtype"] == nodes[w["node"]]["dtype"], "the node", w)
            expect(w["file"] == MIX and w["bytes"] == nodes[w["node"]]["bytes"], "file and bytes", w)
            expect(int(w["xxh64"], 16) == xxh64(data[w["offset"]:w["offset"] + w["bytes"]]), "the checksum of these bytes", w)
            n_weights += 1
    expect(n_weights > 10, "weights were compared", n_weights)


def test_why_tells_neighbours_and_memory():
    nodes, plan = graph(MIX), json.loads(ok(run("plan", MIX, "--json")).out)["plan"]
    steps = {s["node"]: s for s in plan["steps"]}
    for node in nodes[-12:]:
        told = why(MIX, f"#{node['id']}")["nodes"][0]
        for key, same in ("op", "op"), ("name", "name"), ("layer", "layer"), ("dtype", "dtype"), ("ne", "ne"), ("nb", "nb"), ("bytes", "bytes"):
            expect(told[key] == node[same], key, told)
        expect([r["node"] for r in told["reads"]] == [s for s in node["sources"] if s is not None], "what it reads", told)
        readers = [n["id"] for n in nodes for s in n["sources"] if s == node["id"]]
        expect([r["node"] for r in told["readers"]] == readers, "what reads it", told)
        if node["id"] in steps:
            s = steps[node["id"]]
            expect((told["place"]["step"], told["place"]["offset"], told["place"]["space"]) == (s["step"], s["offset"], s["space"]),
                   "place", told)


def test_why_tells_where_a_fused_node_comes_from():
    built = {n["id"]: n for n in graph(MIX, "--raw")}
    for node in graph(MIX):
        if not node["kernel"]:
            continue
        told = why(MIX, f"#{node['id']}")["nodes"][0]
        for o in told["origins"]:  # the number in the order of building is that of the graph before any pass is run
            expect(any(b["op"] == o["op"] and b["name"] == o["name"] and b["layer"] == o["layer"] for b in built.values()), "built", o)
        expect(told["origins"] and (len(told["origins"]) == 1 or told["passes"]), "a fused node has passes", told)
    q = why(MIX, "blk.0.q")["nodes"][0]
    expect({"qkv", "norm"} <= set(q["passes"]), "passes", q["passes"])
    expect([o["op"] for o in q["origins"]].count("mul_mat") == 3, "three products", q["origins"])
    expect(why(MIX, "blk.0.q", "--raw")["nodes"][0]["passes"] == [], "before the passes")


def test_why_tells_nodes_of_one_name_apart():
    told = why(MIX, "blk.0.attn_norm", "--after", "quantize")["nodes"]
    expect([n["op"] for n in told] == ["rms_norm", "quantize"], "both", told)
    expect(told[1]["origins"] == [] and told[1]["passes"] == ["quantize"] and told[1]["built"] == -1, "made by a pass", told[1])
    one = why(MIX, "blk.0.attn_norm:quantize", "--after", "quantize")["nodes"]
    expect(one == told[1:], "by name and op", one)
    expect(why(MIX, f"#{told[0]['node']}", "--after", "quantize")["nodes"] == told[:1], "by number")


def test_why_finds_what_does_the_work_of_a_fused_node():
    told = why(MIX, "blk.0.attn_norm")
    expect(told["fused"] and [n["name"] for n in told["nodes"]] == ["blk.0.q"], "the fused node", told)
    text = ok(run("graph", MIX, "--why", "blk.0.attn_norm")).text
    expect("A pass has taken 'blk.0.attn_norm' out of the graph. Its work is done by:" in text, "text", text)
    expect(re.search(r"^#\d+ blk\.0\.q \(qkv\), layer 0$", text, re.M), "text", text)
    for line in (r"result +f32 \[\d+,\d+\], strides", r"memory +arena \+ \d+, \d+ bytes; step \d+ of \d+; its buffer is in use from step \d+ to step \d+",
                 r"built as +rope", r"model code +rms_norm blk\.0\.attn_norm", r"passes +.*qkv", r"weights +wq = blk\.0\.attn_q\.weight .* xxh64 [0-9a-f]{16}$",
                 r"reads +wq = #\d+ blk\.0\.attn_q\.weight \(weight\)", r"read by +#\d+ "):
        expect(re.search(r"^  " + line, text, re.M), line, text)


def test_why_refuses_unknown_nodes_and_options():
    expect_refusal(run("graph", MIX, "--why", "blk.0.attn_"), 1, "there is no node 'blk.0.attn_'; near names: ", "'blk.0.attn_norm'")
    expect_refusal(run("graph", MIX, "--why", "blk.0.atn_norm"), 1, "near names: 'blk.0.attn_norm'")
    expect_refusal(run("graph", MIX, "--why", "blk.0.q:rope"), 1, "there is no node 'blk.0.q:rope'")
    expect_refusal(run("graph", MIX, "--why", "nothing at all like it"), 1, "there is no node 'nothing at all like it' (`reprise graph` lists them)")
    for number in "#99999", "#-1", "#", "#1x":
        expect_refusal(run("graph", MIX, "--why", number), 1, f"there is no node {number}: the graph has #0 to #")
    for more in (["--dot"], ["--fold"], ["--layer", "1"], ["--diff", "raw", "raw"], ["--cuda"]):
        expect_refusal(run("graph", MIX, "--why", "blk.0.q", *more), 2, "--diff, --dot, --fold, --cuda and --layer do not go with --why")
    expect(ok(run("graph", TINY, "--why", "logits")).text.count(", output\n") == 1, "the output", "")


# ---- dump ----


def path(name):
    return os.path.join(TMP.name, name)


def npy(file):
    """Shape, type and elements of an array, by the description of the format."""
    with open(file, "rb") as f:
        data = f.read()
    expect(data[:8] == b"\x93NUMPY\x01\x00", "magic and version", data[:8])
    n = int.from_bytes(data[8:10], "little")
    expect((10 + n) % 64 == 0 and data[9 + n:10 + n] == b"\n", "the elements begin at a multiple of 64", n)
    head = ast.literal_eval(data[10:10 + n].decode())
    expect(head["fortran_order"] is False and set(head) == {"descr", "fortran_order", "shape"}, "head", head)
    kind = {"<f4": "f", "<f2": "e", "<i4": "i", "|u1": "B"}[head["descr"]]
    count = math.prod(head["shape"])
    expect(len(data) == 10 + n + count * struct.calcsize(kind), "length", (len(data), head))
    return head["shape"], head["descr"], struct.unpack(f"<{count}{kind}", data[10 + n:])


def write_npy(file, values, descr="<f4", shape=None, order="False", kind="f"):
    head = f"{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape or (len(values),)}, }}"
    head = head.ljust(117) + "\n"
    with open(file, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + struct.pack(f"<{len(values)}{kind}", *values))


def dump(model, node, *more, program=run):
    ok(program("dump", model, node, "-o", path("node.npy"), *more))
    return npy(path("node.npy"))


def golden_logits(name):
    """Token ids and the logits of llama.cpp after each."""
    with open(os.path.join(SOURCE, f"tests/golden/tiny/{name}.txt")) as f:
        lines = [line.split() for line in f]
    rows = [[float(x) for x in line[1:]] for line in lines if line[0] == "logits"]
    return next(line[1:] for line in lines if line[0] == "ids"), rows


def near(a, b, tolerance):
    largest = max(abs(y) for y in b)
    return len(a) == len(b) and all(abs(x - y) <= tolerance * largest for x, y in zip(a, b))


def test_dump_has_the_logits_of_llama_cpp():
    ids, rows = golden_logits("llama-f32")
    for n in 1, 5, len(rows):
        shape, descr, values = dump(TINY, "logits", "--ids", ",".join(ids[:n]))
        expect(shape == (1, len(rows[0])) and descr == "<f4", "shape", (shape, descr))
        expect(near(values, rows[n - 1], 2e-3), f"logits after {n} tokens", values[:4])


def test_dump_runs_decode_steps():
    ids = ["3", "1", "4"]
    for step in range(4):  # a decode step has the logits of a prompt with the tokens that it has sampled
        _, _, decoded = dump(TINY, "logits", "--ids", "3,1,4", "--step", str(step))
        _, _, prompt = dump(TINY, "logits", "--ids", ",".join(ids))
        expect(near(decoded, prompt, 1e-5), f"step {step}", (decoded[:3], prompt[:3]))
        ids.append(str(max(range(len(decoded)), key=lambda i: decoded[i])))
    shape, _, _ = dump(TINY, "blk.0.attn_residual", "--ids", "3,1,4")
    expect(shape[0] == 3, "columns of the prompt", shape)
    shape, _, _ = dump(TINY, "blk.0.attn_residual", "--ids", "3,1,4", "--step", "2")
    expect(shape[0] == 1, "one column", shape)
    shape, _, before = dump(TINY, "k.0", "--ids", "3,1,4")
    grown, _, after = dump(TINY, "k.0", "--ids", "3,1,4", "--step", "1")
    rows = [[values[i:i + shape[-1]] for i in range(0, len(values), shape[-1])] for values in (before, after)]
    heads, at = shape[0], [n // shape[0] for n in (len(rows[0]), len(rows[1]))]
    for h in range(heads):
        old, new = rows[0][h * at[0]:(h + 1) * at[0]], rows[1][h * at[1]:(h + 1) * at[1]]
        expect(new[:3] == old[:3] and any(new[3]), f"head {h} of the cache grows by a row", (shape, grown))


def test_dump_has_what_the_ops_compute():
    """The norm and the product of its result, computed here from what the nodes before them have."""
    with open(TINY, "rb") as f:
        data = f.read()

    def weight(name):
        w = why(TINY, name)["nodes"][0]["weights"][0]
        return w["ne"], struct.unpack_from(f"<{w['bytes'] // 4}f", data, w["offset"])

    nodes = {n["name"]: n for n in graph(TINY, "--raw")}
    more = ["--passes=-all", "--ids", "7,2"]
    (_, n), _, x = dump(TINY, "embedding", *more)
    _, _, normed = dump(TINY, "blk.0.attn_norm", *more)
    _, w = weight("blk.0.attn_norm.weight")
    eps = nodes["blk.0.attn_norm"]["params"]["eps"]
    for t in range(2):
        row = x[t * n:(t + 1) * n]
        scale = 1 / math.sqrt(sum(v * v for v in row) / n + eps)
        expect(near([v * scale * f for v, f in zip(row, w)], normed[t * n:(t + 1) * n], 1e-5), "rms_norm", t)
    (k, m, *_), w = weight("blk.0.attn_v.weight")
    _, _, v = dump(TINY, "blk.0.v", *more)
    for t in range(2):
        row = normed[t * k:(t + 1) * k]
        made = [sum(a * b for a, b in zip(w[i * k:(i + 1) * k], row)) for i in range(m)]
        expect(near(made, v[t * m:(t + 1) * m], 1e-5), "mul_mat", t)


def test_dump_keeps_bits_and_types():
    for node in "blk.1.attn_residual", "logits":
        for ids in "7", "7,8,9":
            one = dump(MIX, node, "-t", "1", "--ids", ids)
            expect(one == dump(MIX, node, "-t", "3", "--ids", ids), "any number of threads", node)
            expect(one == dump(MIX, node, "--passes=-all,+attention,+quantize", "--ids", ids), "fused or not", node)
    _, descr, kept = dump(MIX, "blk.0.k_store", "--raw")
    _, converted, values = dump(MIX, "blk.0.k_store")
    expect((descr, converted) == ("<f2", "<f4") and values == kept and any(values), "f16 is exact in f32", (descr, converted))
    quantised = next(n["id"] for n in graph(MIX, "--tokens", "8", "--passes=-all,+quantize") if n["op"] == "quantize")
    shape, descr, _ = dump(MIX, f"#{quantised}", "--raw", "--passes=-all,+quantize")
    expect(descr == "|u1" and shape == (8, 88), "rows of 64 quants, their scales and sums", (shape, descr))
    _, _, quants = dump(MIX, f"#{quantised}", "--passes=-all,+quantize")
    _, _, exact = dump(MIX, "blk.0.attn_norm:rms_norm", "--passes=-all,+quantize")
    expect(near(quants, exact, 1 / 127), "quantised values", quants[:4])
    shape, descr, ids = dump(os.path.join(SOURCE, "tests/golden/tiny/qwen3moe-mix.gguf"), "blk.0.experts", "--passes=-all")
    expect(descr == "<i4" and all(0 <= i < 64 for i in ids), "ids of experts", ids)


def test_dump_opens_in_numpy():
    for python in "/usr/bin/python3", "python3":
        code = "import numpy, sys; a = numpy.load(sys.argv[1]); print(a.shape, a.dtype, float(a.sum()))"
        shape, _, values = dump(MIX, "blk.0.attn_residual")
        r = subprocess.run([python, "-c", code, path("node.npy")], capture_output=True, text=True)
        if r.returncode == 0:
            expect(r.stdout.startswith(f"{shape} float32 "), "shape and type", r.stdout)
            expect(abs(float(r.stdout.split()[-1]) - sum(values)) < 1e-3, "values", r.stdout)
            return None
    return "there is no NumPy"


def test_dump_on_the_simulated_device():
    if ON_DEVICE is None:
        return "there is no simulated device"
    for node, step in ("blk.0.attn_norm", 0), ("blk.1.attn_residual", 1), ("logits", 1), ("blk.0.k_store", 1):
        on_cpu = dump(TINY, node, "--step", str(step), "--ids", "1,2,3")
        on_device = dump(TINY, node, "--step", str(step), "--ids", "1,2,3", program=run_on_device)
        expect(on_cpu[:2] == on_device[:2] and near(on_device[2], on_cpu[2], 1e-3), node, on_device[2][:4])


def test_dump_refuses():
    out = path("refused.npy")
    expect_refusal(run("dump", MIX, "blk.9.q", "-o", out), 1, "there is no node 'blk.9.q'")
    expect_text(run("dump", MIX, "blk.0.attn_norm", "-o", out, "--ids", "1"), 1, r"'blk\.0\.attn_norm' was fused: its work is done by #\d+ blk\.0\.q \(qkv\); --passes=-all keeps it")
    expect_text(run("dump", MIX, "blk.0.attn_norm", "-o", out, "--passes=-all,+quantize"), 1,
                r"2 nodes are named 'blk\.0\.attn_norm': #\d+ blk\.0\.attn_norm \(rms_norm\), #\d+ .*; name one as '#N' or 'NAME:OP'")
    expect_refusal(run("dump", MIX, "token_embd.weight", "-o", out), 1, "'token_embd.weight' is a weight: its values are those of the model file")
    expect_refusal(run("dump", MIX, "logits", "-o", MIX), 2, "are the same file: an output must not be an input")
    expect_refusal(run("dump", MIX, "logits"), 2, "-o FILE is needed")
    expect_refusal(run("dump", "-m", MIX, "-o", out), 2, "NODE is needed")
    expect_text(run("dump", MIX, "logits", "-o", out, "--step", "9999"), 1, r"8 tokens and 9999 decode steps: the model was trained for \d+ positions")
    for ids, text in ("1,x", "--ids 1,x: must be numbers with commas between them"), ("-1", "--ids: token -1 is outside of the vocabulary of 64"), \
            ("64", "--ids: token 64 is outside of the vocabulary of 64"), (",".join(["1"] * 4097), "a prompt of 4097 tokens: must be from 1 to 4096"):
        expect_refusal(run("dump", MIX, "logits", "-o", out, f"--ids={ids}"), 1, text)
    expect_refusal(run("dump", MIX, "logits", "-o", out, "--ids", "1", "-p", "a"), 1, "-p and --ids exclude each other")
    expect(not os.path.exists(out), "nothing is written", out)


# ---- diverge ----


def diverge(*more, code=None):
    r = run("diverge", *more, "--json")
    expect(r.code in (0, 1) if code is None else r.code == code, f"exit {code}", r)
    told = json.loads(r.out)
    expect(told["agree"] == (r.code == 0) == (told["first"] is None), "status and report agree", told)
    return told


def flipped(model, offset):
    """A copy of the model with the sign of an f32 or f16 changed: one byte of the file."""
    with open(model, "rb") as f:
        data = bytearray(f.read())
    data[offset] ^= 0x80
    return temporary("flipped.gguf", data)


def test_diverge_names_the_product_that_reads_a_changed_weight():
    raw = graph(TINY, "--raw")
    weights = [n for n in raw if n["op"] == "weight" and (n["layer"] == 1 or n["name"] in ("token_embd.weight", "output_norm.weight"))]
    expect(len(weights) >= 9, "weights of a layer", weights)
    for weight in weights:
        at = why(TINY, weight["name"])["nodes"][0]["weights"][0]["offset"] + 3
        reader = next(n for n in raw if weight["id"] in n["sources"])
        told = diverge(TINY, flipped(TINY, at), "--passes=-all", "--ids", "0,5", code=1)
        first = told["first"]
        expect((first["name"], first["op"], first["layer"]) == (reader["name"], reader["op"], reader["layer"]), weight["name"], first)
        before = [n for n in raw[:reader["id"]] if n["kernel"]]
        expect(told["step"] == 0 and told["equal"] >= len(before), "all before it agree", (told["equal"], len(before)))
        fused = diverge(TINY, flipped(TINY, at), "--ids", "0,5", code=1)["first"]
        expect(fused["layer"] == reader["layer"], "the fused node is of this layer", fused)


def test_diverge_finds_a_changed_block_of_a_quantised_weight():
    w = why(MIX, "blk.1.attn_output.weight")["nodes"][0]["weights"][0]
    told = diverge(MIX, flipped(MIX, w["offset"] + 1), code=1)
    expect((told["first"]["name"], told["first"]["layer"]) == ("blk.1.attn_out", 1), "the product", told["first"])
    layers = {layer["layer"]: layer for layer in told["layers"]}
    expect(layers[0]["differ"] == 0 and layers[1]["differ"] > 0, "the layer before is the same", layers)
    r = run("diverge", MIX, path("flipped.gguf"), "--ids", "4")
    expect(re.search(r"^first difference: #\d+ blk\.1\.attn_residual \(linear, built as add\), layer 1, in the prompt of 1 token$", r.text, re.M), "text", r)
    for line in (r"  element \[\d+\]: A \S+, B \S+", r"  \d+ of \d+ elements differ: at most \S+, relative \S+, \d+ ULPs",
                 r"\d+ nodes compared, \d+ have the same bits", r"layer +ends with +rms of A +rms of A - B +relative +ULPs",
                 r"logits: KL divergence \S+ nats, largest difference \S+, top token \d+ in .*"):
        expect(re.search(f"^{line}$", r.text, re.M), line, r.text)


def test_diverge_reports_the_difference_of_the_values():
    """Its figures, computed from the arrays of dump."""
    settings = "--passes=-all", "--passes=-all,+quantize"
    told = diverge(MIX, "--a", settings[0][2:], "--b", settings[1][2:], code=1)
    first = told["first"]
    (_, _, a), (_, _, b) = (dump(MIX, f"{first['name']}:{first['op']}", s) for s in settings)
    off = [abs(x - y) for x, y in zip(a, b)]
    expect(first["elements"] == len(a) and first["differ"] == sum(x != y for x, y in zip(a, b)), "elements", first)
    at = next(i for i, d in enumerate(off) if d)
    expect(first["element"] == at and first["index"] == [at % 64, at // 64], "the first", (at, first))
    expect(near([first["value_a"], first["value_b"]], [a[at], b[at]], 1e-6), "its values", first)

    def rms(v):
        return math.sqrt(sum(x * x for x in v) / len(v))

    def ordered(x):
        bits = struct.unpack("<i", struct.pack("<f", x))[0]
        return bits if bits >= 0 else -(bits & 0x7fffffff)
    for key, value in ("max_abs", max(off)), ("rms_a", rms(a)), ("rms_difference", rms(off)), ("relative", rms(off) / rms(a)), \
            ("scaled", max(off) / max(map(abs, a))), ("max_relative", max(d / abs(x) for d, x in zip(off, a) if x)):
        expect(abs(first[key] - value) <= 1e-6 * value, key, (first[key], value))
    expect(first["max_ulps"] == max(abs(ordered(x) - ordered(y)) for x, y in zip(a, b)), "ULPs", first)
    (_, _, a), (_, _, b) = (dump(MIX, "logits", s) for s in settings)
    p, q = ([math.exp(x) / sum(map(math.exp, v)) for x in v] for v in (a, b))
    kl = sum(x * math.log(x / y) for x, y in zip(p, q))
    expect(abs(told["logits"]["kl"] - kl) < 1e-9 + 1e-4 * kl, "KL divergence", (told["logits"], kl))
    expect(told["logits"]["top_a"] == a.index(max(a)) and told["logits"]["top_b"] == b.index(max(b)), "top tokens", told["logits"])


def test_diverge_shows_that_variants_agree():
    for isa in "plain", "avx2", "avx512-vnni", "neon", "neon-dotprod":
        r = run("diverge", MIX, "--b", f"isa={isa}", "-n", "2", "--json")
        if r.code == 2:
            expect_refusal(r, 2, "this CPU or build does not have")
            continue
        told = json.loads(r.out)
        expect(r.code == 0 and told["step"] == 2 and told["equal"] == told["compared"] > 50, isa, told)
    expect(diverge(MIX, "--a", "threads=1", "--b", "threads=3", "-n", "2", code=0)["only_a"] == 0, "threads")
    delta_net = os.path.join(SOURCE, "tests", "golden", "tiny", "qwen35-f32.gguf")
    fused = diverge(delta_net, "--a", "passes=-all,+attention,+quantize", "-n", "1", code=0)
    expect(fused["only_a"] > 0 and fused["only_b"] > 0, "fused nodes are left out", fused)
    text = ok(run("diverge", MIX, "--b", "threads=2", "-t", "1")).text
    expect(re.search(r"^A  .*llama-mix\.gguf, cpu \S+, 1 thread\nB  .*, 2 threads\n\nthe same bits in 1 step\n", text), "text", text)


def test_diverge_compares_a_cache_of_another_type():
    demo = os.path.join(SOURCE, "assets/demo.gguf")
    told = diverge(demo, "--b", "kv=q8_0", code=1)
    expect(told["first"]["name"] == "blk.0.k_store" and told["logits"]["kl"] > 0, "the cache is the first", told["first"])
    text = ok(run("diverge", demo, "--b", "kv=q8_0", "--tolerance", "0.9")).text
    expect("no difference above 0.9 in 1 step\n" in text and ", KV cache q8_0\n" in text, "a tolerance", text)


def test_diverge_on_the_simulated_device():
    if ON_DEVICE is None:
        return "there is no simulated device"
    r = run_on_device("diverge", TINY, "--a", "device=cpu", "--b", "device=cuda", "--ids", "1,2", "--tolerance", "1e-3", "--json")
    told = json.loads(r.out)
    expect(r.code == 0 and told["compared"] > 20 and "cuda:0" in told["b"], "the device agrees to a thousandth", told)


def test_diverge_draws():
    ok(run("diverge", MIX, "--b", "threads=1", "--svg", path("same.svg"), "--dot", path("same.dot")))
    run("diverge", MIX, "--b", "passes=-all", "--svg", path("d.svg"), "--dot", path("d.dot"))
    for name in "same.svg", "d.svg":
        root = xml.etree.ElementTree.parse(path(name)).getroot()
        texts = [t.text for t in root.iter("{http://www.w3.org/2000/svg}text")]
        dots = list(root.iter("{http://www.w3.org/2000/svg}circle"))
        expect("layer" in texts and any("relative, as a power of ten" in t for t in texts), "labels", texts)
        expect(bool(dots) == (name == "d.svg"), "a dot for each layer that differs", dots)
    with open(path("d.dot")) as f:
        dot = f.read()
    expect(dot.startswith("digraph") and dot.count("FIRST: relative ") == 1 and "same bits" in dot, "notes", dot[:400])
    with open(path("same.dot")) as f:
        expect("FIRST" not in f.read(), "no first")


# ---- recordings ----


def record(name, *more):
    r = ok(run("diverge", MIX, "--record", path(name), *more))
    expect(r.out == b"", "nothing on stdout", r)
    return path(name)


def test_diverge_compares_with_a_recording():
    file = record("a.rec", "-n", "2", "--ids", "4,9,1")
    told = diverge(MIX, "--against", file, "-t", "1", code=0)
    expect(told["step"] == 2 and told["tokens"][:3] == [4, 9, 1] and len(told["tokens"]) == 5, "its tokens", told["tokens"])
    expect(told["equal"] == told["compared"] > 50 and told["only_a"] == told["only_b"] == 0, "all nodes", told)
    live = diverge(MIX, "--b", "passes=-attention", "--ids", "4,9,1", "-n", "2")
    against = diverge(MIX, "--passes=-attention", "--against", file)
    expect((live["first"] is None) == (against["first"] is None), "as two runs at a time", against["first"])
    w = why(MIX, "blk.1.attn_output.weight")["nodes"][0]["weights"][0]
    told = diverge(flipped(MIX, w["offset"] + 1), "--against", file, code=1)
    expect(told["first"]["name"] == "blk.1.attn_out", "the changed weight", told["first"])
    expect(record("b.rec", "-n", "2", "--ids", "4,9,1", "-t", "1") and open(path("b.rec"), "rb").read()[400:] == open(file, "rb").read()[400:],
           "a recording has the same bytes, behind its head")


def records(data):
    """Kind, payload and end of each record, by the description of the format."""
    at = data.index(b"\n") + 1
    while at < len(data):
        kind, n = struct.unpack_from("<IQ", data, at)
        end = at + 12 + n + 8
        expect(struct.unpack_from("<Q", data, end - 8)[0] == xxh64(data[at:end - 8]), "checksum", at)
        yield kind, data[at + 12:end - 8]
        at = end


def made(items, magic=b"reprise recording 1\n"):
    data = magic
    for kind, payload in items:
        body = struct.pack("<IQ", kind, len(payload)) + payload
        data += body + struct.pack("<Q", xxh64(body))
    return temporary("made.rec", data)


def test_diverge_refuses_damaged_recordings():
    file = record("whole.rec", "--ids", "4")
    with open(file, "rb") as f:
        data = f.read()
    for n in 0, 5, 19:
        expect_refusal(run("diverge", MIX, "--against", temporary("cut.rec", data[:n])), 2, "is no recording of `reprise diverge --record`")
    for n in [20, 21, 31, 40, 400] + list(range(1000, len(data), len(data) // 7)) + [len(data) - 1]:
        expect_refusal(run("diverge", MIX, "--against", temporary("cut.rec", data[:n])), 2, "cut.rec: the recording is cut off in the record at byte ")
    for at in [36, 60, 350] + list(range(500, len(data), len(data) // 11)):
        wrong = bytearray(data)
        wrong[at] ^= 4
        r = run("diverge", MIX, "--against", temporary("damaged.rec", wrong))
        expect_refusal(r, 2, "damaged.rec: the rec")
        expect(re.search(r": the recording is damaged: the checksum of the record at byte \d+ does not match", r.err)
               or "cut off in the record at byte " in r.err, "damage", r)
    expect_refusal(run("diverge", MIX, "--against", MIX), 2, "is no recording of `reprise diverge --record`")
    expect_refusal(run("diverge", MIX, "--against", path("none.rec")), 2, "No such file")
    items = list(records(data))
    expect_refusal(run("diverge", MIX, "--against", made(items, b"reprise recording 2\n")), 2, "is a recording of another version of the format")
    expect(diverge(MIX, "--against", made(items), code=0)["equal"] > 10, "made here, as it was")


def test_diverge_refuses_malformed_recordings():
    with open(record("whole.rec", "--ids", "4"), "rb") as f:
        items = list(records(f.read()))
    (_, head), (_, step), (_, node), (_, end) = items[0], items[1], items[2], items[-1]
    key = struct.unpack_from("<I", node)[0]

    def changed(payload, at, value):
        return payload[:at] + struct.pack("<i", value) + payload[at + 4:]
    wrong = {
        "no head": items[1:], "a head of another length": [(1, head[:-1])] + items[1:], "no prompt": [(1, changed(head, 0, 0))] + items[1:],
        "steps below 0": [(1, changed(head, 4, -1))] + items[1:], "a node before its step": [items[0], items[2]] + items[1:],
        "a token of no vocabulary": [items[0], (2, struct.pack("<i", 64))] + items[2:], "a step of two tokens": [items[0], (2, step * 2)] + items[2:],
        "two steps": items[:2] + items[1:], "a key that is longer": items[:2] + [(3, changed(node, 0, 1 << 30))] + items[3:],
        "a short node": items[:2] + [(3, node[:7])] + items[3:], "a type of no values": items[:2] + [(3, changed(node, 4 + key, 7))] + items[3:],
        "another shape": items[:2] + [(3, changed(node, 8 + key, 1 << 20))] + items[3:], "a shape of 0": items[:2] + [(3, changed(node, 8 + key, 0))] + items[3:],
        "another number of nodes": items[:-1] + [(4, struct.pack("<Q", 1))], "a short end": items[:-1] + [(4, end[:4])],
        "a record behind the end": items + [items[2]], "an unknown record": items[:2] + [(9, b"")] + items[2:], "no step": [items[0], items[-1]],
    }
    for what, records_of_it in wrong.items():
        r = run("diverge", MIX, "--against", made(records_of_it))
        expect(r.code == 2, what, r)
        expect_text(r, 2, r"made\.rec: the record at byte \d+ is malformed")
    other = bytearray(head)
    other[8:12] = struct.pack("<i", 99)
    expect_text(run("diverge", MIX, "--against", made([(1, bytes(other))] + items[1:])), 2,
                r"made\.rec: is a recording of llama with 99 layers of 64 and 64 tokens; \S+ is llama with 2 layers of 64 and 64$")


# ---- arrays of another program ----


def folder_of(name, nodes, *more):
    folder = path(name)
    shutil.rmtree(folder, ignore_errors=True)
    os.mkdir(folder)
    for node in nodes:
        dump(TINY, node, *more)
        shutil.copy(path("node.npy"), os.path.join(folder, node + ".npy"))
    return folder


def test_diverge_compares_with_arrays():
    nodes = ["embedding", "blk.0.attn_residual", "blk.0.residual", "blk.1.residual", "logits"]
    folder = folder_of("arrays", nodes, "--ids", "1,2")
    told = diverge(TINY, "--against", folder, "--ids", "1,2", code=0)
    expect(told["compared"] == told["equal"] == len(nodes) and told["only_a"] > 0 and told["only_b"] == -1, "these nodes", told)
    told = diverge(TINY, "--against", folder, "--ids", "1,3", code=1)
    expect(told["first"]["name"] == "embedding", "another token", told["first"])
    _, _, values = npy(os.path.join(folder, "blk.0.residual.npy"))
    write_npy(os.path.join(folder, "blk.0.residual.npy"), values[:5] + (values[5] + 1.0,) + values[6:])
    told = diverge(TINY, "--against", folder, "--ids", "1,2", code=1)
    expect(told["first"]["name"] == "blk.0.residual" and told["first"]["element"] == 5 and told["first"]["differ"] == 1, "one element", told["first"])
    for descr, kind in ("<f8", "d"), ("<f2", "e"):
        write_npy(os.path.join(folder, "blk.0.residual.npy"), values, descr, kind=kind)
        expect(diverge(TINY, "--against", folder, "--ids", "1,2", "--tolerance", "1e-3", code=0)["compared"] == len(nodes), descr)
    write_npy(os.path.join(folder, "blk.0.residual.npy"), values[1:])
    expect(diverge(TINY, "--against", folder, "--ids", "1,2", code=0)["other_shape"] == 1, "another shape is left out")
    only = folder_of("step", [])
    os.mkdir(os.path.join(only, "step-1"))
    dump(TINY, "logits", "--ids", "1,2", "--step", "1")
    shutil.copy(path("node.npy"), os.path.join(only, "step-1", "logits.npy"))
    told = diverge(TINY, "--against", only, "--ids", "1,2", "-n", "1", code=0)
    expect(told["step"] == 1 and told["compared"] == 1, "of a decode step", told)
    expect_text(run("diverge", TINY, "--against", only), 2, r"no node can be compared: \d+ nodes have no partner, 0 have one of another shape")


def test_diverge_tells_built_nodes_of_one_name_apart():
    raw = graph(TINY, "--raw")
    names = [n["name"] for n in raw if n["kernel"]]
    name = next(n for n in names if names.count(n) > 1)  # a product and its rotation
    ops = [n["op"] for n in raw if n["name"] == name and n["kernel"]]
    folder = folder_of("built", [])
    for op in ops:
        dump(TINY, f"{name}:{op}", "--passes=-all", "--ids", "1,2")
        shutil.copy(path("node.npy"), os.path.join(folder, f"{name}:{op}.npy"))
    expect(diverge(TINY, "--passes=-all", "--against", folder, "--ids", "1,2", code=0)["compared"] == len(ops), "each", ops)
    shutil.copy(os.path.join(folder, f"{name}:{ops[-1]}.npy"), os.path.join(folder, f"{name}.npy"))
    for op in ops:
        os.remove(os.path.join(folder, f"{name}:{op}.npy"))
    expect(diverge(TINY, "--passes=-all", "--against", folder, "--ids", "1,2", code=0)["compared"] == 1, "the last one", ops)


def test_diverge_compares_with_the_logits_of_llama_cpp():
    ids, rows = golden_logits("llama-f32")
    folder = folder_of("llama.cpp", [])
    write_npy(os.path.join(folder, "logits.npy"), rows[-1])
    more = [TINY, "--against", folder, "--ids", ",".join(ids)]
    expect(diverge(*more, "--tolerance", "2e-3", code=0)["logits"]["kl"] < 1e-4, "close")
    told = diverge(*more, code=1)
    expect(told["first"]["name"] == "logits" and told["logits"]["top_a"] == told["logits"]["top_b"], "not the same bits", told["logits"])


PEER, PEER_IDS = os.path.join(SOURCE, "tests/golden/peer/llama-f32.npz"), "3,4,5,6"


def peer_arrays():
    """The folder of llama.cpp's results."""
    folder = path("peer")
    if not os.path.exists(folder):
        with zipfile.ZipFile(PEER) as z:
            z.extractall(folder)
    return folder


def test_diverge_tells_where_llama_cpp_parts_and_how_it_grows():
    """The nodes that differ are found here once more, by the values that `dump` has."""
    folder, built = peer_arrays(), [n for n in graph(TINY, "--raw") if n["kernel"]]
    names = [n["name"] for n in built]
    differ, n_files = {}, 0
    for i, n in enumerate(built):
        for file, is_one in (f"{n['name']}:{n['op']}.npy", True), (f"{n['name']}.npy", n["name"] not in names[i + 1:]):
            if is_one and os.path.exists(os.path.join(folder, file)):
                _, _, want = npy(os.path.join(folder, file))
                dump(TINY, f"{n['name']}:{n['op']}", "--ids", PEER_IDS, "--passes=-all")
                _, _, got = npy(path("node.npy"))
                got = got[-len(want):]  # of the last row
                n_files += 1
                if struct.pack(f"<{len(got)}f", *got) != struct.pack(f"<{len(want)}f", *want):
                    differ.setdefault(n["name"], max(abs(a - b) for a, b in zip(got, want)) / max(map(abs, got)))
                break
    expect(n_files == len([f for f in os.listdir(folder) if f.endswith(".npy")]) == 33, "an array for each of these nodes", n_files)
    more = ["--against", folder, "--ids", PEER_IDS, "--passes=-all", "-n", "1"]
    told = diverge(TINY, *more, code=1)
    first = next(n["name"] for n in built if n["name"] in differ)
    expect((told["compared"], told["only_b"], told["other_shape"]) == (n_files, -1, 0), "all of them", told)
    expect((told["first"]["name"], told["step"]) == (first, 0) and first != "embedding", "the first that differs in any bit", (told["first"], differ))
    growth = [layer["relative"] for layer in told["layers"]]
    expect(len(growth) == 2 and 0 < growth[0] < growth[1] < 1e-3, "growth from layer to layer", told["layers"])
    expect(told["logits"]["kl"] < 1e-6 and told["logits"]["top_a"] == told["logits"]["top_b"], "logits", told["logits"])
    # llama.cpp rounds queries and probabilities to f16: that is what is left above the rounding of sums.
    told = diverge(TINY, *more, "--tolerance", "1e-4", code=1)
    expect(told["first"]["name"] == next(n["name"] for n in built if differ.get(n["name"], 0) > 1e-4) == "blk.0.attn", "above the tolerance", told["first"])
    expect(diverge(TINY, *more, "--tolerance", "0.01", code=0)["step"] == 1, "the decode step too")


def test_the_arrays_are_those_that_llama_cpp_gives():
    if subprocess.run([sys.executable, "-c", "import llama_cpp, numpy; assert llama_cpp.__version__ == '0.3.36'"], capture_output=True).returncode != 0:
        return "llama-cpp-python 0.3.36 is not installed"
    folder = path("again")
    p = subprocess.run([sys.executable, os.path.join(SOURCE, "tools/llama_nodes.py"), TINY, folder, "--ids", PEER_IDS, "-n", "1"], capture_output=True, text=True)
    expect(p.returncode == 0 and f"--against {folder} --ids {PEER_IDS} -n 1" in p.stdout, "the script runs", p)
    for sub in "", "step-1":
        want = {f for f in os.listdir(os.path.join(peer_arrays(), sub)) if f.endswith(".npy")}
        got = {f for f in os.listdir(os.path.join(folder, sub)) if f.endswith(".npy")}
        expect(want == got and len(os.listdir(os.path.join(folder, sub, "other"))) > 20, "the same arrays, and others", want ^ got)
        for f in want:
            a, b = (npy(os.path.join(place, sub, f)) for place in (peer_arrays(), folder))
            expect(a[:2] == b[:2] and near(a[2], b[2], 1e-3), f"{f}: within the rounding of another CPU", (a[:2], b[:2]))
    other = path("not-arrays")
    os.mkdir(other)
    temporary("not-arrays/note.txt", b"mine")
    p = subprocess.run([sys.executable, os.path.join(SOURCE, "tools/llama_nodes.py"), TINY, other, "--ids", "1"], capture_output=True, text=True)
    expect(p.returncode == 1 and "has note.txt, which is no array of this script" in p.stderr and os.listdir(other) == ["note.txt"], "other folders stay", p)


def test_diverge_refuses_bad_arrays():
    folder = folder_of("bad", [])
    file = os.path.join(folder, "logits.npy")
    good = [0.0] * 64
    write_npy(file, good)
    with open(file, "rb") as f:
        data = f.read()

    def refused(*words):
        expect_refusal(run("diverge", TINY, "--against", folder), 2, "logits.npy: ", *words)
    for wrong in b"", b"text", data[:9], b"\x93NUMPY\x02" + data[7:]:
        temporary("bad/logits.npy", wrong)
        refused("is no array of NumPy, version 1.0")
    temporary("bad/logits.npy", data[:60])
    refused("its head is cut off")
    temporary("bad/logits.npy", data[:-1])
    refused("has 255 bytes of elements, its shape takes 256")
    for more in {"shape": "(1, 1, 1, 1, 64)"}, {"shape": "(x,)"}, {"shape": "(9999999999999, 9999999999999)"}, {"shape": "64"}:
        write_npy(file, good, **more)
        refused("its head has no type, order and shape of at most 4 dimensions")
    temporary("bad/logits.npy", data.replace(b"'descr'", b"'other'"))
    refused("its head has no type, order and shape")
    write_npy(file, good, order="True")
    refused("is in the order of Fortran; numpy.ascontiguousarray changes it")
    for descr in ">f4", "<i8", "|u1", "<c8":
        write_npy(file, good, descr)
        refused(f": its type '{descr}' is none of '<f2', '<f4', '<f8' and '<i4'")
    head = b"{'fortran_order': False, 'shape': (0,), 'descr':'<\n"
    temporary("bad/logits.npy", data[:8] + struct.pack("<H", len(head)) + head) # the file ends within the type
    refused(": its type '< is none of")


# ---- options ----


def test_a_picture_on_the_standard_output_is_alone():
    for option, end in ("--svg", b"</svg>\n"), ("--dot", b"}\n"):
        r = run("diverge", os.path.join(SOURCE, "assets/demo.gguf"), "--b", "kv=q8_0", option, "-")
        expect(r.code == 1 and r.out.endswith(end), option, r.out[-200:])


def test_diverge_refuses_options_that_do_not_go_together():
    for models in ["-m", MIX, MIX, TINY], ["-m", MIX, TINY, MIX]:
        expect_refusal(run("diverge", *models), 2, "A and B are at most two models, of which A is given or the demo model")
    expect(ok(run("diverge", "-m", MIX, "--b", "threads=1")).out == ok(run("diverge", MIX, "--b", "threads=1")).out, "-m")
    expect(run("diverge", "-m", TINY, flipped(TINY, 70000)).out == run("diverge", TINY, path("flipped.gguf")).out, "-m A B")
    expect_refusal(run("diverge", MIX), 2, "two runs are needed: a second model, --a and --b, --record or --against")
    for more in (["--svg", "-", "--json"], ["--dot", "-", "--json"]):
        expect_refusal(run("diverge", MIX, TINY, *more), 2, "only one of --svg -, --dot - and --json can be on the standard output")
    for more in (["--b", "threads=1"], [TINY], ["--against", MIX], ["--json"], ["--svg", path("no.svg")], ["--dot", path("no.dot")]):
        expect_refusal(run("diverge", MIX, "--record", path("no.rec"), *more), 2, "--record runs A alone: B, --b, --against, --svg, --dot and --json do not go with it")
    for more in (["--b", "threads=1"], [TINY]):
        expect_refusal(run("diverge", MIX, "--against", path("no.rec"), *more), 2, "--against is B: a second model and --b do not go with it")
    for setting, text in ("threads=0", "threads=0: must be from 1 to 512"), ("threads=x", "threads=x: must be from 1 to 512"), \
            ("isa=sse", "isa=sse: must be plain, avx2, avx512-vnni, neon or neon-dotprod"), ("speed=1", "'speed=1': a setting is isa=, threads=, device=, passes= or kv="), \
            ("isa", "'isa': a setting is isa="), ("kv=q4_0", "q4_0"), ("passes=-none", "'none' is not a pass"), ("device=tpu", "tpu"):
        for side in "--a", "--b":
            expect_refusal(run("diverge", MIX, side, setting), 2, text)
    expect_text(run("diverge", MIX, os.path.join(SOURCE, "assets/demo.gguf")), 2,
                r"mix\.gguf is llama with 2 layers of 64 and 64 tokens, \S+ is qwen3moe with 4 layers of 256 and 4096$")
    expect_refusal(run("diverge", MIX, "--b", "threads=1", "--svg", MIX), 2, "an output must not be an input")
    expect(not os.path.exists(path("no.rec")), "nothing is written")


run_tests(globals())

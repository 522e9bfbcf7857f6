"""Where nodes come from, their values, and where two runs part: `reprise graph --why`.

    test_provenance.py PROGRAM SOURCE_DIR [PROGRAM_ON_THE_SIMULATED_DEVICE]

References are the bytes of the model files, checksums computed here, and the graph before the passes.
"""

import json
import re

from cli_program import MIX, TINY, expect, expect_refusal, ok, run, run_tests

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


run_tests(globals())

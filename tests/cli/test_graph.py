"""Commands that measure or show a plan, run as a script would: devices, bench, verify, profile, graph and its differences.

    test_graph.py PROGRAM SOURCE_DIR [PROGRAM_ON_THE_SIMULATED_DEVICE]

Expected are exit codes, one-line messages and JSON; numbers are checked against each other and against other commands.
Tests of a GPU run on the simulated device or are skipped. The last line counts.
"""

import functools
import json
import os
import re

from cli_program import (MIX, ON_DEVICE, SOURCE, TINY, TMP, expect, expect_refusal, ok, run, run_on_device, run_tests, temporary)


# ---- devices, measurements, graphs ----


def test_without_a_gpu_the_cpu_is_used_with_a_warning():
    built = ok(run("--version")).text
    if "CUDA toolkit: none" in built or "CUDA devices: none" not in built:
        return "the build is for the CPU only, or there is a GPU"
    r = run("generate", "-m", TINY, "-p", "a", "-n", "2", REPRISE_DEVICE="auto")
    expect(r.code == 0 and r.err.count("running on the CPU: ") == 1, "one warning", r)
    r = run("generate", "-m", TINY, "-p", "a", "-n", "2", "--device", "cpu", REPRISE_DEVICE="auto")
    expect(r.code == 0 and "running on the CPU" not in r.err, "no warning if the CPU is asked for", r)
    for more in (["--require-cuda"], ["--device", "cuda"], ["--device", "cuda:1"]):
        expect_refusal(run("generate", "-m", TINY, "-p", "a", *more, REPRISE_DEVICE="auto"), 1, "CUDA driver")


def test_device_options_are_checked():
    g = ["generate", "-m", TINY, "-p", "a"]
    expect_refusal(run(*g, "--device", "gpu"), 1, "device 'gpu'", "cuda:N")
    expect_refusal(run(*g, REPRISE_DEVICE="tpu"), 1, "REPRISE_DEVICE 'tpu'")
    expect_refusal(run(*g, "--mode", "fast"), 1, "--mode fast: must be auto, eager, replay or loop")
    expect_refusal(run(*g, "--device", "cpu", "--require-cuda"), 1, "CUDA is required")
    for mode in ([], ["--mode", "eager"], ["--mode", "replay"], ["--mode", "loop"]):
        expect_refusal(run(*g, "--device", "cpu", "--require-graph", *mode), 1, "a graph is required: the CPU has none")
    for mode in ("replay", "loop"):
        r = ok(run(*g, "-n", "2", "--device", "cpu", "--mode", mode))
        expect(r.err.count(f"eager instead of {mode}: the CPU has no graphs") == 1, "one warning", r)
    expect("instead of" not in ok(run(*g, "-n", "2", "--device", "cpu", "--mode", "eager")).err, "eager is what the CPU has", "")


def test_devices_lists_the_cpu():
    expect(re.search(r"^cpu +kernels for \S+, memory [\d.]+ GB free$", ok(run("devices")).text, re.M), "", "")
    d = json.loads(ok(run("devices", "--json")).out)
    expect(d["cpu"]["isa"] and isinstance(d["cuda"], list), "JSON", d)


def test_devices_prints_constants():
    if ON_DEVICE is None:
        return "there is no simulated device"
    cache = os.path.join(TMP.name, "cache")
    os.mkdir(cache)
    for option, origin in ("force", "measured"), ("off", "model"):
        env = {"REPRISE_TUNE": option, "SIM_L2_KB": "128", "SIM_COST_US": "10", "XDG_CACHE_HOME": cache}
        r = ok(run_on_device("devices", "--tune", "--json", **env))
        tuning = json.loads(r.out)["cuda"][0]["tuning"]
        expect(tuning["origin"] == origin, "origin", tuning)
        times = {name: c["measured_us"] for name, c in tuning["constants"].items()}
        expect(all(c["value"] == c["model"] for c in tuning["constants"].values()), "equal times", tuning)
        expect(times["grid_percent"] == ({"100": 80, "50": 80, "150": 80, "200": 80} if origin == "measured" else {}), "", times)
        text = ok(run_on_device("devices", "--tune", **env)).text
        expect(f"constants: {tuning['origin']}" in text, origin, text)
        expect(("grid_percent 100, model 100; us: 80.0 with 100, 80.0 with 50" in text) == (origin == "measured"), "", text)


# Presets with layers of several kinds, and their kernels: of a layer with a recurrent state, and of one that attends. Of DeepSeek:
# dense layers and those with experts; in V2-Lite the shared experts are longer than the others, which adds two kernels.
HYBRID = {"qwen3.5-0.8b": 18 * 7 + 6 * 6, "qwen3.5-35b-a3b": 30 * 8 + 10 * 7, "delta-moe-1b": 9 * 8 + 3 * 7,
          "lfm2-1.2b": 16 * 5, "granite4-h-1b": 36 * 6 + 4 * 5, "nemotron-h-1b": 16 * 4 + 8 * 3 + 16 * 2, "falcon-h1-0.5b": 36 * 9,
          "gemma4-e2b": 35 * 7, "gemma4-26b-a4b": 30 * 8,
          "deepseek-v2-lite": 1 * 7 + 26 * 10, "deepseek-v3": 3 * 8 + 58 * 9}


NO_FILES = os.path.join(TMP.name, "temp")  # commands that build graphs without weights leave no file here


@functools.cache
def launches_of_all_presets():
    os.mkdir(NO_FILES)
    return json.loads(ok(run("bench", "launches", "--all-presets", "--json", TMPDIR=NO_FILES)).out)


def test_a_plan_states_the_copies_that_a_session_makes():
    for name in "assets/demo.gguf", "tests/golden/tiny/gemma4-moe-mix.gguf", "tests/golden/tiny/llama-f32.gguf":
        path = os.path.join(SOURCE, name)
        stated = json.loads(ok(run("plan", path, "--json")).out)["plan"]["repack_bytes"]
        made = json.loads(ok(run("generate", path, "-p", "a", "-n", "1", "-q", "--json", "--repack", "on")).out)["repack_bytes"]
        expect(stated == made and (stated > 0) == (not name.endswith("f32.gguf")), name, (stated, made))
        lines = ok(run("plan", path)).text.splitlines()
        expect([line.split()[1] for line in lines if line.startswith("copies ")] == ([str(stated)] if stated > 0 else []), name, lines)


def test_launches_are_counted_without_weights():
    rows = {row["name"]: row for row in launches_of_all_presets()}
    expect(len(rows) >= 9 and rows["llama3-8b"]["layers"] == 32, "presets", rows)
    for row in rows.values():
        expect(row["launches_per_token"] == {"eager": row["kernels_per_token"], "replay": 1, "loop": 0}, "", row)
        expect(row["name"] in HYBRID or row["kernels_in_layers"] % row["layers"] == 0, "layers of one kind", row)
    text = ok(run("bench", "launches", "--all-presets")).text
    expect(all(name in text for name in rows), "the table", text)
    one = json.loads(ok(run("bench", "launches", "-m", TINY, "--json")).out)
    steps = json.loads(ok(run("plan", "-m", TINY, "--json")).out)["plan"]["n_steps"]
    expect(one["steps"] == steps, "one step less than a prefill (get_rows of the last token), one more (sample)", (one, steps))
    expect_refusal(run("bench", "launches", "--preset", "tiny", "-m", TINY), 2, "exclude each other")
    expect_refusal(run("bench", "launches", "--preset", "huge", TMPDIR=NO_FILES), 1, "no preset 'huge'")
    expect(os.listdir(NO_FILES) == [], "no temporary files remain", os.listdir(NO_FILES))


instructions_are_counted = False


def test_machine_in_json():  # its threads are those of the next test, which a thread sanitizer runs too
    global instructions_are_counted
    data = temporary("bytes", bytes(range(256)) * 4096 * 16)
    m = json.loads(ok(run("bench", "machine", "-f", data, "--json", REPRISE_PREFETCH="l1:8192")).out)
    expect(m["prefetch"] == "l1:8192" and m["prefetch_trials"] == [], "what REPRISE_PREFETCH says", m)
    expect(m["ghz"] > 0 and m["latency_ns"] > 0 and m["misses_in_flight"] > 0, "a machine", m)
    by_type = {p["type"]: p for p in m["products"]}
    expect({"q8_0", "q4_k", "iq4_nl", "iq1_m"} <= set(by_type) and len(by_type) == len(m["products"]) and all(p["gb_s"] > 0 for p in by_type.values()), "products", m)
    instructions_are_counted = by_type["q8_0"]["instructions_per_byte"] > 0
    if instructions_are_counted:
        expect(by_type["q8_0"]["instructions_per_byte"] < by_type["q5_0"]["instructions_per_byte"], "fewer than q5_0", m)


def test_bench_machine_measures_what_limits_decode():
    data = temporary("bytes", bytes(range(256)) * 4096 * 16)
    r = json.loads(ok(run("bench", "machine", "--read", "-f", data, "-t", "2", "--json")).out)
    expect(r["read_bytes"] == 16 << 20 and [row["threads"] for row in r["read"]] == [2], "all of the file", r)
    rates = r["read"][0]["gb_s"]
    expect(len(rates) == 5 and max(rates.values()) == r["read"][0]["best_gb_s"] > 0, "the best way", r)
    text = ok(run("bench", "machine", "--read", "-f", data)).text
    expect(" GB/s" in text and "  one stream" in text and "* the best pattern" in text, "measured", text)
    if not instructions_are_counted:  # else it takes 10 s once more; builds with a sanitizer count none, and print the whole table
        text = ok(run("bench", "machine", "-f", data)).text
        expect(re.search(r"Software prefetch: (l1|l2):\d+|Software prefetch: none", text) and text.count(" GB/s") >= 5, "all", text)
    expect_refusal(run("bench", "machine", "-f", TMP.name), 1, TMP.name, "cannot be read")
    expect_refusal(run("bench", "machine", "-f", temporary("few", b"x" * 100)), 1, "100 bytes are too few to read")
    expect_refusal(run("bench", "machine", "-f", temporary("no bytes", b"")), 1, "0 bytes cannot be mapped")
    for wrong in ("l3", "l2:", "l2:100", "l2:-64", "none:64", "l1:99999999"):
        expect_refusal(run("bench", "-m", TINY, "-p", "1", "-n", "1", REPRISE_PREFETCH=wrong), 1, f"REPRISE_PREFETCH={wrong}")


def test_verify_compares_with_the_plain_kernels():
    v = json.loads(ok(run("verify", "-m", TINY, "-n", "3", "--json")).out)
    expect(v["verified"] and v["first_difference"] is None and v["replays"] == 0, "", v)
    expect({op["op"] for op in v["ops"]} >= {"linear", "attention", "qkv", "gate_up"}, "ops", v)
    expect(ok(run("verify", "-m", TINY, "-n", "2")).text.endswith("\nverified\n"), "text")


def test_profile_times_every_node():
    p = json.loads(ok(run("profile", "-m", TINY, "-r", "3", "--pos", "5", "--json")).out)
    steps = json.loads(ok(run("plan", "-m", TINY, "--json")).out)["plan"]["steps"]
    expect([s["name"] for s in p["steps"]] == [s["name"] for s in steps], "a time for each step", p)
    expect(all(s["us"] >= 0 and s["bytes"] > 0 for s in p["steps"]) and p["total_us"] > 0, "times", p)
    dot, trace = os.path.join(TMP.name, "p.dot"), os.path.join(TMP.name, "p.json")
    r = ok(run("profile", "-m", TINY, "-r", "2", "--dot", dot, "--trace", trace, "--fold"))
    expect("share" in r.text and "slowest" in r.text, "table", r)
    with open(dot) as f:
        expect(" us  " in f.read(), "times in the picture")
    with open(trace) as f:
        events = json.load(f)["traceEvents"]
    expect(sum(e["ph"] == "X" for e in events) == len(steps), "an event for each step", len(events))
    expect_refusal(run("profile", "-m", TINY, "--pos", "99999"), 1, "position 99999: the model was trained for 512")
    expect_refusal(run("profile", "-m", TINY, REPRISE_REPACK="yes"), 1, "repack 'yes': must be on, off, auto or codebook")


def test_any_name_is_valid_json_and_dot():
    if ON_DEVICE is None:
        return "no simulated device"
    name = b'a "GPU" \\ of\n\xff\x1b[2J'
    shown = 'a "GPU" \\ of\n\ufffd\x1b[2J'
    dot, trace = os.path.join(TMP.name, "name.dot"), os.path.join(TMP.name, "name.json")
    for command in (["devices", "--json"], ["profile", "-m", TINY, "-r", "1", "--json", "--dot", dot, "--trace", trace],
                    ["generate", "-m", TINY, "-p", "a", "-n", "1", "--json", "-q"], ["verify", "-m", TINY, "-n", "1", "--json"]):
        o = json.loads(ok(run_on_device(*command, SIM_NAME=name)).out)
        found = o["cuda"][0]["name"] if "cuda" in o else o.get("device_name", o["device"])
        expect(found == shown or found == "cuda:0, " + shown, "the name", found)
    with open(trace) as f:
        expect(json.load(f)["traceEvents"][0]["args"]["name"].startswith("cuda:0, " + shown + ", "), "the name of the track")
    with open(dot, "rb") as f:
        text = f.read().decode()  # fails for what is not UTF-8
    expect('label="cuda:0, a \\"GPU\\" \\\\ of\n\ufffd\\\\x1b[2J, ' in text, "the title", text)


def test_graph_shows_every_stage_of_the_passes():
    def ops(*more):
        return {n["op"] for n in json.loads(ok(run("graph", "-m", MIX, "--json", *more)).out)["nodes"]}

    expect("soft_max" in ops("--raw") and "attention" not in ops("--raw"), "as it is built")
    expect("attention" in ops("--after", "attention") and "quantize" not in ops("--after", "attention"), "one pass")
    expect("mul_mat" in ops("--after", "quantize") and "mul_mat" not in ops(), "the fusions come later")
    expect(ops("--after", "embed") == ops(), "after the last all have run")
    expect_refusal(run("graph", "-m", MIX, "--after", "fuse"), 1, "'fuse' is not a pass", "attention, quantize")


def page_data(*args):
    """The data of the page that a command writes to standard output."""
    text = ok(run(*args)).text
    expect(text.startswith("<!doctype html>") and text.endswith("</html>\n"), "a page", text[:80])
    return json.loads(text.split('<script type="application/json" id="data">')[1].split("</script>")[0])


def test_a_page_has_the_graph():  # tests/page/test_graph_page.py reads it in a browser
    data = page_data("graph", MIX, "--html", "-")
    nodes = json.loads(ok(run("graph", MIX, "--json")).out)["nodes"]
    strings = data["strings"]
    expect([(row[0], strings[row[1]], strings[row[2]], row[3]) for row in data["graphs"][0]["nodes"]] ==
           [(n["id"], n["op"], n["name"], n["layer"]) for n in nodes], "the nodes of --json", data)
    expect([strings[row[13]] for row in data["graphs"][0]["nodes"]] == [n.get("colour", "") for n in nodes], "their colours", data)
    expect(len(set(strings)) == len(strings) and data["times"] == "" and data["diff"] is None, "strings", data)
    expect(len(page_data("graph", "llama3-8b", "--html", "-")["graphs"][0]["nodes"]) > 32 * 10, "a preset", "")
    dump = os.path.join(os.fsencode(TMP.name), b"not \xff UTF-8.json")
    ok(run("graph", MIX, "--json", "-o", dump))
    data = page_data("graph", "--diff", dump, MIX, "--html", "-")
    expect(data["graphs"][0]["label"].endswith("not \ufffd UTF-8.json") and len(data["diff"]["partner"]) == len(nodes), "a path", data["graphs"][0]["label"])
    data = page_data("profile", TINY, "-r", "1", "-q", "--html", "-")
    kernels = [row for row in data["graphs"][0]["nodes"] if row[8] & 1]
    expect(kernels and all(row[14] > 0 for row in kernels) and data["times"].startswith("cpu, "), "times", data["times"])
    if "CUDA toolkit: none" not in ok(run("--version")).text:
        noted = page_data("graph", TINY, "--html", "-", "--cuda")
        expect(any("kB" in noted["strings"][row[12]] for row in noted["graphs"][0]["nodes"]), "launches", noted["strings"])


def test_a_page_is_refused_with_other_outputs():
    for more in (["--dot"], ["--text"], ["--json"], ["-o", os.path.join(TMP.name, "x")], ["--layer", "0"], ["--why", "#0"]):
        expect_refusal(run("graph", MIX, "--html", "-", *more), 2, "--dot, --text, --json, --output, --layer and --why do not go with --html")
    for more in ([], ["--html", "-", "--diff", "raw", "raw"]):
        expect_refusal(run("graph", MIX, "--hash", *more), 2, "--hash goes with --html, and not with --diff")
    page = os.path.join(TMP.name, "none", "g.html")
    expect_refusal(run("graph", MIX, "--html", page), 1, page, "No such file or directory")
    expect_refusal(run("graph", "llama3-8b", "--html", "-", "--hash"), 1, "llama3-8b")


def test_kernels_per_layer_stay_in_budget():
    rows = launches_of_all_presets()
    for row in rows:
        dense = row["name"] in ("smollm2-135m", "qwen2.5-0.5b", "dense-1b", "llama3.2-1b", "llama3-8b")
        limit = HYBRID.get(row["name"], (5 if dense else 6) * row["layers"])
        expect(row["kernels_in_layers"] <= limit, "kernels of the layers", row)
        outside = {"gemma4-e2b": 10, "gemma4-26b-a4b": 5}.get(row["name"], 4)  # the soft cap; embeddings of all layers
        expect(row["kernels_per_token"] - row["kernels_in_layers"] <= outside, "kernels outside of the layers", row)
    for name in ("llama-f32", "qwen2-f32", "qwen3-f32", "gemma3-f32"):
        path = os.path.join(SOURCE, "tests", "golden", "tiny", name + ".gguf")
        c = json.loads(ok(run("bench", "launches", "-m", path, "--json")).out)
        expect(c["kernels_in_layers"] <= 5 * c["layers"], name, c)
    path = os.path.join(SOURCE, "tests", "golden", "tiny", "qwen35-f32.gguf")
    c = json.loads(ok(run("bench", "launches", "-m", path, "--json")).out)
    expect((c["layers"], c["kernels_in_layers"]) == (2, 7 + 6), "a delta net and gated attention", c)
    by_pass = json.loads(ok(run("bench", "launches", "--all-presets", "--by-pass", "--json")).out)
    expect([b["embed"] for b in by_pass] == [r["kernels_per_token"] for r in rows], "the last pass", by_pass)
    texts = [ok(run("bench", "launches", "--preset", "tiny", *more)).text for more in ([], ["--by-pass"])]
    told = ["(built without CUDA launchers: one kernel per step is assumed)" in text for text in texts]
    expect(told[0] == told[1] == ("CUDA toolkit: none" in run("--version").text), "what is assumed is said", texts)
    expect(all(b["unfused"] > (2 if b["name"] in HYBRID else 2.5) * b["embed"] for b in by_pass), "the first", by_pass)


def diff(a, b, *more):
    return json.loads(ok(run("graph", "-m", MIX, "--json", "--diff", a, b, *more)).out)


def test_diff_of_a_graph_with_itself_is_empty():
    r = ok(run("graph", "-m", MIX, "--diff", "raw", "raw", "--exit-code"))
    expect("no difference" in r.text and len(r.text.splitlines()) == 3, "", r)
    expect(diff("after=embed", MIX)["same"], "the last pass gives the whole")
    expect(not diff("raw", "tokens=2:raw")["same"], "another number of tokens is another graph")


def test_diff_shows_what_a_pass_changes():
    d = diff("after=attention", "after=quantize")
    expect({n["op"] for n in d["added"]} == {"quantize"} and not d["removed"], "", d)
    expect({n["op"] for n in d["changed"]} == {"mul_mat"}, "products read other nodes", d)
    expect(all(list(n["changes"]) == ["sources"] for n in d["changed"]), "and nothing else", d)
    expect(d["b"]["kernels"] - d["a"]["kernels"] == len(d["added"]), "kernels", d)
    d = diff("raw", "after=attention")
    expect({n["op"] for n in d["removed"]} == {"mul_mat", "soft_max", "transpose", "permute"}, "", d)
    attn = [n for n in d["changed"] if n["name"] == "blk.1.attn"]
    expect(attn[0]["changes"]["op"] == ["copy", "attention"], "a copy becomes the fused op", attn)
    r = ok(run("graph", "-m", MIX, "--diff", "raw", "after=attention"))
    expect("layers 0-1  (x2)\n  - mul_mat    blk.*.scores " in r.text and "blk.0" not in r.text, "folded", r)
    expect("0 added, 10 removed, 2 changed" in r.text, "summary", r)
    expect(run("graph", "-m", MIX, "--diff", "raw", "after=attention", "--exit-code").code == 1, "--exit-code")


def test_diff_compares_models_and_presets():
    r = ok(run("graph", "--diff", "nn-6.9b", "nn-6.9b:ctx=100:type=Q4_0"))
    expect("layers 0-29  (x30)" in r.text and "; was f16 [64,4096]" in r.text, "", r)
    d = diff("tiny:raw:type=Q4_0", "raw")
    expect(any(n["name"] == "output.weight" for n in d["removed"]), "MIX has tied embeddings", d)
    rope = [n for n in d["changed"] if n["op"] == "rope"]
    expect(rope and all(n["changes"]["params"][1]["freq_base"] == 10000 for n in rope), "parameters", rope)


def test_diff_reads_saved_dumps():
    g = ["graph", "-m", MIX]
    saved = temporary("saved.json", ok(run(*g, "--json")).out)
    expect(diff(saved, MIX)["same"] and diff("ctx=0", saved)["same"], "saved and live are alike")
    expect(not diff(saved, "passes=-quantize")["same"], "other passes")
    with open(saved, "rb") as f:
        r = ok(run(*g, "--diff", "-", "passes=-all", stdin=f.read()))
    expect("attention" in r.text, "standard input", r)
    # One parameter, one name and one edge are changed.
    saved = temporary("unfused.json", ok(run(*g, "--json", "--after", "quantize")).out)
    d = json.loads(ok(run(*g, "--json", "--after", "quantize")).out)
    norm = next(n for n in d["nodes"] if n["op"] == "rms_norm" and n["layer"] == 1)
    norm["params"]["eps"] = 0.5
    add = next(n for n in d["nodes"] if n["op"] == "add" and n["layer"] == 1)
    add["sources"].reverse()
    next(n for n in d["nodes"] if n["op"] == "silu" and n["layer"] == 0)["name"] = "renamed"
    c = diff(saved, temporary("altered.json", json.dumps(d).encode()))
    expect([n["name"] for n in c["added"]] == ["renamed"] and len(c["removed"]) == 1, "", c)
    what = {(n["name"], key) for n in c["changed"] for key in n["changes"]}
    expect(what == {(norm["name"], "params"), (add["name"], "sources"), ("blk.0.ffn_gated", "sources")}, "", what)


def test_diff_reads_unusual_dumps():
    nodes = '[{"id":0,"op":"input","name":"","layer":0,"dtype":"f32","ne":[1,1,1,1],"nb":[4,4,4,4],"sources":[]}]'
    for n in range(253, 257): # the title is cut between two characters
        d = temporary("title.json", ('{"title":"%s\u2581\u2581","nodes":%s}' % ("a" * n, nodes)).encode())
        expect(diff(d, d)["same"], "a leaf without a name is like itself")


def test_diff_compares_times():
    p = ["profile", "-m", MIX, "-r", "2", "--json", "--pos", "20"]
    a = temporary("a.json", ok(run(*p, "--passes=-all,+attention,+quantize")).out)
    b = temporary("b.json", ok(run(*p, "--passes=-all,+attention")).out)
    t = diff(a, b)["times"]
    steps = sum(s["us"] for s in json.loads(open(a).read())["steps"])
    expect(abs(t["us"][0] - steps) < 0.1 and t["us"][1] > 0 and len(t["nodes"]) >= 40, "", t)
    r = ok(run("graph", "--diff", a, b))
    expect(re.search(r"time of the steps [\d.]+ -> [\d.]+ us \([+-][\d.]+ %\)\nop ", r.text), "", r)
    expect(re.search(r"\nquantize +7 +0 +[\d.]+ +0\.0 +-", r.text), "an op that has gone", r)
    expect(diff(a, a)["same"] and diff(a, MIX)["times"] is None, "times are no difference")


def test_diff_refuses_bad_arguments_and_dumps():
    def refuse(code, *words, args):
        expect_refusal(run("graph", "-m", MIX, *args), code, *words)

    def broken(text, *words):
        refuse(1, "broken.json", *words, args=["--diff", temporary("broken.json", text.encode()), MIX])

    node = '{"id":%d,"op":"silu","name":"y","layer":0,"dtype":"f32","ne":[1,1,1,1],"nb":[4,4,4,4],"sources":[%s]}'
    broken('{"nodes":\n[}', "line 2, column 2")
    broken("", "line 1")
    broken("[1]", 'broken.json: not a dump of `reprise graph --json`: "nodes" is missing')
    broken('{"n\u00f6des":[]}', 'broken.json: not a dump of `reprise graph --json`: the key "n\u00f6des"')
    broken('{"nodes":[], "nodes":[]}', 'broken.json: "nodes" is there twice')
    broken('{"nodes":[]}', "broken.json: the dump has 0 nodes")
    broken('{"nodes":[3]}', "broken.json: node 0 of the dump is not an object")
    broken('{"nodes":[{"id":0}]}', 'broken.json: node 0 of the dump: "layer" is not the number of a node or layer')
    broken('{"nodes":[%s]}' % (node % (0, 0)), "node 0", "has one that does not come before the node (is this a dump of one layer?)")
    broken('{"nodes":[%s]}' % (node % (0, "")).replace('"silu"', "7"), "node 0", '"op" is not a string')
    broken('{"nodes":[%s]}' % (node % (0, "")).replace('"ne":[1,', '"ne":[1,1,'), "node 0", '"ne" is not a list of 4 integers')
    broken('{"nodes":[%s]}' % (node % (0, "")).replace('"nb":[4,', '"nb":[4.5,'), "node 0", '"nb" is not a list of 4 integers')
    broken('{"nodes":[%s,%s]}' % (node % (1, ""), node % (1, "")), "node 1", '"id"')
    broken('{"nodes":[%s]}' % (node % (-1, "")), "node 0", '"id"')
    broken('{"nodes":[%s]}' % (node % (0, "")).replace('"ne":[', '"source_names":[3],"ne":['), '"source_names" is not a list of names')
    broken('{"nodes":[%s]}' % (node % (0, ",".join(["null"] * 99))), '"sources" is not a list, or longer than that of any op')
    broken('{"nodes":[%s]}' % (node % (0, "")).replace('"layer":0', '"layer":99999999'), "node 0")
    broken('{"nodes":[%s]}' % (node % (2**63 - 1, "")), "node 0", '"id"')
    broken('{"nodes":[%s]}' % (node % (0, "")).replace('"name"', '"us":1e308,"name"'), "node 0", '"us" is not a time in microseconds')
    whole = ok(run("graph", "-m", TINY, "--json")).out
    for cut in range(0, len(whole) - 2, 997):
        broken(whole[:cut].decode(), "line")
    refuse(1, "gone.json", args=["--diff", "gone.json", MIX])
    refuse(1, "'fuse' is not a pass", "attention, quantize", args=["--diff", MIX, "after=fuse"])
    refuse(1, "'fuse' is not a pass", args=["--diff", MIX, "passes=-fuse"])
    refuse(1, "'nonsense' is neither a file nor a preset; settings that may follow, each after a colon: ", "after=PASS", args=["--diff", "nonsense:raw", MIX])
    refuse(1, "tokens=many: must be a whole number", args=["--diff", "tokens=many", MIX])
    refuse(1, "type=Q8_0 is for presets of `reprise synth` only", args=["--diff", "type=Q8_0", MIX])
    refuse(2, "needs two graphs", args=["--diff", MIX])
    refuse(2, "only --diff takes more graphs", args=[MIX, MIX])
    refuse(2, "do not go with --diff", args=["--diff", MIX, MIX, "--dot"])
    refuse(2, "goes with --diff", args=["--exit-code"])


def test_graph_shows_launches():
    r = run("graph", "-m", TINY, "--cuda", "--layer", "0")
    if "CUDA toolkit: none" in run("--version").text:
        expect_refusal(r, 1, "without the CUDA toolkit")
        return
    lines = [line for line in ok(r).text.splitlines() if " linear " in line]
    expect(lines and all("x1x1 x 256" in line and "kernel" in line for line in lines), "launches", lines)
    expect("kernel" in ok(run("graph", "-m", TINY, "--cuda", "--dot")).text, "in a picture")


def test_only_the_program_of_the_simulated_device_counts_instructions():
    expect_refusal(run("bench", "counts", "-m", TINY), 1,
                   "this program cannot count instructions: it has no interpreter of PTX. Where nvcc is installed, `cmake -B build "
                   "-DRP_SIM=ON && cmake --build build --target reprise_sim` makes a program that has it, build/reprise-sim")
    expect("reprise-sim" in ok(run("help", "bench", "counts")).text, "help names the program")
    expect_refusal(run("bench", "counts", "--preset", "tiny", "-m", TINY), 2, "exclude each other")


def test_instructions_are_counted_on_the_simulated_device():
    if ON_DEVICE is None:
        return "there is no simulated device in this build"
    r = run_on_device("bench", "counts", "-m", TINY, "--pos", "20", "--chunk", "8", "--json", "--no-registers", "--blocks", "0")
    if "cannot count" in r.err:
        return "there is no PTX in this build"
    decode, end = json.JSONDecoder().raw_decode(ok(r).text)
    prefill = json.loads(r.text[end:])
    expect((decode["phase"], decode["position"], prefill["phase"]) == ("decode", 20, "prefill"), "phases", r.out)
    launches = json.loads(ok(run_on_device("bench", "launches", "-m", TINY, "--json")).out)["kernels_per_token"]
    expect(sum(k["launches"] for k in decode["kernels"]) == launches, "every launch counts", (launches, r.out))
    for k in decode["kernels"] + prefill["kernels"]:
        n = sum(k["warp_instructions"].values())
        warps = k["grid"][0] * k["grid"][1] * k["grid"][2] * ((k["block"] + 31) // 32)
        expect(n >= 10 * warps and k["lane_instructions"] <= 32 * n, "instructions", k)
        expect(k["global_sectors_needed"] <= k["global_sectors_requested"], "sectors", k)
        expect(abs(sum(k["by_file"].values()) - n) <= len(k["by_file"]), "by file", k)
    large = ["bench", "counts", "--preset", "llama3-8b", "--phase", "decode", "--no-registers", "--blocks", "4"]
    table = ok(run_on_device(*large, "--files"))
    expect("gate_up.cu" in table.text and re.search(r"^gate_up .* 224 +4 ", table.text, re.M), "a table", table)
    on = json.loads(ok(run_on_device(*large, "--sms", "66", "--json")).out)
    expect(on["sms"] == 66 and {66, 0} == {k["sms"] for k in on["kernels"]}, "grids that follow the GPU, and others", on)
    tiny, special = ["bench", "counts", "--preset", "tiny", "--phase", "decode", "--no-registers", "--json"], {}
    for option in "-q", "--specialized":
        r = run_on_device(*tiny, option)
        if r.code == 0 or "NVRTC" not in r.err:
            special[option] = next(k for k in json.loads(ok(r).out)["kernels"] if k["name"].startswith("gate_up"))
    if len(special) == 2:  # with NVRTC
        before, after = special.values()
        expect(sum(after["warp_instructions"].values()) < 0.9 * sum(before["warp_instructions"].values()), "fewer", special)
        expect("gate_up.cu" in after["by_file"] and "?" not in after["by_file"], "files of specialised kernels", after)
    for block, name in ((34 / 32, "Q8_0"), (144 / 256, "Q4_K")):
        kernels = json.loads(ok(run_on_device(*large, "--type", name, "--json")).out)["kernels"]
        gate_up = next(k for k in kernels if k["name"].startswith("gate_up"))
        expect(gate_up["sampled_blocks"] == 4 and gate_up["launches"] == 32, "sampled, and once for all layers", gate_up)
        weights = 2 * 14336 * 4096 * block  # once; one sampled block may have a row tile more than the others
        expect(abs(gate_up["bytes"]["weights"] / weights - 1) < 0.03, "each byte of the weights once", gate_up)
    read = {}
    for n in "4", "8":
        step = json.loads(ok(run_on_device("bench", "counts", "--preset", "tiny", "--replies", n, "--pos", "40", *tiny[-2:], "--blocks", "0")).out)
        expect(step["phase"] == "replies" and any("attention_blocks" in k["name"] for k in step["kernels"]), "a step of an engine", step)
        read[n] = sum(k["bytes"]["weights"] * k["launches"] for k in step["kernels"])
    expect(read["8"] == 2 * read["4"], "four replies read the weights once", read)
    expect_refusal(run_on_device("bench", "counts", "--preset", "tiny", "--pos", "1024"), 1, "position 1024: the model was trained for 1024")
    expect_refusal(run_on_device("bench", "counts", "--preset", "tiny", "--chunk", "1025"), 1, "a chunk of 1025 tokens: the model was trained for 1024")
    expect_refusal(run_on_device("bench", "counts", "--preset", "tiny", "--phase", "warm"), 1, "--phase warm: must be decode, prefill or both")


def test_the_simulated_device_is_verified_profiled_and_timed():
    if ON_DEVICE is None:
        return "there is no simulated device in this build"
    r = ok(run_on_device("devices"))
    expect("cuda:0  simulated device, compute capability 9.0" in r.text, "", r)
    v = json.loads(ok(run_on_device("verify", "-m", TINY, "-n", "3", "--json")).out)
    expect(v["verified"] and v["replay_equal"] and v["replays"] == 3, "replays", v)
    expect(v["reply_equal"] and v["reply_tokens"] == 24, "replies", v)
    p = json.loads(ok(run_on_device("profile", "-m", TINY, "-r", "2", "--pos", "3", "--json")).out)
    expect(p["mode"] == "replay" and p["copy_bytes_s"] > 0 and all(s["us"] >= 0 for s in p["steps"]), "profile", p)
    c = json.loads(ok(run_on_device("bench", "launches", "-m", TINY, "-n", "4", "--json")).out)
    expect(all(c["tok_s"][mode] > 0 for mode in ("eager", "replay", "loop")), "times", c)
    g = ["generate", "-m", TINY, "-p", "hello", "-n", "8", "--temp", "0.8", "--seed", "3", "--ignore-eos"]
    texts = {mode: ok(run_on_device(*g, "--mode", mode)) for mode in ("eager", "replay", "loop")}
    expect(len({t.out for t in texts.values()}) == 1, "one text", texts)
    expect(all(f"simulated device, {mode}" in t.err for mode, t in texts.items()), "the mode is said", texts)
    expect("running on the CPU" not in texts["loop"].err, "no warning", texts)


run_tests(globals())

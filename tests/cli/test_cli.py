"""Runs the program as a script would: every command, every kind of mistake, files. test_text.py has generate and chat,
test_graph.py measurements and graphs, test_terminal.py terminals.

    test_cli.py PROGRAM SOURCE_DIR [PROGRAM_ON_THE_SIMULATED_DEVICE]

Expected are exit codes, one-line messages and JSON; numbers are checked against each other and against other commands.
Tests of a real model are skipped if models/ has none. The last line counts.
"""

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import tempfile

from cli_program import (COMMANDS, HANG_S, ON_MODELS, PROGRAM, SOURCE, TINY, TMP, Result, expect, expect_refusal, ok, run,
                         run_tests, temporary)


# ---- help and wrong use ----


def test_help_lists_commands_and_environment():
    for args in (["--help"], ["-h"], ["help"]):
        r = ok(run(*args))
        for word in COMMANDS + ["REPRISE_THREADS", "REPRISE_ISA", "REPRISE_PASSES", "llama", "130"]:
            expect(word in r.text, word, r)
        expect(r.err == "", "quiet stderr", r)


def test_every_command_has_help():
    for command in COMMANDS:
        words = command.split()
        more = ["x"] if command not in ("devices", "bench machine", "man") else []
        a, b, c = ok(run(*words, "--help")), ok(run("help", *words)), ok(run(*words, *more, "-h"))
        expect(a.out == b.out == c.out, "the same help three ways", command)
        expect(f"reprise {command}" in a.text, command, a)
        expect(("--model MODEL" in a.text) == (command in ON_MODELS), command, a)
        expect(all(len(line) <= 80 for line in a.text.splitlines()), "line length", a)


def test_version_names_toolkit_and_cpu():
    r = ok(run("--version"))
    expect(
        re.match(r"reprise \d+\.\d+\.\d+\nCUDA toolkit: \S+\nCUDA devices: .+\nCPU kernels: \S+\n$", r.text),
        "",
        r,
    )


def test_wrong_use_exits_2_with_one_line():
    expect_refusal(run(), 2, "command")
    expect_refusal(run("generat"), 2, "did you mean `generate`?")
    expect_refusal(run("zzzzzz"), 2, "unknown command `zzzzzz`")
    r = run("graph", "--svg")
    expect_refusal(r, 2, "unknown option --svg")
    expect("did you mean" not in r.err, "two of three letters are no likeness", r)
    expect_refusal(run("help", "zzzzzz"), 2, "unknown command")
    expect_refusal(run("help", "bench", "foo"), 2, "`foo` follows the command `bench`")
    expect_refusal(run("help", "bench", "launches", "foo"), 2, "`foo` follows the command `bench launches`")
    g = ["generate", "-m", TINY, "-p", "a"]
    expect_refusal(run("quantize", "a", "b"), 2, "--type TYPE is needed")
    expect_refusal(run("quantize", "--type", "Q8_0", "a"), 2, "OUT is needed")
    expect_refusal(run("quantize", "a", "b", "c", "--type", "F16"), 2, "`c` is not an option")
    expect_refusal(run("synth", "tiny"), 2, "-o FILE is needed")
    expect_refusal(run("generate", "-m", TINY), 2, "-p TEXT")
    expect_refusal(run(*g, "-f", "x"), 2, "one prompt")
    expect_refusal(run(*g, "--tmep", "1"), 2, "unknown option --tmep, did you mean --temp?")
    expect_refusal(run(*g, "--xyzzy=3"), 2, "unknown option --xyzzy (")
    expect_refusal(run(*g, "-z"), 2, "unknown option -z")
    expect_refusal(run(*g, "--json=1"), 2, "takes no value")
    expect_refusal(run(*g, "-n"), 2, "-n needs a value: N")
    expect_refusal(run(*g, "stray"), 2, f"two models are given: -m {TINY} and stray")
    expect_refusal(run(*g, TINY, "stray"), 2, "`stray` is not an option")
    expect_refusal(run(*g, "--", TINY, "--json"), 2, "`--json` is not an option")
    expect_refusal(run(*g, "--system", "x"), 2, "go with --chat")
    expect_refusal(run(*g, "--two\nlines"), 2, "unknown option --two\\x0alines")
    expect_refusal(run("graph", "-m", TINY, "--dot", "--json"), 2, "exclude each other")
    expect_refusal(run("tokenize", "-m", TINY), 2, "one text is needed")
    expect_refusal(run("perplexity", "-m", TINY), 2, "-f FILE is needed")
    expect_refusal(run("bench", "-m", TINY, "-p", "0", "-n", "0"), 2, "nothing to measure")


def test_bad_values_exit_2_and_say_what_is_possible():
    g = ["generate", "-m", TINY, "-p", "a"]
    for option, value, words in [
        ("-n", "x", "not a whole number"),
        ("-n", "-1", "from 0 to 2147483647"),
        ("-n", "99999999999999999999", "from 0"),
        ("-n", "", "not a whole number"),
        ("--temp", "-0.1", "at least 0"),
        ("--temp", "nan", "not a number"),
        ("--temp", "1e99", "not a number"),
        ("--top-p", "1.5", "to 1"),
        ("--top-p", "0", "to 1"),
        ("--min-p", "2", "from 0 to 1"),
        ("--top-k", "1.5", "not a whole number"),
        ("--repeat-penalty", "0", "at least 1e-06"),
        ("--seed", "-3", "2^64-1"),
        ("--seed", "18446744073709551616", "2^64-1"),
        ("-t", "5000", "from 0 to 512"),
        ("--typical", "2", "from 0 to 1"),
        ("--mirostat", "3", "from 0 to 2"),
        ("--dry-base", "0.5", "from 1 to 1e+06"),
    ]:
        expect_refusal(run(*g, option, value), 2, value, words)
    expect_refusal(run("bench", "-m", TINY, "-r", "0"), 2, "from 1 to")


def test_steps_of_sampling():
    g = ["generate", "-m", TINY, "-p", "abc", "-n", "12", "-q", "--ignore-eos"]
    greedy = ok(run(*g)).out
    banned = json.loads(ok(run(*g, "--json", "--logit-bias", "36-inf", "--logit-bias", "12+3")).out)
    expect(36 not in banned["tokens"], "a banned token", banned)
    for more in (["--samplers", "temperature"], ["--dry-sequence-breaker", "none", "--dry-sequence-breaker", "x"],
                 ["--min-keep", "3"], ["--typical", "1"], ["--xtc-threshold", "0.1"]):
        expect(ok(run(*g, *more)).out == greedy, "greedy", more)
    steps = ["--temp", "0.9", "--typical", "0.9", "--top-nsigma", "2", "--xtc-probability", "0.5", "--presence-penalty", "0.2",
             "--frequency-penalty", "0.1", "--dry-multiplier", "0.8", "--dynatemp-range", "0.2", "--dynatemp-exp", "1.5"]
    expect(ok(run(*g, *steps)).out == ok(run(*g, *steps)).out != greedy, "a seed", "two replies")
    expect(ok(run(*g, "--temp", "1", "--mirostat", "2", "--mirostat-ent", "2", "--mirostat-lr", "0.2")).out != greedy, "", "mirostat")
    text = {n: ok(run(*g, "--repeat-penalty", "1.8", "--repeat-last-n", n)).out for n in ("-1", "500", "1")}
    expect(text["-1"] == text["500"] != text["1"], "all tokens are recent", text)
    dry = [*g, "-n", "60", "--dry-multiplier", "9"]
    text = {n: ok(run(*dry, "--dry-penalty-last-n", n)).out for n in ("-1", "500", "0")}
    expect(text["-1"] == text["500"] != text["0"], "all tokens are searched", text)
    for value, words in (("9", "--logit-bias 9: must be a token id, then + or - and a number"), ("9+x", "--logit-bias 9+x"),
                         ("-3+1", "--logit-bias -3+1"), ("99+1", "logit_bias: token 99: must be from 0 to 63")):
        expect_refusal(run(*g, f"--logit-bias={value}"), 1, words)
    expect_refusal(run(*g, "--mirostat", "1"), 1, "mirostat 1: must be 0 or 2")
    expect_refusal(run(*g, "--samplers", "top_q"), 1, "samplers: `top_q` is none of penalties")


def test_log_probabilities():
    g = ["generate", "-m", TINY, "-p", "abc", "-n", "4", "-q", "--ignore-eos"]
    said = json.loads(ok(run(*g, "--json", "--logprobs", "2")).out)
    expect([t["id"] for t in said["logprobs"]] == said["tokens"], "the tokens", said)
    for t in said["logprobs"]: # greedy: the most probable token, ln p < 0
        expect(t["top"][0] == {k: t[k] for k in ("id", "text", "logprob")}, "greedy", t)
        expect(0 > t["top"][0]["logprob"] >= t["top"][1]["logprob"] and len(t["top"]) == 2, "order", t)
    r = ok(run(*g, "--logprobs", "1"))
    expect(r.out == ok(run(*g)).out and len(r.err.splitlines()) == 4 and r.err.startswith('"B" -'), "one line a token", r)
    expect_refusal(run(*g, "--logprobs", "65"), 1, "n_logprobs 65: must be from 0 to 64")


def test_values_may_be_attached_to_their_option():
    a = ok(run("generate", "-m", TINY, "-p", "abc", "-n", "5", "-q"))
    b = ok(run("generate", f"--model={TINY}", "--prompt=abc", "-n5", "--quiet", "--"))
    expect(a.out == b.out and a.err == b.err == "", "", (a, b))


def test_bad_environment_is_an_error():
    expect_refusal(
        run("generate", "-m", TINY, "-p", "a", REPRISE_THREADS="many"), 1, "REPRISE_THREADS", "many"
    )
    expect_refusal(run("generate", "-m", TINY, "-p", "a", REPRISE_PASSES="-nonsense"), 1, "nonsense")
    expect_refusal(run("generate", "-m", TINY, "-p", "a", "--passes", "-nonsense"), 1, "nonsense")
    expect_refusal(run("generate", "-m", TINY, "-p", "a", "--kv", "q4_0"), 1, "--kv q4_0: must be f16 or q8_0")
    expect_refusal(run("generate", "-m", TINY, "-p", "a", "--kv", "q8_0"), 1, "not whole blocks of 32")


# ---- files ----


def test_bad_files_exit_1_with_their_name():
    with open(TINY, "rb") as f:
        data = f.read()
    files = {
        "missing": os.path.join(TMP.name, "missing.gguf"),
        "directory": TMP.name,
        "empty": temporary("empty.gguf", b""),
        "foreign": temporary("foreign.gguf", b"#!/bin/sh\necho no\n" * 99),
        "cut": temporary("cut.gguf", data[: len(data) // 2]),
        "header": temporary("header.gguf", data[:20]),
    }
    for name, path in files.items():
        for command in ON_MODELS:
            more = {"generate": ["-p", "a"], "tokenize": ["-p", "a"], "perplexity": ["-f", TINY], "rerank": ["-q", "a", "-f", TINY], "serve": ["--check"],
                    "train": ["--text", os.path.join(SOURCE, "README.md"), "-o", TMP.name + "/trained"],
                    "dump": ["logits", "-o", TMP.name + "/node.npy"], "diverge": ["--b", "threads=1"]}.get(command, [])
            expect_refusal(run(*command.split(), "-m", path, *more), 2 if command == "diverge" else 1, path)
    expect_refusal(run("generate", "-m", TMP.name + "/two\nlines", "-p", "a"), 1, "two\\x0alines")
    expect_refusal(run("generate", "-m", TINY, "-f", files["missing"]), 1, files["missing"])
    expect_refusal(
        run("perplexity", "-m", TINY, "-f", files["empty"], "--window", "8"), 1, "1 tokens do not fill one window of 8: give more text or a smaller --window"
    )


def test_an_empty_path_is_named():
    expect_refusal(run("inspect", ""), 1, "the path of the model file is empty")
    no_tokenizer = os.path.join(SOURCE, "tests/golden/checkpoints/base.gguf")
    expect_refusal(run("tokenize", no_tokenizer, "-p", "a"), 1, f"{no_tokenizer} has no tokenizer (tokenizer.ggml.model, or tokenizer.json of a directory)")
    expect_refusal(run("generate", "-m", "", "-p", "a"), 1, "the path of the model file is empty")


def test_unknown_architecture_is_inspected_but_not_run():
    with open(TINY, "rb") as f:
        data = f.read()
    at = data.index(b"llama", data.index(b"general.architecture"))
    path = temporary("arch.gguf", data[:at] + b"lxxma" + data[at + 5 :])
    expect_refusal(run("generate", "-m", path, "-p", "a"), 1, "lxxma")
    r = ok(run("inspect", "-m", path))
    expect("cannot be run here" in r.text and "lxxma" in r.text and "21 tensors" in r.text, "", r)
    expect(json.loads(ok(run("inspect", "-m", path, "--json")).text)["model"] is None, "model is null")


def test_unknown_tensor_type_is_inspected_but_not_run():
    with open(TINY, "rb") as f:
        data = bytearray(f.read())
    name = b"output_norm.weight"
    at = data.index(name) + len(name) + 4 + 8  # one dimension, then the type
    expect(data[at : at + 4] == b"\0\0\0\0", "an f32 tensor", data[at - 12 : at + 12])
    data[at : at + 4] = (28).to_bytes(4, "little")  # f64: a type with a known size that is not read here
    r = run("inspect", "-m", temporary("type.gguf", bytes(data)), "--tensors")
    expect(r.code in (0, 1), "no crash", r)
    if r.code == 0:
        expect("is not supported" in r.text, "", r)


def test_messages_are_one_line():
    expect_refusal(run("a\x1b[2J\nb\tc\x9b"), 2, "`a\\x1b[2J\\x0ab\\x09c\\x9b`")


def test_write_errors_are_reported():
    if not os.path.exists("/dev/full"):
        return "no /dev/full"
    bench = ["bench", "-m", TINY, "-p", "4", "-n", "2", "-r", "1", "-q"]
    for command in (
        ["graph", "-m", TINY],
        ["graph", "-m", TINY, "--json"],
        ["graph", "-m", TINY, "--dot"],
        ["plan", "-m", TINY, "--json"],
        ["inspect", "-m", TINY, "--tensors"],
        ["generate", "-m", TINY, "-p", "a", "-q"],
        ["generate", "-m", TINY, "-p", "a", "-q", "--json"],
        ["tokenize", "-m", TINY, "-p", "a"],
        bench,
        bench + ["--json"],
    ):
        r = run(*command, preexec_fn=lambda: os.close(1))
        expect_refusal(r, 1, "standard output", "Bad file descriptor")
        with open("/dev/full", "wb") as full:
            expect_refusal(run(*command, stdout=full), 1, "standard output", "No space left")
    expect_refusal(run("graph", "-m", TINY, "-o", "/dev/full"), 1, "/dev/full", "No space left")
    expect_refusal(run("plan", "-m", TINY, "-o", TMP.name + "/no/such"), 1, "no/such", "No such file")


def test_a_full_disk_keeps_the_old_file():
    def limit_files():  # also sends SIGXFSZ, which ends a process that does not ignore it
        resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))

    folder = tempfile.mkdtemp(dir=TMP.name)
    path = os.path.join(folder, "old")
    f16 = os.path.join(SOURCE, "tests/golden/tiny/llama-f16.gguf")
    for command in (
        ["quantize", f16, path, "--type", "Q8_0"],
        ["synth", "tiny", "-o", path],
        ["graph", "-m", TINY, "--json", "-o", path],
        ["graph", "-m", TINY, "--dot", "-o", path],
        ["plan", "-m", TINY, "--json", "-o", path],
    ):
        with open(path, "w") as f:
            f.write("precious")
        r = run(*command, preexec_fn=limit_files)
        expect_refusal(r, 1, path, "File too large")
        with open(path) as f:
            expect(f.read() == "precious", "the old file", command)
        expect(os.listdir(folder) == ["old"], "no other file", os.listdir(folder))


def test_quantize_warns_of_a_quantised_source():
    f16, q8 = (os.path.join(SOURCE, "tests/golden/tiny", name) for name in ("llama-f16.gguf", "llama-q8_0.gguf"))
    out = os.path.join(tempfile.mkdtemp(dir=TMP.name), "out.gguf")
    expect("is quantised" not in ok(run("quantize", f16, out, "--type", "Q4_0")).err, "no warning")
    expect("is quantised" in ok(run("quantize", q8, out, "--type", "Q4_0")).err, "a warning")


def test_a_hugging_face_directory_is_a_model():
    folder = os.path.join(SOURCE, "tests/golden/hf_text")
    out = os.path.join(tempfile.mkdtemp(dir=TMP.name), "out.gguf")
    said = ok(run("inspect", folder)).out
    expect(b"Hugging Face directory" in said and b"qwen3: 2 layers" in said, said)
    expect(b"chat: tools are described in a message, calls hermes, reasoning none" in said, "a template without tools", said)
    prompt = ["-p", "In the beginning", "-n", "8"]
    text = ok(run("generate", folder, *prompt)).out
    expect(text != b"" and text == ok(run("generate", folder, "--no-mmap", *prompt)).out, "the same from memory")
    ok(run("generate", folder, "--chat", "-p", "Hi", "-n", "4"))
    ok(run("quantize", folder, out, "--type", "BF16"))
    expect(ok(run("generate", out, *prompt)).out == text, "the same from the file made of it")
    expect_refusal(run("inspect", TMP.name), 1, "there is no config.json")


def test_requests_from_files():
    demo = os.path.join(SOURCE, "assets/demo.gguf")
    tool = {"name": "f", "parameters": {"properties": {"a": {"type": "string"}}}}
    source = ("{% for t in tools %}{{ t.function.name }}{% endfor %}{% for m in messages %}[{{ m.content }}]{% endfor %}"
              "{% if tools %}<tool_call></tool_call>{% endif %}<think>")
    template = temporary("think.jinja", (source + "{# </think> #}").encode())
    array = temporary("messages.json", json.dumps([{"role": "user", "content": "Hi"}]).encode())
    whole = temporary("request.json", json.dumps({"messages": [{"role": "user", "content": "Hi"}], "tools": [tool]}).encode())
    tools = temporary("tools.json", json.dumps([tool]).encode())
    given = ["-n", "24", "--template", template, "--reasoning-budget", "4"]
    lines = [json.loads(line) for line in ok(run("generate", demo, "--messages", whole, "--events", *given)).out.splitlines()]
    expect([x["event"] for x in lines[:2]] == ["reasoning"] * 2 and lines[-1] == {"event": "end"}, "events", lines)
    text = ["".join(x["text"] for x in lines if x["event"] == kind) for kind in ("reasoning", "text")]
    expect(text[0] != "" and text[1] != "" and "</think>" not in "".join(text), "reasoning, then text", lines)
    expect(ok(run("generate", demo, "--messages", array, "--tools", tools, "--events", *given)).out.splitlines()
           == ok(run("generate", demo, "--messages", whole, "--events", *given)).out.splitlines(), "tools of a file")
    shown = ok(run("generate", demo, "--chat", "-p", "Hi", "--tools", tools, *given)).out.decode()
    expect(shown.rstrip("\n") == f"(reasoning) {text[0]}\n{text[1]}".rstrip("\n"), "readable", shown)
    request = json.loads(open(whole).read())
    asked = {"type": "json_schema", "schema": {"enum": [12, 123]}}
    no_tools = temporary("no_tools.jinja", b"{% for m in messages %}{{ m.content }}{% endfor %}")
    strict = {"properties": {"a": {"enum": [1, 2]}}, "additionalProperties": False}
    for name, members, extra in (("choice", {"tools": [{"name": "f", "parameters": strict}], "tool_choice": "required"}, []), ("format", {"response_format": asked}, ["--template", no_tools]),
                                 ("grammar", {}, ["--template", no_tools, "--grammar", temporary("answer.gbnf", b'root ::= "12" "3"?')]),
                                 ("regex", {}, ["--template", no_tools, "--regex", "123?"]),
                                 ("schema", {}, ["--template", no_tools, "--schema", temporary("answer.json", json.dumps(asked["schema"]).encode())])):
        held = temporary(name + ".json", json.dumps({**(request if name == "choice" else {"messages": request["messages"]}), **members}).encode())
        lines = [json.loads(x) for x in ok(run("generate", demo, "--messages", held, "--events", "-n", "200", *(extra or given[2:]))).out.splitlines()]
        if name == "choice":
            text = "".join(x["text"] for x in lines if x["event"] == "call_arguments")
            expect([x["name"] for x in lines if x["event"] == "call_begin"] == ["f"] and isinstance(json.loads(text), dict), name, lines)
        else:
            expect("".join(x["text"] for x in lines if x["event"] == "text") in ("12", "123"), name, lines)
    bad = temporary("bad.json", b"[")
    expect_refusal(run("generate", demo, "--messages", bad, *given), 1, "bad.json: line 1: ")
    expect_refusal(run("generate", demo, "--messages", tools, *given), 1, "messages[0] has no role")
    expect_refusal(run("generate", demo, "--messages", array, "--template", "chatml"), 1,
                   "--messages, --tools, --events and --reasoning-budget need a chat template in Jinja")
    expect_refusal(run("generate", demo, "-p", "Hi", "--events"), 2, "--tools, --events and --reasoning-budget go with --chat")
    expect_refusal(run("generate", demo, "--messages", array, "--json"), 2, "do not go with tools, messages and events")
    expect_refusal(run("generate", demo, "--messages", array, "-p", "Hi"), 2, "one prompt is needed")


def test_a_closed_pipe_ends_quietly():
    for command in (
        ["generate", "-m", TINY, "-p", "a"],
        ["inspect", "-m", TINY, "--tensors"],
        ["graph", "-m", TINY, "--json"],
        ["generate", "-m", TINY, "-p", "a", "--json"],
    ):
        read, write = os.pipe()
        os.close(read)
        r = run(*command, stdout=write)
        os.close(write)
        expect(r.code == 1 and r.err == "", "exit 1 without a message", (command, r))


# ---- the other commands ----


def test_a_model_that_becomes_shorter_is_named_as_the_cause():
    path = os.path.join(TMP.name, "shrinks.gguf")
    for more in ([], ["--no-mmap"]):
        shutil.copy(os.path.join(SOURCE, "assets/demo.gguf"), path)
        p = subprocess.Popen([PROGRAM, "chat", path, "--template", "chatml", "-n", "2", "-q", *more],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             env={**os.environ, "REPRISE_DEVICE": "cpu"})
        p.stdin.write(b"a\n")
        p.stdin.flush()
        p.stdout.read(1)  # the first reply: the model is open
        os.truncate(path, 1 << 16)
        out, err = p.communicate(b"b\n", timeout=HANG_S)
        r = Result(p.returncode, out, err)
        expect(r.code == (0 if more else -signal.SIGBUS), "the end", r)
        expect(more or r.err.count("--no-mmap") == 1, "the remedy, once", r)


def test_tokenize_prints_ids_and_texts():
    t = ["tokenize", "-m", TINY]
    o = json.loads(ok(run(*t, "-p", "ABC", "--json")).text)
    expect([p["text"] for p in o[:1] + o[-3:]] == ["<s>", "A", "B", "C"], "", o)
    ids = [p["id"] for p in o]
    expect(json.loads(ok(run(*t, "-p", "ABC", "--json", "--ids")).text) == ids, "--ids --json")
    expect(ok(run(*t, "-p", "ABC", "--ids")).text.split() == [str(i) for i in ids], "--ids")
    expect(
        json.loads(ok(run(*t, "-p", "ABC", "--no-special", "--json", "--ids")).text) == ids[1:],
        "--no-special",
    )
    expect(len(ok(run(*t, "-p", "ABC")).text.splitlines()) == len(ids), "one line a token")
    expect(json.loads(ok(run(*t, "-p", "", "--no-special", "--json")).text) == [], "nothing")
    emoji = ok(run("tokenize", "-p", "\U0001f600", "--no-special"))  # the demo model, which has byte tokens
    expect("<F0>" in emoji.text and "<80>" in emoji.text and "\ufffd" not in emoji.text, "bytes of a character", emoji)


def test_inspect_says_what_of_a_model_is_not_used():
    folder = tempfile.mkdtemp(dir=TMP.name)
    source = os.path.join(SOURCE, "tests/golden/hf/gemma4")
    shutil.copy(os.path.join(source, "model.safetensors"), folder)
    with open(os.path.join(source, "config.json")) as f:
        config = json.load(f)
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(config | {"vision_config": {}, "audio_config": {}}, f)
    r = ok(run("inspect", folder))
    expect("\nnot read: images, sound\n" in r.text, "", r)
    expect("\ntext: only as token ids: " + folder + " has no tokenizer (" in r.text, "", r)
    o = json.loads(ok(run("inspect", folder, "--json")).text)
    expect(o["n_tokens"] is None and "has no tokenizer" in o["no_text"], "", o)
    nextn = os.path.join(SOURCE, "tests/golden/tiny/qwen35-mix.gguf")
    assistant = os.path.join(SOURCE, "tests/golden/assistant/gemma4-mix.gguf")
    expect("\nassistant: it guesses tokens of another model, as the FILE of --draft" in ok(run("inspect", assistant)).text, "assistant")
    expect(json.loads(ok(run("inspect", assistant, "--json")).text)["model"]["assistant"] is True, "assistant")
    expect("\nmulti-token prediction: 1 further layer, the first guesses tokens ahead (MTP)\n" in ok(run("inspect", nextn)).text, "nextn")


def test_inspect_describes_a_model():
    r = ok(run("inspect", "-m", TINY))
    for word in ("llama", "21 tensors", "general.architecture", "64 in all", "100.0 %", "context 512", "\ntext: a tokenizer of 64 tokens\n"):
        expect(word in r.text, word, r)
    expect("blk.0.attn_q.weight" not in r.text, "tensors only with --tensors", r)
    expect("blk.0.attn_q.weight" in ok(run("inspect", "-m", TINY, "--tensors")).text, "--tensors")
    o = json.loads(ok(run("inspect", "-m", TINY, "--json")).text)
    expect(o["n_tokens"] == 64 and "no_text" not in o, "tokens", o)
    expect(len(o["tensors"]) == 21 and o["file_bytes"] == os.path.getsize(TINY), "", o)
    expect(
        o["weight_bytes"] == sum(t["bytes"] for t in o["tensors"]) == sum(t["bytes"] for t in o["types"]),
        "",
        o,
    )
    expect({m["key"]: m["value"] for m in o["metadata"]}["llama.block_count"] == 2, "", o)


def test_graph_prints_text_dot_and_json():
    g = ["graph", "-m", TINY]
    expect("gate_up" in ok(run(*g)).text, "text")
    expect(ok(run(*g, "--text")).out == ok(run(*g)).out, "--text is the default")
    dot = ok(run(*g, "--dot")).text
    expect(
        dot.startswith("digraph") and dot.rstrip().endswith("}") and dot.count("{") == dot.count("}"),
        "",
        dot[-99:],
    )
    nodes = json.loads(ok(run(*g, "--json")).text)["nodes"]
    raw = json.loads(ok(run(*g, "--json", "--raw")).text)["nodes"]
    expect(
        len(raw) > 20 and [n["op"] for n in raw] != [n["op"] for n in nodes], "the passes change something"
    )
    expect(
        json.loads(ok(run(*g, "--json", "--passes", "-all")).text)["nodes"] == raw,
        "-all leaves the raw graph",
    )
    one = json.loads(ok(run(*g, "--json", "--layer", "1")).text)["nodes"]
    expect(one and all(n["layer"] == 1 for n in one), "--layer")
    expect_refusal(run(*g, "--layer", "2"), 1, "--layer 2: the model has the layers 0 to 1")
    path = os.path.join(TMP.name, "graph.dot")
    expect(ok(run(*g, "--dot", "-o", path)).out == b"", "nothing on stdout")
    with open(path, encoding="utf-8") as f:
        expect(f.read() == dot, "-o writes the same")


def test_plan_adds_up_the_memory():
    r = ok(run("plan", "-m", TINY, "-c", "64"))
    expect("context of 64 tokens" in r.text and "cache" in r.text and "arena" in r.text, "", r)
    o = json.loads(ok(run("plan", "-m", TINY, "-c", "64", "--json")).text)
    m = o["memory"]
    expect(m["n_ctx"] == 64 and m["total"] == m["weights"] + m["kv"] + m["states"] + m["arena"], "", m)
    expect(m["kv"] == 2 * 2 * 2 * 16 * 2 * 64, "2 layers, K and V, 2 heads of 16 f16, 64 positions", m)
    expect(o["plan"], "a plan", o)


def test_bench_sequences_reports_the_rate_of_all():
    b = ["bench", "sequences", "-m", TINY, "-p", "8", "-n", "3", "-s", "3", "-t", "1"]
    rows = json.loads(ok(run(*b, "--json")).text)
    assert [r["sequences"] for r in rows["results"]] == [1, 2, 3] and all(r["tok_s"] > 0 for r in rows["results"]), rows
    lines = ok(run(*b)).text.splitlines()
    assert lines[1].split() == ["sequences", "tok/s", "of", "all", "of", "each", "times", "one"], lines
    assert [line.split()[0] for line in lines[2:]] == ["1", "2", "3"] and lines[2].split()[-1] == "1.00", lines
    expect_refusal(run(*b, "-s", "65"), 2, "from 1 to 64")
    expect_refusal(run(*b, "-p", "10000"), 1, "n_ctx of an engine is 10165: must be from 1 to 512")
    rows = json.loads(ok(run("bench", "sequences", "-m", TINY, "-p", "400", "-n", "1", "-s", "4", "-t", "1", "--json")).text)
    assert all(r["tok_s"] > 0 for r in rows["results"]), rows # the first reply goes on while the prompts of the last run


def test_bench_reports_rates_and_bytes():
    b = ["bench", "-m", TINY, "-p", "8", "-n", "4", "-r", "3", "-t", "1"]
    o = json.loads(ok(run(*b, "--json")).text)
    expect([t["test"] for t in o["results"]] == ["pp8", "tg4"] and o["threads"] == 1, "", o)
    for t in o["results"]:
        expect(len(t["runs"]) == 3 and abs(t["median_tok_s"] - sorted(t["runs"])[1]) < 0.01 > 0, "", t)
    expect(o["bytes_per_token"] > 0 and o["gb_s"] >= 0, "", o)
    r = ok(run(*b))
    expect("pp8" in r.text and "tg4" in r.text, "", r)
    said = re.search(r"^\d+ % of the weights are on huge pages$", r.text, re.M)
    expect(0 <= o["huge_pages"] <= 1 and said, o["huge_pages"], r)
    copied = json.loads(ok(run("bench", "-p", "0", "-n", "1", "-r", "1", "--json", "--repack", "on")).text)
    expect(copied["repack_bytes"] > 0 and copied["huge_pages"] is None, "", copied)
    # Six of seven layers have a window of 8 positions. K and V of a position: 2 heads of 16 in f16, 128 bytes.
    windowed = os.path.join(SOURCE, "tests/golden/tiny/gemma3-f32.gguf")
    info = json.loads(ok(run("inspect", "-m", windowed, "--json")).text)["model"]
    expect((info["window"], info["n_layer_local"], info["n_layer"]) == (8, 6, 7), "", info)
    recurrent = os.path.join(SOURCE, "tests/golden/tiny/qwen35-f32.gguf") # keeps no state behind a prompt of one token
    ok(run("bench", "-m", recurrent, "-p", "4", "-n", "2", "-d", "1", "-r", "2", "--json"))
    deep = json.loads(ok(run("bench", "-m", windowed, "-p", "0", "-n", "2", "-d", "20", "-r", "1", "--json")).text)
    expect(deep["bytes_per_token"] == info["decode_weight_bytes"] + 128 * (6 * 8 + 21.5), "", deep)
    only = json.loads(ok(run("bench", "-m", TINY, "-p", "0", "-n", "2", "-r", "1", "--json")).text)
    expect([t["test"] for t in only["results"]] == ["tg2"], "", only)


def test_perplexity_covers_every_window():
    path = temporary("ppl.txt", b"the quick brown fox jumps over the lazy dog. " * 20)
    p = ["perplexity", "-m", TINY, "-f", path, "--window", "32"]
    o = json.loads(ok(run(*p, "--json")).text)
    expect(o["tokens"] == o["windows"] * 31 and o["windows"] > 3 and o["perplexity"] > 1, "", o)
    expect(o["standard_error"] > 0, "", o)
    r = ok(run(*p, "-t", "1"))
    expect(
        f"perplexity {o['perplexity']:.4f} +- {o['standard_error']:.4f} over {o['tokens']} tokens" in r.text,
        "",
        r,
    )


run_tests(globals())

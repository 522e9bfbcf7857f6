"""--manifest and `reprise repeat`: what a manifest has, that a repetition agrees in every bit, where one parts, and what cannot
be run.

    test_manifest.py PROGRAM SOURCE_DIR

Hashes of files are checked by an XXH64 written down here from the specification."""

import json
import os
import re
import shutil
import struct

from cli_program import MIX, SOURCE, TMP, expect, expect_refusal, ok, run, run_tests

DEMO = os.path.join(SOURCE, "assets/demo.gguf")
ADAPTER = os.path.join(SOURCE, "tests/golden/lora/adapter.gguf")
TINY = os.path.join(SOURCE, "tests/golden/tiny/llama-f32.gguf")
PRIMES = 11400714785074694791, 14029467366897019727, 1609587929392839161, 9650029242287828579, 2870177450012600261
MTP = os.path.join(SOURCE, "tests/golden/tiny/qwen35-mix.gguf")
WORDS = ["-p", "Once upon a time", "-n", "12", "-q"]


def xxh64(data):
    mask, (p1, p2, p3, p4, p5) = (1 << 64) - 1, PRIMES

    def turn(x, n):
        return (x << n | x >> (64 - n)) & mask

    def step(lane, x):
        return turn((lane + x * p2) & mask, 31) * p1 & mask

    at, n = 0, len(data)
    if n >= 32:
        lanes = [(p1 + p2) & mask, p2, 0, -p1 & mask]
        while at + 32 <= n:
            lanes = [step(lane, x) for lane, x in zip(lanes, struct.unpack_from("<4Q", data, at))]
            at += 32
        h = sum(turn(lane, r) for lane, r in zip(lanes, (1, 7, 12, 18))) & mask
        for lane in lanes:
            h = ((h ^ step(0, lane)) * p1 + p4) & mask
    else:
        h = p5
    h = (h + n) & mask
    while at + 8 <= n:
        h = (turn(h ^ step(0, struct.unpack_from("<Q", data, at)[0]), 27) * p1 + p4) & mask
        at += 8
    if at + 4 <= n:
        h = (turn(h ^ struct.unpack_from("<I", data, at)[0] * p1 & mask, 23) * p2 + p3) & mask
        at += 4
    for byte in data[at:]:
        h = turn(h ^ byte * p5 & mask, 11) * p1 & mask
    h = (h ^ h >> 33) * p2 & mask
    h = (h ^ h >> 29) * p3 & mask
    return h ^ h >> 32


def contents(path):
    with open(path, "rb") as f:
        return f.read()


def path(name):
    return os.path.join(TMP.name, name)


def record(name, *args, model=MIX, **env):
    """Generates with a manifest; returns its path, the manifest and the result."""
    r = ok(run("generate", model, *(args or WORDS), "--manifest", path(name), **env))
    return path(name), json.loads(contents(path(name))), r


def write(name, manifest):
    """Writes a changed manifest with a checksum that is right."""
    manifest.pop("checksum", None)
    text = json.dumps(manifest, separators=(",", ":")).encode()[:-1]
    text += b',"checksum":"%016x"}\n' % xxh64(text)
    with open(path(name), "wb") as f:
        f.write(text)
    return path(name)


def test_infinite_biases():
    for bias, written in ("5-inf", None), ("5+inf", "inf"):
        file, m, _ = record("bias.json", *WORDS, "--logit-bias", bias)
        expect(m["sampling"]["logit_bias"] == [[5, written]], bias, m["sampling"])
        ok(run("repeat", "-q", file))


def test_a_context_that_is_too_small():
    """The tokens behind its end have not been compared."""
    for more in [], ["--lookup", "4"]:
        m = record("small.json", *WORDS, *more)[1]
        m["run"]["ctx"] = len(m["turns"][0]["prompt"]) + 3
        expect_refusal(run("repeat", write("small.json", m)), 2, "do not fit: the context holds" if not more else "turn 1: the reply ends after 4 of 12 tokens (context is full)")


def test_the_manifest_has_what_ran():
    expect(xxh64(b"") == 0xEF46DB3751D8E999, "the reference", hex(xxh64(b"")))
    sampling = ["--temp", "0.7", "--top-k", "20", "--top-p", "0.9", "--seed", "18446744073709551615", "--logit-bias", "5-inf",
                "--stop", "zzz", "--dry-multiplier", "0.5", "--samplers", "dry;top_k;top_p;temperature"]
    _, m, r = record("has.json", *WORDS, "--special", *sampling, "-t", "2", REPRISE_ISA="plain")
    data = json.loads(ok(run("generate", MIX, *WORDS, *sampling, "--json")).text)
    turn = m["turns"][0]
    expect(turn["tokens"] == data["tokens"], "the tokens of --json", (turn, data))
    expect(turn["reply_text"] == r.text.rstrip("\n"), "the reply", (turn, r))
    text = record("text.json", *WORDS, model=DEMO)[1]["turns"][0]["prompt_text"]
    expect(text.endswith("Once upon a time"), "the prompt", text)
    expect(len(turn["draws"]) == len(turn["logits_xxh64"]) == len(turn["tokens"]), "one of each", turn)
    expect(set(turn["draws"]) == {"d"} and turn["kept"] == 0 and turn["fresh"], "drawn", turn)
    expect(turn["reason"] in ("limit", "end token"), "the reason", turn)
    expect(m["model"] == {"path": MIX, "bytes": os.path.getsize(MIX), "xxh64": f"{xxh64(contents(MIX)):016x}"}, "model", m["model"])
    version = ok(run("--version")).text
    expect(f"reprise {m['program']['version']}\n" in version, "version", m["program"])
    expect(re.fullmatch(r"([0-9a-f]{40}(-dirty)?)?", m["program"]["commit"]), "commit", m["program"])
    expect(m["arguments"][0] == MIX and m["arguments"][-2:] == ["--manifest", path("has.json")], "arguments", m["arguments"])
    expect("REPRISE_ISA=plain" in m["environment"], "environment", m["environment"])
    s, run_of = m["sampling"], m["run"]
    expect((s["seed"], s["top_k"], s["logit_bias"], s["samplers"]) ==
           ("18446744073709551615", 20, [[5, None]], "dry;top_k;top_p;temperature"), "sampling", s)
    expect(abs(s["temperature"] - 0.7) < 1e-7 and m["stop"] == ["zzz"] and m["max_tokens"] == 12, "sampling", m)
    expect((run_of["device"], run_of["device_name"], run_of["kv"], run_of["threads"], run_of["engine"]) ==
           ("cpu", "plain", "f16", 2, None), "run", run_of)
    expect(contents(path("has.json")).endswith(b'"checksum":"%s"}\n' % m["checksum"].encode()), "the checksum", m)


def test_every_kind_of_run_is_repeated():
    grammar = path("list.gbnf")
    with open(grammar, "w") as f:
        f.write('root ::= "abc" [a-z]+ "xyz"')
    template, messages = path("t.jinja"), path("messages.json")
    with open(template, "w") as f:
        f.write("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}")
    with open(messages, "w") as f:
        json.dump({"messages": [{"role": "user", "content": "Hello"}], "response_format": {"type": "json_object"}}, f)
    schema, called = path("schema.json"), path("called.json")
    with open(schema, "w") as f:
        json.dump({"type": "object", "properties": {"a": {"type": "string"}, "b": {"enum": ["x", "yy"]}}, "required": ["a", "b"]}, f)
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}}}
    with open(called, "w") as f:
        json.dump({"messages": [{"role": "user", "content": "Hello"}], "tools": [tool], "tool_choice": "required"}, f)
    hermes = path("hermes.jinja")
    with open(hermes, "w") as f:
        f.write("{% for m in messages %}{{ m.content }}\n{% endfor %}{% if tools %}<tool_call>\n{\"name\": <function-name>, \"arguments\": <args-json-object>}\n</tool_call>{% endif %}")
    sampled = ["--temp", "1", "-s", "3"]
    thinking, plain = path("think.jinja"), path("plain.json")
    with open(thinking, "w") as f:
        f.write("{% for m in messages %}{{ m.content }}\n{% endfor %}{% if add_generation_prompt %}<think>\n{% endif %}{# </think> #}")
    with open(plain, "w") as f:
        json.dump([{"role": "user", "content": "Hello"}], f)
    held = {"grammar": "gbnf", "schema": "schema", "regex": "regex", "object": "json", "guessed": "gbnf", "request": "chat", "no texts": None, "call": "chat",
            "budget": "chat"}
    for name, model, args in [
        ("greedy", MIX, WORDS),
        ("sampled", MIX, [*WORDS, *sampled, "--repeat-penalty", "1.3", "--frequency-penalty", "0.1"]),
        ("mirostat", MIX, [*WORDS, *sampled, "--mirostat", "2"]),
        ("no breakers", DEMO, [*WORDS, *sampled, "--dry-multiplier", "1", "--dry-sequence-breaker", "none"]),
        ("breakers", DEMO, [*WORDS, *sampled, "--dry-multiplier", "1", "--dry-sequence-breaker", "the"]),
        ("passes", MIX, [*WORDS, "--passes", "-all"]),
        ("kv", DEMO, [*WORDS, "--kv", "q8_0"]),
        ("ctx", MIX, [*WORDS, "-c", "40", "-n", "0", "--ignore-eos"]),
        ("logprobs", MIX, [*WORDS, *sampled, "--logprobs", "2"]),
        ("lookup", DEMO, [*WORDS, *sampled, "--lookup", "4"]),
        ("draft", MIX, [*WORDS, *sampled, "--draft", MIX]),
        ("mtp", MTP, [*WORDS, *sampled, "--ignore-eos"]),
        ("no mtp", MTP, [*WORDS, *sampled, "--ignore-eos", "--no-mtp"]),
        ("adapter", TINY, [*WORDS, "--lora", ADAPTER + ":0.5"]),
        ("grammar", DEMO, [*WORDS, *sampled, "--grammar", grammar]),
        ("schema", DEMO, [*WORDS, *sampled, "--schema", schema, "-n", "30"]),
        ("regex", DEMO, [*WORDS, *sampled, "--regex", "(one|two) [a-z ]{3,20}"]),
        ("object", DEMO, [*WORDS, *sampled, "--json-object"]),
        ("guessed", DEMO, [*WORDS, *sampled, "--grammar", grammar, "--lookup", "4"]),
        ("no texts", DEMO, [*WORDS, *sampled, "--grammar", grammar, "--manifest-no-text"]),
        ("budget", DEMO, ["--messages", plain, "--template", thinking, "--reasoning-budget", "4", "-n", "20", "-q", *sampled]),
        ("call", DEMO, ["--messages", called, "--template", hermes, "-n", "40", "-q", *sampled]),
        ("stopped", DEMO, [*WORDS, "--stop", "e"]),
        ("request", DEMO, ["--messages", messages, "--template", template, "-n", "12", "-q", *sampled]),
        ("json", DEMO, [*WORDS, *sampled, "--json"]),
    ]:
        file, m, _ = record("run.json", *args, model=model)
        r = ok(run("repeat", file, "-q"))
        n = len(m["turns"][0]["tokens"])
        expect(r.text.startswith(f"equal: {n} tokens, and the logits of each\n"), name, r)
        turn = m["turns"][0]
        n_held = sum(d != "d" for d in turn["draws"])
        expect((n_held > 0) == (name in held) and (turn["grammar"] or {}).get("kind") == held.get(name), name, turn)
        if name in held and name != "no texts":
            expect(n_held == n and "m" in turn["draws"] or name == "budget" and re.fullmatch("d{4}f+d+", turn["draws"]), f"{name}: draws", turn)
            check_that_held_tokens_are_drawn(name, m)
            m["turns"][0]["grammar"] = None
            r = ok(run("repeat", write("run.json", m), "-q"))
        expect(("held by a grammar or a budget that the manifest does not have" in r.text) == (n_held > 0), name, r)
        data = json.loads(ok(run("repeat", file, "--json", "-q")).text)
        expect((data["equal"], data["tokens"], data["held"], data["parts"]) == (True, n, n_held, None), name, data)
        expect(data["differences"] == [], name, data)
        expect((m["run"]["engine"] is not None) == (name in ("lookup", "guessed", "draft", "mtp")), name, m["run"])


def check_that_held_tokens_are_drawn(name, manifest):
    """Nothing is held by the manifest's word, and a token that was drawn differently is found, though its logits are the same."""
    m = json.loads(json.dumps(manifest))
    data = json.loads(ok(run("repeat", path("run.json"), "--json", "-q")).text)
    expect((data["equal"], data["held"]) == (True, 0), f"{name}: drawn again", data)
    turn = m["turns"][0]
    last = max(i for i, d in enumerate(turn["draws"]) if d in ("mf"))
    then = turn["tokens"][last]
    for list_of in "tokens", "logits_xxh64":
        del turn[list_of][last + 1:]
    turn["draws"] = turn["draws"][:last + 1]
    turn["tokens"][last] = then + 1
    r = run("repeat", write("other.json", m), "-q", "--json")
    expect(r.code == 1, f"{name}: another token", r)
    parts = json.loads(r.text)["parts"]
    expect((parts["token"], parts["then"], parts["now"]) == (last + 1, then + 1, then) and parts["logits_then"] == parts["logits_now"], name, parts)


def test_manifests_of_the_first_format_are_read():
    file, m, _ = record("old.json", *WORDS, model=DEMO)
    m["reprise_manifest"] = 1
    for turn in m["turns"]:
        del turn["grammar"]
    ok(run("repeat", write("old.json", m), "-q"))


def chat(name, lines, *args, **env):
    r = ok(run("chat", DEMO, "-q", "-n", "8", *args, "--manifest", path(name), stdin=lines.encode(), **env))
    return path(name), json.loads(contents(path(name))), r


def test_each_turn_of_a_chat_is_repeated():
    template = path("chat.jinja")
    with open(template, "w") as f:
        f.write("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:")
    sampled = ["--temp", "1", "-s", "9", "--repeat-penalty", "1.2"]
    words = "In the beginning\nand then\n/regen\n/reset\nOnce upon a time\nonce more\n"
    thinking = path("thinking.jinja")
    with open(thinking, "w") as f:
        f.write("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:<think>\n{# </think> #}")
    continued = set()
    for kind, args in (("dialogue", ["--template", template]), ("plain", ["--template", "chatml"]), ("none", ["--no-template"]),
                       ("budget", ["--template", thinking, "--reasoning-budget", "2"]),
                       ("guessed dialogue", ["--template", template, "--lookup", "4"]),
                       ("guessed", ["--template", "chatml", "--draft", DEMO])):
        lines = words if kind in ("dialogue", "budget", "guessed dialogue") else words.replace("/regen\n", "")
        file, m, r = chat("chat.json", lines, *args, *sampled)
        n = lines.count("\n") - 1
        expect(len(m["turns"]) == n, f"{kind}: a turn for each reply", (len(m["turns"]), r))
        expect([t["fresh"] for t in m["turns"]] == [i in (0, n - 2) for i in range(n)], f"{kind}: fresh", m["turns"])
        expect([t["kept"] > 0 for t in m["turns"]] == [i not in (0, n - 2) for i in range(n)], f"{kind}: kept", m["turns"])
        for before, t in zip(m["turns"], m["turns"][1:]):
            whole = before["prompt"] + before["tokens"]
            if not t["fresh"] and t["prompt"][:len(whole)] == whole:
                expect(t["kept"] == len(whole), f"{kind}: the sampler accepts the last token of a reply once", (before, t))
                continued.add(kind)
        expect([t["reply_text"].strip() for t in m["turns"]] == [w.strip() for w in r.text.split("\n") if w.strip()] or kind != "dialogue",
               f"{kind}: replies", (m["turns"], r))
        total = sum(len(t["tokens"]) for t in m["turns"])
        repeated = ok(run("repeat", file, "-q"))
        expect(repeated.text == f"equal: {total} tokens, and the logits of each\n", kind, repeated)
        expect((kind == "budget") == all(t["grammar"] is not None and "f" in t["draws"] for t in m["turns"]), f"{kind}: grammars", m["turns"])
        m["turns"][n - 1]["logits_xxh64"][3] = "0" * 16
        repeated = run("repeat", write("chat2.json", m), "-q")
        expect(repeated.code == 1 and repeated.text.startswith(f"differs at token 4 of turn {n}: "), kind, repeated)
    expect(continued >= {"plain", "none", "guessed"}, "turns that continue", continued)
    r = run("chat", DEMO, "-q", "--no-template", "--manifest", path("silent.json"))
    expect(r.code == 1 and "no manifest: there was no reply" in r.err and not os.path.exists(path("silent.json")), "no reply", r)


def test_threads_and_instruction_sets_keep_every_bit_and_are_reported():
    file, _, _ = record("isa.json", *WORDS, "-t", "2", REPRISE_ISA="auto")
    r = ok(run("repeat", file, "-t", "1", REPRISE_ISA="plain"))
    expect("threads: 2 then, 1 now" in r.text and "environment: none then, REPRISE_ISA=plain now" in r.text, "differences", r)
    expect("instruction set or GPU: " in r.text or os.uname().machine != "x86_64", "instruction set", r)


def test_a_run_that_parts_says_where():
    file, m, _ = record("parts.json", *WORDS, "--temp", "1", "-s", "5", model=DEMO)
    # Other passes give other bits: the first logits differ.
    r = run("repeat", file, REPRISE_PASSES="-quantize")
    expect(r.code == 1 and r.text.startswith("differs at token 1 of turn 1: "), "the first token", r)
    expect("; the logits differ\n" in r.text, "logits", r)
    expect(re.search(r"plan hash: [0-9a-f]{16} then, [0-9a-f]{16} now", r.text), "the plan", r)
    expect("environment: none then, REPRISE_PASSES=-quantize now" in r.text, "the option", r)
    # One hash is changed: that token parts, though all tokens are the same.
    m["turns"][0]["logits_xxh64"][6] = "0" * 16
    data = run("repeat", write("hash.json", m), "--json")
    parts = json.loads(data.text)["parts"]
    token = m["turns"][0]["tokens"][6]
    expect(data.code == 1 and (parts["turn"], parts["token"], parts["then"], parts["now"]) == (1, 7, token, token), "where", parts)
    expect(parts["logits_then"] == "0" * 16 and json.loads(data.text)["tokens"] == 6, "six are equal", data)
    expect("nothing that the manifest knows differs" in run("repeat", path("hash.json")).text, "no difference", data)
    # Another seed draws other tokens from the same logits.
    m = json.loads(contents(file))
    m["sampling"]["seed"] = "6"
    r = run("repeat", write("seed.json", m))
    expect(r.code == 1 and "; the logits are the same\n" in r.text, "another seed", r)
    other = json.loads(ok(run("generate", DEMO, *WORDS, "--temp", "1", "-s", "6", "--json")).text)["tokens"]
    first = next(i for i, (a, b) in enumerate(zip(m["turns"][0]["tokens"], other)) if a != b)
    expect(re.match(rf"differs at token {first + 1} of turn 1: {m['turns'][0]['tokens'][first]} .* then, {other[first]} .* now; ",
                    r.text), "both tokens", (r, first))


def test_other_files_are_refused():
    file, m, _ = record("files.json", *WORDS, "--temp", "1", "--lora", ADAPTER, "--draft", TINY, model=TINY)
    moved, changed = path("moved.gguf"), path("changed.gguf")
    shutil.copy(TINY, moved)
    ok(run("repeat", file, "-m", moved, "--draft", moved, "--lora", ADAPTER, "-q"))
    data = bytearray(contents(TINY))
    data[-40] ^= 0x10  # in the last weight
    with open(changed, "wb") as f:
        f.write(data)
    n = len(data)
    expect_refusal(run("repeat", file, "-q", "-m", changed), 2,
                   f"{changed} is not the file of the manifest: XXH64 {xxh64(bytes(data)):016x} of {n} bytes, and then "
                   f"{xxh64(contents(TINY)):016x} of {n} bytes (--anyway runs it all the same)")
    r = run("repeat", file, "-q", "-m", changed, "--anyway")
    expect(r.code in (0, 1) and (r.code == 0 or "model hash: " in r.text), "runs", r)
    with open(changed, "wb") as f:
        f.write(contents(TINY)[:-1])
    expect_refusal(run("repeat", file, "-q", "-m", changed), 2, "is not the file of the manifest")
    expect_refusal(run("repeat", file, "-q", "-m", path("no.gguf")), 2, "no.gguf: No such file or directory")
    expect_refusal(run("repeat", file, "-q", "--lora", ADAPTER, "--lora", ADAPTER), 2,
                   "2 adapters are given, and the manifest has 1")
    expect_refusal(run("repeat", file, "-q", "--lora", MIX), 2, "is not the file of the manifest")
    expect_refusal(run("repeat", file, "-q", "--draft", MIX), 2, "is not the file of the manifest")
    m["draft"] = None
    expect_refusal(run("repeat", write("draft.json", m), "-q", "--draft", TINY), 2, "--draft: the manifest has no draft model")
    m["turns"][0]["tokens"][0] = 64
    expect_refusal(run("repeat", write("token.json", m), "-q"), 2, "the manifest has a token 64, and the vocabulary has 64")
    m["turns"][0]["tokens"][0] = 3
    m["turns"][0]["prompt"][0] = 64
    m["run"]["engine"] = None
    expect(run("repeat", write("prompt.json", m), "-q").code == 2, "a prompt of another vocabulary", m["turns"])
    m["run"]["kv"] = "f8"
    expect_refusal(run("repeat", write("kv.json", m), "-q"), 2, "--kv f8: must be f16 or q8_0")
    m["run"]["kv"], m["run"]["ctx"] = "f16", 1 << 30
    expect(run("repeat", write("ctx.json", m), "-q").code == 2, "a context of 2^30", m["run"])
    expect_refusal(run("repeat", MIX, "-q"), 2, "is no manifest, or not all of one")
    expect_refusal(run("repeat", file, "-q", "--device", "tpu"), 2, "tpu")


def test_failing_writes_are_reported():
    full = run("generate", MIX, *WORDS, "--manifest", "/dev/full")
    expect(full.code == 1 and full.out and "/dev/full: No space left on device" in full.err, "a full disk", full)
    expect_refusal(run("generate", MIX, *WORDS, "--manifest", path("none/m.json")), 1, "none/m.json")
    old = record("old.json")[0]
    before = contents(old)
    r = run("generate", MIX, "-p", "a" * 3000, "-q", "--manifest", old)
    expect(r.code == 1 and contents(old) == before, "the old file stays after a failure", r)
    r = run("generate", MIX, *WORDS, "--manifest", MIX)
    expect(r.code == 2 and "are the same file: an output must not be an input" in r.err, "the model", r)
    expect([n for n in os.listdir(TMP.name) if n.startswith(".reprise")] == [], "no temporary file", os.listdir(TMP.name))
    adapters = [w for _ in range(65) for w in ("--lora", ADAPTER)]
    expect_refusal(run("generate", TINY, *WORDS, *adapters, "--manifest", path("many.json")), 1, "--manifest: more than 64 adapters")


def test_only_manifests_are_replaced():
    old = path("old.txt")
    for text in (b"old", b'{"model":1}', b"\0" * 40):
        with open(old, "wb") as f:
            f.write(text)
        for command in (["generate", MIX, *WORDS], ["chat", MIX, "-q", "--template", "chatml"]):
            expect_refusal(run(*command, "--manifest", old), 1, f"{old}: is no manifest, and is not replaced by one")
            expect(contents(old) == text, "it stays", command)
    os.truncate(old, 0)
    for _ in range(2):  # an empty file, then a manifest
        ok(run("generate", MIX, *WORDS, "--manifest", old))
        ok(run("repeat", old, "-q"))


def test_a_path_that_json_cannot_have():
    other = os.fsencode(path("m")) + b"\xff.gguf"
    shutil.copy(TINY, other)
    for arguments in ([other, *WORDS], [TINY, *WORDS, "--draft", other], [TINY, *WORDS, "--lora", other]):
        expect_refusal(run("generate", *arguments, "--manifest", path("path.json")), 1, "the path is not UTF-8, so that a manifest cannot name the file")
        expect(not os.path.exists(path("path.json")), "no manifest", arguments)
    named = path("m\u00e9.gguf")
    shutil.copy(TINY, named)
    ok(run("generate", named, *WORDS, "--manifest", path("path.json")))
    ok(run("repeat", path("path.json"), "-q"))


def test_texts_can_be_left_out():
    file, m, _ = record("no.json", *WORDS, "--manifest-no-text")
    turn = m["turns"][0]
    expect(m["arguments"] is None and turn["prompt_text"] is None and turn["reply_text"] is None, "no texts", m)
    expect(b"Once" not in contents(file), "not the prompt", m)
    ok(run("repeat", file, "-q"))


run_tests(dict(globals()))

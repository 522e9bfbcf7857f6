"""Runs commands of the program while its first, second, third, ... call for memory or files fails (tests/cli/arm_faults.c),
until a command makes no further call. Calls inside the library do not count: tests/files/test_host_faults.c and
tests/files/test_file_faults.c have those.

    test_faults.py PROGRAM SOURCE_DIR

A command must print a message and exit with 1 (diverge also with 2, as diff does), or print what it prints without the failure.
"""

import os
import re
import shutil

from cli_program import MIX, SOURCE, TINY, TMP, expect, ok, run, run_tests, temporary

# Commands may do without these calls: files that were only read are closed, a file is a model unless it is a pipe, and some
# file systems cannot sync folders.
HARMLESS = {"close", "fclose", "fopen", "stat", "fsync"}
STEP = 1 if os.environ.get("REPRISE_TEST_EVERY_CALL") else 13  # beyond the first 60 calls, which are tried one by one
FAILED = os.path.join(TMP.name, "failed")


def failing(k, command, stdin, output):
    """Runs the command while call k fails. Returns the result, the output and the name of the function, "-" for none."""
    if output and os.path.exists(output):
        os.remove(output)
    if os.path.exists(FAILED):
        os.remove(FAILED)
    r = run(*command, stdin=stdin, REPRISE_TEST_FAIL=str(k), REPRISE_TEST_FAILED=FAILED)
    expect(os.path.exists(FAILED), f"call {k} of {command}: an exit, not a crash", r)
    with open(FAILED) as f:
        call = f.read()
    text = r.out
    if output and os.path.exists(output):
        with open(output, "rb") as f:
            text += f.read()
    return r, text, call


def check(*command, stdin=b"", output=None, measures=False):
    """`measures`: the output has times, so it is not compared."""
    r, want, call = failing(0, command, stdin, output)
    expect(r.code == 0 and call == "-", "a run without failures", r)
    k, call = 0, ""
    while call != "-":
        k += 1 if k < 60 else STEP
        r, text, call = failing(k, command, stdin, output)
        what = f"call {k} of {command}, {call}"
        if r.code == 0:
            expect(call == "-" or call in HARMLESS, f"{what}: a failure is not ignored", r)
            expect(measures or text == want, f"{what}: the same output", r)
        else:
            expect(r.code in ((1, 2) if command[0] == "diverge" else (1,)) and (r.err.splitlines() or [""])[-1].startswith("reprise: "), f"{what}: a message", r)
            expect(re.search("memory|allocated|Input/output error|standard output|could not be written", r.err),
                   f"{what}: names the cause", r)
    print(f"{' '.join(command[:2])}: up to {k - 1} calls")


def test_graph_and_plan():
    out = os.path.join(TMP.name, "out")
    check("graph", "-m", TINY)
    check("graph", "-m", TINY, "--json", "-o", out, output=out)
    check("graph", "-m", TINY, "--dot", "-o", out, output=out)
    check("graph", "-m", TINY, "--html", out, output=out)
    check("plan", "-m", TINY)
    check("plan", "-m", TINY, "--json", "-o", out, output=out)


def test_nodes():
    out = os.path.join(TMP.name, "out")
    check("graph", "-m", TINY, "--why", "blk.0.q")
    check("dump", "-m", TINY, "logits", "--ids", "1", "-o", out, output=out)
    check("diverge", TINY, "--b", "threads=1", "--ids", "1", "--svg", out, output=out)
    check("diverge", TINY, "--record", out, "--ids", "1", output=out)
    file = os.path.join(TMP.name, "a.rec")
    ok(run("diverge", TINY, "--record", file, "--ids", "1"))
    check("diverge", TINY, "--against", file)


def test_graph_diff():
    dump = temporary("a.json", ok(run("graph", "-m", TINY, "--json")).out)
    check("graph", "-m", TINY, "--diff", dump, MIX)
    out = os.path.join(TMP.name, "out")
    check("graph", "-m", TINY, "--diff", dump, MIX, "--html", out, output=out)


def test_inspect_and_tokenize():
    check("inspect", "-m", TINY, "--tensors")
    check("inspect", "-m", TINY, "--json")
    folder = os.path.join(TMP.name, "folder")
    shutil.copytree(os.path.join(SOURCE, "tests/golden/hf/llama"), folder)
    with open(os.path.join(folder, "config.json"), "r+") as f:
        text = f.read().replace("LlamaForCausalLM", "NoSuchForCausalLM")
        f.seek(0)
        f.write(text)
    check("inspect", folder, "--tensors")
    check("inspect", folder, "--json")
    check("tokenize", "-m", TINY, "-p", "abc")
    check("tokenize", "-m", TINY, "-f", temporary("text", b"abc " * 3000), "--json")


def test_replies():
    check("generate", "-m", TINY, "-p", "a", "-n", "4", "-q", "--echo")
    check("generate", "-m", TINY, "-p", "-", "-n", "4", "-q", "--json", stdin=b"abc", measures=True)
    check("chat", "-m", TINY, "--template", "chatml", "--system", "be", "-n", "3", "-q", stdin=b"a\nb\n/reset\nc\n")


def test_a_chat_with_a_template():
    template = temporary("t.jinja", b"{% for m in messages %}[{{ m.content }}]{% endfor %}{{ tools }}")
    tools = temporary("tools.json", b'[{"name": "f"}]')
    check("chat", "-m", TINY, "--template", template, "--system", "S", "--tools", tools, "-n", "3", "-q",
          stdin=b'a\\\nb\n/regen\n"""\nc\n"""\n/system T\n/edit d\ne\n/undo\n')


def test_measurements():
    text = temporary("text", b"abc " * 50)
    check("bench", "-m", TINY, "-p", "4", "-n", "2", "-r", "1", "-q", measures=True)
    check("perplexity", "-m", TINY, "-f", text, "--window", "16", "-q", measures=True)
    short = temporary("short", b"abc abc\nb c\n")
    check("embed", os.path.join(SOURCE, "tests/golden/embed/bert-f32.gguf"), "-f", short, "--format", "json")
    check("rerank", os.path.join(SOURCE, "tests/golden/embed/bert-rank.gguf"), "-q", "abc", "-f", short)
    check("profile", "-m", TINY, measures=True)
    check("verify", "-m", TINY, measures=True)
    check("bench", "launches", "--predict", os.path.join(SOURCE, "bench/counts/tiny.json"), "--gpu", "h100")
    check("bench", "launches", "--predict", os.path.join(SOURCE, "bench/counts"), "--preset", "tiny", "--json")


def test_files_and_texts():
    out = os.path.join(TMP.name, "out.gguf")
    f16 = os.path.join(SOURCE, "tests/golden/tiny/llama-f16.gguf")
    check("quantize", f16, out, "--type", "Q8_0", "-q", output=out)
    check("synth", "tiny", "-o", out, "-q", output=out)
    for command in (["devices"], ["man"], ["completion", "bash"], ["help", "graph"]):
        check(*command, measures=command == ["devices"])


def test_training():
    out, log = os.path.join(TMP.name, "out.gguf"), temporary("log", b'{"step":1,"loss":2,"balance":1.5}\n')
    text = temporary("text", b"in the beginning\n\nwas the word\n\n" * 12)
    common = ["-o", out, "--steps", "2", "--seq", "8", "-b", "1", "-t", "1", "-q", "--type", "F32"]
    check("train", "--preset", "tiny", "--text", text, "--log", os.path.join(TMP.name, "out.jsonl"), *common, output=out)
    check("train", os.path.join(SOURCE, "tests/golden/tiny/llama-f16.gguf"), "--tokens", temporary("ids", bytes(4 * 99)), *common,
          output=out)
    check("train", "plot", log)
    check("train", "plot", log, "-o", out, output=out)


if __name__ == "__main__":
    run_tests(globals())

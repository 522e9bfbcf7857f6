"""No output of a command is one of its inputs or another output: every pair of files of every command, by every kind of name.

    test_outputs.py PROGRAM SOURCE_DIR

Inputs are copies. After each refusal every file has the bytes that it had before.
"""

import itertools
import json
import os
import re
import shutil
import struct
import subprocess

from cli_program import HANG_S, MIX, PROGRAM, SOURCE, TINY, TMP, expect, expect_refusal, ok, run, run_tests

TEXT = os.path.join(SOURCE, "tests/golden/bpe_train/text.txt")
ADAPTER = os.path.join(SOURCE, "tests/golden/lora/adapter.gguf")

# Names of values and of arguments in help texts that are no paths.
NO_FILE_ARGUMENTS = {"NODE", "PRESET", "SHELL"}
NO_FILES = set("B D K M N P R S T X CACHE DEVICE DIR FORMAT GPU HOST KEY LAYOUT LIST MB MODE MS NAME NODE ORIGIN PASS PHASE POOLING PORT PRESET QUERY REGEX SCENARIO SECONDS SETTING TEMPLATE TEXT "
               "TOKEN TYPE URL WHEN".split())

# Every option and argument whose value is a path: what it is given, and r: read, w: written. An option that is not here fails
# the first test.
MODEL, LORA, OUT = ("--model", TINY, "r"), ("--lora", ADAPTER, "r"), ("--output", None, "w")
FILES = {
    "generate": [MODEL, LORA, ("--file", TEXT, "r"), ("--messages", TEXT, "r"), ("--tools", TEXT, "r"), ("--schema", TEXT, "r"),
                 ("--grammar", TEXT, "r"), ("--draft", TINY, "r"), ("--manifest", None, "w"), ("--trace", None, "w")],
    "chat": [MODEL, LORA, ("--draft", MIX, "r"), ("--tools", TEXT, "r"), ("--resume", TEXT, "r"), ("--save", None, "w"),
             ("--manifest", None, "w"), ("--trace", None, "w")],
    "serve": [MODEL, LORA, ("--keys", TEXT, "r"), ("--log-file", None, "w"), ("--draft", TINY, "r"),
              ("--trace", None, "w")],
    "repeat": [("FILE", TEXT, "r"), MODEL, LORA, ("--draft", TINY, "r")],
    "graph": [MODEL, LORA, OUT, ("--html", None, "w"), ("MODEL", TINY, "r"), ("A", TINY, "r"), ("B", TINY, "r")],
    "dump": [MODEL, LORA, OUT, ("MODEL", TINY, "r")],
    "plan": [MODEL, LORA, OUT],
    "inspect": [MODEL],
    "tokenize": [MODEL, ("--file", TEXT, "r")],
    "bench": [MODEL, LORA, ("--trace", None, "w")],
    "bench sequences": [MODEL, LORA],
    "bench serve": [],
    "bench launches": [MODEL, LORA, ("--predict", TEXT, "r")],
    "bench counts": [MODEL],
    "bench machine": [("--file", TINY, "r")],
    "profile": [MODEL, LORA, ("--dot", None, "w"), ("--html", None, "w"), ("--trace", None, "w")],
    "verify": [MODEL, LORA],
    "diverge": [MODEL, LORA, ("A", TINY, "r"), ("B", TINY, "r"), ("--against", TEXT, "r"), ("--record", None, "w"), ("--svg", None, "w"), ("--dot", None, "w")],
    "devices": [],
    "perplexity": [MODEL, LORA, ("--file", TEXT, "r")],
    "embed": [MODEL, LORA, OUT, ("--file", TEXT, "r")],
    "rerank": [MODEL, LORA, ("--file", TEXT, "r")],
    "synth": [OUT],
    "train": [MODEL, OUT, ("--text", TEXT, "r"), ("--tokens", TEXT, "r"), ("--tokenizer", MIX, "r"), ("--checkpoint", None, "w"),
              ("--resume", TINY, "r"), ("--log", None, "w")],
    "train plot": [OUT, ("FILE", TEXT, "r")],
    "merge": [MODEL, LORA, OUT],
    "quantize": [("IN", TINY, "r"), ("OUT", None, "w"), ("--imatrix", TINY, "r")],
    "imatrix": [("MODEL", TINY, "r"), ("TEXT", TEXT, "r"), OUT],
    "completion": [OUT],
    "man": [OUT],
}

# What else a command needs to come as far as its files.
MORE = {"serve": ["--check"], "synth": ["tiny"], "quantize": ["--type", "F16"], "completion": ["bash"], "profile": ["--runs", "1"],
        "imatrix": ["--chunk", "16"], "embed": ["--pooling", "mean"], "rerank": ["-q", "a"],
        "generate": ["-n", "1"], "perplexity": ["--window", "16"], "train": ["--preset", "tiny", "--steps", "1"]}


def path(name):
    return os.path.join(TMP.name, name)


def contents(name):
    with open(name, "rb") as f:
        return f.read()


def copy(source, name):
    shutil.copy(source, path(name))
    return path(name)


def all_files():
    return {e.name: contents(e.path) for e in os.scandir(TMP.name) if e.is_file(follow_symlinks=False)}


def commands():
    """The commands that the program has, and of each the options and arguments whose values are not known to be no paths."""
    text = ok(run("--help")).text
    names = re.findall(r"^  ([a-z]+(?: [a-z]+)?)  ", text[text.index("\nCommands\n"):], re.M)
    for command in (n for n in names if n != "help"):
        page = ok(run("help", *command.split())).text
        options = re.findall(r"^  (?:-\w, |    )(--[a-z-]+) ([A-Z]+)", page, re.M)
        paths = [name for name, value in options if value not in NO_FILES and name != "--plugin"]  # docs/test_extend.py has it
        paths += re.findall(r"^  ([A-Z]+) {2,}\S", page[: page.index("--color")], re.M)
        yield command, [name for name in paths if name not in NO_FILE_ARGUMENTS]


def test_the_table_has_every_path_of_every_command():
    seen = {}
    for command, paths in commands():
        expect(command in FILES, "a row for the command", command)
        seen[command] = sorted(paths)
        expect(seen[command] == sorted(name for name, _, _ in FILES[command]), f"{command}: paths", seen[command])
    expect(set(seen) == set(FILES), "no other command", set(FILES) - set(seen))
    expect(sum(use == "w" for rows in FILES.values() for _, _, use in rows) >= 13, "outputs", FILES)


def words(name, value):
    return [name, value] if name.startswith("--") else [value]


def command_line(command, *given):
    """The command with these files. The required ones that are not given get files of their own."""
    args = dict(given)
    for name, source, use in FILES[command]:
        left_out = (("graph", "MODEL"), ("graph", "A"), ("graph", "B"), ("graph", "--html"), ("dump", "MODEL"))
        if name in args or (command, name) in left_out:
            continue
        if command == "train" and name in ("--model", "--resume", "--tokens", "--tokenizer", "--checkpoint", "--log"):
            continue
        args[name] = path("other" + name) if use == "w" else copy(source, "other" + name)
    diff = ["--diff"] if command == "graph" and ("A" in args or "B" in args) else []
    if diff:
        args.pop("--model", None)
        args = {**args, "A": args.get("A", TINY), "B": args.get("B", TINY)}
    more = MORE.get(command, [])
    if command == "train" and "--model" in args:
        more = more[2:]
    ordered = sorted(args.items(), key=lambda a: (a[0] in ("B", "OUT"), a[0]))
    return [*command.split(), *(w for name, value in ordered for w in words(name, value)), *diff, *more]


def refused(command, files, line, how, *words_of_error, **more):
    r = run(*line, **more)
    what = f"{command}: {how}"
    expect(r.code == 2, f"{what}: exit 2", r)
    for word in ("are the same file: an output must not be ", *words_of_error):
        expect(word in r.err, f"{what}: `{word}`", r)
    after = all_files()
    expect(after == files, f"{what}: every file as before", {n for n in {*files, *after} if files.get(n) != after.get(n)})


def other_names(target, exists):
    """The path itself, by way of another folder, and for a file that exists by both kinds of links."""
    folder, name = os.path.split(target)
    yield target, "the same path"
    yield os.path.join(folder, "sub", "..", name), "by another folder"
    yield os.path.join(path("folder-link"), name), "by a link to its folder"
    if exists:
        for make, link in ((os.symlink, "symbolic"), (os.link, "hard")):
            if os.path.lexists(path(link)):
                os.remove(path(link))
            make(target, path(link))
            yield path(link), f"by a {link} link"
        os.remove(path("symbolic")), os.remove(path("hard"))


def test_no_output_is_another_file_of_the_command():
    os.makedirs(path("sub"), exist_ok=True)
    os.symlink(".", path("folder-link"))
    pairs = 0
    for command, rows in FILES.items():
        for (name, _, use), (other, source, other_use) in itertools.permutations(rows, 2):
            resumed = (command, name, other) in (("train", "--checkpoint", "--resume"), ("chat", "--save", "--resume"))
            if use != "w" or resumed:
                continue
            for exists in (True, False) if other_use == "w" else (True,):
                target = path("target")
                if exists:
                    copy(source or TEXT, "target")
                elif os.path.exists(target):
                    os.remove(target)
                for again, how in other_names(target, exists):
                    line = command_line(command, (other, target), (name, again))
                    refused(command, all_files(), line, f"{name} is {other} {how}, existing: {exists}", again, target,
                            "an input" if other_use == "r" else "another output")
            pairs += 1
    expect(pairs >= 35, "pairs", pairs)
    os.remove(path("target"))


def test_standard_output_and_input_are_files_too():
    """Of every command that reads a file: `>> FILE` would change it. Appending is refused before a byte is written."""
    for command, rows in FILES.items():
        for name, source, use in rows:
            target = copy(source or TEXT, "target")
            line = command_line(command, (name, target))
            files = all_files()
            with open(target, "ab") as f:
                refused(command, files, line, f"standard output is {name}", "standard output", f"{target}", stdout=f)
            if use == "w":
                p = subprocess.run([PROGRAM, *line], stdin=open(target, "rb"), capture_output=True, timeout=HANG_S)
                expect(p.returncode == 2 and b"standard input" in p.stderr, f"{command}: standard input is {name}", p)
                expect(all_files() == files, "every file as before")
    os.remove(path("target"))


def test_names_that_are_computed():
    """The checkpoint of -o, the model of --lora FILE:SCALE and of --diff MODEL:SETTING, the demo model."""
    text, model, adapter = copy(TEXT, "a.checkpoint.gguf"), copy(TINY, "m.gguf"), copy(ADAPTER, "l.gguf")
    shutil.copy(TINY, path("colon:raw"))
    files, one = all_files(), ["--steps", "1"]
    for out in (path("a.gguf"), path("a")):
        refused("train", files, ["train", "--preset", "tiny", "--text", text, "-o", out, *one], "the default checkpoint",
                "the checkpoint", text)
    log = path("b.checkpoint.gguf")
    refused("train", files, ["train", "--preset", "tiny", "--text", TEXT, "-o", path("b"), "--log", log, *one],
            "the default checkpoint", "the checkpoint", "another output")
    old, link = copy(TEXT, "c.1"), path("c-link")
    copy(TEXT, "c"), os.symlink(path("c"), link)
    files = all_files()
    for name in (path("c"), link):
        refused("train", files, ["train", "--preset", "tiny", "--text", old, "-o", path("b"), "--checkpoint", name, *one],
                "the checkpoint before", "the checkpoint before", old, "an input")
    os.remove(path("c")), os.remove(old), os.remove(link)
    files = all_files()
    refused("merge", files, ["merge", model, "--lora", adapter + ":0.5", "-o", adapter], "an adapter with a scale", adapter)
    refused("graph", files, ["graph", "--diff", model + ":raw", "tiny:raw", "-o", model], "a model with a setting", model)
    refused("graph", files, ["graph", "--diff", path("colon:raw:tokens=2"), "tiny", "-o", path("colon:raw")], "a colon", "colon:raw")
    refused("profile", files, ["profile", model, "--dot", "-", "--trace", "-"], "both on standard output", "another output")
    for command in (["graph"], ["plan"]):
        refused(command[0], files, [*command, "-o", model], "the default model", model, REPRISE_MODEL=model)


def test_what_is_not_the_same_file_is_not_refused():
    model = copy(TINY, "m.gguf")
    before = contents(model)
    for _ in range(2):  # the second run replaces the files of the first
        ok(run("profile", model, "--runs", "1", "-q", "--dot", path("p.dot"), "--trace", path("p.json")))
        ok(run("quantize", model, path("q.gguf"), "--type", "F16", "-q"))
    ok(run("profile", model, "--runs", "1", "-q", "--dot", "/dev/null", "--trace", "/dev/null"))
    ok(run("graph", "--diff", model, model, "-o", path("same.txt")))
    ok(run("synth", "tiny", "-o", path("tiny"), "-q"))  # a preset is no file
    expect(contents(model) == before, "the model")
    os.makedirs(path("x"), exist_ok=True)
    ok(run("plan", model, "-o", path("x/p.txt")))  # the same name in another folder
    ok(run("plan", model, "-o", path("p.txt")))
    for args in (["plan", model, "-o", "-"], ["graph", model]):  # `> FILE` beside FILE 2>&1
        with open(path("both"), "wb") as f:
            p = subprocess.run([PROGRAM, *args], stdout=f, stderr=f, timeout=HANG_S)
        expect(p.returncode == 0 and len(contents(path("both"))) > 100, "output and messages in one file", args)


def test_a_resumed_training_goes_on_writing_its_checkpoint():
    shape = ["--preset", "tiny", "--text", TEXT, "--seq", "16", "-b", "2", "-t", "1", "-o", path("r.gguf"), "--change-options"]
    ok(run("train", *shape, "--steps", "2"))
    saved = path("r.checkpoint.gguf")
    os.symlink(saved, path("saved-link"))
    ok(run("train", *shape, "--steps", "3", "--resume", saved))
    ok(run("train", *shape, "--steps", "4", "--resume", path("saved-link"), "--checkpoint", saved))
    shutil.copy(saved, saved + ".1")
    ok(run("train", *shape, "--steps", "5", "--resume", saved + ".1", "--checkpoint", saved))
    expect("train.step" in ok(run("inspect", saved)).text, "a checkpoint")
    files = all_files()
    refused("train", files, ["train", *shape, "--steps", "5", "--resume", path("r.gguf")], "the model is the output", "--output")
    refused("train", files, ["train", *shape[:-3], "-o", saved, "--steps", "5", "--resume", saved], "the output is the checkpoint", "--output")


def test_an_adapter_is_no_checkpoint():
    """--lora resumes an adapter too, but it may not become a checkpoint."""
    base = os.path.join(SOURCE, "tests/golden/tiny/llama-q4_0.gguf")
    with open(path("tokens"), "wb") as f:
        f.write(struct.pack("<400H", *([1, 2, 3, 4] * 100)))
    lora = ["train", base, "--tokens", path("tokens"), "--token-bytes", "2", "--lora", "2", "-b", "2", "--seq", "8", "--hold-out", "0"]
    ok(run(*lora, "-o", path("one.gguf"), "--steps", "1"))
    files = all_files()
    r = run(*lora, "-o", path("two.gguf"), "--steps", "2", "--resume", path("one.gguf"), "--checkpoint", path("one.gguf"))
    expect_refusal(r, 1, path("one.gguf") + " is an adapter, not a checkpoint: --checkpoint must be another file")
    expect(all_files() == files, "every file as before")
    saved = path("one.checkpoint.gguf")
    ok(run(*lora, "-o", path("two.gguf"), "--steps", "2", "--resume", saved, "--checkpoint", saved, "--change-options"))


# ---- the log of a training ----

TRAIN = ["train", "--preset", "tiny", "--text", TEXT, "--seq", "16", "-b", "2", "-t", "1", "-o", path("log.gguf"), "--change-options"]


def steps(name):
    with open(name) as f:
        return [json.loads(line)["step"] for line in f if "\"loss\"" in line]


def test_a_file_that_is_no_log_stays():
    ok(run(*TRAIN, "--steps", "1"))
    saved = path("log.checkpoint.gguf")
    for data in (b"my diary\n", contents(MIX), b"\0", b"[1]\n", b"{}\n", b'{"loss":1,"step":1}\n', b'{"step":-1}\n', b'{"step":"x"}\n',
                 b'{"step":1, my notes\n', b'\n{"step":1}\n', b" " * 100):
        with open(path("notes"), "wb") as f:
            f.write(data)
        files = all_files()
        for more in ([], ["--resume", saved]):
            expect_refusal(run(*TRAIN, "--steps", "2", "--log", path("notes"), *more), 1,
                           path("notes") + ' exists and does not begin as the log of a training, with {"step":')
            expect(all_files() == files, "every file as before", data[:40])


def test_a_log_is_replaced_or_continued():
    log, saved = path("log.jsonl"), path("log.checkpoint.gguf")
    for begin in (None, b"", b'{"step":1,"loss":2}\n{"step":2,"loss":2}\n{"step":3,"loss":2}\n', b'{"step":0,"validation_loss":2}\n',
                  b'{"step":12,"lo'):
        if os.path.exists(log):
            os.remove(log)
        if begin is not None:
            with open(log, "wb") as f:
                f.write(begin)
        ok(run(*TRAIN, "--steps", "2", "--log", log))
        expect(steps(log) == [1, 2], "the log of a new training", begin)
    ok(run(*TRAIN, "--steps", "3", "--log", log, "--resume", saved))
    expect(steps(log) == [1, 2, 3], "continued", steps(log))
    os.remove(log)
    r = ok(run(*TRAIN, "--steps", "5", "--log", log, "--resume", saved))
    expect(steps(log) == [4, 5] and "5 of 5 steps" in r.err, "a resumed run begins a log", r)
    with open(log, "wb"):
        pass
    ok(run(*TRAIN, "--steps", "6", "--log", log, "--resume", saved))
    expect(steps(log) == [6], "and continues an empty one", steps(log))
    os.symlink(path("nowhere"), path("dangling"))
    r = run(*TRAIN, "--steps", "7", "--log", path("dangling"), "--resume", saved)
    expect(r.code == 1 and path("dangling") in r.err and not os.path.exists(path("nowhere")), "a link that leads nowhere", r)


def test_a_log_that_cannot_be_read_is_not_truncated():
    log, saved = path("secret.jsonl"), path("log.checkpoint.gguf")
    ok(run(*TRAIN, "--steps", "2", "--log", log))
    before, nobody, text, user = contents(log), 65534, copy(TEXT, "text"), None
    os.makedirs(path("folder"))
    if os.geteuid() == 0:  # root may read every file
        user = lambda: os.setuid(nobody)
        os.chmod(TMP.name, 0o711), os.chmod(saved, 0o644), os.chmod(text, 0o644)
        os.chown(path("folder"), nobody, -1), os.chown(log, nobody, -1)
    try:
        ok(run("--version", preexec_fn=user))
    except PermissionError:
        return "the program is in a folder of root"
    os.chmod(log, 0o200)
    for more in ([], ["--resume", saved]):
        r = run(*TRAIN[:4], text, *TRAIN[5:], "-o", path("folder/o.gguf"), "--steps", "3", "--log", log, *more, preexec_fn=user)
        expect_refusal(r, 1, log, "Permission denied")
    os.chmod(log, 0o600)
    expect(contents(log) == before, "the log as before")


def test_a_log_may_be_a_pipe_or_a_device():
    ok(run(*TRAIN, "--steps", "1"))
    saved = path("log.checkpoint.gguf")
    for more, last in ([], 1), (["--resume", saved], 2):
        r = ok(run(*TRAIN, "--steps", str(last), "--log", "/dev/stdout", *more))
        expect(f'{{"step":{last},"loss"' in r.text, "a pipe", r)
    ok(run(*TRAIN, "--steps", "3", "--log", "/dev/null", "--resume", saved))


def test_nothing_is_said_of_a_pipe_whose_reader_has_enough():
    """As of `reprise graph --html - | head -2`. What follows is larger than all buffers."""
    for command in (["graph", "--html", "-"], ["graph"], ["plan"], ["inspect"]):
        p = subprocess.Popen([PROGRAM, *command, os.path.join(SOURCE, "assets/demo.gguf")], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        p.stdout.read(10)
        p.stdout.close()
        said = p.stderr.read()
        expect(said == b"", " ".join(command), said)
        p.wait()


if __name__ == "__main__":
    run_tests(globals())

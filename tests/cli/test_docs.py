#!/usr/bin/env python3
"""The transcripts in README.md and docs/: every command after `$ build/...` is run, and what it prints must be what stands there.
Each command that a page names in code, `reprise COMMAND`, is one of that program.

    tests/cli/test_docs.py REPRISE SOURCE_DIR [REPRISE_SIM] [--write]

With --write the output replaces what stands there, except in transcripts with a line `...`. Such a line stands for any output. Texts are compared without regard to line breaks, with numbers that have a decimal point (times, rates,
sizes), the number of threads, the instruction set and the elements that `verify` names masked: they differ from machine to machine. Transcripts of models that are not in
models/ (REPRISE_MODELS) are skipped, and counted."""
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import textwrap
import zipfile

WRITE = "--write" in sys.argv
ARGS = [a for a in sys.argv[1:] if a != "--write"]
REPRISE, SOURCE = os.path.abspath(ARGS[0]), pathlib.Path(ARGS[1]).resolve()
PROGRAMS = {"build/reprise": REPRISE, "build/reprise-sim": os.path.abspath(ARGS[2]) if len(ARGS) > 2 else None}
if len(ARGS) > 2:
    PROGRAMS["build/tests/cudasim_moe_gate"] = os.path.join(os.path.dirname(os.path.abspath(ARGS[2])), "tests", "cudasim_moe_gate")
VERSION = subprocess.run([REPRISE, "--version"], capture_output=True, text=True).stdout
WIDTH = 116
HANG_S = float(os.environ.get("REPRISE_TEST_HANG_S", 600))
MODELS = os.environ.get("REPRISE_MODELS", str(SOURCE / "models"))
NO_NVRTC = re.compile(r"NVRTC: no libnvrtc|loading of its kernel: operation not supported")
PEER = "/tmp/peer"  # a folder that a page makes by tools/llama_nodes.py; here the committed arrays
ISAS = r"\b(plain|avx2|avx512-vnni|neon|neon-dotprod)\b"


def transcripts(page):
    """Of each indented block that begins with `$ build/`: line number, command, expected output."""
    lines = page.read_text().splitlines()
    i = 0
    while i < len(lines):
        if not lines[i].startswith("    $ build/"):
            i += 1
            continue
        at, command, i = i + 1, lines[i][6:], i + 1
        while command.endswith("\\"):
            command, i = command[:-1] + " " + lines[i].strip(), i + 1
        expected = []
        while i < len(lines) and (lines[i].startswith("    ") or not lines[i]) and not lines[i].startswith("    $ "):
            expected.append(lines[i])
            i += 1
        yield at, command, "\n".join(expected)


def masked(text):
    text = re.sub(r"\d+\.\d+(e[-+]\d+)?", "#", text)
    text = re.sub(r"\b\d+ threads?\b", "N threads", text)
    text = " ".join(re.sub(ISAS, "ISA", text).split())
    return re.sub(r"\d+(?= -?# -?#)|(?<=element )\d+", "N", text)


def found_in_order(expected, printed):
    """The first piece of `expected` between lines of `...` that `printed` does not have in its place, or None."""
    at = 0
    for piece in re.split(r"(?m)^ *\.\.\. *$", expected):
        piece = masked(piece)
        found = printed.find(piece, at)
        if found < 0:
            return piece
        at = found + len(piece)
    return None


def write(page, expected, output):
    lines = [w for line in output.strip("\n").splitlines() for w in textwrap.wrap(line, WIDTH - 4) or [""]]
    block = "\n".join(("    " + line).rstrip() for line in lines)
    page.write_text(page.read_text().replace(expected.rstrip("\n"), block, 1))


def counts_as_committed(program):
    """Whether the PTX beside the program is of the nvcc that tests/sim/ptx/counts.txt names."""
    ptx = pathlib.Path(program).parent / "ptx/90/add.ptx"
    version = (SOURCE / "tests/sim/ptx/counts.txt").read_text().split("\n", 1)[0]
    return ptx.exists() and version in ptx.read_text()


def check(page, at, command, expected):
    """True, or why it was skipped; a difference ends the test."""
    words = shlex.split(command)
    program = PROGRAMS.get(words[0])
    if ("--cuda" in words or "launches" in words) and "CUDA toolkit: none" in VERSION:
        return "this build has no CUDA kernels"
    if program is None:
        return f"{words[0]} is not in this build"
    if words[1:3] == ["bench", "counts"] and not counts_as_committed(program):
        return "there is no PTX in this build, or it is of another nvcc than the committed counts"
    models = [w for w in words if w.startswith("models/")]
    missing = [m for m in models if not os.path.exists(os.path.join(MODELS, m.removeprefix("models/")))]
    if missing:
        return f"there is no {missing[0]}"
    words = [program] + [os.path.join(MODELS, w.removeprefix("models/")) if w in models else w for w in words[1:]]
    environment = dict(os.environ) if program != REPRISE else {**os.environ, "REPRISE_DEVICE": "cpu"}
    with tempfile.TemporaryDirectory() as cache, tempfile.TemporaryDirectory() as peer: # of compiled kernels; of arrays
        environment["XDG_CACHE_HOME"] = cache
        if PEER in words:
            with zipfile.ZipFile(SOURCE / "tests/golden/peer/llama-f32.npz") as z:
                z.extractall(peer)
            words = [peer if w == PEER else w for w in words]
        run = subprocess.run(words, capture_output=True, text=True, cwd=SOURCE, timeout=HANG_S, env=environment)
    output = (run.stdout + "\n" + run.stderr).replace(MODELS, "models").replace(peer, PEER)
    if run.returncode != 0 and NO_NVRTC.search(output):
        return "there is no NVRTC, or no interpreter of its PTX"
    if WRITE and run.returncode == 0 and not re.search(r"(?m)^ *\.\.\. *$", expected):
        write(page, expected, output)
        return True
    printed = masked(output)
    piece = found_in_order(expected, printed)
    failed = run.returncode != (1 if words[1:2] == ["diverge"] and "first difference" in printed else 0)
    if failed or piece is not None:
        sys.exit(f"{page.name}:{at}: $ {command}\nexit status {run.returncode}; expected\n  {piece}\nprinted\n  {printed}")
    return True


def named_commands(page):
    """(line number, program, one or two words after it) of each `reprise ...` and `reprise-sim ...` in code."""
    for at, line in enumerate(page.read_text().splitlines(), 1):
        for code in [line] if line.startswith("    ") else re.findall(r"`([^`]+)`", line):
            for part in re.split(r"&&|[|;]", code):
                m = re.match(r"\s*(?:\$ )?(?:[A-Z_]+=\S+ )*(?:build/)?(reprise(?:-sim)?) ([a-z]+(?: [a-z]+)?)(?![\w.=])", part)
                if m:
                    yield at, m[1], m[2].split()


def check_commands(pages):
    """Ends the test if a page names a command that its program does not have, or cannot run."""
    pages_of_help, n = {}, 0

    def help_of(program, words):
        key = (program, *words)
        if key not in pages_of_help:
            pages_of_help[key] = subprocess.run([program, "help", *words], capture_output=True, text=True, timeout=HANG_S)
        return pages_of_help[key]

    for page in pages:
        for at, name, words in named_commands(page):
            program = PROGRAMS["build/" + name]
            words = words[1:] if words[0] == "help" else words
            if program is None or not words:
                continue
            text = help_of(program, words)
            if text.returncode != 0:
                text = help_of(program, words[:1])
            if text.returncode != 0:
                sys.exit(f"{page.name}:{at}: {name} has no command {words[0]}")
            if "(reprise-sim only)" in text.stdout and name != "reprise-sim":
                sys.exit(f"{page.name}:{at}: {name} {' '.join(words)} is a command of reprise-sim only")
            n += 1
    print(f"{n} commands that pages name exist")
    if n < 50:
        sys.exit("too few commands were found: do pages name them in another form?")


def main():
    passed, skipped = 0, 0
    pages = [SOURCE / "README.md", *sorted((SOURCE / "docs").glob("*.md"))]
    check_commands([*pages, SOURCE / "CONTRIBUTING.md", *sorted((SOURCE / "bench").rglob("*.md"))])
    for page in pages:
        for at, command, expected in transcripts(page):
            told = check(page, at, command, expected)
            print(f"{page.name}:{at}: {'ok' if told is True else 'SKIPPED: ' + told}")
            passed, skipped = passed + (told is True), skipped + (told is not True)
    print(f"{passed} transcripts passed, {skipped} skipped")
    if passed == 0:
        sys.exit("no transcript was run")


if __name__ == "__main__":
    main()

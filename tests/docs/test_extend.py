#!/usr/bin/env python3
"""The programs of docs/extend.md compile as they stand, run, and print what is listed here. Those in Python are run by the tests of the
Python package.

    tests/docs/test_extend.py SOURCE_DIR BUILD_DIR C_COMPILER REPRISE"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

source, build, compiler, program = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), *sys.argv[3:]
PRINTED = ["2\nw is free\n"]
programs = re.findall(r"```c\n(.*?)```", (source / "docs/extend.md").read_text(), re.S)
backends = [p for p in programs if "rp_backend(void)" in p]
programs = [p for p in programs if p not in backends]
assert len(backends) == 1
assert len(programs) == len(PRINTED), f"{len(programs)} programs, {len(PRINTED)} outputs"
with tempfile.TemporaryDirectory() as temp:
    for number, (text, printed) in enumerate(zip(programs, PRINTED)):
        path = pathlib.Path(temp, f"{number}.c")
        path.write_text(text)
        subprocess.run([compiler, "-std=c17", "-Wall", "-Wextra", "-Werror", f"-I{source}/include", f"-I{build}/include", path, "-o",
                        path.with_suffix(""), f"-L{build}", "-lreprise", f"-Wl,-rpath,{build}"], check=True)
        done = subprocess.run([path.with_suffix("")], capture_output=True, text=True, env={**os.environ, "REPRISE_DEVICE": "cpu"})
        assert (done.returncode, done.stdout) == (0, printed), (number, done)
    path = pathlib.Path(temp, "plain.c")
    path.write_text(backends[0])
    subprocess.run([compiler, "-std=c17", "-Wall", "-Wextra", "-Werror", f"-I{source}/include", f"-I{build}/include", "-shared", "-fPIC", path,
                    "-o", path.with_suffix(".so")], check=True)
    path.with_suffix(".so").chmod(0o755) # nobody else may write to it, whatever the umask is
    model, backend = source / "tests/golden/tiny/llama-mix.gguf", ["--backend", path.with_suffix(".so")]

    def generate(*more):
        done = subprocess.run([program, "generate", "-m", model, "-n", "4", "-q", "-t", "1", *more, "-p", "a"], capture_output=True, text=True,
                              env={**os.environ, "REPRISE_DEVICE": "cpu"})
        return (done.returncode == 0, done.stdout if done.returncode == 0 else done.stderr)
    assert generate() == generate(*backend) and generate(*backend)[0], generate(*backend)
    for more, text in ((["--manifest", f"{temp}/m.json"], "--manifest describes the built-in kernels only, not backend plain: hands every step back"),
                       (["--lookup", "2"], "--backend with --draft or --lookup: guesses are checked by the built-in kernels only")):
        ok, said = generate(*backend, *more)
        assert not ok and text in said, said
print(f"{len(programs)} programs and {len(backends)} backend of docs/extend.md")

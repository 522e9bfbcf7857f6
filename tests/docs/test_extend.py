#!/usr/bin/env python3
"""The programs of docs/extend.md compile as they stand, run, and print what is listed here. Those in Python are run by the tests of the
Python package.

    tests/docs/test_extend.py SOURCE_DIR BUILD_DIR C_COMPILER"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

source, build, compiler = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
PRINTED = ["2\nw is free\n"]
programs = re.findall(r"```c\n(.*?)```", (source / "docs/extend.md").read_text(), re.S)
assert len(programs) == len(PRINTED), f"{len(programs)} programs, {len(PRINTED)} outputs"
with tempfile.TemporaryDirectory() as temp:
    for number, (program, printed) in enumerate(zip(programs, PRINTED)):
        path = pathlib.Path(temp, f"{number}.c")
        path.write_text(program)
        subprocess.run([compiler, "-std=c17", "-Wall", "-Wextra", "-Werror", f"-I{source}/include", f"-I{build}/include", path, "-o",
                        path.with_suffix(""), f"-L{build}", "-lreprise", f"-Wl,-rpath,{build}"], check=True)
        done = subprocess.run([path.with_suffix("")], capture_output=True, text=True, env={**os.environ, "REPRISE_DEVICE": "cpu"})
        assert (done.returncode, done.stdout) == (0, printed), (number, done)
print(f"{len(programs)} programs of docs/extend.md")

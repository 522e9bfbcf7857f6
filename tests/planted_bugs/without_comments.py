#!/usr/bin/env python3
"""Writes a copy of the sources without comments, to which the planted bugs must apply too: then every comment can be
reworded. Lines stay lines.

    without_comments.py SOURCE_DIR FOLDER [FOLDER_OF_SOURCE...]      default: base executor kernels model"""
import pathlib
import re
import shutil
import sys

TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'|//[^\n]*|/\*.*?\*/', re.S)


def stripped(text):
    """Strings and characters stay; of a comment only its line breaks do."""
    return TOKEN.sub(lambda m: "\n" * m[0].count("\n") if m[0][0] == "/" else m[0], text)


def main():
    source, target = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    shutil.rmtree(target, ignore_errors=True)
    found = 0
    for folder in sys.argv[3:] or ["base", "executor", "kernels", "model"]:
        for path in sorted((source / folder).rglob("*")):
            if path.suffix not in (".c", ".h", ".cu", ".cuh"):
                continue
            text = path.read_text()
            copy = target / path.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(stripped(text))
            found += stripped(text) != text
    if found == 0:
        sys.exit("no comment was found: the test would show nothing")


main()

#!/usr/bin/env python3
"""Fails if an assertion inside of a loop does not say which case failed: it has no message (tests/support/case.h).

    assertions.py SOURCE_DIR"""
import pathlib
import re
import sys

OPERANDS = {"": 1, "_eq": 2, "_neq": 2, "_lt": 2, "_leq": 2, "_gt": 2, "_geq": 2, "_str_eq": 2, "_str_neq": 2, "_null": 1,
            "_not_null": 1, "_float_eq": 3, "_arr_eq": 3}
ASSERTION = re.compile(r"\bcr_(?:assert|expect)(_[a-z_]+)?\(")
STRING = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'')
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
LOOP = re.compile(r"\s*(?:\} )?(?:for|while|do)\b")


def blanked(text):
    """The text with spaces for what is in comments and strings, and for lines of the preprocessor."""
    def spaces(m):
        return re.sub(r"[^\n]", " ", m[0])
    text = COMMENT.sub(spaces, STRING.sub(lambda m: '"' + "_" * (len(m[0]) - 2) + '"', text))
    return re.sub(r"(?m)^#(?:.*\\\n)*.*", spaces, text)


def n_arguments(text, at):
    """Number of arguments between the parenthesis before `at` and the one that closes it, and where that is."""
    depth, n = 1, 1
    while True:
        c = text[at]
        depth += (c in "([{") - (c in ")]}")
        if depth == 0:
            return n, at
        n += c == "," and depth == 1
        at += 1


def indent(line):
    return len(line) - len(line.lstrip())


def loops_around(lines, at):
    """Line numbers of the loops around line `at`, from the innermost: by indentation, as clang-format leaves it."""
    found, depth = [at] if re.match(r"\s*(?:for|while) ", lines[at]) else [], indent(lines[at])
    for i in range(at - 1, -1, -1):
        if depth == 0:
            break
        if lines[i].strip() and indent(lines[i]) < depth:
            depth = indent(lines[i])
            found += [i] if LOOP.match(lines[i]) else []
    return found


def silent(text):
    """(offset behind the last argument, line, loops) of each assertion without a message in a loop."""
    text = blanked(text)
    lines = text.split("\n")
    for m in ASSERTION.finditer(text):
        n, end = n_arguments(text, m.end())
        line = text.count("\n", 0, m.start())
        loops = loops_around(lines, line)
        if loops and n <= OPERANDS.get(m[1] or "", 0):
            yield end, line, loops


def main():
    source = pathlib.Path(sys.argv[1])
    n = bad = 0
    for path in sorted((source / "tests").rglob("*")):
        if path.suffix not in (".c", ".h", ".cpp", ".cu") or path.parent.name in ("plain", "fuzz"):
            continue
        text = path.read_text()
        n += len(ASSERTION.findall(text))
        for _, line, _ in silent(text):
            print(f"{path.relative_to(source)}:{line + 1}: an assertion in a loop does not say the case (tests/support/case.h)")
            bad += 1
    print(f"{n} assertions, {bad} in loops without a message")
    sys.exit(bad > 0 or n < 1000)


if __name__ == "__main__":
    main()

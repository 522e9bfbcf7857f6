#!/usr/bin/env python3
"""Fails if files of the library or the program use each other, directly or in a circle. A file uses another one if its object has
an undefined symbol that the other object defines.

    circles.py BUILD_DIR [SOURCE_DIR]

Each circle is printed as "a.c -> b.c (symbol) -> a.c (symbol)". ALLOWED has the uses that may close one, with a reason each. A row
that closes no circle any more is an error, so the list cannot outlive its reasons."""
import collections
import fnmatch
import pathlib
import subprocess
import sys

ALLOWED = [  # user, used, reason
    ("ops/*", "graph/*", "the gradient rule of an op builds nodes, and nodes are made by the rules of their ops"),
    ("cli/commands/completion.c", "cli/commands.c", "the table of commands has this command, which prints the table"),
    ("cli/commands/man.c", "cli/commands.c", "the table of commands has this command, which prints the table"),
    ("template/builtins/filters_list.c", "template/builtins/filters.c", "map, a filter, applies another filter by its name"),
    ("template/parse_primary.c", "template/parse_expression.c", "recursive descent: an expression in brackets is a primary"),
    ("template/call.c", "template/eval.c", "a recursive interpreter: the arguments of a call are expressions, which have calls"),
    ("template/call.c", "template/exec.c", "a recursive interpreter: a call runs the statements of a macro, which have calls"),
]


def objects(build, source):
    """{object: source file} of the library and the program, with executor/cuda for the simulated device where there is no CUDA.
    Objects of sources that were moved away stay in a build folder."""
    found = {}
    for folder in ("CMakeFiles", "sim/CMakeFiles"):
        for path in (build / folder).glob("*.dir/**/*.o"):
            target, *inside = path.relative_to(build / folder).parts
            name = "/".join(inside)[:-len(".o")].removeprefix("__/")
            if (target.startswith("rp_") or target == "reprise_cli.dir") and name not in found and (source / name).is_file():
                found[name] = path.as_posix()
    return {path: name for name, path in found.items()}


def uses_of(found):
    """{user: {used: symbol}}"""
    defined, undefined, uses = {}, [], collections.defaultdict(dict)
    for line in subprocess.run(["nm", "-A", "-P", *found], capture_output=True, text=True, check=True).stdout.splitlines():
        path, rest = line.split(": ", 1)
        symbol, kind = rest.split()[:2]
        if kind in "Uw":
            undefined.append((found[path], symbol))
        elif kind.isupper():
            defined[symbol] = found[path]
    for user, symbol in undefined:
        used = defined.get(symbol, user)
        if used != user:
            uses[user].setdefault(used, symbol)
    return uses


def way(uses, start, end):
    """The shortest list of files from start to end; None: there is none."""
    before, queue = {start: None}, collections.deque([start])
    while queue:
        at = queue.popleft()
        if at == end:
            files = []
            while at is not None:
                files.insert(0, at)
                at = before[at]
            return files
        for used in uses.get(at, {}):
            if used not in before:
                before[used] = at
                queue.append(used)
    return None


def circles(uses):
    """The shortest circle through each use that closes one, each circle once."""
    seen = set()
    for user in sorted(uses):
        for used in sorted(uses[user]):
            back = way(uses, used, user)
            if back is None:
                continue
            first = back.index(min(back))
            files = back[first:] + back[:first]
            if tuple(files) not in seen:
                seen.add(tuple(files))
                yield files + files[:1]


def allowed(row, user, used):
    return fnmatch.fnmatch(user, row[0]) and fnmatch.fnmatch(used, row[1])


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    source = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else __file__ + "/../..").resolve()
    found = objects(build, source)
    uses = uses_of(found)
    n = sum(len(of) for of in uses.values())
    if len(found) < 500 or n < 2000:
        sys.exit(f"{build}: {len(found)} objects with {n} uses, must be at least 500 and 2000: is the build complete?")
    kept = {user: {used: s for used, s in of.items() if not any(allowed(row, user, used) for row in ALLOWED)} for user, of in uses.items()}
    failed = False
    for files in circles(kept):
        print(files[0] + "".join(f" -> {b} ({kept[a][b]})" for a, b in zip(files, files[1:])))
        failed = True
    for row in ALLOWED:
        if not any(allowed(row, user, used) and way(uses, used, user) for user, of in uses.items() for used in of):
            print(f"{row[0]} -> {row[1]} is allowed, and closes no circle: its row must be taken out of ALLOWED")
            failed = True
    print(f"{len(found)} files, {n} uses, {len(ALLOWED)} kinds of uses may close a circle")
    sys.exit(failed)


if __name__ == "__main__":
    main()

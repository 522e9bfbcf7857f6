#!/usr/bin/env python3
"""Reads what a build with gcov counted (scripts/coverage.sh): lines and branches per directory, and what never ran.

    tools/coverage.py build/coverage

A source that is compiled several times counts as one: a line or a branch ran if it ran in any of them."""
import collections
import json
import pathlib
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parent.parent
LEFT_OUT = ("tests/", "build/", "examples/", "bench/")


class File:
    def __init__(self):
        self.lines = collections.Counter()      # by number
        self.branches = collections.Counter()   # by (line, place in it)
        self.functions = {}                     # name: [first line, last line, calls]


def add(files, data, folder):
    for entry in data["files"]:
        path = pathlib.Path(folder, entry["file"]).resolve()
        if not path.is_relative_to(SOURCE) or str(path.relative_to(SOURCE)).startswith(LEFT_OUT):
            continue
        file = files.setdefault(str(path.relative_to(SOURCE)), File())
        for line in entry["lines"]:
            file.lines[line["line_number"]] += line["count"]
            for i, branch in enumerate(line["branches"]):
                file.branches[line["line_number"], i] += branch["count"]
        for f in entry["functions"]:
            known = file.functions.setdefault(f["name"], [f["start_line"], f["end_line"], 0])
            known[2] += f["execution_count"]


def read(build):
    """Objects that never ran have notes (.gcno) and no counts: gcov reports zeros for them."""
    files = {}
    notes = sorted(p for p in build.rglob("*.gcno") if "CMakeFiles/test_" not in str(p))
    for at in range(0, len(notes), 50):
        done = subprocess.run(["gcov", "--json-format", "--stdout", "--branch-probabilities", *map(str, notes[at:at + 50])],
                              cwd=build, capture_output=True, text=True, check=False)
        for line in done.stdout.splitlines():
            if line.startswith("{"):
                data = json.loads(line)
                add(files, data, data["current_working_directory"])
    return files


def share(counter):
    return sum(1 for n in counter if n > 0), len(counter)


def table(files):
    rooms = collections.defaultdict(lambda: [0, 0, 0, 0, 0, 0])
    for name, file in files.items():
        room = rooms[name.split("/")[0]]
        for i, counts in enumerate([[f[2] for f in file.functions.values()], file.lines.values(), file.branches.values()]):
            ran, n = share(counts)
            room[2 * i] += ran
            room[2 * i + 1] += n
    rooms["all"] = [sum(column) for column in zip(*rooms.values())]
    print(f"{'directory':<12}{'functions':>18}{'lines':>20}{'branches':>20}")
    for name, n in sorted(rooms.items(), key=lambda item: (item[0] == "all", item[0])):
        print(f"{name:<12}" + "".join(f"{n[i]:>{w}}/{n[i + 1]:<6}{100 * n[i] / max(1, n[i + 1]):5.1f}%"
                                      for i, w in ((0, 6), (2, 8), (4, 8))))


def ranges(numbers, all_numbers):
    """Lines that follow each other, apart from lines without code, as first-last."""
    out, order = [], {n: i for i, n in enumerate(sorted(all_numbers))}
    for n in sorted(numbers):
        if out and order[n] == order[out[-1][1]] + 1:
            out[-1][1] = n
        else:
            out.append([n, n])
    return [f"{a}-{b}" if a != b else str(a) for a, b in out]


def never_run(files):
    print("\nfunctions that never ran")
    for name, file in sorted(files.items()):
        for function, (first, last, calls) in sorted(file.functions.items(), key=lambda item: item[1]):
            if calls == 0:
                print(f"  {name}:{first}-{last} {function}")
    print("\nother lines that never ran")
    for name, file in sorted(files.items()):
        dead = [(first, last) for first, last, calls in file.functions.values() if calls == 0]
        lines = [n for n, count in file.lines.items() if count == 0 and not any(a <= n <= b for a, b in dead)]
        if lines:
            print(f"  {name}: {', '.join(ranges(lines, file.lines))}")


def main():
    files = read(pathlib.Path(sys.argv[1]).resolve())
    if not files:
        sys.exit(f"{sys.argv[1]}: there are no counts")
    table(files)
    never_run(files)


main()

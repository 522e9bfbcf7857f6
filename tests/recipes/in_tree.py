#!/usr/bin/env python3
"""Whether a page of docs/ says all of what an existing thing takes.

    in_tree.py PAGE SOURCE_DIR NAME      NAME: of the thing, for instance tq1_0

The blocks of the page, in the form of recipe.py, are in the tree, word for word. If they are taken out, no source names the thing any
more. So the tree without it, changed as the page says, is the tree as it is, which the other tests build and run."""
import pathlib
import re
import sys

from recipe import blocks, copy_of_tree, place

SOURCES = ("base/", "cli/", "executor/", "fallback/", "graph/", "include/", "kernels/", "model/", "nn/", "ops/", "sim/", "train/")


def without(text, diff, name):
    """The text before the change, and the number of lines that the change adds."""
    lines, added = text.splitlines(), 0
    for part in re.split(r"^ ?\.\.\.\n", diff, flags=re.M):
        changes = [(line[:1], line[1:]) for line in part.splitlines()]
        if any(sign == "-" for sign, _ in changes):
            raise SystemExit(f"{name}: the page removes a line, which cannot be seen in the tree")
        at = place(lines, [line for _, line in changes], name)
        lines[at:at + len(changes)] = [line for sign, line in changes if sign != "+"]
        added += sum(sign == "+" for sign, _ in changes)
    return "\n".join(lines) + "\n", added


def main():
    page, source, thing = sys.argv[1], pathlib.Path(sys.argv[2]).resolve(), sys.argv[3]
    files = {name: content.decode(errors="replace") for name, content in copy_of_tree(source).items()}
    touched, n_lines = set(), 0
    for target, language, text in blocks(source / page):
        if language == "sh" or target is None:
            continue
        touched.add(target)
        if language == "diff":
            files[target], added = without(files[target], text, target)
        elif files.pop(target, None) == text:
            added = text.count("\n")
        else:
            raise SystemExit(f"{target} is not as {page} has it")
        n_lines += added
    if not touched:
        raise SystemExit(f"{page} has no block: has its form changed?")
    left = [f"{name}:{i + 1}: {line}" for name, text in sorted(files.items()) if name.startswith(SOURCES)
            for i, line in enumerate(text.splitlines()) if re.search(rf"\b\w*{thing}\w*\b", line, re.I)]
    if left:
        raise SystemExit(f"{page} does not say why {thing} is in\n" + "\n".join(left))
    said = f"{n_lines} lines in {len(touched)} files"
    if said not in re.sub(r"\s+", " ", (source / page).read_text()):
        raise SystemExit(f"{page} has {said}, and does not say so")
    print(f"{page}: {said}")


if __name__ == "__main__":
    main()

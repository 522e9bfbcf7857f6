#!/usr/bin/env python3
"""Does what a page of docs/ says, word for word, in a copy of the tree.

    recipe.py PAGE[,PAGE...] SOURCE_DIR WORK_DIR [NAME=VALUE...]      NAME=VALUE: further variables of cmake

Of several pages the commands of the last are run, in a tree with the files of all: it then finds the objects that the others have
built. A heading that ends with a file in backticks, such as "## 2. The rules: `ops/activations/leaky_relu.c`", says where the fenced blocks below it go:

    ```diff     changes the file. A line "..." separates the parts. Lines with + are added beside the others, which must be in
                the file once; lines with - are removed. Backslashes and blanks at the end of a line are not compared.
    ```sh       commands, under any heading. They run in the copy, in order, and each must succeed.
    others      are the file, which must not be there before

WORK_DIR keeps the copy and what the commands build. A file is written only if its text is another one, so that a second run builds
what has changed."""
import pathlib
import re
import shlex
import subprocess
import sys

LEFT_OUT = ("models/", "bench/log/", "bench/results/", "bench/counts/", "bindings/", "assets/",
            "tests/golden/tokenizer/", "tests/fuzz/corpus/")


def blocks(page):
    """(file or None, language, text) of each fenced block."""
    target, language, text = None, None, []
    for line in page.read_text().splitlines():
        if language is None and (found := re.match(r"#+ .*", line)):
            found = re.search(r"`([\w./-]+)`$", line)
            target = found and found[1]
        elif language is None and (found := re.match(r"```(\w+)$", line)):
            language, text = found[1], []
        elif line == "```" and language is not None:
            yield target, language, "\n".join(text) + "\n"
            language = None
        elif language is not None:
            text.append(line)


def bare(line):
    return line.rstrip("\\").rstrip()


def place(lines, known, name):
    """Where the lines `known` are, one after the other."""
    found = [i for i in range(len(lines) - len(known) + 1)
             if [bare(x) for x in lines[i:i + len(known)]] == [bare(x) for x in known]]
    if len(found) != 1:
        raise SystemExit(f"{name} has {len(found)} places, not one, with:\n" + "\n".join(known))
    return found[0]


def patched(text, diff, name):
    lines = text.splitlines()
    for part in re.split(r"^ ?\.\.\.\n", diff, flags=re.M):
        changes = [(line[:1], line[1:]) for line in part.splitlines()]
        at = place(lines, [line for sign, line in changes if sign != "+"], name)
        for sign, line in changes:
            if sign == "+":
                lines.insert(at, line)
            elif sign == "-":
                del lines[at]
                continue
            at += 1
    return "\n".join(lines) + "\n"


def copy_of_tree(source):
    """{name: bytes} of the files that git knows or would know, without those that no recipe needs."""
    listed = subprocess.run(["git", "-C", source, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                            capture_output=True, text=True, check=True).stdout
    return {name: (source / name).read_bytes() for name in sorted(set(listed.split("\0")))
            if name and not name.startswith(LEFT_OUT) and (source / name).is_file()}


def write(tree, files):
    """Makes `tree` these files; its folder build/ stays."""
    for path in [p for p in tree.rglob("*") if p.is_file() or p.is_symlink()]:
        name = path.relative_to(tree).as_posix()
        if not name.startswith("build/") and name not in files:
            path.unlink()
    for name, content in files.items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_bytes() != content:
            path.write_bytes(content)
            path.chmod(0o755 if content.startswith(b"#!") else 0o644)


def apply(page, path, files):
    """Changes `files` as the page says: (number of changes, commands)."""
    commands, edits = [], 0
    for target, language, text in blocks(path):
        if language == "sh":
            commands += text.splitlines()
            continue
        if target is None:
            raise SystemExit(f"{page}: a block of {language} under a heading without a file")
        edits += 1
        if language == "diff":
            files[target] = patched(files[target].decode(), text, target).encode()
        elif target in files:
            raise SystemExit(f"{page}: {target} is there already")
        else:
            files[target] = text.encode()
    if edits == 0 or not commands:
        raise SystemExit(f"{page}: {edits} files and {len(commands)} commands: has its form changed?")
    return edits, commands


def main():
    pages, source, work = sys.argv[1].split(","), pathlib.Path(sys.argv[2]).resolve(), pathlib.Path(sys.argv[3]).resolve()
    tree, variables = work / "tree", ["-D" + v for v in sys.argv[4:]]
    files = copy_of_tree(source)
    for page in pages:
        edits, commands = apply(page, source / page, files)
    write(tree, files)
    for command in commands:
        print(f"$ {command}", flush=True)
        words = shlex.split(command)
        if words[:2] == ["cmake", "--preset"]:
            words += variables
        done = subprocess.run(words, cwd=tree, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        print("\n".join(done.stdout.splitlines()[-40:]), flush=True)
        if done.returncode == 77: # as ctest has it: a tool is missing
            print("skipped: this command")
        elif done.returncode != 0:
            raise SystemExit(f"{page}: '{command}' has failed with {done.returncode}")
    print(f"{page}: {edits} blocks, {len(commands)} commands")


if __name__ == "__main__":
    main()

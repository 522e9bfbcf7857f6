#!/usr/bin/env python3
"""Lays out the pages of the HTML book in a folder, for mkdocs: scripts/docs.sh calls it.

    book.py OUT_DIR

Pages keep their places in the tree, so that their links hold. Links to files that are no pages lead to copies of these files.
GitHub and mkdocs read lists differently: here their items are indented by four columns, with an empty line before each list."""
import os
import pathlib
import re
import shutil
import sys

import c_reference

SOURCE = pathlib.Path(__file__).resolve().parents[1]
PAGES = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "docs/*.md", "bench/log/*.md", "bench/results/*.md", "bindings/*/README.md",
         "tests/**/README.md", "CHANGELOG.md"]
PYTHON = {"reprise": "The package", "reprise.model": "Models", "reprise.session": "Sessions", "reprise.reply": "Replies",
          "reprise.sampler": "Sampling", "reprise.tokenizer": "Tokenizers", "reprise.trainer": "Training",
          "reprise.graph": "Graphs", "reprise.executor": "Executors", "reprise.profile": "Profiles",
          "reprise.custom": "Ops of your own", "reprise.nn": "Kernels on arrays", "reprise.nn_device": "Arrays on a GPU",
          "reprise.device": "Devices", "reprise.gguf": "GGUF files", "reprise.convert": "Models from shapes and texts",
          "reprise.quants": "Quantisation", "reprise.settings": "Settings", "reprise.errors": "Errors"}
NN_NOTE = ("There is a function for each one of [nn.h](../c/nn.md), made when the module is imported: `rp_nn_softmax` is "
           "`nn.softmax`. `help(nn.softmax)` shows shapes, parameters and the comment of the header.\n\n")
ITEM = re.compile(r"(\s*)((?:[-*]|\d+\.)\s+)(.*)")


def indented(text):
    """The page with the content of list items at multiples of four columns."""
    out, stack, fenced, blank = [], [], False, True
    for line in text.split("\n"):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        indent = len(line) - len(line.lstrip())
        item = None if fenced else ITEM.match(line)
        if not line.strip():
            out.append(line)
        elif item and (stack or indent < 4):
            while stack and indent < stack[-1]:
                stack.pop()
            if not stack and not blank and not ITEM.match(out[-1]):
                out.append("")
            mark = item[2].strip()
            out.append("    " * len(stack) + mark + " " * (4 - len(mark)) + item[3])
            stack.append(indent + len(item[2]))
        elif stack:
            while stack and blank and indent < stack[-1]:
                stack.pop()
            rest = max(indent - (stack[-1] if stack else 0), 0)
            out.append("    " * len(stack) + " " * rest + line.lstrip())
        else:
            out.append(line)
        blank = not line.strip()
    return "\n".join(out)


def copied(page, text, out, pages):
    """The text of a page with its links to other files; those files are copied, links to folders become text."""
    def link(match):
        mark, words, target = match.groups()
        path = (page.parent / target.partition("#")[0]).resolve()
        if re.match(r"[a-z]+:|#", target) or path in pages:
            return match[0]
        if path.is_dir() and (path / "README.md") in pages:
            return f"{mark}[{words}]({target.rstrip('/')}/README.md)"
        if path.is_dir() or not path.exists():
            return words
        copy = out / path.relative_to(SOURCE)
        if not copy.suffix or copy.suffix in (".c", ".h", ".py", ".rs", ".go", ".cu"):
            copy, target = copy.with_name(copy.name + ".txt"), target + ".txt" # so that browsers show it
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
        return f"{mark}[{words}]({target})"
    return re.sub(r"(!?)\[((?:[^\]\[]|\[[^\]]*\])*)\]\(([^)\s]+)\)", link, text)


def main():
    out = pathlib.Path(sys.argv[1]).resolve()
    shutil.rmtree(out, ignore_errors=True)
    pages = {p for pattern in PAGES for p in SOURCE.glob(pattern)}
    for page in sorted(pages):
        copy = out / page.relative_to(SOURCE)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(copied(page, indented(page.read_text()), out, pages))
    reference = out / "docs/reference"
    c_reference.write(reference / "c")
    for page in (reference / "c").glob("*.md"):
        page.write_text(indented(page.read_text()))
    os.makedirs(reference / "python")
    lines = ["# Reference of the Python API\n", "Made from the docstrings of `bindings/python/src/reprise`.\n"]
    for module, title in PYTHON.items():
        note = NN_NOTE if module == "reprise.nn" else ""
        (reference / f"python/{module}.md").write_text(f"# {title}\n\n{note}::: {module}\n")
        lines.append(f"- [{title}]({module}.md): `{module}`")
    (reference / "python/README.md").write_text("\n".join(lines) + "\n")
    shutil.copyfile(SOURCE / "docs/book.css", out / "docs/book.css")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main()

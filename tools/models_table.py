#!/usr/bin/env python3
"""Writes what docs/models.md, docs/peers.md and README.md say of architectures and weight types, from the tables of the code. README.md names
some families: each name must be in the table of docs/models.md.

    models_table.py [--check]        --check: fail if the pages do not say what the tables say"""
import difflib
import pathlib
import re
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[1]
TABLE = "model/arch_table.c"
ORDINALS = ["", "", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth"]


def kinds(row, axis, words):
    """"full", or "window, but full in every sixth layer"."""
    inside = re.search(r"\.layers\.%s\s*= \{(.*?)\}" % axis, row)[1]
    values = dict(re.findall(r"\.(\w+) = (\w+)", inside))
    text = words[values["kind"]]
    if "without_heads" in values:
        return f"{words[values['without_heads']]}, or {text}, as the file says"
    return f"{text}, but {words[values['nth']]} in every {ORDINALS[int(values['n'])]} layer" if "nth" in values else text


def feed_forward(row):
    experts = "FEED_FORWARD_EXPERTS" in row
    return "dense, or experts" if experts and "experts_optional" in row else "experts" if experts else "dense"


def families():
    """(name, models, attention, RoPE, feed-forward) of each row."""
    text = (SOURCE / TABLE).read_text()
    rows = re.split(r"^    \{$", re.search(r"ArchRow archs\[\] = \{\n(.*?)^\};", text, re.S | re.M)[1], flags=re.M)[1:]
    for row in rows:
        found = re.search(r'\.name\s*= "([\w-]+)", /\* (.*?) \*/', row)
        if not found:
            raise SystemExit(f"{TABLE}: a row does not say in a comment at its name which models have it:\n{row}")
        attention = {"ATTENTION_FULL": "full", "ATTENTION_WINDOW": "window", "ATTENTION_LATENT": "latent",
                     "ATTENTION_DELTA": "gated delta net", "ATTENTION_CONV": "short convolution", "ATTENTION_SSM": "selective scan",
                     "ATTENTION_NONE": "none"}
        position = {"POSITION_NORM": "pairs (2i, 2i+1)", "POSITION_NEOX": "pairs (i, i+n/2)", "POSITION_NONE": "none"}
        yield found[1], found[2], kinds(row, "attention", attention) + (
            " and selective scan" if ".parallel_ssm" in row else ""), kinds(row, "position", position), feed_forward(row)


def weight_types():
    table = re.search(r"#define RP_DTYPES\(X\)(.*?[^\\])\n", (SOURCE / "include/reprise/tensor.h").read_text(), re.S)[1]
    return [name for name, number in re.findall(r"X\((\w+), .*, (-?\d+)\)", table) if name != "I32" and number != "-1"]


def replaced(text, pattern, new, page):
    if len(re.findall(pattern, text, flags=re.M | re.S)) != 1:
        raise SystemExit(f"{page} has no place, or several, for: {new.splitlines()[0]}")
    return re.sub(pattern, lambda _: new, text, flags=re.M | re.S)


def pages():
    rows, types = list(families()), weight_types()
    table = "\n".join(["| architecture | models | attention | RoPE | feed-forward |", "|---|---|---|---|---|",
                       *("| " + " | ".join(row) + " |" for row in rows)]) + "\n"
    text = (SOURCE / "docs/models.md").read_text()
    text = replaced(text, r"^\| architecture \|.*?\n(?=\n)", table, "docs/models.md")
    yield "docs/models.md", replaced(text, r"^\| weights \|[^\n]*, in any mix \|$", f"| weights | {', '.join(types)}, in any mix |", "docs/models.md")
    counts = f"[{len(rows)} architectures, {len(types)} weight types]"
    for page in ("docs/peers.md", "README.md"):
        yield page, replaced((SOURCE / page).read_text(), r"\[\d+ architectures, \d+ weight types\]", counts, page)


def unknown_names():
    """The names of README.md's list that no row of the table has."""
    listed = re.search(r"^\*\*Models\.\*\*.*?\n\n(.*?)\n\n", (SOURCE / "README.md").read_text(), re.M | re.S)
    names = [" ".join(name.split()) for line in re.findall(r"^- [^:]+:(.*?)[;.]$", listed[1] if listed else "", re.M | re.S)
             for name in line.split(", ")]
    if not names:
        raise SystemExit("README.md has no list of models: lines `- KIND: NAME, NAME;` behind **Models.**")
    known = {name for row in families() for name in row[1].split(", ")}
    return [name for name in names if name not in known]


def main():
    changed = False
    if unknown := unknown_names():
        raise SystemExit(f"README.md names models that the comments of {TABLE} do not name: {', '.join(unknown)}")
    for page, text in pages():
        old = (SOURCE / page).read_text()
        if "--check" not in sys.argv:
            (SOURCE / page).write_text(text)
        elif text != old:
            changed = True
            sys.stdout.writelines(difflib.unified_diff(old.splitlines(True), text.splitlines(True), page, "the tables"))
    if changed:
        raise SystemExit("run tools/models_table.py and commit the pages")


if __name__ == "__main__":
    main()

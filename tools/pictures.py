#!/usr/bin/env python3
"""Draws the pictures of the documentation: every docs/pictures/NAME.dot becomes NAME.svg, by `dot` of Graphviz.

    pictures.py [--check] [REPRISE]

With REPRISE, the program, the graphs of models (MODELS below) are renewed first. --check changes nothing, and fails if a
picture or a graph is not what its source says. Each picture names the hash of its source, so this needs no Graphviz; where
`dot` is installed in the version that drew a picture, the picture itself is compared too, but for places and sizes."""
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[1]
FOLDER = SOURCE / "docs/pictures"
MODELS = {"graph-demo": "assets/demo.gguf", "graph-smollm2": "models/smollm2-135m-instruct-q4_1.gguf"}
FONT = "Helvetica,Arial,sans-serif"
ROLES = {"w": "weight", "wq": "queries", "wk": "keys", "wv": "values"}


def cells(label, weights, color):
    """A node of the model's graph as a table: what it is, what it computes, and the weights that it reads."""
    first, result, *parts = label.split("\\n")
    op, name = re.split(r"\s+", first, maxsplit=1)
    rows = [f'<TR><TD COLSPAN="3" ALIGN="LEFT" BGCOLOR="{color}"><B>{op}</B> &#160;{name}</TD></TR>']
    if parts:
        rows.append(f'<TR><TD COLSPAN="3" ALIGN="LEFT" BGCOLOR="{color}">{parts[0]}</TD></TR>')
    for role, weight in weights:
        shape, size = weight.split("\\n")[1].split("  ")
        role = ROLES.get(role, role.replace("_", " "))
        rows.append(f'<TR><TD ALIGN="LEFT">{role}</TD><TD ALIGN="LEFT">{shape}</TD><TD ALIGN="RIGHT">{size}</TD></TR>')
    rows.append(f'<TR><TD COLSPAN="3" ALIGN="LEFT">result {result.replace("  ", ", ")}</TD></TR>')
    return ('<<TABLE BORDER="1" CELLBORDER="0" CELLSPACING="0" CELLPADDING="3" BGCOLOR="white">' + "".join(rows) +
            "</TABLE>>")


def redrawn(dot):
    """The drawing of `reprise graph --dot --fold` with the weights inside the nodes that read them, so that it fits a page."""
    nodes = dict(re.findall(r'^ *(n\d+) \[label="([^"]*)"', dot, re.M))
    shape = {n: s for n, s in re.findall(r'^ *(n\d+) \[label=.*shape=(\w+)', dot, re.M)}
    color = dict(re.findall(r'^ *(n\d+) \[label=.*fillcolor="(#\w+)"', dot, re.M))
    edges = re.findall(r'^ *(n\d+) -> (n\d+) \[edgetooltip="([^"]*)"(.*)\];', dot, re.M)
    weights = {n: [(tip, nodes[a]) for a, b, tip, _ in edges if b == n and shape.get(a) == "note"] for n in nodes}
    inside = set(re.findall(r"n\d+", "".join(re.findall(r"subgraph cluster_\d+ \{(.*?)\n  \}", dot, re.S))))
    cluster = re.search(r'label="(layers[^"]*)"', dot)
    title = re.search(r'\n  label="([^"]*)"', dot)[1]

    def drawn(n):
        if n in shape:
            name, what = nodes[n].split("\\n")
            form = "cylinder" if shape[n] == "cylinder" else "box"
            return f'{n} [shape={form}, style=filled, fillcolor="{color[n]}", label="{name}\\n{what}"];'
        return f"{n} [shape=plain, label={cells(nodes[n], weights[n], color[n])}];"

    lines = [f'digraph graph_of_a_model {{\n  rankdir=TB; nodesep=0.3; ranksep=0.28; fontname="{FONT}"; fontsize=15;',
             f'  label="{title}"; labelloc=t;', f'  node [fontname="{FONT}", fontsize=13, margin="0.1,0.05"];',
             f'  edge [color="#555555", arrowsize=0.8, fontname="{FONT}", fontsize=12];']
    shown = [n for n in nodes if shape.get(n) != "note"]
    lines += ["  " + drawn(n) for n in shown if n not in inside]
    if cluster:
        lines += [f'  subgraph cluster_layers {{\n    label="{cluster[1]}"; labeljust=l; color="#888888"; fontsize=15;']
        lines += ["    " + drawn(n) for n in shown if n in inside] + ["  }"]
    for a, b, tip, rest in edges:
        if shape.get(a) == "note":
            continue
        if "next layer" in rest:
            tip, rest = "next layer", ', style=dashed, constraint=false' if tip == "x" else None
        elif tip == "w":
            tip = "rows" # the source of get_rows that another node computed
        label = f', label="{tip}"' if tip == "next layer" else ""
        if rest is not None:
            lines.append(f'  {a} -> {b} [tooltip="{tip}"{label}{rest}];')
    return "\n".join(lines) + "\n}\n"


def renew_graphs(reprise, check):
    """The .dot files of models that are here; a list of those that are out of date."""
    old = []
    for name, model in MODELS.items():
        path = SOURCE / model
        if model.startswith("models/"):
            path = pathlib.Path(os.environ.get("REPRISE_MODELS", SOURCE / "models")) / model.removeprefix("models/")
        if not path.exists():
            print(f"{name}: SKIPPED, there is no {model}")
            continue
        dot = subprocess.run([reprise, "graph", str(path), "--dot", "--fold"], check=True, capture_output=True, text=True,
                             env={**os.environ, "REPRISE_DEVICE": "cpu"}).stdout
        page, text = FOLDER / f"{name}.dot", redrawn(dot)
        if not check:
            page.write_text(text)
        elif not page.exists() or page.read_text() != text:
            old.append(f"{page.name} is not the graph of {model}")
    return old


def draw(dot, path):
    """The picture with the hash of its source in its first comment."""
    svg = subprocess.run([dot, "-Tsvg", str(path)], check=True, capture_output=True, text=True).stdout
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return svg.replace("\n", f"\n<!-- {path.name}: sha256 {digest} -->\n", 1)


def without_places(svg):
    """Nodes, edges, colours and texts. Places and sizes depend on the fonts of the machine."""
    return re.sub(r' (?:d|points|x|y|cx|cy|rx|ry|width|height|viewBox|transform)="[^"]*"', "", svg)


def version_of(svg):
    return re.search(r"graphviz version ([\w.]+)", svg)[1]


def check(dot, path):
    """What is wrong with the picture of a source, or None."""
    page = path.with_suffix(".svg")
    if not page.exists():
        return f"{page.name} is missing"
    svg = page.read_text()
    if hashlib.sha256(path.read_bytes()).hexdigest() not in svg:
        return f"{page.name} was not drawn from this {path.name}"
    if dot:
        new = draw(dot, path)
        if version_of(new) == version_of(svg) and without_places(new) != without_places(svg):
            return f"{page.name} is not what dot draws from {path.name}"
    return None


def main():
    words = [a for a in sys.argv[1:] if a != "--check"]
    only_check, dot = "--check" in sys.argv, shutil.which("dot")
    wrong = renew_graphs(words[0], only_check) if words else []
    sources = sorted(FOLDER.glob("*.dot"))
    if not dot:
        if not only_check:
            sys.exit("pictures.py needs dot of Graphviz (apt-get install graphviz)")
        print("SKIPPED: the pictures are not drawn again, as there is no dot of Graphviz; their hashes are compared")
    for path in sources:
        if only_check:
            wrong += filter(None, [check(dot, path)])
        else:
            path.with_suffix(".svg").write_text(draw(dot, path))
    wrong += [f"{p.name} has no source" for p in FOLDER.glob("*.svg") if p.with_suffix(".dot") not in sources]
    if wrong:
        sys.exit("\n".join(wrong) + "\ntools/pictures.py build/reprise renews the pictures")
    print(f"{len(sources)} pictures")


if __name__ == "__main__":
    main()

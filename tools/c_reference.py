#!/usr/bin/env python3
"""A reference of the C API in Markdown, made from include/reprise/*.h: each function, type and constant with its comment.

    c_reference.py OUT_DIR            writes a page for each header, and README.md, which lists all functions
    c_reference.py --check            fails if the pages lack a function that the headers declare

A comment belongs to the declarations below it, up to the next empty line. Doxygen does not read these comments: they have no
marks, so that headers are read as they are."""
import pathlib
import re
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[1]
INCLUDE = SOURCE / "include/reprise"
PIECE = re.compile(r"/\*.*?\*/|^\#(?:[^\n]*\\\n)*[^\n]*", re.S | re.M)
SECTION = re.compile(r"----\s*(.*?)\s*----")
NN_PREFIXES = {"RP_NN_FUNCTIONS": ["rp_nn_", "rp_nn_cpu_"], "RP_NN_QUERIES": ["rp_nn_", "rp_nn_cpu_"], # rows of nn.h
               "RP_NN_HOST_FUNCTIONS": ["rp_nn_cpu_"], "RP_NN_DEVICE_FUNCTIONS": ["rp_nn_"]}
ROW = re.compile(r"(/\*.*?\*/)\s*|\b([A-Z]{1,3})\((\w+),", re.S)


def statement_end(text, at):
    """Behind the statement that begins at `at`: a `;` outside of braces, or the brace that ends an inline function."""
    depth, i = 0, at
    while i < len(text):
        comment = re.match(r"/\*.*?\*/", text[i:], re.S)
        if comment:
            i += comment.end()
            continue
        depth += (text[i] in "({") - (text[i] in ")}")
        i += 1
        if depth == 0 and (text[i - 1] == ";" or (text[i - 1] == "}" and re.match(r"\s*\n", text[i:]))):
            rest = re.match(r"[ \t]*/\*.*?\*/(?=[ \t]*\n)", text[i:], re.S) # a comment at the end of the line
            return i + (rest.end() if rest else 0)
    return len(text)


def pieces(text):
    """(kind, text, line breaks before it) of a header: comment, directive, code."""
    at = 0
    while at < len(text):
        space = re.match(r"\s*", text[at:])[0]
        at += len(space)
        if at == len(text):
            return
        match = PIECE.match(text, at)
        if match:
            yield ("comment" if match[0][0] == "/" else "directive"), match[0], space.count("\n")
            at = match.end()
        else:
            end = statement_end(text, at)
            yield "code", text[at:end], space.count("\n")
            at = end


def plain(comment):
    """The lines of a comment without its marks."""
    lines = re.sub(r"\s*\*/$", "", re.sub(r"^/\*+ ?", "", comment)).split("\n")
    return [re.sub(r"^\s*\* ?", "", line.rstrip().removesuffix("\\").rstrip()) for line in lines]


def escaped(text):
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(p if p.startswith("`") else re.sub(r"([\\*<>\[\]|#])", r"\\\1", p) for p in parts)


def prose(comment):
    """A comment as Markdown: indented lines are code, items of lists stay items."""
    out, code, listed = [], [], False

    def flush():
        while code and not code[-1]:
            code.pop()
        if code:
            indent = min(len(c) - len(c.lstrip()) for c in code if c)
            out.extend(["", "```c", *[c[indent:] for c in code], "```", ""])
        code.clear()

    for line in plain(comment):
        item = re.match(r"- ", line)
        if re.match(r"\s{2,}\S", line) and not (listed and not code and not line.startswith("   ")):
            code.append(line)
        elif not line.strip() and code:
            code.append("")
        else:
            flush()
            if item and not listed:
                out.append("")
            listed = bool(item) or (listed and line.startswith("  "))
            text = line.strip()
            if listed and not item:
                text = "  " + escaped(text)
            out.append(text if listed and not item else "- " + escaped(line[2:]) if item else escaped(text))
    flush()
    return re.sub(r"\n{3,}", "\n\n", "\n".join(out)).strip()


def titled(text):
    """A heading: with a capital, unless it begins with a name of the API or of a variable."""
    return escaped(text if re.match(r"rp_|\W|\w\b", text) else text[:1].upper() + text[1:])


def signature(code):
    """A declaration as a caller sees it: of an inline function the head only, no marks of the compiler."""
    code = re.sub(r"\b(RP_API|RP_NN_API|RP_NODISCARD|static inline)\s+", "", code)
    if re.search(r"\)\s*\{", code) and not code.lstrip().startswith(("typedef", "struct", "enum", "union")):
        code = code[:code.index("{")].rstrip() + ";"
    return re.sub(r"\n {8,}(?=\w)", "\n        ", code.strip())


def names_of(code):
    functions = [n for n in re.findall(r"(?<![\w>])(rp_\w+)\(", re.sub(r"/\*.*?\*/", "", code.split("{")[0], flags=re.S))]
    if functions and not code.lstrip().startswith("typedef"):
        return functions[:1]
    typedef = re.search(r"\(\*(\w+)\)\s*\(", code) if re.match(r"typedef\s+\w[\w *]*\(\*", code) else None
    bare = re.sub(r"/\*.*?\*/", "", code, flags=re.S).rstrip()
    names = [typedef[1]] if typedef else re.findall(r"(\w+)\s*(?:\([^()]*\))?;$", bare)
    return names or re.findall(r"\b(RP_\w+)", code)[:1]


def rows(directive):
    """Markdown of the rows of a macro that lists things: F(silu, ...) or OP(ADD, ...), each with its comment."""
    text = re.sub(r"[ \t]*\\\n", "\n", directive)
    out, comment, at, simple, listed = [], None, text.find("\n") + 1, True, []
    while at and at < len(text):
        match = ROW.search(text, at)
        if not match:
            break
        if match[1]:
            section = SECTION.search(match[1])
            if section:
                out += ["", "### " + titled(section[1]), ""]
            comment, at = None if section else match[1], match.end()
            continue
        end, depth = match.end(), 1
        while depth and end < len(text):
            depth += (text[end] == "(") - (text[end] == ")")
            end += 1
        row = re.sub(r"\n\s+", "\n    ", text[match.start():end])
        name, simple = match[3], simple and not comment
        listed.append(row)
        if match[2] == "F": # a row of nn.h
            prefixes = NN_PREFIXES[re.match(r"#define (\w+)", directive)[1]]
            parameters = re.sub(r"\),\s*\(.*", "", row[row.index("(", 2):], flags=re.S)
            stream = ", void *stream" if "RP_NN_FUNCTIONS" in directive else ""
            row = "\n".join(f"int32_t {p}{name}{parameters}{stream});" for p in prefixes)
            name = "`, `".join(p + name for p in prefixes)
            simple = False
        out += ["", f"#### `{name}`", "", "```c", row, "```", "", prose(comment) if comment else ""]
        comment, at = None, end
    return ["", "```c", *listed, "```", ""] if simple else out


def entry(comment, codes, out):
    """One heading with the declarations that share a comment."""
    hidden = {n + "_sized" for code in codes for n in names_of(code) if n.startswith("rp_") and "{" in code}
    shown = [c for c in codes if names_of(c)[:1] and names_of(c)[0] not in hidden]
    names = [n for c in shown for n in names_of(c)]
    if not names:
        return
    out += ["", "### " + ", ".join(f"`{n}`" for n in dict.fromkeys(names)), "", "```c", *map(signature, shown), "```", ""]
    if hidden:
        out += ["Bindings call " + ", ".join(f"`{n}`" for n in sorted(hidden)) + ".", ""]
    if comment:
        out += [prose(comment), ""]


def page(header):
    text = re.sub(r"^#ifdef __cplusplus\n.*?^#endif$", "", header.read_text(), flags=re.S | re.M)
    parts = list(pieces(text))
    title, intro = re.match(r"/\*\s*(\S+) - (.*)", parts[0][1], re.S).groups()
    out = [f"# {title}", "", prose("/* " + intro[:1].upper() + intro[1:]), ""]
    comment, codes = None, []
    for kind, text, breaks in parts[1:]:
        if codes and (kind != "code" or breaks > 1):
            entry(comment, codes, out)
            comment, codes = None, []
        if kind == "comment":
            section = SECTION.search(text)
            if section:
                out += ["", "## " + titled(section[1]), ""]
            comment = None if section else text
        elif kind == "code":
            codes.append(text)
        elif kind == "directive" and re.match(r"#define \w+\((OP|F|X|\w)\)\s*\\", text):
            found = rows(text)
            if found:
                name = re.match(r"#define (\w+)", text)[1]
                out += ["", f"## `{name}`", "", prose(comment) if comment else "", *found]
            comment = None
        elif kind == "directive" and re.match(r"#define RP_\w+\(", text) and comment:
            name = re.match(r"#define (\w+\([^)]*\))", text)[1]
            out += ["", f"### `{name}`", "", prose(comment), ""]
            comment = None
    if codes:
        entry(comment, codes, out)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(out)) + "\n"


def write(folder):
    folder.mkdir(parents=True, exist_ok=True)
    index = ["# Reference of the C API", "", "Made from the headers by `tools/c_reference.py`. [api.md](../../api.md) has what "
             "holds for all of them: versions, ownership, threads.", "", "| header | functions |", "|---|---|"]
    for header in sorted(INCLUDE.glob("*.h")):
        text = page(header)
        (folder / (header.stem + ".md")).write_text(text)
        functions = re.findall(r"`(rp_\w+)`", "\n".join(re.findall(r"^####? .*$", text, re.M)))
        index.append(f"| [{header.name}]({header.stem}.md) | {', '.join(f'`{f}`' for f in functions)} |")
    (folder / "README.md").write_text("\n".join(index) + "\n")


def check():
    """Fails if a function that the tests of the ABI find in the headers has no heading in the reference."""
    sys.path.insert(0, str(SOURCE / "tests/abi"))
    import headers
    with tempfile.TemporaryDirectory() as temp:
        write(pathlib.Path(temp))
        text = "\n".join(p.read_text() for p in pathlib.Path(temp).glob("*.md") if p.name != "README.md")
    titles = "\n".join(re.findall(r"^###.*$", text, re.M)) + "\n".join(re.findall(r"^Bindings call .*$", text, re.M))
    sys.path.insert(0, str(SOURCE / "tests/nn"))
    import functions as nn_lists
    wanted = {name for h in INCLUDE.glob("*.h") for name, _, _ in headers.functions(h)}
    wanted |= {symbol for _, symbol, _ in nn_lists.symbols(SOURCE)}
    lost = sorted(name for name in wanted if f"`{name}`" not in titles)
    if lost or len(wanted) < 100:
        sys.exit(f"not in the reference: {lost}, of {len(wanted)} functions")
    print(f"{len(wanted)} functions")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    check() if sys.argv[1] == "--check" else write(pathlib.Path(sys.argv[1]))

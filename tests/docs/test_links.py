#!/usr/bin/env python3
"""Every relative link in the Markdown files leads to a file of the tree, and its anchor to a heading of that file. Every
Markdown file that a source file names exists. Every page of docs/ and bench/log/ can be reached from README.md, which has at
most 150 lines. Every script that a page names exists, and every page of docs/ is in the navigation of the HTML
book. Every fuzz target has a row in docs/reliability.md. No network.

    test_links.py SOURCE_DIR"""
import pathlib
import re
import sys

SOURCE = pathlib.Path(sys.argv[1]).resolve()
SKIPPED = re.compile(r"(^|/)(\.\w|build|models|target|__pycache__|out\b|node_modules)")
LINK = re.compile(r"!?\[(?:[^\]\[]|\[[^\]]*\])*\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)")
NAMED = re.compile(r"(?<![\w./:-])((?:docs(?!/reference/)|bench|tests|bindings|tools|examples)/[\w./-]*\w\.md|README\.md|CONTRIBUTING\.md)(?:#([\w-]+))?")
TEXTS = {".c", ".h", ".cu", ".cuh", ".py", ".sh", ".cmake", ".in", ".rs", ".go", ".txt", ".json", ".toml", ".yml", ".cpp", ".cc", ".md"}


def files():
    pending = [SOURCE]
    while pending:
        for path in sorted(pending.pop().iterdir()):
            name = path.relative_to(SOURCE).as_posix()
            if SKIPPED.search(name) or path.is_symlink():
                continue
            if path.is_dir():
                pending.append(path)
            elif path.suffix in TEXTS:
                yield path


def without_code(text):
    """The text without fenced and indented blocks and without code in lines: no links or headings are in them."""
    lines, fenced, blank = [], False, True
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            fenced = not fenced
            line = ""
        code = fenced or (blank and line.startswith("    "))
        blank = not line.strip() or (blank and code)
        lines.append("" if code else line)
    return re.sub(r"`[^`\n]*`", lambda m: m[0] if "](" in m[0] else " " * len(m[0]), "\n".join(lines))


def anchors(path):
    """The anchors that GitHub makes of the headings of a page."""
    found, fenced = {}, False
    for line in path.read_text().splitlines():
        fenced ^= line.lstrip().startswith("```")
        heading = None if fenced else re.match(r"#{1,6}\s+(.*?)\s*#*$", line)
        if heading:
            text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1])
            slug = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
            n = found.get(slug, 0)
            found[slug] = n + 1
            if n:
                found[f"{slug}-{n}"] = 1
        for name in re.findall(r"<a (?:id|name)=\"([^\"]+)\"", line):
            found[name] = 1
    return found


def check_target(page, line, target, base, wrong):
    """The file that a link means, or None; a link that leads nowhere is added to wrong."""
    name, _, anchor = target.partition("#")
    path = (base / name).resolve() if name else page
    where = f"{page.relative_to(SOURCE)}:{line}: {target}"
    if not path.exists():
        wrong.append(f"{where}: no such file")
        return None
    if SOURCE not in path.parents and path != SOURCE:
        wrong.append(f"{where}: outside of the tree")
    elif anchor and path.suffix == ".md" and anchor not in anchors(path):
        wrong.append(f"{where}: no such heading")
    return path


def check_page(page, wrong):
    """The pages that this one links to."""
    for name in re.findall(r"(?<![\w/.-])((?:scripts|tools|bench)/[\w/]+\.(?:sh|py))\b", page.read_text()):
        if not (SOURCE / name).exists():
            wrong.append(f"{page.relative_to(SOURCE)}: there is no {name}")
    text, linked = without_code(page.read_text()), set()
    for match in LINK.finditer(text):
        if not re.match(r"[a-z]+:", match[1]):
            linked.add(check_target(page, text.count("\n", 0, match.start()) + 1, match[1], page.parent, wrong))
    return linked


def check_source(path, wrong):
    text = path.read_text(errors="replace")
    for match in NAMED.finditer(text):
        target = match[1] + ("#" + match[2] if match[2] else "")
        base = path.parent if match[1] == "README.md" and (path.parent / "README.md").exists() else SOURCE
        check_target(path, text.count("\n", 0, match.start()) + 1, target, base, wrong)


def main():
    wrong, links, n_sources = [], {}, 0
    for path in files():
        if path.suffix == ".md":
            links[path] = check_page(path, wrong)
        elif path != pathlib.Path(__file__).resolve():
            check_source(path, wrong)
            n_sources += 1
    reached, pending = set(), [SOURCE / "README.md"]
    while pending:
        page = pending.pop()
        if page not in reached:
            reached.add(page)
            pending += [p for p in links.get(page, ()) if p in links]
    for page in links:
        if page not in reached and page.parent in (SOURCE / "docs", SOURCE / "bench/log"):
            wrong.append(f"{page.relative_to(SOURCE)}: no chain of links from README.md leads to it")
    n_links = sum(len(found) for found in links.values())
    book = (SOURCE / "docs/mkdocs.yml").read_text()
    wrong += [f"docs/{p.name} is not in docs/mkdocs.yml" for p in (SOURCE / "docs").glob("*.md") if f" docs/{p.name}\n" not in book]
    rows = (SOURCE / "docs/reliability.md").read_text()
    wrong += [f"docs/reliability.md has no row of {p.stem}" for p in sorted((SOURCE / "tests/fuzz").glob("fuzz_*.c")) if f"\n| `{p.stem}` |" not in rows]
    n_lines = len((SOURCE / "README.md").read_text().splitlines())
    if n_lines > 150:
        wrong.append(f"README.md has {n_lines} lines, more than 150")
    print(f"{len(links)} pages, {n_links} different links, {n_sources} source files")
    if not n_links or not n_sources:
        wrong.append("nothing was checked")
    sys.exit("\n".join(wrong) or 0)


if __name__ == "__main__":
    main()

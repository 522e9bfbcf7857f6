#!/usr/bin/env python3
"""Compares the table of keywords in docs/structured-output.md with grammar/schema/keywords.h, from which the compiler of
schemas is built. The formats are those of grammar/schema/format.c.

    schema_keywords.py SOURCE_DIR [--write]"""
import pathlib
import re
import sys

source = pathlib.Path(sys.argv[1])
STATES = {"KEPT": "kept", "PARTLY": "kept, with limits", "NEVER": "refused or weakened", "NOTHING": "allows every value"}
rows = re.findall(r'X\("([^"]+)", (\w+), "((?:[^"\\]|\\.)*)"\)', (source / "grammar/schema/keywords.h").read_text())
formats = re.findall(r'^    \{"([a-z0-9-]+)",', (source / "grammar/schema/format.c").read_text(), re.M)
if len(rows) < 60 or len(formats) < 13:
    sys.exit(f"{len(rows)} keywords, {len(formats)} formats found: has the form of the lists changed?")
lines = ["| keyword | state | limits |", "|---|---|---|"]
for state in STATES:
    plain = [f"`{name}`" for name, its, remark in rows if its == state and not remark]
    if plain:
        lines.append(f"| {', '.join(plain)} | {STATES[state]} |  |")
    lines += [f"| `{name}` | {STATES[state]} | {remark} |".replace("\\\\", "\\") for name, its, remark in rows
              if its == state and remark]
lines += ["", "Formats: " + ", ".join(f"`{name}`" for name in formats) + "."]
page = source / "docs/structured-output.md"
text = page.read_text()
before, rest = text.split("<!-- keywords -->\n")
_, after = rest.split("<!-- end of keywords -->\n")
new = before + "<!-- keywords -->\n" + "\n".join(lines) + "\n<!-- end of keywords -->\n" + after
if "--write" in sys.argv:
    page.write_text(new)
elif new != text:
    sys.exit("docs/structured-output.md has another table than grammar/schema/keywords.h: tools/schema_keywords.py . --write")

#!/usr/bin/env python3
"""The shared library exports exactly the functions that the public headers declare.

    exports.py SOURCE_DIR VERSION_H LIBRARY

Also: each of them is marked RP_API; NAME_sized comes with an inline NAME; reprise.h includes every header but nn.h, which is of
libreprise_nn."""
import collections
import pathlib
import subprocess
import sys

import headers

source, version_h, library = sys.argv[1:]
public = sorted(pathlib.Path(source, "include/reprise").glob("*.h")) + [pathlib.Path(version_h)]
problems = []

declared, inline = collections.Counter(), set()
for header in public:
    for name, text, is_inline in headers.functions(header):
        if is_inline:
            inline.add(name)
            continue
        declared[name] += 1
        if not text.startswith("RP_API "):
            problems.append(f"{header.name}: {name} is not marked RP_API")
problems += [f"{name} is declared {n} times" for name, n in declared.items() if n > 1]
problems += [f"{name} has no inline function without _sized" for name in declared
             if name.endswith("_sized") and name.removesuffix("_sized") not in inline]

nm = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
symbols = [line.split() for line in nm.splitlines()]
exported = {symbol[-1].split("@")[0] for symbol in symbols if symbol[1] != "A"} # A: the version itself
problems += [f"{name} is declared and not exported" for name in sorted(declared.keys() - exported)]
problems += [f"{name} is exported and in no public header" for name in sorted(exported - declared.keys())]
if "REPRISE_0" not in {symbol[-1] for symbol in symbols}:
    problems.append("the exported symbols have no version REPRISE_0")

everything = pathlib.Path(source, "include/reprise/reprise.h").read_text()
problems += [f"reprise.h does not include {header.name}" for header in public
             if header.name not in ("reprise.h", "nn.h") and f'#include "reprise/{header.name}"\n' not in everything]

if len(declared) < 150 or len(public) < 15:
    problems.append(f"only {len(declared)} functions in {len(public)} headers were found: has their form changed?")
print("\n".join(problems) or f"{len(declared)} functions of {len(public)} headers are exported, and nothing else")
sys.exit(bool(problems))

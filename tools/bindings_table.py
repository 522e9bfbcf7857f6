#!/usr/bin/env python3
"""Writes docs/bindings.md: which binding wraps which public function of the C headers.

    bindings_table.py [--check]        --check: fail if the page is not what the files below say

A binding is a folder bindings/LANGUAGE with a file functions.txt, one C function a line. Each binding's own tests keep that
file true to its code; here it is compared with the headers."""
import difflib
import pathlib
import re
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[1]
PAGE = SOURCE / "docs/bindings.md"
sys.path[:0] = [str(SOURCE / "tests/abi"), str(SOURCE / "tests/nn")]
import functions as nn_lists  # noqa: E402
import headers  # noqa: E402

NAMES = {"python": "Python", "rust": "Rust", "go": "Go"}
# Functions that a binding leaves out on purpose.
BY_LANGUAGE = [
    (r"rp_(fail|match_node|node_params|cpu_kernel)$", "for kernels and rules in C"),
    (r"rp_gguf_(get_|number_at|string_at|value_type_name)|rp_dtype_from_gguf$", "Python: metadata is a mapping"),
    (r"rp_view_|rp_put_json_string$|rp_visible_text$|rp_new_file_|rp_utf8_|rp_token_list_", "the language has its own"),
]
HEAD = """# Functions and bindings

Of the {total} public functions of the C headers {counts}.

Written by `tools/bindings_table.py`; a test compares it with the headers and with `functions.txt` of each binding.
`✓`: the binding calls the function. A function `NAME_sized` is called with the sizes of the binding's own structs
([api.md](api.md#structs-that-grow)).
"""


def groups():
    """(header, [functions])."""
    for path in [*sorted((SOURCE / "include/reprise").glob("*.h")), SOURCE / "cmake/version.h.in"]:
        names = sorted(name for name, _, inline in headers.functions(path) if not inline)
        if names:
            yield path.name.removesuffix(".in"), names
    yield "nn.h", sorted(symbol for _, symbol, _ in nn_lists.symbols(SOURCE))


def page():
    bindings = {path.parent.name: set(path.read_text().split()) for path in sorted((SOURCE / "bindings").glob("*/functions.txt"))}
    listed = list(groups())
    known = {name for _, names in listed for name in names}
    unknown = [f"bindings/{language}/functions.txt: no header declares {name}"
               for language, names in bindings.items() for name in sorted(names - known)]
    if unknown:
        raise SystemExit("\n".join(unknown))
    order = sorted(bindings, key=lambda language: list(NAMES).index(language) if language in NAMES else 99)
    titles = [NAMES.get(language, language) for language in order]
    counts = [f"{title} calls {len(bindings[language])}" for language, title in zip(order, titles)]
    head = HEAD.format(total=len(known), counts=", ".join(counts[:-1]) + " and " + counts[-1])
    out = [head, f"| header | functions | {' | '.join(titles)} |", f"|---|---|{'---|' * len(order)}"]
    for header, names in listed:
        counts = " | ".join(str(len(bindings[language] & set(names))) for language in order)
        out.append(f"| {header} | {len(names)} | {counts} |")
    for header, names in listed:
        out += ["", f"## {header}", "", f"| function | {' | '.join(titles)} | |", f"|---|{'---|' * len(order)}---|"]
        for name in names:
            marks = ["✓" if name in bindings[language] else "" for language in order]
            why = next((text for pattern, text in BY_LANGUAGE if re.match(pattern, name)), "") if not all(marks) else ""
            out.append(f"| `{name}` | {' | '.join(marks)} | {why} |")
    return "\n".join(out) + "\n"


def main():
    old, new = PAGE.read_text() if PAGE.exists() else "", page()
    if sys.argv[1:] != ["--check"]:
        PAGE.write_text(new)
        return 0
    sys.stdout.writelines(list(difflib.unified_diff(old.splitlines(True), new.splitlines(True), "docs/bindings.md", "as it should be"))[:40])
    if old != new:
        print("tools/bindings_table.py renews docs/bindings.md.")
    return old != new


if __name__ == "__main__":
    sys.exit(main())

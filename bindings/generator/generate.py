#!/usr/bin/env python3
"""Makes those parts of the bindings of Rust and Go that repeat the C headers, and compares or writes them.

    generate.py [--write]

Without --write it fails if a file is not what the headers give, or if a function of reprise/nn.h has no row in shapes.py.
It needs a C compiler (CC, or cc)."""
import difflib
import pathlib
import sys

import go_nn
import headers
import lengths
import rust_nn
import rust_raw
import shapes
from wrapped import wrapped

SOURCE = pathlib.Path(__file__).resolve().parents[2]


def files():
    declarations, values, sizes = headers.read(SOURCE)
    functions = list(shapes.nn_functions(SOURCE, declarations))
    raw = rust_raw.Raw(declarations, values, sizes)
    yield "rust/reprise-sys/src/reprise.rs", raw.reprise()
    yield "rust/reprise-sys/src/nn.rs", raw.nn()
    yield "rust/reprise-sys/src/layout.rs", raw.layout()
    yield "rust/reprise/src/nn/functions.rs", rust_nn.generate(functions)
    yield "rust/reprise/tests/suite/lengths.rs", lengths.rust(functions)
    yield "go/nn/lengths_test.go", lengths.go(functions)
    yield "go/nn/functions.go", go_nn.generate(functions)
    # After the files above, whose calls count.
    rust, go = {"**/*.rs": "sys::"}, {"[!_]*[!t].go": "C.", "*_[!t]*.go": "C.", "shim.c": ""}
    yield "rust/functions.txt", lambda: wrapped(SOURCE / "bindings/rust/reprise/src", rust, declarations.functions)
    yield "go/functions.txt", lambda: wrapped(SOURCE / "bindings/go", go, declarations.functions)


def main():
    write, bad = sys.argv[1:] == ["--write"], 0
    for name, text in files():
        path = SOURCE / "bindings" / name
        text = text() if callable(text) else text
        old = path.read_text() if path.exists() else ""
        if old == text:
            continue
        if write:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            continue
        bad = 1
        sys.stdout.writelines(list(difflib.unified_diff(old.splitlines(True), text.splitlines(True), f"bindings/{name}",
                                                        "what the headers give"))[:100])
    if bad:
        print("The bindings are not those of the headers: bindings/generator/generate.py --write renews them.")
    return bad


if __name__ == "__main__":
    sys.exit(main())

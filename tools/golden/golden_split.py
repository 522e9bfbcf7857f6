#!/usr/bin/env python3
"""The parts of a split GGUF file, made by llama.cpp's llama-gguf-split.

    tools/golden/golden_split.py LLAMA_GGUF_SPLIT tests/golden/tiny/llama-mix.gguf tests/golden/split

The files in tests/golden/split are those of the llama.cpp that llama-cpp-python 0.3.36 contains."""
import pathlib
import subprocess
import sys

program, model, out = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
out.mkdir(parents=True, exist_ok=True)
subprocess.run([program, "--split", "--split-max-tensors", "8", model, str(out / pathlib.Path(model).stem)], check=True)

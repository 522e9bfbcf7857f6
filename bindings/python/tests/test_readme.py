"""The examples of README.md run, on a small model, and give a text."""
import re

import numpy as np

from conftest import SOURCE, TINY


def test_the_examples(capsys):
    text = (SOURCE / "bindings/python/README.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.S)
    assert len(blocks) == 4
    known = {"scores": np.ones((2, 3), np.float32), "x": np.ones(3, np.float32)}
    code = "\n".join(blocks).replace("2048", "512").replace("temperature=0.7", 'template="chatml", max_tokens=8, temperature=0.7')
    front, kernels = code.replace("model.gguf", str(TINY)).split("from reprise import nn")
    exec(front, known)
    assert capsys.readouterr().out and known["y"].shape == (3, 4)
    known["x"] = np.ones(3, np.float32)
    exec("from reprise import nn" + kernels, known)
    assert np.allclose(known["p"], 1 / 3) and np.allclose(known["x"], 0.7310586)


def test_the_example_of_external_memory(capsys):
    block, = re.findall(r"```python\n(.*?)```", (SOURCE / "docs/extend.md").read_text(), re.S)
    exec(block, {})
    assert abs(float(capsys.readouterr().out) - 1.7615941) < 1e-6 # silu(2)


def test_readme_of_the_project_has_the_same_first_lines():
    first = re.search(r"```python\n(.*?)```", (SOURCE / "bindings/python/README.md").read_text(), re.S)[1]
    assert first in (SOURCE / "README.md").read_text()

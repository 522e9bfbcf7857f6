"""The notebook runs, and its figures are drawn."""
import shutil

import pytest

from conftest import HANG_S, SOURCE

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
config = pytest.importorskip("traitlets.config")


def test_the_tour(tmp_path):
    notebook = nbformat.read(SOURCE / "bindings/python/notebooks/tour.ipynb", as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "the notebook is kept without outputs"
    # No port is opened, and the sockets are not put into the source tree, which other tests copy.
    files = config.Config({"KernelManager": {"transport": "ipc", "ip": str(tmp_path / "kernel")}})
    limits = {name: int(HANG_S) for name in ("timeout", "startup_timeout", "iopub_timeout")}
    nbclient.NotebookClient(notebook, kernel_name="python3", config=files, **limits).execute()
    kinds = [{kind for output in cell.get("outputs", []) for kind in output.get("data", {})} for cell in notebook.cells]
    assert sum("image/png" in k for k in kinds) == 3
    drawn = next(output["data"]["image/svg+xml"] for cell in notebook.cells for output in cell.get("outputs", [])
                 if "image/svg+xml" in output.get("data", {}))
    assert ("router" in drawn) if shutil.which("dot") else ("Graphviz" in drawn)
    assert "experts_down" in "".join(output.get("text", "") for cell in notebook.cells for output in cell.get("outputs", []))

"""What the package repeats of the C headers is what they say."""
import ctypes
import inspect
import re
import subprocess
import sys

import reprise
from conftest import SOURCE
from reprise import _c, _lib, errors, nn
from reprise._nn.rules import RULES


def test_the_written_modules_are_up_to_date():
    done = subprocess.run([sys.executable, SOURCE / "bindings/python/generate.py"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_changed_signature_is_noticed(tmp_path):
    """In a copy of the sources a parameter, a struct and a status change; generate.py fails for each."""
    import shutil
    for name in ("include", "cmake", "tests/abi", "tests/nn", "bindings/python/src"):
        shutil.copytree(SOURCE / name, tmp_path / name)
    script = tmp_path / "bindings/python/generate.py"
    for name in ("generate.py", "functions.txt"):
        shutil.copy(SOURCE / "bindings/python" / name, script.parent)

    def change(path, old, new):
        text = (tmp_path / path).read_text()
        assert old in text
        (tmp_path / path).write_text(text.replace(old, new))
        done = subprocess.run([sys.executable, script], capture_output=True, text=True)
        (tmp_path / path).write_text(text)
        return done.returncode
    assert change("include/reprise/session.h", "session.h - ", "session.h - ") == 0
    assert change("include/reprise/session.h", "rp_session_step(RpSession *s, int32_t token)",
                  "rp_session_step(RpSession *s, int32_t id)") != 0
    assert change("include/reprise/nn.h", "F(silu, (const float *x, float *y, int64_t n)",
                  "F(silu, (const float *x, float *y, int32_t n)") != 0
    assert change("tests/abi/reprise.abi", "<enumerator name='RP_E_CUDA' value='-12'/>",
                  "<enumerator name='RP_E_CUDA' value='-13'/>") != 0
    assert change("include/reprise/graph.h", "rp_silu(ComputeGraph *g, TensorNode *x)",
                  "rp_silu(ComputeGraph *g, TensorNode *x, float beta)") != 0


def test_structs_have_the_size_of_c():
    text = inspect.getsource(_c)
    found = re.findall(r"class (\w+)\(ct\.\w+\): # (\d+) bytes", text)
    assert len(found) > 40
    for name, size in found:
        assert ctypes.sizeof(getattr(_c, name)) == int(size), name


def test_every_function_of_the_library_has_a_prototype():
    nm = subprocess.run(["nm", "-D", "--defined-only", _lib.lib.path], capture_output=True, text=True, check=True).stdout
    exported = set(re.findall(r"\bT (rp_\w+)", nm))
    assert exported - {"rp_fail"} == set(_c.PROTOTYPES)


def test_every_status_has_a_class():
    assert set(errors.CLASSES) == {s for s in _c.RpStatus if s != 0}
    assert set(errors.NN_CLASSES) == {s for s in _c.RpNnStatus if s != 0}
    for status, kind in errors.CLASSES.items():
        assert kind.status == status and issubclass(kind, reprise.Error)


def test_every_function_of_nn_has_a_row():
    """A new function of nn.h needs its row in _nn/rules.py, in which every parameter occurs."""
    for name in nn.NAMES:
        assert name in nn.FUNCTIONS, f"{name} has no row in _nn/rules.py"
        function = nn.FUNCTIONS[name]
        arrays = [a.name for a in function.inputs + function.outputs]
        pointers = [p for kind, p in function.parameters if kind.endswith("*") and p not in ("stream", "workspace")]
        assert sorted(arrays) == sorted(pointers), name
        words = set(re.findall(r"[A-Za-z_]\w*", RULES.get(name, " ".join(function.scalars))))
        for kind, parameter in function.parameters:
            assert kind.endswith("*") or parameter in words | {"workspace_bytes"} or parameter.startswith("stride_"), f"{name}: {parameter} is not in its row"
        for (output, source) in function.aliases:
            assert output in arrays and source in arrays
        for argument in function.inputs + function.outputs:
            const = dict((p, k) for k, p in function.parameters)[argument.name].startswith("const")
            assert const != (argument.output or argument.changed), f"{name}: {argument.name}"
    assert set(RULES) <= set(nn.NAMES), "rows of functions that nn.h does not have"


def test_functions_for_devices_are_wrapped():
    listed = (SOURCE / "bindings/python/functions.txt").read_text().split()
    twins = {f"rp_nn_{name}" for name in nn.NAMES}
    assert {symbol for symbol in _c.NN if not symbol.startswith("rp_nn_cpu_")} - twins <= set(listed)


def test_versions():
    project = re.search(r"project\(reprise VERSION (\S+)", (SOURCE / "CMakeLists.txt").read_text())[1]
    assert reprise.__version__ == reprise.version() == project
    assert f'version = "{project}"' in (SOURCE / "bindings/python/pyproject.toml").read_text()
    assert nn.abi_version() == _c.RP_NN_ABI_VERSION

"""The kernels as functions on arrays (libreprise_nn): nn.softmax(x), nn.rmsnorm(x, weight, eps=1e-6), nn.topk(x, k=4).

Arrays are NumPy's or any with __dlpack__, on the host; or all of them DeviceArray or objects with __cuda_array_interface__, on a
GPU. Inputs of another type are converted. Outputs are allocated unless they are given: nn.silu(x, y=x) works in place.
A function that the library lacks is computed by NumPy; nn.softmax.backend says which it is."""
from __future__ import annotations

import ctypes as ct
import inspect
import math
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _c
from ._arrays import Array, as_array, dtype_number, exact
from ._lib import CHECKS, NN_CTYPES, lib
from ._nn import library as nn_library
from ._nn.formulas import FALLBACK
from ._nn.library import library
from ._nn.rules import RULES
from .errors import ArgumentError, DtypeError, ShapeError
from .nn_device import DeviceArray, on_device

ELEMENTS = {"float": np.float32, "int32_t": np.int32, "int64_t": np.int64, "uint64_t": np.uint64, "void": np.uint8,
            "uint8_t": np.uint8, "uint16_t": np.uint16, "uint32_t": np.uint32, "double": np.float64, "char": np.uint8}

class Argument:
    """An array of a row of RULES."""

    def __init__(self, text: str, output: bool) -> None:
        found = re.fullmatch(r"(\w+)([?!+]*)\[(.*)\]", text)
        if found is None:
            raise ValueError(f"_nn/rules.py: '{text}' is not understood")
        self.name, marks = found[1], found[2]
        self.optional, self.changed, self.at_least, self.output = "?" in marks, "!" in marks, "+" in marks, output
        self.dims = [d.strip() for d in re.findall(r"(?:[^,()]|\([^()]*\))+", found[3])]
        self.element: Any = np.float32
        self.bytes = False # blocks of any type


class Function:
    """A function of nn.h, made from its row of RULES."""

    def __init__(self, name: str, rule: str) -> None:
        self.__name__ = name
        rule, _, aliases = rule.partition("|")
        arrays, _, scalars = rule.partition(";")
        inputs, _, outputs = arrays.partition("->")
        split = re.compile(r"\S+?\[(?:[^\[\]]*)\]")
        self.inputs = [Argument(text, False) for text in split.findall(inputs)]
        self.outputs = [Argument(text, True) for text in split.findall(outputs)]
        self.scalars = dict((part.partition("=")[0], part.partition("=")[2]) for part in scalars.split())
        self.aliases = [tuple(part.split("=")) for part in aliases.split()]
        symbol = f"rp_nn_cpu_{name}" if f"rp_nn_cpu_{name}" in _c.NN else f"rp_nn_{name}"
        self.parameters = _c.NN[symbol]
        kinds = {parameter: kind for kind, parameter in self.parameters}
        for argument in self.inputs + self.outputs:
            element = kinds[argument.name].replace("const ", "").rstrip(" *")
            argument.element, argument.bytes = ELEMENTS[element], element == "void"
        self.kinds = {parameter: NN_CTYPES[kind] for kind, parameter in self.parameters if not kind.endswith("*")}
        self.__doc__ = f"{name}: {rule.strip()}\n\n{_c.NN_DOCS.get(name, '')}"
        self.__signature__ = self.signature()

    def signature(self) -> inspect.Signature:
        keyword, parameters = inspect.Parameter.KEYWORD_ONLY, []
        for at, argument in enumerate(self.inputs):
            last = all(later.optional for later in self.inputs[at:]) # None is given for one before others
            default = None if last else inspect.Parameter.empty
            parameters.append(inspect.Parameter(argument.name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default))
        for name, value in self.scalars.items():
            parameters.append(inspect.Parameter(name, keyword, default=number(value) if value else inspect.Parameter.empty))
        for argument in self.outputs:
            if argument.dims:
                parameters.append(inspect.Parameter(argument.name, keyword, default=None))
        return inspect.Signature([*parameters, inspect.Parameter("stream", keyword, default=None)])

    def __repr__(self) -> str:
        return f"<nn.{self.__name__}{self.__signature__}>"

    @property
    def backend(self) -> str:
        """"library" or "numpy"."""
        return "library" if nn_library.NN is not None and nn_library.NN.has(f"rp_nn_cpu_{self.__name__}") else "numpy"

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        try:
            bound = self.__signature__.bind(*arguments, **keywords)
        except TypeError as error:
            raise TypeError(f"nn.{self.__name__}: {error}") from None
        bound.apply_defaults()
        given = bound.arguments
        device = any(on_device(given.get(a.name)) for a in self.inputs + self.outputs)
        arrays = {a.name: self.array(a, given[a.name], device) for a in self.inputs}
        sizes, leading = self.sizes(arrays, {name: self.scalar(name, given[name]) for name in self.scalars})
        for argument in self.outputs:
            value = given.get(argument.name)
            if value is None and argument.optional:
                arrays[argument.name] = None
                continue
            shape = self.shape(argument, sizes, leading)
            if value is not None:
                arrays[argument.name] = self.array(argument, value, device)
                if arrays[argument.name].shape != shape:
                    raise ShapeError(f"{self.place(argument)}: must have shape {shape}, not {arrays[argument.name].shape}")
            elif device and argument.dims:
                arrays[argument.name] = DeviceArray(shape, argument.element)
            else:
                arrays[argument.name] = np.zeros(shape, argument.element)
        for argument in self.inputs + self.outputs:
            if f"stride_{argument.name.lower()}" in self.kinds:
                shape = tuple(arrays[argument.name].shape)
                sizes[f"stride_{argument.name.lower()}"] = math.prod(shape[1:]) if len(shape) == len(argument.dims) else 0
        if not device:
            self.check_overlap(arrays)
            if self.backend == "numpy":
                return self.by_numpy(arrays, sizes)
        return self.by_library(arrays, sizes, device, given["stream"])

    def place(self, argument: Argument) -> str:
        return f"nn.{self.__name__}: {argument.name}"

    def scalar(self, name: str, value: Any) -> Any:
        if name == "type":
            return dtype_number(value)
        kind = self.kinds.get(name, "i64")
        return CHECKS[kind](f"nn.{self.__name__}: {name}", int(value) if isinstance(value, (bool, np.bool_)) else value)

    def array(self, argument: Argument, value: Any, device: bool) -> Any:
        """The array to pass: an input may be converted, an output or a changed input not."""
        if value is None:
            if argument.optional:
                return None
            raise ArgumentError(f"{self.place(argument)}: must be an array, not None")
        if device:
            from .nn_device import device_view
            return device_view(value, None if argument.bytes else argument.element, self.place(argument))
        if not argument.output and not argument.changed:
            if argument.bytes:
                return np.ascontiguousarray(as_array(value)).reshape(-1).view(np.uint8)
            return exact(value, argument.element, self.place(argument))
        array = as_array(value)
        if array.dtype != argument.element:
            raise DtypeError(f"{self.place(argument)}: must be {np.dtype(argument.element)}, not {array.dtype}")
        if not array.flags.c_contiguous or not array.flags.aligned or not array.flags.writeable or array.flags.writebackifcopy:
            raise ArgumentError(f"{self.place(argument)}: must be a contiguous, aligned array that can be written")
        return array

    def sizes(self, arrays: dict[str, Any], scalars: dict[str, Any]) -> tuple[dict[str, Any], dict[str, tuple[int, ...]]]:
        """The values of parameters that are dimensions, and the leading dimensions of *names."""
        sizes, checks = dict(scalars), []
        leading: dict[str, tuple[int, ...]] = {}
        for argument in self.inputs:
            array = arrays[argument.name]
            if array is None:
                continue
            dims, shape = self.resolved(argument, sizes), tuple(array.shape)
            if dims and dims[0].startswith("*"):
                split = len(shape) - len(dims) + 1
                if split < 0:
                    raise ShapeError(f"{self.place(argument)}: must have at least {len(dims) - 1} dimensions, not {shape}")
                name, front = dims[0][1:], shape[:split]
                if leading.setdefault(name, front) != front:
                    raise ShapeError(f"{self.place(argument)}: shape {shape} does not begin with {leading[name]}")
                sizes[name] = int(np.prod(front, dtype=np.int64))
                dims, shape = dims[1:], shape[split:]
            if len(dims) == 1 and not dims[0].isidentifier() and "/" not in dims[0]:
                shape = (array.size,) # a number of bytes or elements
            if len(dims) == len(shape) + 1 and (dims[0].endswith("?") or "1" in dims):
                dims.remove(dims[0] if dims[0].endswith("?") else "1")
            if len(dims) != len(shape):
                raise ShapeError(f"{self.place(argument)}: must be [{','.join(argument.dims)}], not shape {tuple(array.shape)}")
            for dim, size in zip([dim.rstrip("?") for dim in dims], shape):
                known = re.fullmatch(r"(\w+)/(\d+)", dim)
                if known and known[1] not in sizes:
                    sizes[known[1]] = int(known[2]) * size
                elif dim.isidentifier() and dim not in sizes:
                    sizes[dim] = size
                else:
                    checks.append((argument, dim, size))
        for argument, dim, size in checks:
            wanted = self.value(dim, sizes)
            if size != wanted and not (argument.at_least and size > wanted):
                least = "at least " if argument.at_least else ""
                raise ShapeError(f"{self.place(argument)}: must be {least}{dim if dim.isdigit() else f'{dim} = {wanted}'}, "
                                 f"not shape {tuple(arrays[argument.name].shape)}")
        return sizes, leading

    def resolved(self, argument: Argument, scalars: dict[str, Any]) -> list[str]:
        """Its dimensions; either(flag,a,b) is a or b."""
        def choose(found: re.Match[str]) -> str:
            return found[2] if scalars[found[1]] else found[3]
        return [re.sub(r"either\((\w+),(\w+),(\w+)\)", choose, dim) for dim in argument.dims]

    def value(self, dim: str, sizes: dict[str, Any]) -> int:
        """A size, which may be an expression of parameters."""
        def row_bytes(dtype: int, n: int) -> int:
            return int(lib.rp_row_bytes(dtype, n))
        names = {word for word in re.findall(r"[A-Za-z_]\w*", dim) if word != "bytes"}
        unknown = names - set(sizes)
        if unknown:
            raise ArgumentError(f"nn.{self.__name__}: {', '.join(sorted(unknown))} must be given")
        return int(eval(dim.replace("/", "//"), {"__builtins__": {}, "bytes": row_bytes}, sizes)) # noqa: S307: a row of RULES

    def shape(self, argument: Argument, sizes: dict[str, Any], leading: dict[str, tuple[int, ...]]) -> tuple[int, ...]:
        out: tuple[int, ...] = ()
        for dim in argument.dims:
            front = leading.get(dim[1:]) if dim.startswith("*") else None
            out += front if front is not None else (self.value(dim.lstrip("*"), sizes),)
        if any(not 0 <= n < 2**48 for n in out):
            raise ShapeError(f"{self.place(argument)}: shape {out}")
        return out

    def check_overlap(self, arrays: dict[str, Any]) -> None:
        """Outputs do not overlap inputs, unless the row allows that they are the same memory."""
        written = [a for a in self.outputs + self.inputs if a.output or a.changed]
        for a in written:
            for b in self.inputs + self.outputs:
                x, y = arrays[a.name], arrays[b.name]
                if a is b or x is None or y is None or not np.may_share_memory(x, y):
                    continue
                if not ((a.name, b.name) in self.aliases and x.ctypes.data == y.ctypes.data):
                    raise ArgumentError(f"{self.place(a)} overlaps {b.name}")

    def by_numpy(self, arrays: dict[str, Any], sizes: dict[str, Any]) -> Any:
        if self.__name__ not in FALLBACK:
            library().symbol(f"rp_nn_cpu_{self.__name__}") # raises
        with np.errstate(all="ignore"):
            read = [arrays[a.name] for a in self.inputs + [a for a in self.outputs if a.changed]]
            inputs = [a.astype(np.float64) if a is not None and a.dtype == np.float32 else a for a in read]
            results = FALLBACK[self.__name__](*inputs, *[sizes[name] for name in self.scalars])
            results = results if isinstance(results, tuple) else (results,)
            for argument, result in zip([a for a in self.inputs if a.changed] + self.outputs, results):
                if arrays[argument.name] is not None:
                    arrays[argument.name][...] = result
        return self.results(arrays)

    def by_library(self, arrays: dict[str, Any], sizes: dict[str, Any], device: bool, stream: Any) -> Any:
        symbol = f"rp_nn_{self.__name__}" if device else f"rp_nn_cpu_{self.__name__}"
        handle = stream if stream is None or isinstance(stream, int) else getattr(stream, "pointer", getattr(stream, "cuda_stream", self))
        if handle is self:
            raise ArgumentError(f"nn.{self.__name__}: stream: must be a Stream, not {type(stream).__name__}")
        passed: list[Any] = []
        workspace = self.workspace(sizes, device) if "workspace" in dict((n, k) for k, n in self.parameters) else None
        for kind, name in self.parameters:
            if name == "stream":
                passed.append(handle)
            elif name in ("workspace", "workspace_bytes"):
                passed.append(address(workspace) if name == "workspace" else workspace.nbytes if workspace is not None else 0)
            elif kind.endswith("*"):
                passed.append(address(arrays[name]))
            else:
                passed.append(sizes[name] if name in sizes else 0)
        getattr(library(), symbol)(*passed)
        return self.results(arrays)

    def workspace(self, sizes: dict[str, Any], device: bool) -> Any:
        query = ("rp_nn_" if device else "rp_nn_cpu_") + self.__name__ + "_workspace"
        n_bytes = ct.c_int64()
        getattr(library(), query)(*[ct.byref(n_bytes) if kind.endswith("*") else sizes[name] for kind, name in _c.NN[query]])
        return DeviceArray((n_bytes.value,), np.uint8) if device else np.empty(n_bytes.value, np.uint8)

    def results(self, arrays: dict[str, Any]) -> Any:
        out = tuple(arrays[a.name] if a.dims else arrays[a.name].item() for a in self.outputs if arrays[a.name] is not None)
        return out[0] if len(out) == 1 else out or None


def address(array: Any) -> int | None:
    """None for an array without elements: the library then computes nothing."""
    if array is None or array.size == 0:
        return None
    return int(array.ctypes.data) if isinstance(array, np.ndarray) else int(array.pointer)


def number(text: str) -> Any:
    return float(text) if re.search(r"[.e]", text) else int(text)


def workspace_rule(name: str) -> str:
    """The row of a query of workspace: all parameters, one number."""
    listed = _c.NN[f"rp_nn_{name}"]
    return f"-> {listed[-1][1]}[]; " + " ".join(parameter for _, parameter in listed[:-1])


NAMES = sorted({symbol.removeprefix("rp_nn_cpu_") for symbol in _c.NN if symbol.startswith("rp_nn_cpu_")})
FUNCTIONS = {name: Function(name, RULES.get(name) or workspace_rule(name)) for name in NAMES
             if name in RULES or name.endswith("_workspace")}


if TYPE_CHECKING:
    from ._nn.functions import *
else:
    def __getattr__(name: str) -> Function:
        if name in FUNCTIONS:
            return FUNCTIONS[name]
        raise AttributeError(f"reprise.nn has no {name}" + (": it has no row in _nn/rules.py" if name in NAMES else ""))


def __dir__() -> list[str]:
    return sorted([*globals(), *FUNCTIONS])


def abi_version() -> int:
    """RP_NN_ABI_VERSION of the library."""
    return int(library().rp_nn_abi_version())


__all__ = ["NAMES", "FUNCTIONS", "Array", "Function", "abi_version", "library"]

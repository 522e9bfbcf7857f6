"""The loaded libraries. lib.rp_NAME(...) checks its arguments against the prototype, calls without the GIL, and raises the
exception of a failed RpStatus. An object that is an argument is not freed during the call.

Both libraries are searched in $REPRISE_BUILD (a build folder), then in the package, then by the system's loader."""
from __future__ import annotations

import ctypes as ct
import operator
import os
import pathlib
from collections.abc import Callable
from typing import Any, TypeVar

from . import _c
from ._handle import Borrowed, Handle
from .errors import CLASSES, NN_CLASSES, ArgumentError, Error, NotAvailableError

CTYPES: dict[str, Any] = {
    "bool": ct.c_bool, "f32": ct.c_float, "f64": ct.c_double, "i32": ct.c_int32, "i64": ct.c_int64, "u32": ct.c_uint32,
    "u64": ct.c_uint64, "status": ct.c_int32, "pointer": ct.c_void_p, "text": ct.c_char_p}
NN_CTYPES: dict[str, str] = {"int32_t": "i32", "int64_t": "i64", "uint32_t": "u32", "uint64_t": "u64", "float": "f32",
                             "double": "f64"}
RANGES = {"i32": (-2**31, 2**31 - 1), "i64": (-2**63, 2**63 - 1), "u32": (0, 2**32 - 1), "u64": (0, 2**64 - 1),
          "status": (-2**31, 2**31 - 1)}

Checker = Callable[[str, Any], Any]
Params = TypeVar("Params", bound=ct.Structure)


def integer(kind: str) -> Checker:
    low, high = RANGES[kind]

    def check(name: str, value: Any) -> int:
        try:
            number = operator.index(value)
        except TypeError:
            raise ArgumentError(f"{name}: must be an integer, not {type(value).__name__}") from None
        if not low <= number <= high:
            raise ArgumentError(f"{name} = {number}: must be from {low} to {high}")
        return number
    return check


def real(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ArgumentError(f"{name}: must be a number, not {type(value).__name__}") from None


def encoded(name: str, value: Any) -> bytes | None:
    """A terminated text for C; None is NULL."""
    if isinstance(value, (str, os.PathLike)):
        value = os.fsencode(value) if isinstance(value, os.PathLike) else value.encode("utf-8", "surrogateescape")
    if value is not None and not isinstance(value, bytes):
        raise ArgumentError(f"{name}: must be a string, not {type(value).__name__}")
    if value is not None and b"\0" in value:
        raise ArgumentError(f"{name} contains a NUL byte")
    return value


CHECKS: dict[str, Checker] = {**{kind: integer(kind) for kind in RANGES}, "f32": real, "f64": real, "text": encoded,
                              "bool": lambda name, value: bool(value)}


def params(struct: type[Params], /, **values: Any) -> Params:
    """A struct with these members. Integers, numbers and texts are checked as arguments are."""
    kinds = {ct.c_int32: "i32", ct.c_int64: "i64", ct.c_uint32: "u32", ct.c_uint64: "u64", ct.c_float: "f32",
             ct.c_double: "f64", ct.c_char_p: "text", ct.c_bool: "bool"}
    types: dict[str, Any] = {field[0]: field[1] for field in struct._fields_}
    out = struct()
    for name, value in values.items():
        kind = kinds.get(types[name])
        setattr(out, name, CHECKS[kind](f"{struct.__name__}.{name}", value) if kind else value)
    return out


def choice(name: str, value: str | int, values: dict[str, int]) -> int:
    """The number of an enumerator that is given by its name."""
    if isinstance(value, str) and value in values:
        return values[value]
    if not isinstance(value, (str, bool)) and value in values.values():
        return int(value)
    raise ArgumentError(f"{name} = {value!r}: {', '.join(values)} are known")


def texts(values: Any) -> tuple[Any, int]:
    """An array of terminated texts and its length."""
    listed = [encoded("a text of the list", value) for value in values]
    return (ct.c_char_p * max(1, len(listed)))(*listed), len(listed)


def decoded(value: bytes | None) -> str:
    return (value or b"").decode("utf-8", "replace")


def find(name: str, soname: str) -> str:
    """The path of a library."""
    folder = os.environ.get("REPRISE_BUILD")
    if folder:
        path = pathlib.Path(folder, name)
        if not path.exists():
            raise NotAvailableError(f"REPRISE_BUILD={folder}: there is no {name} in this folder")
        return str(path)
    packaged = pathlib.Path(__file__).parent / "lib" / soname
    return str(packaged) if packaged.exists() else soname


class Library:
    """The functions of a shared library, bound when they are first used."""

    def __init__(self, name: str, soname: str) -> None:
        self.name, self.path = name, find(name, soname)
        try:
            self.dll = ct.CDLL(self.path)
        except OSError as error:
            raise NotAvailableError(f"{name} cannot be loaded: {error}") from None

    def has(self, function: str) -> bool:
        return hasattr(self.dll, function)

    def __getattr__(self, function: str) -> Callable[..., Any]:
        if not function.startswith("rp_"):
            raise AttributeError(function)
        bound = self.bind(function)
        setattr(self, function, bound)
        return bound

    def symbol(self, function: str) -> Any:
        symbol = getattr(self.dll, function, None)
        if symbol is None:
            raise NotAvailableError(f"{self.path} has no function {function}: it is older than this package")
        return symbol

    def bind(self, function: str) -> Callable[..., Any]:
        result, kinds, names = _c.PROTOTYPES[function]
        return self.wrap(function, result, kinds, names.split())

    def wrap(self, function: str, result: str | None, kinds: list[str], names: list[str]) -> Callable[..., Any]:
        symbol = self.symbol(function)
        symbol.argtypes = [CTYPES.get(kind) or getattr(_c, kind) for kind in kinds]
        symbol.restype = None if result is None else CTYPES.get(result) or getattr(_c, result)
        shown = function.removesuffix("_sized")
        checks = [(CHECKS.get(kind), f"{shown}: {name}") for kind, name in zip(kinds, names, strict=True)]

        def call(*arguments: Any) -> Any:
            if len(arguments) != len(checks):
                raise TypeError(f"{shown}: must have {len(checks)} arguments, not {len(arguments)}")
            passed, held = [], []
            try:
                for (check, name), value in zip(checks, arguments):
                    if isinstance(value, (Handle, Borrowed)):
                        held.append(value._hold())
                        value = value._pointer
                    passed.append(check(name, value) if check else value)
                out = symbol(*passed)
                if result == "status" and out != 0:
                    raise self.failure(out)
                return decoded(out) if result == "text" and out is not None else out
            finally:
                for owner in held:
                    owner.release()
        return call

    def failure(self, status: int) -> Error:
        return CLASSES.get(status, Error)(self.rp_last_error() or self.rp_status_text(status), status)


class NnLibrary(Library):
    """libreprise_nn: every function returns an RpNnStatus."""

    def bind(self, function: str) -> Callable[..., Any]:
        if function == "rp_nn_last_error":
            return self.wrap(function, "text", [], [])
        listed = _c.NN[function]
        kinds = ["pointer" if kind.endswith("*") else NN_CTYPES[kind] for kind, _ in listed]
        return self.wrap(function, "i32" if function == "rp_nn_abi_version" else "status", kinds, [name for _, name in listed])

    def failure(self, status: int) -> Error:
        return NN_CLASSES.get(status, Error)(self.rp_nn_last_error(), status)


lib = Library("libreprise.so", "libreprise.so.0")
libc = ct.CDLL(None)
libc.free.argtypes = [ct.c_void_p]
libc.free.restype = None

"""Tensors in memory of others, without a copy, and memory of this library for others: DLPack, which NumPy, PyTorch, JAX and CuPy
speak too.

    x = reprise.from_dlpack(torch.zeros(3, 4))            # the memory of the torch tensor
    executor.bind("x", x)                                 # runs read it there
    y = torch.from_dlpack(executor.tensor("y"))           # the memory of the executor, also after it is closed

NumPy 1.23 or newer is needed for its side, 2.1 for arrays that are read only. bfloat16 goes both ways where the other library has it."""
from __future__ import annotations

import ctypes as ct
import itertools
import weakref
from typing import Any

from . import _c
from ._arrays import Array, array_of, dtype_name, dtype_number, ne_of, shape_of
from ._callback import field_type
from ._handle import Handle, Owner
from ._lib import encoded, lib, params
from .errors import ArgumentError, UnsupportedError

CPU, CUDA = 1, 2 # types of devices of DLPack
PLAIN, VERSIONED = b"dltensor", b"dltensor_versioned"
USED = {PLAIN: b"used_dltensor", VERSIONED: b"used_dltensor_versioned"} # a capsule refers to its name: these live on
NEWEST = (1, 1)

python = ct.pythonapi
python.PyCapsule_New.restype = ct.py_object
python.PyCapsule_New.argtypes = [ct.c_void_p, ct.c_char_p, ct.c_void_p]
python.PyCapsule_IsValid.argtypes = [ct.py_object, ct.c_char_p]
python.PyCapsule_GetPointer.restype = ct.c_void_p
python.PyCapsule_GetPointer.argtypes = [ct.py_object, ct.c_char_p]
python.PyCapsule_SetName.argtypes = [ct.py_object, ct.c_char_p]


class PlainTensor(ct.Structure):
    """DLManagedTensor, of which only the deleter is used here."""

    _fields_ = [("tensor", ct.c_char * 48), ("manager", ct.c_void_p), ("deleter", ct.CFUNCTYPE(None, ct.c_void_p))]


class VersionedTensor(ct.Structure):
    """The beginning of DLManagedTensorVersioned."""

    _fields_ = [("version", ct.c_uint32 * 2), ("manager", ct.c_void_p), ("deleter", ct.CFUNCTYPE(None, ct.c_void_p))]


def destructor(name: bytes, struct: type[ct.Structure]) -> Any:
    """For capsules that nobody has taken the tensor from. It gets the address of an object that is being destroyed."""
    is_valid = ct.PYFUNCTYPE(ct.c_int, ct.c_void_p, ct.c_char_p)(("PyCapsule_IsValid", python))
    pointer_of = ct.PYFUNCTYPE(ct.c_void_p, ct.c_void_p, ct.c_char_p)(("PyCapsule_GetPointer", python))

    def free(capsule: int) -> None:
        if is_valid(capsule, name):
            managed: Any = struct.from_address(pointer_of(capsule, name))
            managed.deleter(ct.addressof(managed))
    return ct.PYFUNCTYPE(None, ct.c_void_p)(free)


DESTRUCTORS = {PLAIN: destructor(PLAIN, PlainTensor), VERSIONED: destructor(VERSIONED, VersionedTensor)}


def capsule_of(pointer: int, versioned: bool) -> Any:
    """Hands an external tensor to whoever takes the capsule."""
    out = ct.c_void_p()
    if versioned:
        lib.rp_external_to_dlpack_versioned(pointer, ct.byref(out))
    else:
        lib.rp_external_to_dlpack(pointer, ct.byref(out))
    name = VERSIONED if versioned else PLAIN
    return python.PyCapsule_New(out.value, name, ct.cast(DESTRUCTORS[name], ct.c_void_p))


def capsule_from(value: Any) -> Any:
    """The capsule of an object with __dlpack__; those from before DLPack 1.0 do not know max_version."""
    try:
        return value.__dlpack__(max_version=NEWEST)
    except TypeError:
        return value.__dlpack__()


class ExternalTensor(Handle):
    """Memory that somebody else owns, with type, shape and device. It is given back when nothing uses it any more: this object, the
    graphs and executors that have it, and those who got it from __dlpack__."""

    @property
    def _view(self) -> _c.RpTensorView:
        out: _c.RpTensorView = lib.rp_external_view(self)
        return out

    @property
    def shape(self) -> tuple[int, ...]:
        return shape_of(self._view.ne)

    @property
    def dtype(self) -> str:
        return dtype_name(self._view.dtype)

    @property
    def strides(self) -> tuple[int, ...]:
        """In bytes."""
        n = len(self.shape)
        return tuple(reversed(list(self._view.nb)[:n]))

    @property
    def address(self) -> int:
        return int(self._view.data or 0)

    @property
    def device(self) -> str:
        return str(lib.rp_external_device(self))

    @property
    def read_only(self) -> bool:
        return bool(lib.rp_external_read_only(self))

    def __repr__(self) -> str:
        return f"<ExternalTensor {self.dtype}{list(self.shape)} on {self.device}>" if not self.closed else "<ExternalTensor, closed>"

    def __dlpack_device__(self) -> tuple[int, int]:
        device = self.device
        return (CPU, 0) if device == "cpu" else (CUDA, int(device.removeprefix("cuda:")))

    def __dlpack__(self, *, stream: Any = None, max_version: tuple[int, int] | None = None, dl_device: tuple[int, int] | None = None,
                   copy: bool | None = None) -> Any:
        """A capsule with a DLManagedTensor, or the versioned one if max_version allows it. Nothing is copied, and no stream is waited for."""
        if copy:
            raise UnsupportedError("__dlpack__: no copy is made here; copy the result")
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise UnsupportedError(f"__dlpack__: device {tuple(dl_device)}: the memory is on {self.__dlpack_device__()}")
        owner = self._hold()
        try:
            return capsule_of(owner.pointer, max_version is not None and max_version[0] >= 1)
        finally:
            owner.release()


def from_dlpack(value: Any, name: str | None = None) -> ExternalTensor:
    """The memory of any object with __dlpack__ (an array of NumPy, a tensor of PyTorch), without a copy. f32, f16, bf16 or i32, on the
    CPU or a CUDA device. `name` is for the texts of errors. On a CUDA device the producer's work must be done before a run."""
    if not hasattr(value, "__dlpack__"):
        raise ArgumentError(f"from_dlpack: {type(value).__name__} has no __dlpack__")
    text = encoded("from_dlpack: name", name) # refused while the producer still owns the tensor
    capsule = capsule_from(value)
    for kind in (VERSIONED, PLAIN):
        if python.PyCapsule_IsValid(capsule, kind):
            break
    else:
        raise ArgumentError("from_dlpack: __dlpack__ gave no capsule with a tensor, or one that was used before")
    out, pointer = ct.c_void_p(), python.PyCapsule_GetPointer(capsule, kind)
    python.PyCapsule_SetName(capsule, USED[kind]) # now the library has to call the deleter, also if it refuses the tensor
    if kind == VERSIONED:
        lib.rp_external_from_dlpack_versioned(pointer, text, ct.byref(out))
    else:
        lib.rp_external_from_dlpack(pointer, text, ct.byref(out))
    return ExternalTensor(out.value or 0, lib.rp_external_free)


def from_pointer(address: int, shape: Any, dtype: Any = "f32", *, strides: Any = None, n_bytes: int = 0, device: str = "cpu",
                 read_only: bool = False, name: str | None = None, keep: Any = None) -> ExternalTensor:
    """Memory by its address; `strides` in bytes, NumPy's order. `n_bytes`: of the memory, which must contain the tensor (0: unknown).
    `keep` is kept alive as long as this object and what was made from it: graphs, executors."""
    ne = ne_of(shape, name or "from_pointer")
    view = _c.RpTensorView(data=address, dtype=dtype_number(dtype), ne=ne)
    if strides is not None:
        given = [int(n) for n in reversed(tuple(strides))]
        if len(given) != len(tuple(shape)) or any(n < 0 or n == 0 and size > 1 for n, size in zip(given, ne)):
            raise ArgumentError(f"from_pointer: strides {tuple(strides)} for shape {tuple(shape)}: one each, positive")
        for i in range(_c.RP_MAX_DIMS):
            view.nb[i] = given[i] if i < len(given) else 0
    given_memory = params(_c.RpExternalMemory, name=name, bytes=n_bytes, device=device, flags=1 if read_only else 0)
    given_memory.view = view
    if keep is not None:
        given_memory.release, given_memory.user = ct.cast(RELEASE, field_type(_c.RpExternalMemory, "release")), ticket_for(keep)
    out = ct.c_void_p()
    lib.rp_external_new_sized(ct.byref(given_memory), ct.sizeof(given_memory), ct.byref(out))
    return ExternalTensor(out.value or 0, lib.rp_external_free)


class Held:
    """Holds an owner for as long as this object lives."""

    def __init__(self, owner: Owner) -> None:
        weakref.finalize(self, owner.hold().release).atexit = False


def ticket_for(keep: Any) -> int:
    """A number for an object, which it keeps until the library hands the number back."""
    ticket = next(NUMBERS)
    KEPT[ticket] = keep
    return ticket


KEPT: dict[int, Any] = {}
NUMBERS = itertools.count(1)


def released(ticket: int, kept: dict[int, Any] = KEPT) -> None:
    kept.pop(ticket, None)


RELEASE = ct.CFUNCTYPE(None, ct.c_void_p)(released)
for callback in (RELEASE, *DESTRUCTORS.values()):
    python.Py_IncRef(ct.py_object(callback)) # memory may be given back after this module is gone


def array_of_external(tensor: ExternalTensor) -> Array:
    """NumPy's view of a contiguous tensor on the host."""
    return array_of(tensor, tensor._view, tensor.address, not tensor.read_only)


def tensor_of_weight(graph: Handle, pointer: int, view: _c.RpTensorView, name: str) -> ExternalTensor:
    """The tensor that a weight was made from; or the memory of a weight, for reading, which keeps the graph."""
    owner = graph._hold()
    try:
        external = lib.rp_node_external(pointer)
        if external:
            tensor = ExternalTensor.__new__(ExternalTensor)
            Handle.__init__(tensor, external, lambda pointer: None, (owner,)) # the graph has it
            return tensor
        n = len(shape_of(view.ne))
        return from_pointer(view.data or 0, shape_of(view.ne), view.dtype, strides=list(reversed(list(view.nb)[:n])), name=name, read_only=True,
                            keep=Held(owner))
    finally:
        owner.release()

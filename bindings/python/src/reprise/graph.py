"""Graphs: build, finish, optimise, draw.

    g = Graph()
    x = g.input("x", (3, 4))                              # three columns of four: NumPy's order of dimensions
    w = g.weight("w", np.eye(4, dtype=np.float32))        # borrowed: the array must not change its shape, and lives on
    y = g.mul(g.silu(g.mul_mat(w, x)), x).named("y")
    g.finish(y).optimize()
"""
from __future__ import annotations

import ctypes as ct
import html
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from . import _c
from ._arrays import NUMPY, DtypeLike, as_array, dtype_name, dtype_number, ne_of, shape_of
from ._handle import Borrowed, Handle, Owner
from ._lib import choice, decoded, lib, libc, params
from ._ops import Ops
from ._options import DumpOptions, Note
from .errors import ArgumentError, DtypeError, Error, NotAvailableError, OutOfMemoryError, ShapeError
from .external import ExternalTensor, tensor_of_weight

if TYPE_CHECKING:
    from typing_extensions import Unpack

FORMATS = {"text": 0, "dot": 1, "json": 2}
libc.open_memstream.argtypes = [ct.c_void_p, ct.c_void_p]
libc.open_memstream.restype = ct.c_void_p
libc.fclose.argtypes = [ct.c_void_p]


def printed(write: Any) -> str:
    """What write(FILE *) prints."""
    text, size = ct.c_void_p(), ct.c_size_t()
    stream = libc.open_memstream(ct.byref(text), ct.byref(size))
    if not stream:
        raise OutOfMemoryError("out of memory for a text")
    try:
        write(stream)
    finally:
        libc.fclose(stream)
        out = ct.string_at(text.value or 0, size.value) if text.value else b""
        libc.free(text)
    return decoded(out)


class Node(Borrowed):
    """A tensor of a graph, with the op that computes it."""

    _parent: Graph

    def __repr__(self) -> str:
        return f"<Node {self.number} {self.op} {self.name!r} {self.dtype}{list(self.shape)}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Node) and other._pointer == self._pointer

    def __hash__(self) -> int:
        return hash(self._pointer)

    @property
    def graph(self) -> Graph:
        return self._parent

    @property
    def number(self) -> int:
        """Its place in the graph; -1 if a pass has taken it out."""
        return int(lib.rp_node_number(self))

    @property
    def name(self) -> str:
        return str(lib.rp_node_name(self))

    @property
    def op(self) -> str:
        """The name of its op; "weight", "input" and "state" for leaves."""
        return str(lib.rp_node_op_name(self))

    @property
    def layer(self) -> int | None:
        layer = int(lib.rp_node_layer(self))
        return layer if layer >= 0 else None

    @property
    def is_output(self) -> bool:
        return bool(lib.rp_node_is_output(self))

    @property
    def view(self) -> _c.RpTensorView:
        out: _c.RpTensorView = lib.rp_node_view(self)
        return out

    @property
    def dtype(self) -> str:
        return dtype_name(self.view.dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        """As NumPy: the innermost dimension last. Outer dimensions of size 1 are left out."""
        return shape_of(self.view.ne)

    @property
    def sources(self) -> dict[str, Node]:
        """Its sources by their names (by numbers, where a custom op has no names)."""
        found = {}
        for i in range(_c.RP_MAX_SRC):
            source = lib.rp_node_source(self, i)
            if source:
                found[lib.rp_node_source_name(self, i) or str(i)] = Node(self._parent, source)
        return found

    def tensor(self) -> ExternalTensor:
        """The memory of a weight of f32, f16, bf16 or i32, without a copy: that which the weight was made from. Read only, unless the
        weight was made from an ExternalTensor that is not."""
        view = self.view
        if not view.data:
            raise ArgumentError(f"{self!r} is no weight: Executor.tensor has inputs and outputs")
        return tensor_of_weight(self._parent, self._pointer, view, self.name)

    def named(self, name: str) -> Node:
        """Gives it a name; returns the node."""
        lib.rp_node_set_name(self, name)
        return self

    def __add__(self, other: Node | float) -> Node:
        return self.graph.add(self, other) if isinstance(other, Node) else self.graph.scale(self, 1.0, other)

    def __mul__(self, other: Node | float) -> Node:
        return self.graph.mul(self, other) if isinstance(other, Node) else self.graph.scale(self, other)

    __radd__, __rmul__ = __add__, __mul__


class Graph(Handle, Ops):
    """A ComputeGraph. A builder call that is refused raises at once; the graph can then only be closed."""

    def __init__(self) -> None:
        pointer = lib.rp_graph_new()
        if not pointer:
            raise OutOfMemoryError("out of memory for a graph")
        super().__init__(pointer, lib.rp_graph_free)

    @classmethod
    def _of(cls, pointer: int, parents: tuple[Owner, ...]) -> Graph:
        graph = cls.__new__(cls)
        Handle.__init__(graph, pointer, lib.rp_graph_free, parents)
        return graph

    def _node(self, function: str, *arguments: Any) -> Node:
        with self._use():
            pointer = getattr(lib, function)(self, *arguments)
            if not pointer:
                lib.rp_graph_finish(self, None, 0) # raises the first error of the construction
                raise Error(f"{function}: no result")
        return Node(self, pointer)

    def _source(self, node: Node | None) -> int | None:
        if node is None:
            return None
        if not isinstance(node, Node):
            raise ArgumentError(f"must be a Node, not {type(node).__name__}")
        if node._parent is not self:
            raise ArgumentError(f"{node!r} belongs to another graph")
        self._hold().release()
        return node._pointer

    # ---- leaves ----

    def input(self, name: str, shape: Sequence[int] | int, dtype: DtypeLike = "f32") -> Node:
        """Written before each run."""
        return self._node("rp_graph_input", name, dtype_number(dtype), ne_of(shape, name))

    def state(self, name: str, shape: Sequence[int] | int, dtype: DtypeLike = "f32") -> Node:
        """Zero at first; keeps its contents between runs."""
        return self._node("rp_graph_state", name, dtype_number(dtype), ne_of(shape, name))

    def weight(self, name: str, data: Any, dtype: DtypeLike | None = None, shape: Sequence[int] | int | None = None) -> Node:
        """A constant, without a copy if it is contiguous: an array of f32, f16 or i32 (or any object with __dlpack__), or with
        `dtype` and `shape` the bytes of a block type (reprise.quantize). An ExternalTensor (reprise.from_dlpack) is never copied: it is
        refused if its elements have another order."""
        if isinstance(data, ExternalTensor):
            if dtype is not None or shape is not None:
                raise ArgumentError(f"{name}: an ExternalTensor has its own type and shape")
            return self._node("rp_graph_weight_external", name, data)
        array = np.ascontiguousarray(as_array(data))
        number = dtype_number(array.dtype if dtype is None else dtype)
        plain = NUMPY.get(number)
        wanted = array.shape if shape is None else ((shape,) if isinstance(shape, int) else tuple(shape))
        if plain is None and shape is None:
            raise ShapeError(f"{name}: {dtype_name(number)} needs the shape of its elements")
        if plain is not None and array.dtype != plain:
            raise DtypeError(f"{name}: must be an array of {plain} for {dtype_name(number)}, not {array.dtype}")
        ne = ne_of(wanted, name)
        view: _c.RpTensorView = lib.rp_view_contiguous(number, ct.byref(ne), array.ctypes.data)
        n_bytes = lib.rp_view_extent_bytes(ct.byref(view)) if min(ne) > 0 else array.nbytes
        if n_bytes != array.nbytes:
            raise ShapeError(f"{name}: {dtype_name(number)} of shape {wanted} has {n_bytes} bytes, the data {array.nbytes}")
        node = self._node("rp_graph_weight", name, ct.byref(view))
        self._owner.borrowed.append(array)
        return node

    # ---- ops whose arguments are in NumPy's order ----

    def op(self, op: str | int, *sources: Node | None, **parameters: Any) -> Node:
        """Any op of ops.h or a custom op, by its name or number: g.op("silu", x), g.op("rms_norm", x, w, eps=1e-5). The parameters
        are the members of its struct in ops.h; for a custom op f and i, at most eight numbers each."""
        number = op if isinstance(op, int) else op_number(op)
        given = _c.RpOpParams()
        name = op_name(number)
        target = getattr(given, name) if name else given.custom
        for key, value in parameters.items():
            if not hasattr(target, key):
                raise ArgumentError(f"op {op}: there is no parameter {key}")
            if isinstance(value, (list, tuple)):
                array = getattr(target, key)
                if len(value) > len(array):
                    raise ArgumentError(f"op {op}: {key} has {len(value)} values, must be at most {len(array)}")
                for i, item in enumerate(value):
                    array[i] = item
            elif isinstance(getattr(target, key), ct.Structure):
                setattr(target, key, params(type(getattr(target, key)), **value))
            else:
                setattr(target, key, getattr(params(type(target), **{key: value}), key))
        pointers = (ct.c_void_p * max(1, len(sources)))(*[self._source(source) for source in sources])
        return self._node("rp_graph_op", number, ct.byref(given), pointers, len(sources))

    def view(self, x: Node, shape: Sequence[int], strides: Sequence[int], offset: int = 0) -> Node:
        """The memory of x from byte `offset` with these byte strides; that of the last dimension stays that of x."""
        if len(shape) != len(strides):
            raise ShapeError(f"view: {len(shape)} dimensions and {len(strides)} strides")
        ne = ne_of(shape, "view")
        nb = [int(n) for n in reversed(strides)]
        nb += [nb[-1] * ne[len(nb) - 1] if nb else 0] * (_c.RP_MAX_DIMS - len(nb))
        given = _c.RpViewParams(ne=ne, nb=(ct.c_uint64 * _c.RP_MAX_DIMS)(*nb))
        given.offset = params(_c.RpViewParams, offset=offset).offset
        return self._node("rp_view", self._source(x), ct.byref(given))

    def reshape(self, x: Node, shape: Sequence[int]) -> Node:
        """The same elements in another shape; x is contiguous."""
        return self._node("rp_reshape", self._source(x), *ne_of(shape, "reshape"))

    def permute(self, x: Node, axes: Sequence[int]) -> Node:
        """Dimension j of the result is dimension axes[j] of x, as in numpy.transpose; x has len(axes) dimensions."""
        if sorted(axes) != list(range(len(axes))) or not 1 <= len(axes) <= _c.RP_MAX_DIMS:
            raise ArgumentError(f"permute: axes {tuple(axes)}: must be each of 0..{len(axes) - 1} once")
        n = len(axes)
        to = list(range(_c.RP_MAX_DIMS)) # of C: dimension i of x becomes dimension to[i], innermost first
        for j, axis in enumerate(axes):
            to[n - 1 - axis] = n - 1 - j
        return self._node("rp_permute", self._source(x), *to)

    def transpose(self, x: Node) -> Node:
        """The last two dimensions swapped."""
        return self._node("rp_transpose", self._source(x))

    def set_layer(self, layer: int | None) -> None:
        """Nodes created from now on belong to this layer in dumps."""
        with self._use():
            lib.rp_graph_set_layer(self, -1 if layer is None else layer)

    # ---- the finished graph ----

    def finish(self, *outputs: Node) -> Graph:
        """Ends the construction. Nodes that no output and no store needs are removed."""
        pointers = (ct.c_void_p * max(1, len(outputs)))(*[self._source(node) for node in outputs])
        with self._use():
            lib.rp_graph_finish(self, pointers, len(outputs))
        return self

    def optimize(self, passes: str | None = None, *, last: str | None = None) -> Graph:
        """Runs the passes; `passes` such as "-attention" switches some off, `last` stops after that pass."""
        with self._use():
            if last is None:
                lib.rp_graph_optimize(self, passes)
            else:
                lib.rp_graph_optimize_to(self, passes, last)
        return self

    def verify(self) -> None:
        """Raises if the graph breaks one of its invariants."""
        lib.rp_graph_verify(self)

    @property
    def n_steps(self) -> int:
        """Nodes that run a kernel."""
        return int(lib.rp_graph_n_steps(self))

    def __len__(self) -> int:
        return int(lib.rp_graph_n_nodes(self))

    def __iter__(self) -> Iterator[Node]:
        return (Node(self, lib.rp_graph_node(self, i)) for i in range(len(self)))

    def find(self, name: str) -> Node:
        """The first node of that name; KeyError if there is none."""
        found = lib.rp_graph_find(self, name)
        if not found:
            raise KeyError(name)
        return Node(self, found)

    @property
    def outputs(self) -> list[Node]:
        """In the order of the graph."""
        return [node for node in self if node.is_output]

    @property
    def inputs(self) -> list[Node]:
        return [node for node in self if node.op == "input"]

    # ---- drawings ----

    def dump(self, format: Literal["text", "dot", "json"] = "text", *, fold: bool = False, layer: int | None = None,
             title: str | None = None, notes: Mapping[int, Note] | None = None) -> str:
        """The graph as text, DOT or JSON. fold: equal layers once; layer: only that layer; notes: (text, heat, us) by number."""
        n = len(self)
        array = (_c.RpDumpNote * max(1, n))()
        for note in array:
            note.heat = -1.0
        for number, (text, heat, us) in (notes or {}).items():
            if not 0 <= number < n:
                raise ArgumentError(f"a note for node {number}: the graph has {n}")
            array[number].text, array[number].heat, array[number].us = text.encode()[:95], heat, us
        options = params(_c.RpDumpOptions, format=choice("format", format, FORMATS), fold=fold, one_layer=layer is not None,
                         layer=layer or 0, title=title, notes=ct.addressof(array) if notes else None)
        return printed(lambda stream: lib.rp_graph_dump_sized(self, ct.byref(options), ct.sizeof(options),
                                                              ct.sizeof(_c.RpDumpNote), stream))

    def to_dot(self, **options: Unpack[DumpOptions]) -> str:
        """DOT of Graphviz; options as dump."""
        return self.dump("dot", **options)

    def to_svg(self, **options: Unpack[DumpOptions]) -> str:
        """A drawing by the program `dot` of Graphviz; NotAvailableError if it is not installed. Options as dump."""
        return svg_of(self.to_dot(**options))

    def _repr_svg_(self) -> str:
        try:
            return self.to_svg(fold=True)
        except Error as error:
            return message_svg(str(error))

    def __str__(self) -> str:
        return self.dump("text")


def svg_of(dot: str) -> str:
    program = shutil.which("dot")
    if program is None:
        raise NotAvailableError("drawings need the program dot of Graphviz (Debian package graphviz); to_dot() gives the text")
    done = subprocess.run([program, "-Tsvg"], input=dot.encode(), capture_output=True, check=False)
    if done.returncode != 0:
        raise NotAvailableError(f"dot failed: {decoded(done.stderr).strip()}")
    return decoded(done.stdout)


def message_svg(text: str) -> str:
    width = 8 * len(text) + 16
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="32">'
            f'<text x="8" y="21" font-family="monospace" font-size="13">{html.escape(text)}</text></svg>')


OPS = {op.name.removeprefix("RP_OP_").lower(): op.value for op in _c.TensorOp if op is not _c.TensorOp.RP_OP_CUSTOM}
NAMES = {number: name for name, number in OPS.items()}
CUSTOM: dict[str, int] = {}


def op_name(number: int) -> str | None:
    """The name of an op of ops.h; None for a custom op."""
    return NAMES.get(number)


def op_number(name: str) -> int:
    if name in OPS:
        return OPS[name]
    if name in CUSTOM:
        return CUSTOM[name]
    raise ArgumentError(f"there is no op {name!r}: {', '.join([*OPS, *CUSTOM])} are known")


class Pass:
    """A pass: its name and what it does."""

    def __init__(self, name: str, help: str | None) -> None:
        self.name, self.help = name, help

    def __repr__(self) -> str:
        return f"<Pass {self.name}: {self.help}>"


def passes() -> Iterable[Pass]:
    """The passes in their order, registered patterns at the end."""
    return [Pass(lib.rp_pass_name(i), lib.rp_pass_help(i)) for i in range(lib.rp_pass_count())]

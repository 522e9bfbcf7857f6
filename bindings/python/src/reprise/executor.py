"""Plans and executors: run a finished graph.

    with Executor(g) as executor:
        y, = executor.run(x=np.ones((3, 4), np.float32))       # copies x in; y shows the memory of the executor
"""
from __future__ import annotations

import ctypes as ct
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple

import numpy as np

from . import _c
from ._arrays import BYTES, NUMPY, Array, array_of, exact, plain_shape, tokens_array
from ._callback import Progress, Stopped, field_type
from ._handle import Borrowed, Handle, Owner
from ._lib import CHECKS, choice, decoded, lib, params
from ._options import Mode
from .errors import ArgumentError, ShapeError
from .external import ExternalTensor, array_of_external, from_dlpack
from .graph import FORMATS, Graph, Node, printed
from .profile import Profile


class PlanMemory(NamedTuple):
    """Bytes that running a plan needs (RpPlanMemory)."""

    arena: int
    unshared: int
    weights: int
    state: int
    n_steps: int


class ExecutorInfo(NamedTuple):
    """RpExecutorInfo. `reason`: why not the GPU, or not the mode that was asked for."""

    device: str
    device_name: str
    mode: str
    reason: str
    fell_back: bool
    n_threads: int
    device_bytes: int
    blas: str
    overlap: str
    kernels: str
    upload_bytes: int
    upload_s: float
    upload_wait_s: float
    upload_read_s: float
    tuning: str
    repack_bytes: int
    repack_s: float
    backend: str


class Launch(NamedTuple):
    """RpStepLaunch: one step and how it is launched."""

    node: Node
    bytes: int
    n_barriers: int
    n_kernels: int
    kernel: str | None
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int


def filled(struct: type[ct.Structure], function: Callable[..., Any], *arguments: Any) -> Any:
    """A result struct that a function NAME_sized fills in."""
    out = struct()
    function(*arguments, ct.byref(out), ct.sizeof(out))
    return out


def info_of(raw: Any) -> ExecutorInfo:
    values: list[Any] = [getattr(raw, name) for name in ExecutorInfo._fields]
    values[2] = lib.rp_mode_name(raw.mode)
    return ExecutorInfo._make(decoded(v) if isinstance(v, bytes) else v for v in values)


def mode_number(mode: str) -> int:
    out = ct.c_int32()
    lib.rp_mode_from_name(mode, ct.byref(out))
    return out.value


def launch_of(graph: Graph, raw: Any) -> Launch:
    return Launch(Node(graph, raw.node), raw.bytes, raw.n_barriers, raw.n_kernels, decoded(raw.kernel) if raw.kernel else None,
                  tuple(raw.grid), tuple(raw.block), raw.shared_bytes)


def unbind(bound: list[Owner], executor: int | None = None) -> None:
    """Lets go of the states that were bound; from `executor` they are taken first. They hold the executor, so it is still there."""
    while bound:
        if executor is not None:
            lib.rp_executor_states_bind(executor, None)
        bound.pop().release()


class PlanReader:
    """What can be read of a plan."""

    @property
    def memory(self) -> PlanMemory:
        raw = filled(_c.RpPlanMemory, lib.rp_plan_memory_sized, self)
        return PlanMemory(*[getattr(raw, name) for name in PlanMemory._fields])

    @property
    def traffic_bytes(self) -> int:
        """Bytes that one run reads and writes if every source and result moves once."""
        return int(lib.rp_plan_traffic_bytes(self))

    def dump(self, format: Literal["text", "json"] = "text") -> str:
        """One line per step."""
        return printed(lambda stream: lib.rp_plan_dump(self, choice("format", format, FORMATS), stream))

    def __str__(self) -> str:
        return self.dump()


class Plan(Handle, PlanReader):
    """The steps of a finished graph, with the address of every tensor."""

    def __init__(self, graph: Graph) -> None:
        out = ct.c_void_p()
        lib.rp_plan_new(graph, ct.byref(out))
        super().__init__(out.value or 0, lib.rp_plan_free, (graph._owner,))
        self.graph = graph

    @property
    def steps(self) -> list[Node]:
        return [Node(self.graph, lib.rp_plan_step_node(self, i)) for i in range(self.memory.n_steps)]

    def cuda_launch(self, step: int) -> Launch:
        """The launches that the CUDA launchers of this build would make; needs no device."""
        raw = _c.RpStepLaunch()
        lib.rp_cuda_plan_launch_sized(self, step, ct.byref(raw), ct.sizeof(raw))
        return launch_of(self.graph, raw)


class BorrowedPlan(Borrowed, PlanReader):
    """The plan of a session's decode step."""


class States(Handle):
    """A second set of states of an executor, zeroed: the KV cache of another sequence."""

    def __init__(self, executor: Executor) -> None:
        out = ct.c_void_p()
        with executor._use():
            lib.rp_executor_states_new(executor, ct.byref(out))
        super().__init__(out.value or 0, lib.rp_executor_states_free, (executor._owner,))


class Executor(Handle):
    """A plan with memory and a device, ready to run. One thread at a time may use it, or any of several that share.

    device     "auto", "cpu", "cuda" or "cuda:N"; None: REPRISE_DEVICE
    n_threads  0: REPRISE_THREADS, or one per core
    share      another executor: its device, threads, weights, states of the same names and arena
    step       a state into which the last step of the graph samples (Executor.reply)
    backend    a backend in a shared object (backend.h): a path, or a name in REPRISE_BACKEND_DIR; None: the built-in kernels
    progress   called with the number of kernels done and in all while kernels are compiled for a GPU
    """

    def __init__(self, graph: Graph | Plan, *, device: str | None = None, n_threads: int = 0, mode: Mode = "auto",
                 require_cuda: bool = False, require_graph: bool = False, share: Executor | None = None, step: Node | None = None,
                 progress: Progress | None = None, backend: str | None = None) -> None:
        self.plan = graph if isinstance(graph, Plan) else Plan(graph)
        self.graph = self.plan.graph
        out = ct.c_void_p()
        with Stopped(progress, field_type(_c.RpExecutorOptions, "compile_progress")) as stopped:
            options = params(_c.RpExecutorOptions, n_threads=n_threads, device=device, require_cuda=require_cuda,
                             require_graph=require_graph, mode=mode_number(mode), step=self.graph._source(step), backend=backend,
                             share=share._pointer if share is not None else None, compile_progress=stopped.callback)
            held = share._hold() if share is not None else None
            try:
                lib.rp_executor_open_sized(self.plan, ct.byref(options), ct.sizeof(options), ct.byref(out))
            finally:
                if held is not None:
                    held.release()
        parents = (self.plan._owner,) + ((share._owner,) if share is not None else ())
        super().__init__(out.value or 0, lib.rp_executor_free, parents)
        if share is not None:
            self._owner.busy = share._owner.busy # executors that share count as one
        self._bound: list[Owner] = []
        self._tensors: set[int] = set() # nodes that tensors are bound to
        weakref.finalize(self, unbind, self._bound, self._pointer)

    @property
    def info(self) -> ExecutorInfo:
        owner = self._hold()
        try:
            return info_of(filled(_c.RpExecutorInfo, lib.rp_executor_info_sized, self))
        finally:
            owner.release()

    @property
    def n_threads(self) -> int:
        return int(lib.rp_executor_n_threads(self))

    def node(self, node: Node | str) -> Node:
        if isinstance(node, str):
            return self.graph.find(node)
        self.graph._source(node)
        return node

    def __getitem__(self, node: Node | str) -> Array:
        """The memory of an input (write it before a run), of an output or, on the CPU, of a state: no copy. An output holds its
        values until the next run."""
        found = self.node(node)
        if self._tensors and (found.op == "input" or found.is_output): # an array of such memory keeps the tensor
            tensor = self._tensor(found)
            if tensor.device != "cpu":
                raise KeyError(f"{found!r} is bound to memory on {tensor.device}")
            return array_of_external(tensor)
        owner = self._hold()
        try:
            address = lib.rp_executor_data(self, found)
            if not address:
                raise KeyError(f"{found!r} is no input, output or state whose memory is on the host")
            return array_of(self, found.view, address, True)
        finally:
            owner.release()

    def __setitem__(self, node: Node | str, value: Any) -> None:
        """Copies an array of the shape of an input into it."""
        self._fill(self.node(node), value)

    def _fill(self, node: Node, value: Any) -> None:
        target = self[node]
        if not target.flags.writeable:
            raise ArgumentError(f"{node.name}: it is bound to memory that is read only")
        array = exact(value, target.dtype, node.name)
        if tuple(n for n in array.shape if n != 1) != tuple(n for n in target.shape if n != 1):
            raise ShapeError(f"{node.name}: must be an array of shape {target.shape}, not {array.shape}")
        target[...] = array.reshape(target.shape)

    def run(self, **inputs: Any) -> tuple[Array, ...]:
        """Copies the inputs that are given, runs every step once, and returns the outputs in the order of the graph: views of the
        executor's memory, valid until the next run. An output that is bound to memory of a GPU is an ExternalTensor."""
        with self._use():
            for name, value in inputs.items():
                self._fill(self.node(name), value)
            lib.rp_executor_run(self)
        return tuple(self._result(node) for node in self.graph.outputs)

    def _result(self, node: Node) -> Any:
        if node._pointer in self._tensors and self.info.device != "cpu":
            return self._tensor(node)
        return self[node]

    def _tensor(self, node: Node) -> ExternalTensor:
        out = ct.c_void_p()
        owner = self._hold()
        try:
            lib.rp_executor_tensor(self, node, ct.byref(out))
        finally:
            owner.release()
        return ExternalTensor(out.value or 0, lib.rp_external_free)

    def tensor(self, node: Node | str) -> ExternalTensor:
        """The memory of an input or output for other libraries: torch.from_dlpack(executor.tensor("y")). It holds the values of the
        latest run, and is there as long as anybody uses it, also after the executor is closed."""
        with self._use():
            return self._tensor(self.node(node))

    def bind(self, node: Node | str, value: Any) -> None:
        """From now on an input or output lies in memory of others, without a copy: an ExternalTensor or any object with __dlpack__, of the
        type and shape of the node and on the device of the executor. None: in memory of the executor again."""
        found = self.node(node)
        tensor = value if value is None or isinstance(value, ExternalTensor) else from_dlpack(value, found.name)
        with self._use():
            lib.rp_executor_tensor_bind(self, found, tensor)
        if tensor is None:
            self._tensors.discard(found._pointer)
        else:
            self._tensors.add(found._pointer)

    def get(self, node: Node | str) -> Array:
        """A copy of an input, an output or a state, from the memory of the device."""
        found = self.node(node)
        view = found.view
        size = lib.rp_view_extent_bytes(ct.byref(view))
        memory = bytearray(size)
        with self._use():
            lib.rp_executor_get(self, found, (ct.c_char * size).from_buffer(memory), size)
        return np.frombuffer(memory, NUMPY.get(view.dtype, BYTES), -1).reshape(plain_shape(view))

    def set(self, node: Node | str, value: Any) -> None:
        """Writes all of an input, an output or a state into the memory of the device."""
        found = self.node(node)
        view = found.view
        array = exact(value, NUMPY.get(view.dtype, BYTES), found.name)
        size = lib.rp_view_extent_bytes(ct.byref(view))
        if array.nbytes != size:
            raise ShapeError(f"{found.name}: must be {size} bytes, not {array.nbytes}")
        with self._use():
            lib.rp_executor_set(self, found, array.ctypes.data, size)

    def bind_states(self, states: States | None) -> None:
        """Other states for the following runs; None: those that the executor was opened with."""
        with self._use():
            lib.rp_executor_states_bind(self, states)
            unbind(self._bound)
            if states is not None:
                self._bound.append(states._hold())

    def bind_weights(self, plan: Plan | None) -> None:
        """The weights of another plan with the same steps and shapes; None: those of the executor's plan."""
        with self._use():
            lib.rp_executor_weights_bind(self, plan)
            if plan is not None and plan._owner not in self._owner.parents:
                self._owner.parents += (plan._hold(),) # it must outlive the executor

    def close(self) -> None:
        unbind(self._bound, self._pointer)
        super().close()

    def reply(self, state: Any, max_tokens: int, n_ctx: int, end: Any = ()) -> Iterator[int]:
        """Runs, samples and repeats from a step state (Sampler.state); needs `step`. Yields tokens, the end token too."""
        words, ends = exact(state, np.int32, "state").reshape(-1), tokens_array(end, "end")
        options = params(_c.RpReplyOptions, state=words.ctypes.data, n_state=words.size, max_tokens=max_tokens, n_ctx=n_ctx,
                         end=ends.ctypes.data, n_end=ends.size)
        pos = int(words[1]) if words.size > 1 else 0
        token = ct.c_int32()
        owner = self._hold() # the collector closes this generator after the executor, and after the generator of _use()
        try:
            with self._use():
                lib.rp_executor_reply_begin_sized(self, ct.byref(options), ct.sizeof(options))
                try:
                    for _ in range(min(max_tokens, n_ctx - pos)):
                        lib.rp_executor_reply_next(self, ct.byref(token))
                        yield token.value
                        if token.value in ends:
                            return
                finally:
                    lib.rp_executor_reply_end(owner.pointer, None)
        finally:
            owner.release()

    # ---- verification and profiling ----

    def verify(self) -> list[tuple[Node, float]]:
        """One run in which every step is computed twice, by the executor's kernel and by the reference: each node with the largest
        difference, relative to the largest value (rp_verify_difference)."""
        found: list[tuple[Node, float]] = []
        errors: list[BaseException] = []

        def compare(node: int, view: int, got: int, want: int, user: Any) -> bool:
            try:
                found.append((Node(self.graph, node), lib.rp_verify_difference(node, view, got, want, None)))
            except BaseException as error: # noqa: B036: KeyboardInterrupt too
                errors.append(error)
            return not errors
        callback = ct.CFUNCTYPE(ct.c_bool, ct.c_void_p, ct.c_void_p, ct.c_void_p, ct.c_void_p, ct.c_void_p)(compare)
        with self._use():
            try:
                lib.rp_executor_verify(self, ct.cast(callback, ct.c_void_p), None)
            finally:
                if errors:
                    raise errors[0]
        return found

    def poison(self) -> None:
        """Fills intermediate results and outputs with NaN, so that a step that a run leaves out shows."""
        with self._use():
            lib.rp_executor_poison(self)

    def launch(self, step: int) -> Launch:
        """How a step is launched."""
        raw = _c.RpStepLaunch()
        lib.rp_executor_launch_sized(self, step, ct.byref(raw), ct.sizeof(raw))
        return launch_of(self.graph, raw)

    def profile(self, runs: int = 20) -> Profile:
        """The median time of every step and of a whole run."""
        runs = CHECKS["i32"]("runs", runs)
        n = self.plan.memory.n_steps
        times, total = (ct.c_double * max(1, n))(), ct.c_double()
        with self._use():
            lib.rp_executor_profile(self, runs, ct.addressof(times), ct.byref(total))
        launches = [self.launch(i) for i in range(n)]
        return Profile.of(self.graph, self.info, runs, total.value / 1e3, [(launch.node, launch.bytes, ns / 1e3)
                                                                           for launch, ns in zip(launches, times)])

"""Ownership. A C object is freed when the last of those that use it has let go of it: its Python object, the objects that are
made from it, and arrays that show its memory.

    model.close()       the model can no longer be used: ClosedError
                        its memory goes when the sessions of the model and the arrays in their memory are gone too
"""
from __future__ import annotations

import ctypes as ct
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, TypeVar

from .errors import ClosedError, StateError

Self = TypeVar("Self", bound="Handle")
lock = threading.Lock()


class Owner:
    """A C object with the number of those that hold it. It holds its parents and keeps `borrowed` alive."""

    def __init__(self, pointer: int, free: Callable[[int], Any], parents: tuple[Owner, ...] = ()) -> None:
        self.pointer, self.free, self.parents = pointer, free, parents
        self.borrowed: list[Any] = []
        self.holders = 1
        self.busy = threading.Lock()
        for parent in parents:
            parent.hold()

    def hold(self) -> Owner:
        with lock: # no call in here: it could start the collector, whose finalizers take the lock
            is_open = self.holders > 0
            self.holders += is_open
        if not is_open:
            raise ClosedError("the object was closed by another thread")
        return self

    def release(self) -> None:
        with lock:
            self.holders -= 1
            last = self.holders == 0
        if last:
            self.free(self.pointer)
            self.borrowed.clear()
            for parent in self.parents:
                parent.release()

    @contextmanager
    def used(self, what: str) -> Iterator[None]:
        """For calls during which no other thread may use the object. Refers to no Handle, so a thread may wait in it: what the
        frames of a thread refer to is never collected."""
        self.hold()
        try:
            if not self.busy.acquire(blocking=False):
                raise StateError(f"the {what} is in use by another call")
            try:
                yield
            finally:
                self.busy.release()
        finally:
            self.release()


class Handle:
    """Base of the objects that own a C object."""

    def __init__(self, pointer: int, free: Callable[[int], Any], parents: tuple[Owner, ...] = ()) -> None:
        self._owner = Owner(pointer, free, parents)
        self._release = weakref.finalize(self, self._owner.release)

    def _hold(self) -> Owner:
        """For the time of a call: the object is not freed before release()."""
        if not self._release.alive:
            raise ClosedError(f"the {type(self).__name__} is closed")
        return self._owner.hold()

    @property
    def _pointer(self) -> int:
        return self._owner.pointer

    @property
    def closed(self) -> bool:
        return not self._release.alive

    def close(self) -> None:
        """The object can no longer be used. Closing it twice is allowed."""
        self._release()

    def __enter__(self: Self) -> Self:
        self._hold().release()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @contextmanager
    def _use(self) -> Iterator[None]:
        """For calls during which no other thread may use the object."""
        owner = self._hold()
        try:
            with owner.used(type(self).__name__):
                yield
        finally:
            owner.release()

    def _memory(self, address: int, n_bytes: int) -> Any:
        """Memory of the C object as a ctypes array. The object is not freed before the array and its views are gone."""
        buffer = (ct.c_char * n_bytes).from_address(address)
        weakref.finalize(buffer, self._owner.hold().release).atexit = False
        return buffer


class Borrowed:
    """Base of objects that a C object owns, such as a node of a graph: usable as long as their owner is open."""

    def __init__(self, parent: Handle, pointer: int) -> None:
        self._parent, self._pointer = parent, pointer

    def _hold(self) -> Owner:
        return self._parent._hold()

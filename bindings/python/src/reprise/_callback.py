"""Callbacks of C that report progress."""
from __future__ import annotations

import ctypes as ct
from collections.abc import Callable
from typing import Any

from .errors import CancelledError

Progress = Callable[[int, int], Any]


class Stopped:
    """A callback of C that calls a function (done, total). An exception ends the C call and is raised again afterwards; so does
    the answer False."""

    def __init__(self, function: Progress | None, kind: Any) -> None:
        self.function = function
        self.error: BaseException | None = None
        self.refused = False
        self.callback = kind(self.call) if function is not None else kind()

    def call(self, done: int, total: int, user: Any) -> bool:
        try:
            self.refused = self.function is not None and self.function(done, total) is False
            return not self.refused
        except BaseException as error: # noqa: B036: KeyboardInterrupt too
            self.error = error
            return False

    def __enter__(self) -> Stopped:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if self.error is not None:
            raise self.error from None
        if isinstance(error, CancelledError) and not self.refused: # a signal, before `call` began
            raise KeyboardInterrupt from None


def field_type(struct: type[ct.Structure], member: str) -> Any:
    return next(field[1] for field in struct._fields_ if field[0] == member)

"""Exceptions: one class for each RpStatus. The text is that of rp_last_error."""
from __future__ import annotations

from ._c import RpNnStatus, RpStatus


class Error(Exception):
    """Base of all exceptions of this package. `status` is the RpStatus (or RpNnStatus) of the C call, or None."""

    status: int | None = None

    def __init__(self, text: str, status: int | None = None) -> None:
        super().__init__(text)
        if status is not None:
            self.status = status


class OutOfMemoryError(Error, MemoryError):
    status = RpStatus.RP_E_NOMEM


class FileError(Error, OSError):
    status = RpStatus.RP_E_IO


class FormatError(Error, ValueError):
    status = RpStatus.RP_E_FORMAT


class ShapeError(Error, ValueError):
    status = RpStatus.RP_E_SHAPE


class DtypeError(Error, TypeError):
    status = RpStatus.RP_E_DTYPE


class UnsupportedError(Error, NotImplementedError):
    status = RpStatus.RP_E_UNSUPPORTED


class ArgumentError(Error, ValueError):
    status = RpStatus.RP_E_ARG


class StateError(Error, RuntimeError):
    status = RpStatus.RP_E_STATE


class ClosedError(StateError):
    """The object was closed before. Nothing of the library was called."""


class ContextFullError(Error):
    status = RpStatus.RP_E_CONTEXT_FULL


class CancelledError(Error):
    status = RpStatus.RP_E_CANCELLED


class NotAvailableError(Error, RuntimeError):
    status = RpStatus.RP_E_NOT_AVAILABLE


class CudaError(Error, RuntimeError):
    status = RpStatus.RP_E_CUDA


class ExecutionError(Error, RuntimeError):
    """RP_NN_EXECUTION_FAILED of reprise.nn."""

    status = RpNnStatus.RP_NN_EXECUTION_FAILED


CLASSES: dict[int, type[Error]] = {
    int(c.status): c
    for c in (OutOfMemoryError, FileError, FormatError, ShapeError, DtypeError, UnsupportedError, ArgumentError, StateError,
              ContextFullError, CancelledError, NotAvailableError, CudaError)}
NN_CLASSES: dict[int, type[Error]] = {
    RpNnStatus.RP_NN_NOT_AVAILABLE: NotAvailableError,
    RpNnStatus.RP_NN_INVALID_ARGUMENT: ArgumentError,
    RpNnStatus.RP_NN_EXECUTION_FAILED: ExecutionError,
    RpNnStatus.RP_NN_OUT_OF_MEMORY: OutOfMemoryError,
}

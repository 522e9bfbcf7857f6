"""libreprise_nn, if it is there."""
from __future__ import annotations

from .._lib import NnLibrary
from ..errors import NotAvailableError

NN: NnLibrary | None
try:
    NN = NnLibrary("libreprise_nn.so", "libreprise_nn.so.1")
except NotAvailableError as missing:
    NN, WHY = None, str(missing)


def library() -> NnLibrary:
    if NN is None:
        raise NotAvailableError(WHY)
    return NN

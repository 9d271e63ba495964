"""Messages through MPI, by mpi4py: arrays of the host, and of GPUs where the library is CUDA-aware."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Sequence
from importlib import import_module
from math import prod
from time import monotonic, sleep
from typing import Any, Final

import numpy as np

from polyloop.distributed.engines.engine import Group, Peer, Ranked, lost
from polyloop.errors import CommunicationError, Diagnostic

__all__ = ["MpiEngine", "of_mpi"]

_BRIEF: Final = 2e-5
"""Time between two questions whether messages have come, after the first hundred [s]."""


class MpiEngine(Ranked):
    """A communicator of mpi4py.

    Parameters
    ----------
    communicator
        By default a copy of ``MPI.COMM_WORLD``, whose messages meet no others.
    timeout
        Time after which a rank gives up to wait for another one [s].  A process that gave up ends all ranks when it
        ends: what MPI does at the end would wait for the lost one for ever.

    Raises
    ------
    CommunicationError
        ``no-engine``: mpi4py is not installed.
    """

    def __init__(self, communicator: Any = None, *, timeout: float = 300.0) -> None:  # noqa: ANN401 - mpi4py has no types
        try:
            self._mpi: Any = import_module("mpi4py.MPI")
        except ImportError as error:
            found = Diagnostic("no-engine", "mpi4py is not installed", (str(error),),
                               ('pip install "polyloop[distributed]", or another engine',))
            raise CommunicationError("distribute", None, [found]) from error
        self._comm = (self._mpi.COMM_WORLD if communicator is None else communicator).Dup()
        self._timeout = timeout
        self._is_ending = False
        self.rank = int(self._comm.Get_rank())
        self.size = int(self._comm.Get_size())
        self._groups: dict[Group, Any] = {tuple(range(self.size)): self._comm}

    def start(self, sends: Sequence[Peer], receives: Sequence[Peer]) -> Callable[[], None]:
        """Begin to send and to receive; return the function that waits."""
        requests = [self._comm.Irecv(_bytes(buffer), peer) for peer, buffer in receives]
        requests += [self._comm.Isend(_bytes(buffer), peer) for peer, buffer in sends]
        return lambda: self._wait(requests, f"for messages of ranks {sorted({peer for peer, _ in receives})}")

    def all_reduce(self, buffer: Any, operation: str, ranks: Group) -> None:  # noqa: ANN401 - an array
        """Combine the buffers of *ranks* in place."""
        request = self._group(ranks).Iallreduce(self._mpi.IN_PLACE, buffer, self._kind(operation))
        self._wait([request], f"to combine with ranks {', '.join(map(str, ranks))}")

    def reduce_scatter(self, buffer: Any, operation: str, ranks: Group) -> Any:  # noqa: ANN401 - an array
        """Combine the buffers of *ranks*, and return the part of this rank."""
        size = len(buffer) // len(ranks)
        result = np.empty(size, buffer.dtype) if isinstance(buffer, np.ndarray) else buffer.new_empty(size)
        request = self._group(ranks).Ireduce_scatter_block(buffer, result, self._kind(operation))
        self._wait([request], f"to combine with ranks {', '.join(map(str, ranks))}")
        return result

    def _kind(self, operation: str) -> Any:  # noqa: ANN401 - an operation of MPI
        mpi = self._mpi
        return {"sum": mpi.SUM, "product": mpi.PROD, "max": mpi.MAX, "min": mpi.MIN}[operation]

    def _group(self, ranks: Group) -> Any:  # noqa: ANN401 - a communicator
        if ranks not in self._groups:
            self._groups[ranks] = self._comm.Create_group(self._comm.Get_group().Incl([*ranks]))
        return self._groups[ranks]

    def all_gather(self, text: str) -> list[str]:
        """Return the texts of all ranks."""
        own = np.frombuffer(text.encode(), np.uint8)
        sizes = np.zeros(self.size, np.int64)
        self._wait([self._comm.Iallgather(np.array([len(own)], np.int64), sizes)], "for the first call of all ranks")
        found = np.zeros(int(sizes.sum()), np.uint8)
        self._wait([self._comm.Iallgatherv(own, [found, sizes.tolist()])], "for the first call of all ranks")
        ends = np.cumsum(sizes).tolist()
        return [found[end - size : end].tobytes().decode() for end, size in zip(ends, sizes.tolist(), strict=True)]

    def _wait(self, requests: list[Any], doing: str) -> None:
        end, count = monotonic() + self._timeout, 0
        while not self._mpi.Request.Testall(requests):
            count += 1
            if count > 100:
                sleep(_BRIEF)
            if monotonic() > end:
                for request in requests:
                    request.Cancel()
                if not self._is_ending:
                    self._is_ending = True
                    atexit.register(self._comm.Abort, 1)
                lost(self.rank, doing, f"nothing came for {self._timeout:g} s")


def of_mpi(box: Sequence[tuple[int, int]], dtype: np.dtype[Any], value: Any) -> Any:  # noqa: ANN401 - an array
    """Return the array that is meant by what mpi4py takes as a message: ``[array, MPI.DOUBLE]``, memory of MPI.

    Parameters
    ----------
    box
        Of the elements that are stored.
    dtype
        Of these.
    value
        Returned as it is, if it is neither, or does not fit.
    """
    if isinstance(value, list | tuple) and len(value) in (2, 3) and hasattr(value[-1], "typestr"):
        if np.dtype(value[-1].typestr) != dtype:
            return value
        value = value[0]
    if hasattr(value, "shape") and not isinstance(value, memoryview):
        return value
    shape = tuple(high - low for low, high in box)
    try:
        memory = memoryview(value)
    except TypeError:
        return value
    fits = memory.c_contiguous and memory.nbytes == prod(shape) * dtype.itemsize
    return np.frombuffer(memory, dtype).reshape(shape) if fits else value


def _bytes(buffer: Any) -> Any:  # noqa: ANN401 - an array
    """Return a buffer as bytes, whatever the type of its elements."""
    return buffer.view(np.uint8) if isinstance(buffer, np.ndarray) else buffer

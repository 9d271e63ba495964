"""Ranks as threads of one process with a GPU each: messages are copies from one GPU's memory to another's.

A message is one ``cuMemcpyPeerAsync`` from where the elements are to where they go, on a stream beside that of the
kernels.  Events order it: behind what both ranks had launched when the exchange began, before what they launch when
they have waited for it.  The host waits for no GPU.
"""
# ruff: noqa: ANN401  # arrays of libraries without types

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from queue import Queue
from typing import Any, Final, Protocol

import numpy as np

from polyloop.distributed.engines.engine import Group, Peer, lost
from polyloop.distributed.engines.threads import ThreadEngine, World
from polyloop.errors import CommunicationError, Diagnostic, PolyloopError
from polyloop.runtime.cuda.driver import DriverFunctions

__all__ = ["Driver", "PeerEngine", "Place", "gpu_place"]

_NO_TIMING: Final = 2
_NON_BLOCKING: Final = 1


class Driver(Protocol):
    """Functions of the CUDA driver."""

    def call(self, name: str, *arguments: object) -> None:
        """Call a function, and raise an error if it fails."""
        ...


@dataclass(frozen=True, eq=False)
class Place:
    """The GPU of a rank, which is the current one of its thread.

    Attributes
    ----------
    driver
        Functions of the driver.
    stream
        Returns the handle of the stream on which kernels run.
    holds
        Whether an array is in the memory of a GPU; other arrays go from thread to thread.
    """

    driver: Driver
    stream: Callable[[], int]
    holds: Callable[[Any], bool]

    def context(self) -> int:
        """Return the handle of the current context."""
        found = ctypes.c_void_p()
        self.driver.call("cuCtxGetCurrent", ctypes.byref(found))
        return found.value or 0

    def new_stream(self) -> int:
        """Return a stream beside the others."""
        found = ctypes.c_void_p()
        self.driver.call("cuStreamCreate", ctypes.byref(found), ctypes.c_uint(_NON_BLOCKING))
        return found.value or 0

    def recorded(self, stream: int) -> ctypes.c_void_p:
        """Return an event behind the work that is on a stream now."""
        event = ctypes.c_void_p()
        self.driver.call("cuEventCreate", ctypes.byref(event), ctypes.c_uint(_NO_TIMING))
        self.driver.call("cuEventRecord", event, ctypes.c_void_p(stream))
        return event

    def follow(self, stream: int, event: ctypes.c_void_p) -> None:
        """Let later work on a stream wait for an event."""
        self.driver.call("cuStreamWaitEvent", ctypes.c_void_p(stream), event, ctypes.c_uint(0))

    def forget(self, event: ctypes.c_void_p) -> None:
        """Destroy an event; what waits for it still does."""
        self.driver.call("cuEventDestroy_v2", event)


@dataclass(eq=False)
class _Offer:
    """Elements that lie ready, and the queue for the event behind their copy."""

    address: int
    size: int
    context: int
    ready: ctypes.c_void_p
    copied: Queue[Any] = field(default_factory=Queue)


class PeerEngine(ThreadEngine):
    """An engine between GPUs of one process, whose transport is the copy.

    Parameters
    ----------
    rank
        The number of this rank.
    world
        The queues between the ranks.
    place
        The GPU, and how it is reached.
    """

    def __init__(self, rank: int, world: World, place: Place) -> None:
        super().__init__(rank, world)
        self._place = place
        self._context = place.context()
        self._beside = place.new_stream()
        self._near: set[int] = set()

    def start(self, sends: Sequence[Peer], receives: Sequence[Peer]) -> Callable[[], None]:
        """Offer what is sent, and return the function that copies what others offer."""
        place = self._place
        if not all(place.holds(buffer) for _, buffer in (*sends, *receives)):
            return super().start(sends, receives)
        main = place.stream()
        begun = [place.recorded(main) for _ in (*sends, None)]
        offers = [_Offer(_address(buffer), _bytes(buffer), self._context, ready)
                  for (_, buffer), ready in zip(sends, begun, strict=False)]
        for (peer, _), offer in zip(sends, offers, strict=True):
            self.put(peer, "message", offer)
        numbered = self.numbered(receives)

        def wait() -> None:
            place.follow(self._beside, begun[-1])
            for peer, number, buffer in numbered:
                self._copy(self.message(peer, number), peer, buffer)
            for (peer, _), offer in zip(sends, offers, strict=True):
                copied = self.taken(offer.copied, f"for rank {peer} to copy what it is sent")
                place.follow(place.stream(), copied)
                place.forget(copied)
            for event in begun:
                place.forget(event)

        return wait

    def _copy(self, offer: _Offer, peer: int, buffer: Any) -> None:
        """Copy what a rank offers into a buffer, beside the kernels, and let the next ones wait."""
        place, size = self._place, _bytes(buffer)
        if offer.size != size:
            lost(self.rank, f"{size} bytes from rank {peer}", f"{offer.size} came")
        if offer.context not in {*self._near, self._context}:
            self._near.add(offer.context)
            with suppress(PolyloopError):  # it is so already, or there is none and the copy goes through the host
                place.driver.call("cuCtxEnablePeerAccess", ctypes.c_void_p(offer.context), ctypes.c_uint(0))
        place.follow(self._beside, offer.ready)
        place.driver.call(
            "cuMemcpyPeerAsync", ctypes.c_uint64(_address(buffer)), ctypes.c_void_p(self._context),
            ctypes.c_uint64(offer.address), ctypes.c_void_p(offer.context), ctypes.c_size_t(size),
            ctypes.c_void_p(self._beside))
        here = place.recorded(self._beside)
        place.follow(place.stream(), here)
        offer.copied.put(here)

    def all_reduce(self, buffer: Any, operation: str, ranks: Group) -> None:
        """Combine the buffers of *ranks* in their order, so that all get the same bits."""
        if not self._place.holds(buffer):
            super().all_reduce(buffer, operation, ranks)
            return
        mine = self._copied(buffer)
        buffer[...] = self._gathered([mine] * len(ranks), mine, operation, ranks)

    def reduce_scatter(self, buffer: Any, operation: str, ranks: Group) -> Any:
        """Combine the buffers of *ranks*, and return the part of this rank."""
        if not self._place.holds(buffer):
            return super().reduce_scatter(buffer, operation, ranks)
        size = len(buffer) // len(ranks)
        parts = [buffer[place * size : (place + 1) * size] for place in range(len(ranks))]
        return self._gathered(parts, self._copied(parts[ranks.index(self.rank)]), operation, ranks)

    def _gathered(self, parts: Sequence[Any], mine: Any, operation: str, ranks: Group) -> Any:
        """Send a part to each of *ranks*, and return what comes, combined."""
        others = [(place, peer) for place, peer in enumerate(ranks) if peer != self.rank]
        came = {peer: self._copied(mine) for _, peer in others}
        self.start([(peer, parts[place]) for place, peer in others], [(peer, came[peer]) for _, peer in others])()
        shares = [came.get(peer, mine) for peer in ranks]
        result = self._copied(shares[0])
        for share in shares[1:]:
            match operation:
                case "sum":
                    result += share
                case "product":
                    result *= share
                case other:
                    larger = share > result if other == "max" else share < result
                    result[larger] = share[larger]
        return result

    @staticmethod
    def _copied(buffer: Any) -> Any:
        return buffer.copy() if isinstance(buffer, np.ndarray) else buffer.clone()


def _address(buffer: Any) -> int:
    return int(buffer.ctypes.data if isinstance(buffer, np.ndarray) else buffer.data_ptr())


def _bytes(buffer: Any) -> int:
    return int(buffer.nbytes)


def gpu_place(ordinal: int) -> Place:
    """Make a GPU the current one of this thread, for PyTorch and the driver, and return it.

    Raises
    ------
    CommunicationError
        ``no-engine``: there is no PyTorch that has this GPU.
    """
    try:
        torch: Any = import_module("torch")
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        functions = DriverFunctions() if count else None
    except (ImportError, OSError) as error:
        raise _missing("PyTorch with CUDA is not installed", str(error)) from error
    if functions is None or not 0 <= ordinal < count:
        raise _missing(f"there is no GPU {ordinal}", f"PyTorch has {count}")
    torch.cuda.set_device(ordinal)
    torch.empty(0, device="cuda")  # the context becomes current
    return Place(functions, lambda: int(torch.cuda.current_stream().cuda_stream),
                 lambda buffer: bool(getattr(buffer, "is_cuda", False)))


def _missing(message: str, note: str) -> CommunicationError:
    return CommunicationError("distribute", None, [Diagnostic(
        "no-engine", message, (note,), ("name GPUs that PyTorch has: devices=(0, 1)",))])

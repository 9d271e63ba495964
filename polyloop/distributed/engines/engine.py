"""The interface of engines: what ranks need of a library that carries messages.

An engine is made by the user's program, as its library wants: ``torchrun`` or ``mpirun`` start the processes, and
nothing of this package has to run beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn, Protocol, TypeAlias, runtime_checkable

from polyloop.display import Shown
from polyloop.errors import CommunicationError, Diagnostic

__all__ = ["OPERATIONS", "Buffer", "Engine", "Group", "Peer", "Ranked", "lost"]

Buffer: TypeAlias = Any
"""An array of one dimension without gaps: NumPy's or PyTorch's."""

Peer: TypeAlias = "tuple[int, Buffer]"
"""A rank, and what is sent to it, or where what it sends goes."""

Group: TypeAlias = "tuple[int, ...]"
"""Numbers of ranks, upward."""

OPERATIONS: Final = ("sum", "product", "max", "min")


class Ranked(Shown):
    """Base of engines, which shows the number of the rank."""

    rank: int
    size: int

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: rank {self.rank} of {self.size}>"


@runtime_checkable
class Engine(Protocol):
    """Interface to the library that carries the messages of a rank.

    Attributes
    ----------
    rank, size
        The number of this rank, and of all ranks.
    """

    rank: int
    size: int

    def start(self, sends: Sequence[Peer], receives: Sequence[Peer]) -> Callable[[], None]:
        """Begin to send and to receive; return the function that waits until both are done.

        Buffers that are sent stay as they are until then.  Several exchanges may be under way, and end in any order:
        the messages between two ranks are matched in the order in which their exchanges began.

        Raises
        ------
        CommunicationError
            ``rank-lost``, here or in the function returned: a rank does not answer within the timeout.
        """
        ...

    def all_reduce(self, buffer: Buffer, operation: str, ranks: Group) -> None:
        """Combine the buffers of some ranks, all of which call it, in place.

        Raises
        ------
        CommunicationError
            ``rank-lost``.
        """
        ...

    def reduce_scatter(self, buffer: Buffer, operation: str, ranks: Group) -> Buffer:
        """Combine the buffers of some ranks, all of which call it, and return the part of this rank.

        The buffer has as many parts of one length as there are ranks, in their order; it may be overwritten.

        Raises
        ------
        CommunicationError
            ``rank-lost``.
        """
        ...

    def all_gather(self, text: str) -> list[str]:
        """Return the texts of all ranks, in their order.

        Raises
        ------
        CommunicationError
            ``rank-lost``.
        """
        ...


def lost(rank: int, doing: str, cause: object, error: BaseException | None = None) -> NoReturn:
    """Raise the error of a rank that waits for another one in vain.

    Raises
    ------
    CommunicationError
        ``rank-lost``.
    """
    found = Diagnostic("rank-lost", f"rank {rank} waited in vain: {doing}", (str(cause),),
                       ("look at the output of the other ranks: one has ended, or runs another program",))
    raise CommunicationError("distribute", None, [found]) from error

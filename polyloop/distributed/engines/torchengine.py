"""Messages through ``torch.distributed``: NCCL between GPUs, Gloo between processors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Final

import numpy as np

from polyloop.distributed.engines.engine import Group, Peer, Ranked, lost
from polyloop.errors import CommunicationError, Diagnostic

__all__ = ["TorchEngine"]


class TorchEngine(Ranked):
    """The process group of the program, which ``torch.distributed.init_process_group`` has made.

    NumPy's arrays and tensors of processors go through Gloo, tensors of GPUs through NCCL.  The timeout is that of the
    group.

    Raises
    ------
    CommunicationError
        ``no-engine``: PyTorch is not installed, or the process has no group.
    """

    def __init__(self) -> None:
        try:
            self._torch: Any = import_module("torch")
            self._dist: Any = import_module("torch.distributed")
        except ImportError as error:
            raise _missing("PyTorch is not installed", "pip install torch, or another engine") from error
        if not (self._dist.is_available() and self._dist.is_initialized()):
            raise _missing("the process is in no group of torch.distributed",
                           'start it with torchrun, and call torch.distributed.init_process_group("nccl" or "gloo")')
        self.rank = int(self._dist.get_rank())
        self.size = int(self._dist.get_world_size())
        self._tags: Counter[tuple[int, bool]] = Counter()
        self._groups: dict[Group, Any] = {tuple(range(self.size)): None}
        self._reduce: Final = self._dist.ReduceOp

    def start(self, sends: Sequence[Peer], receives: Sequence[Peer]) -> Callable[[], None]:
        """Begin to send and to receive; return the function that waits."""
        doing = f"for messages of ranks {sorted({peer for peer, _ in receives})}"
        try:
            works = self._batch(sends, receives) if self._is_nccl() else self._each(sends, receives)
        except RuntimeError as error:
            lost(self.rank, doing, error, error)

        def wait() -> None:
            try:
                for work in works:
                    work.wait()
            except RuntimeError as error:
                lost(self.rank, doing, error, error)

        return wait

    def _is_nccl(self) -> bool:
        return str(self._dist.get_backend()) == "nccl"

    def _batch(self, sends: Sequence[Peer], receives: Sequence[Peer]) -> list[Any]:
        operation = self._dist.P2POp
        found = [operation(self._dist.isend, buffer, peer) for peer, buffer in sends]
        found += [operation(self._dist.irecv, buffer, peer) for peer, buffer in receives]
        return list(self._dist.batch_isend_irecv(found)) if found else []

    def _each(self, sends: Sequence[Peer], receives: Sequence[Peer]) -> list[Any]:
        works = [self._dist.irecv(self._tensor(buffer), peer, tag=self._tag(peer, is_sent=False))
                 for peer, buffer in receives]
        works += [self._dist.isend(self._tensor(buffer), peer, tag=self._tag(peer, is_sent=True))
                  for peer, buffer in sends]
        return works

    def _tag(self, peer: int, *, is_sent: bool) -> int:
        self._tags[peer, is_sent] += 1
        return self._tags[peer, is_sent]

    def _tensor(self, buffer: Any) -> Any:  # noqa: ANN401 - an array
        return self._torch.from_numpy(buffer) if isinstance(buffer, np.ndarray) else buffer

    def all_reduce(self, buffer: Any, operation: str, ranks: Group) -> None:  # noqa: ANN401 - an array
        """Combine the buffers of *ranks* in place."""
        try:
            self._dist.all_reduce(self._tensor(buffer), self._kind(operation), group=self._group(ranks))
        except RuntimeError as error:
            lost(self.rank, f"to combine with ranks {', '.join(map(str, ranks))}", error, error)

    def reduce_scatter(self, buffer: Any, operation: str, ranks: Group) -> Any:  # noqa: ANN401 - an array
        """Combine the buffers of *ranks*, and return the part of this rank."""
        tensor = self._tensor(buffer)
        result = tensor.new_empty(len(buffer) // len(ranks))
        # the newer name of the same function
        scatter = getattr(self._dist, "reduce_scatter_single", None) or self._dist.reduce_scatter_tensor
        try:
            scatter(result, tensor, self._kind(operation), group=self._group(ranks))
        except RuntimeError as error:
            lost(self.rank, f"to combine with ranks {', '.join(map(str, ranks))}", error, error)
        return result.numpy() if isinstance(buffer, np.ndarray) else result

    def _kind(self, operation: str) -> Any:  # noqa: ANN401 - a value of torch.distributed.ReduceOp
        return {"sum": self._reduce.SUM, "product": self._reduce.PRODUCT, "max": self._reduce.MAX,
                "min": self._reduce.MIN}[operation]

    def _group(self, ranks: Group) -> Any:  # noqa: ANN401 - a process group
        if ranks not in self._groups:
            self._groups[ranks] = self._dist.new_group([*ranks], use_local_synchronization=True)
        return self._groups[ranks]

    def all_gather(self, text: str) -> list[str]:
        """Return the texts of all ranks."""
        found: list[Any] = [None] * self.size
        try:
            self._dist.all_gather_object(found, text)
        except RuntimeError as error:
            lost(self.rank, "for the first call of all ranks", error, error)
        return [str(entry) for entry in found]


def _missing(message: str, hint: str) -> CommunicationError:
    return CommunicationError("distribute", None, [Diagnostic("no-engine", message, (), (hint,))])

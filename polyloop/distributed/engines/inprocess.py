"""Ranks as threads of one process, with processors or GPUs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Thread
from typing import Any, TypeVar

from polyloop.distributed.engines.engine import Engine
from polyloop.distributed.engines.peers import PeerEngine, gpu_place
from polyloop.distributed.engines.threads import ThreadEngine, World
from polyloop.errors import ArgumentError, CommunicationError, Diagnostic

__all__ = ["run_ranks"]

_T = TypeVar("_T")


def run_ranks(
    count: int, program: Callable[[Engine], _T], *, timeout: float = 60.0, devices: Sequence[int] | None = None
) -> list[_T]:
    """Run *program* on ranks that are threads of this process, and return the results in the order of the ranks.

    ::

        def program(engine):
            run = divided.compile(engine)
            u = run.scatter("u", whole, n=64)
            run(u=u, n=64, steps=10)
            return run.gather("u", u, n=64)

        results = pl.run_ranks(4, program)

    Parameters
    ----------
    count
        Number of ranks.
    program
        Called with the engine of each rank.
    timeout
        Time after which a rank gives up to wait for another one [s].
    devices
        Number of the GPU of each rank, as PyTorch counts them.  The GPU is the current one of the rank's thread, and
        tensors in its memory go by copies from GPU to GPU (``cuMemcpyPeerAsync``), beside the kernels.

    Raises
    ------
    ArgumentError
        ``mesh-mismatch``: no rank, or another number of devices than of ranks.
    CommunicationError
        ``no-engine``: there is no such GPU;
        ``rank-lost``: a rank waited in vain for another one, and that one did not fail.  Otherwise the first error of
        a rank is raised.
    """
    if count < 1:
        raise ArgumentError("run_ranks", None, [Diagnostic(
            "mesh-mismatch", f"there are {count} ranks", (), ("pass the number of ranks, at least 1",))])
    if devices is not None and len(devices) != count:
        raise ArgumentError("run_ranks", None, [Diagnostic(
            "mesh-mismatch", f"{len(devices)} devices are named for {count} ranks", (),
            ("name the GPU of each rank; several ranks may share one",))])
    world = World(count, timeout)
    results: list[Any] = [None] * count
    errors: list[BaseException | None] = [None] * count

    def work(rank: int) -> None:
        try:
            engine = ThreadEngine(rank, world) if devices is None else PeerEngine(rank, world, gpu_place(devices[rank]))
            results[rank] = program(engine)
        except BaseException as error:
            errors[rank] = error
            world.failed.set()

    threads = [Thread(target=work, args=(rank,), daemon=True) for rank in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = [error for error in errors if error is not None]
    first = next((error for error in found if not isinstance(error, CommunicationError)), None)
    if found:
        raise first or found[0]
    return results

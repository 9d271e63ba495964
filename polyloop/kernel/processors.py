"""Processors as data: cores, vectors, caches, and the rates that bound a program on all cores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from polyloop.display import brief
from polyloop.kernel.devices import Figure

__all__ = ["Cache", "Processor"]


@dataclass(frozen=True)
class Cache:
    """One level of caches.

    Attributes
    ----------
    level
        1 for the one next to a core.
    nbytes
        Size of one [bytes].
    cores
        How many cores share one.
    bandwidth
        Bytes per second that one core reads from it.
    """

    level: int
    nbytes: int
    cores: int
    bandwidth: Figure

    __repr__ = brief


@dataclass(frozen=True)
class Processor:
    """The processor of a machine, as a program meets it that may use *cores* cores.

    ::

        mine = Processor("my processor", 8, 64, (Cache(1, 48 * 1024, 1, Figure(2e11, "measured")),),
                         Figure(1e11, "measured"), Figure(2e10, "measured"), {"float32": Figure(1e12, "measured")})
        pl.explain(knl, {"n": 4096}, mine)

    Attributes
    ----------
    cores
        Threads that run at the same time.
    vector_bytes
        Width of a vector register [bytes].
    caches
        By level, the smallest first.
    dram, core_dram
        Bandwidth of its memory for all cores, and for one [bytes/s].
    rates
        Operations per second of all cores by kind: ``"float32"`` and ``"float64"``, in vectors, one operation an
        instruction; ``"fused float32"`` and ``"fused float64"``, where a product and a sum are one instruction.
    """

    name: str
    cores: int
    vector_bytes: int
    caches: tuple[Cache, ...]
    dram: Figure
    core_dram: Figure
    rates: Mapping[str, Figure]

    __repr__ = brief

    def rate(self, kind: str) -> Figure | None:
        """Return the highest rate of a type, with fused products; None if it is not known."""
        return self.rates.get(f"fused {kind}", self.rates.get(kind))

    def holder(self, nbytes: int, cores: int) -> Cache | None:
        """Return the smallest caches that hold *nbytes* when *cores* cores have a part each; None: memory does."""
        return next((x for x in self.caches if nbytes <= x.nbytes * -(-cores // x.cores)), None)

"""The processor of this machine: its caches from the system, its rates measured once and kept in the disk cache."""

from __future__ import annotations

import ctypes
import json
import platform
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Final

from polyloop.errors import ArgumentError, CompilerError, Diagnostic
from polyloop.kernel.devices import Figure
from polyloop.kernel.processors import Cache, Processor
from polyloop.runtime.cache import CacheKey, open_cache
from polyloop.runtime.ccompile import find_compiler, open_library, processor_identity
from polyloop.runtime.teams import alone_in_children

__all__ = ["this_processor"]

_SOURCE: Final = Path(__file__).with_name("rates.c")
_KEPT: Final = "rates.json"
_SYSTEM: Final = Path("/sys/devices/system/cpu/cpu0/cache")
_REPEATS: Final = 200
_FEW: Final = 5
_METHOD: Final = "3: pieces"  # other than what was kept before: measure anew
_BYTES: Final = 1 << 22  # that are read in one measurement, at least
_MOST: Final = 1 << 27  # of memory that is measured by all threads together [bytes]
_ROUNDS: Final = 1 << 12
_RATES: Final = {
    "float32": "single_sums", "fused float32": "single_fused", "float64": "double_sums", "fused float64": "double_fused"
}  # fmt: skip


def this_processor() -> Processor:
    """Return the processor of this machine, for as many threads as OpenMP gives a program.

    The first call measures for some seconds, and puts the result in the disk cache; later ones read it there.

    Raises
    ------
    ArgumentError
        ``unknown-processor``: the system does not say what caches there are.
    CompilerError
        ``no-c-compiler``, ``no-openmp``, ``c-compiler-failed``, ``cannot-load``.

    Notes
    -----
    What is measured is reading, which is the fastest that memory does: a write also reads its cache line.  Sums and
    fused products in vectors of the machine's width are the fastest arithmetic.  Each is the best of many short
    measurements; caches and arithmetic by one thread, as another program may have the other cores.
    """
    levels = tuple(_levels(_SYSTEM))
    if not levels:
        raise ArgumentError("explain", None, [Diagnostic(
            "unknown-processor", "the system does not say what caches the processor has", (f"looked in {_SYSTEM}",),
            ("pass a polyloop.kernel.processors.Processor with its figures",))])
    source = _SOURCE.read_text(encoding="utf-8")
    library = open_library(source, kind="processor")
    alone_in_children(library)
    team = int(library.threads())
    compiler = find_compiler().identity
    return _kept(source, f"{compiler} on {processor_identity()}", team, levels, _Measuring(library, team))


class _Measuring:
    """Measurements by a loaded library and its threads; all of them are equal, as a key of what was found."""

    def __init__(self, library: ctypes.CDLL, team: int) -> None:
        self.library = library
        self.team = team

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Measuring)

    def __hash__(self) -> int:
        return 0

    def reading(self, nbytes: int, team: int) -> float:
        """Return the bytes that a team reads in a second, each thread from *nbytes* of its own."""
        function = self.library.reading
        function.restype = ctypes.c_double
        rounds = max(1, _BYTES // nbytes)
        whole, piece = ctypes.c_int64(nbytes), ctypes.c_int64(min(nbytes, _BYTES))
        found = float(function(whole, piece, rounds, _REPEATS if rounds > 1 else _FEW, team))
        if found <= 0.0:
            raise CompilerError("explain", None, [Diagnostic(
                "unknown-processor", f"there is no memory to measure with: {team} times {nbytes} bytes", (),
                ("pass a polyloop.kernel.processors.Processor with its figures",))])
        return found

    def operations(self, kind: str) -> float:
        """Return the operations of a kind that all threads do in a second, each as many as one does alone."""
        function = getattr(self.library, _RATES[kind])
        function.restype = ctypes.c_double
        return float(function(_ROUNDS, _REPEATS, 1)) * self.team

    def all(self, levels: tuple[tuple[int, int, int], ...]) -> dict[str, float]:
        """Return all rates, by name."""
        found = {"vector": float(self.library.vector_bytes())}
        for level, nbytes, _ in levels:
            found[f"L{level}"] = self.reading(min(nbytes // 2, _MOST), 1)
        beyond = min(4 * max(nbytes for _, nbytes, _ in levels), _MOST)
        found["memory"] = self.reading(beyond // self.team, self.team)
        found["memory of one"] = max(self.reading(beyond, 1), found["memory"] / self.team)
        return found | {kind: self.operations(kind) for kind in _RATES}


@lru_cache(maxsize=4)
def _kept(
    source: str, identity: str, team: int, levels: tuple[tuple[int, int, int], ...], measuring: _Measuring
) -> Processor:
    """Return the processor with the rates that are in the disk cache, or are measured now."""
    key = CacheKey("processor", source, identity, (f"{team} threads", *map(str, levels), _METHOD))

    def make() -> dict[str, bytes]:
        return {_KEPT: json.dumps(measuring.all(levels)).encode()}

    cache = open_cache()
    files = make() if cache is None else cache.made(key, make, {_KEPT})
    rates: dict[str, float] = json.loads(files[_KEPT])
    alone, said = "measured by one thread", f"measured by {team} thread{'s' * (team > 1)}"
    caches = (Cache(level, size, cores, Figure(rates[f"L{level}"], alone)) for level, size, cores in levels)
    return Processor(
        _name(), team, int(rates["vector"]), tuple(caches), Figure(rates["memory"], said),
        Figure(rates["memory of one"], alone), {kind: Figure(rates[kind], f"{alone}, for {team}") for kind in _RATES},
    )  # fmt: skip


def _name() -> str:
    """Return the name of the processor, or that of its architecture."""
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        found = None
    return found.group(1).strip() if found else platform.processor() or platform.machine()


def _levels(folder: Path) -> Iterator[tuple[int, int, int]]:
    """Yield the level, the size [bytes] and the number of sharing cores of each cache for data, the smallest first.

    Source: Linux, Documentation/ABI/testing/sysfs-devices-system-cpu.
    """
    found = []
    for each in folder.glob("index*"):
        try:
            kind, level, size, shared = (
                each.joinpath(name).read_text().strip() for name in ("type", "level", "size", "shared_cpu_list")
            )
        except OSError:
            continue
        units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
        number = re.fullmatch(r"(\d+)([KMG]?)", size)
        if kind in ("Data", "Unified") and number is not None and level.isdigit():
            found.append((int(level), int(number[1]) * units.get(number[2], 1), _count(shared)))
    yield from sorted(found)


def _count(text: str) -> int:
    """Return the number of numbers in a list such as ``0-3,8``."""
    parts = [part.partition("-") for part in text.split(",") if part]
    return max(1, sum(int(last or first) - int(first) + 1 for first, _, last in parts))

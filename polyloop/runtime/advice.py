"""Advice on a kernel: transforms to try, with the facts that suggest each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from polyloop.kernel.instruction import Copy
from polyloop.mapping.thread_mapping import Placement
from polyloop.runtime.explanation import AccessFacts, Explanation, short
from polyloop.runtime.idle import idle_notes

__all__ = ["advice"]

_MOST: Final = 3
_MATTERS: Final = 0.1
"""Part of what is asked of a resource from which on waste is worth a word."""


def advice(placement: Placement, facts: Explanation, homes: Mapping[str, str]) -> Explanation:
    """Return *facts* with notes on idle threads and suggestions, the most promising first.

    Parameters
    ----------
    homes
        Statement -> its launch.
    """
    threads = {launch.name: launch.threads for launch in facts.launches}
    idle = idle_notes(placement, {name: threads.get(home, 1) for name, home in homes.items()}, facts.sizes)
    facts = replace(facts, notes=(*facts.notes, *idle))
    if facts.bound is None:
        return facts
    adviser = _Adviser(placement, facts)
    if not adviser.is_parallel:
        return replace(facts, suggestions=tuple(adviser.grid()))
    found = [*adviser.grid(), *adviser.coalescing(), *adviser.banks(), *adviser.reuse(), *adviser.precision()]
    found += [*adviser.occupancy(), *adviser.least_traffic()]
    return replace(facts, suggestions=tuple(dict.fromkeys(found))[:_MOST])


class _Adviser:
    """Suggestions for one kernel."""

    def __init__(self, placement: Placement, facts: Explanation) -> None:
        self.facts = facts
        assert facts.bound is not None, "nothing bounds what does nothing"
        self.bound = facts.bound.resource
        self.is_parallel = bool(placement.axes.all)
        statements = [placed.lowered for placed in placement.statements.values()]
        self.reduced = {iname for lowered in statements for iname in lowered.own}
        self.staging = {s.instruction.id for s in statements if not isinstance(s.instruction.origin, Copy)}

    def grid(self) -> Iterator[str]:
        """Yield advice to run in parallel, or with more blocks."""
        if not self.is_parallel:
            yield "run it in parallel: pl.split_iname(knl, .., 256, outer_tag=\"g.0\", inner_tag=\"l.0\")"
            return
        many = self.facts.multiprocessors
        for launch in self.facts.launches:
            if 0 < launch.blocks < many and not launch.joins and self.facts.seconds > 1e-6:
                yield (
                    f"more blocks: {launch.blocks} of them leave {many - launch.blocks} of {many} multiprocessors "
                    "idle; tag the outer iname of another split 'g.1', or take smaller tiles (pl.split_iname)"
                )

    def coalescing(self) -> Iterator[str]:
        """Yield advice about warps that touch far more sectors than they need."""
        found: dict[tuple[str, str], tuple[float, AccessFacts]] = {}
        for access in self.facts.accesses:
            wasted = 32 * (access.sectors - access.least_sectors) * access.requests
            is_much = access.sectors > 4 or self.bound == "DRAM"
            is_much = is_much and wasted > _MATTERS * self.facts.requested_bytes
            if access.space == "global" and access.excess > 1.5 and is_much:
                key = (access.array, access.direction)
                found[key] = max(found.get(key, (0.0, access)), (wasted, access), key=lambda entry: entry[0])
        for _, access in sorted(found.values(), key=lambda entry: -entry[0])[:2]:
            yield self._coalesced(access)

    def _coalesced(self, access: AccessFacts) -> str:
        along, neighbours, idle = access.inames
        stage = f'fetch a tile of it through shared memory, pl.add_prefetch(knl, "{access.array}", [..])'
        store = f'store it the other way round, pl.tag_array_axes(knl, "{access.array}", ..)'
        start = f"{access.instruction} {'reads' if access.direction == 'load' else 'writes'} {access.text}"
        if access.instruction in self.staging and neighbours not in {"", along}:
            return f"{start}: let warps run along '{neighbours}', in shared memory, with that iname on 'l.0'"
        if access.instruction in self.staging:
            return f"{start} in short pieces: a tile that is longer along the last axis wastes less"
        if neighbours in {"", along}:
            return f"{start} with gaps from thread to thread: {stage if access.direction == 'load' else store}"
        other = stage if access.direction == "load" else store
        if neighbours in self.reduced and idle:
            return f"{start}: let warps run along '{idle}', on which it does not depend (tag it 'l.0'), or {other}"
        if neighbours in self.reduced:
            return f"{start}, neighbours in memory along '{neighbours}', and warps run along '{along}': {other}"
        return f"{start}: let warps run along '{neighbours}' instead of '{along}' (tag it 'l.0'), or {other}"

    def banks(self) -> Iterator[str]:
        """Yield advice about bank conflicts."""
        total = sum(a.turns * a.requests for a in self.facts.accesses)
        shared = [a for a in self.facts.accesses if a.space == "local"]
        for array in dict.fromkeys(a.array for a in shared):
            wasted = sum((a.turns - a.least_turns) * a.requests for a in shared if a.array == array)
            if wasted > _MATTERS * total:
                yield (
                    f"threads of a warp meet in the banks of '{array}', which costs {wasted / total:.0%} of the turns: "
                    f'pl.add_padding(knl, "{array}", ..) or pl.swizzle(knl, "{array}", ..)'
                )

    def reuse(self) -> Iterator[str]:
        """Yield advice about elements that are asked for again and again."""
        loads = [a for a in self.facts.accesses if a.direction == "load"]
        most = max(loads, key=lambda a: a.turns * a.requests, default=None)
        if self.bound != "L1 and shared memory" or most is None or most.sectors > 4:
            return
        whole = self.facts.footprints.get(f"{most.array} read", 0)
        again = most.used_bytes * most.requests / whole if whole else 0.0
        if most.space == "global" and again > 4 and most.instruction not in self.staging:
            yield (
                f"'{most.array}' is asked for {short(again)} times over: keep a tile of it in shared memory, "
                f'pl.add_prefetch(knl, "{most.array}", [..]) over the loops that use it again'
            )
        elif most.space == "local" and most.excess < 1.5:
            names = dict.fromkeys(a.array for a in loads if a.space == "local" and a.requests == most.requests)
            yield (
                f"let a thread compute more results, so that it uses what it reads of {', '.join(names)} more "
                'often: split two loops once more, pl.split_iname(knl, .., inner_tag="unr")'
            )

    def precision(self) -> Iterator[str]:
        """Yield advice if double precision bounds a kernel that computes in single precision too."""
        if self.bound == "float64" and self.facts.flops.get("float32", 0):
            yield "cast constants and intermediate values to float32 where that is accurate enough: float64 bounds"

    def occupancy(self) -> Iterator[str]:
        """Yield advice about occupancy too low to hide latencies."""
        for launch in self.facts.launches:
            if launch.occupancy < 0.25 and not launch.joins and launch.blocks > self.facts.multiprocessors:
                how = {
                    "registers": "smaller tiles for a thread",
                    "shared memory": "smaller tiles (pl.add_prefetch over shorter loops)",
                    "blocks": "larger blocks (a longer iname tagged 'l.0')",
                }.get(launch.limited_by.partition(" and ")[0], "another block size")
                yield f"{how}: {launch.limited_by} let a multiprocessor hold {launch.occupancy:.0%} of its warps"

    def least_traffic(self) -> Iterator[str]:
        """Yield advice for kernels that are bound by memory, without redundant requests."""
        if self.bound != "DRAM" or self.facts.requested_bytes > 1.3 * self.facts.dram_bytes:
            return
        if not all(access.is_known for access in self.facts.accesses):
            return
        if all(access.sectors <= 4 for access in self.facts.accesses):
            yield "wider loads keep more bytes on their way: pl.split_iname(knl, .., 4, inner_tag=\"vec\")"
        yield (
            "beyond that it moves what has to be moved, once: a smaller type, or fusing it with its neighbours "
            "(pl.fuse_kernels), moves less"
        )

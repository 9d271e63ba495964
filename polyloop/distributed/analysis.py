"""The analysis of a kernel that is divided: phases, their kernels, and plans for sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from polyloop.distributed.deep import Deep, deep_of, widened
from polyloop.distributed.division import Division, bad_distribution, division_of, refuse
from polyloop.distributed.fields import Halo, Storage, fields_of, halos_of
from polyloop.distributed.homes import Homes, homes_of
from polyloop.distributed.local import Local, Names, local_kernel
from polyloop.distributed.packs import Pack, packs_of
from polyloop.distributed.phases import Step, hosts_of, phases_in, phases_of
from polyloop.distributed.separate import as_written, separated
from polyloop.kernel.kernel import LoopKernel
from polyloop.memo import memoised

__all__ = ["Analysis", "analysed"]


@dataclass(frozen=True, eq=False)
class Analysis:
    """Facts about a divided kernel that hold for all sizes.

    Attributes
    ----------
    source
        The kernel that was divided.
    kept
        Temporaries that live from one phase to another: each rank has an array for them.
    packs
        Number of a phase -> the buffers of messages that its kernel fills or empties.
    """

    source: LoopKernel
    division: Division
    homes: Homes
    steps: tuple[Step, ...]
    locals: tuple[Local, ...]
    halos: Mapping[str, Halo]
    kept: frozenset[str]
    names: Names
    deep: Deep | None = None
    packs: Mapping[int, tuple[Pack, ...]] = field(default_factory=dict)


def analysed(
    kernel: LoopKernel, arrays: Mapping[str, str], over: str, hosts: frozenset[str], deep: Mapping[str, int],
    packed: tuple[str, ...] = (), unpacked: tuple[str, ...] = (),
) -> Analysis:  # fmt: skip
    """Return the phases of *kernel*, and a kernel for each: found once for all meshes.

    Raises
    ------
    KernelError
        As :func:`polyloop.distribute`.
    """
    given: object = arrays
    if not isinstance(given, Mapping) or not all(isinstance(text, str) for text in given.values()):
        refuse(kernel, bad_distribution(f"arrays={arrays!r} does not say how arrays are divided",
                                        hint='write {"u": "block, *"}'))
    return _analysed(kernel, tuple(arrays.items()), over, hosts, tuple(deep.items()), packed, unpacked)


@memoised
def _analysed(
    kernel: LoopKernel, arrays: tuple[tuple[str, str], ...], over: str, hosts: frozenset[str],
    deep: tuple[tuple[str, int], ...], packed: tuple[str, ...], unpacked: tuple[str, ...],
) -> Analysis:  # fmt: skip
    program = as_written(kernel)
    division = division_of(program, dict(arrays), over)
    around = hosts
    while True:  # results of reductions are kept for one iteration of the loops that turn out to be the host's
        whole = separated(kernel, division, around)
        homes = homes_of(whole, division)
        steps = phases_of(whole.kernel, homes, hosts)
        if (found := hosts_of(steps)) == around or not whole.combined:
            break
        around = found
    phases = [*phases_in(steps)]
    fields = {phase.number: fields_of(homes, phase) for phase in phases}
    kept = {name for name in homes.kernel.temporaries
            if sum(any(entry.array == name for entry in own) for own in fields.values()) > 1
            or any(entry.array == name and entry.storage is Storage.SHARE for own in fields.values() for entry in own)
            or any(combined.array == name for combined in homes.combined.values())}
    for name in homes.kernel.temporaries:
        if name not in kept and any(
            entry.array == name and entry.storage is Storage.WINDOW for own in fields.values() for entry in own
        ):
            refuse(kernel, bad_distribution(f"'{name}' is read at another coordinate than it is written",
                                            hint="make it an argument, and divide it"))
    deeper = deep_of(homes, steps, dict(deep))
    halos = widened(halos_of(homes, phases), deeper)
    names = Names.of(homes.kernel, division.rank)
    if (packed or unpacked) and deeper is not None:
        word = "pack" if packed else "unpack"
        refuse(kernel, bad_distribution(f"kernels between the exchanges of deep halos {word} nothing",
                                        hint=f"leave out {word}ed= or deep="))
    packs = packs_of(homes, phases, packed, unpacked)
    locals_ = tuple(
        local_kernel(homes, phase, halos, kept, names, f"{kernel.name}_{phase.number}", fields[phase.number], deeper,
                     packs[phase.number])
        for phase in phases)
    return Analysis(kernel, homes.division, homes, steps, locals_, halos, frozenset(kept), names, deeper, packs)

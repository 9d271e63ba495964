"""Local memory of a CUDA kernel: spilled registers, and private arrays with dynamic subscripts.

Private arrays in local memory are declared in PTX (``__local_depot``).  Spilled registers are in the stack frame alone,
which the assembler reports.  Local memory resides in device memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from polyloop.codegen.indexed import IndexedArray
from polyloop.codegen.program import GeneratedProgram
from polyloop.errors import Diagnostic
from polyloop.poly.axes import loops_among
from polyloop.runtime.resources import read_cubin

__all__ = ["local_memory"]

_ENTRY: Final = re.compile(r"^\s*(?:\.visible\s+)?\.entry\s+(\w+)", re.MULTILINE)
_ARRAYS: Final = re.compile(r"__local_depot\d+\[(\d+)\]")


def local_memory(
    program: GeneratedProgram, cubin: bytes, ptx: str
) -> tuple[list[Diagnostic], list[tuple[str, Diagnostic]]]:
    """Return the errors in the local memory of a compiled *program*, and warnings by their subject.

    An array that unrolled loops alone subscript somewhere is meant to be in registers; that it is not is an error,
    unless it is threads by their numbers alone that subscript it elsewhere, which no loop could mend.
    """
    arrays = _array_bytes(ptx)
    images = read_cubin(cubin)
    errors: list[Diagnostic] = []
    warnings: list[tuple[str, Diagnostic]] = []
    for launch in program.launches:
        image, kept = images.get(launch.name), arrays.get(launch.name, 0)
        if image is None or not image.local_bytes:
            continue
        found = [array for array in program.indexed if array.launch == launch.name]
        if kept and found:
            plain = sum(array.nbytes for array in found if not array.unrolled or not _loops(array))
            for array in found:
                if not array.unrolled or not _loops(array):
                    if array.turns is None:  # otherwise generate_code warned of it
                        warnings.append((array.name, _indexed("local-array", array)))
                elif kept > plain:
                    errors.append(_indexed("register-array", array))
        if image.local_bytes > kept:
            warnings.append((launch.name, _spilled(launch.name, image.local_bytes - kept, image.registers)))
    return errors, warnings


def _array_bytes(ptx: str) -> dict[str, int]:
    """Return the bytes of arrays in local memory, by function."""
    starts = [*_ENTRY.finditer(ptx)]
    ends = [match.start() for match in starts[1:]] + [len(ptx)]
    return {match[1]: sum(_sizes(ptx[match.end() : end])) for match, end in zip(starts, ends, strict=True)}


def _sizes(text: str) -> Iterator[int]:
    yield from (int(match[1]) for match in _ARRAYS.finditer(text))


def _indexed(code: str, array: IndexedArray) -> Diagnostic:
    names = ", ".join(repr(name) for name in array.varying)
    by = f"{names} {'is' if len(array.varying) == 1 else 'are'}"
    notes = [f"'{array.instruction}' accesses {array.element}, and {by} known only when the kernel runs"]
    loops = _loops(array)
    hint = f"a thread's number chooses an element of '{array.name}', which no register can be: let the array be shared"
    if loops:
        hint = (
            f"unroll the loops that subscript '{array.name}': pl.tag_inames(knl, \"{loops[0]}:unr\"), split to a "
            "constant length before if need be; or let the array be shared"
        )
    if array.unrolled and loops:
        others = ", ".join(repr(name) for name in array.unrolled)
        notes.append(f"elsewhere it is subscripted by unrolled loops alone ({others}): it is meant to be in registers")
    return Diagnostic(
        code,
        f"the {array.nbytes} bytes of '{array.name}' of each thread are in local memory, not in registers",
        tuple(notes),
        (hint,),
    )


def _loops(array: IndexedArray) -> list[str]:
    """Return the loops that subscript an array, and are not unrolled."""
    return loops_among(array.varying)


def _spilled(name: str, size: int, registers: int) -> Diagnostic:
    return Diagnostic(
        "spilled-registers",
        f"{size} bytes of each thread of '{name}' do not fit into its {registers} registers, and are in local memory",
        ("they are stored and loaded again where they are needed",),
        (
            "let a thread have fewer elements or a block fewer threads, unroll less, or ask for room for fewer blocks: "
            "pl.CudaTarget(min_blocks=..)",
        ),
    )

"""Instances of one statement at given sizes: the inames of the program, the block, the thread and the step of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import islpy as isl

from polyloop.dataflow.address_spaces import place
from polyloop.errors import ArgumentError, Diagnostic, unknown_name
from polyloop.kernel.instruction import Copy
from polyloop.kernel.kernel import LoopKernel
from polyloop.mapping.thread_mapping import Placed
from polyloop.poly.affine import Affine
from polyloop.poly.axes import is_axis, is_block_axis
from polyloop.poly.sets import constant_bounds

__all__ = ["Instance", "fixed_sizes", "instances_of", "main_statement", "program_forms"]

_MOST: Final = 20_000
_DEFAULT: Final = 12
_LARGEST: Final = 48


@dataclass(frozen=True)
class Instance:
    """One instance: values of the program's inames, its block, its thread, and the values of the loops around it."""

    inames: Mapping[str, int]
    block: tuple[int, ...]
    thread: tuple[int, ...]
    step: tuple[int, ...]


def main_statement(kernel: LoopKernel, instruction: str | None, operation: str) -> Placed:
    """Return the statement of *instruction* with the most dimensions; by default of the last instruction."""
    statements = place(kernel).statements
    ids = dict.fromkeys(placed.lowered.instruction.id for placed in statements.values())
    if instruction is not None and instruction not in ids:
        raise ArgumentError(operation, kernel.name, [unknown_name("instruction", instruction, ids)])
    wanted = instruction if instruction is not None else [*ids][-1]
    own = [placed for placed in statements.values() if placed.lowered.instruction.id == wanted]
    return max(own, key=lambda placed: len(placed.lowered.inames))


def program_forms(placed: Placed) -> dict[str, Affine]:
    """Return the inames of the program, or of a statement that is new in it, as forms of the dimensions."""
    forms = {x: placed.forms.get(x) or Affine.variable(x) for x in placed.lowered.inames}
    origin = placed.lowered.instruction.origin
    if not isinstance(origin, Copy):
        return forms
    return {x: form.substitute(forms) for x, form in origin.forms.items() if form.names() <= forms.keys()}


def fixed_sizes(kernel: LoopKernel, placed: Placed, sizes: Mapping[str, int], operation: str) -> dict[str, int]:
    """Return a value for each parameter: as given, or such that there are a few tiles of each tiled loop."""
    unknown = [name for name in sizes if name not in kernel.parameters]
    if unknown:
        raise ArgumentError(operation, kernel.name, [unknown_name("size", unknown[0], kernel.parameters)])
    extents = [_DEFAULT // 2]
    for position in range(len(placed.dims)):
        low, high = constant_bounds(placed.domain, position)
        if low is not None and high is not None:
            extents.append(high - low + 1)
    tile = max(extent for extent in extents if 2 * extent <= _LARGEST)
    default = max(_DEFAULT, 2 * tile + tile // 2)
    return {name: sizes.get(name, default) for name in kernel.parameters}


def instances_of(kernel: LoopKernel, placed: Placed, sizes: Mapping[str, int], operation: str) -> list[Instance]:
    """Return the instances of a statement at *sizes*, in the order in which one thread would run all of them.

    Raises
    ------
    ArgumentError
        ``too-many-instances`` if there are more than 20,000, ``no-instances`` if there are none.
    """
    domain = _fixed(placed.domain, sizes)
    forms = program_forms(placed)
    bounded = domain.is_bounded()
    count = domain.count_val().to_python() if bounded and not domain.is_empty() else 0
    if not count or count > _MOST:
        given = ", ".join(f"{name} = {value}" for name, value in sizes.items()) or "its sizes"
        many = "has no instances" if bounded and not count else f"has more than {_MOST:,} instances"
        code = "no-instances" if bounded and not count else "too-many-instances"
        what = f"'{placed.lowered.instruction.id}' {many} at {given}"
        hints = (f"pass other sizes: sizes={{{', '.join(f'{name!r}: ..' for name in kernel.parameters)}}}",)
        raise ArgumentError(operation, kernel.name, [Diagnostic(code, what, hints=hints)])
    found = []
    blocks = [n for n, name in enumerate(placed.dims) if is_block_axis(name)]
    threads = [n for n, name in enumerate(placed.dims) if is_axis(name) and not is_block_axis(name)]
    loops = [n for n, name in enumerate(placed.dims) if not is_axis(name)]

    def visit(point: isl.Point) -> None:
        at = [point.get_coordinate_val(isl.dim_type.set, n).to_python() for n in range(len(placed.dims))]
        values = {**sizes, **dict(zip(placed.dims, at, strict=True))}
        inames = {name: form.evaluate(values) for name, form in forms.items()}
        found.append(Instance(inames, _part(at, blocks), _part(at, threads), _part(at, loops)))

    domain.foreach_point(visit)
    return sorted(found, key=lambda entry: (entry.block, entry.step, entry.thread))


def _part(values: Sequence[int], positions: Sequence[int]) -> tuple[int, ...]:
    return tuple(values[position] for position in positions)


def _fixed(domain: isl.Set, sizes: Mapping[str, int]) -> isl.Set:
    for position in range(domain.dim(isl.dim_type.param)):
        name = domain.get_dim_name(isl.dim_type.param, position) or ""
        if name in sizes:
            domain = domain.fix_val(isl.dim_type.param, position, sizes[name])
    return domain

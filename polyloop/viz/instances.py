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
from polyloop.poly.sets import Row, add_rows, constant_bounds

__all__ = ["Instance", "at_sizes", "fixed_sizes", "instances_of", "known_sizes", "main_statement", "program_forms"]

_MOST: Final = 10_000
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


def known_sizes(kernel: LoopKernel, sizes: Mapping[str, int], operation: str, default: int = 1024) -> dict[str, int]:
    """Return a value for each parameter: as given, or the default; refuse names that are no parameters."""
    unknown = [name for name in sizes if name not in kernel.parameters]
    if unknown:
        raise ArgumentError(operation, kernel.name, [unknown_name("size", unknown[0], kernel.parameters)])
    return {**dict.fromkeys(kernel.parameters, default), **sizes}


def fixed_sizes(
    kernel: LoopKernel, placed: Placed, sizes: Mapping[str, int], operation: str, share: int = 1
) -> dict[str, int]:
    """Return a value for each parameter: as given, or such that there are a few tiles of each tiled loop.

    The values that are not given are divided by *share*.
    """
    known_sizes(kernel, sizes, operation)
    extents = [_DEFAULT // 2]
    for position in range(len(placed.dims)):
        low, high = constant_bounds(placed.domain, position)
        if low is not None and high is not None:
            extents.append(high - low + 1)
    tile = max(extent for extent in extents if 2 * extent <= _LARGEST)
    default = max(2, max(_DEFAULT, 2 * tile + tile // 2) // share)
    given = {name: sizes.get(name, default) for name in kernel.parameters}
    return _allowed(kernel, given, sizes) or given


def _allowed(kernel: LoopKernel, wished: Mapping[str, int], sizes: Mapping[str, int]) -> dict[str, int] | None:
    """Return the wished sizes, or the least greater ones that the assumptions allow; None where there are none."""
    allowed = at_sizes(kernel.assumptions, sizes)
    if not at_sizes(allowed, wished).is_empty():
        return None
    names = [name for name in wished if name not in sizes]
    allowed = isl.Set.from_params(allowed) if allowed.is_params() else allowed
    space = allowed.move_dims(isl.dim_type.set, 0, isl.dim_type.param, 0, allowed.dim(isl.dim_type.param))
    known = [space.get_dim_name(isl.dim_type.set, n) or "" for n in range(space.dim(isl.dim_type.set))]
    rows = [Row(Affine(((name, 1),), -wished[name])) for name in names if name in known]
    found = add_rows(space, known, rows).lexmin()
    if found.is_empty():
        return None
    return {**wished, **_values(found.sample_point(), known), **sizes}


def instances_of(
    kernel: LoopKernel,
    placed: Placed,
    sizes: Mapping[str, int],
    section: tuple[frozenset[str], Mapping[str, int]],
    operation: str,
) -> tuple[list[Instance], dict[str, int]]:
    """Return the instances of a section of a statement at *sizes*, in the order of one thread; and the section.

    Parameters
    ----------
    section
        The inames that are free in it, and values of some others; the rest has the values of the first instance.

    Raises
    ------
    ArgumentError
        ``too-many-instances`` if there are more than 10,000, ``no-instances`` if there are none, ``nothing-to-draw``
        if there is no end to them.
    """
    free, given = section
    forms = program_forms(placed)
    domain = _cut(at_sizes(placed.domain, sizes), placed.dims, forms, given)
    if domain.is_empty():
        raise ArgumentError(operation, kernel.name, [_nothing(kernel, placed, sizes, given)])
    if not domain.is_bounded():
        what = f"data bounds a loop around '{placed.lowered.instruction.id}': its instances cannot be listed"
        hints = ("draw another instruction: draw_domain(knl, instruction=..)",)
        raise ArgumentError(operation, kernel.name, [Diagnostic("nothing-to-draw", what, hints=hints)])
    first = {**sizes, **_values(domain.lexmin().sample_point(), placed.dims)}
    fixed = {name: form.evaluate(first) for name, form in forms.items() if name not in free}
    domain = _cut(domain, placed.dims, forms, fixed)
    if domain.count_val().to_python() > _MOST:
        raise ArgumentError(operation, kernel.name, [_too_many(kernel, placed, sizes)])
    found = []
    blocks = [name for name in placed.dims if is_block_axis(name)]
    threads = [name for name in placed.dims if is_axis(name) and not is_block_axis(name)]
    loops = [name for name in placed.dims if not is_axis(name)]

    def visit(point: isl.Point) -> None:
        values = {**sizes, **_values(point, placed.dims)}
        inames = {name: form.evaluate(values) for name, form in forms.items()}
        found.append(Instance(inames, _part(values, blocks), _part(values, threads), _part(values, loops)))

    domain.foreach_point(visit)
    return sorted(found, key=lambda entry: (entry.block, entry.step, entry.thread)), fixed


def _hints(kernel: LoopKernel) -> tuple[str, ...]:
    listed = ", ".join(f'"{name}": ..' for name in kernel.parameters)
    return (f"pass other sizes: sizes={{{listed}}}",) if listed else ()


def _given(values: Mapping[str, int]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in values.items()) or "its sizes"


def _nothing(
    kernel: LoopKernel, placed: Placed, sizes: Mapping[str, int], given: Mapping[str, int]
) -> Diagnostic:
    what = f"'{placed.lowered.instruction.id}' has no instances at {_given({**sizes, **given})}"
    return Diagnostic("no-instances", what, hints=_hints(kernel))


def _too_many(kernel: LoopKernel, placed: Placed, sizes: Mapping[str, int]) -> Diagnostic:
    what = f"'{placed.lowered.instruction.id}' has more than {_MOST:,} instances at {_given(sizes)}"
    return Diagnostic("too-many-instances", what, hints=_hints(kernel))


def _cut(
    domain: isl.Set, dims: Sequence[str], forms: Mapping[str, Affine], values: Mapping[str, int]
) -> isl.Set:
    """Return the part of *domain* where inames have *values*."""
    return add_rows(domain, dims, [Row(forms[name].add(Affine((), -value)), True) for name, value in values.items()])


def _values(point: isl.Point, dims: Sequence[str]) -> dict[str, int]:
    return {name: point.get_coordinate_val(isl.dim_type.set, n).to_python() for n, name in enumerate(dims)}


def _part(values: Mapping[str, int], names: Sequence[str]) -> tuple[int, ...]:
    return tuple(values[name] for name in names)


def at_sizes(domain: isl.Set, sizes: Mapping[str, int]) -> isl.Set:
    """Return *domain* with parameters of these values."""
    for position in range(domain.dim(isl.dim_type.param)):
        name = domain.get_dim_name(isl.dim_type.param, position) or ""
        if name in sizes:
            domain = domain.fix_val(isl.dim_type.param, position, sizes[name])
    return domain

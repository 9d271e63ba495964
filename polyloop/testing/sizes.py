"""Choice of sizes for a comparison of two kernels: given ones, or the edges of their tiles."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import product
from operator import index
from typing import Final

import islpy as isl
import numpy as np

from polyloop.edge.words import spelt
from polyloop.errors import ArgumentError, Diagnostic, unknown_name
from polyloop.kernel.arrays import ArrayArg
from polyloop.kernel.domains import fixed_set
from polyloop.kernel.kernel import LoopKernel
from polyloop.runtime.evaluate import affine_in, names_in

__all__ = ["check_sizes", "choose_sizes", "default_sizes", "size_names"]

_PARAM = isl.dim_type.param
_MOST: Final = 8
_LARGEST: Final = 65
_MIXED: Final = 3
_UNTILED: Final = (2, 7)


def size_names(kernels: Sequence[LoopKernel]) -> tuple[str, ...]:
    """Return the integers that the kernels need to know before anything runs."""
    found: dict[str, None] = {}
    for kernel in kernels:
        open_layouts = {name for name, value in kernel.values().items() if value.layout_of is not None}
        found.update(dict.fromkeys(kernel.parameters))
        for array in kernel.arguments:
            if isinstance(array, ArrayArg):
                for extent in (*(array.shape or ()), *(array.strides or ())):
                    found.update(dict.fromkeys(sorted(names_in(extent) - open_layouts)))
    return tuple(found)


def _fixed(kernels: Sequence[LoopKernel]) -> dict[str, int]:
    """Return the sizes that one of the kernels was specialized for."""
    return {name: value for kernel in kernels for name, value in kernel.fixed.items()}


def _solved(kernels: Sequence[LoopKernel], inputs: Mapping[str, object]) -> dict[str, int]:
    """Return the sizes in *inputs*, given or inferred from shapes of arrays."""
    names = size_names(kernels)
    given = {name: value for name, value in inputs.items() if name in names and isinstance(value, int | np.integer)}
    found = {name: index(value) for name, value in given.items()}
    equations = [
        (extent, int(length))
        for kernel in kernels
        for array in kernel.arguments
        if isinstance(array, ArrayArg) and len(shape := getattr(inputs.get(array.name), "shape", ())) == _rank(array)
        for extent, length in zip(array.shape or (), shape, strict=True)
    ]
    for _ in names:
        for extent, length in equations:
            form = affine_in(extent, found)
            if form is not None and len(form[0]) == 1:
                ((name, coefficient),) = form[0].items()
                found[name] = (length - form[1]) // coefficient
    return found


def _rank(array: ArrayArg) -> int:
    return len(array.shape or ())


def _allows(domain: isl.Set, sizes: Mapping[str, int]) -> bool:
    return not fixed_set(domain, sizes).is_empty()


def _violated(kernels: Sequence[LoopKernel], sizes: Mapping[str, int]) -> str | None:
    """Return the assumption of a kernel that *sizes* violate, as text."""
    for kernel in kernels:
        for domain in (kernel.assumptions, *(condition.set for condition in kernel.conditions)):
            if not _allows(domain, sizes):
                return f"'{kernel.name}' assumes {domain}"
    return None


def _refused(kernel: LoopKernel, code: str, message: str, notes: Iterable[str], hint: str) -> ArgumentError:
    return ArgumentError("check_equivalence", kernel.name, [Diagnostic(code, message, tuple(notes), (hint,))])


def choose_sizes(
    kernels: Sequence[LoopKernel], given: object, inputs: Mapping[str, object], seed: int
) -> list[dict[str, int]]:
    """Return the sizes to run, each with a value for every name.

    Parameters
    ----------
    given
        What the user said, None for the edges.
    inputs
        Arrays whose shapes say sizes that are not given, and numbers.

    Raises
    ------
    ArgumentError
        ``bad-sizes``, ``unknown-parameter``, ``assumption-violated``.
    """
    fixed = {**_solved(kernels, inputs), **_fixed(kernels)}
    if given is None:
        return default_sizes(kernels, fixed, seed)
    entries = [given] if isinstance(given, Mapping) else given
    if not isinstance(entries, Iterable) or isinstance(entries, str):
        message = f"sizes cannot be {spelt(given)}"
        raise _refused(kernels[-1], "bad-sizes", message, (), 'pass {"n": 17} or {"n": range(20)}')
    found: list[dict[str, int]] = []
    for entry in entries:
        for sizes in _spelled(kernels, entry):
            complete = {**fixed, **sizes}
            check_sizes(kernels, complete)
            if complete not in found:
                found.append(complete)
    if not found:
        raise _refused(kernels[-1], "bad-sizes", "there are no sizes to try", (), "leave out sizes=, or name some")
    return found


def _spelled(kernels: Sequence[LoopKernel], entry: object) -> Iterator[dict[str, int]]:
    if not isinstance(entry, Mapping):
        message = f"sizes cannot be {spelt(entry)}"
        raise _refused(kernels[-1], "bad-sizes", message, (), 'pass a mapping such as {"n": 17}')
    names = (*size_names(kernels), *_fixed(kernels))
    choices = []
    for name, value in entry.items():
        if name not in names:
            raise ArgumentError("check_equivalence", kernels[-1].name, [unknown_name("parameter", str(name), names)])
        values = [value] if isinstance(value, int | np.integer) else list(value) if _is_list(value) else [None]
        if any(not isinstance(n, int | np.integer) or isinstance(n, bool) for n in values):
            hint = "pass an integer, a range or a list of integers"
            raise _refused(kernels[-1], "bad-sizes", f"'{name}' cannot be {spelt(value)}", (), hint)
        choices.append([(name, index(n)) for n in values if n is not None])
    for combination in product(*choices):
        yield dict(combination)


def _is_list(value: object) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str | Mapping)


def check_sizes(kernels: Sequence[LoopKernel], sizes: Mapping[str, int]) -> None:
    """Check that *sizes* are complete and satisfy the assumptions of the kernels.

    Raises
    ------
    ArgumentError
        ``bad-sizes``, ``assumption-violated``.
    """
    shown = ", ".join(f"{name} = {value}" for name, value in sizes.items())
    missing = [name for name in size_names(kernels) if name not in sizes]
    if missing:
        hint = f"pass sizes with {', '.join(missing)} too"
        raise _refused(kernels[-1], "bad-sizes", f"the size '{missing[0]}' is not given", (shown,), hint)
    for name, value in _fixed(kernels).items():
        if sizes[name] != value:
            note = f"it was specialized for {name} = {value}"
            raise _refused(kernels[-1], "assumption-violated", f"{name} = {sizes[name]} is another size", (note,),
                           f"leave out '{name}'")
    violated = _violated(kernels, sizes)
    if violated is not None:
        raise _refused(kernels[-1], "assumption-violated", f"the kernels are not made for {shown}", (violated,),
                       "pass sizes that both kernels allow")


# {{{ default sizes


def _tiles(kernels: Sequence[LoopKernel]) -> list[int]:
    """Return the lengths of the tiles that the kernels were split into."""
    found: set[int] = set()
    for kernel in kernels:
        for step in kernel.trace:
            arguments = step.data().get("arguments", {})
            length = arguments.get("inner_length") if isinstance(arguments, Mapping) else None
            if isinstance(length, int) and length > 1:
                found.add(length)
    return sorted(found)


def default_sizes(kernels: Sequence[LoopKernel], fixed: Mapping[str, int], seed: int) -> list[dict[str, int]]:
    """Return sizes at the edges: 0, 1, and around the tiles, all alike and mixed, as far as the kernels allow them.

    Those in *fixed* are as they are.

    Raises
    ------
    ArgumentError
        ``bad-sizes``: none of those is allowed.
    """
    names = [name for name in size_names(kernels) if name not in fixed]
    tiles = _tiles(kernels)
    edges = {0, 1, *(() if tiles else _UNTILED)}
    edges.update(n for tile in tiles for n in (tile - 1, tile, tile + 1, 2 * tile, 2 * tile + 1))
    values = sorted(n for n in edges if n <= max(_LARGEST, *(tile + 1 for tile in tiles), 0))
    rng = random.Random(seed)
    if len(values) > _MOST:
        values = [0, 1, *sorted(rng.sample(values[2:], _MOST - 2))]
    candidates = [dict.fromkeys(names, n) for n in values]
    if len(names) > 1:
        candidates += [{name: rng.choice(values) for name in names} for _ in range(_MIXED)]
    found = [sizes for n in candidates if _violated(kernels, sizes := {**fixed, **n}) is None]
    found = [sizes for at, sizes in enumerate(found) if sizes not in found[:at]]
    return found or [_any_sizes(kernels, names, fixed)]


def _any_sizes(kernels: Sequence[LoopKernel], names: Sequence[str], fixed: Mapping[str, int]) -> dict[str, int]:
    """Return some sizes that every kernel allows."""
    domains = [d for kernel in kernels for d in (kernel.assumptions, *(entry.set for entry in kernel.conditions))]
    sets = (domain if domain.is_params() else domain.params() for domain in domains)
    whole = fixed_set(reduce(lambda a, b: a.intersect(b), sets), fixed)
    if whole.is_empty():
        message = "no sizes fulfil what both kernels assume"
        raise _refused(kernels[-1], "bad-sizes", message, (), "check their assumptions")
    sample = whole.sample_point()
    values = {
        whole.get_dim_name(_PARAM, k): int(sample.get_coordinate_val(_PARAM, k).to_python())
        for k in range(whole.dim(_PARAM))
    }
    return {**fixed, **{name: values.get(name, 1) for name in names}}


# }}}

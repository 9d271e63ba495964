"""Spelling of a schedule: forms of loops, types and names of index variables."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
from math import prod

import numpy as np

from polyloop.kernel.instruction import Copy
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.tags import InameTag, Interleave, Unroll, UnrollHint, Vectorize
from polyloop.kernel.tree import Tree
from polyloop.mapping.mixed_radix import Digit, digits_among
from polyloop.mapping.thread_mapping import Placed, Placement
from polyloop.poly.affine import Affine
from polyloop.poly.axes import is_thread_axis
from polyloop.program.infer_types import dtype_table
from polyloop.schedule.fronts import fronts_of
from polyloop.schedule.plan import IndexVariables, LoopForms
from polyloop.schedule.synchronization import Synchronization

__all__ = ["index_variables", "loop_forms"]


def loop_forms(sync: Synchronization, tree: Tree) -> LoopForms:
    """Return the forms of the loops of *tree*; with collectives in shared memory, no prologue runs without barriers."""
    kernel = sync.placement.program.kernel
    fronts = {} if sync.users else fronts_of(sync.placement, sync.needs, tree, kernel.slabs)
    side_by_side = {iname for iname, tag in kernel.iname_tags.items() if isinstance(tag, Interleave) and tag.unrolled}
    tags = dict(_loop_tags(kernel))
    return LoopForms(tags, kernel.tile_inames, dict(kernel.slabs), fronts, frozenset(side_by_side))


def _loop_tags(kernel: LoopKernel) -> Iterator[tuple[str, InameTag]]:
    """Yield the tags of loops that are not printed as plain loops; loops over ``ilp`` lanes are unrolled."""
    for iname, tag in kernel.iname_tags.items():
        if isinstance(tag, Interleave) and tag.unrolled:
            yield iname, Unroll()
        elif isinstance(tag, Unroll | UnrollHint | Vectorize):
            yield iname, tag


def index_variables(placement: Placement) -> IndexVariables:
    """Return the types and names of dimensions as variables of the generated code."""
    kernel = placement.program.kernel
    return IndexVariables(
        kernel.index_dtype, _long_dimensions(kernel), _digit_names(placement), tuple(_named_indices(placement))
    )


def _digit_names(placement: Placement) -> dict[str, str]:
    """Return the names of digits of the thread number: the iname, if only one has the digit, else its formula."""
    found: dict[str, set[str]] = {}
    digits: dict[str, Digit] = {}
    for placed in placement.statements.values():
        if placed.digits is not None:
            digits.update(digits_among(placed.digits.dims))
            for iname, form in placed.digits.forms.items():
                for name in form.names():
                    found.setdefault(name, set()).add(iname)
    threads = prod(size for size in placement.axes.extents.values() if size is not None)
    names = {axis: digit.title(threads) for axis, digit in digits.items()}
    return names | {axis: min(inames) for axis, inames in found.items() if len(inames) == 1}


def _named_indices(placement: Placement) -> Iterator[tuple[str, Affine]]:
    """Yield the inames of the reference program that are now sums of several inames, with their forms."""
    found: dict[Affine, str] = {}
    for placed in placement.statements.values():
        origin = placed.lowered.instruction.origin
        if isinstance(origin, Copy):
            places = placed.forms if placed.digits is None else placed.digits.forms
            for iname, form in origin.forms.items():
                placed_form = form.substitute(places)
                if len(placed_form.terms) > 1:
                    found.setdefault(placed_form, iname)
    for placed in placement.statements.values():
        places = placed.forms if placed.digits is None else placed.digits.forms
        for form in _sums_in_subscripts(placed):
            placed_form = form.substitute(places)
            if any(is_thread_axis(name) for name in placed_form.names()):
                found.setdefault(placed_form, _name_of_sum(form))
    yield from ((iname, form) for form, iname in found.items())


def _sums_in_subscripts(placed: Placed) -> Iterator[Affine]:
    """Yield the sums of inames in subscripts that are tiles by hand: ``256*lo + l`` of the reference program."""
    origin = placed.lowered.instruction.origin
    if not isinstance(origin, Copy):
        return
    inames = {iname for iname, form in origin.forms.items() if form == Affine.variable(iname)}
    for access in placed.lowered.accesses:
        for index in access.indices:
            terms = () if index is None else tuple([term for term in index.terms if term[0] in inames])
            factors = [factor for _, factor in terms]
            if len(terms) > 1 and min(factors) == 1 and max(factors) > 1:
                yield Affine(terms, 0)


def _name_of_sum(form: Affine) -> str:
    """Return the name of a sum of inames: what their names begin with, ``l`` for ``l_outer`` and ``l_inner``."""
    same = takewhile(lambda letters: len(set(letters)) == 1, zip(*form.names(), strict=False))
    return "".join(letters[0] for letters in same).rstrip("_") or "position"


def _long_dimensions(kernel: LoopKernel) -> frozenset[str]:
    """Return the dimensions that are int64 when used as values."""
    types = dtype_table(kernel)
    return frozenset(kernel.axis(iname) or iname for iname in kernel.inames if types[iname] == np.int64)

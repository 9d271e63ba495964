"""Checks after a change of a loop nest: the map is a bijection, and the new order preserves every value."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

import islpy as isl

from polyloop.errors import Diagnostic
from polyloop.kernel.domains import data_inames
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.tags import Sequential, axis_name, is_lane
from polyloop.poly.maps import forms_of
from polyloop.poly.sets import project_onto, sample_set, set_text
from polyloop.transform.loops.maptext import InameMap
from polyloop.transform.loops.remap import Remap, nest_groups
from polyloop.transform.loops.tag import parallel_violations
from polyloop.verification.order import order_violations
from polyloop.verification.values import value_violations

__all__ = ["data_violations", "explained", "nest_violations", "one_to_one", "tagged_violations"]

def nest_violations(kernel: LoopKernel) -> Iterator[Diagnostic]:
    """Yield a diagnostic if *kernel*, after a change of its loops, violates an order, a value or a race condition."""
    found = tuple(order_violations(kernel))
    if not found and (kernel.evaluations or kernel.buffers or any(i.terms for i in kernel.instructions)):
        found = tuple(value_violations(kernel))
    if not found:
        apart = [(x, str(tag)) for x, tag in kernel.iname_tags.items() if axis_name(tag) is not None or is_lane(tag)]
        found = tuple(parallel_violations(kernel, apart))
    yield from found


def explained(finding: Diagnostic, what: str, hints: tuple[str, ...]) -> Diagnostic:
    """Return *finding*, found in a changed nest, under the heading *what* and with other hints."""
    if finding.code == "not-proven":
        return finding
    return replace(finding, message=f"{what}: {finding.message}", hints=hints)


def tagged_violations(kernel: LoopKernel, inames: Collection[str], verb: str) -> Iterator[Diagnostic]:
    """Yield ``iname-tagged`` for each of *inames* with a tag."""
    for iname in inames:
        tag = kernel.tag(iname)
        if not isinstance(tag, Sequential):
            yield Diagnostic(
                "iname-tagged",
                f"iname '{iname}' is tagged '{tag}' and cannot be {verb} any more",
                hints=(f"do this first, then tag the new inames; or take the tag off: untag_inames(knl, '{iname}')",),
            )


def data_violations(kernel: LoopKernel, inames: Collection[str]) -> Iterator[Diagnostic]:
    """Yield ``data-decides`` if the bounds of one of *inames* depend on data."""
    data = data_inames(kernel)
    for iname in inames:
        if iname in data:
            yield Diagnostic(
                "data-decides",
                f"data decides how far iname '{iname}' runs",
                ("the kernel computes its bounds, so whether the map is one to one on it is not known",),
                ("map other inames, or split or rename this one",),
            )
            return


def one_to_one(kernel: LoopKernel, given: InameMap) -> Remap | Diagnostic:
    """Return the affine functions of a map and its inverse, or the reason why there are none."""
    within = _instances(kernel, given.old)
    relation = given.relation
    if within is not None and (problem := _not_one_to_one(given, within)):
        return problem
    there = forms_of(relation, given.old)
    back = forms_of(relation.reverse(), given.new)
    if within is not None:
        there = there or forms_of(relation.intersect_domain(within), given.old)
        back = back or forms_of(relation.intersect_domain(within).reverse(), given.new)
    if there is None or back is None:
        which, names = ("new", given.new) if there is None else ("old", given.old)
        return Diagnostic(
            "map-not-affine",
            f"the {which} inames {', '.join(names)} are not each one affine form of the others",
            (f"the map is {set_text(relation)}",),
            ("use a map without cases; floor(i/16) and i mod 16 are affine forms",),
        )
    return Remap(given.old, given.new, relation, there, back)


def _instances(kernel: LoopKernel, inames: Sequence[str]) -> isl.Set | None:
    """Return the values that *inames* have together in some loop nest; None if they never have."""
    found: isl.Set | None = None
    for instruction in kernel.instructions:
        for dims, _, domain in nest_groups(instruction):
            if set(inames) <= set(dims):
                part = project_onto(domain, dims, inames).intersect_params(kernel.assumptions)
                found = part if found is None else found.union(part)
    return found


def _not_one_to_one(given: InameMap, within: isl.Set) -> Diagnostic | None:
    """Return a diagnostic, with two instances, if *given* loses, repeats or merges instances."""
    lost = within.subtract(given.relation.domain())
    if not lost.is_empty():
        note = f"instance {_point(lost, given.old)} becomes nothing"
        return _diagnostic("the map leaves out instances", note)
    relation = given.relation.intersect_domain(within)
    new = [f"{name} (new)" if name in given.old else name for name in given.new]
    if found := _two(relation.reverse().apply_range(relation)):
        one, two = found
        both = relation.intersect_range(one).domain().intersect(relation.intersect_range(two).domain())
        note = f"instance {_point(both, given.old)} would become both {_point(one, new)} and {_point(two, new)}"
        return _diagnostic("the map makes two instances of one", note)
    if found := _two(relation.apply_range(relation.reverse())):
        one, two = found
        image = _point(relation.intersect_domain(one).range(), new)
        note = f"instances {_point(one, given.old)} and {_point(two, given.old)} would both become {image}"
        return _diagnostic("the map makes one instance of two", note)
    return None


def _diagnostic(message: str, note: str) -> Diagnostic:
    hint = "every instance has to become exactly one new one, and no two the same"
    return Diagnostic("map-not-bijective", message, (note,), (hint,))


def _two(pairs: isl.Map) -> tuple[isl.Set, isl.Set] | None:
    """Return two different points that *pairs* relates, for the same parameters; None if there are none."""
    point = pairs.subtract(isl.Map.identity(pairs.get_space())).sample()
    return None if point.is_empty() else (point.domain().to_set(), point.range().to_set())


def _point(points: isl.Set, names: Sequence[str]) -> str:
    """Return one of *points* as text."""
    values = sample_set(points, names)
    assert values is not None, "a witness was asked of an empty set"
    return f"({', '.join(f'{name}={values[name]}' for name in names)})"

"""``write_once``: streaming stores, which caches need not keep."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import islpy as isl

from polyloop.errors import Diagnostic, unknown_name
from polyloop.expr.nodes import array_name, targets_of
from polyloop.kernel.arrays import ArrayArg
from polyloop.kernel.instruction import Instruction
from polyloop.kernel.kernel import LoopKernel
from polyloop.poly.affine import affine_of
from polyloop.poly.sets import map_from_forms
from polyloop.transform.base import Transform
from polyloop.transform.parameters import ArrayNames

__all__ = ["WriteOnce"]


@dataclass(frozen=True)
class WriteOnce(Transform):
    """Mark arguments as written once and not read (streaming stores), so that caches need not keep their elements.

    >>> knl = pl.make_kernel("{[i]: 0 <= i < 64}", "b[i] = 2*a[i]").tag_inames("i:l.0")
    >>> print(body(knl.write_once("b"), "cuda"))
    const int tx = threadIdx.x;
    __stcs(&b[tx], 2.0f * a[tx]);

    On a processor a store without this loads the line first that it changes, which is a third of the traffic of
    ``a = b + 3*c``.

    Parameters
    ----------
    ary_names
        Arrays that the kernel writes and does not read, each element once: ``"a, b"`` or a sequence.

    Raises
    ------
    TransformError
        ``unknown-array``, ``bad-write-once``.

    Notes
    -----
    Only the speed changes: up where the array is greater than the caches, down where what follows reads it from them.
    ``pl.CTarget(openmp=True)`` stores whole vectors past the caches, of 16, 32 or 64 bytes: loops over lanes (``vec``)
    that set neighbouring elements.  CUDA C does so with numbers of 32 and 64 bits, and vectors of them.  Where nothing
    is stored so, a warning says it (``plain-stores``).  Source: ``__stcs``, CUDA C++ Programming Guide, "Store
    Functions Using Cache Hints"; Intel 64 and IA-32 Architectures Optimization Reference Manual, "Non-temporal Store
    Instructions".
    """

    ary_names: ArrayNames

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        arrays = {argument.name: argument for argument in kernel.arguments if isinstance(argument, ArrayArg)}
        for name in self.ary_names:
            if name in kernel.temporaries:
                message = f"'{name}' is a temporary: only arguments can be written once"
                yield Diagnostic("bad-write-once", message, hints=("name an argument",))
            elif name not in arrays:
                yield unknown_name("array", name, arrays)
            elif found := _problem(kernel, name):
                yield Diagnostic("bad-write-once", *found)

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        arguments = (
            replace(argument, is_used_once=True)
            if isinstance(argument, ArrayArg) and argument.name in self.ary_names
            else argument
            for argument in kernel.arguments
        )
        return replace(kernel, arguments=tuple(arguments))


def _problem(kernel: LoopKernel, name: str) -> tuple[str, tuple[str, ...], tuple[str, ...]] | None:
    """Return the use of elements after they are written, as message, notes and hints; None if there is none."""
    writers = [i for i in kernel.instructions if name in map(array_name, targets_of(i.assignee))]
    hints = ("name an array that is only written, each element once",)
    if not writers:
        return f"'{name}' is not written by the kernel", (), hints
    readers = [i.id for i in kernel.instructions if name in i.reads]
    if readers:
        return f"'{name}' is read by '{readers[0]}', so that its elements are used again", (), hints
    relations = [_relation(kernel, writer, name) for writer in writers]
    for writer, relation in zip(writers, relations, strict=True):
        if relation is None:
            return f"data decides which element of '{name}' '{writer.id}' writes", (), hints
        if not relation.is_injective():
            return f"'{writer.id}' writes elements of '{name}' several times", (_sample(relation, relation),), hints
    return next(_twice(name, writers, [r for r in relations if r is not None], hints), None)


def _twice(
    name: str, writers: Sequence[Instruction], relations: Sequence[isl.Map], hints: tuple[str, ...]
) -> Iterator[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    """Yield the pairs of instructions that write one element, unless conditions on data choose between them."""
    for (first, one), (second, other) in combinations(zip(writers, relations, strict=True), 2):
        if not (first.predicates and second.predicates) and not one.range().is_disjoint(other.range()):
            yield f"'{first.id}' and '{second.id}' write the same elements of '{name}'", (_sample(one, other),), hints


def _relation(kernel: LoopKernel, writer: Instruction, name: str) -> isl.Map | None:
    """Return the instances of *writer* with the elements that they write, None if data decides about these."""
    (target,) = (target for target in targets_of(writer.assignee) if array_name(target) == name)
    forms = [affine_of(index) for index in getattr(target, "index_tuple", ())]
    known = {*writer.inames, *kernel.parameters}
    affine = [form for form in forms if form is not None and form.names() <= known]
    if len(affine) < len(forms):
        return None
    return map_from_forms(writer.domain.intersect_params(kernel.assumptions), writer.inames, affine)


def _sample(one: isl.Map, other: isl.Map) -> str:
    """Return two instances that write one element."""
    both = one.apply_range(other.reverse())
    apart = both.subtract(isl.Map.identity(both.get_space())) if one is other else both
    return f"for example {apart.sample()}"

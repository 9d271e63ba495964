"""``add_prefetch``: elements of an array, copied to a temporary ahead of their uses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, TypeAlias

from polyloop.errors import Diagnostic, KernelError, unknown_name
from polyloop.expr.names import tagged_name
from polyloop.expr.parser import parse_expression
from polyloop.expr.source import Source, split_outside_brackets
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.tags import is_thread
from polyloop.poly.affine import Affine, affine_of
from polyloop.transform.base import new_name_violations
from polyloop.transform.declare import Takes
from polyloop.transform.loops.split import with_parts
from polyloop.transform.parameters import (
    ArrayName,
    DimTags,
    Iname,
    Inames,
    InsnMatch,
    NewName,
    NewNames,
    Space,
    TagText,
)
from polyloop.transform.staging.plan import Filling, Place, Plan, Temporary, fresh_id, whole_axes
from polyloop.transform.staging.staged import Staging
from polyloop.transform.staging.uses import Use, find_uses

__all__ = ["AddPrefetch", "subscript_forms"]


def _subscripts(given: str | Sequence[str | Sequence[str]]) -> tuple[str, ...]:
    entries = [given] if isinstance(given, str) else given
    return tuple(entry if isinstance(entry, str) else ", ".join(map(str, entry)) for entry in entries)


_Subscripts: TypeAlias = Annotated[tuple[str, ...], Takes(str | Sequence[str | Sequence[str]], _subscripts)]


@dataclass(frozen=True)
class AddPrefetch(Staging):
    """Copy the elements of an array that some loops read into a temporary, ahead of the reads.

    ::

        for io: for ii: out[16*io + ii] = a[16*io + ii] + a[16*io + ii + 1]
        ->                                                     (sweeping ii)
        for io:
            for a_dim_0 in [0, 17): a_fetch[a_dim_0] = a[16*io + a_dim_0]
            for ii: out[16*io + ii] = a_fetch[ii] + a_fetch[ii + 1]

    >>> knl = pl.make_kernel(
    ...     "{[io, ii]: 0 <= io < 4 and 0 <= ii < 16}", "out[16*io + ii] = a[16*io + ii] + a[16*io + ii + 1]"
    ... )
    >>> print(body(knl.add_prefetch("a", "ii")))
    float a_fetch[17];
    for (int io = 0; io < 4; ++io) {
        for (int a_dim_0 = 0; a_dim_0 < 17; ++a_dim_0)
            a_fetch[a_dim_0] = a[16 * io + a_dim_0];
        for (int ii = 0; ii < 16; ++ii)
            out[16 * io + ii] = a_fetch[ii] + a_fetch[ii + 1];
    }

    Parameters
    ----------
    var_name
        The array; every read of it inside the swept loops is redirected.  ``"a[:, i]"`` names it with the subscripts of
        the elements to fetch, as *footprint_subscripts* does.  ``"a$left"`` means the reads with this tag in the text,
        or another rule.
    sweep_inames
        Inames over which the elements are stored at once; for whole axes by default those of the subscripts along them.
    dim_arg_names
        Names for the new inames, one for each axis of the temporary; by default ``{var_name}_dim_0``, ...
    default_tag
        Tag of the new inames; ``"l.auto"`` spreads the copy over the threads of the block.
    rule_name
        Accepted for compatibility with Loopy, which names an intermediate substitution rule; the name has to be free.
    temporary_name, temporary_address_space, prefetch_insn_id
        Name of the temporary (``{var_name}_fetch``); its address space (``"auto"``: shared if a thread reads elements
        that another one fetched, otherwise private); id of the copy instruction. The name of an existing temporary in
        shared memory reuses its storage, which is proven to be free.
    footprint_subscripts
        Subscripts such as ``"i_inner, k_inner"`` that define the elements to fetch; reads of these elements are
        redirected, ``:`` is a whole axis, and an iname that was split means its parts. By default the reads define the
        footprint.
    fetch_bounding_box
        True: fetch the smallest box around the elements read; False: fetch only the elements read. By default the box,
        if all of it exists.
    fetch_outer_inames
        Loops around the copy. By default all inames around the reads that are not swept; thread inames only if the
        elements depend on them. The trace records the choice.  Of given ones those that are swept do not count, and for
        a shared temporary neither do thread inames that the elements do not depend on: a block fetches once.  Then
        instructions that read elements by other inames, in loops of their own, keep their reads.
    within
        Instructions whose reads are redirected, as a match expression; by default all.
    storage_axes
        Swept inames that become the axes of the temporary: ``t[i_hi, i_lo]`` holds ``a[64*i_hi + 4*ty + i_lo]``.  By
        default it has the axes of the array.
    dim_tags, pad
        Layout of the temporary (``"N0,N1"`` transposes a tile), and padding of each row [elements], which avoids bank
        conflicts of columns.
    vec
        Number of adjacent elements to copy at once, as vectors if that is proven possible.
    compute_at
        The innermost loop around the copy, or ``"root"`` for none; it determines the sweep and the outer inames.

    Raises
    ------
    TransformError
        ``unknown-array``, ``unknown-iname``, ``not-affine``, ``not-used``, ``sweep-unused``, ``outer-missing``,
        ``footprint-not-constant``, ``name-taken``, ``uses-differ``, ``bad-layout``, ``bad-lanes``, ``bad-value``,
        ``bad-tag``, ``bad-address-space``, ``wrong-rank``, ``unknown-instruction``, ``storage-in-use``,
        ``staged-atomic`` and ``staged-by-c`` (reads that cannot be redirected), ``already-staged``; with two instances
        ``out-of-bounds``, ``copy-incomplete``, ``copy-wrong-element``, ``illegal-order``.

    Notes
    -----
    The footprint is the smallest box around the elements read, cut to the elements that exist.  Every read is
    proven to see the element it saw before.  Source: Loopy's transform of the same name.
    """

    var_name: ArrayName
    sweep_inames: Inames = ()
    dim_arg_names: NewNames | None = None
    _: KW_ONLY
    default_tag: TagText | None = "l.auto"
    temporary_name: NewName | None = None
    temporary_address_space: Space = "auto"
    fetch_outer_inames: Inames | None = None
    prefetch_insn_id: NewName | None = None
    rule_name: NewName | None = None
    footprint_subscripts: _Subscripts | None = None
    fetch_bounding_box: bool | None = None
    within: InsnMatch | None = None
    storage_axes: Inames | None = None
    dim_tags: DimTags | None = None
    pad: int = 0
    vec: int | None = None
    compute_at: Iname | None = None

    @property
    def array(self) -> str:
        """Name of the array, or of the rule of a tagged name."""
        return tagged_name(self.var_name.partition("[")[0].strip())

    @property
    def subscripts(self) -> tuple[str, ...]:
        """The subscripts that define the footprint, those with the array among them."""
        _, bracket, inside = self.var_name.partition("[")
        return (*((inside.rstrip().removesuffix("]"),) if bracket else ()), *(self.footprint_subscripts or ()))

    def _is_rule(self, kernel: LoopKernel) -> bool:
        return self.array in kernel.substitutions and self.array not in kernel.arrays()

    def _uses(self, kernel: LoopKernel) -> list[Use]:
        return [use for use in find_uses(kernel, self.array, self._is_rule(kernel)) if isinstance(use, Use)]

    def _rank(self, kernel: LoopKernel) -> int:
        if self._is_rule(kernel):
            return len(kernel.substitutions[self.array].parameters)
        return len(kernel.arrays()[self.array].shape or ())

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        arrays = kernel.arrays()
        if self.array not in arrays and not self._is_rule(kernel):
            yield unknown_name("array", self.array, arrays)
            return
        if self.rule_name is not None:
            yield from new_name_violations(kernel, [self.rule_name])
        problem = self.place(kernel).problem
        if problem is not None:
            yield problem
            return
        if found := tuple(self._subscript_violations(kernel)):
            yield from found
            return
        yield from self.plan_violations(kernel)
        rank = self._rank(kernel) if self.storage_axes is None else len(self.storage_axes)
        if self.dim_arg_names is not None and len(self.dim_arg_names) != rank:
            yield Diagnostic(
                "wrong-rank",
                f"'{self.array}' has {rank} axes, and {len(self.dim_arg_names)} inames were given for them",
                hints=("give one iname for each axis",),
            )

    def place(self, kernel: LoopKernel) -> Place:
        """Return the swept loops, and the loops around the copy."""
        sweep = self.sweep_inames
        if not sweep and self.compute_at is None:
            sweep = self._swept(kernel)
        given = Place(sweep, self._outer(kernel, sweep), self.compute_at)
        return given.found(kernel, self.array, self._is_rule(kernel), self.temporary_address_space == "private")

    def _outer(self, kernel: LoopKernel, sweep: tuple[str, ...]) -> tuple[str, ...] | None:
        """Return the given loops around the copy that it needs."""
        if self.fetch_outer_inames is None:
            return None
        outer = [iname for iname in self.fetch_outer_inames if iname not in sweep]
        if self.temporary_address_space != "local":
            return tuple(outer)
        needed = {name for use in self._uses(kernel) for form in use.arguments for name in form.names()}
        return tuple(iname for iname in outer if iname in needed or not is_thread(kernel.tag(iname)))

    @property
    def wish(self) -> str | None:
        return self.temporary_name

    def _inside(self, kernel: LoopKernel, place: Place) -> str:
        """Return the match expression of the instructions whose reads the sweep reaches, "" if it reaches all of them.

        Where loops around the copy are given, reads by instructions in other loops stay as they are.
        """
        if self.fetch_outer_inames is None or not place.sweep:
            return ""
        known = {*place.sweep, *(place.outer or ()), *kernel.parameters}
        uses = self._uses(kernel)
        missed = {use.instruction.id for use in uses
                  if not {name for form in use.arguments for name in form.names()} <= known}  # fmt: skip
        left = list(dict.fromkeys(use.instruction.id for use in uses if use.instruction.id not in missed))
        return " or ".join(f"id:{name}" for name in left) if missed and left else ""

    def _swept(self, kernel: LoopKernel) -> tuple[str, ...]:
        """Return the inames of reads along whole axes; of reads with different ones, those around all of them."""
        found = [entry for text in self.subscripts for entry in self._along(kernel, text)]
        swept = dict.fromkeys(name for _, names in found for name in names)
        common = tuple(name for name in swept if all(name in use.inames for use, _ in found))
        return common or tuple(swept)

    def _along(self, kernel: LoopKernel, text: str) -> Iterator[tuple[Use, list[str]]]:
        """Yield reads with their inames along the whole axes of a subscript, without those that it names.

        Of reads in several places those count that agree with it along the other axes, if there are any.
        """
        forms = subscript_forms(kernel, text) or ()
        named = {name for form in forms if form is not None for name in form.names()}
        uses = [use for use in self._uses(kernel) if len(use.arguments) == len(forms)]
        meant = [use for use in uses if all(a in (None, b) for a, b in zip(forms, use.arguments, strict=True))]
        for use in meant or uses:
            own = {name for form, argument in zip(forms, use.arguments, strict=True) if form is None
                   for name in argument.names()}  # fmt: skip
            yield use, sorted(own - named - {*kernel.parameters})

    def _subscript_violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        rank = self._rank(kernel)
        known = {*kernel.inames, *kernel.parameters}
        for text in self.subscripts:
            forms = subscript_forms(kernel, text)
            if forms is None or len(forms) != rank or any(
                form is not None and not form.names() <= known for form in forms
            ) or (None in forms and not whole_axes(kernel, self.array)):
                yield Diagnostic(
                    "bad-value",
                    f"'{text}' is no subscript of '{self.array}' that is affine in inames and parameters",
                    hints=(f"give {rank} of them, such as 'i_inner, k_inner'",),
                )

    def plan(self, kernel: LoopKernel) -> Plan:
        place = self.place(kernel)
        wish = self.temporary_name or f"{self.array}_fetch"
        name = kernel.fresh(wish) if self.temporary_name is None or self.shares(kernel) else wish
        instruction = self.prefetch_insn_id or fresh_id(kernel, f"fetch_{self.array}")
        return Plan(
            self.array,
            self._is_rule(kernel),
            place.sweep,
            place.outer,
            Temporary(name, self.temporary_address_space, self.storage_axes, self.dim_tags or "", self.pad),
            Filling(instruction, self.default_tag, self.dim_arg_names, self.vec),
            self.fetch_bounding_box,
            within=self.within or self._inside(kernel, place),
            subscripts=tuple(forms for text in self.subscripts if (forms := subscript_forms(kernel, text)) is not None),
        )


def subscript_forms(kernel: LoopKernel, text: str) -> tuple[Affine | None, ...] | None:
    """Return the subscripts in *text* as affine forms, None for ``:``; None if they are none."""
    parts = [part.text.strip() for part in split_outside_brackets(Source.of(text), ",")]
    try:
        forms = [None if part == ":" else affine_of(with_parts(kernel, parse_expression(part))) for part in parts]
    except KernelError:
        return None
    return None if any(form is None and part != ":" for form, part in zip(forms, parts, strict=True)) else tuple(forms)

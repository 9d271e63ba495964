"""``buffer_array``: part of an array, held in a temporary and written back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from itertools import pairwise
from typing import Annotated, Final

import pymbolic.primitives as p

from polyloop.dataflow.address_spaces import place
from polyloop.errors import Diagnostic, KernelError, unknown_name
from polyloop.expr.dtypes import dtype_name, is_integer
from polyloop.expr.names import check_identifier
from polyloop.expr.nodes import Expression
from polyloop.expr.parser import parse_expression
from polyloop.expr.rewrite import variables
from polyloop.expr.rules import expand_rules
from polyloop.expr.typing import infer
from polyloop.kernel.arrays import AddressSpace
from polyloop.kernel.instruction import Copy, Instruction, Move, MoveRole
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.tags import axis_name
from polyloop.kernel.text.match import matches, parse_match
from polyloop.kernel.updates import NEUTRAL, update_of
from polyloop.program.expand_lanes import with_lanes
from polyloop.program.infer_types import dtype_table
from polyloop.proof.obligation import findings
from polyloop.sync.races import race_obligations
from polyloop.transform.base import Transform, iname_violations, new_name_violations
from polyloop.transform.declare import Takes
from polyloop.transform.loops.tag import tag_violations
from polyloop.transform.parameters import ArrayName, Inames, InsnMatch, NewName, Space, TagText
from polyloop.transform.staging.buffering import BufferPlan, Transfer, accessing, buffered
from polyloop.transform.staging.plan import Temporary
from polyloop.transform.staging.uses import find_uses
from polyloop.verification.order import order_violations
from polyloop.verification.values import value_violations

__all__ = ["BufferArray"]

_WORDS: Final = {
    MoveRole.LOAD: "loaded",
    MoveRole.START: "initialised",
    MoveRole.STORE: "stored",
    MoveRole.ADD: "added",
}
_BASE: Final = p.Variable("base")
_BUFFER: Final = p.Variable("buffer")


@dataclass(frozen=True)
class BufferArray(Transform):
    """Keep part of an array in a temporary while loops update it: load, redirect accesses, store back.

    >>> knl = pl.make_kernel("{[i, k]: 0 <= i < 8 and 0 <= k < 9}", "c[i] = c[i] + a[i, k]")
    >>> print(body(knl.buffer_array("c", "k")))
    for (int i = 0; i < 8; ++i) {
        float c_buf = c[i];
        for (int k = 0; k < 9; ++k)
            c_buf += a[i * 9 + k];
        c[i] = c_buf;
    }

    Parameters
    ----------
    var_name
        The array; it is written.
    buffer_inames
        The loops that use the buffer. It holds the elements for all their values, is loaded before them and stored
        after them. Other loops around the accesses are outside of the buffer.
    init_expression
        Initial value of the buffer, in place of the elements' values.
    store_expression
        The value to store, in terms of ``base`` (the element) and ``buffer``. With ``init_expression="0"`` and
        ``store_expression="base + buffer"`` the buffer accumulates addends; every access must then be such an addition.
        The sum is formed in another order than in the program, which the caller accepts. Products (initial value 1),
        bitwise or and exclusive or (0) work in the same way. ``False``: nothing is stored.
    within
        Match expression for the instructions that use the buffer; by default all that access the array.
    default_tag
        Tag of the inames of the moves; ``"l.auto"`` spreads them over the threads of the block.  With ``"box"`` a copy
        engine stores what is in shared memory (TMA, from sm_90 on).
    temporary_address_space, temporary_name
        Address space of the buffer (``"auto"``: registers, or shared memory if other threads need its elements), and
        its name (``{var_name}_buf``).
    fetch_bounding_box
        True: load the whole box around the elements; False: load only the elements that are read before they are
        written.

    Raises
    ------
    TransformError
        ``unknown-array``, ``unknown-iname``, ``not-affine``, ``not-used``, ``sweep-unused``, ``uses-apart``,
        ``footprint-not-constant``, ``buffer-expression``, ``buffer-not-update``, ``buffer-atomic``,
        ``already-staged``, ``staged-by-c``, ``name-taken``, ``iname-tagged``, ``priority-conflict``, ``bad-tag``,
        ``bad-address-space``; with two instances ``copy-incomplete``,
        ``copy-wrong-element``, ``buffer-stale`` (an access elsewhere needs what is in the buffer),
        ``buffer-not-stored``, ``illegal-order``, ``race``.

    Notes
    -----
    Elements that are written before they are read are not loaded; only elements that are written are stored.  Every
    read is proven to see the value that it would see without the buffer.  Source: Loopy's transform of the same
    name; register and shared-memory blocking of a written array, as in Volkov and Demmel, SC 2008,
    https://doi.org/10.1109/SC.2008.5214359.
    """

    var_name: ArrayName
    buffer_inames: Inames
    init_expression: Annotated[str | int | float | None, Takes(str | float | None)] = None
    store_expression: str | bool | None = None
    within: InsnMatch | None = None
    default_tag: TagText | None = "l.auto"
    _: KW_ONLY
    temporary_address_space: Space = "auto"
    fetch_bounding_box: bool = False
    temporary_name: NewName | None = None

    @property
    def temporary(self) -> str:
        """Name of the temporary."""
        return self.temporary_name or f"{self.var_name}_buf"

    @property
    def ids(self) -> tuple[str, str]:
        """Ids of the instructions that fill the buffer and store it."""
        return f"init_{self.temporary}", f"store_{self.temporary}"

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        arrays = kernel.arrays()
        if self.var_name not in arrays:
            yield unknown_name("array", self.var_name, arrays)
            return
        if self.var_name in kernel.buffers or self.var_name in kernel.evaluations:
            yield Diagnostic(
                "already-staged",
                f"'{self.var_name}' is itself a copy that a transform made",
                hints=("buffer the program's own array, in one step",),
            )
            return
        if self._has_other_axes(kernel):
            yield Diagnostic(
                "already-staged",
                f"'{self.var_name}' has other axes than in the program",
                ("a transform changed them, and what is in a buffer is compared with the program's elements",),
                (f"buffer '{self.var_name}' first, and change its axes after that",),
            )
            return
        found = [finding for iname in self.buffer_inames for finding in iname_violations(kernel, iname)]
        found += self._lane_violations(kernel)
        found += [*self._name_violations(kernel), *self._expression_violations()]
        if self.within is not None:
            try:
                parse_match(self.within, self.name)
            except KernelError as error:
                found += error.found
        if self.default_tag is not None:
            found += tag_violations(self.default_tag)
        if not found:
            found += self._access_violations(kernel)
        yield from found

    def _has_other_axes(self, kernel: LoopKernel) -> bool:
        """Return whether the array has another shape than in the reference program."""
        old = None if kernel.reference is None else kernel.reference.kernel.arrays().get(self.var_name)
        return old is not None and old.shape != kernel.arrays()[self.var_name].shape

    def _lane_violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        """Yield ``iname-tagged`` if the temporary has one copy for each lane of an ``ilp`` or ``vec`` iname."""
        if self.var_name in kernel.temporaries:
            expanded = with_lanes(kernel).temporaries[self.var_name]
            if expanded.shape != kernel.temporaries[self.var_name].shape:
                yield Diagnostic(
                    "iname-tagged",
                    f"'{self.var_name}' is kept once for each lane of an iname that is tagged ilp or vec",
                    hints=("buffer it before the iname is tagged",),
                )

    def _name_violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        problem = check_identifier(self.temporary, "temporary")
        if problem is not None:
            yield problem
        yield from new_name_violations(kernel, (self.temporary,))
        for name in self.ids:
            if any(name == other.id for other in kernel.instructions):
                yield Diagnostic(
                    "name-taken", f"an instruction is already called '{name}'", hints=("choose another temporary_name",)
                )
        if self.temporary_address_space not in {space.value for space in AddressSpace}:
            yield Diagnostic(
                "bad-address-space",
                f"no address space '{self.temporary_address_space}'",
                hints=("one of auto, private, local, cluster, global",),
            )

    def _expression_violations(self) -> Iterator[Diagnostic]:
        for name, allowed in (("init_expression", {"base"}), ("store_expression", {"base", "buffer"})):
            given = getattr(self, name)
            if given is None or given is False:
                continue
            try:
                used = variables(_parsed(given))
            except KernelError as error:
                yield from error.found
                return
            if not used <= allowed:
                yield _unproven(f"{name} uses '{min(used - allowed)}'")
                return
        if self._roles() is None:
            yield _unproven(f"init_expression={self.init_expression!r} with store_expression={self.store_expression!r}")

    def _roles(self) -> tuple[MoveRole, MoveRole | None] | None:
        """Return the roles of the moves that fill and store the buffer, None if they could not be proven."""
        init = None if self.init_expression is None else _parsed(self.init_expression)
        fills = MoveRole.LOAD if init is None or init == _BASE else MoveRole.START
        if fills is MoveRole.START and "base" in variables(init):
            return None
        if self.store_expression is False:
            return fills, None
        if self.store_expression is None or self.store_expression is True:
            return fills, MoveRole.STORE
        store = _parsed(self.store_expression)
        if store == _BUFFER:
            return fills, MoveRole.STORE
        update = update_of(_BASE, store)
        is_neutral = update is not None and update.operation in NEUTRAL and init == NEUTRAL[update.operation]
        if fills is MoveRole.START and update is not None and update.operand == _BUFFER and is_neutral:
            return fills, MoveRole.ADD
        return None

    def _access_violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        chosen = self.chosen(kernel)
        array = self.var_name
        if not any(array in instruction.writes for instruction in chosen):
            where = "" if self.within is None else f" by instructions that match '{self.within}'"
            yield Diagnostic(
                "not-used",
                f"'{array}' is not written{where}",
                hints=("an array that is only read is fetched ahead with add_prefetch",),
            )
            return
        for instruction in chosen:
            problem = _not_bufferable(instruction, array)
            if problem is not None:
                yield problem
                return
        alone = replace(kernel, instructions=tuple(chosen))
        for use in find_uses(alone, array, False):
            if isinstance(use, Diagnostic):
                yield use
                return
        yield from self._iname_violations(kernel, chosen)
        if self._roles() == (MoveRole.START, MoveRole.ADD):
            yield from self._update_violations(kernel, chosen)

    def _iname_violations(self, kernel: LoopKernel, chosen: Sequence[Instruction]) -> Iterator[Diagnostic]:
        around = {x for i in chosen for inames in (i.inames, *(term.inames for term in i.terms)) for x in inames}
        for iname in self.buffer_inames:
            if iname not in around:
                yield Diagnostic(
                    "sweep-unused",
                    f"iname '{iname}' is not around any access to '{self.var_name}'",
                    (f"it is used inside {', '.join(chosen[0].inames) or 'no loop'}",),
                    ("buffer over inames of the instructions that access it",),
                    sites=(chosen[0].site(),),
                )
                return
        for chain in kernel.loop_priority:
            inside = [x for x in chain if x in around and axis_name(kernel.tag(x)) is None]
            for outer, inner in pairwise(inside):
                if outer in self.buffer_inames and inner not in self.buffer_inames:
                    yield Diagnostic(
                        "priority-conflict",
                        f"loop '{inner}' would be around the buffer, and it is inside of loop '{outer}'",
                        (f"the order {', '.join(chain)} was stated earlier",),
                        (f"add '{inner}' to buffer_inames, or leave '{outer}' out of them",),
                        sites=(chosen[0].site(),),
                    )
                    return
        for instruction in chosen:
            for other in chosen:
                apart = [x for x in instruction.inames if x not in (*other.inames, *self.buffer_inames)]
                if apart:
                    yield Diagnostic(
                        "uses-apart",
                        f"not every access to '{self.var_name}' is inside loop '{apart[0]}'",
                        hints=(
                            f"add '{apart[0]}' to buffer_inames, or choose instructions with within=\"id:..\"",
                        ),
                        sites=(instruction.site(), other.site()),
                    )
                    return

    def _update_violations(self, kernel: LoopKernel, chosen: Sequence[Instruction]) -> Iterator[Diagnostic]:
        """Yield ``buffer-not-update`` for an instruction that is not the update that the buffer accumulates."""
        wanted = update_of(_BASE, _parsed(str(self.store_expression)))
        assert wanted is not None, "the store expression was not checked"
        table = dtype_table(kernel)
        element = table.get(self.var_name)
        for instruction in chosen:
            expression = expand_rules(instruction.expression, kernel.substitutions)
            update = update_of(instruction.assignee, expression)
            found = infer(expression, table.get)
            if element is not None and found is not None and found != element and not (
                is_integer(element) and is_integer(found)
            ):  # fmt: skip
                yield Diagnostic(
                    "buffer-not-update",
                    f"'{instruction.id}' computes '{self.var_name}', which is {dtype_name(element)}, "
                    f"in {dtype_name(found)}",
                    ("each element is converted as it is stored, and the buffer would hold sums of converted terms",),
                    (f"convert the terms: cast({dtype_name(element)}, ...), or leave both expressions out",),
                    sites=(instruction.site(),),
                )
                return
            fits = update is not None and update.operation == wanted.operation
            if not fits or update is None or self.var_name in variables(update.operand):
                yield Diagnostic(
                    "buffer-not-update",
                    f"'{instruction.id}' does something else with '{self.var_name}' than to add to an element",
                    (f"with store_expression='{self.store_expression}' the buffer holds the sum of the terms so far",),
                    ("load and store the elements themselves: leave both expressions out",),
                    sites=(instruction.site(),),
                )
                return

    def chosen(self, kernel: LoopKernel) -> tuple[Instruction, ...]:
        """Return the instructions that will work on the buffer."""
        wanted = None if self.within is None else parse_match(self.within, self.name)
        found = accessing(kernel, self.var_name)
        return tuple(i for i in found if wanted is None or matches(wanted, i))

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        roles = self._roles()
        assert roles is not None, "the expressions were not checked"
        begin = None if self.init_expression is None else _parsed(self.init_expression)
        end = _parsed(self.store_expression) if isinstance(self.store_expression, str) else _BUFFER
        (load, store), (loaded, stored) = self.ids, roles
        return buffered(
            kernel,
            BufferPlan(
                self.var_name,
                self.chosen(kernel),
                self.buffer_inames,
                Temporary(self.temporary, self.temporary_address_space),
                Transfer(load, loaded, begin),
                Transfer(store, stored, end),
                self.default_tag,
                self.fetch_bounding_box,
            ),
        )

    def consequences(self, before: LoopKernel, after: LoopKernel) -> Iterable[Diagnostic]:
        yield from value_violations(after)
        yield from order_violations(after)
        yield from findings(after, race_obligations(place(after)))

    def note(self, before: LoopKernel, after: LoopKernel) -> str:
        old = {instruction.id for instruction in before.instructions}
        parts = [f"{self.temporary}{[*(after.temporaries[self.temporary].shape or ())]}"]
        for move in (i for i in after.instructions if i.id not in old):
            assert isinstance(move.origin, Move), "the new instructions are moves"
            own = [x for x in move.inames if x.startswith(f"{self.temporary}_")]
            loops = ", ".join(x for x in move.inames if x not in own)
            tags = ", ".join(f"{x} on {after.tag(x)}" for x in own if x in after.iname_tags)
            where = f"in {loops}" if loops else "outside of all loops"
            parts.append(f"{_WORDS[move.origin.role]} {where}" + (f", {tags}" if tags else ""))
        return "; ".join(parts)


def _parsed(given: str | float) -> Expression:
    return parse_expression(given) if isinstance(given, str) else given


def _unproven(what: str) -> Diagnostic:
    return Diagnostic(
        "buffer-expression",
        f"{what}: the values could not be proven",
        hints=(
            "leave both out to load and store the elements, or collect sums: "
            'init_expression="0", store_expression="base + buffer"',
        ),
    )


def _not_bufferable(instruction: Instruction, array: str) -> Diagnostic | None:
    sites = (instruction.site(),)
    if instruction.is_c:
        return Diagnostic(
            "staged-by-c",
            f"the C text of '{instruction.id}' names '{array}'",
            hints=(f"choose other instructions with within=, so that '{array}' is not in a buffer meanwhile",),
            sites=sites,
        )
    if not isinstance(instruction.origin, Copy):
        return Diagnostic(
            "already-staged",
            f"'{instruction.id}', which a transform made, reads '{array}' ahead of its use",
            hints=("buffer first, and fetch or compute ahead after that", ),
            sites=sites,
        )
    if instruction.atomic:
        return Diagnostic(
            "buffer-atomic",
            f"'{instruction.id}' updates '{array}' atomically, as other threads do at the same time",
            hints=("sum the terms of one thread in a temporary, and add that atomically",),
            sites=sites,
        )
    return None

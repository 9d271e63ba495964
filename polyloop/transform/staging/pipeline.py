"""``pipeline``: software pipelining of copies, which run iterations ahead of their use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import KW_ONLY, dataclass, replace
from typing import Final

import pymbolic.primitives as p

from polyloop.dataflow.address_spaces import place
from polyloop.errors import Diagnostic, unknown_name
from polyloop.expr.nodes import array_name
from polyloop.expr.rewrite import variables
from polyloop.expr.rules import expand_rules
from polyloop.kernel.arrays import AddressSpace, ArrayArg, TemporaryVariable
from polyloop.kernel.instruction import Instruction
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.layout import Nested
from polyloop.kernel.tags import AutoLocal, GroupAxis, Sequential, Unroll, UnrollHint, Vectorize, is_thread
from polyloop.poly.sets import constant_bounds
from polyloop.proof.obligation import findings
from polyloop.proof.postponed import waits
from polyloop.sync.async_copy import copy_obligations
from polyloop.sync.async_product import lag_in, product_obligations
from polyloop.transform.base import Transform, iname_violations
from polyloop.transform.loops.auto_local import assign_auto
from polyloop.transform.parameters import Iname, InsnIds, Word
from polyloop.transform.staging.pipelining import Rotation, Via, copied_inames, own_inames, piped, sliding
from polyloop.verification.order import order_violations
from polyloop.verification.values import value_violations

__all__ = ["Pipeline"]

_COPIED_BYTES: Final = (4, 8, 16)
"""Sizes of one asynchronous copy [bytes]."""
_BOX_BYTES: Final = (1, 2, 4, 8)
"""Sizes of an element of a box [bytes]."""


@dataclass(frozen=True)
class Pipeline(Transform):
    """Fetch the operands of later iterations while the present one computes (software pipelining).

    ::

        for k:                               t[..] = a[.. k ..];                         use(k, t[..])
        ->                                   (stages=2)
        t[0, ..] = a[.. 0 ..]
        for k:  if there is an iteration k + 1:  t[(k + 1) % 2, ..] = a[.. k + 1 ..];    use(k, t[k % 2, ..])

    >>> knl = pl.make_kernel("{[k, i]: 0 <= k < 8 and 0 <= i < 4}", "b[k, i] = a[k, i]*a[k, 3 - i]")
    >>> print(body(knl.add_prefetch("a", "i").pipeline("k", 2, producers="a_fetch")))
    float a_fetch[2][4];
    for (int a_dim_1 = 0; a_dim_1 < 4; ++a_dim_1)
        a_fetch[0][a_dim_1] = a[a_dim_1];
    // Full tiles, without tests; the others begin at k_full.
    const int k_full = 7;
    for (int k = 0; k < k_full; ++k) {
        for (int a_dim_1 = 0; a_dim_1 < 4; ++a_dim_1)
            a_fetch[(k + 1) % 2][a_dim_1] = a[(k + 1) * 4 + a_dim_1];
        for (int i = 0; i < 4; ++i)
            b[k * 4 + i] = a_fetch[k % 2][i] * a_fetch[k % 2][3 - i];
    }
    for (int k = k_full; k < 8; ++k) {
        for (int i = 0; i < 4; ++i)
            b[k * 4 + i] = a_fetch[k % 2][i] * a_fetch[k % 2][3 - i];
    }

    Parameters
    ----------
    iname
        The loop, which is sequential: for example the outer loop of a split reduction.
    stages
        Number of iterations held in the buffers: one in use, the others in flight. Where products run on into later
        iterations (:func:`tensorize` with ``lag``), these iterations are held too.
    producers
        Temporaries to fill ahead, by name or by the id of the filling instruction. By default all that
        :func:`add_prefetch` or :func:`precompute` fill from global memory, once in each iteration.
    via
        Path of the values. ``"shared"``: as before, but earlier. ``"registers"``: loaded at the beginning of an
        iteration, held in registers while it computes, and stored at the beginning of the next one, which hides the
        latency of global memory. ``"cp.async"``: asynchronous copies of sm_80 and later, with up to *stages* iterations
        in flight; other targets copy at the point of arrival.  ``"tma"``: copies of whole boxes by the copy engine of
        sm_90 and later (tensor memory accelerator): one thread starts the copy of a tile, and all threads wait for its
        bytes.  Inames of the producer alone are tagged ``box`` for it.  A tile is a box of its array in the same order,
        its rows have a multiple of 16 bytes, and are swizzled by 128 bytes or not at all; beyond the elements that the
        program copies, the engine stores zeros.

    window
        An axis of the buffers along which their content slides with the loop, as planes of a stencil do: each iteration
        fetches only new elements, and that axis is longer by the stages fetched ahead. With ``stages=1`` nothing is
        fetched ahead.

    Raises
    ------
    TransformError
        ``unknown-iname``, ``iname-tagged``, ``bad-stages``, ``unknown-way``, ``unknown-producer``, ``no-producer``,
        ``not-in-loop``, ``filled-often``, ``uses-apart``, ``already-staged``, ``bad-layout``, ``not-sliding``,
        ``data-decides``, ``threads-unknown``, ``footprint-not-constant``, ``not-a-copy``, ``copy-not-shared``; where a
        producer needs what an iteration in between computes, ``illegal-order`` with two instances.

    Notes
    -----
    The loop begins ``stages - 1`` iterations earlier (one with ``stages=1``), less those of a lag, with producers
    alone: the prologue in generated code.  Barriers and waits are derived from the result: with two stages there is
    one barrier in each iteration.  Source: Lam, "Software pipelining", PLDI 1988,
    https://doi.org/10.1145/53990.54022.
    """

    iname: Iname
    stages: int = 2
    producers: InsnIds | None = None
    _: KW_ONLY
    via: Word = "shared"
    window: int | None = None

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        wrong = [*self._argument_violations(), *iname_violations(kernel, self.iname)]
        wrong = wrong or [*_loop_violations(kernel, self.iname)] or [*self._producer_violations(kernel)]
        if wrong:
            yield from wrong
            return
        for rotation in self._rotations(kernel):
            if rotation.lag and (rotation.distance < 1 or rotation.is_refilled):
                yield _too_few(rotation)
                return
            found = [*_rotation_violations(kernel, rotation), *_via_violations(kernel, rotation, Via(self.via))]
            if found:
                yield found[0]
                return

    def _argument_violations(self) -> Iterator[Diagnostic]:
        known = [via.value for via in Via]
        if self.via not in known:
            yield unknown_name("way", self.via, known)
        elif self.window is not None and type(self.window) is not int:
            message = f"window={self.window!r} is not the number of an axis"
            yield Diagnostic("not-sliding", message, hints=("window=0 for the first axis of the buffers",))
        elif type(self.stages) is not int or self.stages < self._least():
            yield Diagnostic(
                "bad-stages",
                f"{self.stages!r} stages are no pipeline",
                ("each iteration uses one stage while the others are filled",),
                ("stages=2 fetches one iteration ahead, stages=3 two",),
            )
        elif self.via == Via.REGISTERS.value and self.stages > 2:
            yield Diagnostic(
                "bad-stages",
                f"registers hold the values of one iteration ahead, and not of {self.stages - 1}",
                hints=("stages=2, or via='cp.async' for copies that need no registers",),
            )

    def _least(self) -> int:
        """Return the fewest stages: one, where a buffer slides, or copies into it are started behind its uses."""
        if self.window is not None:
            return 1 if self.via == Via.SHARED.value else 2
        return 1 if self.via == Via.CP_ASYNC.value else 2

    def _producer_violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        if self.producers is None:
            if not self._rotations(kernel):
                yield Diagnostic(
                    "no-producer",
                    f"nothing is fetched ahead of its use in each iteration of '{self.iname}'",
                    hints=("fetch a tile in this loop first: pl.add_prefetch, pl.precompute",),
                )
            return
        known = {name: _buffer_of(kernel, name) for name in (*kernel.evaluations, *kernel.evaluations.values())}
        for name in self.producers:
            buffer = known.get(name)
            if buffer is None:
                finding = unknown_name("producer", name, known)
                yield replace(finding, notes=("a producer is a temporary that a transform fills ahead of its use",))
            elif self.iname not in (inames := kernel.instruction(kernel.evaluations[buffer]).inames):
                yield Diagnostic(
                    "not-in-loop",
                    f"'{kernel.evaluations[buffer]}', which fills '{buffer}', is not in loop '{self.iname}'",
                    (f"it is in {', '.join(map(repr, inames)) or 'no loop'}",),
                    ("leave it out of the producers",),
                    sites=(kernel.instruction(kernel.evaluations[buffer]).site(),),
                )

    def _rotations(self, kernel: LoopKernel) -> list[Rotation]:
        """Return the buffers that are filled ahead."""
        if self.producers is None:
            chosen = [name for name, filler in kernel.evaluations.items()
                      if _is_producer(kernel, kernel.instruction(filler), self.iname)]  # fmt: skip
        else:
            named = [_buffer_of(kernel, name) for name in dict.fromkeys(self.producers)]
            chosen = [name for name in dict.fromkeys(named) if name is not None]
        order = {instruction.id: number for number, instruction in enumerate(kernel.instructions)}
        chosen.sort(key=lambda name: order[kernel.evaluations[name]])
        placement = place(assign_auto(kernel))
        lag = max((lag_in(placement, self.iname, name) for name in chosen), default=0)
        return [
            Rotation(name, kernel.evaluations[name], self.iname, self.stages, self.window, lag) for name in chosen
        ]

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        rotations = self._rotations(kernel)
        slides = (sliding(kernel, rotation) for rotation in rotations)
        more = max((found[1] - 1 for found in slides if found is not None), default=0)
        kernel = piped(kernel, rotations, Via(self.via))
        _, back = kernel.slabs.get(self.iname, (0, 0))
        slabs = {**kernel.slabs, self.iname: (rotations[0].distance + more, back)}
        if self.via == Via.TMA.value:  # one thread tests whether there is more to copy: that needs no loop of its own
            return replace(kernel, slabs=slabs, tile_inames=kernel.tile_inames - {self.iname})
        return replace(kernel, slabs=slabs, tile_inames=kernel.tile_inames | {self.iname})

    def consequences(self, before: LoopKernel, after: LoopKernel) -> Iterable[Diagnostic]:
        yield from value_violations(after)
        yield from order_violations(after)
        if not waits(_under_way_violations):
            yield from _under_way_violations(after)

    def note(self, before: LoopKernel, after: LoopKernel) -> str:
        del after
        if self.producers is not None:
            return ""
        return f"fetched ahead: {', '.join(rotation.buffer for rotation in self._rotations(before))}"


def _under_way_violations(kernel: LoopKernel) -> Iterator[Diagnostic]:
    """Yield diagnostics for copies and products that are used before they have ended."""
    placement = place(assign_auto(kernel))
    yield from findings(kernel, copy_obligations(placement))
    yield from findings(kernel, product_obligations(placement))


def _buffer_of(kernel: LoopKernel, name: str) -> str | None:
    """Return the temporary called *name*, or filled by the instruction *name*; None if there is neither."""
    if name in kernel.evaluations:
        return name
    return next((buffer for buffer, filler in kernel.evaluations.items() if filler == name), None)


def _is_producer(kernel: LoopKernel, filler: Instruction, iname: str) -> bool:
    """Return whether an instruction fetches something from global memory once in each iteration of *iname*."""
    if iname not in filler.inames or filler.step is not None or _is_ahead(filler, iname):
        return False
    arrays, spaces = kernel.arrays(), place(assign_auto(kernel)).spaces
    fetches = any(name in arrays and spaces.get(name) is AddressSpace.GLOBAL for name in filler.reads)
    return fetches and not _repeated(kernel, filler, iname)


def _repeated(kernel: LoopKernel, filler: Instruction, iname: str) -> list[str]:
    """Return the loops inside of *iname* in which *filler* fills the same elements again."""
    inside = copied_inames(kernel, filler, iname)
    bounds = {x: constant_bounds(filler.domain, filler.inames.index(x)) for x in inside}
    once = {x for x, (low, high) in bounds.items() if low is not None and low == high}
    return [x for x in inside if x not in once and x not in variables(filler.assignee)]


def _is_ahead(filler: Instruction, iname: str) -> bool:
    """Return whether the target of *filler* is rotated already, by an earlier pipeline of loop *iname*."""
    indices = filler.assignee.index_tuple if isinstance(filler.assignee, p.Subscript) else ()
    return any(isinstance(index, p.Remainder) and iname in variables(index) for index in indices)


def _loop_violations(kernel: LoopKernel, iname: str) -> Iterator[Diagnostic]:
    tag = kernel.tag(iname)
    if not isinstance(tag, Sequential | Unroll | UnrollHint):
        yield Diagnostic(
            "iname-tagged",
            f"iname '{iname}' is tagged '{tag}', and a pipeline needs iterations one after the other",
            hints=("choose a loop that runs in order, such as the outer one of a split of a reduction",),
        )


def _too_few(rotation: Rotation) -> Diagnostic:
    least = rotation.lag + 2
    return Diagnostic(
        "bad-stages",
        f"of {rotation.stages} stages, none is left to fill ahead",
        (f"one is in use, and {rotation.lag} more while products run on that read them",),
        (f"stages={least} fetches one iteration ahead, stages={least + 1} two",),
    )


def _rotation_violations(kernel: LoopKernel, rotation: Rotation) -> Iterator[Diagnostic]:
    """Yield a diagnostic if a buffer cannot be rotated over stages."""
    buffer, filler = kernel.temporaries[rotation.buffer], kernel.instruction(rotation.producer)
    for instruction in kernel.instructions:
        around = frozenset(instruction.inames).union(*(term.inames for term in instruction.terms))
        if rotation.buffer in instruction.reads and rotation.iname not in around:
            yield Diagnostic(
                "uses-apart",
                f"'{rotation.buffer}' is filled inside loop '{rotation.iname}' and also read outside of it",
                (f"'{instruction.id}' would not know which of its stages is meant",),
                ("leave it out of the producers",),
                sites=(instruction.site(),),
            )
        if rotation.buffer in instruction.reads and rotation.is_refilled and rotation.iname not in instruction.inames:
            name = rotation.buffer
            yield Diagnostic(
                "bad-stages",
                f"'{instruction.id}' reads the one place of '{name}' in all iterations of '{rotation.iname}'",
                ("the next values would be copied there behind the whole reduction",),
                ("stages=2: one place in use, and one on its way",),
                sites=(instruction.site(),),
            )
    often = _repeated(kernel, filler, rotation.iname)
    if often:
        yield Diagnostic(
            "filled-often",
            f"'{filler.id}' fills '{rotation.buffer}' anew in each iteration of '{often[0]}'",
            (f"the values of an iteration of '{rotation.iname}' are never there together",),
            (f"pipeline loop '{often[-1]}'",),
            sites=(filler.site(),),
        )
    others = [other for other in kernel.instructions if rotation.buffer in other.writes and other is not filler]
    if others or _is_ahead(filler, rotation.iname):
        yield Diagnostic(
            "already-staged",
            f"'{rotation.buffer}' is filled ahead already",
            hints=("pipeline a loop once, with as many stages as it is to have",),
            sites=(filler.site(),),
        )
    if buffer.dim_tags is not None and not all(isinstance(tag, Nested) for tag in buffer.dim_tags):
        yield Diagnostic(
            "bad-layout",
            f"'{rotation.buffer}' says with strides how its axes are stored, and not how one for the stages would be",
            hints=("use the tags N0, N1, ..",),
        )
    if rotation.window is not None:
        yield from _window_violations(kernel, rotation)
    if filler.predicates:
        yield Diagnostic(
            "data-decides",
            f"data decides whether '{filler.id}' fills '{rotation.buffer}'",
            ("iterations earlier it may decide otherwise",),
            ("leave it out of the producers",),
            sites=(filler.site(),),
        )


def _window_violations(kernel: LoopKernel, rotation: Rotation) -> Iterator[Diagnostic]:
    """Yield a diagnostic if a buffer does not slide along its axis, or cannot be used as a ring."""
    filler = kernel.instruction(rotation.producer)
    if sliding(kernel, rotation) is None:
        yield Diagnostic(
            "not-sliding",
            f"'{rotation.buffer}' does not slide by one along axis {rotation.window} with each iteration of "
            f"'{rotation.iname}'",
            ("an element at one position of that axis must be at the next position in the iteration before",),
            ("fetch elements whose subscript is the loop's iname plus that of the axis, or leave window out",),
            sites=(filler.site(),),
        )


def _via_violations(kernel: LoopKernel, rotation: Rotation, via: Via) -> Iterator[Diagnostic]:
    if via is Via.SHARED:
        return
    filler = kernel.instruction(rotation.producer)
    site = (filler.site(),)
    waiting = [x for x in filler.inames if isinstance(kernel.iname_tags.get(x), AutoLocal)]
    if waiting:
        yield Diagnostic(
            "threads-unknown",
            f"which threads copy '{rotation.buffer}' is not known yet: '{waiting[0]}' is tagged 'l.auto'",
            hints=("tag the threads of the block first: pl.tag_inames, inner_tag=\"l.0\"",),
            sites=site,
        )
    elif via is Via.REGISTERS:
        for iname in copied_inames(kernel, filler, rotation.iname):
            if None in constant_bounds(filler.domain, filler.inames.index(iname)):
                yield Diagnostic(
                    "footprint-not-constant",
                    f"loop '{iname}' of '{filler.id}' has no constant bounds",
                    ("registers have a constant number",),
                    ("split the loop, or leave it out of the producers",),
                    sites=site,
                )
    else:
        yield from _copy_violations(kernel, rotation, filler, via)


def _copy_violations(kernel: LoopKernel, rotation: Rotation, filler: Instruction, via: Via) -> Iterator[Diagnostic]:
    """Yield a diagnostic if an instruction cannot be an asynchronous copy."""
    site = (filler.site(),)
    value = expand_rules(filler.expression, kernel.substitutions)
    source = kernel.arrays().get(array_name(value)) if isinstance(value, p.Subscript | p.Variable) else None
    dtype = kernel.temporaries[rotation.buffer].dtype
    spaces = place(assign_auto(kernel)).spaces
    space = spaces[rotation.buffer]
    is_global = source is not None and spaces.get(source.name, AddressSpace.GLOBAL) is AddressSpace.GLOBAL
    if not isinstance(source, ArrayArg | TemporaryVariable) or not is_global or source.dtype != dtype:
        yield Diagnostic(
            "not-a-copy",
            f"'{filler.id}' does more than to copy elements of an array in global memory",
            ("an asynchronous copy computes nothing and converts nothing",),
            ("use via='registers' for it",),
            sites=site,
        )
    elif space is not AddressSpace.LOCAL:
        yield Diagnostic(
            "copy-not-shared",
            f"asynchronous copies go to shared memory, and '{rotation.buffer}' is {space}",
            hints=("use via='registers', or let threads of the block share what they fetch",),
            sites=site,
        )
    elif via is Via.TMA and dtype is not None and dtype.itemsize not in _BOX_BYTES:
        yield Diagnostic(
            "not-a-copy",
            f"an element of '{rotation.buffer}' has {dtype.itemsize} bytes, and those of a box 1, 2, 4 or 8",
            hints=("use via='cp.async'",),
            sites=site,
        )
    elif via is Via.TMA and (outside := _shared_with_others(kernel, filler, rotation.iname)) is not None:
        yield Diagnostic(
            "not-a-copy",
            f"'{filler.id}' is inside of '{outside}', a loop of other instructions too",
            ("one thread copies a box that all threads of the block share",),
            ("fetch for the whole block: pl.add_prefetch over all inames of its threads",),
            sites=site,
        )
    elif via is not Via.TMA and dtype is not None and dtype.itemsize not in _COPIED_BYTES:
        lanes = any(isinstance(kernel.tag(x), Vectorize) for x in filler.inames)
        if not lanes or dtype.itemsize > max(_COPIED_BYTES):
            yield Diagnostic(
                "not-a-copy",
                f"an element of '{rotation.buffer}' has {dtype.itemsize} bytes, and asynchronous copies 4, 8 or 16",
                hints=("let each thread copy several neighbours, as vectors, or use via='registers'",),
                sites=site,
            )


def _shared_with_others(kernel: LoopKernel, filler: Instruction, iname: str) -> str | None:
    """Return an iname of *filler* inside of *iname* or on threads, that another instruction has too; None if none."""
    own, inside = own_inames(kernel, filler), filler.inames[filler.inames.index(iname) + 1 :]
    shared = [x for x in filler.inames if x not in own]
    return next((x for x in shared if is_thread(kernel.tag(x)) or (x in inside and not _is_block(kernel, x))), None)


def _is_block(kernel: LoopKernel, iname: str) -> bool:
    return isinstance(kernel.tag(iname), GroupAxis)

"""``tensorize``: products of small matrices, mapped to matrix instructions of whole warps."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from itertools import chain
from typing import Annotated

import pymbolic.primitives as p

from polyloop.dataflow.address_spaces import place
from polyloop.errors import Diagnostic, unknown_name
from polyloop.expr.rewrite import reductions, variables
from polyloop.expr.rules import expand_rules
from polyloop.kernel.domains import iname_range
from polyloop.kernel.instruction import Instruction
from polyloop.kernel.intrinsic import INTRINSICS, Matrix, MatrixIntrinsic, Part, declare_intrinsic
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.tags import Sequential, Unroll
from polyloop.poly.affine import affine_of
from polyloop.program.expand_lanes import with_lanes
from polyloop.program.lower import loop_order
from polyloop.proof.obligation import findings
from polyloop.proof.postponed import waits
from polyloop.sync.async_product import sum_obligations
from polyloop.transform.base import Transform
from polyloop.transform.declare import Keyed, Names, Takes
from polyloop.transform.instructions.matching import match_violations, meant
from polyloop.transform.loops.auto_local import assign_auto
from polyloop.transform.loops.reorder import PrioritizeLoops
from polyloop.transform.loops.split import SplitIname
from polyloop.transform.loops.tag import TagInames, parallel_violations
from polyloop.transform.parameters import InsnMatch, Pairs, pairs
from polyloop.verification.matrix_instructions import factor, matrix_problems

__all__ = ["Tensorize"]


def _declared(intrinsic: str | MatrixIntrinsic) -> str:
    """Return the name of an intrinsic, which is in the table then."""
    if isinstance(intrinsic, str):
        return intrinsic
    declare_intrinsic(intrinsic)
    return intrinsic.name


@dataclass(frozen=True)
class Tensorize(Transform):
    """Let whole warps add up products of small matrices by one instruction: tensor cores.

    ::

        for i in [0, 16): for j in [0, 8):
            c[i, j] = sum(k, a[i, k]*b[k, j])       k in [0, 16)
        ->
        lane (4*(i % 8) + j/2) of a warp has c[i, j] in register 2*(i/8) + j%2, and adds to its registers by
        mma.sync.aligned.m16n8k16, for which the lanes load a and b as it wants them: by ldmatrix, if a tile in
        shared memory has rows of whole, aligned pieces of 16 bytes, otherwise element by element

    >>> knl = pl.make_kernel(
    ...     "{[i, j, k]: 0 <= i < 16 and 0 <= j < 8 and 0 <= k < 16}",
    ...     "c[i, j] = sum(k, a[i, k]*b[k, j]) {id=product}",
    ...     [pl.GlobalArg("a, b", np.float16), pl.GlobalArg("c", np.float32)],
    ... )
    >>> print(body(knl.tensorize("id:product", "mma_m16n8k16_f16"), "cuda"))
    const int tx = threadIdx.x;
    const int j_lane = tx % 4, i_lane = tx / 4;
    ...
    const int a_offset = i_lane * 16 + 2 * j_lane;
    a_frag[0] = pack(a[a_offset].bits, a[a_offset + 1].bits);
    ...
    mma_m16n8k16_f16(acc[0][0], acc[0][1], acc[1][0], acc[1][1], a_frag, b_frag);
    ...

    Parameters
    ----------
    insns
        Instructions with one sum of products of two elements, as a match expression.
    intrinsic
        Name in the table of intrinsics (``mma_m16n8k16_f16``, ``mma_m16n8k16_bf16``, ``mma_m16n8k8_tf32``,
        ``mma_m16n8k8_f64``, ``wgmma_m64n256k16_bf16``, ..), or an intrinsic, which comes into the table.  Four warps
        carry ``wgmma`` out, with operands in shared memory: rows of 128 bytes, :func:`swizzle` by ``(3, 3, 3)``.
        ``wgmma_m64n256k8_tf32`` reads tiles of float32 by rows of k, swizzled by ``(3, 2, 3)``, of which it takes 11
        bits: it cuts the others off, unless a copy engine has rounded them (``pipeline(.., via="tma")``).
        Elements of 8 bits are read by rows of k, too, swizzled by ``(3, 4, 3)``: ``wgmma_m64n256k32_e4m3``,
        ``.._e5m2``, ``.._s8``, ``.._u8``, and ``mma_m16n8k32_e4m3`` and so on for warps.
    inames
        Subscript ``i``, ``j`` or ``k`` of the intrinsic -> the iname that it is, where several have its extent.
    ahead
        Whether the operands of one step are loaded while the products of the step before are added up, across barriers
        too.  It takes twice the registers for operands, and an even number of steps: iterations of the one unrolled
        loop that both operands depend on.
    lag
        Iterations of the loop around that products run on before they are waited for (``wgmma``): the tensor cores
        have work while the next iteration begins.  Operands stay in their buffers as long, so :func:`pipeline`, called
        afterwards, fetches as many iterations less ahead; behind the loop all products are waited for.
    from_registers
        Whether the first operand comes from registers: a temporary, of which each lane has computed the elements that
        it multiplies.  That is so for what is computed of the results of a product of the same rows, as in attention.
        Divide the axes of the temporary where the loops are divided (:func:`split_array_axis`).

    Returns
    -------
    LoopKernel
        The inames ``i`` and ``j`` are split into ``.._lane``, on digits of the thread number, and ``.._reg``; warps
        and tiles are a matter of the loops around them.  Where sizes are no multiples, zeros are loaded.

    Raises
    ------
    TransformError
        ``unknown-intrinsic``, ``unknown-instruction``; ``bad-tensorize``: no iname with the right number of values,
        other types than the intrinsic has, products of integers that wrap, operands in private memory, a sum whose
        terms depend on i, j and k together, terms that are ordered, a lag of an instruction that is waited for at once,
        or a first operand from registers of which other lanes have elements;
        ``product-under-way``: with a lag, something else uses a sum while products add to it, with two instances;
        ``priority-conflict``, and what :func:`tag_inames` raises.

    Notes
    -----
    The order in which terms are added is that of the intrinsic; ``mma_m16n8k8_tf32`` rounds its operands to 11 bits.
    Integers are multiplied as int32: a factor is ``cast(int32, a[i, k])``.  Hopper keeps about 14 bits of a sum of
    products of floating-point numbers of 8 bits ("DeepSeek-V3 Technical Report", https://arxiv.org/abs/2412.19437).
    Targets without the instruction add up as the kernel says, and an older device than the intrinsic asks for is
    refused.  Code generation checks the loops again, after later transforms.  Source: PTX ISA, "Warp Level Matrix
    Multiply-Accumulate Instructions" and "Asynchronous Warpgroup Level Matrix Instructions".
    """

    insns: InsnMatch
    intrinsic: Annotated[str, Takes(str | MatrixIntrinsic, _declared), Names.NOTHING]
    _: KW_ONLY
    inames: Annotated[Pairs, Takes(Mapping[str, str] | None, pairs), Names.NOTHING, Keyed(Names.INAME)] = ()
    ahead: bool = False
    lag: int = 0
    from_registers: bool = False

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        if self.intrinsic not in INTRINSICS:
            yield unknown_name("intrinsic", self.intrinsic, INTRINSICS)
            return
        if found := tuple(match_violations(kernel, [self.insns], self.name)):
            yield from found
            return
        if found := tuple(self._option_violations()):
            yield from found
            return
        for instruction in meant(kernel, self.insns, self.name):
            chosen = self._axes(kernel, instruction)
            if isinstance(chosen, Diagnostic):
                yield chosen
                return
        present = kernel
        for split in self._splits(kernel):
            if found := tuple(split.violations(present)):
                yield from found
                return
            present = split.rewrite(present)
        divided = self._divided(kernel)
        for order in self._orders(kernel, divided):
            if found := tuple(order.violations(divided)):
                yield found[0]
                return

    def _option_violations(self) -> Iterator[Diagnostic]:
        if self.ahead and self._value().is_shared:
            title = f"{self.intrinsic} loads no operands: it reads them from shared memory"
            yield Diagnostic("bad-tensorize", title, hints=("leave out 'ahead', and fetch ahead: pl.pipeline",))
        elif self.lag < 0 or (self.lag and not self._value().is_shared):
            title = f"{self.intrinsic} cannot be waited for {self.lag} iterations later"
            hint = "leave out 'lag'; products of operands in shared memory (wgmma) run on, by 1 iteration or more"
            yield Diagnostic("bad-tensorize", title, hints=(hint,))

    def _value(self) -> MatrixIntrinsic:
        return INTRINSICS[self.intrinsic]

    def _axes(self, kernel: LoopKernel, instruction: Instruction) -> dict[str, str] | Diagnostic:
        """Return the inames that the subscripts i, j and k are, or why there are none."""
        found = reductions(expand_rules(instruction.expression, kernel.substitutions))
        term = found[0].expr if len(found) == 1 else None
        if instruction.matrix is not None or not isinstance(term, p.Product) or len(term.children) != 2:
            has = "is carried out by one already" if instruction.matrix else "is no sum of products of two elements"
            return self._refused(instruction, f"it {has}", "leave one sum(k, a[i, k]*b[k, j]) in the instruction")
        left, right = (factor(part, self._value()) for part in term.children)
        if not isinstance(left, p.Subscript) or not isinstance(right, p.Subscript):
            return self._refused(instruction, "its factors are no elements", "compute the factors beforehand")
        orders = ((left, right), (right, left))
        tried = [self._matched(kernel, instruction, found[0].inames, a, b) for a, b in orders]
        return next((entry for entry in tried if not isinstance(entry, Diagnostic)), tried[0])

    def _matched(
        self, kernel: LoopKernel, instruction: Instruction, own: Sequence[str], a: p.Subscript, b: p.Subscript
    ) -> dict[str, str] | Diagnostic:
        left, right = variables(a), variables(b)
        roles = {
            "i": [x for x in instruction.inames if x in left - right],
            "j": [x for x in instruction.inames if x in right - left],
            "k": [x for x in own if x in left & right],
        }
        chosen: dict[str, str] = {}
        for axis, candidates in roles.items():
            extent = self._value().extents[axis]
            wish = dict(self.inames).get(axis)
            fits = [x for x in candidates if _is_free(kernel, x) and _extent(kernel, x) == extent]
            fits = [x for x in fits if x == wish] if wish else _innermost(fits, b if axis == "j" else a)
            if not fits and not wish and self._divided_before(kernel, axis, candidates):
                chosen[axis] = ""
            elif len(fits) != 1:
                what = {"i": "a, and not b,", "j": "b, and not a,", "k": "a and b"}[axis]
                listed = ", ".join(f"'{x}' of {_extent(kernel, x) or 'unknown length'}" for x in candidates) or "none"
                has = "several inames" if fits else "no iname"
                text = f"{has} of {extent} values, from 0 on and on no axis, by which {what} is subscripted: {listed}"
                hint = f"split one by {extent}: the inner iname is {axis} of the intrinsic"
                return self._refused(instruction, text, f"say which: inames={{'{axis}': ..}}" if fits else hint)
            else:
                chosen[axis] = fits[0]
        return chosen

    def _divided_before(self, kernel: LoopKernel, axis: str, candidates: Sequence[str]) -> list[tuple[str, Part]]:
        """Return the digits, among *candidates*, into which another instruction has divided the subscript already."""
        own = [part for part in self._value().layout("d") if part.axis == axis]
        for instruction in kernel.instructions:
            if instruction.matrix is None or axis == "k":
                continue
            pairs = instruction.matrix.of(axis)
            parts = [part for part in instruction.matrix.intrinsic.layout("d") if part.axis == axis]
            if parts == own and all(iname in candidates for iname, _ in pairs):
                return [(iname, part) for (iname, _), part in zip(pairs, parts, strict=True)]
        return []

    def _refused(self, instruction: Instruction, note: str, hint: str) -> Diagnostic:
        title = f"'{instruction.id}' cannot be carried out by {self.intrinsic}"
        return Diagnostic("bad-tensorize", title, (note,), (hint,), sites=(instruction.site(),))

    def _chosen(self, kernel: LoopKernel) -> dict[str, dict[str, str]]:
        """Return the inames of each instruction that is meant; "" for a subscript that is divided already."""
        found = {}
        for instruction in meant(kernel, self.insns, self.name):
            axes = self._axes(kernel, instruction)
            assert not isinstance(axes, Diagnostic), "violations were looked at"
            found[instruction.id] = axes
        return found

    def _parts(self, kernel: LoopKernel) -> dict[str, list[tuple[str, Part]]]:
        """Return divided iname -> its lane and register inames, from the lowest digit on."""
        found: dict[str, list[tuple[str, Part]]] = {}
        for axes in self._chosen(kernel).values():
            for axis in "ij":
                if not axes[axis]:
                    continue
                parts = [part for part in self._value().layout("d") if part.axis == axis]
                names = [f"{axes[axis]}_{'lane' if part.in_lane else 'reg'}" for part in parts]
                numbered = [name if names.count(name) == 1 else f"{name}_{n}" for n, name in enumerate(names)]
                if len(parts) > 1:
                    found[axes[axis]] = list(zip(numbered, parts, strict=True))
                else:
                    found[axes[axis]] = [(axes[axis], parts[0])]
        return found

    def _digits(self, kernel: LoopKernel, name: str, axis: str) -> list[tuple[str, Part]]:
        """Return the lane and register inames of a subscript of an instruction, from the lowest digit on."""
        chosen = self._chosen(kernel)[name][axis]
        return self._parts(kernel)[chosen] if chosen else self._divided_before(
            kernel, axis, kernel.instruction(name).inames)

    def _splits(self, kernel: LoopKernel) -> Iterator[SplitIname]:
        for iname, parts in self._parts(kernel).items():
            left = iname
            for number, (name, part) in enumerate(parts[:-1]):
                rest = parts[-1][0] if number == len(parts) - 2 else f"{iname}_rest_{number}"
                yield SplitIname(left, part.extent, outer_iname=rest, inner_iname=name, do_tagged_check=False)
                left = rest

    def _tags(self, kernel: LoopKernel) -> tuple[tuple[str, str], ...]:
        tags = []
        wide = self._wide(kernel)
        for iname, parts in self._parts(kernel).items():
            for name, part in parts:
                digit = f"l/{part.place}%{part.extent}" if part.place > 1 else f"l%{part.extent}"
                register = "vec" if part.stride == 1 and iname in wide else "unr"
                tags.append((name, digit if part.in_lane else register))
        return tuple(tags)

    def _wide(self, kernel: LoopKernel) -> set[str]:
        """Return the inames along which neighbouring results may be neighbours in memory; j where rows are stored."""
        found = set()
        for name, axes in self._chosen(kernel).items():
            target = kernel.instruction(name).assignee
            last = variables(target.index_tuple[-1]) if isinstance(target, p.Subscript) else frozenset()
            found.add(axes["i"] if axes["i"] in last and axes["j"] not in last else axes["j"])
        return found

    def _divided(self, kernel: LoopKernel) -> LoopKernel:
        tags = TagInames(self._tags(kernel), force=True)
        for split in self._splits(kernel):
            kernel = split.rewrite(kernel)
        return tags.rewrite(kernel)

    def _orders(self, kernel: LoopKernel, divided: LoopKernel) -> Iterator[PrioritizeLoops]:
        """Yield loop priorities: register loops and k innermost, k outside of the register loops."""
        made = {axes["k"] for axes in self._chosen(kernel).values()}
        digits = (entry for name in self._chosen(kernel) for axis in "ij" for entry in self._digits(kernel, name, axis))
        made |= {name for name, part in digits if not part.in_lane and isinstance(divided.tag(name), Unroll)}
        for instruction in meant(divided, self.insns, self.name):
            for term in instruction.terms:
                inner = [x for x in term.inames if x in made]
                for x in loop_order(term.inames, divided.loop_priority):
                    if x not in inner and isinstance(divided.tag(x), Sequential | Unroll):
                        yield from (PrioritizeLoops((x, y)) for y in inner)
                k = [x for x in inner if x not in instruction.inames]
                yield from (PrioritizeLoops((*k, x)) for x in inner if x not in k)
                if self._value().is_shared:  # the registers of results are one stretch of an array, in their order
                    yield PrioritizeLoops((*k, *self._by_register(kernel, instruction.id)))

    def _by_register(self, kernel: LoopKernel, name: str) -> Iterator[str]:
        """Yield the register inames of an instruction, that of the highest digit of the register first."""
        found = [entry for axis in "ij" for entry in self._digits(kernel, name, axis) if not entry[1].in_lane]
        yield from (iname for iname, _ in sorted(found, key=lambda entry: -entry[1].place))

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        chosen = self._chosen(kernel)
        result = self._divided(kernel)
        for order in self._orders(kernel, result):
            result = order.rewrite(result)
        matrices = {
            name: Matrix(
                self._value(),
                (
                    *((axis, tuple((x, part.stride) for x, part in self._digits(kernel, name, axis))) for axis in "ij"),
                    ("k", ((axes["k"], 1),)),
                ),
                self.ahead,
                self.lag,
                self.from_registers,
            )
            for name, axes in chosen.items()
        }
        instructions = tuple(replace(i, matrix=matrices.get(i.id, i.matrix)) for i in result.instructions)
        return replace(result, instructions=instructions)

    def consequences(self, before: LoopKernel, after: LoopKernel) -> Iterable[Diagnostic]:
        if found := tuple(parallel_violations(after, self._tags(before))):
            return found
        return () if waits(_all_violations) else _matrix_violations(after, self._chosen(before))

    def note(self, before: LoopKernel, after: LoopKernel) -> str:
        return "; ".join(f"'{name}': {after.instruction(name).matrix}" for name in self._chosen(before))


def _all_violations(kernel: LoopKernel) -> Iterable[Diagnostic]:
    return _matrix_violations(kernel, [i.id for i in kernel.instructions if i.matrix is not None])


def _matrix_violations(kernel: LoopKernel, chosen: Container[str]) -> Iterable[Diagnostic]:
    """Return the reasons why matrix instructions cannot compute *chosen* instructions, or their sums cannot wait."""
    placement = place(with_lanes(assign_auto(kernel)))
    instructions = placement.program.kernel.instructions
    problems = (matrix_problems(placement, i) for i in instructions if i.id in chosen)
    return tuple(chain.from_iterable(problems)) or findings(kernel, sum_obligations(placement))


def _is_free(kernel: LoopKernel, iname: str) -> bool:
    return isinstance(kernel.tag(iname), Sequential | Unroll)


def _innermost(inames: Sequence[str], element: p.Subscript) -> list[str]:
    """Return the inames that advance one element along an axis of *element*; all of *inames* if none does."""
    forms = [form for index in element.index_tuple if (form := affine_of(index)) is not None]
    return [x for x in inames if any(form.coefficient(x) == 1 for form in forms)] or list(inames)


def _extent(kernel: LoopKernel, iname: str) -> int | None:
    """Return the extent of an iname that begins at 0 and has constant bounds, otherwise None."""
    low, high = iname_range(kernel, iname)
    return high + 1 if low == 0 and high is not None else None

"""Matrix instructions: loads of operand fragments by whole warps, and the instructions that multiply them.

A statement with a :class:`~polyloop.schedule.plan.Tensor` is printed together with the unrolled loops around it.  In
each iteration of the loops on which both operands depend, the fragments of both operands are loaded, and products are
accumulated: those of this iteration, or with operands loaded ahead, those of the iteration before.  Elements that
belong to no term are loaded as zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import repeat
from math import prod
from typing import Final

import pymbolic.primitives as p

from polyloop.codegen.device.entries import MOST_PENDING, Boxes, Matrices, SharedMatrices
from polyloop.codegen.device.helpers import helper_text
from polyloop.codegen.device.shared_operands import GROUP_BYTES, SharedTile, at_zero, distance, shared_tile
from polyloop.codegen.device.tensors import Operand, reach_of
from polyloop.codegen.expressions.conversions import bits
from polyloop.codegen.expressions.expressions import Expressions
from polyloop.codegen.expressions.linear import condition_text, form_text
from polyloop.codegen.loops.bounds import minimal
from polyloop.codegen.loops.context import Context
from polyloop.codegen.loops.rows import pieces_of, tightened
from polyloop.codegen.loops.vector_access import wide_access
from polyloop.codegen.scope import Scope
from polyloop.codegen.tree import c_expr as c
from polyloop.codegen.tree.c_ast import Assign, Block, Call, Declare, For, If, Node
from polyloop.codegen.tree.c_expr import Code
from polyloop.codegen.tree.divergence import MATRIX
from polyloop.errors import CodegenError, Diagnostic
from polyloop.expr.dtypes import DType, is_integer, is_narrow
from polyloop.expr.nodes import Expression, array_name
from polyloop.expr.rewrite import substitute
from polyloop.kernel.arrays import AddressSpace
from polyloop.kernel.intrinsic import BUILT_IN, MatrixIntrinsic, Part
from polyloop.kernel.tree import Group
from polyloop.mapping.contiguity import Lanes, why_not_wide
from polyloop.mapping.mixed_radix import Digit
from polyloop.poly.affine import Affine, affine_of, to_expression
from polyloop.schedule.plan import Share, Statement, Tensor
from polyloop.schedule.storage import Storage

__all__ = ["group_of_products", "matrix_block", "publication"]

_ROWS: Final = 8
"""Rows of the matrices that ``ldmatrix`` loads; each has 16 bytes."""
_ROW_BYTES: Final = 16
_PAIR_BYTES: Final = 8
_WORD_BYTES: Final = 4


def matrix_block(expressions: Expressions, statement: Statement, context: Context) -> Block:
    """Return the loads and matrix instructions of a statement."""
    return tuple(_Printer(expressions, statement, context).block())


def publication(scope: Scope) -> Call:
    """Return the call that lets matrix instructions and copy engines see what a thread has stored, after a barrier."""
    lines, wish = scope.language.need(Boxes).publish, "publish_stores"
    return Call(c.Apply(scope.shared_helper(wish, wish, lambda: helper_text(scope, lines, wish)), ()), "")


def group_of_products(scope: Scope, group: Group) -> Node:
    """Return the call that ends a group of products, or waits for groups."""
    shared = scope.language.need(SharedMatrices)
    lines, wish = shared.commit, "products_commit"
    if group.arrivals:
        pending = min(group.pending, MOST_PENDING)
        lines, wish = shared.wait(pending), f"products_wait_{pending}"
    return Call(c.Apply(scope.shared_helper(f"{MATRIX}{wish}", wish, lambda: helper_text(scope, lines, wish)), ()), "")


class _Printer:
    """Code of one statement with matrix instructions: operands are loaded into registers, then multiplied."""

    def __init__(self, expressions: Expressions, statement: Statement, context: Context) -> None:
        assert isinstance(statement.action, Tensor), f"'{statement.name}' is no matrix instruction"
        self.expressions = expressions
        self.functions = expressions.scope.language.need(Matrices)
        self.scope: Scope = expressions.scope
        self.statement = statement
        self.tensor: Tensor = statement.action
        self.intrinsic: MatrixIntrinsic = self.tensor.product.intrinsic
        self.id = statement.instruction
        rows = [row for dim, n in self.tensor.boxes.items() for row in _box(dim, n)]
        digits = [row for dim, digit in statement.digits.items() for row in _box(dim, digit.extent)]
        self.context = context.add(rows).add(digits)
        for loop, extent in self.tensor.loops:
            if loop not in self.scope.values:
                self.scope.values[loop] = self.scope.names.fresh(loop)
            self.scope.findings.magnitudes.define(loop, ((Affine((), extent),),), 0)
        self.a, self.b = Operand("a", self.tensor), Operand("b", self.tensor)
        dims = frozenset(self.tensor.original.dims)
        pieces = pieces_of(self.tensor.original, dims, self.scope.divisibility)
        rest = [[r for t, c in piece.items() if not self.context.implies(r := Affine(t, c))] for piece in pieces]
        self.is_full = not all(rest)
        self.rest = rest

    def block(self) -> Iterator[Node]:
        """Yield the code of the statement, with separate code for full tiles if elements may be missing."""
        share = self.tensor.share
        if self.intrinsic.is_shared:
            around = {Share.FIRST: self.shared_first, Share.WAIT: self.shared_wait}
            yield from around.get(share, self.shared_products)()
            return
        if share is Share.FIRST or share is Share.LAST:
            yield from self.first() if share is Share.FIRST else self.last()
            return
        if self.is_full or share is Share.PRODUCTS:
            yield from self.tile()
            return
        partial = tuple(self.tile())
        rows = self.full_rows()
        if rows is None:
            yield from partial
            return
        self.is_full = True
        yield If(condition_text(rows, self.scope, self.context), tuple(self.tile()), partial)

    def full_rows(self) -> list[Affine] | None:
        """Return the rows under which no element is missing for a whole warp, None if no rows express it."""
        if len(self.rest) != 1:
            return None
        found: list[Affine] = []
        boxes = self.tensor.boxes
        for row in self.rest[0]:
            if any(not isinstance(var, str) for var, _ in row.terms):
                return None
            least = sum(coefficient * (boxes[str(var)] - 1) for var, coefficient in row.terms
                        if var in boxes and coefficient < 0)  # fmt: skip
            terms = [(var, coefficient) for var, coefficient in row.terms if var not in boxes]
            found.append(tightened(Affine.make(terms, row.const + least)))
        return minimal(found, self.context)

    @cached_property
    def both(self) -> list[tuple[str, int]]:
        """The loops on which both operands depend, or neither."""
        return [(x, n) for x, n in self.tensor.loops if ((x, n) in self.a.loops) == ((x, n) in self.b.loops)]

    def own_loops(self, operand: Operand) -> list[tuple[str, int]]:
        """Return the loops on which one operand depends alone."""
        return [(x, n) for x, n in operand.loops if (x, n) not in self.both]

    @cached_property
    def register(self) -> str:
        """The C type of a register of the operands."""
        return "double" if self.intrinsic.is_double else "unsigned int"

    @cached_property
    def zero(self) -> Code:
        return c.Literal("0.0", 0.0) if self.intrinsic.is_double else c.integer(0)

    def count(self, operand: Operand) -> int:
        """Return the number of registers of an operand."""
        return self.intrinsic.registers(operand.name) // self.intrinsic.per_register

    def tile(self) -> Iterator[Node]:
        """Yield the loops of ``both``, around the loads and products of one iteration."""
        body: list[Node] = []
        share = self.tensor.share
        now: tuple[Code, ...] = ()
        before: tuple[Code, ...] = ()
        if share is not Share.ALL:
            var, two = self.scope.value(self.tensor.step), c.integer(2)
            now = (c.binary(c.MODULO, var, two),)
            before = (c.binary(c.MODULO, c.binary(c.PLUS, var, c.integer(1)), two),)
        for operand in (self.a, self.b) if share is not Share.PRODUCTS else ():
            loops, name = self.own_loops(operand), self.fragment(operand.name)
            if share is Share.ALL:
                body.append(Declare(self.register, name.text, (*(n for _, n in loops), self.count(operand))))
            body += self.loads(operand, c.element(name, *now), loops, self.count(operand))
        if share is not Share.LOADS:
            body += self.products(before)
        yield from self.nested(self.both, body)

    def first(self) -> Iterator[Node]:
        """Yield zeros as the operands of the first step, for which none are loaded ahead."""
        for operand in (self.a, self.b):
            name, loops = self.fragment(operand.name), self.own_loops(operand)
            first = c.element(name, c.integer(1), *self.at(loops))
            each = (
                Assign(c.element(first, c.integer(n)), "=", self.zero, self.id, "", is_constant=True)
                for n in range(self.count(operand))
            )
            yield from self.nested(loops, each)

    def last(self) -> Iterator[Node]:
        """Yield the products of the last step."""
        yield from self.products((c.integer(1),))

    def fragment(self, operand: str) -> Code:
        """Return the variable for the registers of an operand, the same wherever the statement is printed."""
        if operand in self.tensor.fragments:
            return c.Name(self.tensor.fragments[operand], self.tensor.fragments[operand])
        key = f"{self.statement.name}#{operand}"
        if key not in self.scope.values:
            self.scope.values[key] = self.scope.names.fresh(f"{operand}_frag")
        return self.scope.value(key)

    def nested(
        self, loops: Sequence[tuple[str, int]], body: Iterable[Node], steps: Mapping[str, int] | None = None
    ) -> Block:
        """Return *body* in *loops*, all of which are unrolled."""
        out: Block = tuple(body)
        for loop, extent in reversed(loops):
            var = str(self.scope.variable(loop))
            step = (steps or {}).get(loop, 1)
            pragma = self.scope.language.loops.unroll.format(count=extent // step)
            test = c.binary(c.OPERATORS["<"], c.Name(var), c.integer(extent))
            out = (For(self.scope.index_type, var, c.integer(0), test, out, step, pragma),)
        return out

    def products(self, step: Sequence[Code]) -> Block:
        """Return the matrix instructions, in their loops, for the operands of one *step*."""
        registers = [self.accumulator(number) for number in range(self.intrinsic.registers("d"))]
        own = [c.element(self.fragment(x.name), *step, *self.at(self.own_loops(x))) for x in (self.a, self.b)]
        call = Call(c.Apply(self.helper(), (*registers, *own)), self.id)
        return self.nested([(x, n) for x, n in self.tensor.loops if (x, n) not in self.both], [call])

    def shared_products(self) -> Iterator[Node]:
        """Yield the products of operands in shared memory, and a wait for them if they do not run on."""
        shared, count = self.scope.language.need(SharedMatrices), self.intrinsic.registers("d")
        if not self.is_full:
            raise self.refused("some elements of its tiles are in no term", "let the tiles divide the sizes: pl.assume")
        self.check_results(count)
        results = c.Unary(c.ADDRESS, self.accumulator(0))
        is_held = self.is_held(self.a)
        tiles = [self.shared_operand(operand) for operand in (self.a, self.b)[is_held:]]
        along = [tile.along for tile, _, _ in tiles]
        function = self.define(
            f"{self.intrinsic.name}_{'r' * is_held}{''.join(along)}",
            shared.multiply_rows(self.intrinsic, *along) if is_held else shared.multiply(self.intrinsic, *along),
        )
        describe = self.define("tile_descriptor", shared.descriptor)
        places = list[Code]()
        for operand, (tile, place, further) in zip((self.a, self.b)[is_held:], tiles, strict=True):
            described: Code = c.Apply(describe, (place, c.integer(tile.panels), c.integer(tile.rows)))
            if further is not None:  # a descriptor begins with the address [16 bytes]
                base = self.scope.names.fresh(f"{operand.array}_at")
                yield Declare(f"const {shared.descriptor[0].partition(' (')[0]}", base, (), described)
                described = c.binary(c.PLUS, c.Name(base), further)
            places.append(described)
        if is_held:
            self.scope.values.pop(f"{self.statement.name}#a", None)  # iterations that stand side by side have their own
            name, loops = self.fragment("a"), self.a.loops
            registers = prod(part.extent for part in self.a.parts if not part.in_lane) // self.intrinsic.per_register
            yield Declare(self.register, name.text, (*(n for _, n in loops), registers))
            own = c.element(name, *self.at(loops))
            yield from self.nested(loops, self.elementwise(self.a, own, registers))
            places = [own, *places]
        yield Call(c.Apply(self.define("products_begin", shared.begin), ()), self.id)
        yield from self.nested(self.tensor.loops, [Call(c.Apply(function, (results, *places)), self.id)])
        if not self.tensor.product.runs_on:
            yield from self.finished("products_end", shared.finish)

    def shared_first(self) -> Iterator[Node]:
        """Yield the call behind which registers hold what products that run on add to."""
        yield from self.finished("products_ready", self.scope.language.need(SharedMatrices).ready)

    def shared_wait(self) -> Iterator[Node]:
        """Yield the wait for products that run on, behind which their results are used."""
        pending = min(self.tensor.pending, MOST_PENDING)
        complete = self.scope.language.need(SharedMatrices).complete
        yield from self.finished(f"products_done{f'_{pending}' if pending else ''}", partial(complete, pending))

    def finished(self, wish: str, make: Callable[[int, DType], Sequence[str]]) -> Block:
        """Return calls of a function that waits for products, for all results."""
        count, results = self.intrinsic.registers("d"), self.intrinsic.results
        function = self.define(f"{wish}_{self.intrinsic.result_words}", make(count, results))
        own = [(x, n) for x, n in self.tensor.loops if (x, n) not in self.both]
        return self.nested(own, [Call(c.Apply(function, (c.Unary(c.ADDRESS, self.accumulator(0)),)), self.id)])

    def shared_operand(self, operand: Operand) -> tuple[SharedTile, Code, Code | None]:
        """Return the layout of an operand in shared memory, and the address of its first element.

        The third result is None, or a distance [16 bytes], with the loops around the instruction, from an address
        without them.
        """
        storage = self.shared(operand)
        if storage is None:
            where = f"'{operand.array}' is not in shared memory, or shares its place there"
            raise self.refused(where, "fetch it: pl.add_prefetch")
        tile = shared_tile(operand, storage)
        if not isinstance(tile, SharedTile):
            raise self.refused(*tile)
        self.scope.findings.aligned[operand.array] = GROUP_BYTES
        element = self.moved(operand.element, {})
        further = distance(element, storage, [x for x, _ in self.tensor.loops])
        if further is not None:
            element = at_zero(element, further)
        place = c.Unary(c.ADDRESS, self.expressions.unswizzled(element, self.context))
        return tile, place, None if further is None else form_text(further, self.scope, self.context)

    def check_results(self, count: int) -> None:
        """Raise an error unless the results of a thread are neighbours, in the order of the registers."""
        indices = [[affine_of(index) for index in self.result(number).index_tuple] for number in range(count)]
        distances = self.scope.memory.storage[array_name(self.statement.lhs)].distances
        places = [
            sum(form.const * step for form, step in zip(forms, distances, strict=True) if form is not None)
            for forms in indices
        ]
        if [place - places[0] for place in places] != list(range(count)):
            text = "the loops over its results are in another order than its registers"
            raise self.refused(text, "call tensorize after prioritize_loops, and leave the order of its loops")

    def refused(self, note: str, hint: str) -> CodegenError:
        title = f"'{self.id}' cannot be carried out by {self.intrinsic.name}"
        return self.scope.error(Diagnostic("bad-tensorize", title, (note,), (hint,)))

    def result(self, number: int) -> p.Subscript:
        """Return the accumulator that is register *number* of the result, as an element."""
        values: dict[str, Expression] = {}
        for axis in "ij":
            pairs = self.tensor.product.axes[axis]
            parts = (part for part in self.intrinsic.layout("d") if part.axis == axis)
            for (dim, _), part in zip(pairs, parts, strict=True):
                if not part.in_lane:
                    values[dim] = number // part.place % part.extent
        found = substitute(self.statement.lhs, values)
        assert isinstance(found, p.Subscript), "the results of a thread are elements of an array"
        return found

    def accumulator(self, number: int) -> Code:
        """Return the accumulator that is register *number* of the result."""
        target, _, _ = self.expressions.target(self.result(number), self.context)
        return target

    # {{{ loads

    def loads(
        self, operand: Operand, name: Code, loops: Sequence[tuple[str, int]], count: int
    ) -> Block:
        """Return the loads of the fragments of an operand."""
        shape = self.matrices(operand) if self.is_full else None
        if shape is None:
            return self.nested(loops, self.elementwise(operand, c.element(name, *self.at(loops)), count))
        transposed, places = shape
        pairs = loops[-1] if loops and loops[-1][1] % 2 == 0 and len(places) < 2 else None
        steps = {} if pairs is None else {pairs[0]: 2}
        parts = [Part(self.row_axis(operand, transposed=transposed), 1, _ROWS, True, 1)]
        parts += [Part(part.axis, part.stride, 2, True, _ROWS << n) for n, part in enumerate(places)]
        forms = self.forms(parts)
        targets = [c.element(name, *self.at(loops), c.integer(k)) for k in range(count)]
        element = operand.element
        if pairs is not None:
            lane = Affine(((Digit(_ROWS << len(places), 2).axis, 1),))
            value = to_expression(Affine.variable(pairs[0]).add(lane))
            element = substitute(element, {pairs[0]: value})
            targets += [c.element(name, *self.at(loops, pairs[0]), c.integer(k)) for k in range(count)]
        address = self.expressions.element(self.moved(element, forms), self.context)
        function = self.ldmatrix(len(targets), transposed=transposed)
        body: list[Node] = [Call(c.Apply(function, (*targets, c.Unary(c.ADDRESS, address))), self.id)]
        if self.intrinsic.conversion:
            values = [c.Apply(self.converter(), (c.Apply(self.functions.as_float, (target,)),)) for target in targets]
            body += [Assign(*entry, self.id) for entry in zip(targets, repeat("="), values)]
        self.scope.findings.aligned[operand.array] = max(_ROW_BYTES, self.scope.findings.aligned.get(operand.array, 0))
        return self.nested(loops, body, steps)

    def at(self, loops: Sequence[tuple[str, int]], next_of: str = "") -> list[Code]:
        """Return the subscripts of a fragment by *loops*; for the loop *next_of*, of its next iteration."""
        one = c.integer(1)
        return [c.binary(c.PLUS, self.scope.value(x), *([one] if x == next_of else [])) for x, _ in loops]

    def row_axis(self, operand: Operand, *, transposed: bool) -> str:
        """Return the subscript of the rows in memory."""
        rows = next(part.axis for part in operand.parts if part.in_lane and part.place == 4)
        return next(part.axis for part in operand.parts if part.axis != rows) if transposed else rows

    def shared(self, operand: Operand) -> Storage | None:
        """Return the storage of an operand in shared memory of its own, None for others."""
        memory = self.scope.memory
        storage = memory.storage.get(operand.array)
        is_shared = storage is not None and storage.address_space is AddressSpace.LOCAL
        return storage if is_shared and operand.array not in memory.pools else None

    def matrices(self, operand: Operand) -> tuple[bool, list[Part]] | None:
        """Return the arguments of ``ldmatrix`` for a fragment: True to transpose, and the parts that number matrices.

        The result is None if ``ldmatrix`` cannot load the fragment: its rows are 16 bytes in shared memory.
        """
        size = self.intrinsic.operands.itemsize
        storage = self.shared(operand)
        if storage is None:
            return None
        if self.functions.load is None or self.intrinsic.is_double:  # ldmatrix spreads a row over lanes by 4 bytes
            return None
        rows = next((part for part in operand.parts if part.in_lane and part.place == 4), None)
        if rows is None or (rows.stride, rows.extent) != (1, _ROWS):
            return None
        columns = [part for part in operand.parts if part.axis != rows.axis]
        pair = [part for part in columns if not part.in_lane and part.place < self.intrinsic.per_register]
        across = [part for part in columns if part.in_lane]
        if [(x.stride, x.extent) for x in pair] != [(1, 4 // size)][: size < _WORD_BYTES] or [
            (x.stride, x.extent, x.place) for x in across
        ] != [(4 // size, 4, 1)]:
            return None
        places = sorted(
            (Part(x.axis, x.stride << n, 2, False, x.place << n)
             for x in operand.parts if not x.in_lane and x.place >= self.intrinsic.per_register
             for n in range(x.extent.bit_length() - 1)), key=lambda part: part.place)  # fmt: skip
        if len(places) not in {0, 1, 2}:
            return None
        for transposed in (False, True)[: 1 + (size == 2)]:
            fast = rows.axis if transposed else columns[0].axis
            if self.is_row(operand, fast, _ROW_BYTES // size):
                return transposed, places
        return None

    def is_row(self, operand: Operand, axis: str, count: int) -> bool:
        """Return True if *count* elements along a subscript, from a multiple of it on, are contiguous and aligned."""
        storage = self.scope.memory.storage[operand.array]
        if storage.swizzle is not None and not storage.swizzle.keeps(count):
            return False
        along = Affine((("#", count), ("#lane", 1)))
        others = {name: Affine.variable(f"#{name}") for name in "ijk"}
        element = self.moved(operand.element, {**others, axis: along})
        forms = [affine_of(index) for index in element.index_tuple]
        lanes = Lanes("#lane", 0, count)
        if why_not_wide(forms, storage.distances, 0, lanes, count, self.scope.divisibility) is not None:
            return False
        self.scope.findings.wide.append(wide_access(self.scope, self.id, element, lanes, count))
        return True

    def elementwise(self, operand: Operand, target: Code, count: int) -> Iterator[Node]:
        """Yield the registers of a fragment, element by element."""
        each = self.intrinsic.per_register
        if self.is_full and self.is_paired(operand):
            yield from self.pairs(operand, target, count)
            return
        for register in range(count):
            values = [self.value(operand, each * register + n) for n in range(each)]
            value = values[0] if each == 1 else c.Apply(self.packer(), tuple(values))
            yield Assign(c.element(target, c.integer(register)), "=", value, self.id)

    def is_paired(self, operand: Operand) -> bool:
        """Return True if one access to shared memory can load neighbouring registers of 4 bytes in pairs."""
        low = next((part for part in operand.parts if not part.in_lane and part.place == 1), None)
        storage = self.shared(operand)
        if storage is None:
            return False
        is_single = self.intrinsic.operands.itemsize == 4
        return is_single and low is not None and low.stride == 1 and self.is_row(operand, low.axis, 2)

    def pairs(self, operand: Operand, target: Code, count: int) -> Iterator[Node]:
        """Yield the registers of a fragment, two at a time."""
        self.scope.findings.aligned[operand.array] = max(_PAIR_BYTES, self.scope.findings.aligned.get(operand.array, 0))
        for register in range(0, count, 2):
            element = self.moved(operand.element, self.subscripts(operand, register))
            address = self.expressions.element(element, self.context)
            targets = (c.element(target, c.integer(register)), c.element(target, c.integer(register + 1)))
            yield Call(c.Apply(self.pair_loader(), (*targets, c.Unary(c.ADDRESS, address))), self.id)

    def subscripts(self, operand: Operand, number: int) -> dict[str, Affine]:
        """Return the subscripts i, j and k of an element of a fragment."""
        lanes = [part for part in operand.parts if part.in_lane]
        const = dict.fromkeys("ijk", 0)
        for part in operand.parts:
            if not part.in_lane:
                const[part.axis] += part.stride * (number // part.place % part.extent)
        forms = {part.axis: Affine((), 0) for part in operand.parts} | self.forms(lanes)
        return {axis: form.add(Affine((), const[axis])) for axis, form in forms.items()}

    def value(self, operand: Operand, number: int) -> Code:
        """Return one element of a fragment as its register holds it, 0 where there is no term with it."""
        if self.is_held(operand):
            held = self.expressions.element(self.own(operand, number), self.context)
            return bits(self.scope, self.intrinsic.operands, held)
        forms = self.subscripts(operand, number)
        code = self.expressions.element(self.moved(operand.element, forms), self.context)
        if not self.intrinsic.is_double:
            if is_narrow(self.intrinsic.operands):
                code = bits(self.scope, self.intrinsic.operands, code)
            elif not is_integer(self.intrinsic.operands):
                code = c.Apply(self.converter(), (code,))
        condition = None if self.is_full else self.condition(operand, forms)
        return code if condition is None else c.Choice(condition, code, self.zero)

    def is_held(self, operand: Operand) -> bool:
        """Return True if an operand is in the registers of the lanes."""
        return operand.name == "a" and self.tensor.product.from_registers

    def own(self, operand: Operand, number: int) -> p.Subscript:
        """Return the element of an operand in registers that is element *number* of the lane."""
        values: dict[str, Expression] = {}
        const = 0
        results = [part for part in self.intrinsic.layout("d") if part.axis == "i"]
        register = {part.stride: part for part in operand.parts if not part.in_lane and part.axis == "i"}
        for (dim, stride), part in zip(self.tensor.product.axes["i"], results, strict=True):
            own = register.get(stride)
            values[dim] = 0 if part.in_lane or own is None else number // own.place % own.extent
        for part in operand.parts:
            if not part.in_lane and part.axis == "k":
                const += part.stride * (number // part.place % part.extent)
        values |= {dim: const if coefficient == 1 else 0 for dim, coefficient in self.tensor.product.axes["k"]}
        result = substitute(operand.element, values)
        assert isinstance(result, p.Subscript), "an element stays one"
        return result

    def condition(self, operand: Operand, forms: Mapping[str, Affine]) -> Code | None:
        """Return the condition under which some term has an element of an operand, None if one always does."""
        cases = []
        for piece in pieces_of(self.reach(operand), frozenset(self.reach(operand).dims), self.scope.divisibility):
            rows = [Affine(terms, const).substitute({f"#{axis}": form for axis, form in forms.items()})
                    for terms, const in piece.items()]  # fmt: skip
            cases.append([row for row in rows if not self.context.implies(row)])
        if not all(cases):
            return None
        found = [condition_text(case, self.scope, self.context) for case in cases]
        return found[0] if len(found) == 1 else c.binary(c.OR, *map(c.Parentheses, found))

    def reach(self, operand: Operand) -> Statement:
        """Return a statement whose domain has the elements in terms, over ``"#i"`` to ``"#k"`` and other dimensions."""
        return reach_of(self.tensor, operand.name)

    def forms(self, parts: Sequence[Part]) -> dict[str, Affine]:
        """Return the subscripts i, j and k as sums of digits of the lane, with contiguous digits merged."""
        found: dict[str, Affine] = {}
        for axis in {part.axis for part in parts}:
            own = sorted((part for part in parts if part.axis == axis), key=lambda part: part.place)
            joined: list[Part] = []
            for part in own:
                last = joined[-1] if joined else None
                if last and part.place == last.place * last.extent and part.stride == last.stride * last.extent:
                    joined[-1] = Part(axis, last.stride, last.extent * part.extent, True, last.place)
                else:
                    joined.append(part)
            found[axis] = Affine.make([(Digit(part.place, part.extent).axis, part.stride) for part in joined])
        return found

    def moved(self, element: p.Subscript, forms: Mapping[str, Affine]) -> p.Subscript:
        """Return *element* at the subscripts i, j and k in *forms*, or 0 if they are missing there."""
        values: dict[str, Expression] = {}
        for axis, pairs in self.tensor.product.axes.items():
            form = forms.get(axis, Affine((), 0))
            for dim, coefficient in pairs:
                values[dim] = to_expression(form) if coefficient == 1 else 0
        result = substitute(element, values)
        assert isinstance(result, p.Subscript), "an element stays one"
        return result

    # }}}
    # {{{ functions

    def define(self, wish: str, lines: Sequence[str]) -> str:
        """Return the name of a helper function; *lines* are its result type with parameters, then its body."""
        if self.intrinsic.name in BUILT_IN:
            return self.scope.shared_helper(f"{MATRIX}{wish}", wish, lambda: helper_text(self.scope, lines, wish))
        return self.scope.own_helper(f"{MATRIX}{wish}", wish, partial(helper_text, self.scope, lines))

    def helper(self) -> str:
        """Return the name of the function with the matrix instruction."""
        return self.define(self.intrinsic.name, self.functions.multiply(self.intrinsic))

    def ldmatrix(self, count: int, *, transposed: bool) -> str:
        """Return the name of the function that loads some matrices of 8 rows of 16 bytes."""
        assert self.functions.load is not None, "matrices are loaded where there is a function for it"
        wish = f"ldmatrix_x{count}{'_trans' if transposed else ''}"
        return self.define(wish, self.functions.load(count, transposed))

    def packer(self) -> str:
        """Return the name of the function that packs two or four elements into a register."""
        if self.intrinsic.operands.itemsize == 1:
            return self.define("pack_bytes", self.functions.pack_bytes)
        return self.define("pack", self.functions.pack)

    def pair_loader(self) -> str:
        """Return the name of the function that loads two neighbours as operands."""
        convert = self.converter()
        wish = f"{convert}_pair" if self.intrinsic.conversion else "load_pair"
        return self.define(wish, self.functions.pair(convert))

    def converter(self) -> str:
        """Return the name of the function that converts a float to an operand."""
        conversion = self.intrinsic.conversion
        if not conversion:
            return self.functions.as_register
        return self.define(f"to_{conversion.split('.')[-2]}", self.functions.convert(self.intrinsic))

    # }}}


def _box(dim: str, extent: int) -> tuple[Affine, Affine]:
    return Affine(((dim, 1),), 0), Affine(((dim, -1),), extent - 1)

"""Loops over the lanes of one statement: vector loads, the arithmetic of each lane, a vector store."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import chain, count
from typing import TypeAlias

from polyloop.codegen.assignments import Assignments
from polyloop.codegen.device.async_copy import start_text
from polyloop.codegen.device.entries import Atomics, Copies, Loads
from polyloop.codegen.expressions.elements import is_read_once
from polyloop.codegen.expressions.linear import condition_text, union_text
from polyloop.codegen.loops.bounds import Bounds, minimal
from polyloop.codegen.loops.context import Context
from polyloop.codegen.loops.loops import Loops
from polyloop.codegen.loops.rows import negated, tightened
from polyloop.codegen.loops.vector_access import Key, Plan, Wide, at_once, plans_of, vector_type
from polyloop.codegen.loops.zero_fill import copied_rows_of_lanes
from polyloop.codegen.tree import c_expr as c
from polyloop.codegen.tree.branches import keeps, one_rest
from polyloop.codegen.tree.c_ast import Assign, Block, Call, Declare, For, If, Node
from polyloop.codegen.tree.c_expr import Code
from polyloop.errors import Diagnostic
from polyloop.expr.nodes import CText, array_name, targets_of
from polyloop.expr.rewrite import accesses, variables
from polyloop.frozen import replace
from polyloop.kernel.arrays import AddressSpace
from polyloop.kernel.tags import Vectorize
from polyloop.kernel.tree import Loop, Run, Tree
from polyloop.kernel.tree import Node as TreeNode
from polyloop.mapping.contiguity import MOST_BYTES, Lanes, element_reads
from polyloop.poly.affine import Affine, Floor
from polyloop.schedule.plan import Assign as PlainAssign
from polyloop.schedule.plan import Atomic, StartCopy, Statement

__all__ = ["LaneLoops", "merged", "not_on_vectors"]

Vector: TypeAlias = tuple[str, tuple[str, ...]]
"""The variable that holds a vector, and the names of its components; none if they are ``.e[..]``."""

_LINES = 4
"""Limit on the lanes that are written out; more lanes get a loop."""


class LaneLoops:
    """Loops over the lanes of vectors: whole vectors if possible, single lanes otherwise."""

    def __init__(self, loops: Loops, assignments: Assignments) -> None:
        self.loops = loops
        self.assignments = assignments
        self.expressions = assignments.expressions
        self.scope = loops.scope
        self.statements = loops.statements
        self.plans: dict[tuple[str, Lanes], tuple[Plan, ...]] = {}
        self.vectors: dict[int, dict[tuple[object, ...], str]] = {}
        self.vector_names: set[str] = set()
        written = {array_name(target) for s in self.statements.values() for target in targets_of(s.lhs)}
        self.inputs = self.scope.memory.arrays.keys() - written

    def without(self, tree: Tree) -> Tree:
        """Return *tree* without loops over the lanes of vectors, which do not make a separation of full tiles pay."""
        out: list[TreeNode] = []
        for node in tree:
            if isinstance(node, Loop):
                body = self.without(node.body)
                is_vector = isinstance(self.loops.forms.tags.get(node.iname), Vectorize)
                out += body if is_vector else (Loop(node.iname, body),)
            else:
                out.append(node)
        return tuple(out)

    def loop(
        self, node: Loop, bounds: Bounds, context: Context, inside: Context, inner: frozenset[str]
    ) -> Block:
        """Return a loop over lanes: whole vectors at once if possible, partial ones lane by lane."""
        plans = self._plans(node)
        if any(self._is_filled_by_lane(node, plan, context) for plan in plans):
            return self.loops.unrolled(node, bounds, context, inside, inner)
        full = self._full_rows(plans, node, context) if plans else None
        if full is None:
            if plans:
                self._tell(node, "which lanes run depends on a quotient or a union of domains")
            return self.loops.unrolled(node, bounds, context, inside, inner)
        if any(context.implies(negated(row)) for row in full):
            return self._lane_by_lane(node, bounds, context, inside, inner)
        each = full
        full = minimal([row for row in full if not context.implies(row)], context)
        wide = tuple(chain.from_iterable(self._vectors(node, plan, context.add(full)) for plan in plans))
        if not full:
            return wide
        if self._full_rows(plans, node, context, for_one=True) == each:  # all lanes run, or none
            return (If(condition_text(full, self.scope, context), wide, (), is_choice=True),)
        rest = context.add([negated(full[0])]) if len(full) == 1 else context
        by_lane = self._lane_by_lane(node, bounds, rest, rest.add(bounds.facts), inner)
        return (If(condition_text(full, self.scope, context), wide, by_lane, is_choice=True),)

    def _is_filled_by_lane(self, node: Loop, plan: Plan, context: Context) -> bool:
        """Return True if a copy with zero fill must run lane by lane."""
        assert isinstance(node.body[0], Run), "a plan is made for one statement"
        statement = self.statements[node.body[0].name]
        if statement.copied is None:
            return False
        if not self._is_copied(statement, plan):
            return True
        copies, store = self.scope.language.find(Copies), plan.store
        assert store is not None, "a copy stores what it loads"
        if isinstance(statement.action, StartCopy):
            is_known = copies is not None and store.dtype.itemsize * plan.lanes.count in copies.starts
        else:
            is_known = store.dtype.itemsize * plan.lanes.count <= MOST_BYTES
        return not is_known or copied_rows_of_lanes(self.scope, statement, plan.lanes, context) is None

    def _is_copied(self, statement: Statement, plan: Plan) -> bool:
        """Return True if a statement only copies a vector."""
        store = plan.store
        is_copy = store is not None and len(plan.loads) == 1 and statement.rhs is plan.loads[0].access
        return is_copy and store is not None and plan.loads[0].dtype == store.dtype

    def _plans(self, node: Loop) -> tuple[Plan, ...]:
        """Return the plans of vector accesses for a loop over lanes, none if there are no vector accesses."""
        if len(node.body) != 1 or not isinstance(node.body[0], Run):
            return ()
        statement = self.statements[node.body[0].name]
        if statement.collective is not None:
            return ()
        low, high = self.loops.static_box(node)
        if low is None or high is None:
            return ()
        lanes = Lanes(node.iname, low, high - low + 1)
        if node.iname in self.loops.constants and lanes.count > _LINES:
            return ()
        if reason := _apart(statement, lanes) or self._not_updated_at_once(statement, lanes):
            self._tell(node, reason)
            return ()
        key = (statement.name, lanes)
        if key not in self.plans:
            plans = plans_of(self.scope, _assigned(statement), lanes)
            is_wide = any(plan.loads or plan.store for plan in plans)
            if isinstance(statement.action, StartCopy):  # no registers hold the vector, so it cannot be taken apart
                is_wide = all(plan.loads and plan.store for plan in plans)
            elif isinstance(statement.action, Atomic):
                is_wide = all(plan.store for plan in plans)
            self.plans[key] = plans if is_wide else ()
        return self.plans[key]

    def _not_updated_at_once(self, statement: Statement, lanes: Lanes) -> str:
        """Return the reason for which the lanes of an atomic update run one by one, empty if there is none."""
        if not isinstance(statement.action, Atomic) or self._wide_update(statement, lanes):
            return ""
        return "an atomic update is of a single element"

    def _wide_update(self, statement: Statement, lanes: Lanes) -> str:
        """Return the call that updates the elements of all lanes atomically, empty if there is none."""
        name, atomics = array_name(statement.lhs), self.scope.language.find(Atomics)
        storage = self.scope.memory.storage.get(name)
        is_global = storage is None or storage.address_space is AddressSpace.GLOBAL
        if atomics is None or not is_global or not isinstance(statement.action, Atomic):
            return ""
        dtype = self.scope.types.of_names[name]
        assert dtype is not None, "an element that is updated has a type"
        return atomics.wide.get((statement.action.operation, dtype.name, lanes.count), "")

    def _tell(self, node: Loop, reason: str) -> None:
        """Record a note that a statement runs lane by lane."""
        assert isinstance(node.body[0], Run), "a reason is given for one statement"
        name = self.statements[node.body[0].name].instruction
        self.scope.findings.notes[name, ""] = not_on_vectors(name, reason)

    def _full_rows(
        self, plans: Sequence[Plan], node: Loop, context: Context, *, for_one: bool = False
    ) -> list[Affine] | None:
        """Return the rows under which all lanes run, without those that *context* implies; None if no rows express it.

        With *for_one*, return the rows without which no lane runs.
        """
        assert isinstance(node.body[0], Run), "a plan is made for one statement"
        statement = self.statements[node.body[0].name]
        pieces = self.loops.pieces(statement.name, frozenset(statement.dims))
        if len(pieces) != 1:
            return None
        first, last = plans[0].lanes, plans[-1].lanes
        name, low, high = first.iname, first.low, last.low + last.count - 1
        within = context.add(_box(Lanes(name, low, high - low + 1)))
        found: dict[Affine, None] = {}
        for terms, const in pieces[0].items():
            row = Affine(terms, const)
            if within.implies(row):
                continue
            if any(isinstance(var, Floor) and name in Affine(var.terms, 0).names() for var, _ in terms):
                return None
            step = row.coefficient(name)
            limit = low if (step > 0) is not for_one else high
            found[tightened(row.substitute({name: Affine((), limit)}))] = None
        return list(found)

    def _lane_by_lane(
        self, node: Loop, bounds: Bounds, context: Context, inside: Context, inner: frozenset[str]
    ) -> Block:
        """Return a loop over lanes, some of which may not run.

        The loop is unrolled if each lane has a register, because registers have no addresses.
        """
        assert isinstance(node.body[0], Run), "a plan is made for one statement"
        statement = self.statements[node.body[0].name]
        is_constant = node.iname in self.loops.constants or self._uses_registers(statement, node.iname)
        if is_constant or bounds.stride is not None:
            found = self.loops.unrolled(node, bounds, context, inside, inner)
        else:
            bounds = self.loops.sure_bounds(node, context, inner - {node.iname})
            upper = tuple(_least(forms, context) for forms in bounds.upper)
            found = self.loops.plain(node, replace(bounds, upper=upper), context, context.add(bounds.facts), inner)
        return tuple(replace(loop, is_rest=True) if isinstance(loop, For) else loop for loop in found)

    def _uses_registers(self, statement: Statement, lane: str) -> bool:
        """Return True if a statement subscripts a private array by its lane."""
        for part in (statement.lhs, statement.rhs, *statement.predicates):
            for access in accesses(part):
                storage = self.scope.memory.storage.get(array_name(access))
                if storage is not None and storage.address_space is AddressSpace.PRIVATE and lane in variables(access):
                    return True
        return False

    # {{{ full vectors

    def _vectors(self, node: Loop, plan: Plan, context: Context) -> Block:
        """Return the statement for all lanes at once."""
        assert isinstance(node.body[0], Run), "a plan is made for one statement"
        statement = self.statements[node.body[0].name]
        self.scope.fast = statement.fast
        values = self.scope.values
        saved = values[plan.lanes.iname]
        self.scope.findings.wide += at_once(self.scope, statement, plan)
        body = self._copied(statement, plan, context) or self._computed(statement, plan, context, str(saved))
        values[plan.lanes.iname] = saved
        if not statement.predicates:
            return body
        condition = c.conjunction([self.expressions.value(part, context) for part in statement.predicates])
        return (If(condition, body),)

    def _copied(self, statement: Statement, plan: Plan, context: Context) -> Block:
        """Return a copy of a vector as one assignment; empty if the statement does more than copy."""
        store = plan.store
        if store is None or not self._is_copied(statement, plan):
            return ()
        self.scope.values[plan.lanes.iname] = plan.lanes.low
        if isinstance(statement.action, StartCopy) and (start := self._started(statement, plan, context)) is not None:
            return (start,)
        value = self._element(plan.loads[0], plan.lanes, context, "const ")
        if (condition := self._copied_where(statement, plan, context)) is not None:
            ctype, parts = vector_type(self.scope, store, plan.lanes)
            built_in = self.scope.language.vectors
            form = "{type}{{}}" if built_in is None else built_in.nothing if parts else built_in.empty
            value = c.Choice(condition, value, c.Raw(form.format(type=ctype)))
        return (self._stored(statement, self._element(store, plan.lanes, context), value, plan.lanes),)

    def _stored(self, statement: Statement, target: Code, value: Code, lanes: Lanes) -> Assign | Call:
        """Return the store of a vector, or the update by it."""
        if isinstance(statement.action, Atomic):
            pointer = target.operand if isinstance(target, c.Unary) else c.Unary(c.ADDRESS, target)
            update = self._wide_update(statement, lanes)
            return Call(c.Template(update, (pointer, value)), statement.instruction)
        return Assign(target, "=", value, statement.instruction)

    def _copied_where(self, statement: Statement, plan: Plan, context: Context) -> Code | None:
        """Return the condition of a copy with zero fill, None if the vector is always copied."""
        if statement.copied is None:
            return None
        cases = copied_rows_of_lanes(self.scope, statement, plan.lanes, context)
        assert cases is not None, "it was found that all lanes copy, or none"
        return union_text(cases, self.scope, context) if all(cases) else None

    def _started(self, statement: Statement, plan: Plan, context: Context) -> Call | None:
        """Return the start of an asynchronous copy of a vector, None if none of its size exists."""
        assert plan.store is not None, "a copy stores what it loads"
        size = plan.store.dtype.itemsize * plan.lanes.count
        source, target = (self._place(wide, context) for wide in (plan.loads[0], plan.store))
        condition = self._copied_where(statement, plan, context)
        call = start_text(self.scope, target, source, size, condition)
        return None if call is None else Call(call, statement.instruction)

    def _place(self, wide: Wide, context: Context) -> Code:
        """Return the element of the first lane, or the vector of which it is a component."""
        name = array_name(wide.access)
        place = self.expressions.element(wide.access, context)
        if wide.is_element:
            assert isinstance(place, c.Member), "lanes are components"
            place = place.base
        else:
            self.scope.findings.aligned[name] = max(wide.alignment, self.scope.findings.aligned.get(name, 1))
        return place

    def _element(self, wide: Wide, lanes: Lanes, context: Context, const: str = "") -> Code:
        """Return the vector that begins at the element of the first lane."""
        place = self._place(wide, context)
        if wide.is_element:
            return place
        ctype, parts = vector_type(self.scope, wide, lanes)
        space = self.scope.space_of(array_name(wide.access))
        pointer = c.Cast(f"{space}{const}{ctype} *", c.Unary(c.ADDRESS, place))
        if const and parts and is_read_once(self.scope, array_name(wide.access)):
            return c.Apply(self.scope.language.need(Loads).once, (pointer,))
        return c.Unary(c.TARGET, pointer)

    def _computed(self, statement: Statement, plan: Plan, context: Context, var: str) -> Block:
        """Return vector loads, the statement for each lane, and the vector store."""
        lanes, out = plan.lanes, list[Node]()
        self.scope.values[lanes.iname] = lanes.low
        held: dict[Key, Vector] = {}
        made: Vector | None = None
        store, last, declared = plan.store, list[Node](), set[str]()
        names = [self._vector(statement, load, context) for load in plan.loads]
        vector = "" if store is None else self._vector(statement, store, context)
        for load, name in zip(plan.loads, names, strict=True):
            ctype, parts = vector_type(self.scope, load, lanes)
            held[load.key] = (name, parts)
            value = self._element(load, lanes, context, "const ")
            if name not in declared:  # two spellings of one subscript are one vector
                declared.add(name)
                kind = ctype if name == vector else f"const {ctype}"
                out.append(Assign(c.Name(name), "=", value, "", kind))
        if store is not None:
            ctype, parts = vector_type(self.scope, store, lanes)
            target = self._element(store, lanes, context)
            made = vector, parts
            if vector not in declared:
                out.append(Declare(ctype, vector))
            last.append(self._stored(statement, target, c.Name(vector), lanes))
        out += self._each_lane(_assigned(statement), plan, held, made, context, var)
        return (*out, *last)

    def _vector(self, statement: Statement, wide: Wide, context: Context) -> str:
        """Return the name of the vector for an access, the same in all copies of the statement.

        All statements of a loop share the vectors of an array that is never written.  Loops that are not nested may use
        the same names.
        """
        values = self.scope.values
        constants = tuple(value for dim in statement.dims if isinstance(value := values.get(dim), int))
        place = self.expressions.element(wide.access, context)
        key = (place, wide.dtype) if wide.key[0] in self.inputs else (statement.name, place, constants)
        known = self.vectors.setdefault(self.loops.scopes[-1], {})
        if key not in known:
            taken = {name for scope in self.loops.scopes for name in self.vectors.get(scope, {}).values()}
            known[key] = self._vector_name(f"{array_name(wide.access)}_v", taken)
        return known[key]

    def _vector_name(self, wish: str, taken: Collection[str]) -> str:
        """Return *wish*, or the first of its numbered forms, that names no vector in *taken* and no other variable."""
        for name in chain([wish], (f"{wish}_{number}" for number in count())):
            if name in self.vector_names:
                if name not in taken:
                    return name
            elif name not in self.scope.names.taken:
                self.scope.names.taken.add(name)
                self.vector_names.add(name)
                return name
        raise AssertionError("numbers do not end")

    def _each_lane(
        self,
        statement: Statement,
        plan: Plan,
        held: Mapping[Key, Vector],
        made: Vector | None,
        context: Context,
        var: str,
    ) -> Block:
        """Return the statement for each lane, written out or in a loop.

        *held* are the vectors that were loaded.  *made* is the vector that is stored afterwards; each lane computes one
        of its components.
        """
        values, found, lanes = self.scope.values, list[Node](), plan.lanes
        others = [access for access, _ in element_reads(statement.rhs) if plan.has_part(access)]
        is_loop = lanes.count > _LINES and not others
        for number in (0,) if is_loop else range(lanes.count):
            values[lanes.iname] = var if is_loop else lanes.low + number
            place = _less(c.Name(var), lanes.low) if is_loop else c.integer(number)
            own = {key: _component(vector, number, place) for key, vector in held.items()}
            for access in others:
                if (part := plan.component(access, number)) is not None:
                    component = _component(held[part[0]], part[1], c.integer(part[1]))
                    own[array_name(access), access.index_tuple] = component
            self.expressions.hold(own, None if made is None else _component(made, number, place))
            rows = [] if is_loop else [Affine(((lanes.iname, s),), -s * (lanes.low + number)) for s in (1, -1)]
            assign = self.assignments.new(statement, context.add(rows or _box(lanes)))
            assert isinstance(assign, Assign), "a plan is made for assignments"
            found.append(replace(assign, instruction="") if plan.store is not None else assign)
        self.expressions.hold({})
        if not is_loop:
            return tuple(found)
        test = c.binary(c.OPERATORS["<"], c.Name(var), c.integer(lanes.low + lanes.count))
        pragma = self.scope.language.loops.unroll.format(count=lanes.count)
        return (For(self.scope.index_type, var, c.integer(lanes.low), test, tuple(found), 1, pragma),)

    # }}}


def not_on_vectors(instruction: str, reason: str) -> Diagnostic:
    """Return the note that an instruction runs lane by lane."""
    return Diagnostic(
        "not-vectorized",
        f"'{instruction}' runs lane by lane, not on vectors",
        (reason,),
        ("tag the loop 'ilp' where that is meant",),
    )


def _less(code: Code, number: int) -> Code:
    return c.binary(c.MINUS, code, c.integer(number)) if number else code


def _component(vector: Vector, number: int, place: Code) -> Code:
    """Return a component of a vector by its number, whose C expression is *place*."""
    name, parts = vector
    return c.Member(c.Name(name), parts[number]) if parts else c.Subscript(c.Member(c.Name(name), "e"), place)


def _apart(statement: Statement, lanes: Lanes) -> str:
    """Return the reason why the lanes of a statement must run one by one, empty if they need not."""
    if any(lanes.iname in variables(predicate) for predicate in statement.predicates):
        return "a condition on data may differ from lane to lane"
    if isinstance(statement.rhs, CText):
        return "it is C text"
    if lanes.count not in (2, 4, 8, 16):
        return f"{lanes.count} of its lanes run, and vectors have 2, 4, 8 or 16 elements"
    return ""


def _assigned(statement: Statement) -> Statement:
    """Return the assignment of what an atomic update combines with an element; other statements as they are."""
    return replace(statement, action=PlainAssign()) if isinstance(statement.action, Atomic) else statement


def _box(lanes: Lanes) -> list[Affine]:
    """Return the rows ``low <= lane < low + count``."""
    name = lanes.iname
    return [Affine(((name, 1),), -lanes.low), Affine(((name, -1),), lanes.low + lanes.count - 1)]


def _least(forms: tuple[Affine, ...], context: Context) -> tuple[Affine, ...]:
    """Return *forms* without those that another one dominates in a minimum."""
    left = list(forms)
    for form in forms:
        if any(context.implies(tightened(form.add(other, -1))) for other in left if other is not form):
            left.remove(form)
    return tuple(left)


def merged(nodes: Sequence[Node]) -> Block:
    """Return *nodes* with neighbouring choices under one condition merged, and repeated vector loads removed.

    Neighbouring loops over the lanes of one partial vector are fused if that is legal.
    """
    out: list[Node] = []
    for node in nodes:
        before = out[-1] if out else None
        if isinstance(node, If) and isinstance(before, If) and _is_same_choice(before, node):
            both = merged((*before.body, *node.body)), merged((*before.orelse, *node.orelse))
            out[-1] = If(node.condition, *both, is_choice=before.is_choice and node.is_choice)
        elif isinstance(node, For) and isinstance(before, For) and (loop := one_rest(before, node)) is not None:
            out[-1] = loop
        elif not (isinstance(node, Assign) and node.type and node in out):
            out.append(node)
    return tuple(out)


def _is_same_choice(first: If, second: If) -> bool:
    """Return True if two statements with two cases each have one condition, whose value cannot change in between."""
    is_same = first.condition == second.condition and not first.reads and not second.reads
    is_choice = is_same and bool(first.orelse) and bool(second.orelse)
    return is_choice and keeps((*first.body, *first.orelse), first.condition)

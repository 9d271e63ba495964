"""Conversion of the statements of a Python function to the parsed statements of a kernel."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar, Final, NoReturn, TypeAlias

import pymbolic.primitives as p

from polyloop.errors import Place
from polyloop.expr.dtypes import DType, find_dtype
from polyloop.expr.nodes import Expression, Lookup, array_name
from polyloop.expr.results import result_fields
from polyloop.expr.rewrite import calls, reductions, variables
from polyloop.expr.source import Segment, Source
from polyloop.frontend import intrinsics
from polyloop.frontend.branching import changed_inside, end_of
from polyloop.frontend.counting import Count, Uncounted, count_of, first_numbers, has_own
from polyloop.frontend.expressions import PythonConverter
from polyloop.frontend.functions import called
from polyloop.frontend.intrinsics import ArrayType
from polyloop.frontend.loops import Opened, isl_condition
from polyloop.frontend.scope import Scope, Use
from polyloop.frontend.source import Node
from polyloop.kernel.layout import auto
from polyloop.kernel.text.blocks import Blocks
from polyloop.kernel.text.options import Loops, Options, parse_options
from polyloop.kernel.text.parser import ParsedInstruction, ParsedRule
from polyloop.kernel.text.specs import TemporaryVariable, expand_data

__all__ = ["Body"]

_Values: TypeAlias = "tuple[Node, Expression] | list[_Values]"
"""Values on a right side with their nodes, tuples in them as lists."""
_REFUSED: Final[dict[type[ast.stmt], tuple[str, str]]] = {
    ast.Return: ("'return'", "assign the result to an array argument"),
    ast.Try: ("'try'", "a kernel raises nothing"),
    ast.Raise: ("'raise'", "a kernel raises nothing"),
    ast.Assert: ("'assert'", 'say what callers guarantee: @pl.kernel(assumptions="n >= 1")'),
    ast.Global: ("'global'", "a kernel writes its arguments and its own variables only"),
    ast.Nonlocal: ("'nonlocal'", "a kernel writes its arguments and its own variables only"),
    ast.Delete: ("'del'", "leave it out"),
    ast.Import: ("'import'", "import outside of the function"),
    ast.ImportFrom: ("'import'", "import outside of the function"),
    ast.ClassDef: ("'class'", "a kernel computes numbers"),
    ast.Match: ("'match'", "write if ... elif ... else"),
    ast.AsyncFor: ("'async'", "write a plain 'for'"),
    ast.AsyncWith: ("'async'", "write a plain 'with'"),
    ast.AsyncFunctionDef: ("'async'", "write a plain 'def'"),
}
_OWN_OPTIONS: Final = frozenset({"id", "id_prefix", "dep", "tags", "priority"})
"""Options that :func:`polyloop.frontend.text.statements_text` spells from the instruction."""
_OPTIONS: Final = 'write with pl.options(id="copy", dep="load", tags="x"):'


class Body:
    """Reads the statements of a function, from top to bottom."""

    readers: ClassVar[dict[type[ast.stmt], Callable[[Body, Any], None]]] = {}

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.blocks = Blocks()
        self.found: list[ParsedInstruction | ParsedRule] = []
        self.converter = PythonConverter(scope, self.keep, self.blocks.inames, self.element_type, self.found.append)
        self.starts: dict[str, Expression] = {}
        self.numbers = first_numbers(scope.source.tree)
        self.places: dict[str, tuple[tuple[int, ...], tuple[Expression, ...]]] = {}
        self.groups = 0
        self.spelling: tuple[str, ...] = ()
        self.spelled: dict[int, tuple[str, ...]] = {}
        self.temporaries: list[TemporaryVariable] = []
        self.ids: set[str] = set()
        self.goes_on: list[str | None] = []  # the variable of each open loop that ends early
        self.runs: list[str | None] = []  # the variable of each open loop that goes on with the next iteration

    def read(self) -> None:
        """Read the whole body."""
        self.statements(self.scope.source.tree.body)
        self.converter.functions.finish()

    def statements(self, body: list[ast.stmt]) -> None:
        """Read the statements of one block."""
        for statement in body:
            self.statement(statement)

    def statement(self, node: ast.stmt) -> None:
        """Read one statement."""
        reader = self.readers.get(type(node))
        if reader is not None:
            reader(self, node)
            return
        what, hint = _REFUSED.get(type(node), ("this", "a kernel has assignments, 'for', 'if' and 'with pl.options'"))
        self.scope.deny(node, "unsupported-statement", f"{what} is no statement of a kernel", hint)

    def value(self, node: ast.Expr) -> None:
        """Read over a string or ``...``, and refuse any other value that is not used."""
        if isinstance(node.value, ast.Constant) and (node.value.value is ... or isinstance(node.value.value, str)):
            return
        hint = "assign it to an array or to a variable: x = ..."
        self.scope.deny(node, "unsupported-statement", "the value of this expression is not used", hint)

    def nothing(self, node: ast.Pass) -> None:
        """Read ``pass``."""

    # assignments

    def assign(self, node: ast.Assign) -> None:
        """Read ``target = value``, ``a = b = value``, ``a, b = x, y`` and what is made of these."""
        targets, value = node.targets, node.value
        first = targets[0]
        if isinstance(first, ast.Name) and first.id in self.scope.names.counters and first.id not in self.scope.bound:
            self.start(first, value)
        elif len(targets) == 1 and isinstance(first, ast.Tuple) and self.converter.reduces(value):
            self.results(node, first, value)
        elif len(targets) == 1 and isinstance(first, ast.Name | ast.Subscript):
            self.emit(node, first, value)
        else:
            values = self.values(value)
            if len(targets) > 1:
                values = self.shared(values)
            self.several(node, [pair for target in targets for pair in self.pairs(target, values)])

    def values(self, node: Node) -> _Values:
        """Return the values on a right side, tuples taken apart."""
        if isinstance(node, ast.Tuple | ast.List):
            return [self.values(entry) for entry in node.elts]
        return node, self.converter.convert(node)

    def shared(self, values: _Values) -> _Values:
        """Return *values* that several targets take: what is computed by calls and reductions is kept."""
        if isinstance(values, list):
            return [self.shared(entry) for entry in values]
        node, expr = values
        return (node, p.Variable(self.kept(node, expr, "value"))) if calls(expr) or reductions(expr) else values

    def pairs(self, target: Node, values: _Values) -> list[tuple[Node, Node, Expression]]:
        """Return each target with its value, in the order of assignment."""
        if not isinstance(target, ast.Tuple | ast.List):
            if isinstance(values, list):
                hint = "write one variable for each: a, b = x, y"
                self.scope.deny(target, "unsupported-statement", "several values are assigned to one target", hint)
            return [(target, *values)]
        if not isinstance(values, list) or len(values) != len(target.elts):
            count = f"{len(values)} values are" if isinstance(values, list) else "one value is"
            what = f"{len(target.elts)} variables are assigned, and {count} given"
            self.scope.deny(target, "unsupported-statement", what, "write one value for each, or one line for each")
        return [pair for entry, value in zip(target.elts, values, strict=True) for pair in self.pairs(entry, value)]

    def start(self, counter: ast.Name, value: Node) -> None:
        """Read the first value of the *counter* of a ``while`` loop."""
        expr = self.converter.convert(value)
        if not all(map(self.converter.loops.is_integer, variables(expr))):
            expr = p.Variable(self.kept(value, expr, f"{counter.id}_start"))
        self.starts[counter.id] = expr

    def annotated(self, node: ast.AnnAssign) -> None:
        """Read ``t: dtype = value``, or the declaration of an array."""
        dtype = self.annotation(node.annotation)
        if isinstance(dtype, ArrayType):
            self.array(node, dtype)
            return
        if not isinstance(node.target, ast.Name):
            hint = "declare the type of an argument in the signature"
            self.scope.deny(node.annotation, "unsupported-statement", "an element has the type of its array", hint)
        if node.value is None:
            hint = f"assign a value: {node.target.id}: {ast.unparse(node.annotation)} = ..."
            self.scope.deny(node, "unsupported-statement", "a scalar variable is declared where it is assigned", hint)
        self.emit(node, node.target, node.value, self.element_type(node.annotation))

    def element_type(self, node: Node) -> DType:
        """Return the element type that an annotation says."""
        found = find_dtype(self.annotation(node))
        if found is None:
            what = f"{ast.unparse(node)} is no element type"
            self.scope.deny(node, "unknown-dtype", what, "write t: np.float32 = ...")
        return found

    def annotation(self, node: Node) -> object:
        """Return the evaluated annotation of a local variable."""
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Subscript) and self.scope.find(node.value) is intrinsics.Array:
            entries = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            values = [self.entry(entry) for entry in entries]
            return intrinsics.Array.__class_getitem__(tuple(values))
        return self.scope.find(node)

    def entry(self, node: Node) -> object:
        """Return an entry of ``pl.Array[...]``: a type, an extent as text or number, an argument by its name."""
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Tuple) and not node.elts:
            return ()
        if isinstance(node, ast.Name | ast.Attribute):
            found = self.scope.find(node)
            return found if find_dtype(found) is not None or isinstance(found, int) else ast.unparse(node)
        return ast.unparse(node)

    def array(self, node: ast.AnnAssign, declared: ArrayType) -> None:
        """Declare a temporary array."""
        target = node.target
        if not isinstance(target, ast.Name) or node.value is not None:
            hint = "write t: pl.Array[np.float32, 16], and assign its elements in a loop"
            self.scope.deny(node, "unsupported-statement", "an array is declared without a value", hint)
        self.scope.check_name(target, target.id)
        if self.blocks.open:
            hint = "move it to the beginning of the function"
            self.scope.deny(node, "unsupported-statement", "an array is declared outside of loops and conditions", hint)
        if target.id in self.scope.arguments or target.id in self.scope.assigned or target.id in self.scope.arrays:
            self.scope.deny(target, "name-taken", f"'{target.id}' is a variable already", "choose another name")
        dtype = find_dtype(declared.dtype)
        if dtype is None:
            what = f"'{ast.unparse(node.annotation)}' has no element type"
            self.scope.deny(node.annotation, "unknown-dtype", what, "write t: pl.Array[np.float32, 16]")
        self.scope.arrays.add(target.id)
        entry = TemporaryVariable(target.id, dtype, declared.shape)  # type: ignore[arg-type] # checked
        self.temporaries.append(entry)
        self.scope.measure(expand_data(entry))

    def update(self, node: ast.AugAssign) -> None:
        """Read ``target += value`` and the like."""
        if isinstance(node.target, ast.Name) and node.target.id in self.scope.names.locals:
            self.converter.name(node.target)
        assignee, declared = self.target(node.target)
        expression = self.converter.updated(node, assignee)
        self.note(node.target, False)
        self.blocks.check_conditions(self.scope.source.span(node), assignee)
        self.add(node, (assignee, expression), declared)

    def emit(self, node: Node, target: Node, value: Node, dtype: DType | None = None) -> None:
        """Add the instruction that assigns to *target*."""
        expression = self.converter.convert(value)
        assignee, declared = self.target(target)
        if dtype is not None and not declared:
            what = f"variable '{target.id}' is assigned in a line above"
            self.scope.deny(target, "unsupported-statement", what, "give the type where it is assigned first")
        self.note(target, self.converter.is_condition(value))
        self.blocks.check_conditions(self.scope.source.span(node), assignee)
        self.add(node, (assignee, expression), declared, dtype)

    def results(self, node: Node, targets: ast.Tuple, value: Node) -> None:
        """Add the instructions of ``v, k = pl.reduce("argmax", ...)``: each takes one field of the reduction."""
        reduction = self.converter.convert(value)
        fields = result_fields(reduction)
        if len(fields) != len(targets.elts):
            what = f"{len(targets.elts)} variables are assigned, and this reduction has {len(fields) or 'one'} "
            what += f"result{'s'[: len(fields) > 1]}"
            self.scope.deny(node, "unsupported-statement", what, f"it gives {', '.join(fields) or 'a number'}")
        looked = [Lookup(reduction, field) for field in fields]
        self.several(node, [(target, value, part) for target, part in zip(targets.elts, looked, strict=True)])

    def several(self, node: Node, pairs: Sequence[tuple[Node, Node, Expression]]) -> None:
        """Add the instructions of ``a, b = x, y``: all values are found before any is assigned.

        Subscripts of targets are found one after the other, as Python does.
        """
        truths = [self.converter.is_condition(value) for _, value, _ in pairs]
        assigned: list[tuple[Expression, bool]] = []
        for (target, _, _), truth in zip(pairs, truths, strict=True):
            assigned.append(self.target(target))
            self.note(target, truth)
        self.blocks.check_conditions(self.scope.source.span(node), *(assignee for assignee, _ in assigned))
        is_mixed = len({declared for _, declared in assigned}) > 1
        self.groups += 1
        for (assignee, declared), (_, _, expression) in zip(assigned, pairs, strict=True):
            if declared and is_mixed:
                self.temporaries.append(TemporaryVariable(array_name(assignee), shape=()))
            self.add(node, (assignee, expression), declared and not is_mixed, several=self.groups)

    def note(self, target: Node, is_condition: bool) -> None:
        """Record an assignment to *target*, if it is a variable."""
        if isinstance(target, ast.Name) and target.id in self.scope.names.locals:
            self.scope.assigned[target.id] = self.scope.assigned.get(target.id, True) and is_condition
            self.places[target.id] = self.blocks.numbers(), self.blocks.conditions()

    def keep(self, node: Node, expr: Expression, wish: str) -> str:
        """Return the name of a variable that has the value *expr* now and keeps it.

        It is *expr* itself where that is a variable which the function assigns in one place, under no other loop.
        """
        if isinstance(expr, p.Variable) and (expr.name in self.scope.names.once or expr.name in self.scope.new.made):
            numbers, conditions = self.places.get(expr.name, ((-1,), ()))
            now = self.blocks.numbers()[: len(numbers)], self.blocks.conditions()[: len(conditions)]
            if now == (numbers, conditions):
                return expr.name
        return self.kept(node, expr, wish)

    def kept(self, node: Node, expr: Expression, wish: str, otherwise: Expression = 0) -> str:
        """Return the name of a new variable, set to *expr*; to *otherwise* where a condition on data does not hold."""
        name, loops = self.scope.fresh(wish), self.converter.loops
        conditions = self.blocks.conditions()
        plain = tuple(c for c in conditions if isl_condition(c, loops.is_integer) is not None)
        data = tuple(c for c in conditions if c not in plain)
        if data:
            expr = p.If(_all(data), expr, otherwise)
        self.places[name] = self.blocks.numbers(), conditions
        self.add(node, (p.Variable(name), expr), True, made=plain)
        return name

    def add(
        self,
        node: Node,
        sides: tuple[Expression, Expression],
        declared: bool,
        dtype: DType | None = None,
        several: int | None = None,
        made: tuple[Expression, ...] | None = None,
    ) -> None:
        """Add one instruction: *sides* are its target and its value, *made* the conditions of one that is made up."""
        options = self.blocks.options()
        if made is not None and options.id is not None:
            options = replace(options, id=None, id_prefix=f"{options.id}_{sides[0]}")
        if options.id is not None:
            self.ids.add(options.id)
        self.spelled[len(self.found)] = self.spelling
        self.found.append(
            ParsedInstruction(
                assignee=sides[0],
                expression=sides[1],
                declared=(auto if dtype is None else dtype) if declared else None,
                id=options.id,
                predicates=self.blocks.conditions() if made is None else made,
                options=options,
                loops=Loops(self.blocks.inames(), self.blocks.numbers(), only=frozenset()),
                place=Place(self.scope.source.text(node), self.scope.source.span(node)),
                depends_on_is_final=True,  # the order is the text's, also of a variable read above its only assignment
                several=several,
            )
        )

    def target(self, node: Node) -> tuple[Expression, bool]:
        """Return the target of an assignment, and whether this declares a variable."""
        if isinstance(node, ast.Subscript):
            found = self.converter.subscript(node)
            if next(iter(reductions(found)), None) is not None:
                what = "a subscript of an assignment holds no reduction"
                self.scope.deny(node, "misplaced-reduction", what, "assign it to a variable")
            return found, False
        if not isinstance(node, ast.Name):
            hint = "write the name of a variable, or an element of an array: a[i, j] = ..."
            several = isinstance(node, ast.Tuple | ast.List)
            what = "several variables are assigned at once" if several else "this cannot be assigned to"
            self.scope.deny(node, "unsupported-statement", what, hint)
        name = node.id
        if name not in self.scope.names.locals or name in self.scope.bound:
            self.not_assignable(node)
        self.scope.check_name(node, name)
        if name in self.scope.arrays:
            hint = f"assign its elements: {name}[i] = ..."
            self.scope.deny(node, "unsupported-statement", f"'{name}' is an array", hint)
        return p.Variable(name), name not in self.scope.assigned

    def not_assignable(self, node: ast.Name) -> NoReturn:
        """Refuse an assignment to a loop variable, an argument or a function."""
        name = node.id
        if name in self.scope.names.loops:
            hint = "its values come from the loop; choose another name"
            self.scope.deny(node, "assignment-to-iname", f"'{name}' is a loop variable and cannot be assigned to", hint)
        what = "a function"
        hint = "choose another name"
        if name in self.scope.arguments:
            what = f"an argument, {self.scope.arguments[name].value},"
            if self.scope.arguments[name] is Use.ARRAY:
                hint = f"assign elements: {name}[i] = ..., or {name}[()] = ... if it has no axes"
        self.scope.deny(node, "not-assignable", f"'{name}' is {what} and cannot be assigned", hint)

    # blocks

    def loop(self, node: ast.For) -> None:
        """Read a loop."""
        if node.orelse:
            hint = "write the statements after the loop"
            self.scope.deny(node.orelse[0], "unsupported-statement", "a loop has no 'else'", hint)
        loops = self.converter.loops
        opened = loops.open(node.target, node.iter)
        loops.add(opened)
        goes_on = self.going(node, f"{opened.inames[0]}_goes_on", ast.Break)
        with self.scope.looping(opened.bind, opened.inames):
            self.blocks.open_for(self.scope.source.span(node), opened.inames)
            with self.under(node, goes_on, self.goes_on), self.iteration(node, opened):
                self.statements(node.body)
            self.blocks.close()

    @contextmanager
    def under(self, node: Node, variable: str | None, known: list[str | None]) -> Iterator[None]:
        """Read what does nothing once *variable*, an entry of *known*, is false; None: there is none."""
        known.append(variable)
        if variable is not None:
            self.blocks.open_if(self.scope.source.span(node), p.Variable(variable))
        yield
        if variable is not None:
            self.blocks.close()
        known.pop()

    @contextmanager
    def iteration(self, node: ast.For | ast.While, opened: Opened) -> Iterator[None]:
        """Read the body of a loop, which may go on with its next iteration."""
        with self.under(node, self.going(node, f"{opened.inames[0]}_runs", ast.Continue), self.runs):
            yield

    def going(self, node: ast.For | ast.While, wish: str, kind: type[ast.stmt]) -> str | None:
        """Return a new variable that is true until a statement of this *kind* in a loop; None if it has none."""
        return self.kept(node, True, wish, otherwise=False) if has_own(node.body, kind) else None

    def leave(self, node: ast.Break | ast.Continue) -> None:
        """Read ``break`` or ``continue``: no statement behind it runs in this loop, or iteration, by its conditions."""
        variable = (self.goes_on if isinstance(node, ast.Break) else self.runs)[-1]
        assert variable is not None, "a loop that is left has a variable"
        self.set(node, variable, False)

    def set(self, node: Node, variable: str, value: Expression) -> None:
        """Assign to a variable that was made up; conditions around may read it, as they are asked anew."""
        self.add(node, (p.Variable(variable), value), False, made=self.blocks.conditions())

    def counting(self, node: ast.While) -> None:
        """Read a ``while`` loop, the iterations of which can be counted."""
        if node.orelse:
            hint = "write the statements after the loop"
            self.scope.deny(node.orelse[0], "unsupported-statement", "a loop has no 'else'", hint)
        count = count_of(node)
        if isinstance(count, Uncounted):
            self.scope.deny(count.node, "unsupported-loop", count.message, count.hint)
        name, loops = count.counter.id, self.converter.loops
        is_free = name in self.scope.names.locals or name in self.scope.names.counters
        if not is_free or name in self.scope.bound:
            self.not_assignable(count.counter)
        bounds, last = loops.counting(count, self.starts.get(name, self.numbers.get(node)))
        opened = loops.counted(count.counter, bounds)
        loops.add(opened)
        goes_on = None
        is_read = name not in self.scope.names.counters
        if count.others or has_own(node.body, ast.Break):
            first = self.starts.get(name)
            with self.scope.looping({} if first is None else {name: first}, ()):
                goes_on = self.kept(node, self.others(count), f"{opened.inames[0]}_goes_on", otherwise=False)
        with self.scope.looping(opened.bind, opened.inames):
            self.blocks.open_for(self.scope.source.span(node), opened.inames)
            with self.under(node, goes_on, self.goes_on):
                with self.iteration(node, opened):
                    for statement in node.body:
                        if statement is count.increment:
                            stepped = loops.stepped(count, opened)
                            if is_read and goes_on is not None:
                                self.add(statement, (p.Variable(name), stepped[name]), False)
                            self.scope.bind(stepped)
                        else:
                            self.statement(statement)
                if goes_on is not None and count.others:
                    self.set(end_of(node), goes_on, self.others(count))
            self.blocks.close()
        if is_read and goes_on is None:
            self.blocks.check_conditions(self.scope.source.span(count.increment), p.Variable(name))
            self.add(count.increment, (p.Variable(name), last), False)

    def others(self, count: Count) -> Expression:
        """Return the conditions of a loop beside that on its counter; with it if they read the counter."""
        names = (x.id for test in count.others for x in ast.walk(test) if isinstance(x, ast.Name))
        whole, tests = count.node.test, count.others
        if count.counter.id in names and isinstance(whole, ast.BoolOp):
            tests = tuple(whole.values)
        return _all(tuple(map(self.converter.condition, tests))) if tests else True

    def branches(self, node: ast.If) -> None:
        """Read ``if``, ``elif`` and ``else``."""
        tests, bodies, rest = [node.test], [node.body], node.orelse
        while len(rest) == 1 and isinstance(rest[0], ast.If):
            tests.append(rest[0].test)
            bodies.append(rest[0].body)
            rest = rest[0].orelse
        conditions = self.conditions(tests, changed_inside(node))
        self.blocks.open_if(self.scope.source.span(node), conditions[0])
        self.statements(bodies[0])
        for condition, body in zip(conditions[1:], bodies[1:], strict=True):
            self.blocks.branch(condition)
            self.statements(body)
        if rest:
            self.blocks.branch(None)
            self.statements(rest)
        self.blocks.close()

    def conditions(self, tests: Sequence[Node], changed: frozenset[str]) -> list[Expression]:
        """Return the conditions of the branches of one ``if``; those that may be *changed* inside of it are kept.

        So are those with a reduction, or a call of a function of the kernel.
        """
        found: list[Expression] = []
        for test in tests:
            condition = self.converter.condition(test)
            is_large = reductions(condition) or called(condition) & self.converter.functions.names()
            if is_large or not changed.isdisjoint(variables(condition)):
                condition = self.kept_condition(tests[0], condition, found)  # all are asked there
            found.append(condition)
        return found

    def kept_condition(self, node: Node, condition: Expression, before: Sequence[Expression]) -> Expression:
        """Return *condition*, which is asked if none *before* holds, with all of it kept that depends on data."""
        parts = condition.children if isinstance(condition, p.LogicalAnd) else (condition,)
        loops = self.converter.loops
        plain = tuple(x for x in parts if isl_condition(x, loops.is_integer) is not None)
        rest = _all(tuple(x for x in parts if x not in plain))
        if plain:
            rest = p.If(_all(plain), rest, False)
        if before:
            rest = p.If(before[0] if len(before) == 1 else p.LogicalOr(tuple(before)), False, rest)
        return _all((*plain, p.Variable(self.kept(node, rest, "holds", otherwise=False))))

    def with_options(self, node: ast.With) -> None:
        """Read ``with pl.options(...)``."""
        call = node.items[0].context_expr
        found = self.scope.find(call.func) if isinstance(call, ast.Call) else None
        if len(node.items) > 1 or not isinstance(call, ast.Call) or found is not intrinsics.options:
            self.scope.deny(node, "unsupported-statement", "'with' opens nothing but options here", _OPTIONS)
        if node.items[0].optional_vars is not None or call.args:
            self.scope.deny(call, "unsupported-statement", "'pl.options' takes key=value and gives nothing", _OPTIONS)
        given = self.given(call)
        if (given.id is not None and len(node.body) > 1) or self.blocks.options().id is not None:
            hint = "use id_prefix for several, or one 'with' for each"
            name = given.id or self.blocks.options().id
            self.scope.deny(call, "name-taken", f"several statements would have the id '{name}'", hint)
        outside = self.spelling
        self.spelling = (*outside, *(f"{x.arg}={_text(x)}" for x in call.keywords if x.arg not in _OWN_OPTIONS))
        self.blocks.open_with(self.scope.source.span(node), replace(given, loops=Loops(only=frozenset())))
        self.statements(node.body)
        self.blocks.close()
        self.spelling = outside

    def given(self, call: ast.Call) -> Options:
        """Return the options that a call of ``pl.options`` gives."""
        text = ""
        segments: list[Segment] = []
        for keyword in call.keywords:
            value = keyword.value
            if keyword.arg is None:
                self.scope.deny(keyword, "unknown-option", "options are written one by one", _OPTIONS)
            if not isinstance(value, ast.Constant) or not isinstance(value.value, str | int):
                self.scope.deny(value, "unsupported-expression", f"option '{keyword.arg}' is no text", _OPTIONS)
            if text:
                text += ", "
            span = self.scope.source.span(keyword)
            segments.append(Segment(len(text), span.line, span.column, span.text, span.file))
            text += f"{keyword.arg}="
            if isinstance(value.value, str):
                segment = self.scope.source.literal(value).segments[0]
                segments.append(replace(segment, offset=len(text)))
            text += str(value.value)
        options = parse_options(Source(text, tuple(segments)), frozenset(self.scope.new.inames)) if text else Options()
        if options.loops != Loops() or options.predicates or options.duplicates:
            hint = "write the loops and conditions around the statement"
            self.scope.deny(call, "unknown-option", "loops and conditions are no options of Python statements", hint)
        if options.order.queries or options.memory:
            hint = "dep= takes ids of statements above"
            self.scope.deny(call, "unknown-option", "dep_query and mem_kind are no options of Python statements", hint)
        for name in options.order.depends_on:
            if name not in self.ids:
                hint = f"ids above: {', '.join(sorted(self.ids)) or 'none'}"
                what = f"no statement above has the id '{name}'"
                self.scope.deny(call, "unknown-instruction", what, hint)
        return options

    # functions

    def function(self, node: ast.FunctionDef) -> None:
        """Read a function of the body."""
        if self.blocks.conditions() or (self.blocks.open and node.name in self.scope.functions):
            hint = "define it at the beginning of the kernel"
            what = "which function this is depends on a condition or an iteration"
            self.scope.deny(node, "unsupported-statement", what, hint)
        self.converter.functions.define(node)


def _all(conditions: tuple[Expression, ...]) -> Expression:
    return conditions[0] if len(conditions) == 1 else p.LogicalAnd(conditions)


def _text(keyword: ast.keyword) -> str:
    assert isinstance(keyword.value, ast.Constant), "options are constants"
    return str(keyword.value.value)


Body.readers = {
    ast.Assign: Body.assign,
    ast.AnnAssign: Body.annotated,
    ast.AugAssign: Body.update,
    ast.For: Body.loop,
    ast.If: Body.branches,
    ast.With: Body.with_options,
    ast.While: Body.counting,
    ast.Break: Body.leave,
    ast.Continue: Body.leave,
    ast.FunctionDef: Body.function,
    ast.Expr: Body.value,
    ast.Pass: Body.nothing,
}

"""Conversion of ``range`` and ``pl.domain`` to ISL sets.

Loops of kernels run upward.  A loop that runs downward has an iname that counts from 0, and its variable is the
difference of its first value and that iname: ``for i in range(n - 1, -1, -1)`` is a loop over ``i_down`` below ``n``,
in which ``i`` stands for ``n - 1 - i_down``.  A bound that is no affine form is kept in a temporary in front.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import islpy as isl
import pymbolic.primitives as p

from polyloop.errors import KernelError
from polyloop.expr.nodes import Expression
from polyloop.expr.rewrite import variables
from polyloop.expr.source import Segment, Source
from polyloop.frontend import intrinsics
from polyloop.frontend.counting import Count
from polyloop.frontend.scope import NOTHING, Scope, Use
from polyloop.frontend.source import DECORATOR, Node
from polyloop.kernel.domains import parameters_of
from polyloop.kernel.text.domain_text import parse_domain, read_domain
from polyloop.poly.affine import Affine, affine_of, isl_text, to_expression

__all__ = ["Loops", "Opened", "isl_condition"]

_AFFINE = "bounds are sums of integer multiples of loop variables and integer arguments"
_FORMS = 'write for i in range(n), or for i, j in pl.domain("0 <= i, j < n")'


def isl_condition(expr: Expression, known: Callable[[str], bool]) -> str | None:
    """Return *expr* as a condition in ISL's syntax, None if it is not affine in *known* names."""
    match expr:
        case bool():
            return "true" if expr else "false"
        case p.Comparison():
            left, right = affine_of(expr.left), affine_of(expr.right)
            if left is None or right is None or not all(map(known, variables(expr))):
                return None
            operator = str(getattr(expr.operator, "value", expr.operator))
            operator = "=" if operator == "==" else operator
            return f"{isl_text(left)} {operator} {isl_text(right)}"
        case p.LogicalNot():
            inner = isl_condition(expr.child, known)
            return None if inner is None else f"not ({inner})"
        case p.LogicalAnd() | p.LogicalOr():
            parts = [isl_condition(child, known) for child in expr.children]
            word = " and " if isinstance(expr, p.LogicalAnd) else " or "
            return None if None in parts else word.join(f"({part})" for part in parts)
        case _:
            return None


@dataclass(frozen=True)
class _Bounds:
    """``lower <= i < upper`` for every entry of the two, every *step*.

    Where a loop runs downward they are bounds of *first* minus its variable.
    """

    lower: tuple[Affine, ...]
    upper: tuple[Affine, ...]
    step: int = 1
    first: Affine | None = None

    def text(self, iname: str) -> str:
        """Return the condition on *iname*."""
        assert iname not in {name for form in (*self.lower, *self.upper) for name in form.names()}, "bounded by itself"
        first, *more = [isl_text(form) for form in self.lower]
        head = f"{first} <= {iname} < {isl_text(self.upper[0])}"
        parts = [head, *(f"{form} <= {iname}" for form in more)]
        parts += [f"{iname} < {isl_text(form)}" for form in self.upper[1:]]
        if self.step > 1:
            offset = isl_text(self.lower[0])
            inside = iname if offset == "0" else f"{iname} - ({offset})"
            parts.append(f"({inside}) mod {self.step} = 0")
        return " and ".join(parts)

    def value(self, iname: str) -> Expression:
        """Return the loop variable."""
        form = Affine.variable(iname)
        return p.Variable(iname) if self.first is None else to_expression(self.first.add(form, -1))


def downward(first: Sequence[Affine], last: Sequence[Affine], step: int) -> _Bounds:
    """Return the bounds of a loop from the least of *first* down to the largest of *last*, both included."""
    top = first[0]
    lower = tuple(top.add(form, -1) for form in first)
    upper = tuple(_plus(top.add(form, -1), 1) for form in last)
    return _Bounds(lower, upper, step, top)


def _joined(kind: type[p.Min | p.Max], parts: tuple[Expression, ...]) -> Expression:
    return parts[0] if len(parts) == 1 else kind(parts)


def _plus(form: Affine, number: int) -> Affine:
    return Affine(form.terms, form.const + number)


@dataclass(frozen=True)
class Opened:
    """A loop that begins: its inames, what its variables stand for, and its domain under a condition."""

    inames: tuple[str, ...]
    bind: Mapping[str, Expression]
    domain: Callable[[str], isl.Set]


def _restriction(names: Sequence[str], condition: str) -> isl.Set:
    return parse_domain(f"{{[{', '.join(names)}]: {condition}}}", DECORATOR)


def _conditional(names: Sequence[str], parts: Sequence[str]) -> Callable[[str], isl.Set]:
    """Return the function from a condition to the set of *names* under it and all *parts*."""
    return lambda condition: _restriction(names, " and ".join((*parts, f"({condition})") if condition else parts))


@dataclass
class Loops:
    """Makes the domains of a function's loops.

    ``convert`` turns a node into an expression over inames; ``keep`` assigns an expression to a temporary in front of
    the statement that is being read, and returns its name; ``around`` gives the inames of the loops around that
    statement; ``domains`` has one set for each loop so far.
    """

    scope: Scope
    convert: Callable[[Node], Expression]
    keep: Callable[[Node, Expression, str], str]
    around: Callable[[], Collection[str]]
    domains: list[isl.Set] = field(default_factory=list)

    def is_integer(self, name: str) -> bool:
        """Return whether *name* can be in a domain: an iname of an open loop, or an argument that may be an integer.

        A parameter of a function in the body is neither, whatever it is called.
        """
        scope = self.scope
        if name in scope.parameters:
            return False
        return name in scope.open or scope.arguments.get(name) is Use.INTEGER

    def open(self, target: Node, over: Node, hides: bool = False) -> Opened:
        """Begin a loop: return its new inames, and the values of its variables.

        Python evaluates ``range(i)`` before it binds the loop variable, so an ``i`` there is that of a loop around.
        The bounds of ``pl.domain`` may use its own variables.
        """
        names = self.names(target, over)
        seen: set[str] = set()
        for variable in names:
            if variable.id in seen:
                self.scope.deny(variable, "duplicate-iname", f"'{variable.id}' is named twice", "name each one once")
            seen.add(variable.id)
        if self.scope.find(over.func) is intrinsics.domain:
            inames = tuple(self.scope.new_iname(variable, hides) for variable in names)
            bind = {variable.id: p.Variable(iname) for variable, iname in zip(names, inames, strict=True)}
            with self.scope.looping(bind, inames):
                return Opened(inames, bind, self._domain(names, over, inames))
        return self.counted(names[0], self._of_range(over, names[0].id), hides)

    def counted(self, variable: ast.Name, bounds: _Bounds, hides: bool = False) -> Opened:
        """Begin the loop of one *variable* with these *bounds*."""
        wish = None if bounds.first is None else f"{variable.id}_down"
        iname = self.scope.new_iname(variable, hides, wish)
        return Opened((iname,), {variable.id: bounds.value(iname)}, _conditional((iname,), [bounds.text(iname)]))

    def add(self, opened: Opened, condition: str = "") -> None:
        """Add the domain of one loop, restricted by *condition*."""
        self.domains.append(opened.domain(condition))

    def names(self, target: Node, over: Node) -> list[ast.Name]:
        """Return the loop variables of a loop, checked against its iterable."""
        parts: list[Node] = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
        for part in parts:
            if not isinstance(part, ast.Name):
                self.scope.deny(part, "unsupported-loop", "a loop variable is a name", _FORMS)
        what = self._kind(over)
        if what is not intrinsics.domain and isinstance(target, ast.Tuple | ast.List):
            hint = "nest two loops, or loop over pl.domain(n, m)"
            self.scope.deny(target, "unsupported-loop", "'range' gives one loop variable", hint)
        return parts

    def _kind(self, over: Node) -> object:
        if isinstance(over, ast.Call):
            found = self.scope.find(over.func)
            if found in (range, intrinsics.domain):
                return found
            if found is reversed and len(over.args) == 1 and not over.keywords and self._is_range(over.args[0]):
                return found
        shown, hint = ast.unparse(over), _FORMS
        if isinstance(over, ast.Call) and self.scope.find(over.func) in (enumerate, zip):
            hint = "write for k in range(n), and what belongs to k in the body: x = a[k]"
        elif isinstance(over, ast.Name) and self.scope.arguments.get(over.id) is Use.ARRAY:
            hint = f"write for i in range(len({over.id})), and {over.id}[i] in the body"
        self.scope.deny(over, "unsupported-loop", f"a kernel does not loop over '{shown}'", hint)

    def _is_range(self, node: Node) -> bool:
        return isinstance(node, ast.Call) and self.scope.find(node.func) is range

    def _of_range(self, over: Node, variable: str) -> _Bounds:
        """Return the bounds of ``range(..)`` or ``reversed(range(..))``."""
        if self.scope.find(over.func) is reversed:
            return self._reversed(over, self._of_range(over.args[0], variable))
        if over.keywords:
            self.scope.deny(over, "unsupported-loop", "'range' takes no keyword arguments", _FORMS)
        return self._range(over, over.args, variable)

    def _reversed(self, over: ast.Call, bounds: _Bounds) -> _Bounds:
        """Return the bounds of a loop over the same values from the last to the first."""
        if bounds.first is not None:
            hint = "write the range upward"
            self.scope.deny(over, "unsupported-loop", "this range is turned around twice", hint)
        last = tuple(_plus(form, -1) for form in bounds.upper)
        if bounds.step > 1:
            if len(last) > 1:
                hint = "end at one bound, and skip iterations with 'if'"
                self.scope.deny(over, "unsupported-loop", "a loop with a step that is reversed ends at one bound", hint)
            steps = last[0].add(bounds.lower[0], -1).floordiv(bounds.step)
            last = (bounds.lower[0].add(steps, bounds.step),)
        return downward(last, bounds.lower, bounds.step)

    def _domain(
        self, variables: Sequence[ast.Name], over: ast.Call, names: tuple[str, ...]
    ) -> Callable[[str], isl.Set]:
        if len(over.args) == 1 and isinstance(over.args[0], ast.Constant) and isinstance(over.args[0].value, str):
            if over.keywords:
                hint = "put all conditions into the text"
                self.scope.deny(over, "unsupported-loop", "pl.domain takes a text, or bounds", hint)
            whole = self._from_text(over.args[0], variables, names)
            return lambda condition: whole.intersect(_restriction(names, condition)) if condition else whole
        entries = self._each(over, variables, names)
        return _conditional(names, [self._bounds(node, name).text(iname) for node, name, iname in entries])

    def _each(
        self, over: ast.Call, variables: Sequence[ast.Name], names: Sequence[str]
    ) -> list[tuple[Node, str, str]]:
        """Return the bounds of each loop variable of ``pl.domain(n, j=m)``, with the variable and its iname."""
        left = dict(zip((variable.id for variable in variables), names, strict=True))
        found: list[tuple[Node, str, str]] = []
        for node in over.args:
            if not left:
                self.scope.deny(node, "unsupported-loop", "there are more bounds than loop variables", _FORMS)
            name = next(iter(left))
            found.append((node, name, left.pop(name)))
        for keyword in over.keywords:
            if keyword.arg not in left:
                hint = f"loop variables without bounds: {', '.join(left) or 'none'}"
                self.scope.deny(keyword, "unsupported-loop", f"'{keyword.arg}' is no loop variable to bound", hint)
            found.append((keyword.value, keyword.arg, left.pop(keyword.arg)))
        if left:
            what = f"'{next(iter(left))}' has no bounds"
            hint = "give bounds for each loop variable, or a condition as text"
            self.scope.deny(over, "unsupported-loop", what, hint)
        return found

    def _bounds(self, node: Node, variable: str) -> _Bounds:
        if isinstance(node, ast.Call) and self.scope.find(node.func) is range:
            entries = node.args
        else:
            entries = node.elts if isinstance(node, ast.Tuple) else [node]
        found = self._range(node, entries, variable)
        if found.first is not None:
            hint = "nest the loops: for j in range(n - 1, -1, -1)"
            self.scope.deny(node, "unsupported-loop", "the loops of a domain run upward", hint)
        return found

    def _range(self, node: Node, entries: Sequence[Node], variable: str) -> _Bounds:
        if not 1 <= len(entries) <= 3 or any(isinstance(entry, ast.Starred) for entry in entries):
            hint = "write range(n), range(a, b) or range(a, b, step)"
            self.scope.deny(node, "wrong-argument-count", f"'range' does not take {len(entries)} arguments", hint)
        step = self._step(entries[2]) if len(entries) == 3 else 1
        if len(entries) == 1:
            return _Bounds((Affine((), 0),), self.forms(entries[0], p.Min, f"{variable}_end"))
        return self.between(entries[0], entries[1], step, variable)

    def between(self, start: Node, stop: Node, step: int, variable: str) -> _Bounds:
        """Return the bounds of ``range(start, stop, step)``."""
        first = self.forms(start, p.Max if step > 0 else p.Min, f"{variable}_start")
        end = self.forms(stop, p.Min if step > 0 else p.Max, f"{variable}_end")
        return self.bounds(start, first, end, step)

    def bounds(self, start: Node, first: tuple[Affine, ...], end: tuple[Affine, ...], step: int) -> _Bounds:
        """Return the bounds of a loop that begins at all of *first* and stops before all of *end*."""
        if abs(step) > 1 and len(first) > 1:
            hint = "begin at one bound, and skip iterations with 'if'"
            self.scope.deny(start, "unsupported-loop", "a loop with a step begins at one bound", hint)
        if step > 0:
            return _Bounds(first, end, step)
        return downward(first, tuple(_plus(form, 1) for form in end), -step)

    def counting(self, count: Count, start: Expression | None) -> tuple[_Bounds, Expression]:
        """Return the bounds of a ``while`` loop, and the value of its counter behind it.

        The first value is that of the counter, unless *start* says it.
        """
        name, node = count.counter.id, count.counter
        step = self._step(count.step) * (-1 if count.down else 1)
        if count.operator not in ((ast.Lt, ast.LtE) if step > 0 else (ast.Gt, ast.GtE)):
            what = f"'{name}' changes by {step}, and this condition does not say when that ends"
            hint = f"compare with {'<' if step > 0 else '>'}: while {name} {'< n' if step > 0 else '> 0'}"
            self.scope.deny(count.node.test, "unsupported-loop", what, hint)
        used = {x.id for x in ast.walk(count.limit) if isinstance(x, ast.Name)}
        if not used.isdisjoint(self.scope.functions):
            hint = "keep the limit in a variable in front of the loop"
            self.scope.deny(count.limit, "unsupported-loop", "the limit calls a function of the kernel", hint)
        outer, inner = (p.Max, p.Min) if step > 0 else (p.Min, p.Max)
        begin = self.convert(node) if start is None else start
        parts = begin.children if isinstance(begin, outer) else (begin,)
        first = tuple(self.form(node, part, f"{name}_start") for part in parts)
        end = self.forms(count.limit, inner, f"{name}_end")
        if count.operator in (ast.LtE, ast.GtE):
            end = tuple(_plus(form, 1 if step > 0 else -1) for form in end)
        bounds = self.bounds(node, first, end, step)
        if abs(step) == 1:
            stop = _joined(inner, tuple(map(to_expression, end)))
            return bounds, outer((*map(to_expression, first), stop))
        way = _joined(p.Min, tuple(to_expression(form.add(first[0], -1).scale(1 if step > 0 else -1)) for form in end))
        steps = p.FloorDiv(p.Sum((p.Max((way, 0)), abs(step) - 1)), abs(step))
        return bounds, p.Sum((to_expression(first[0]), p.Product((step, steps))))

    def stepped(self, count: Count, opened: Opened) -> dict[str, Expression]:
        """Return the value of the counter below its increment, by its name."""
        step = self._step(count.step) * (-1 if count.down else 1)
        self.scope.new.turned.update(opened.inames)
        form = affine_of(opened.bind[count.counter.id])
        assert form is not None, "a loop variable is an affine form"
        return {count.counter.id: to_expression(_plus(form, step))}

    def _step(self, node: Node) -> int:
        form = affine_of(self.convert(node))
        if form is None or form.terms:
            self.scope.deny(node, "unsupported-loop", "the step of a loop is a constant", "write an integer")
        if form.const == 0:
            hint = "write an integer, such as 2 or -1"
            self.scope.deny(node, "unsupported-loop", "the step of a loop is not 0", hint)
        return form.const

    def forms(self, node: Node, splitting: type[p.Min | p.Max], wish: str) -> tuple[Affine, ...]:
        """Return the affine bounds in *node*: the operands of ``min`` or ``max``, or one."""
        expr = self.convert(node)
        parts = expr.children if isinstance(expr, splitting) else (expr,)
        return tuple(self.form(node, part, wish) for part in parts)

    def form(self, node: Node, expr: Expression, wish: str) -> Affine:
        """Return the bound *expr*: as an affine form, or a temporary named *wish* that holds its value."""
        form = affine_of(expr)
        if form is None or isinstance(expr, bool) or not all(map(self.is_integer, variables(expr))):
            self._check_kept(node, expr)
            return Affine.variable(self.keep(node, expr, wish))
        return form

    def _check_kept(self, node: Node, expr: Expression) -> None:
        """Refuse a bound that cannot be computed in front of the statement."""
        scope = self.scope
        if isinstance(expr, bool | float | complex):
            scope.deny(node, "unsupported-loop", f"'{ast.unparse(node)}' is no integer", _AFFINE)
        is_plain = affine_of(expr) is not None
        for name in sorted(variables(expr)):
            if scope.hidden or name in scope.parameters or (is_plain and scope.arguments.get(name) is Use.SCALAR):
                self.check_integer(node, name)
            if name in scope.open and name not in self.around():
                what = f"the bound depends on '{name}' by more than an affine form"
                hint = "write the reduction as a loop: s = 0, for k in range(n): s += ..."
                scope.deny(node, "unsupported-loop", what, hint)
        if scope.hidden:
            what = f"'{ast.unparse(node)}' is not an affine bound, in a function of the kernel"
            scope.deny(node, "unsupported-loop", what, _AFFINE)

    def check_integer(self, node: Node, name: str) -> None:
        """Refuse a name in a domain that is not an integer of the whole kernel or a loop variable."""
        if self.is_integer(name):
            return
        if name in self.scope.arguments:
            what = f"'{name}' bounds a loop and is {self.scope.arguments[name].value}"
            self.scope.deny(node, "unsupported-loop", what, f"give it an integer type: {name}: pl.int32")
        what = f"the bound depends on '{name}', which is assigned in the kernel"
        if name in self.scope.parameters:
            what = f"the bound depends on '{name}', a parameter of a function in the kernel"
        self.scope.deny(node, "unsupported-loop", what, _AFFINE)

    def _from_text(
        self, node: ast.Constant, variables: Sequence[ast.Name], names: Sequence[str]
    ) -> isl.Set:
        """Return the set of ``pl.domain("...")``, where the user's names become inames."""
        written = [variable.id for variable in variables]
        literal = self.scope.source.literal(node)
        head, place = f"{{[{', '.join(written)}]: ", literal.segments[0]
        segments = (
            Segment(0, place.line, place.column, place.text, place.file),
            Segment(len(head), place.line, place.column, place.text, place.file),
            Segment(len(head) + len(literal.text), place.line, place.column, place.text, place.file),
        )
        found = read_domain(Source(f"{head}{literal.text}}}", segments), DECORATOR)
        for position, name in enumerate(names):
            found = found.set_dim_name(isl.dim_type.set, position, name)
        for name in parameters_of(found):
            found = self._resolve(node, found, name)
        return found

    def _with_value(self, node: ast.Constant, found: isl.Set, name: str) -> isl.Set:
        """Return *found* with the expression that *name* stands for in place of its parameter."""
        value = self.scope.bound[name]
        position = found.find_dim_by_name(isl.dim_type.param, name)
        if isinstance(value, p.Variable):
            return found.set_dim_name(isl.dim_type.param, position, value.name)
        form = affine_of(value)
        if form is None or not all(map(self.is_integer, form.names())):
            what = f"'{name}' in a domain is no affine form of loop variables and arguments"
            self.scope.deny(node, "unsupported-loop", what, _AFFINE)
        old = f"{name}_value"
        inames = [found.get_dim_name(isl.dim_type.set, k) or "" for k in range(found.dim(isl.dim_type.set))]
        found = found.set_dim_name(isl.dim_type.param, position, old)
        found = found.intersect(_restriction(inames, f"{old} = {isl_text(form)}"))
        return found.project_out(isl.dim_type.param, found.find_dim_by_name(isl.dim_type.param, old), 1)

    def _resolve(self, node: ast.Constant, found: isl.Set, name: str) -> isl.Set:
        """Return *found* with the parameter *name* resolved to an iname, an argument or a number."""
        scope = self.scope
        position = found.find_dim_by_name(isl.dim_type.param, name)
        if name in scope.bound and name not in scope.parameters:
            return self._with_value(node, found, name)
        if scope.is_own(name):
            self.check_integer(node, name)
            return found
        value = scope.captured(name)
        number = scope.number(ast.Name(name)) if value is not NOTHING else None
        if isinstance(number, int) and not isinstance(number, bool):
            return found.fix_val(isl.dim_type.param, position, number).project_out(isl.dim_type.param, position, 1)
        try:
            scope.unknown(ast.copy_location(ast.Name(name), node))
        except KernelError:
            if value is NOTHING:
                raise
        scope.deny(node, "bad-capture", f"'{name}' in a domain is no integer", "use an integer constant or argument")

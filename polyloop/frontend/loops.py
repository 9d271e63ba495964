"""Conversion of ``range`` and ``pl.domain`` to ISL sets."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field

import islpy as isl
import pymbolic.primitives as p

from polyloop.errors import KernelError
from polyloop.expr.nodes import Expression
from polyloop.expr.rewrite import variables
from polyloop.expr.source import Segment, Source
from polyloop.frontend import intrinsics
from polyloop.frontend.scope import NOTHING, Scope, Use
from polyloop.frontend.source import DECORATOR, Node
from polyloop.kernel.domains import parameters_of
from polyloop.kernel.text.domain_text import parse_domain, read_domain
from polyloop.poly.affine import Affine, Floor, affine_of

__all__ = ["Loops", "isl_condition"]

_AFFINE = "bounds are sums of integer multiples of loop variables and integer arguments"
_FORMS = 'write for i in range(n), or for i, j in pl.domain("0 <= i, j < n")'


def isl_form(form: Affine) -> str:
    """Return *form* as ISL reads it."""
    parts = []
    for var, coefficient in form.terms:
        atom = f"floor(({isl_form(Affine(*var[:2]))})/{var.den})" if isinstance(var, Floor) else var
        parts.append(atom if coefficient == 1 else f"{coefficient}*{atom}")
    if form.const or not parts:
        parts.append(str(form.const))
    return " + ".join(parts).replace("+ -", "- ")


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
            return f"{isl_form(left)} {operator} {isl_form(right)}"
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
    """``lower <= i < upper`` for every entry of the two, every *step*."""

    lower: tuple[Affine, ...]
    upper: tuple[Affine, ...]
    step: int = 1

    def text(self, iname: str) -> str:
        """Return the condition on *iname*."""
        assert iname not in {name for form in (*self.lower, *self.upper) for name in form.names()}, "bounded by itself"
        first, *more = [isl_form(form) for form in self.lower]
        head = f"{first} <= {iname} < {isl_form(self.upper[0])}"
        parts = [head, *(f"{form} <= {iname}" for form in more)]
        parts += [f"{iname} < {isl_form(form)}" for form in self.upper[1:]]
        if self.step > 1:
            offset = isl_form(self.lower[0])
            inside = iname if offset == "0" else f"{iname} - ({offset})"
            parts.append(f"({inside}) mod {self.step} = 0")
        return " and ".join(parts)


@dataclass
class Loops:
    """Makes the domains of a function's loops.

    ``convert`` turns a node into an expression over inames; ``domains`` has one set for each loop so far.
    """

    scope: Scope
    convert: Callable[[Node], Expression]
    domains: list[isl.Set] = field(default_factory=list)

    def is_integer(self, name: str) -> bool:
        """Return whether *name* can be in a domain: an iname of an open loop, or an argument that may be an integer.

        A parameter of a function in the body is neither, whatever it is called.
        """
        scope = self.scope
        if name in scope.parameters:
            return False
        return name in scope.loops.values() or scope.arguments.get(name) is Use.INTEGER

    def add(
        self, target: Node, over: Node, names: Sequence[str], bind: Mapping[str, str], condition: str = ""
    ) -> None:
        """Add the domain of one loop with the inames *names*, restricted by *condition*.

        Python evaluates ``range(i)`` before it binds the loop variable, so an ``i`` there is that of a loop around.
        The bounds of ``pl.domain`` may use its own variables, which *bind* maps to inames.
        """
        is_range = self._kind(over) is range
        with nullcontext() if is_range else self.scope.looping(bind):
            self.domains.append(self._box(target, over, names, condition))

    def names(self, target: Node, over: Node) -> list[ast.Name]:
        """Return the loop variables of a loop, checked against its iterable."""
        parts: list[Node] = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
        for part in parts:
            if not isinstance(part, ast.Name):
                self.scope.deny(part, "unsupported-loop", "a loop variable is a name", _FORMS)
        what = self._kind(over)
        if what is range and isinstance(target, ast.Tuple | ast.List):
            hint = "nest two loops, or loop over pl.domain(n, m)"
            self.scope.deny(target, "unsupported-loop", "'range' gives one loop variable", hint)
        return parts

    def _kind(self, over: Node) -> object:
        if isinstance(over, ast.Call):
            found = self.scope.find(over.func)
            if found in (range, intrinsics.domain):
                return found
        shown = ast.unparse(over)
        self.scope.deny(over, "unsupported-loop", f"a kernel does not loop over '{shown}'", _FORMS)

    def _box(self, target: Node, over: ast.Call, names: Sequence[str], condition: str) -> isl.Set:
        variables = self.names(target, over)
        if self.scope.find(over.func) is range:
            if over.keywords:
                self.scope.deny(over, "unsupported-loop", "'range' takes no keyword arguments", _FORMS)
            parts = [self._range(over, over.args).text(names[0])]
        elif len(over.args) == 1 and isinstance(over.args[0], ast.Constant) and isinstance(over.args[0].value, str):
            if over.keywords:
                hint = "put all conditions into the text"
                self.scope.deny(over, "unsupported-loop", "pl.domain takes a text, or bounds", hint)
            return self._from_text(over.args[0], variables, names, condition)
        else:
            parts = [self._bounds(node).text(iname) for node, iname in self._each(over, variables, names)]
        if condition:
            parts.append(f"({condition})")
        return parse_domain(f"{{[{', '.join(names)}]: {' and '.join(parts)}}}", DECORATOR)

    def _each(
        self, over: ast.Call, variables: Sequence[ast.Name], names: Sequence[str]
    ) -> list[tuple[Node, str]]:
        """Return the bounds of each loop variable of ``pl.domain(n, j=m)``."""
        left = dict(zip((variable.id for variable in variables), names, strict=True))
        found: list[tuple[Node, str]] = []
        for node in over.args:
            if not left:
                self.scope.deny(node, "unsupported-loop", "there are more bounds than loop variables", _FORMS)
            found.append((node, left.pop(next(iter(left)))))
        for keyword in over.keywords:
            if keyword.arg not in left:
                hint = f"loop variables without bounds: {', '.join(left) or 'none'}"
                self.scope.deny(keyword, "unsupported-loop", f"'{keyword.arg}' is no loop variable to bound", hint)
            found.append((keyword.value, left.pop(keyword.arg)))
        if left:
            what = f"'{next(iter(left))}' has no bounds"
            hint = "give bounds for each loop variable, or a condition as text"
            self.scope.deny(over, "unsupported-loop", what, hint)
        return found

    def _bounds(self, node: Node) -> _Bounds:
        if isinstance(node, ast.Call) and self.scope.find(node.func) is range:
            return self._range(node, node.args)
        if isinstance(node, ast.Tuple):
            return self._range(node, node.elts)
        return self._range(node, [node])

    def _range(self, node: Node, entries: Sequence[Node]) -> _Bounds:
        if not 1 <= len(entries) <= 3 or any(isinstance(entry, ast.Starred) for entry in entries):
            hint = "write range(n), range(a, b) or range(a, b, step)"
            self.scope.deny(node, "wrong-argument-count", f"'range' does not take {len(entries)} arguments", hint)
        lower = (Affine((), 0),) if len(entries) == 1 else self._forms(entries[0], p.Max)
        upper = self._forms(entries[0 if len(entries) == 1 else 1], p.Min)
        step = self._step(entries[2]) if len(entries) == 3 else 1
        if step > 1 and len(lower) > 1:
            hint = "begin at one bound, and skip iterations with 'if'"
            self.scope.deny(entries[0], "unsupported-loop", "a loop with a step begins at one bound", hint)
        return _Bounds(lower, upper, step)

    def _step(self, node: Node) -> int:
        form = affine_of(self.convert(node))
        if form is None or form.terms:
            self.scope.deny(node, "unsupported-loop", "the step of a loop is a constant", "write an integer")
        if form.const == 0:
            self.scope.deny(node, "unsupported-loop", "the step of a loop is not 0", "write a positive integer")
        if form.const < 0:
            hint = "loop upward and subscript downward: for i in range(n): a[n - 1 - i] = ..."
            self.scope.deny(node, "unsupported-loop", "loops run upward", hint)
        return form.const

    def _forms(self, node: Node, splitting: type[p.Min | p.Max]) -> tuple[Affine, ...]:
        """Return the affine bounds in *node*: the operands of ``min`` or ``max``, or one."""
        expr = self.convert(node)
        parts = expr.children if isinstance(expr, splitting) else (expr,)
        return tuple(self._form(node, part) for part in parts)

    def _form(self, node: Node, expr: Expression) -> Affine:
        form = affine_of(expr)
        if form is None or isinstance(expr, bool):
            self.scope.deny(node, "unsupported-loop", f"'{ast.unparse(node)}' is not an affine bound", _AFFINE)
        for name in sorted(form.names()):
            self.check_integer(node, name)
        return form

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
        self, node: ast.Constant, variables: Sequence[ast.Name], names: Sequence[str], condition: str
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
        if condition:
            found = found.intersect(parse_domain(f"{{[{', '.join(names)}]: {condition}}}", DECORATOR))
        return found

    def _resolve(self, node: ast.Constant, found: isl.Set, name: str) -> isl.Set:
        """Return *found* with the parameter *name* resolved to an iname, an argument or a number."""
        scope = self.scope
        position = found.find_dim_by_name(isl.dim_type.param, name)
        if name in scope.loops:
            return found.set_dim_name(isl.dim_type.param, position, scope.loops[name])
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

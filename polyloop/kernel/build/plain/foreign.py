"""Calls of foreign functions in the text, resolved to overloads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import pymbolic.primitives as p

from polyloop.errors import Diagnostic, KernelError
from polyloop.expr.foreign import ForeignFunction, ForeignName, conflicting_definitions, foreign_calls
from polyloop.expr.nodes import Expression, function_name
from polyloop.expr.rewrite import map_nodes
from polyloop.frozen import replace
from polyloop.kernel.instruction import SubstitutionRule
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.text.calls import Slice, SubArray
from polyloop.kernel.text.parser import Parsed, ParsedCall, ParsedInstruction, ParsedRule

__all__ = ["bind_foreign", "foreign_clashes", "foreign_in", "mapped", "mapped_call"]


def bind_foreign(parsed: Sequence[Parsed], table: Mapping[str, ForeignName]) -> Sequence[Parsed]:
    """Return the statements with the definitions in *table* in the place of the names of foreign functions.

    From here on a call carries what it means: nothing has to look up its name, and kernels that define one name
    otherwise cannot be confused.

    Raises
    ------
    KernelError
        ``name-taken``: a substitution rule has the name of a foreign function.
    """
    if not table:
        return parsed

    def bound(node: Expression) -> Expression:
        found = table.get(function_name(node)) if type(node) is p.Call else None
        return node if found is None else p.Call(found, node.parameters)

    def expression(expr: Expression) -> Expression:
        return map_nodes(expr, bound)

    for entry in parsed:
        if isinstance(entry, ParsedRule) and entry.rule.name in table:
            message = f"'{entry.rule.name}' is a substitution rule and a foreign function"
            problem = Diagnostic("name-taken", message, hints=("rename one of them",), span=entry.place.span)
            raise KernelError("make_kernel", None, [problem])
    return [mapped(entry, expression) for entry in parsed]


def mapped(entry: Parsed, change: Callable[[Expression], Expression]) -> Parsed:
    """Return a statement with every expression in it changed."""
    match entry:
        case ParsedInstruction():
            return entry.mapped(change)
        case ParsedRule():
            return replace(entry, rule=entry.rule.mapped(change))
        case ParsedCall():
            return replace(mapped_call(entry, change), frame=entry.frame.mapped(change))
    return entry


def mapped_call(call: ParsedCall, change: Callable[[Expression], Expression]) -> ParsedCall:
    """Return *call* with every expression in its arguments, subscripts included, changed."""

    def index(entry: Expression | Slice) -> Expression | Slice:
        if not isinstance(entry, Slice):
            return change(entry)
        return Slice(*(None if end is None else change(end) for end in (entry.low, entry.high, entry.step)))

    def part(entry: SubArray) -> SubArray:
        return entry if entry.indices is None else replace(entry, indices=tuple(map(index, entry.indices)))

    arguments = tuple(part(entry) if isinstance(entry, SubArray) else change(entry) for entry in call.arguments)
    return replace(call, outputs=tuple(map(part, call.outputs)), arguments=arguments)


def foreign_in(
    statements: Sequence[ParsedInstruction], rules: Iterable[SubstitutionRule]
) -> tuple[ForeignFunction, ...]:
    """Return the foreign functions that a kernel may call, each once, in their order."""
    expressions = [part for entry in statements for part in entry.parts()]
    expressions += [rule.value for rule in rules]
    found = (entry for expr in expressions for name in foreign_calls(expr) for entry in name.overloads)
    return tuple(dict.fromkeys(found))


def foreign_clashes(kernel: LoopKernel) -> Iterator[Diagnostic]:
    """Yield foreign functions with two definitions, and variables with the name of a function or of its macros."""
    yield from conflicting_definitions(kernel.foreign)
    own = replace(kernel, foreign=()).names()
    for function in kernel.foreign:
        for name in sorted(function.names() & own):
            message = f"'{name}' is used in the kernel, and by the foreign function '{function.name}'"
            yield Diagnostic("name-taken", message, hints=(f"rename '{name}' in the kernel",))

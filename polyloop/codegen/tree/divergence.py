"""Divergence checks: whole warps execute shuffles and matrix instructions, whole blocks convergent functions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from polyloop.codegen.device.entries import Shuffles
from polyloop.codegen.scope import Scope
from polyloop.codegen.tree.c_ast import Block, Call, Declare, For, If, Node, Verbatim, blocks_of, expressions_of, walk
from polyloop.codegen.tree.c_expr import Apply, Code, calls, choices, root
from polyloop.errors import Diagnostic
from polyloop.expr.foreign import ForeignFunction
from polyloop.mapping.mixed_radix import Digit
from polyloop.poly.axes import THREAD_AXES

__all__ = ["MATRIX", "refuse_divergent"]

MATRIX: Final = "matrix "
"""Prefix of the keys of helper functions with matrix instructions, which whole warps must call."""


def refuse_divergent(
    body: Block, scope: Scope, digits: Iterable[Digit] = (), together: int = 1, width: int = 1
) -> None:  # fmt: skip
    """Raise an error if a condition or loop bound around a shuffle or matrix instruction may differ between lanes.

    Parameters
    ----------
    digits
        The digits of the thread number that conditions may contain.
    together
        Most threads that execute one matrix instruction.
    width
        Threads of a block along its first axis.

    Raises
    ------
    CodegenError
        ``divergent-exchange``, ``bad-tensorize``, ``divergent-call``.
    """
    digits = tuple(digits)
    convergent = {name: f for (name, _), f in scope.definitions.foreign_functions.items() if f.convergent}
    texts = [node for node in walk(body) if isinstance(node, Verbatim) and node.convergent]
    if convergent or texts:
        axes = [*(digit.axis for digit in digits), *THREAD_AXES]
        threads = [str(scope.values[axis]) for axis in axes if axis in scope.values]
        full = f'let blocks be full: pl.assume(knl, "n mod {width} = 0")'
        _look_for_calls(body, scope, threads, convergent, full)
        _look_for_texts(body, scope, threads, full)
    if digits and (functions := set(_matrix_functions(scope))):
        together = max(together, scope.language.warp_size)
        lanes = [str(scope.values[digit.axis]) for digit in digits if digit.stride % together]
        _look_for(body, scope, [*lanes, *(str(scope.values[axis]) for axis in THREAD_AXES)], functions)
    names = scope.memory.of_lanes
    if names:
        _look_at(body, scope, names)


def _matrix_functions(scope: Scope) -> Iterator[str]:
    return (name for key, name in scope.definitions.helper_names.items() if key.startswith(MATRIX))


def _varying(body: Block, scope: Scope, lanes: Iterable[str]) -> frozenset[str]:
    """Return *lanes*, and the variables that are defined in terms of them."""
    found = set(lanes)
    for node in walk(body):
        if isinstance(node, Declare) and not found.isdisjoint(_names(node, scope)):
            found.update((node.name, *(name for name, _ in node.more)))
    return frozenset(found)


def _names(node: Node, scope: Scope) -> frozenset[str]:
    """Return the variables in a statement itself, with named indices expanded."""
    return frozenset[str]().union(*[scope.indices.plain(code).names for code in expressions_of(node)])


def _shown(codes: Iterable[Code], scope: Scope) -> str:
    return ", ".join(str(scope.indices.plain(code)) for code in codes)


def _head(node: If | For, scope: Scope) -> str:
    """Return the condition of a branch, or the head of a loop, for a message."""
    if isinstance(node, For):
        return f"for ({node.var} = {_shown([node.start], scope)}; {_shown([node.test], scope)})"
    return _shown([node.condition], scope)


def _parts_of_lanes(body: Block, scope: Scope, lanes: frozenset[str]) -> Iterator[tuple[str, Block]]:
    """Yield the conditions and loop bounds that may depend on data or on one of *lanes*, each with its body."""
    for node in walk(body):
        if isinstance(node, If | For) and (node.reads or not lanes.isdisjoint(_names(node, scope))):
            yield _head(node, scope), blocks_of(node)


def _look_for(body: Block, scope: Scope, lanes: Iterable[str], functions: Collection[str]) -> None:
    """Raise an error if a matrix instruction, a call of one of *functions*, is under a condition on *lanes* or data."""
    for shown, parts in _parts_of_lanes(body, scope, _varying(body, scope, lanes)):
        for child in walk(parts):
            if isinstance(child, Call) and isinstance(child.code, Apply) and child.code.function in functions:
                raise scope.error(
                    Diagnostic(
                        "bad-tensorize",
                        f"the matrix instruction of '{child.instruction}' would stand where not all lanes of a warp "
                        "may be",
                        (f"it would stand under '{shown}', which may depend on the lane, or on data",),
                        ("take the product outside of the condition, or leave out tensorize",),
                    )
                )


def _look_for_calls(
    body: Block, scope: Scope, threads: Iterable[str], functions: Mapping[str, ForeignFunction], full: str
) -> None:  # fmt: skip
    """Raise an error if a convergent function is called where some threads of a block may not be."""
    for shown, codes in _decided(body, scope, _varying(body, scope, threads)):
        for name, function in functions.items():
            if any(True for code in codes for _ in calls(code, name)):
                raise scope.error(
                    Diagnostic(
                        "divergent-call",
                        f"'{function.name}' is convergent, and would be called where not all threads of a block may be",
                        (f"it would stand under '{shown}', which may depend on the thread, or on data",),
                        ("take the value outside of the condition into a temporary", full),
                    )
                )


def _look_for_texts(body: Block, scope: Scope, threads: Iterable[str], full: str) -> None:
    """Raise an error if convergent C text of the user's stands where some threads of a block may not be."""
    for shown, parts in _parts_of_lanes(body, scope, _varying(body, scope, threads)):
        for child in walk(parts):
            if isinstance(child, Verbatim) and child.convergent:
                raise scope.error(
                    Diagnostic(
                        "divergent-call",
                        f"the C text of '{child.instruction}' is convergent, and would stand where not all threads of "
                        "a block may be",
                        (f"it would stand under '{shown}', which may depend on the thread, or on data",),
                        ("take the instruction outside of the condition", full),
                    )
                )


def _decided(body: Block, scope: Scope, lanes: frozenset[str]) -> Iterator[tuple[str, list[Code]]]:
    """Yield conditions of statements and choices that may depend on data or *lanes*, with the code under them."""
    for shown, parts in _parts_of_lanes(body, scope, lanes):
        yield shown, [code for child in walk(parts) for code in expressions_of(child)]
    data = lanes.union(scope.memory.storage)
    for code in (code for node in walk(body) for code in expressions_of(node)):
        for condition, skipped in choices(code):
            if not data.isdisjoint(scope.indices.plain(condition).names):
                yield _shown([condition], scope), [skipped]


def _look_at(body: Block, scope: Scope, names: Collection[str]) -> None:
    """Raise an error if a shuffle of one of *names* is under a condition on the lane or data, in C code or a choice."""
    lanes = _varying(body, scope, [str(scope.values[THREAD_AXES[0]])])
    shuffle = scope.language.need(Shuffles)
    for shown, codes in _decided(body, scope, lanes):
        exchanged = (
            root(call.arguments[shuffle.position]) for code in codes for call in calls(code, shuffle.read)
        )
        if found := sorted(name for name in exchanged if name is not None and name in names):
            raise scope.error(
                Diagnostic(
                    "divergent-exchange",
                    f"the lanes of a warp exchange '{found[0]}' at a point that not all of them may reach",
                    (f"the exchange would stand under '{shown}', which may depend on the lane",),
                    ("take the value outside of the condition, or leave the temporary in shared memory",),
                )
            )

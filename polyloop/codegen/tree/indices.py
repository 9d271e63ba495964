"""Named indices: variables for indices that occur more than once, as in ``const int i = 16 * bx + tx;``.

An iname of the reference program that is now a sum of several inames is a candidate wherever all of these have values.
During code generation a *mark* is its placeholder in expressions.  When the function is complete, a mark that occurs
often enough becomes a variable, and the others are expanded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from operator import is_
from typing import Final

from polyloop.codegen.tree.c_ast import (
    Block,
    Declare,
    For,
    Node,
    Verbatim,
    blocks_of,
    expressions_of,
    walk,
    with_blocks,
    with_expressions,
)
from polyloop.codegen.tree.c_expr import Code, Name, occurrences, put
from polyloop.frozen import replace
from polyloop.poly.affine import Affine, Var

__all__ = ["Indices", "Mark", "is_mark"]

_LETTER: Final = "\N{LATIN LETTER ALVEOLAR CLICK}"
_LEAST: Final = 2
_LINE: Final = 80


def is_mark(var: Var) -> bool:
    """Return True if a variable of an affine form is a mark."""
    return type(var) is str and var[0] == _LETTER


@dataclass(frozen=True)
class Mark:
    """Placeholder of an index: ``name`` is its name in the text, ``form`` its value."""

    number: int
    name: str
    form: Affine

    @property
    def text(self) -> str:
        """The variable in forms and expressions until the function is complete."""
        return f"{_LETTER}{self.number}{_LETTER}"


class Indices:
    """Named indices of one function.

    Parameters
    ----------
    candidates
        Names with their affine forms of inames, axes and parameters.
    parameters
        Names that have a value everywhere.
    """

    def __init__(self, candidates: Iterable[tuple[str, Affine]] = (), parameters: Iterable[str] = ()) -> None:
        given = frozenset(parameters)
        self._candidates = tuple((name, form, form.names() - given) for name, form in candidates)
        self._marks: dict[tuple[str, Affine], Mark] = {}
        self._open: list[Mark] = []
        self._used: dict[str, Mark] = {}
        self._values: dict[str, Code] = {}
        self._names: dict[Mark, str | None] = {}
        self._taken: dict[Affine, Affine | None] = {}

    @property
    def is_open(self) -> bool:
        """True if any candidate has a value at the present place."""
        return bool(self._open)

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Suspend the use of marks, for expressions whose variables are inspected."""
        (opened, taken), (self._open, self._taken) = (self._open, self._taken), ([], {})
        yield
        self._open, self._taken = opened, taken

    def open(self, known: frozenset[str], new: Iterable[str], values: Mapping[str, str | int]) -> tuple[Mark, ...]:
        """Return marks for the candidates whose last inames, *new* ones among the *known*, got values here."""
        fresh = frozenset(new)
        opened: list[Mark] = []
        for name, form, names in self._candidates:
            if names <= known and not fresh.isdisjoint(names):
                constants = {n: Affine((), v) for n in names if isinstance(v := values.get(n), int)}
                rest = form.substitute(constants)
                if len(rest.terms) > 1:
                    opened.append(self._marks.setdefault((name, rest), Mark(len(self._marks), name, rest)))
        self._open = sorted((*self._open, *opened), key=lambda mark: -len(mark.form.terms))  # the most specific first
        self._taken = {}
        return tuple(opened)

    def close(self, opened: Sequence[Mark], ctype: str, show: Callable[[Affine], Code]) -> Block:
        """Return the definitions of the used marks in *opened*, at the end of their scope."""
        self._open = [mark for mark in self._open if mark not in opened]
        self._taken = {}
        used = [mark for mark in opened if mark.text in self._used]
        self._values |= {mark.text: show(mark.form) for mark in used}
        return tuple(Declare(f"const {ctype}", mark.text, (), self._values[mark.text]) for mark in used)

    def take(self, form: Affine) -> Affine:
        """Return *form* with sums replaced by marks."""
        if len(form.terms) < 2:
            return form
        if form in self._taken:
            return self._taken[form] or form
        rest = form
        for mark in self._open:
            factor = _factor(mark.form, rest)
            if factor:
                rest = rest.add(mark.form, -factor).add(Affine.variable(mark.text), factor)
                self._used[mark.text] = mark
        self._taken[form] = None if rest is form else rest
        return rest

    def plain(self, code: Code) -> Code:
        """Return *code* with marks expanded."""
        while marks := code.names & self._used.keys():
            code = put(code, {mark: self._values.get(mark) or Name(self._used[mark].name) for mark in marks})
        return code

    def settle(self, body: Block, fresh: Callable[[str], str | None]) -> Block:
        """Return *body* with variables for the marks that occur often, and the other ones expanded.

        Parameters
        ----------
        fresh
            Function that reserves a name and returns it; None if the name is taken.
        """
        return self._settled(body, fresh) if self._used else body

    def _settled(self, body: Block, fresh: Callable[[str], str | None]) -> Block:
        strided = [self._strided(node, fresh) if isinstance(node, For) else node for node in body]
        found = tuple([with_blocks(node, lambda block: self._settled(block, fresh)) for node in strided])
        names: Block = ()
        for position in range(len(found) - 1, -1, -1):
            node = found[position]
            if isinstance(node, Declare) and node.value is not None and is_mark(node.name):
                mark, value = self._used[node.name], node.value
                is_often = _is_often((*names, *found[position + 1 :]), mark.text)
                name = self._named(mark, fresh) if is_often else None
                new = value if name is None else Name(name)
                names = _rewritten(names, mark.text, new, value)
                found = (*found[:position], *_rewritten(found[position + 1 :], mark.text, new, value))
                if name is not None:
                    names = (replace(node, name=name), *names)
        if len(found) == len(body) and all(map(is_, found, body)):
            return body
        return (*_joined(names), *found)

    def _strided(self, loop: For, fresh: Callable[[str], str | None]) -> For:
        """Return *loop* by the named index that alone uses its variable, if there is one.

        ::

            for (j_outer = 0; j_outer < (n - tx + 255) / 256; ++j_outer) {j = 256 * j_outer + tx; ..}
            ->   for (j = tx; j < n; j += 256) {..}
        """
        head = loop.strided
        if head is None:
            return loop
        own = [node for node in loop.body if isinstance(node, Declare) and node.name == head.var]
        rest = tuple(node for node in loop.body if node not in own)
        if len(own) != 1 or any(loop.var in node.names or isinstance(node, Verbatim) for node in walk(rest)):
            return loop
        name = self._named(self._used[head.var], fresh)
        if name is None:
            return loop
        body = _rewritten(rest, head.var, Name(name), Name(name))
        test = put(head.test, {head.var: Name(name)})
        return replace(loop, var=name, start=head.start, test=test, step=head.step, body=body, strided=None)

    def _named(self, mark: Mark, fresh: Callable[[str], str | None]) -> str | None:
        if mark not in self._names:
            self._names[mark] = fresh(mark.name)
        return self._names[mark]


def _factor(mark: Affine, form: Affine) -> int:
    """Return the factor with which *form* has all terms of *mark*, 0 if it does not have them in proportion.

    The factor is also 0 if another term has a greater coefficient, which makes the terms digits of a longer index.
    """
    have = dict(form.terms)
    (first, size), *others = mark.terms
    factor, rest = divmod(have.pop(first, 0), size)
    if rest or not factor or any(have.pop(var, 0) != factor * coefficient for var, coefficient in others):
        return 0
    largest = max(abs(factor * coefficient) for _, coefficient in mark.terms)
    return factor if all(abs(coefficient) <= largest for coefficient in have.values()) else 0


def _is_often(block: Block, mark: str) -> bool:
    """Return True if a mark occurs often enough for a variable."""
    count = 0
    for number in _uses(block, mark):
        count += number
        if count >= _LEAST:
            return True
    return False


def _uses(block: Iterable[Node], mark: str) -> Iterator[int]:
    """Yield the number of occurrences of a mark in each statement, without C text of the user, which uses no names."""
    for node in block:
        if mark in node.names and not isinstance(node, Verbatim):
            yield sum([occurrences(code, mark) for code in expressions_of(node)])
            yield from _uses(blocks_of(node), mark)


def _rewritten(block: Block, mark: str, value: Code, written: Code) -> Block:
    """Return *block* with a mark replaced by *value*; in C text of the user, by the expanded form *written*."""

    def changed(node: Node) -> Node:
        if mark not in node.names:
            return node
        new = written if isinstance(node, Verbatim) else value
        inner = with_blocks(node, lambda inside: _rewritten(inside, mark, value, written))
        return with_expressions(inner, lambda code: put(code, {mark: new}))

    found = [changed(node) for node in block]
    return block if all(map(is_, found, block)) else tuple(found)


def _joined(names: Iterable[Node]) -> list[Declare]:
    """Return the definitions, with several on a line."""
    lines: list[Declare] = []
    length = 0
    for node in names:
        assert isinstance(node, Declare) and node.value is not None, "names are declared"  # noqa: PT018 - one thing
        if lines and length + len(node.value.text) < _LINE:
            lines[-1] = replace(lines[-1], more=(*lines[-1].more, (node.name, node.value)))
            length += len(f", {node.name} = {node.value}")
        else:
            lines.append(node)
            length = len(node.value.text)
    return lines

"""Names for indices that occur more than once, as a person gives them: ``const int i = 16 * bx + tx;``.

An index of the reference program that several inames make up now is a candidate from the place on where all of them
have values.  While the text is made, a mark stands for it; when the function is whole, marks that occur often enough
become names, and the others what they stand for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from operator import is_
from typing import Any, Final, TypeVar, cast

from polyloop.codegen.tree.c_ast import Assign, Block, Call, Declare, For, Group, If, Node, Verbatim, walk
from polyloop.frozen import replace
from polyloop.poly.affine import Affine, Var

__all__ = ["Indices", "Mark", "is_mark"]

_AnyNode = TypeVar("_AnyNode")

_LETTER: Final = "\N{LATIN LETTER ALVEOLAR CLICK}"
_MARK: Final = re.compile(f"{_LETTER}([0-9]+){_LETTER}")
_BINDS_BEFORE: Final = ("-", "*", "/", "%", "<<", ">>", "!", "~", ")", "^")
_BINDS_AFTER: Final = ("*", "/", "%", "<<", ">>", "^", "& ")
_LEAST: Final = 2
_LINE: Final = 80


def is_mark(var: Var) -> bool:
    """Return whether a variable of a form is a mark."""
    return type(var) is str and var[0] == _LETTER


@dataclass(frozen=True)
class Mark:
    """What stands for an index: ``name`` is what to call it, ``form`` what it is."""

    number: int
    name: str
    form: Affine

    @property
    def text(self) -> str:
        """What stands in the text until the function is whole."""
        return f"{_LETTER}{self.number}{_LETTER}"


class Indices:
    """The indices of one function that may have names.

    Parameters
    ----------
    candidates
        Names, with forms of inames, axes and parameters.
    parameters
        What has a value everywhere.
    """

    def __init__(self, candidates: Iterable[tuple[str, Affine]] = (), parameters: Iterable[str] = ()) -> None:
        given = frozenset(parameters)
        self._candidates = tuple((name, form, form.names() - given) for name, form in candidates)
        self._marks: dict[tuple[str, Affine], Mark] = {}
        self._open: list[Mark] = []
        self._used: dict[str, Mark] = {}
        self._texts: dict[str, str] = {}
        self._names: dict[Mark, str | None] = {}
        self._taken: dict[Affine, Affine | None] = {}

    @property
    def is_open(self) -> bool:
        """Whether any index has a value here."""
        return bool(self._open)

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Let no index be called by its name, where others look at the text for the variables in it."""
        (opened, taken), (self._open, self._taken) = (self._open, self._taken), ([], {})
        yield
        self._open, self._taken = opened, taken

    def open(self, known: frozenset[str], new: Iterable[str], values: Mapping[str, str | int]) -> tuple[Mark, ...]:
        """Return the indices of which the last inames, *new* ones of the *known*, got values."""
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

    def close(self, opened: Sequence[Mark], ctype: str, show: Callable[[Affine], str]) -> Block:
        """Return the definitions of those of *opened* that were used; from here on they have no values."""
        self._open = [mark for mark in self._open if mark not in opened]
        self._taken = {}
        used = [mark for mark in opened if mark.text in self._used]
        self._texts |= {mark.text: show(mark.form) for mark in used}
        return tuple(Declare(f"const {ctype}", mark.text, (), self._texts[mark.text]) for mark in used)

    def take(self, form: Affine) -> Affine:
        """Return *form* with marks, as variables, in place of what they stand for."""
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

    def plain(self, text: str) -> str:
        """Return *text* with what the marks stand for."""
        while found := _MARK.search(text):
            mark = found[0]
            text = _expanded(text, mark, self._texts.get(mark) or self._used[mark].name)
        return text

    def settle(self, body: Block, fresh: Callable[[str], str | None]) -> Block:
        """Return *body* with names for the indices that occur often, and the other ones written out.

        Parameters
        ----------
        fresh
            Takes the name that it is given; None where that belongs to something else.
        """
        return self._settled(body, fresh) if self._used else body

    def _settled(self, body: Block, fresh: Callable[[str], str | None]) -> Block:
        nodes = tuple([_with_blocks(node, lambda block: self._settled(block, fresh)) for node in body])
        names: Block = ()
        for position in range(len(nodes) - 1, -1, -1):
            node = nodes[position]
            if isinstance(node, Declare) and is_mark(node.name):
                mark, value = self._used[node.name], str(node.value)
                rest = (*names, *nodes[position + 1 :])
                often = sum(text.count(mark.text) for text in _texts(rest)) >= _LEAST
                name = self._named(mark, fresh) if often else None
                written = _writing(mark.text, value)
                put = written if name is None else _naming(mark.text, name)
                names = _rewritten(names, put, written)
                nodes = (*nodes[:position], *_rewritten(nodes[position + 1 :], put, written))
                if name is not None:
                    names = (replace(node, name=name), *names)
        if len(nodes) == len(body) and all(map(is_, nodes, body)):
            return body
        return (*_joined(names), *nodes)

    def _named(self, mark: Mark, fresh: Callable[[str], str | None]) -> str | None:
        if mark not in self._names:
            self._names[mark] = fresh(mark.name)
        return self._names[mark]


def _factor(mark: Affine, form: Affine) -> int:
    """Return how many times *form* holds the terms of *mark*; 0 if it does not hold all of them, in proportion.

    Neither does it where a greater step besides them says that they are a part of an index themselves.
    """
    have = dict(form.terms)
    (first, size), *others = mark.terms
    factor, rest = divmod(have.pop(first, 0), size)
    if rest or not factor or any(have.pop(var, 0) != factor * coefficient for var, coefficient in others):
        return 0
    largest = max(abs(factor * coefficient) for _, coefficient in mark.terms)
    return factor if all(abs(coefficient) <= largest for coefficient in have.values()) else 0


def _expanded(text: str, mark: str, value: str) -> str:
    """Return *text* with *value*, a sum, in the place of each *mark*."""
    while (start := text.find(mark)) >= 0:
        end = start + len(mark)
        before, after = text[:start].rstrip(), text[end:].lstrip()
        binds = before.endswith(_BINDS_BEFORE) or after.startswith(_BINDS_AFTER)
        text = text[:start] + (f"({value})" if binds else value) + text[end:]
    return text


def _writing(mark: str, value: str) -> Callable[[str], str]:
    return lambda text: _expanded(text, mark, value) if mark in text else text


def _naming(mark: str, name: str) -> Callable[[str], str]:
    return lambda text: text.replace(mark, name)


def _with_blocks(node: Node, change: Callable[[Block], Block]) -> Node:
    """Return *node* with *change* applied to the blocks in it; itself where nothing changes."""
    match node:
        case For(body=body) | Group(body=body):
            return node if (new := change(body)) is body else replace(node, body=new)
        case If(body=body, orelse=orelse):
            new, other = change(body), change(orelse)
            return node if new is body and other is orelse else replace(node, body=new, orelse=other)
        case _:
            return node


def _texts(block: Iterable[Node]) -> Iterator[str]:
    """Yield the texts in which an index may be called by its name: not those of a user's, who may call others so."""
    for node in walk(tuple(block)):
        match node:
            case Assign(target, _, value):
                yield from (target, value)
            case Call(text):
                yield text
            case Declare(value=str(value)):
                yield value
            case For(start=start, test=test):
                yield from (start, test)
            case If(condition):
                yield condition


def _rewritten(block: Block, put: Callable[[str], str], written: Callable[[str], str]) -> Block:
    """Return *block* with *put* applied to the texts in which an index may stand, *written* to those of a user's."""
    new = [_changed(_with_blocks(node, lambda inner: _rewritten(inner, put, written)), put, written) for node in block]
    return block if all(map(is_, new, block)) else tuple(new)


def _changed(node: Node, put: Callable[[str], str], written: Callable[[str], str]) -> Node:
    match node:
        case Assign(target, _, value):
            return _with(node, target=put(target), value=put(value))
        case Call(text):
            return _with(node, text=put(text))
        case Verbatim(constants):
            changed = tuple((ctype, name, written(value)) for ctype, name, value in constants)
            return node if changed == constants else replace(node, constants=changed)
        case Declare(value=str(value)):
            return _with(node, value=put(value))
        case For(start=start, test=test):
            return _with(node, start=put(start), test=put(test))
        case If(condition):
            return _with(node, condition=put(condition))
        case _:
            return node


def _with(node: _AnyNode, **texts: str) -> _AnyNode:
    """Return *node* with other texts; itself where they are its own."""
    if all(getattr(node, name) == text for name, text in texts.items()):
        return node
    changed: _AnyNode = replace(cast("Any", node), **texts)
    return changed


def _joined(names: Iterable[Node]) -> list[Declare]:
    """Return definitions of one type, several on a line."""
    lines: list[Declare] = []
    for node in names:
        assert isinstance(node, Declare), "names are declared"
        if lines and len(f"{lines[-1].value}{node.value}") < _LINE:
            lines[-1] = replace(lines[-1], value=f"{lines[-1].value}, {node.name} = {node.value}")
        else:
            lines.append(node)
    return lines

"""The source of a Python function as a tree, with the way back to lines and columns of the user's file."""

from __future__ import annotations

import ast
import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from polyloop.edge.words import spelt
from polyloop.errors import Diagnostic, KernelError, Span
from polyloop.expr.source import Segment, Source

__all__ = ["DECORATOR", "FunctionSource", "Node", "read_source"]

DECORATOR: Final = "@pl.kernel"
"""Name of the public call, for messages."""
Node: TypeAlias = Any
"""A node of Python's ``ast`` that has a place."""


@dataclass(frozen=True)
class FunctionSource:
    """One function of the user's.

    Attributes
    ----------
    tree
        Its definition; line numbers are those of the file.
    file
        The file; ``cell`` for one that a notebook keeps.
    first, lines
        Number of the first line of the function, and its lines.
    """

    tree: ast.FunctionDef
    file: str
    first: int
    lines: tuple[str, ...]

    def line(self, number: int) -> str:
        """Return one line of the file, without its newline; a tab counts as one blank."""
        return self.lines[number - self.first].rstrip("\r\n").replace("\t", " ")

    def _column(self, number: int, offset: int) -> int:
        encoded = self.lines[number - self.first].encode()
        return len(encoded[:offset].decode())

    def span(self, node: Node) -> Span:
        """Return the span of *node*, or of its first line if it has several."""
        text = self.line(node.lineno)
        begin = self._column(node.lineno, node.col_offset)
        end = len(text.rstrip())
        if node.end_lineno == node.lineno:
            end = self._column(node.lineno, node.end_col_offset)
        elif isinstance(node, ast.stmt) and hasattr(node, "body"):
            end = len(text.partition("#")[0].rstrip())
        return Span(text, node.lineno, begin, max(1, end - begin), self.file)

    def text(self, node: Node) -> str:
        """Return the statement *node* on one line."""
        if node.end_lineno == node.lineno:
            line = self.line(node.lineno)
            return line[self._column(node.lineno, node.col_offset) : self._column(node.lineno, node.end_col_offset)]
        return ast.unparse(node)

    def literal(self, node: ast.Constant) -> Source:
        """Return the text in the string *node*, with its place; if its spelling differs, the place of the whole."""
        assert isinstance(node.value, str), "a string is needed"
        span = self.span(node)
        inside = 1 if span.text[span.column + 1 : span.column + span.width - 1] == node.value else 0
        value = " ".join(node.value.split("\n"))
        return Source(value, (Segment(0, span.line, span.column + inside, span.text, self.file),))


def read_source(function: Callable[..., object]) -> FunctionSource:
    """Return the source of *function*.

    Raises
    ------
    KernelError
        ``source-not-found`` for code of ``exec`` and ``lambda``; ``not-a-function``.
    """
    if not inspect.isfunction(function) or function.__name__ == "<lambda>" or inspect.iscoroutinefunction(function):
        hint = "write @pl.kernel, or @pl.kernel(...) with options, in front of a 'def'"
        what = f"'{DECORATOR}' needs a Python function, not {spelt(function)}"
        problem = Diagnostic("not-a-function", what, hints=(hint,))
        raise KernelError(DECORATOR, None, [problem])
    file = function.__code__.co_filename
    try:
        lines, first = inspect.getsourcelines(function)
    except (OSError, TypeError, SyntaxError):
        raise _not_found(function.__name__, "no file and no notebook cell has it") from None
    indented = lines[0][:1] in (" ", "\t")
    text = "".join(lines)
    try:
        tree = ast.parse("if 1:\n" + text if indented else text)
    except SyntaxError:
        raise _not_found(function.__name__, f"{os.path.basename(file)}:{first} begins no function") from None
    ast.increment_lineno(tree, first - 1 - int(indented))
    found = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == function.__name__]
    count = function.__code__.co_argcount + function.__code__.co_kwonlyargcount
    if not found or [x.arg for x in _arguments(found[0])] != list(function.__code__.co_varnames[:count]):
        note = f"what stands in {os.path.basename(file)}:{first} is another one"
        raise _not_found(function.__name__, note)
    notebook = "ipykernel_" in file or file.startswith("<ipython")
    return FunctionSource(found[0], "cell" if notebook else file, first, tuple(lines))


def _arguments(tree: ast.FunctionDef) -> list[ast.arg]:
    return [*tree.args.posonlyargs, *tree.args.args, *tree.args.kwonlyargs]


def _not_found(name: str, note: str) -> KernelError:
    hint = "define it with 'def' in a file or a notebook cell, and import it again after a change of the file"
    problem = Diagnostic("source-not-found", f"the source of function '{name}' cannot be found", (note,), (hint,))
    return KernelError(DECORATOR, name if name.isidentifier() else None, [problem])

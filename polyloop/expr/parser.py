"""Text to expression, through Python's own parser, which is ten times faster than pymbolic's.

The grammar is that of Python's expressions, without forms that have no meaning here, plus ``if(c, a, b)``, reductions
such as ``sum(k, a[k])``, ``max((i, j), x[i, j])`` or ``reduce(ordered(sum), k, a[k])``, and ``cast(float32, e)``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Final

from polyloop.errors import Diagnostic
from polyloop.expr.lexical import check_characters, explain, replace_if_calls, replace_suffixed, replace_words
from polyloop.expr.nodes import Expression, Operation
from polyloop.expr.operations import OPERATIONS
from polyloop.expr.source import Source
from polyloop.expr.text_converter import TextConverter

__all__ = ["parse_expression", "parse_source"]

_QUOTED: Final = re.compile(r"""(?<=,)(\s*)(["'])([A-Za-z_]\w*)\2(?=\s*\))""", re.ASCII)
"""The quoted name in ``cse(e, "name")``."""


def parse_source(
    source: Source,
    inames: frozenset[str] | None = None,
    operation: str = "make_kernel",
    reductions: Mapping[str, Operation] = OPERATIONS,
) -> Expression:
    """Parse the expression *source*; arguments are those of :func:`parse_expression`."""
    stripped = source.strip()
    text = _QUOTED.sub(r"\1 \3 ", stripped.text) if "cse" in stripped.text else stripped.text
    converter = TextConverter(stripped, inames, operation, reductions)
    if not text:
        hint = "write a value, such as 0"
        converter.fail_at(0, 1, Diagnostic("syntax", "an expression is missing", hints=(hint,)))
    fault = check_characters(text)
    if fault is not None:
        converter.fail_at(*fault)
    replaced = replace_if_calls(text) if "if" in text else text
    replaced, converter.numbers = replace_suffixed(replaced)
    replaced, words = replace_words(replaced)
    try:
        tree = ast.parse(replaced, mode="eval")
        if words:
            _put_back(tree, words)
        return converter.convert(tree.body)
    except SyntaxError as error:
        converter.fail_at(*explain(replaced, error))
    except (RecursionError, MemoryError):
        hint = "store parts of it in temporaries: <> t = ..."
        converter.fail_at(0, len(text), Diagnostic("syntax", "this expression is nested too deeply", hints=(hint,)))


def _put_back(tree: ast.AST, words: Mapping[int, str]) -> None:
    """Give the variables of *tree* that are called as words of Python their names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.col_offset in words:
            node.id = words[node.col_offset]


def parse_expression(
    text: str,
    line: int = 1,
    column: int = 0,
    source_line: str | None = None,
    *,
    inames: frozenset[str] | None = None,
    operation: str = "make_kernel",
) -> Expression:
    """Return the expression that *text* spells.

    Parameters
    ----------
    line, column, source_line
        Where *text* begins in what the user wrote, and that whole line: for the caret of messages.
    inames
        The known inames.  ``max(i, x)`` and ``min(i, x)`` are reductions exactly where ``i`` is one of them, and other
        reductions over unknown names are refused.  If None, a name or a tuple of names first makes a reduction.
    operation
        The public function that messages name.

    Returns
    -------
    Expression
        ``a - b`` is ``Sum((a, Product((-1, b))))``; a chain of ``+`` or ``*`` is one node; a chained comparison is the
        ``LogicalAnd`` of its parts; one subscript is the index itself, several are a tuple.

    Raises
    ------
    KernelError
        ``syntax``, ``unknown-iname``, ``duplicate-iname``, ``unknown-dtype``, ``wrong-argument-count``,
        ``reserved-name``, ``bad-identifier``.
    """
    return parse_source(Source.of(text, line, column, source_line), inames, operation)

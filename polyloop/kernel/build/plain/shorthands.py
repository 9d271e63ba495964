"""Words of expressions that stand for others: ``clamp(x, low, high)``, ``nan`` and ``inf``."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import inf, nan
from typing import Final

import pymbolic.primitives as p

from polyloop.expr.nodes import Expression, array_name, function_name, targets_of
from polyloop.expr.rewrite import map_nodes
from polyloop.kernel.build.plain.foreign import mapped
from polyloop.kernel.text.parser import Parsed, ParsedInstruction, ParsedRule

__all__ = ["without_shorthands"]

_NUMBERS: Final[Mapping[str, float]] = {"nan": nan, "inf": inf}


def without_shorthands(
    parsed: Sequence[Parsed], names: Iterable[str], functions: Collection[str]
) -> Sequence[Parsed]:  # fmt: skip
    """Return the statements with the words that no variable, rule or function is called by written out.

    ::

        y = clamp(x, 0, 1)    =>    y = min(max(x, 0), 1)

    Parameters
    ----------
    names
        Names in kernel data and domains.
    functions
        Names of foreign functions.
    """
    taken = {*names, *functions}
    taken.update(entry.rule.name for entry in parsed if isinstance(entry, ParsedRule))
    taken.update(name for entry in parsed if isinstance(entry, ParsedRule) for name in entry.rule.arguments)
    for entry in parsed:
        if isinstance(entry, ParsedInstruction):
            taken.update(map(array_name, targets_of(entry.assignee)))
    has_clamp = "clamp" not in taken
    numbers = {name: value for name, value in _NUMBERS.items() if name not in taken}

    def written_out(node: Expression) -> Expression:
        if type(node) is p.Variable:
            return numbers.get(node.name, node)
        if has_clamp and type(node) is p.Call and function_name(node) == "clamp" and len(node.parameters) == 3:
            value, low, high = node.parameters
            return p.Min((p.Max((value, low)), high))
        return node

    return [mapped(entry, lambda expr: map_nodes(expr, written_out)) for entry in parsed]

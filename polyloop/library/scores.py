"""Scores of attention: what is added to them, which keys a query sees, and how the text of a program says it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import polyloop as pl

__all__ = ["LEAST", "LOG2_E", "NONE_SEEN", "Scores"]

LEAST: Final = "-1e30f"
"""A score that adds nothing to a sum: of keys that a query does not see."""
NONE_SEEN: Final = "1e30f"
"""The logarithm that is stored for a query that sees no key: exponentials less it are 0."""
LOG2_E: Final = "1.4426950408889634f"


@dataclass(frozen=True)
class Scores:
    """Changes of the scores ``scale*q k^T`` before softmax.

    Attributes
    ----------
    causal
        Whether query i sees keys 0 to i alone, of as many as there are queries.
    window
        Keys that a query sees, itself the last of them; 0: as many as there are.  A window is causal.
    lengths
        Whether each head of keys has a length of its own, ``lengths[h]``: keys from there on are not seen.
    bias
        Whether ``bias[h, g, i, j]`` is added to scores.
    cap
        Whether scores x become ``cap*tanh(x/cap)``, before the bias is added.
    """

    causal: bool = False
    window: int = 0
    lengths: bool = False
    bias: bool = False
    cap: bool = False

    def __post_init__(self) -> None:
        if self.window < 0 or (self.window and not self.causal):
            message = "is negative" if self.window < 0 else "ends at the query, and scores are not causal"
            raise pl.ArgumentError("attention", None, [pl.Diagnostic(
                "bad-value", f"the window of {self.window} keys {message}", (),
                ("pass causal=True, and a window of 1 key at least, or 0 for all",))])

    @property
    def is_plain(self) -> bool:
        """True if scores are products, times a scale, up to a mask."""
        return not (self.bias or self.cap)

    @property
    def may_be_empty(self) -> bool:
        """True if there may be queries that see no key."""
        return self.lengths or self.bias

    @property
    def factor(self) -> str:
        """The factor of scores in ``exp2``, as text."""
        return "scale*" if self.is_plain else ""

    def statements(self, at: str, query: str, key: str) -> str:
        """Return statements that change the scores ``s[at]`` of a query and a key, but for the mask.

        They leave them times log2(e) where they are not plain, and the tanh in ``bend`` if there is a cap.
        """
        return "\n".join(self._statements(at, query, key))

    def _statements(self, at: str, query: str, key: str) -> Iterator[str]:
        value = f"scale*s[{at}]"
        if self.cap:
            yield f"<float32> bend[{at}] = 1 - 2/(1 + exp2(2*scale/cap*s[{at}]))  {{id=bend, precision=fast}}"
            value = f"{LOG2_E}*cap*bend[{at}]"
        if self.bias:
            value = f"{value} + {LOG2_E}*bias[h, g, {query}, {key}]"
        if not self.is_plain:
            yield f"s[{at}] = {value}   {{id=changed}}"

    def masks(self, at: str, query: str, key: str) -> str:
        """Return the statements that hide keys from queries: ``hidden`` by lengths, and ``mask`` by their numbers."""
        found = []
        if self.lengths:
            found.append(f"s[{at}] = s[{at}] if {key} < length else {LEAST}   {{id=hidden}}")
        if self.causal:
            window = f" and {key} > {query} - {self.window}" if self.window else ""
            found.append(f"s[{at}] = s[{at}] if {key} <= {query}{window} else {LEAST}   {{id=mask}}")
        return "\n".join(found)

    @property
    def known(self) -> str:
        """The statement, of each head, that reads its length."""
        return "<int32> length = lengths[h]   {id=length}" if self.lengths else ""

    def arguments(self, element: object, group: int, keys: str) -> list[object]:
        """Return the arguments that a program has for them."""
        found: list[object] = []
        if self.lengths:
            found.append(pl.GlobalArg("lengths", "int32", shape="heads"))
        if self.bias:
            found.append(pl.GlobalArg("bias", element, shape=f"heads, {group}, n, {keys}"))
        if self.cap:
            found.append(pl.ValueArg("cap", "float32"))
        return found

"""How large the intermediate results of index arithmetic can become."""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil

from polyloop.codegen.rows import Divisibility
from polyloop.poly.affine import Affine, Floor, Var

__all__ = ["Magnitudes"]


class Magnitudes:
    """Upper bounds of absolute values, linear in the (nonnegative) parameters.

    A bound is a dictionary of coefficients, with the constant under the empty name.
    """

    def __init__(self, divisibility: Divisibility) -> None:
        self._known: dict[str, dict[str, float]] = {f"{n}#": {n: 1 / m} for n, (m, _) in divisibility.items()}
        self._seen: dict[Affine, None] = {}
        self._bounds: dict[Affine, None] = {}

    def _of(self, terms: Iterable[tuple[Var, int]], const: int) -> dict[str, float]:
        total: dict[str, float] = {"": abs(const)}
        for var, coefficient in terms:
            if isinstance(var, Floor):
                inner = self._of(var.terms, var.const)
                own = {name: factor / var.den for name, factor in inner.items()}
                own[""] = own.get("", 0) + 1
            else:
                own = self._known.get(var) or {var: 1}
            for name, factor in own.items():
                total[name] = total.get(name, 0) + abs(coefficient) * factor
        return total

    def define(self, name: str, alternatives: Iterable[Iterable[Affine]]) -> None:
        """Say that from here on some of *alternatives* bounds the absolute value of *name*, by any of its forms."""
        total: dict[str, float] = {}
        for forms in alternatives:
            best = min((self._of(*form) for form in forms), key=lambda bound: (len(bound), sum(bound.values())))
            for var, factor in best.items():
                total[var] = max(total.get(var, 0), factor)
        if self._known.get(name, total) != total:
            self._settle()
        self._known[name] = total

    def record(self, form: Affine) -> None:
        """Note that *form* is computed, with its names as they are defined now."""
        self._seen[form] = None

    def _settle(self) -> None:
        """Bound the forms recorded so far, before a name in them gets another meaning."""
        for form in self._seen:
            bound: dict[Var, int] = {name: ceil(round(factor, 6)) for name, factor in self._of(*form).items()}
            const = bound.pop("", 0)
            self._bounds[Affine.make(bound, const)] = None
        self._seen.clear()

    def bounds(self) -> list[Affine]:
        """Return what the recorded forms, or parts of them, can amount to."""
        self._settle()
        return list(self._bounds)

"""Functions of the package, applied to the kernels of units."""
# ruff: noqa: ANN401  # arguments of any function

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any

from polyloop.kernel.kernel import LoopKernel
from polyloop.loopy.unit import TranslationUnit
from polyloop.loopy.view import Kernel, plain

__all__ = ["for_each_kernel", "lifted"]


def lifted(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return *function* of the package so that it takes units where it takes kernels.

    ::

        split_iname(kernel, "i", 16) -> kernel      =>      split_iname(unit, "i", 16) -> unit

    A kernel that is returned takes the place of that in the unit; other results are returned as they are.  Of a unit
    with several kernels, each that the function accepts as first argument is changed.
    """

    @wraps(function)
    def call(*operands: Any, **options: Any) -> Any:
        __tracebackhide__ = True
        first = next((entry for entry in _all(operands, options) if isinstance(entry, TranslationUnit)), None)
        if first is not None and first.waiting and operands and operands[0] is first:
            return first.later((function, operands[1:], options))
        result = function(*map(_kernel, operands), **{name: _kernel(value) for name, value in options.items()})
        if not isinstance(result, LoopKernel):
            return result
        if first is None:
            return Kernel(result) if any(isinstance(entry, Kernel) for entry in operands) else result
        if operands and operands[0] is first:
            return replace(first, kernels={result.name: result})
        return TranslationUnit.of(result, first)

    return call


def _all(operands: tuple[Any, ...], options: dict[str, Any]) -> list[Any]:
    found: list[Any] = []
    for entry in (*operands, *options.values()):
        found.extend(entry if isinstance(entry, list | tuple) else [entry])
    return found


def _kernel(given: Any) -> Any:
    """Return the kernel of a unit, also in a list; other values as they are."""
    if isinstance(given, TranslationUnit):
        return given.only()
    if isinstance(given, list | tuple) and any(isinstance(entry, TranslationUnit | Kernel) for entry in given):
        return type(given)(_kernel(entry) for entry in given)
    return plain(given)


def for_each_kernel(transform: Callable[..., Any]) -> Callable[..., Any]:
    """Return a transform of kernels so that it takes units, and changes each of their kernels."""

    @wraps(transform)
    def call(unit: Any, *operands: Any, **options: Any) -> Any:
        if not isinstance(unit, TranslationUnit):
            return transform(unit, *operands, **options)
        kernels = {}
        for kernel in unit.kernels.values():
            made = plain(transform(Kernel(kernel), *operands, **options))
            kernels[made.name] = made
        return replace(unit, kernels=kernels)

    return call

"""Random arguments for a kernel, and the same values in the layout that another kernel wants."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import pymbolic.primitives as p

from polyloop.errors import ArgumentError, Diagnostic, unknown_name
from polyloop.expr.dtypes import (
    DType,
    as_real,
    integer_limits,
    is_bool,
    is_complex,
    is_inexact,
    is_integer,
    is_record,
    is_unsigned,
)
from polyloop.expr.nodes import Expression, array_name
from polyloop.expr.records import field_dtype, field_names
from polyloop.expr.rewrite import calls, children
from polyloop.expr.rules import expand_rules
from polyloop.kernel.arrays import ArrayArg
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.layout import Separate, Vectorized, packed
from polyloop.kernel.passed import masked_problem
from polyloop.runtime.arguments import convert_scalar
from polyloop.runtime.evaluate import evaluate, names_in
from polyloop.runtime.views import element_range, empty_numpy
from polyloop.testing.integers import MODULUS, WORD, integer_dtype, integers_of
from polyloop.testing.sizes import size_names
from polyloop.testing.sources import steering

__all__ = ["Given", "Values", "arguments_of", "check_given", "random_values"]

Values: TypeAlias = dict[str, Any]
"""Arrays in the order of their subscripts, and numbers, by name."""

Given: TypeAlias = Mapping[str, Any] | Callable[[dict[str, int], np.random.Generator], Mapping[str, Any]] | None

_ONLY_POSITIVE: Final = frozenset(
    ["sqrt", "rsqrt", "log", "log2", "log10", "log1p", "pow", "tgamma", "lgamma", "acosh", "asin", "acos", "atanh"]
)
_REACH: Final = 9
_BITS: Final = 8


@dataclass(frozen=True)
class _Style:
    """Ranges of input numbers that suit the operations of a kernel: positive for a logarithm, nonzero for a divisor."""

    positive: bool
    divides: bool


def _style(kernels: Sequence[LoopKernel]) -> _Style:
    names: set[str] = set()
    kinds: set[type] = set()

    def visit(node: Expression) -> None:
        kinds.add(type(node))
        for child in children(node):
            visit(child)

    for kernel in kernels:
        for instruction in kernel.instructions:
            expression = expand_rules(instruction.expression, kernel.substitutions)
            visit(expression)
            names.update(call.function.name for call in calls(expression))
    divides = bool(kinds & {p.FloorDiv, p.Remainder, p.LeftShift, p.RightShift, p.Power})
    return _Style(bool(names & _ONLY_POSITIVE) or p.Power in kinds, divides)


def _error(kernel: LoopKernel, code: str, message: str, notes: Sequence[str], hint: str) -> ArgumentError:
    return ArgumentError("check_equivalence", kernel.name, [Diagnostic(code, message, tuple(notes), (hint,))])


# {{{ random numbers


def _numbers(shape: tuple[int, ...], dtype: DType, rng: np.random.Generator, style: _Style, words: bool) -> Any:  # noqa: ANN401
    """Return random numbers of *dtype*; with *words*, the integers that represent floating-point numbers."""
    found: np.ndarray[Any, Any] = np.empty(shape, integer_dtype(dtype) if words else dtype)
    if is_record(dtype):
        for name in field_names(dtype):
            found[name] = _numbers(shape, field_dtype(dtype, name), rng, style, words)
    elif is_inexact(dtype) and words:
        found[...] = rng.integers(0, MODULUS, shape, WORD)
    elif is_complex(dtype):
        real = as_real(dtype)
        found[...] = _numbers(shape, real, rng, style, words) + 1j * _numbers(shape, real, rng, style, words)
    elif is_inexact(dtype):
        found[...] = (0.25 + 0.7 * rng.random(shape) if style.positive else 2 * rng.random(shape) - 1).astype(dtype)
    elif is_bool(dtype):
        found[...] = rng.integers(0, 2, shape).astype(bool)
    elif style.divides:
        found[...] = rng.integers(1, _BITS, shape)
    else:
        found[...] = rng.integers(0 if is_unsigned(dtype) else -_REACH, _REACH + 1, shape)
    return found


def _rubbish(shape: tuple[int, ...], dtype: DType, rng: np.random.Generator, words: bool) -> Any:  # noqa: ANN401
    """Return the initial content of an output: NaN, or any integers."""
    found = _numbers(shape, dtype, rng, _Style(positive=False, divides=False), words)
    if is_inexact(dtype) and not words:
        found[...] = np.nan
    elif is_integer(dtype):
        low, high = integer_limits(dtype)
        found[...] = rng.integers(low, high, shape, found.dtype, endpoint=True)
    elif is_record(dtype):
        for name in field_names(dtype):
            found[name] = _rubbish(shape, field_dtype(dtype, name), rng, words)
    return found


# }}}
# {{{ arguments


def check_given(kernels: Sequence[LoopKernel], given: Mapping[str, Any]) -> None:
    """Check that the user's inputs are a mapping with names of arguments.

    Raises
    ------
    ArgumentError
        ``wrong-type``, ``unknown-argument``.
    """
    if not isinstance(given, Mapping):
        hint = 'pass {"a": a}, or a function of sizes and a random generator that returns such a mapping'
        raise _error(kernels[-1], "wrong-type", f"inputs cannot be {given!r}", (), hint)
    known = {argument.name for kernel in kernels for argument in kernel.arguments}
    for name in given:
        if name not in known:
            raise ArgumentError("check_equivalence", kernels[-1].name, [unknown_name("argument", name, known)])


def random_values(
    kernels: Sequence[LoopKernel],
    sizes: Mapping[str, int],
    given: Mapping[str, Any],
    rng: np.random.Generator,
    *,
    words: bool,
) -> Values:
    """Return a value for every argument of *kernels* except sizes; given values are taken over.

    Parameters
    ----------
    kernels
        The original kernels, whatever the numbers are to stand for.
    words
        Whether integers stand for floating-point numbers.

    Raises
    ------
    ArgumentError
        ``input-needed``: the values decide a subscript or a loop bound, and none were given; ``wrong-dtype``,
        ``wrong-shape``.
    """
    style = _style(kernels)
    found: Values = {}
    known = set(size_names(kernels))
    for kernel in kernels:
        for argument in kernel.arguments:
            name, dtype = argument.name, argument.dtype
            if name in found or name in known or getattr(argument, "layout_of", None) is not None:
                continue
            assert dtype is not None, f"the type of '{name}' is unknown"
            shape = _shape(argument, sizes) if isinstance(argument, ArrayArg) else ()
            if name in given:
                value = _taken(kernel, argument, given[name], shape)
                found[name] = integers_of(value) if words else value
            elif isinstance(argument, ArrayArg) and not argument.is_input:
                found[name] = _rubbish(shape, dtype, rng, words)
            elif (limit := _limit(kernel, name, sizes)) is not None:
                if limit <= 0 and 0 not in shape:
                    raise _needed(kernel, name, "it is a subscript of an axis without elements")
                found[name] = rng.integers(0, max(limit, 1), shape).astype(dtype)
            else:
                found[name] = _numbers(shape, dtype, rng, style, words)
            if not isinstance(argument, ArrayArg):
                found[name] = np.asarray(found[name])[()]
    return found


def _shape(array: ArrayArg, sizes: Mapping[str, int]) -> tuple[int, ...]:
    assert array.shape is not None, f"the shape of '{array.name}' is unknown"
    return tuple(max(0, evaluate(extent, sizes)) for extent in array.shape)


def _taken(kernel: LoopKernel, argument: Any, value: Any, shape: tuple[int, ...]) -> Any:  # noqa: ANN401
    """Return the user's value of an argument, in the order of its subscripts."""
    name, dtype = argument.name, argument.dtype
    if (problem := masked_problem(name, value)) is not None:
        raise _error(kernel, problem.code, problem.message, problem.notes, problem.hints[0])
    if not isinstance(argument, ArrayArg):
        return np.asarray(convert_scalar(kernel.name, name, dtype, value)).astype(dtype)
    tags = argument.dim_tags if isinstance(argument.dim_tags, tuple) else ()
    apart = next((axis for axis, tag in enumerate(tags) if isinstance(tag, Separate)), None)
    array = np.stack(value, apart) if isinstance(value, list | tuple) and apart is not None else np.asarray(value)
    if array.dtype != dtype:
        message = f"'{name}' has dtype {array.dtype}, expected {dtype}"
        raise _error(kernel, "wrong-dtype", message, (), f"pass {name}.astype(np.{dtype})")
    if array.shape != shape:
        message = f"'{name}' has shape {array.shape}, expected {shape}"
        hint = "pass arrays of that shape, or inputs= as a function of the sizes that makes them"
        raise _error(kernel, "wrong-shape", message, (), hint)
    return array


def _limit(kernel: LoopKernel, name: str, sizes: Mapping[str, int]) -> int | None:
    """Return below which number the values of *name* must be to stay inside the arrays; None if they decide nothing."""
    limits: list[int] = []
    for what, expr, place in steering(kernel, name):
        direct = isinstance(expr, p.Variable | p.Subscript) and array_name(expr) == name
        if not direct or place is None:
            raise _needed(kernel, name, f"it decides {what}")
        shape = kernel.arrays()[place[0]].shape
        assert shape is not None, f"the shape of '{place[0]}' is unknown"
        limits.append(evaluate(shape[place[1]], sizes))
    return min(limits) if limits else None


def _needed(kernel: LoopKernel, name: str, why: str) -> ArgumentError:
    hint = f'pass inputs={{"{name}": ..}}, or a function of sizes and a random generator that returns such a mapping'
    return _error(kernel, "input-needed", f"'{name}' cannot be random", (why,), hint)


def arguments_of(kernel: LoopKernel, values: Values, sizes: Mapping[str, int]) -> dict[str, Any]:
    """Return fresh arguments of a call of *kernel*, each array in the layout that it wants."""
    found: dict[str, Any] = {}
    for argument in kernel.arguments:
        if isinstance(argument, ArrayArg):
            value = values[argument.name]
            assert argument.dtype is not None, f"the type of '{argument.name}' is unknown"
            array = empty_numpy(argument.dtype, value.shape, array_strides(argument, value.shape, sizes), poison=False)
            array[...] = value
            found[argument.name] = array
        elif argument.layout_of is None:
            found[argument.name] = sizes[argument.name] if argument.name in sizes else values[argument.name]
    found.update((name, sizes[name]) for name in kernel.parameters if name in sizes)
    return found


def array_strides(array: ArrayArg, shape: tuple[int, ...], sizes: Mapping[str, int]) -> tuple[int, ...]:
    """Return strides [elements] of the whole array: separate parts one after the other, vector components adjacent."""
    strides = array.strides
    if strides is None or any(not names_in(stride) <= sizes.keys() for stride in strides):
        return tuple(evaluate(stride, {}) for stride in packed(shape, array.order))
    found = [evaluate(stride, sizes) for stride in strides]
    tags = array.dim_tags if isinstance(array.dim_tags, tuple) else ()
    vectors = [axis for axis, tag in enumerate(tags) if isinstance(tag, Vectorized)]
    separate = [axis for axis, tag in enumerate(tags) if isinstance(tag, Separate)]
    for axis in vectors:
        found = [stride * shape[axis] for stride in found]
        found[axis] = 1
    for axis in separate:
        low, high = element_range(shape[:axis] + shape[axis + 1 :], found[:axis] + found[axis + 1 :])
        found[axis] = high - low
    return tuple(found)


# }}}

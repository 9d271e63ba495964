"""Intrinsics of kernels written in Python: array types, loops over sets, options.

Only :func:`polyloop.kernel` gives these a meaning, by reading the source of the function.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NoReturn, Self

from polyloop.edge.calls import public
from polyloop.errors import Diagnostic, KernelError
from polyloop.kernel.text.specs import auto

__all__ = ["Array", "ArrayType", "cast", "domain", "options", "product", "reduce"]


@dataclass(frozen=True)
class ArrayType:
    """Type of an array argument, ``pl.Array[np.float32, "n", "m"]``: element type; extents [elements] or ``auto``."""

    dtype: object
    shape: object


class Array:
    """The type of an array argument: ``pl.Array[np.float32, "n", 16]``.

    The first entry is the element type; the others are the extents [elements], integers or text such as ``"n + 2"``.
    Without extents the smallest shape that holds every access is taken; ``()`` is an array without axes.
    With ``t: pl.Array[np.float32, 16]`` in the body, a temporary array is declared.
    """

    def __new__(cls, *_: object, **__: object) -> Self:
        """Refuse: the type of an argument is written with brackets.

        Raises
        ------
        KernelError
            ``outside-kernel``.
        """
        hints = ('write the entries in brackets: pl.Array[np.float32, "n"]',)
        problem = Diagnostic("outside-kernel", "pl.Array is a type of arguments, and has no instances", hints=hints)
        raise KernelError("Array", None, [problem])

    def __class_getitem__(cls, entries: object) -> ArrayType:
        """Return the type with these entries."""
        dtype, *extents = entries if isinstance(entries, tuple) else (entries,)
        if extents == [()]:
            return ArrayType(dtype, ())
        unknown = not extents or extents == [...]
        return ArrayType(dtype, auto if unknown else ", ".join(str(extent) for extent in extents))


_WHERE: Final = "use it inside of a function decorated with @pl.kernel"


def _only_in_kernels(name: str) -> NoReturn:
    problem = Diagnostic("outside-kernel", f"pl.{name} means something in the source of a kernel only", hints=(_WHERE,))
    raise KernelError(name, None, [problem])


@public
def domain(*bounds: object, **named: object) -> NoReturn:
    """Loop over the points of a set: ``for i, j in pl.domain("0 <= i < n and 0 <= j <= i")``.

    Instead of a condition, bounds of each name in turn can be given: an extent, a pair of lower and upper bound, or a
    ``range``: ``for i, j in pl.domain(n, (1, n - 1))`` or ``pl.domain(i=n, j=range(1, n - 1))``.

    Raises
    ------
    KernelError
        ``outside-kernel`` if it is called.
    """
    del bounds, named
    _only_in_kernels("domain")


@public
def options(**given: str) -> NoReturn:
    """Give options to the statements inside of ``with pl.options(id="copy", dep="load:init", tags="x"):``.

    They are those of the text (``id``, ``id_prefix``, ``dep``, ``tags``, ``nosync``, ``priority``), as strings.

    Raises
    ------
    KernelError
        ``outside-kernel`` if it is called.
    """
    del given
    _only_in_kernels("options")


@public
def cast(dtype: object, value: object) -> NoReturn:
    """Convert a value to an element type; ``np.float32(value)`` does the same.

    Raises
    ------
    KernelError
        ``outside-kernel`` if it is called.
    """
    del dtype, value
    _only_in_kernels("cast")


@public
def product(terms: object) -> NoReturn:
    """Multiply the values of a generator: ``pl.product(a[k] for k in range(n))``.

    Raises
    ------
    KernelError
        ``outside-kernel`` if it is called.
    """
    del terms
    _only_in_kernels("product")


@public
def reduce(operation: object, terms: object) -> NoReturn:
    """Reduce the values of a generator: ``pl.reduce("max", (a[k] for k in range(n)))``.

    The operation is a name as in :func:`polyloop.make_kernel`, ``max`` and the like, or a
    :class:`polyloop.ReductionOperation`.  Where its state has several fields, the generator yields as many values:
    ``value, index = pl.reduce("argmax", ((abs(a[k]), k) for k in range(n)))``.

    Raises
    ------
    KernelError
        ``outside-kernel`` if it is called.
    """
    del operation, terms
    _only_in_kernels("reduce")

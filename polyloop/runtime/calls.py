"""Calls of kernels: arguments that are passed by position, and outputs."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, Mapping, Sequence, ValuesView
from typing import Any

import numpy as np

from polyloop.display import Shown
from polyloop.edge.first import imported
from polyloop.errors import ArgumentError, Diagnostic, stable_hash

__all__ = ["Result", "named"]


class Result(Shown):
    """The outputs of one call: attributes, a mapping by name, or unpacked in argument order.

    ``run(a=a).c`` and ``run(a=a)["c"]`` are the same array, ``c, d = run(a=a)`` unpacks all
    outputs, and ``dict(run(a=a))`` names them.  Outputs called like a method (``keys``, ``values``, ``items``), or with
    an underscore first, are no attributes.
    """

    __slots__ = ("_names", "_values")  # and no __init__: see repeat.py, where one is made at each call

    _names: tuple[str, ...]
    _values: tuple[Any, ...]

    @classmethod
    def of(cls, outputs: Mapping[str, Any]) -> Result:
        """Return the result with *outputs*, by their names."""
        result = cls()
        result._names, result._values = tuple(outputs), tuple(outputs.values())
        return result

    def __reduce__(self) -> tuple[object, ...]:
        """Return, for pickle, what the form of the result is read by, and the form.

        Outputs of other libraries than NumPy are pickled by these.
        """
        if all(type(value) is np.ndarray for value in self.values()):
            form = imported("polyloop.serial.form")
            return form.loads, (form.dumps(self),)
        return Result.of, (dict(self.items()),)

    def __eq__(self, other: object) -> bool:
        """Return whether *other* is a result with the same names and outputs: NaN is equal to NaN.

        Outputs are equal with the same library, type, shape, device and elements.
        """
        if type(other) is not Result:
            return NotImplemented
        return self._names == other._names and all(map(_is_same, self._values, other._values))

    def __hash__(self) -> int:
        """Return a hash of what stays of the outputs: names, libraries, types and shapes, as their elements change.

        Equal results have one hash, the same in every process, and keep it while kernels write to them.
        """
        return stable_hash("Result", *self._names, *(
            f"{type(value).__module__}.{type(value).__qualname__} {value.dtype} {tuple(value.shape)}"
            for value in self._values))

    def __copy__(self) -> Result:
        return Result.of(self._outputs)

    @property
    def _outputs(self) -> dict[str, Any]:
        return dict(zip(self._names, self._values, strict=True))

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  # an array of any library
        if name.startswith("_") or name not in self._names:
            raise AttributeError(f"no output '{name}'; outputs: {', '.join(self._names)}")
        return self._values[self._names.index(name)]

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401
        return self._outputs[name]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def keys(self) -> KeysView[str]:
        """Return the names of the outputs."""
        return self._outputs.keys()

    def values(self) -> ValuesView[Any]:
        """Return the outputs."""
        return self._outputs.values()

    def items(self) -> ItemsView[str, Any]:
        """Return pairs of name and output."""
        return self._outputs.items()

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __len__(self) -> int:
        return len(self._names)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._names]

    def __repr__(self) -> str:
        parts = [f"{name}: {getattr(value, 'dtype', '?')}{tuple(getattr(value, 'shape', ()))}"
                 for name, value in self._outputs.items()]
        return f"Result({', '.join(parts)})"


def _is_same(one: Any, other: Any) -> bool:  # noqa: ANN401 - arrays of any library
    if one is other:
        return True
    if _facts(one) != _facts(other):
        return False
    return bool(((one == other) | ((one != one) & (other != other))).all())  # noqa: PLR0124 - NaN


def _facts(value: Any) -> tuple[object, ...]:  # noqa: ANN401
    return type(value), value.dtype, tuple(value.shape), getattr(value, "device", None)


def named(
    kernel: str, positions: Sequence[str], arrays: Sequence[str], given: tuple[object, ...],
    arguments: Mapping[str, object],
) -> Mapping[str, object]:  # fmt: skip
    """Return *arguments* with those that are *given* by position under their names.

    Parameters
    ----------
    positions
        The arguments that have a position, in their order.
    arrays
        The arrays of the kernel.

    Raises
    ------
    ArgumentError
        ``unnamed-argument``.
    """
    if not given:
        return arguments
    by_name = f"run({', '.join(f'{name}={name}' for name in arrays)})"
    if type(given[0]).__name__ == "CommandQueue":
        problem = Diagnostic(
            "unnamed-argument", "the first argument is a queue, and a kernel has none", (),
            (f"leave it out: {by_name}; stream= says where a kernel for CUDA runs, and pl.OpenCLTarget() has queues",))
    elif not positions:
        problem = Diagnostic(
            "unnamed-argument", "the arguments of a kernel are passed by their names", (), (by_name,))
    elif len(given) > len(positions):
        problem = Diagnostic(
            "unnamed-argument",
            f"{len(given)} arguments are passed by position, of which there are {len(positions)}",
            (f"by position: {', '.join(positions)}; others have no declared order",), (by_name,))
    elif twice := [name for name in positions[: len(given)] if name in arguments]:
        problem = Diagnostic(
            "unnamed-argument", f"'{twice[0]}' is passed by position and by name",
            (f"by position: {', '.join(positions)}",), (f"leave out {twice[0]}=",))
    else:
        return dict(zip(positions, given, strict=False)) | dict(arguments)
    raise ArgumentError("call", kernel, [problem])

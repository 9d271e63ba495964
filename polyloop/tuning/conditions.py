"""Conditions under which a schedule is valid, as data: what its program asks of sizes, addresses, types and device."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from pymbolic import primitives as p

from polyloop.codegen.program import DeviceLaunch, GeneratedProgram
from polyloop.display import brief
from polyloop.expr.dtypes import DType, dtype_name
from polyloop.expr.nodes import Expression
from polyloop.expr.printer import show
from polyloop.kernel.arrays import ArrayArg
from polyloop.kernel.kernel import LoopKernel
from polyloop.runtime.evaluate import describe, evaluate, names_in
from polyloop.target.base import Target

__all__ = ["ALIGNED", "AlignmentCondition", "CallFacts", "Condition", "DeviceCondition", "SizeCondition",
           "TypeCondition", "conditions_of"]

ALIGNED: Final = 256
"""Alignment of new arrays [bytes]: that of ``cuMemAlloc``, and what is supposed of arrays that are not passed."""

_MOST_INT: Final = 2**31 - 1
"""Blocks along the first axis that a device can have; sizes that need more are no ``int32``."""


@dataclass(frozen=True)
class CallFacts:
    """The properties of a call that conditions are about.

    Attributes
    ----------
    sizes
        A value for each integer parameter.
    alignments
        Array -> the greatest power of two that divides its address [bytes]; 256 for those that are not among them.
    dtypes
        Argument -> its type.
    architecture
        The device as ``"sm_90a"``; empty for a processor.
    """

    sizes: Mapping[str, int]
    alignments: Mapping[str, int] = field(default_factory=dict)
    dtypes: Mapping[str, DType] = field(default_factory=dict)
    architecture: str = ""

    __repr__ = brief

    @property
    def key(self) -> tuple[object, ...]:
        """Return it as something that dictionaries find."""
        return (*sorted(self.sizes.items()), *sorted(self.alignments.items()),
                *sorted((name, dtype_name(dtype)) for name, dtype in self.dtypes.items()), self.architecture)

    def __str__(self) -> str:
        parts = [f"{name} = {value}" for name, value in self.sizes.items()]
        parts += [f"'{name}' is {dtype_name(dtype)}" for name, dtype in self.dtypes.items()]
        parts += [f"'{name}' at a multiple of {least} bytes" for name, least in self.alignments.items()
                  if least < ALIGNED]
        return ", ".join(parts)


@dataclass(frozen=True)
class SizeCondition:
    """A condition on the integer parameters: a comparison, or several."""

    expression: Expression

    __repr__ = brief

    def __str__(self) -> str:
        return show(self.expression)

    def failed(self, call: CallFacts) -> str:
        """Return the reason why *call* does not fulfil it; the empty string if it does."""
        if evaluate(self.expression, call.sizes):
            return ""
        return f"{self} is false for {describe(self.expression, call.sizes)}"


@dataclass(frozen=True)
class AlignmentCondition:
    """The address of an array is a multiple of some bytes."""

    array: str
    nbytes: int

    __repr__ = brief

    def __str__(self) -> str:
        return f"'{self.array}' begins at a multiple of {self.nbytes} bytes"

    def failed(self, call: CallFacts) -> str:
        """Return the reason why *call* does not fulfil it; the empty string if it does."""
        found = call.alignments.get(self.array, ALIGNED)
        return "" if found % self.nbytes == 0 else f"{self}: this one at a multiple of {found}"


@dataclass(frozen=True)
class TypeCondition:
    """The type of an argument that the program leaves open."""

    argument: str
    dtype: DType

    __repr__ = brief

    def __str__(self) -> str:
        return f"'{self.argument}' is {dtype_name(self.dtype)}"

    def failed(self, call: CallFacts) -> str:
        """Return the reason why *call* does not fulfil it; the empty string if it does, or has no such argument."""
        found = call.dtypes.get(self.argument)
        return "" if found is None or found == self.dtype else f"{self}: this one is {dtype_name(found)}"


@dataclass(frozen=True)
class DeviceCondition:
    """The device has the instructions of an architecture."""

    architecture: str

    __repr__ = brief

    def __str__(self) -> str:
        return f"on {self.architecture}" if self._is_own else f"on {self.architecture} or later"

    @property
    def _is_own(self) -> bool:
        """True for an architecture whose code no other device runs: ``sm_90a``."""
        return not self.architecture[-1:].isdigit()

    def failed(self, call: CallFacts) -> str:
        """Return the reason why *call* does not fulfil it; the empty string if it does."""
        here, needed = (_capability(name) for name in (call.architecture, self.architecture))
        return "" if here == needed or (here > needed and not self._is_own) else f"{self}: this is {call.architecture}"


def _capability(architecture: str) -> int:
    digits = "".join(character for character in architecture if character.isdigit())
    return int(digits) if digits else 0


Condition: TypeAlias = SizeCondition | AlignmentCondition | TypeCondition | DeviceCondition
"""One condition; its text is for people."""


def conditions_of(
    kernel: LoopKernel, program: GeneratedProgram, target: Target, open_types: Iterable[str]
) -> tuple[Condition, ...]:
    """Return the conditions that *program*, generated of *kernel*, puts on a call.

    These are the checks that each call makes (:attr:`GeneratedProgram.checks`, ``alignments``, limits of grids), sizes
    that were fixed, the types of the arguments *open_types*, and the architecture.
    """
    found: list[Condition] = [
        SizeCondition(p.Comparison(p.Variable(name), "==", value)) for name, value in kernel.fixed.items()]
    found += [SizeCondition(check.condition) for check in program.checks]
    found += [SizeCondition(condition) for launch in program.launches for condition in _grid_limits(launch)]
    arguments = {argument.name: argument for argument in program.arguments}
    alignments = dict(program.alignments)
    for argument in arguments.values():
        if isinstance(argument, ArrayArg):
            least = max(alignments.get(argument.name, 1), argument.alignment or 1)
            found += [AlignmentCondition(argument.name, least)] if least > 1 else []
    for name in open_types:
        dtype = arguments[name].dtype if name in arguments else None
        found += [] if dtype is None else [TypeCondition(name, dtype)]
    found += [DeviceCondition(target.arch)] if target.arch else []
    return tuple(dict.fromkeys(found))


def _grid_limits(launch: DeviceLaunch) -> Iterator[Expression]:
    """Yield the conditions under which a device can have the blocks of *launch*; none is known in loops of the host."""
    inames = {loop.iname for loop in launch.around}
    for extent, most in zip(launch.grid, launch.max_grid or (), strict=False):
        if most < _MOST_INT and names_in(extent) and not names_in(extent) & inames:
            yield p.Comparison(extent, "<=", most)

"""The classes that a form may hold, by their names in it; a name that is not here is refused."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from enum import Enum
from functools import cache
from types import MappingProxyType
from typing import Annotated, Any, Final, get_type_hints

import numpy as np

from polyloop.edge.checks import Such
from polyloop.edge.first import imported

__all__ = ["ADAPTED", "CHECKED", "KINDS", "class_of", "hints_of", "is_operand", "name_of", "rules_of",
           "stored_fields"]

_HOMES: Final[Mapping[str, str]] = MappingProxyType({
    "polyloop.codegen.program":
        "AskedElement BuildOptions DeviceCode DeviceLaunch GeneratedProgram HostCondition HostPart LaunchCheck "
        "LaunchLoop SplitArray",
    "polyloop.codegen.indexed": "IndexedArray",
    "polyloop.derivatives.differentiate": "_Differentiated",
    "polyloop.errors": "Diagnostic Place Site Span Witness WitnessInstance WitnessKind",
    "polyloop.expr.foreign": "ForeignFunction ForeignName",
    "polyloop.expr.nodes": "CText Extreme Lookup Operation Record Reduction Shared Targets Terms TypeCast",
    "polyloop.expr.source": "Segment Source",
    "polyloop.frontend.fuse": "_Fused",
    "polyloop.kernel.arrays": "AddressSpace ArrayArg Table TemporaryVariable ValueArg",
    "polyloop.kernel.build.function": "Function Program",
    "polyloop.kernel.cinstruction": "CInstruction",
    "polyloop.kernel.devices": "Device Figure StreamingMultiprocessor",
    "polyloop.kernel.instruction":
        "Carry Copy CopyStep Evaluation ExplicitBarrier Instruction Move MoveRole Partial SubstitutionRule Term",
    "polyloop.kernel.intrinsic": "Matrix MatrixIntrinsic Part",
    "polyloop.kernel.kernel": "Condition Domain LoopKernel Reference",
    "polyloop.kernel.layout": "Nested Separate Strided Vectorized",
    "polyloop.kernel.limits": "DeviceLimits",
    "polyloop.kernel.made": "Written",
    "polyloop.kernel.objects": "Assignment BarrierInstruction NoOpInstruction",
    "polyloop.kernel.processors": "Cache Processor",
    "polyloop.kernel.reductions": "ReductionOperation",
    "polyloop.kernel.swizzle": "Swizzle",
    "polyloop.kernel.tags":
        "AutoLocal BlockOrder Box ClusterAxis GroupAxis Interleave Lane LocalAxis Role Sequential ThreadDigit Unroll "
        "UnrollHint Vectorize Warp",
    "polyloop.kernel.text.calls": "Slice SubArray",
    "polyloop.kernel.text.match": "All And Glob Not Or Subject",
    "polyloop.kernel.text.options": "Loops NoSync Options Order SyncScope",
    "polyloop.kernel.text.parser":
        "ParsedBarrier ParsedCall ParsedInstruction ParsedLoop ParsedNop ParsedRule",
    "polyloop.kernel.text.specs": "ConstantArg GlobalArg TemporaryVariable ValueArg",
    "polyloop.kernel.trace": "Change Kind Trace",
    "polyloop.kernel.tree": "Barrier Group Loop Run Scope",
    "polyloop.kernel.updates": "Update",
    "polyloop.kernel.waivers": "Waiver",
    "polyloop.poly.affine": "Affine Floor",
    "polyloop.poly.polynomial": "Guarded PiecewisePolynomial Polynomial",
    "polyloop.proof.obligation": "Claim Proof",
    "polyloop.runtime.explanation": "AccessFacts Bound Explanation LaunchFacts",
    "polyloop.schedule.copy_engine": "TensorMap",
    "polyloop.schedule.plan": "Wait",
    "polyloop.target.certificate": "Assumption Certificate",
    "polyloop.target.opencl": "OpenCLDevice",
    "polyloop.testing.report": "Comparison Equivalence Mode",
    "polyloop.transform.base": "Applied",
    "polyloop.transform.recipe": "Recipe",
    "polyloop.tuning.measure": "Interval",
    "polyloop.tuning.report": "Outcome Trial Tuned",
    "polyloop.verification.computed_subscripts": "Inside",
    "pymbolic.primitives":
        "BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Call Comparison FloorDiv If LeftShift LogicalAnd LogicalNot "
        "LogicalOr Max Min Power Product Quotient Remainder RightShift Slice Subscript Sum Variable",
})  # fmt: skip
"""Module -> its classes: dataclasses, named tuples and enumerations."""

ADAPTED: Final[Mapping[str, str]] = MappingProxyType({
    "Set": "polyloop.poly.stored",
    "Map": "polyloop.poly.stored",
    "BasicSet": "polyloop.poly.stored",
    "Auto": "polyloop.kernel.layout",
    "CompiledKernel": "polyloop.runtime.executor",
    "SpecializingKernel": "polyloop.runtime.executor",
    "Target": "polyloop.target.stored",
})
"""Names of other values -> the module that says how they are written and read (:func:`polyloop.serial.form.adapt`)."""

CHECKED: Final[Mapping[str, str]] = MappingProxyType({"LoopKernel": "polyloop.creation.loaded"})
"""Classes whose instances are looked at as a whole, and the module with the function ``faults`` that does it."""

_ERRORS: Final = (
    "ArgumentError", "CodegenError", "CommunicationError", "CompilerError", "KernelError", "PolyloopError",
    "PolyloopWarning",
    "SerialError",
    "TransformError", "TuningError", "VerificationError",
)  # fmt: skip

KINDS: Final[Mapping[str, str]] = MappingProxyType({
    **dict.fromkeys(_ERRORS, "polyloop.errors"),
    "Result": "polyloop.runtime.calls",
})  # fmt: skip
"""Errors and results, which :mod:`polyloop.serial.plain` writes."""

_PREFIX: Final = {
    "polyloop.kernel.text.calls": "call ", "polyloop.kernel.text.specs": "declared ",
    "polyloop.testing.report": "equivalence ", "polyloop.transform": "step ",
}  # fmt: skip
"""Before names that are those of other classes, too."""


@cache
def _places() -> Mapping[str, tuple[str, str]]:
    """Return name in a form -> module, and name there."""
    found = {
        _PREFIX.get(home, "") + name: (home, name) for home, names in _HOMES.items() for name in names.split()}
    assert len(found) == sum(len(names.split()) for names in _HOMES.values()), "two classes have one name"
    return found


@cache
def _names() -> Mapping[tuple[str, str], str]:
    return {place: name for name, place in _places().items()}


def _steps() -> Mapping[str, Any]:
    """Return the transforms by the names of their functions."""
    found: Mapping[str, Any] = imported("polyloop.transform.registry").TRANSFORMS
    return found


def name_of(kind: Any) -> str | None:  # noqa: ANN401 - a class
    """Return the name of a class in a form, None if it has none."""
    found = _names().get((kind.__module__, kind.__qualname__))
    if found is None and kind.__module__.startswith("polyloop.transform.") and _steps().get(_called(kind)) is kind:
        return _PREFIX["polyloop.transform"] + _called(kind)
    return found


def _called(kind: Any) -> str:  # noqa: ANN401 - a class
    return str(getattr(kind, "name", ""))


@cache
def class_of(name: str) -> type[Any] | None:
    """Return the class with this name in a form, None if there is none; it imports a module of the package."""
    step = name.removeprefix(_PREFIX["polyloop.transform"])
    if step != name:
        return _steps().get(step)
    place = _places().get(name)
    return None if place is None else getattr(imported(place[0]), place[1])


@cache
def stored_fields(kind: Any) -> tuple[tuple[str, bool], ...]:  # noqa: ANN401 - a class
    """Return the fields of a class that a form has, and whether each tells values apart.

    Where a statement stands in a file, how long a proof took and how a kernel was spelt is kept, and tells nothing.
    """
    if issubclass(kind, Enum):
        return ()
    if issubclass(kind, tuple):
        return tuple((name, True) for name in kind._fields)
    return tuple((entry.name, entry.compare) for entry in _fields(kind))


def _fields(kind: Any) -> Iterator[Any]:  # noqa: ANN401
    return (entry for entry in dataclasses.fields(kind) if entry.init and (entry.compare or entry.repr))


@cache
def hints_of(kind: Any) -> Mapping[str, Any]:  # noqa: ANN401 - a class
    """Return the annotations of the fields of a class, without what they add for callers."""
    return get_type_hints(kind)


def is_operand(value: object) -> bool:
    """Return whether *value* can stand in an expression: a number, or a node of one."""
    return isinstance(value, _NUMBERS) or hasattr(value, "mapper_method")


_NUMBERS: Final = (bool, int, float, complex, np.generic)
_EXPRESSION: Final = {"Expression": Annotated[Any, Such("an operand", is_operand)]}
"""The name that annotations give expressions, which are of no class of their own."""


@cache
def rules_of(kind: Any) -> Mapping[str, Any]:  # noqa: ANN401 - a class
    """Return the annotations of the fields of a class with all that they ask for."""
    return get_type_hints(kind, localns=_EXPRESSION, include_extras=True)

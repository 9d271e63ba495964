"""Loopy's functions, so that a script written for Loopy runs: ``from polyloop import loopy as lp``.

A unit holds kernels of the package, and each function is one of the package's, applied to them: see
:mod:`polyloop.loopy.steps`.  Names of Loopy that there are not here raise an error that says what takes their place.
"""
# ruff: noqa: ANN401  # names of Loopy, for values of any type

from __future__ import annotations

from types import ModuleType as _Module
from typing import Any as _Any

import polyloop as _core
from polyloop.errors import ArgumentError as LoopyTypeError
from polyloop.errors import PolyloopError as LoopyError
from polyloop.errors import PolyloopWarning as LoopyWarning
from polyloop.expr.parser import parse_expression as parse
from polyloop.kernel.arrays import AddressSpace
from polyloop.kernel.layout import Separate as SeparateArrayArrayDimTag
from polyloop.kernel.layout import Strided as FixedStrideArrayDimTag
from polyloop.kernel.layout import Vectorized as VectorArrayDimTag
from polyloop.loopy import match
from polyloop.loopy.call import Executor as ExecutorBase
from polyloop.loopy.creation import (
    inline_callable_kernel,
    make_einsum,
    make_function,
    make_kernel,
    make_program,
    merge,
    register_callable,
    register_preamble_generators,
    rename_callable,
    set_options,
)
from polyloop.loopy.data import ConstantArg, GlobalArg, TemporaryVariable, ValueArg
from polyloop.loopy.diff import diff_kernel
from polyloop.loopy.functions import NumpyType, PreambleInfo, ScalarCallable
from polyloop.loopy.missing import MISSING as _MISSING
from polyloop.loopy.missing import refused as _refused
from polyloop.loopy.options import CacheMode, Options, set_caching_enabled
from polyloop.loopy.paths import install as _install
from polyloop.loopy.steps import (
    auto_test_vs_ref,
    for_each_kernel,
    remove_predicates_from_insn,
    set_instruction_priority,
    split_array_dim,
    tag_array_axes,
    tag_inames,
    tag_instructions,
)
from polyloop.loopy.steps import lifted as _lifted
from polyloop.loopy.targets import CTarget, CudaTarget, OpenCLTarget
from polyloop.loopy.text import (
    generate_body,
    generate_code,
    generate_code_v2,
    generate_header,
    get_one_linearized_kernel,
    has_schedulable_iname_nesting,
)
from polyloop.loopy.text import unchanged as _unchanged
from polyloop.loopy.unit import CallableKernel, TranslationUnit
from polyloop.loopy.view import Kernel as LoopKernel

__all__ = [
    "LOOPY_USE_LANGUAGE_VERSION_2018_2",
    "MOST_RECENT_LANGUAGE_VERSION",
    "VERSION",
    "AddressSpace",
    "CFamilyTarget",
    "CTarget",
    "CWithGNULibcTarget",
    "CacheMode",
    "CallableKernel",
    "ConstantArg",
    "CudaTarget",
    "ExecutableCTarget",
    "ExecutableCWithGNULibcTarget",
    "ExecutorBase",
    "FixedStrideArrayDimTag",
    "GlobalArg",
    "LoopKernel",
    "LoopyError",
    "LoopyTypeError",
    "LoopyWarning",
    "NumpyType",
    "OpenCLTarget",
    "Options",
    "PreambleInfo",
    "PyOpenCLTarget",
    "ScalarCallable",
    "SeparateArrayArrayDimTag",
    "TemporaryVariable",
    "TranslationUnit",
    "ValueArg",
    "VectorArrayDimTag",
    "auto_test_vs_ref",
    "clear_in_mem_caches",
    "diff_kernel",
    "find_one_rule_matching",
    "for_each_kernel",
    "generate_body",
    "generate_code",
    "generate_code_v2",
    "generate_header",
    "get_one_linearized_kernel",
    "get_one_scheduled_kernel",
    "has_schedulable_iname_nesting",
    "infer_unknown_types",
    "inline_callable_kernel",
    "linearize",
    "make_einsum",
    "make_function",
    "make_kernel",
    "make_program",
    "match",
    "merge",
    "parse",
    "preprocess_kernel",
    "preprocess_program",
    "register_callable",
    "register_preamble_generators",
    "remove_predicates_from_insn",
    "rename_callable",
    "set_caching_enabled",
    "set_instruction_priority",
    "set_options",
    "split_array_dim",
    "tag_array_axes",
    "tag_inames",
    "tag_instructions",
]  # fmt: skip

_install()

ExecutableCTarget = CWithGNULibcTarget = ExecutableCWithGNULibcTarget = CFamilyTarget = CTarget
PyOpenCLTarget = OpenCLTarget
LoopyType = to_loopy_type = NumpyType
preprocess_kernel = preprocess_program = infer_unknown_types = linearize = _unchanged
get_one_scheduled_kernel = get_one_linearized_kernel
VERSION = (2026, 1)
MOST_RECENT_LANGUAGE_VERSION = (2018, 2)
LOOPY_USE_LANGUAGE_VERSION_2017_2_1 = LOOPY_USE_LANGUAGE_VERSION_2018_1 = (2018, 1)
LOOPY_USE_LANGUAGE_VERSION_2018_2 = (2018, 2)
ALLOW_TERMINAL_COLORS = False
CACHING_ENABLED = True

_SPELT = {
    "ArrayArg": "GlobalArg",
    "get_mem_map": "get_mem_access_map",
    "InstructionBase": "Assignment",
    "KernelArgument": "GlobalArg",
    "infer_unknown_types_for_a_single_kernel": "infer_unknown_types",
    "set_array_dim_names": "set_array_axis_names",
    "set_temporary_scope": "set_temporary_address_space",
    "split_arg_axis": "split_array_axis",
    "t_unit_to_python": "kernel_to_python",
    "tag_data_axes": "tag_array_axes",
    "temp_var_scope": "AddressSpace",
}
"""Other spellings of one thing in Loopy."""

_ERRORS = ("AutomaticTestFailure", "CannotBranchDomainTree", "DependencyCycleFound", "DependencyTypeInferenceFailure",
           "ExpressionNotAffineError", "ExpressionToAffineConversionError", "LoopyIndexError", "MissingBarrierError",
           "MissingDefinitionError", "ReductionIsNotTriangularError", "StaticValueFindingError", "TypeInferenceFailure",
           "UnableToDetermineAccessRangeError", "UnscheduledInstructionError", "VariableAccessNotOrdered")  # fmt: skip
_WARNINGS = ("DirectCallUncachedWarning", "LoopyAdvisory", "LoopyWarningBase", "ParameterFinderWarning",
             "WriteRaceConditionWarning")  # fmt: skip


def find_one_rule_matching(knl: TranslationUnit | LoopKernel, pattern: str) -> _Any:
    """Return the name of the only rule that *pattern* matches.

    Raises
    ------
    KernelError
        ``not-offered``, where it is not one.
    """
    found = __getattr__("find_rules_matching")(knl, pattern)
    if len(found) != 1:
        raise _refused(f"one rule {pattern}", f"it matches {', '.join(found) or 'none'}")
    return found[0]


def clear_in_mem_caches() -> None:
    """Do nothing: what is found of a kernel is kept by the kernel, and goes with it."""


def __getattr__(name: str) -> _Any:
    if name in _MISSING:
        raise _refused(name, _MISSING[name])
    if name in _ERRORS:
        return LoopyError
    if name in _WARNINGS:
        return LoopyWarning
    if (spelt := _SPELT.get(name, name)) != name:
        return globals().get(spelt) or __getattr__(spelt)
    if name not in _core.__all__:
        raise AttributeError(f"module 'polyloop.loopy' has no attribute {name!r}")
    value = getattr(_core, name)
    if callable(value) and not isinstance(value, type | _Module):
        value = _lifted(value)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    own = [name for name in globals() if not name.startswith("_")]
    return sorted({*own, *_core.__all__, *_SPELT, *_ERRORS, *_WARNINGS} - {*_MISSING})

"""Every name of Loopy's public interface means something in ``polyloop.loopy``, or says what takes its place."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop import loopy as lp
from polyloop.loopy.missing import MISSING

OFFERED = [
    "MOST_RECENT_LANGUAGE_VERSION", "VERSION", "AddressSpace", "ArrayArg", "Assignment", "BarrierInstruction",
    "CFamilyTarget", "CInstruction", "CTarget", "CWithGNULibcTarget", "CacheMode", "CallableKernel",
    "ConstantArg", "LoopyType", "NumpyType", "PreambleInfo", "ScalarCallable",
    "CountGranularity", "CudaTarget", "ExecutableCTarget", "ExecutableCWithGNULibcTarget",
    "ExecutorBase", "GeneratedProgram", "GlobalArg", "InstructionBase", "KernelArgument", "LoopKernel",
    "LoopyError", "LoopyWarning", "MemAccess", "NoOpInstruction", "Op", "OpenCLTarget", "Options",
    "PyOpenCLTarget", "Sync", "TemporaryVariable", "TranslationUnit", "ValueArg", "add_and_infer_dtypes",
    "add_barrier", "add_dependency", "add_dtypes", "add_inames_for_unused_hw_axes", "add_inames_to_insn",
    "add_nosync", "add_padding", "add_prefetch", "alias_temporaries", "assignment_to_subst", "assume", "auto",
    "auto_test_vs_ref", "buffer_array", "chunk_iname", "clear_in_mem_caches",
    "collect_common_factors_on_increment", "concatenate_arrays", "duplicate_inames", "expand_subst",
    "extract_subst", "find_instructions", "find_one_rule_matching", "find_padding_multiple",
    "find_rules_matching", "fix_parameters", "fold_constants", "for_each_kernel", "fuse_kernels",
    "gather_access_footprint_bytes", "gather_access_footprints", "generate_body", "generate_code",
    "generate_code_v2", "generate_header", "get_kennedy_unweighted_fusion_candidates", "get_mem_access_map",
    "get_one_linearized_kernel", "get_one_scheduled_kernel", "get_op_map", "get_synchronization_map",
    "has_schedulable_iname_nesting", "infer_unknown_types", "inline_callable_kernel", "join_inames", "linearize",
    "make_copy_kernel", "make_einsum", "make_function", "make_kernel", "make_program",
    "make_reduction_inames_unique", "map_domain", "map_instructions", "merge", "precompute", "preprocess_kernel",
    "preprocess_program", "prioritize_loops", "privatize_temporaries_with_inames", "realize_reduction",
    "reduction_arg_to_subst_rule", "register_callable", "remove_inames_from_insn", "remove_instructions",
    "remove_predicates_from_insn", "remove_unused_arguments", "remove_unused_inames", "rename_argument",
    "rename_callable", "rename_iname", "rename_inames", "rename_inames_in_batch", "replace_instruction_ids",
    "save_and_reload_temporaries", "set_argument_order", "set_array_axis_names", "set_array_dim_names",
    "set_caching_enabled", "set_instruction_priority", "set_options", "set_temporary_address_space",
    "set_temporary_scope", "simplify_indices", "split_arg_axis", "split_array_axis", "split_array_dim",
    "split_iname", "split_reduction_inward", "split_reduction_outward", "t_unit_to_python", "tag_array_axes",
    "tag_data_axes", "tag_inames", "tag_instructions", "to_batched", "unprivatize_temporaries_with_inames",
    "FixedStrideArrayDimTag", "SeparateArrayArrayDimTag", "VectorArrayDimTag", "diff_kernel",
    "register_preamble_generators", "to_loopy_type", "untag_inames",
]  # fmt: skip
REPLACED = [
    "ASTBuilderBase", "AtomicInit", "AtomicUpdate", "CallInstruction", "CallMangleInfo", "CodeGenerationResult",
    "HappensAfter", "ISPCTarget", "ImageArg", "InKernelCallable", "KernelState", "LegacyStringInstructionTag",
    "LinearSubscript", "MemoryOrdering", "MemoryScope", "MultiAssignmentBase",
    "Optional", "OrderedAtomic", "Reduction", "SubstitutionRule",
    "TaggedVariable", "TargetBase", "ToCountMap", "ToCountPolynomialMap", "ToLoopyTypeConvertible", "TypeCast",
    "UniqueName", "UseStreamingStoreTag", "VarAtomicity", "allocate_temporaries_for_base_storage",
    "change_arg_to_image", "find_most_recent_global_barrier", "find_unused_axis_tag", "generate_loop_schedules",
    "get_dot_dependency_graph", "get_global_barrier_order", "get_iname_duplication_options",
    "get_subkernel_to_insn_id_map", "get_subkernels", "infer_arg_descr", "memoize_on_disk",
    "pack_and_unpack_args_for_call", "register_reduction_parser",
    "register_symbol_manglers", "show_dependency_graph",
    "get_barrier_poly", "get_gmem_access_poly", "get_op_poly", "sum_mem_access_to_bytes", "sum_ops_to_dtypes",
]  # fmt: skip


@pytest.mark.parametrize("name", OFFERED)
def test_an_offered_name_is_there(name: str) -> None:
    assert getattr(lp, name) is not None


@pytest.mark.parametrize("name", REPLACED)
def test_another_name_says_what_takes_its_place(name: str) -> None:
    with pytest.raises(lp.LoopyError, match=r"\[not-offered\]") as caught:
        getattr(lp, name)
    assert f"there is no '{name}' here" in str(caught.value)
    assert "\n  Hint: " in str(caught.value)


def test_the_table_has_no_other_names() -> None:
    assert {*MISSING} == {*REPLACED}
    assert {*OFFERED}.isdisjoint(REPLACED)


def test_what_is_no_name_of_loopy_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'frobnicate'"):
        _ = lp.frobnicate


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("version", "LOOPY_USE_LANGUAGE_VERSION_2018_2"), ("diagnostic", "LoopyError"),
        ("diagnostic", "LoopyTypeError"),
        ("diagnostic", "MissingBarrierError"), ("transform.data", "reduction_arg_to_subst_rule"),
        ("target.c", "ExecutableCTarget"), ("target.pyopencl", "PyOpenCLTarget"), ("preprocess", "preprocess_kernel"),
        ("schedule", "get_one_linearized_kernel"), ("kernel.data", "AddressSpace"), ("statistics", "CountGranularity"),
    ],
)  # fmt: skip
def test_paths_of_loopys_modules_have_the_names(path: str, name: str) -> None:
    assert getattr(importlib.import_module(f"polyloop.loopy.{path}"), name) is not None


def test_errors_are_those_of_the_package() -> None:
    assert lp.LoopyError is pl.PolyloopError
    assert lp.LoopyWarning is pl.PolyloopWarning
    with pytest.raises(lp.LoopyError, match="unknown-iname"):
        lp.split_iname(lp.make_kernel("{[i]: 0 <= i < n}", "y[i] = i"), "k", 4)


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda: lp.make_kernel("{[i]: 0 <= i < 4}", "y[i] = i", iname_slab_increments={1: 2}), "no-such-option"),
        (lambda: lp.set_options(lp.make_kernel("{[i]: 0 <= i < 4}", "y[i] = i"), edit_code=True), "no-such-option"),
        (lambda: lp.set_options(lp.make_kernel("{[i]: 0 <= i < 4}", "y[i] = i"), speed=True), "no-such-option"),
        (lambda: lp.make_kernel("{[i]: 0 <= i < 4}", "y[i] = i")["other"], "which-kernel"),
        (lambda: lp.make_kernel("{[i]: 0 <= i < 4}", "y[i] = i").copy(functions=()), "no-such-option"),
        (lambda: lp.make_kernel("{[i]: 0 <= i < 4}", "y[i] = i")(3), "unnamed-argument"),
        (lambda: lp.merge([lp.make_kernel("{[i]: 0 <= i < 4}", "y[i] = i")] * 2), "name-taken"),
        (lambda: lp.register_callable(lp.make_kernel("{:}", "y[:] = f(x[:])"), "f", print), "bad-function"),
        (lambda: lp.inline_callable_kernel(lp.make_kernel("{:}", "y[:] = f(x[:])"), "f"), "unknown-function"),
        (lambda: str(lp.generate_code_v2(lp.make_kernel("{:}", "y[:] = f(x[:])"))), "unknown-function"),
        (lambda: lp.diff_kernel(lp.make_kernel("{[i]: 0 <= i < 4}", "y[i] = x[i]"), "y", "x", batch_axes_in_by={0}),
         "not-offered"),
        (lambda: lp.diff_kernel(lp.make_kernel("{[i]: 0 <= i < 4}", "y[i] = x[i]"), "z", "x"), "unknown-argument"),
        (lambda: lp.find_one_rule_matching(lp.make_kernel("{[i]: 0 <= i < 4}", "y[i] = i"), "f*"), "not-offered"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_refused(call: Any, code: str) -> None:
    with pytest.raises(lp.LoopyError, match=rf"\[{code}\]"):
        call()


def test_options_without_effect_are_kept() -> None:
    knl = lp.set_options(lp.make_kernel("{[i]: 0 <= i < 4}", "y[i] = i"), "return_dict, allow_terminal_colors")
    assert knl.options.return_dict
    assert knl.options.allow_terminal_colors
    assert not knl.options.skip_arg_checks
    lp.set_caching_enabled(False)
    with lp.CacheMode(True):
        _, outputs = knl()
    np.testing.assert_array_equal(outputs["y"], np.arange(4))

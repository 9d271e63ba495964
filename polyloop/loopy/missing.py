"""Names of Loopy that there are not here, and what takes their place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from polyloop.errors import Diagnostic, KernelError

__all__ = ["MISSING", "refused"]

_BY_TARGET: Final = "write a target as polyloop/target/opencl.py does: docs/howto/target.md"
_BY_FUNCTION: Final = "pl.ForeignFunction(name, types, result, preamble=..), registered by lp.register_callable"
_BY_TYPE: Final = "types are NumPy's dtypes: np.dtype(np.float32)"
_COUNTS: Final = "lp.get_op_map, get_mem_access_map, get_synchronization_map; .sum().eval_with_dict({..}) of them"
_NO_STATE: Final = "leave it out: a kernel is checked and scheduled from the beginning"
_GRAPH: Final = "pl.dependences(kernel) lists them, pl.draw_dependences(kernel) draws them"

MISSING: Final[Mapping[str, str]] = {
    "ASTBuilderBase": _BY_TARGET,
    "AtomicInit": "any array can be updated atomically: the option {atomic}",
    "AtomicUpdate": "any array can be updated atomically: the option {atomic}",
    "CallInstruction": "write a, b = f(x) in the text",
    "CallMangleInfo": _BY_FUNCTION,
    "CodeGenerationResult": "lp.generate_code_v2(knl) returns texts by device_code() and host_code()",
    "HappensAfter": "insn.depends_on lists ids; add_dependency and dep= set them",
    "ISPCTarget": "lp.CTarget(), whose inner loops a C compiler vectorizes; tag an iname vec for vectors by hand",
    "ImageArg": "lp.GlobalArg; on CUDA loads of constant arrays go through the texture path by themselves",
    "InKernelCallable": _BY_FUNCTION,
    "KernelState": _NO_STATE,
    "LegacyStringInstructionTag": "tags of instructions are names: {tags=a:b}, within='tag:a'",
    "LinearSubscript": "give the array strides, or a shape of one axis: GlobalArg(.., strides=..)",
    "MemoryOrdering": "atomic updates are relaxed, and barriers are derived",
    "MemoryScope": "atomic updates are relaxed, and barriers are derived",
    "MultiAssignmentBase": "pl.Assignment",
    "Optional": "typing.Optional, or a value that is None",
    "OrderedAtomic": "any array can be updated atomically: the option {atomic}",
    "Reduction": "reductions are written in text: 'sum(j, a[i, j])', or reduce(op, inames, expression)",
    "SubstitutionRule": "rules are written in text: 'f(x) := x*x'; kernel.substitutions holds them",
    "TaggedVariable": "give the accesses rules of their own: f(i) := a[i]",
    "TargetBase": _BY_TARGET,
    "ToCountMap": "lp.get_op_map(knl) returns one, with filter_by, group_by, eval_and_sum",
    "ToCountPolynomialMap": "lp.get_op_map(knl) returns one, with filter_by, group_by, eval_and_sum",
    "ToLoopyTypeConvertible": _BY_TYPE,
    "TypeCast": "casts are written in text: 'cast(float32, x)'",
    "UniqueName": "choose a name; kernel.fresh('t') returns one that is unused",
    "UseStreamingStoreTag": "there is no such store; leave it out",
    "VarAtomicity": "any array can be updated atomically: the option {atomic}",
    "allocate_temporaries_for_base_storage": "temporaries with base_storage share their memory by themselves",
    "change_arg_to_image": "leave it out: on CUDA loads of constant arrays go through the texture path by themselves",
    "find_most_recent_global_barrier": "pl.generate_code(kernel).launches lists the launches",
    "find_unused_axis_tag": "name the axis; kernel.iname_tags lists those in use",
    "generate_loop_schedules": "a kernel has one schedule: print(kernel.reference) shows its loops",
    "get_barrier_poly": _COUNTS,
    "get_dot_dependency_graph": _GRAPH,
    "get_gmem_access_poly": _COUNTS,
    "get_global_barrier_order": "pl.generate_code(kernel).launches lists the launches",
    "get_iname_duplication_options": "an order of loops that cannot be is refused with its reason at creation",
    "get_op_poly": _COUNTS,
    "get_subkernel_to_insn_id_map": "pl.generate_code(kernel).launches lists the launches",
    "get_subkernels": "pl.generate_code(kernel).launches lists the launches",
    "infer_arg_descr": _NO_STATE,
    "memoize_on_disk": "compiled programs are kept on disk by themselves",
    "pack_and_unpack_args_for_call": "pass any part of an array; copy it by an instruction for another layout",
    "register_reduction_parser": "make_kernel(.., reductions=[pl.ReductionOperation(..)])",
    "register_symbol_manglers": "give them where symbols are read: make_kernel(.., symbol_manglers=[..])",
    "show_dependency_graph": _GRAPH,
    "sum_mem_access_to_bytes": _COUNTS,
    "sum_ops_to_dtypes": _COUNTS,
}
"""Name -> remedy."""


def refused(name: str, hint: str) -> KernelError:
    """Return the error of a name of Loopy's that there is not here."""
    problem = Diagnostic("not-offered", f"there is no '{name}' here", hints=(hint,))
    return KernelError("polyloop.loopy", None, [problem])

"""polyloop: loop programs as values, transformed under proof, into CUDA C that people can read."""

from typing import TYPE_CHECKING
from typing import Any as _Any

from numpy import float16, float32, float64, int8, int16, int32, int64, uint8, uint16, uint32, uint64

import polyloop.edge.calls as _edge
from polyloop.edge.first import before_kernels as _before_kernels
from polyloop.edge.first import imported as _import_module
from polyloop.edge.first import prepare_kernels as _prepare_kernels
from polyloop.errors import (
    ArgumentError,
    CodegenError,
    CommunicationError,
    CompilerError,
    Diagnostic,
    KernelError,
    PolyloopError,
    PolyloopWarning,
    SerialError,
    TransformError,
    TuningError,
    VerificationError,
)
from polyloop.transform.index import HOMES as _TRANSFORMS

if TYPE_CHECKING:
    from polyloop.codegen.program import DeviceLaunch, GeneratedProgram, LaunchCheck
    from polyloop.cost.tally import CountGranularity, MemAccess, Op, Sync
    from polyloop.creation.create import make_kernel
    from polyloop.derivatives.differentiate import differentiate
    from polyloop.distributed.distribute import DistributedKernel, distribute
    from polyloop.distributed.engines.engine import Engine
    from polyloop.distributed.engines.inprocess import run_ranks
    from polyloop.distributed.engines.mpiengine import MpiEngine
    from polyloop.distributed.engines.torchengine import TorchEngine
    from polyloop.distributed.ranks import RankProgram
    from polyloop.distributed.traffic import Link, Traffic
    from polyloop.export.load import LoadedKernel, load
    from polyloop.export.write import export
    from polyloop.expr import vec
    from polyloop.expr.foreign import ForeignFunction
    from polyloop.expr.records import record
    from polyloop.frontend.copy import make_copy_kernel
    from polyloop.frontend.einsum import make_einsum
    from polyloop.frontend.function import make_function, merge
    from polyloop.frontend.fuse import fuse_kernels
    from polyloop.frontend.intrinsics import Array, cast, domain, options, product, reduce
    from polyloop.frontend.python import kernel
    from polyloop.frontend.script import kernel_to_python
    from polyloop.interop.gufunc import Batched, gufunc
    from polyloop.interop.linear import aslinearoperator
    from polyloop.kernel.arrays import AddressSpace
    from polyloop.kernel.build.function import Function
    from polyloop.kernel.cinstruction import CInstruction
    from polyloop.kernel.intrinsic import MatrixIntrinsic, declare_intrinsic
    from polyloop.kernel.kernel import LoopKernel
    from polyloop.kernel.limits import DeviceLimits
    from polyloop.kernel.methods import *  # noqa: F403 - the functions of transforms, of which _TRANSFORMS has the names
    from polyloop.kernel.objects import Assignment, BarrierInstruction, NoOpInstruction
    from polyloop.kernel.reductions import ReductionOperation
    from polyloop.kernel.text.specs import ConstantArg, GlobalArg, TemporaryVariable, ValueArg, auto
    from polyloop.kernel.trace import Trace
    from polyloop.runtime.compile import compile_kernel as compile  # noqa: A004 - the field's word
    from polyloop.runtime.executor import SpecializingKernel
    from polyloop.runtime.explain import explain
    from polyloop.runtime.foreign.lending import as_dlpack
    from polyloop.runtime.hip.code_object import CodeObject, compile_hip
    from polyloop.runtime.invoke import BoundCall, CompiledKernel
    from polyloop.schedule.counts import (
        gather_access_footprint_bytes,
        gather_access_footprints,
        get_mem_access_map,
        get_op_map,
        get_synchronization_map,
    )
    from polyloop.serial.form import dumps, loads
    from polyloop.target.base import Target
    from polyloop.target.budget import operation_budget, time_budget
    from polyloop.target.c import CTarget
    from polyloop.target.certificate import Assumption, Certificate
    from polyloop.target.cuda import CudaTarget
    from polyloop.target.hip import HipTarget
    from polyloop.target.interpreter import interpret
    from polyloop.target.loopy import add_and_infer_dtypes, generate_code_v2
    from polyloop.target.opencl import OpenCLDevice, OpenCLTarget
    from polyloop.target.source import generate_code
    from polyloop.target.verify import verify
    from polyloop.testing.auto_test import auto_test_vs_ref
    from polyloop.testing.equivalence import check_equivalence
    from polyloop.transform.instructions.instructions import find_instructions
    from polyloop.transform.instructions.rules import find_rules_matching
    from polyloop.transform.layout.array_axes import find_padding_multiple
    from polyloop.transform.layout.swizzle import get_bank_conflicts
    from polyloop.transform.loops.fusion import get_kennedy_unweighted_fusion_candidates
    from polyloop.transform.recipe import Recipe
    from polyloop.transform.stored import replay, trace_from_json
    from polyloop.transform.together import together
    from polyloop.tuning.dispatch import Dispatcher, dispatch
    from polyloop.tuning.report import Tuned
    from polyloop.tuning.tune import tune
    from polyloop.verification.dependences import Dependence, DependenceKind, Dependences, dependences
    from polyloop.viz.accesses import draw_accesses
    from polyloop.viz.dependences import draw_dependences
    from polyloop.viz.difference import diff
    from polyloop.viz.domain import draw_domain
    from polyloop.viz.footprint import draw_footprint
    from polyloop.viz.layout import draw_layout
    from polyloop.viz.loops import draw_loops
    from polyloop.viz.picture import Picture
    from polyloop.viz.pipeline import draw_pipeline
    from polyloop.viz.roofline import draw_roofline
    from polyloop.viz.view import view

__version__ = "0.1.0"

__all__ = [  # noqa: PLE0604 - the names of all transforms come last
    "AddressSpace",
    "ArgumentError",
    "Array",
    "Assignment",
    "Assumption",
    "BarrierInstruction",
    "Batched",
    "BoundCall",
    "CInstruction",
    "CTarget",
    "Certificate",
    "CodeObject",
    "CodegenError",
    "CommunicationError",
    "CompiledKernel",
    "CompilerError",
    "ConstantArg",
    "CountGranularity",
    "CudaTarget",
    "Dependence",
    "DependenceKind",
    "Dependences",
    "DeviceLaunch",
    "DeviceLimits",
    "Diagnostic",
    "Dispatcher",
    "DistributedKernel",
    "Engine",
    "ForeignFunction",
    "Function",
    "GeneratedProgram",
    "GlobalArg",
    "HipTarget",
    "KernelError",
    "LaunchCheck",
    "Link",
    "LoadedKernel",
    "LoopKernel",
    "MatrixIntrinsic",
    "MemAccess",
    "MpiEngine",
    "NoOpInstruction",
    "Op",
    "OpenCLDevice",
    "OpenCLTarget",
    "Picture",
    "PolyloopError",
    "PolyloopWarning",
    "RankProgram",
    "Recipe",
    "ReductionOperation",
    "SerialError",
    "SpecializingKernel",
    "Sync",
    "Target",
    "TemporaryVariable",
    "TorchEngine",
    "Trace",
    "Traffic",
    "TransformError",
    "Tuned",
    "TuningError",
    "ValueArg",
    "VerificationError",
    "add_and_infer_dtypes",
    "as_dlpack",
    "aslinearoperator",
    "auto",
    "auto_test_vs_ref",
    "cast",
    "check_equivalence",
    "compile",
    "compile_hip",
    "declare_intrinsic",
    "dependences",
    "diff",
    "differentiate",
    "dispatch",
    "distribute",
    "domain",
    "draw_accesses",
    "draw_dependences",
    "draw_domain",
    "draw_footprint",
    "draw_layout",
    "draw_loops",
    "draw_pipeline",
    "draw_roofline",
    "dumps",
    "explain",
    "export",
    "find_instructions",
    "find_padding_multiple",
    "find_rules_matching",
    "float16",
    "float32",
    "float64",
    "fuse_kernels",
    "gather_access_footprint_bytes",
    "gather_access_footprints",
    "generate_code",
    "generate_code_v2",
    "get_bank_conflicts",
    "get_kennedy_unweighted_fusion_candidates",
    "get_mem_access_map",
    "get_op_map",
    "get_synchronization_map",
    "gufunc",
    "int8",
    "int16",
    "int32",
    "int64",
    "interpret",
    "kernel",
    "kernel_to_python",
    "load",
    "loads",
    "make_copy_kernel",
    "make_einsum",
    "make_function",
    "make_kernel",
    "merge",
    "operation_budget",
    "options",
    "product",
    "record",
    "reduce",
    "replay",
    "run_ranks",
    "time_budget",
    "together",
    "trace_from_json",
    "tune",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "vec",
    "verify",
    "view",
    *_TRANSFORMS,
]

for _class in (PolyloopError, PolyloopWarning, Diagnostic):
    _edge.guard(_class)


def _prepare() -> None:
    """Give kernels their methods; programs that only load bundles do without."""
    registry = _import_module("polyloop.transform.registry")
    registry.install_methods()
    _import_module("polyloop.kernel.called").provide(
        lambda kernel: _import_module("polyloop.runtime.compile").executor(kernel))
    _import_module("polyloop.viz.methods").install_pictures()


_before_kernels(_prepare)

_AT_ONCE = {
    "LoadedKernel": "export.load",
    "load": "export.load",
}
"""Names that are loaded without kernels, islpy and pymbolic."""

_LATER = {
    "AddressSpace": "kernel.arrays",
    "ForeignFunction": "expr.foreign",
    "LoopKernel": "kernel.kernel",
    "Trace": "kernel.trace",
    "export": "export.write",
    "record": "expr.records",
    "CountGranularity": "cost.tally",
    "MemAccess": "cost.tally",
    "Op": "cost.tally",
    "Sync": "cost.tally",
    "gather_access_footprint_bytes": "schedule.counts",
    "gather_access_footprints": "schedule.counts",
    "get_mem_access_map": "schedule.counts",
    "get_op_map": "schedule.counts",
    "get_synchronization_map": "schedule.counts",
    "find_padding_multiple": "transform.layout.array_axes",
    "find_rules_matching": "transform.instructions.rules",
    "find_instructions": "transform.instructions.instructions",
    "Array": "frontend.intrinsics",
    "Assignment": "kernel.objects",
    "Assumption": "target.certificate",
    "BarrierInstruction": "kernel.objects",
    "Batched": "interop.gufunc",
    "BoundCall": "runtime.invoke",
    "CInstruction": "kernel.cinstruction",
    "CTarget": "target.c",
    "Certificate": "target.certificate",
    "CodeObject": "runtime.hip.code_object",
    "CompiledKernel": "runtime.invoke",
    "ConstantArg": "kernel.text.specs",
    "CudaTarget": "target.cuda",
    "Dependence": "verification.dependences",
    "DependenceKind": "verification.dependences",
    "Dependences": "verification.dependences",
    "DeviceLaunch": "codegen.program",
    "DeviceLimits": "kernel.limits",
    "Function": "kernel.build.function",
    "GeneratedProgram": "codegen.program",
    "GlobalArg": "kernel.text.specs",
    "HipTarget": "target.hip",
    "LaunchCheck": "codegen.program",
    "MatrixIntrinsic": "kernel.intrinsic",
    "declare_intrinsic": "kernel.intrinsic",
    "NoOpInstruction": "kernel.objects",
    "OpenCLDevice": "target.opencl",
    "OpenCLTarget": "target.opencl",
    "Picture": "viz.picture",
    "Recipe": "transform.recipe",
    "ReductionOperation": "kernel.reductions",
    "SpecializingKernel": "runtime.executor",
    "Target": "target.base",
    "TemporaryVariable": "kernel.text.specs",
    "ValueArg": "kernel.text.specs",
    "add_and_infer_dtypes": "target.loopy",
    "as_dlpack": "runtime.foreign.lending",
    "aslinearoperator": "interop.linear",
    "gufunc": "interop.gufunc",
    "auto": "kernel.text.specs",
    "Tuned": "tuning.report",
    "auto_test_vs_ref": "testing.auto_test",
    "cast": "frontend.intrinsics",
    "check_equivalence": "testing.equivalence",
    "dependences": "verification.dependences",
    "diff": "viz.difference",
    "differentiate": "derivatives.differentiate",
    "dispatch": "tuning.dispatch",
    "Dispatcher": "tuning.dispatch",
    "DistributedKernel": "distributed.distribute",
    "Engine": "distributed.engines.engine",
    "Link": "distributed.traffic",
    "MpiEngine": "distributed.engines.mpiengine",
    "RankProgram": "distributed.ranks",
    "TorchEngine": "distributed.engines.torchengine",
    "Traffic": "distributed.traffic",
    "distribute": "distributed.distribute",
    "run_ranks": "distributed.engines.inprocess",
    "domain": "frontend.intrinsics",
    "draw_accesses": "viz.accesses",
    "draw_dependences": "viz.dependences",
    "draw_domain": "viz.domain",
    "draw_footprint": "viz.footprint",
    "draw_layout": "viz.layout",
    "draw_loops": "viz.loops",
    "draw_pipeline": "viz.pipeline",
    "draw_roofline": "viz.roofline",
    "dumps": "serial.form",
    "loads": "serial.form",
    "compile_hip": "runtime.hip.code_object",
    "explain": "runtime.explain",
    "fuse_kernels": "frontend.fuse",
    "generate_code": "target.source",
    "generate_code_v2": "target.loopy",
    "get_bank_conflicts": "transform.layout.swizzle",
    "get_kennedy_unweighted_fusion_candidates": "transform.loops.fusion",
    "interpret": "target.interpreter",
    "kernel": "frontend.python",
    "kernel_to_python": "frontend.script",
    "make_copy_kernel": "frontend.copy",
    "make_einsum": "frontend.einsum",
    "make_function": "frontend.function",
    "make_kernel": "creation.create",
    "merge": "frontend.function",
    "operation_budget": "target.budget",
    "time_budget": "target.budget",
    "options": "frontend.intrinsics",
    "product": "frontend.intrinsics",
    "reduce": "frontend.intrinsics",
    "replay": "transform.stored",
    "together": "transform.together",
    "trace_from_json": "transform.stored",
    "verify": "target.verify",
    "view": "viz.view",
    "tune": "tuning.tune",
}
"""Names that an import of the package does not need, and the modules that they are loaded from when first used."""

for _entry in ("kernel", "export"):  # packages of these names, which for users are a decorator and a function
    _import_module(f"polyloop.{_entry}")
    globals().pop(_entry, None)


if not TYPE_CHECKING:

    def __getattr__(name: str) -> _Any:  # noqa: ANN401 - whatever the name stands for
        value: _Any
        if name not in _AT_ONCE and (name in _LATER or name in __all__):
            _prepare_kernels()
        if name in _TRANSFORMS:
            value = _import_module("polyloop.transform.registry").FUNCTIONS[name]
        elif name == "compile":
            value = _edge.public(_import_module("polyloop.runtime.compile").compile_kernel, name)
        elif name == "vec":
            value = _import_module("polyloop.expr.vec")
        elif home := _AT_ONCE.get(name) or _LATER.get(name):
            value = _edge.entrance(getattr(_import_module(f"polyloop.{home}"), name))
        else:
            from difflib import get_close_matches  # noqa: PLC0415 - only where a name is wrong

            near = [] if name.startswith("_") else get_close_matches(name, __all__, n=1, cutoff=0.75)
            meant = f"; did you mean {near[0]!r}?" if near else ""
            raise AttributeError(f"module 'polyloop' has no attribute {name!r}{meant}")
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]

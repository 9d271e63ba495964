"""polyloop: loop programs as values, transformed under proof, into CUDA C that people can read."""

from polyloop.analysis.creation import make_kernel
from polyloop.api import compile_kernel as compile  # noqa: A004 - the field's word
from polyloop.api import generate_code
from polyloop.codegen.program import DeviceLaunch, GeneratedProgram, LaunchCheck
from polyloop.errors import (
    ArgumentError,
    CodegenError,
    CompilerError,
    Diagnostic,
    KernelError,
    PolyloopError,
    PolyloopWarning,
    TransformError,
    VerificationError,
)
from polyloop.kernel.arrays import AddressSpace
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.limits import DeviceLimits
from polyloop.kernel.specs import GlobalArg, TemporaryVariable, ValueArg, auto
from polyloop.kernel.trace import Trace
from polyloop.runtime.invoke import CompiledKernel
from polyloop.target.base import Target
from polyloop.target.c import CTarget
from polyloop.target.cuda import CudaTarget
from polyloop.target.interpreter import interpret
from polyloop.transform.precompute import precompute
from polyloop.transform.prefetch import add_prefetch
from polyloop.transform.registry import install_methods, replay, trace_from_json
from polyloop.transform.rename import rename_iname
from polyloop.transform.reorder import prioritize_loops
from polyloop.transform.specialize import add_dtypes, assume, fix_parameters, set_temporary_address_space
from polyloop.transform.split import split_iname
from polyloop.transform.tag import tag_inames

__version__ = "0.1.0"

__all__ = [
    "AddressSpace",
    "ArgumentError",
    "CTarget",
    "CodegenError",
    "CompiledKernel",
    "CompilerError",
    "CudaTarget",
    "DeviceLaunch",
    "DeviceLimits",
    "Diagnostic",
    "GeneratedProgram",
    "GlobalArg",
    "KernelError",
    "LaunchCheck",
    "LoopKernel",
    "PolyloopError",
    "PolyloopWarning",
    "Target",
    "TemporaryVariable",
    "Trace",
    "TransformError",
    "ValueArg",
    "VerificationError",
    "add_dtypes",
    "add_prefetch",
    "assume",
    "auto",
    "compile",
    "fix_parameters",
    "generate_code",
    "interpret",
    "make_kernel",
    "precompute",
    "prioritize_loops",
    "rename_iname",
    "replay",
    "set_temporary_address_space",
    "split_iname",
    "tag_inames",
    "trace_from_json",
]

install_methods()

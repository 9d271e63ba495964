"""Resource usage of compiled kernels, for CUDA and HIP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from polyloop.codegen.program import GeneratedProgram
from polyloop.runtime.hip.code_object import HipResources, compile_hip
from polyloop.runtime.nvrtc import compile_cuda
from polyloop.runtime.resources import Resources, resources
from polyloop.target.base import Target

__all__ = ["Used", "used_by"]

Used: TypeAlias = "Resources | HipResources"


def used_by(program: GeneratedProgram, target: Target) -> Mapping[str, Used]:
    """Return the resource usage of each kernel.

    Raises
    ------
    CompilerError
        ``no-nvrtc``, ``nvrtc-failed``, ``no-hip-compiler``, ``hip-failed``.
    """
    if target.name == "hip":
        return compile_hip(program, target).resources
    return resources(compile_cuda(program.device_code, target.arch).cubin)

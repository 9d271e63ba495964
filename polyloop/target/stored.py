"""Targets in the canonical form: the choices that they are made of."""

from __future__ import annotations

import ast
from dataclasses import replace

from polyloop.codegen.program import BuildOptions
from polyloop.edge.words import shown
from polyloop.serial.form import Adapter, adapt
from polyloop.target.base import Target
from polyloop.target.c import CTarget
from polyloop.target.cuda import CudaTarget, with_one_launch
from polyloop.target.hip import HipTarget
from polyloop.target.opencl import OpenCLDevice, OpenCLTarget

__all__ = ["made_target", "target_data"]


def target_data(target: Target) -> object:
    """Return the choices of a target.

    Raises
    ------
    TypeError
        It was made otherwise than by the package's functions.
    """
    for is_one_launch in (False, True):
        device = _device_of(target.call) if target.name == "opencl" else None
        data = (target.name, target.arch, target.min_blocks, target.full_blocks, target.openmp, target.contract,
                target.build, device, is_one_launch)
        try:
            if made_target(data) == target:
                return data
        except ValueError:
            continue
    raise TypeError(f"it holds the target {shown(target.name)}, which has tables of its own")


def _device_of(call: str) -> OpenCLDevice:
    """Return the device in the call that makes a target for OpenCL; that of most GPUs if it names none."""
    made = ast.parse(call, mode="eval").body
    assert isinstance(made, ast.Call), f"{call} is no call"
    for given in made.args:
        if isinstance(given, ast.Call):
            return OpenCLDevice(**{str(entry.arg): ast.literal_eval(entry.value) for entry in given.keywords})
    return OpenCLDevice()


def made_target(data: object) -> Target:
    """Return the target of these choices.

    Raises
    ------
    ValueError
        There is none.
    """
    match data:
        case ("c", "", 0, True, bool(openmp), bool(contract), BuildOptions(), None, False):
            return CTarget(openmp=openmp, contract=contract)
        case ("cuda", str(arch), int(blocks), bool(full), False, False, BuildOptions() as build, None, bool(one)):
            made = CudaTarget(arch, min_blocks=blocks, full_blocks=full, options=build.options, std=build.std,
                              lineinfo=build.lineinfo)
            made = replace(made, build=build)  # with what it links, and the names of its files
            return with_one_launch(made) if one else made
        case ("hip", str(arch), 0, bool(full), False, False, BuildOptions(), None, False):
            return HipTarget(arch, full_blocks=full)
        case ("opencl", str(arch), 0, bool(full), False, False, BuildOptions(), OpenCLDevice() as device, False):
            return OpenCLTarget(device, version=arch.partition(" ")[0], full_blocks=full)
    raise ValueError("there is no such target")


adapt(Target, Adapter("Target", target_data, made_target))

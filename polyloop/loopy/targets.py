"""Loopy's targets, as those of the package."""

from __future__ import annotations

from polyloop.target.base import Target
from polyloop.target.c import CTarget as _CTarget
from polyloop.target.cuda import CudaTarget as _CudaTarget
from polyloop.target.opencl import OpenCLDevice
from polyloop.target.opencl import OpenCLTarget as _OpenCLTarget

__all__ = ["CTarget", "CudaTarget", "OpenCLTarget"]


def CTarget(*_: object, **__: object) -> Target:  # noqa: N802 - a class in Loopy
    """Return the C target; all of them can be run, and arguments of Loopy's have no effect."""
    return _CTarget()


def CudaTarget(*_: object, **__: object) -> Target:  # noqa: N802 - a class in Loopy
    """Return the CUDA target; arguments of Loopy's have no effect."""
    return _CudaTarget()


def OpenCLTarget(device: object = None, **_: object) -> Target:  # noqa: N802 - a class in Loopy
    """Return the OpenCL target, for a device of PyOpenCL if one is given."""
    is_device = isinstance(device, OpenCLDevice) or hasattr(device, "extensions")
    return _OpenCLTarget(device) if is_device else _OpenCLTarget()

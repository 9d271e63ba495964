"""Loopy's targets, as those of the package."""
# ruff: noqa: ANN401  # arguments of Loopy's

from __future__ import annotations

from typing import Any

from polyloop.target.base import Target
from polyloop.target.c import CTarget as _CTarget
from polyloop.target.cuda import CudaTarget as _CudaTarget
from polyloop.target.opencl import OpenCLDevice
from polyloop.target.opencl import OpenCLTarget as _OpenCLTarget

__all__ = ["CTarget", "CudaTarget", "OpenCLTarget"]


class _Named(type):
    """The type of names of targets: calling one returns a target, whose class it then appears to be."""

    def __call__(cls, *arguments: Any, **_: Any) -> Any:
        """Return a target."""
        return cls.made(*arguments)  # type: ignore[attr-defined]

    def __instancecheck__(cls, instance: object) -> bool:
        """Return whether *instance* is such a target."""
        return isinstance(instance, Target) and instance.name == cls.made().name  # type: ignore[attr-defined]


class CTarget(metaclass=_Named):
    """The C target; all of them can be run, and arguments of Loopy's have no effect."""

    @staticmethod
    def made(*_: object) -> Target:
        """Return the target."""
        return _CTarget()


class CudaTarget(metaclass=_Named):
    """The CUDA target; arguments of Loopy's have no effect."""

    @staticmethod
    def made(*_: object) -> Target:
        """Return the target."""
        return _CudaTarget()


class OpenCLTarget(metaclass=_Named):
    """The OpenCL target, for a device of PyOpenCL if one is given."""

    @staticmethod
    def made(device: object = None, *_: object) -> Target:
        """Return the target."""
        is_device = isinstance(device, OpenCLDevice) or hasattr(device, "extensions")
        return _OpenCLTarget(device) if is_device else _OpenCLTarget()

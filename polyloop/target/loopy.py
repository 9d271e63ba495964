"""Loopy's spellings of functions with other names here, so that a script runs once its import is changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from polyloop.codegen.program import GeneratedProgram
from polyloop.kernel.kernel import LoopKernel
from polyloop.target.source import generate_code

__all__ = ["GeneratedCode", "add_and_infer_dtypes", "generate_code_v2"]


@dataclass(frozen=True)
class GeneratedCode:
    """Result of :func:`generate_code_v2`: a program, with methods for its texts."""

    program: GeneratedProgram

    def device_code(self) -> str:
        """Return the text of the functions that are launched."""
        return self.program.device_code

    def all_code(self) -> str:
        """Return the whole text."""
        return self.program.device_code


def generate_code_v2(kernel: LoopKernel) -> GeneratedCode:
    """Return the program of *kernel*, as :func:`polyloop.generate_code` makes it for the kernel's own target."""
    return GeneratedCode(generate_code(kernel))


def add_and_infer_dtypes(
    kernel: LoopKernel, dtype_dict: Mapping[str, object], expect_completion: bool = False
) -> LoopKernel:
    """State element types, as :func:`polyloop.add_dtypes` does; the rest is always inferred.

    Parameters
    ----------
    dtype_dict
        Name, or several separated by commas -> type.
    expect_completion
        Accepted so that Loopy scripts run: what has no type in the end is refused when code is generated.
    """
    del expect_completion
    return kernel.add_dtypes(dtype_dict)

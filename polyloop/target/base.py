"""Targets: a name, a language table, and limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, SupportsIndex

from polyloop.codegen.language import Language
from polyloop.codegen.program import BuildOptions
from polyloop.display import Shown
from polyloop.errors import ArgumentError
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.limits import DeviceLimits
from polyloop.serial.form import dumps, loads

__all__ = ["Target", "target_of"]

_AS_IT_IS: Final = BuildOptions()


@dataclass(frozen=True)
class Target(Shown):
    """Target of code generation.

    Attributes
    ----------
    name
        ``"c"``, ``"cuda"``, ``"hip"`` or ``"opencl"``.
    language
        Tables for code generation.
    limits
        Limits of the device that schedules respect.
    arch
        Architecture that the code is compiled for, such as ``"sm_90"`` or ``"gfx942"``; empty for the C target.  For
        OpenCL the version of the language, and the name of the device if there is one.
    min_blocks
        How many blocks a multiprocessor is to hold at least; 0 says nothing.
    full_blocks
        Whether blocks inside of arrays have a text of their own, without the tests of those at their ends.
    openmp
        Whether the threads of a processor share the blocks of a launch.
    contract
        Whether a C compiler may round a product and the sum that it goes into once.
    build
        Choices of the user's for the CUDA compiler and linker.
    call
        The call that makes this target, where the other attributes do not say it.
    """

    name: str
    language: Language
    limits: DeviceLimits
    arch: str = ""
    min_blocks: int = 0
    full_blocks: bool = True
    openmp: bool = False
    contract: bool = False
    build: BuildOptions = _AS_IT_IS
    call: str = ""

    @property
    def spelling(self) -> str:
        """The call that makes this target."""
        if self.call:
            return self.call
        if not self.arch:
            said = [f"{name}=True" for name in ("openmp", "contract") if getattr(self, name)]
            said += [] if self.full_blocks else ["full_blocks=False"]
            return f"pl.CTarget({', '.join(said)})"
        more = f", min_blocks={self.min_blocks}" if self.min_blocks else ""
        more += "" if self.full_blocks else ", full_blocks=False"
        build = self.build
        more += f", options={[*build.options]!r}" if build.options else ""
        more += f", std={build.std!r}" if build.std else ""
        more += ", lineinfo=True" if build.lineinfo else ""
        more += f", link={[code.data for code in build.linked]!r}" if build.linked else ""
        return f"pl.CudaTarget({self.arch!r}{more})"

    def __repr__(self) -> str:
        return self.spelling

    def __deepcopy__(self, _: object) -> Target:
        return self

    def __reduce_ex__(self, protocol: SupportsIndex) -> str | tuple[Any, ...]:
        """Return, for pickle, the form of the target; its parts, where its tables are the user's."""
        try:
            return loads, (dumps(self),)
        except ArgumentError:
            return super().__reduce_ex__(protocol)


def target_of(kernel: LoopKernel, given: Target | None) -> Target | None:
    """Return the target to use: the one *given*, or that of the kernel; None where neither says anything."""
    if given is None and isinstance(kernel.target, Target):
        return kernel.target
    return given

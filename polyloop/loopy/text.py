"""Texts of units: ``generate_code_v2``, ``generate_header``, and steps of Loopy between a kernel and its text."""
# ruff: noqa: ANN401  # units, kernels, and what scripts pass besides

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from polyloop.codegen.program import DeviceLaunch, GeneratedProgram
from polyloop.kernel.arrays import Argument
from polyloop.kernel.kernel import LoopKernel
from polyloop.loopy.unit import TranslationUnit
from polyloop.loopy.view import plain
from polyloop.target.base import target_of
from polyloop.target.opencl import OpenCLTarget
from polyloop.target.source import generate_code as _generate

__all__ = [
    "GeneratedCode", "generate_body", "generate_code", "generate_code_v2", "generate_header",
    "get_one_linearized_kernel", "has_schedulable_iname_nesting", "unchanged",
]  # fmt: skip


@dataclass(frozen=True)
class GeneratedCode:
    """Text of the kernels of a unit.

    Attributes
    ----------
    programs
        The program of each kernel.
    """

    programs: Mapping[str, GeneratedProgram]

    @property
    def program(self) -> GeneratedProgram:
        """The program of the first kernel."""
        return next(iter(self.programs.values()))

    @property
    def implemented_data_info(self) -> tuple[Argument, ...]:
        """The arguments of the first kernel, in their order."""
        return self.program.arguments

    def device_code(self) -> str:
        """Return the text of the functions that are launched."""
        return "\n".join(program.device_code for program in self.programs.values())

    @property
    def device_programs(self) -> tuple[DeviceLaunch, ...]:
        """The launches, in their order."""
        return tuple(launch for program in self.programs.values() for launch in program.launches)

    def host_code(self) -> str:
        """Return the launches, one a line: function, grid, block and arguments."""
        lines = []
        for program in self.programs.values():
            for launch in program.launches:
                grid, block = (", ".join(map(str, extents)) for extents in (launch.grid, launch.block))
                lines.append(f"{launch.name}<<<({grid}), ({block})>>>({', '.join(launch.arguments)})")
        return "\n".join(lines)

    def all_code(self) -> str:
        """Return the text of the functions, and the launches."""
        return f"{self.device_code()}\n{self.host_code()}"

    def __str__(self) -> str:
        return self.device_code()


def _program(kernel: LoopKernel) -> GeneratedProgram:
    return _generate(kernel, target_of(kernel, None) or OpenCLTarget())


def generate_code_v2(t_unit: Any) -> GeneratedCode:
    """Return the text of a unit for its target; without one for OpenCL, as Loopy does.

    Raises
    ------
    VerificationError, CodegenError
        As :func:`polyloop.generate_code`.
    """
    if isinstance(t_unit, TranslationUnit) and (len(t_unit.kernels) > 1):
        return GeneratedCode({name: _program(kernel) for name, kernel in t_unit.kernels.items()})
    kernel = t_unit.only() if isinstance(t_unit, TranslationUnit) else plain(t_unit)
    return GeneratedCode({kernel.name: _program(kernel)})


def generate_code(t_unit: Any) -> tuple[str, tuple[Argument, ...]]:
    """Return the text of a unit, and the arguments of its kernel."""
    code = generate_code_v2(t_unit)
    return code.device_code(), code.implemented_data_info


def _definitions(program: GeneratedProgram) -> list[tuple[str, str]]:
    """Return head and body of each function that is launched."""
    found = []
    for launch in program.launches:
        lines = program.device_code.split("\n")
        start = next(n for n, line in enumerate(lines) if f" {launch.name}(" in line and not line.startswith(" "))
        opens = next(n for n in range(start, len(lines)) if lines[n] == "{")
        ends = next(n for n in range(opens, len(lines)) if lines[n] == "}")
        found.append(("\n".join(lines[start:opens]), "\n".join(line[4:] for line in lines[opens + 1 : ends])))
    return found


def generate_header(t_unit: Any, codegen_result: GeneratedCode | None = None) -> list[str]:
    """Return the declarations of the functions that are launched."""
    code = codegen_result or generate_code_v2(t_unit)
    return [f"{head};" for program in code.programs.values() for head, _ in _definitions(program)]


def generate_body(t_unit: Any) -> str:
    """Return the text between the braces of the function that is launched."""
    programs = generate_code_v2(t_unit).programs.values()
    return "\n".join(body for program in programs for _, body in _definitions(program))


def unchanged(t_unit: Any, *_: object, **__: object) -> Any:
    """Return *t_unit*: it was completed and checked when it was made."""
    return t_unit


def get_one_linearized_kernel(kernel: Any, callables_table: object = None) -> Any:
    """Return *kernel*: the order of its loops and instructions is that of its text."""
    del callables_table
    return kernel


def has_schedulable_iname_nesting(kernel: Any) -> bool:
    """Return True: a kernel without an order of its loops is refused when it is made."""
    del kernel
    return True

"""The C interface of a program: names, statuses and the header."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from polyloop.codegen.names import Names
from polyloop.codegen.program import GeneratedProgram
from polyloop.errors import CodegenError, Diagnostic
from polyloop.expr.printer import show
from polyloop.kernel.arrays import Argument, ArrayArg, ValueArg

__all__ = ["Interface"]

_HEADER: Final = """\
/*
{described}
 */

#ifndef {guard}
#define {guard}

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

enum {{
{statuses}
}};

/* Run the kernel; the result is one of the numbers above.{stream} */
{run};

{workspace}/* Say what a status means. */
{message};

#ifdef __cplusplus
}}
#endif

#endif /* {guard} */
"""

_TYPES: Final = {
    "bool": "bool", "float32": "float", "float64": "double",
    **{f"{sign}int{bits}": f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}  # fmt: skip
_GENERAL: Final = (
    ("OK", "success"),
    ("NULL", "an array is a null pointer"),
    ("ALIGNMENT", "an array is not aligned as its type or the kernel asks"),
    ("OVERLAP", "an array that is written shares memory with another one"),
    ("EXTENT", "an array would have a negative extent"),
    ("GRID", "the grid has more blocks than the device takes"),
    ("DEVICE", "the device refused the launch: cudaGetLastError says why"),
)


@dataclass(frozen=True, eq=False)
class Interface:
    """The interface of a program of a kernel.

    Its functions are ``NAME_run``, ``NAME_message`` and, for programs with memory between launches,
    ``NAME_workspace_bytes``, where ``NAME`` is the kernel's name.
    """

    program: GeneratedProgram

    def __post_init__(self) -> None:
        for launch in self.program.launches:
            if launch.maps:
                why = "the driver describes arrays to it at each call"
                raise self.refused("a copy of boxes by the copy engine", why)
        for argument in self.program.arguments:
            if isinstance(argument, ValueArg) and _type(argument) == "void":
                what = f"the number '{argument.name}' of type {argument.dtype}"
                raise self.refused(what, "C and C++ have no type in common for it")

    def refused(self, what: str, why: str) -> CodegenError:
        """Return the error that *what* cannot be exported."""
        return CodegenError("export", self.program.kernel, [Diagnostic(
            "cannot-export", f"{what} cannot be exported", (why,),
            ("run the kernel by pl.compile, or generate its source by pl.generate_code and launch it yourself",))])

    @property
    def name(self) -> str:
        """The kernel's name in C."""
        return self.names.get(self.program.kernel, self.program.kernel)

    @property
    def is_cuda(self) -> bool:
        """True if the program runs on a GPU."""
        return self.program.target == "cuda"

    @cached_property
    def names(self) -> dict[str, str]:
        """Names in C of arguments and workspace."""
        own = {argument.name: argument.name for argument in (*self.program.arguments, *self.program.workspace)}
        return own | dict(self.program.renamed)

    @cached_property
    def arrays(self) -> tuple[ArrayArg, ...]:
        """The arrays among the arguments."""
        return tuple(argument for argument in self.program.arguments if isinstance(argument, ArrayArg))

    @cached_property
    def statuses(self) -> tuple[tuple[str, str], ...]:
        """Name and message of each status that ``NAME_run`` returns, in the order of their numbers."""
        used = _GENERAL if self.is_cuda else _GENERAL[:-2]
        checks = (*self.program.checks, *self.program.index_checks)
        return (*used, *((f"CONDITION_{n}", check.message) for n, check in enumerate(checks, 1)))

    def _status(self, word: str) -> str:
        return f"{self.name.upper()}_{word}"

    def local(self, word: str) -> str:
        """Return the name of a variable of the launcher, the same for the same *word*, which nothing else has."""
        if word not in self._locals:
            self._locals[word] = self._fresh(word)
        return self._locals[word]

    @cached_property
    def _locals(self) -> dict[str, str]:
        return {}

    @cached_property
    def _fresh(self) -> Callable[[str], str]:
        loops = {loop.iname for launch in self.program.launches for loop in launch.around}
        return Names({*self.names.values(), *loops, *(launch.name for launch in self.program.launches)}).fresh

    def status(self, word: str) -> str:
        """Return the name of a status."""
        return f"{self.name.upper()}_{word}"

    @property
    def scalars(self) -> list[ValueArg]:
        """The numbers among the arguments."""
        return [argument for argument in self.program.arguments if isinstance(argument, ValueArg)]

    @property
    def sizes(self) -> list[ValueArg]:
        """The integers among them."""
        return [scalar for scalar in self.scalars if scalar.dtype is not None and scalar.dtype.kind in "iu"]

    @property
    def run_head(self) -> str:
        """The declaration of the function that runs the kernel."""
        parts = [self._parameter(argument) for argument in self.program.arguments]
        parts += [f"void *{self.local('workspace')}"] if self.program.workspace else []
        parts += [f"void *{self.local('stream')}"] if self.is_cuda else []
        return f"int {self.name}_run({', '.join(parts) or 'void'})"

    @property
    def workspace_head(self) -> str:
        """The declaration of the function that says how much workspace there has to be."""
        return f"size_t {self.name}_workspace_bytes({', '.join(map(self._parameter, self.scalars)) or 'void'})"

    @property
    def message_head(self) -> str:
        """The declaration of the function that says what a status means."""
        return f"const char *{self.name}_message(int status)"

    def _parameter(self, argument: Argument) -> str:
        name, ctype = self.names[argument.name], _type(argument)
        if isinstance(argument, ValueArg):
            return f"{ctype} {name}"
        return f"{'' if argument.is_output else 'const '}{ctype} *{name}"

    def header(self) -> str:
        """Return the header."""
        statuses = "\n".join(f"    {self.status(word)} = {n}," for n, (word, _) in enumerate(self.statuses))
        described = "\n".join(f" * {line}".rstrip() for line in self._described())
        workspace, stream = "", ""
        if self.program.workspace:
            workspace = (
                f"/* Bytes of memory for values between launches; {self.name}_run takes it at a multiple of 256. */\n"
                f"{self.workspace_head};\n\n"
            )
        if self.is_cuda:
            stream = " The launches are on 'stream', a cudaStream_t; they may not have ended."
        return _HEADER.format(
            guard=f"{self.name.upper()}_H", described=described, statuses=statuses, run=self.run_head, stream=stream,
            workspace=workspace, message=self.message_head,
        )

    def _described(self) -> Iterator[str]:
        yield f"{self.program.kernel}, generated by polyloop."
        yield ""
        yield from (array.shown() for array in self.arrays)
        yield from (check.message for check in self.program.checks)

    def arguments(self) -> list[dict[str, object]]:
        """Return a description of each argument, in their order."""
        return [_entry(argument, self.names[argument.name]) for argument in self.program.arguments]


def _type(argument: Argument) -> str:
    assert argument.dtype is not None, f"'{argument.name}' has no type"
    return _TYPES.get(argument.dtype.name, "void")


def _entry(argument: Argument, name: str) -> dict[str, object]:
    found: dict[str, object] = {"name": argument.name, "parameter": name, "dtype": str(argument.dtype)}
    if isinstance(argument, ArrayArg):
        found |= {"shape": [show(extent) for extent in argument.shape or ()]}
        found |= {"strides": [show(stride) for stride in argument.strides or ()], "offset": show(argument.offset)}
        found |= {"is_input": argument.is_input, "is_output": argument.is_output}
    return found

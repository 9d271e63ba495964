"""Interface of an exported program: parameters of its C function, and expressions as trees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final

import numpy as np
from pymbolic import primitives as p

from polyloop.codegen.program import DeviceLaunch, GeneratedProgram
from polyloop.errors import CodegenError, Diagnostic
from polyloop.export.trees import MOST_DEPTH, Tree, names
from polyloop.expr.dtypes import computed, is_bool, is_complex, is_integer, is_narrow
from polyloop.expr.nodes import Expression
from polyloop.expr.records import is_record, struct_alignment
from polyloop.kernel.arrays import ArrayArg, ValueArg

__all__ = ["Array", "Interface", "Number", "ctype_of", "interface_of", "tree_of"]

_LAST: Final = ("stream", "queue")
"""The last parameter of a function for CUDA, and for OpenCL. Words of C and C++ are no names of a kernel."""


_INSTEAD: Final = {
    "hip": "load pl.compile_hip(knl, target).binary by hipModuleLoadData, and start each of .launches by "
    "hipModuleLaunchKernel",
}
"""Ways to start a program that has no launcher, by the name of its target."""
_OWN: Final = "start it as the host of its language does"


@dataclass(frozen=True)
class Array:
    """An array of the interface, or of the workspace.

    Attributes
    ----------
    spelling
        Name of the parameter.
    alignment
        Alignment of the first element [bytes].
    """

    name: str
    spelling: str
    dtype: np.dtype[Any]
    shape: tuple[Tree, ...]
    strides: tuple[Tree, ...]
    offset: Tree
    alignment: int
    is_read: bool
    is_written: bool

    @property
    def ctype(self) -> str:
        """The type of an element in the launcher: complex numbers are pairs, narrow floats and records are bits."""
        return "void" if is_record(self.dtype) else ctype_of(self.dtype)

    @property
    def half(self) -> str | None:
        """``"float16"``, ``"bfloat16"``, ``"float8_e4m3fn"`` or ``"float8_e5m2"``, if elements are of that type."""
        return self.dtype.name if is_narrow(self.dtype) else None


@dataclass(frozen=True)
class Number:
    """A number of the interface."""

    name: str
    spelling: str
    dtype: np.dtype[Any]

    @property
    def ctype(self) -> str:
        """The type of the parameter: one of 8 or 16 bits is passed as ``float``."""
        return ctype_of(np.dtype(computed(self.dtype)))


@dataclass(frozen=True)
class Interface:
    """Parameters of the C function of a program, and what it allocates.

    Attributes
    ----------
    parameters
        In the order of the kernel's arguments.
    mark
        Prefix that no parameter has, for names in the launcher.
    """

    program: GeneratedProgram
    prefix: str
    parameters: tuple[Array | Number, ...]
    workspace: tuple[Array, ...]
    mark: str

    @property
    def arrays(self) -> tuple[Array, ...]:
        """The arrays among the parameters."""
        return tuple(entry for entry in self.parameters if isinstance(entry, Array))

    @property
    def integers(self) -> tuple[Number, ...]:
        """The integers among the parameters."""
        return tuple(e for e in self.parameters if isinstance(e, Number) and is_integer(e.dtype))

    @property
    def is_cuda(self) -> bool:
        """True for a program for CUDA."""
        return self.program.target == "cuda"

    @property
    def is_opencl(self) -> bool:
        """True for a program for OpenCL."""
        return self.program.target == "opencl"


def ctype_of(dtype: np.dtype[Any]) -> str:
    """Return the C type of numbers of *dtype*; of a 16-bit float, that of its bits."""
    if is_bool(dtype):
        return "bool"
    if is_narrow(dtype):
        return f"uint{8 * dtype.itemsize}_t"
    if is_integer(dtype):
        return f"{dtype.name}_t"
    size = dtype.itemsize // 2 if is_complex(dtype) else dtype.itemsize
    return "float" if size == np.dtype(np.float32).itemsize else "double"


def refused(program: GeneratedProgram, message: str, note: str, hint: str) -> CodegenError:
    """Return the error for a program that has no C interface."""
    return CodegenError("export", program.kernel, [Diagnostic("not-exportable", message, (note,), (hint,))])


def interface_of(program: GeneratedProgram, prefix: str) -> Interface:
    """Return the interface of *program*, whose function is called *prefix*.

    Raises
    ------
    CodegenError
        ``not-exportable``.
    """
    if program.target not in ("c", "cuda", "opencl"):
        raise refused(program, f"launchers are for C, CUDA and OpenCL, and this one is for '{program.target}'",
                      "its text is generate_code(..).device_code, and its launches are in the program",
                      f"pass target=pl.CudaTarget() or pl.CTarget(), or {_INSTEAD.get(program.target, _OWN)}")
    if program.build.linked:
        raise refused(program, "the program is linked with device code of others, which no exported text has",
                      f"linked with: {', '.join(map(repr, program.build.linked))}",
                      "leave out link=, and give the text of the functions as their preambles")
    if any(launch.maps for launch in program.launches):
        raise refused(program, "the program copies boxes of arrays with the copy engine",
                      "a launcher would need descriptions of arrays by the CUDA driver", "copy without via=\"tma\"")
    wide, alignments = program.target == "cuda", dict(program.alignments)
    renamed, taken = dict(program.renamed), {a.name for a in program.arguments}

    def spelt(name: str) -> str:
        found = renamed.get(name, name)
        while found in (*_LAST, prefix) or (found != name and found in taken):
            found += "_"
        return found

    def array(entry: ArrayArg) -> Array:
        assert entry.dtype is not None, f"the type of '{entry.name}' is unknown"
        assert entry.shape is not None, f"the shape of '{entry.name}' is unknown"
        assert entry.strides is not None, f"the strides of '{entry.name}' are unknown"
        least = max(struct_alignment(entry.dtype, wide=wide), entry.alignment or 1, alignments.get(entry.name, 1))
        return Array(
            entry.name, spelt(entry.name), np.dtype(entry.dtype), tuple(tree_of(program, e) for e in entry.shape),
            tuple(tree_of(program, e) for e in entry.strides), tree_of(program, entry.offset), least, entry.is_input,
            entry.is_output or not entry.is_input,
        )  # fmt: skip

    def number(entry: ValueArg) -> Number:
        dtype = np.dtype(entry.dtype or np.int32)
        if is_record(dtype) or is_complex(dtype):
            raise refused(program, f"'{entry.name}' of type {dtype} is passed by value",
                          "C and C++ have no common type for it", "pass it as an array of one element")
        return Number(entry.name, spelt(entry.name), dtype)

    parameters = tuple(array(e) if isinstance(e, ArrayArg) else number(e) for e in program.arguments)
    workspace = tuple(map(array, program.workspace))
    known = {entry.name for entry in parameters}
    missing = frozenset[str]().union(*map(names, _trees(program, parameters, workspace))) - known
    parameters += tuple(Number(name, spelt(name), np.dtype(np.int64)) for name in sorted(missing))
    mark = f"{prefix}_own_"  # a build may make one text of the files of several kernels
    while any(entry.spelling.startswith(mark) for entry in (*parameters, *workspace)):
        mark += "_"
    return Interface(program, prefix, parameters, workspace, mark)


def _trees(
    program: GeneratedProgram, parameters: tuple[Array | Number, ...], workspace: tuple[Array, ...]
) -> list[Tree]:
    """Return the expressions that sizes occur in, without those of inames of the host."""
    found = [tree for entry in (*parameters, *workspace) if isinstance(entry, Array)
             for tree in (*entry.shape, *entry.strides, entry.offset)]
    found += [tree_of(program, check.condition) for check in (*program.checks, *program.index_checks)]
    return found + [tree_of(program, extent) for launch in program.launches if not launch.around
                    for extent in launch.grid]


def loops_of(program: GeneratedProgram, launch: DeviceLaunch) -> list[list[Tree]]:
    """Return the loops of the host around *launch*: iname, lower bound, upper bound, step, place."""
    return [[loop.iname, tree_of(program, loop.lower), tree_of(program, loop.upper), loop.step, loop.place]
            for loop in launch.around]


_MANY: Final[dict[type, str]] = {p.Sum: "+", p.Min: "min", p.Max: "max", p.LogicalAnd: "and", p.LogicalOr: "or"}


def tree_of(program: GeneratedProgram, expression: Expression, depth: int = 0) -> Tree:
    """Return an expression in sizes as a tree.

    Raises
    ------
    CodegenError
        ``not-exportable``.
    """

    def tree(part: Expression) -> Tree:
        return tree_of(program, part, depth + 1)

    if depth > MOST_DEPTH:
        raise refused(program, "a condition on sizes is nested too deeply", f"{MOST_DEPTH} levels", "assume less")
    match expression:
        case bool() | int() | np.integer() | np.bool_():
            return int(expression)
        case p.Variable():
            return expression.name
        case p.Sum() | p.Min() | p.Max() | p.LogicalAnd() | p.LogicalOr():
            children = expression.children
            return tree(children[0]) if len(children) == 1 else [_MANY[type(expression)], *map(tree, children)]
        case p.Product():
            first, *others = map(tree, expression.children)
            return reduce(lambda product, other: ["*", product, other], others, first)
        case p.FloorDiv() | p.Remainder():
            operator = "//" if isinstance(expression, p.FloorDiv) else "%"
            return [operator, tree(expression.numerator), tree(expression.denominator)]
        case p.Power() if isinstance(expression.exponent, int) and expression.exponent >= 0:
            return tree(p.Product((expression.base,) * expression.exponent)) if expression.exponent else 1
        case _:
            return _choice(program, expression, tree)


def _choice(program: GeneratedProgram, expression: Expression, tree: Callable[[Expression], Tree]) -> Tree:
    match expression:
        case p.LogicalNot():
            return ["not", tree(expression.child)]
        case p.Comparison():
            operator = str(getattr(expression.operator, "value", expression.operator))
            return [operator, tree(expression.left), tree(expression.right)]
        case p.If():
            return ["if", tree(expression.condition), tree(expression.then), tree(expression.else_)]
        case _:
            raise refused(program, "a condition that each call must fulfil is no formula of sizes", f"{expression}",
                          "write the subscript so that it is affine in the inames, or assume bounds for it")

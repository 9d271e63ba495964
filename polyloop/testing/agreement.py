"""Batched runs of programs in C and on fibres, compared with the reference interpreter."""

from __future__ import annotations

import ctypes
import math
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pymbolic.primitives as p

from polyloop.codegen.program import GeneratedProgram
from polyloop.errors import ArgumentError, PolyloopError
from polyloop.expr.nodes import Expression, Reduction, function_name
from polyloop.expr.rewrite import children
from polyloop.expr.rules import expand_rules
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.tree import runs
from polyloop.program.lower import lower
from polyloop.program.reference import instruction_tree, nests
from polyloop.runtime.arguments import Binder, IndexTooSmall
from polyloop.runtime.ccompile import find_compiler, load_library
from polyloop.runtime.fibres import fibre_library, run_on_fibres
from polyloop.runtime.teams import ask_for_threads
from polyloop.runtime.views import HostMemory, empty_numpy
from polyloop.target.interpreter import interpret
from polyloop.testing.symbols import UnsupportedError

__all__ = [
    "Libraries", "Programs", "compile_c", "compile_fibres", "compile_threads", "copied", "difference",
    "different_meaning", "disagreement", "other_loops",
]  # fmt: skip

_FLAGS: Final = ("-std=c11", "-O0", "-fPIC", "-shared", "-w")
_THREADS: Final = 3
_MOST_BLOCKS: Final = 2**16
"""Blocks of one launch that are run."""
_CHOICES: Final = frozenset({"min", "max", "fmin", "fmax"})
_EXACT: Final[Mapping[str, tuple[float, float]]] = {
    "float16": (2.0**11, 1e-2), "float32": (2.0**24, 1e-4), "float64": (2.0**53, 1e-4),
    "complex64": (2.0**24, 1e-4), "complex128": (2.0**53, 1e-4),
}  # fmt: skip
"""The least number of a type that may be rounded, and how far such numbers may differ."""


@dataclass(frozen=True)
class Programs:
    """Generated programs of one kernel."""

    kernel: LoopKernel
    c: GeneratedProgram
    cuda: GeneratedProgram
    wide: Programs | None = None
    """The same with 64-bit indices, where 32 bits may not do."""
    threads: GeneratedProgram | None = None
    """The C program in which threads share the blocks of launches, where it is run too."""

    @property
    def all(self) -> tuple[Programs, ...]:
        """All programs of the kernel."""
        return (self,) if self.wide is None else (self, self.wide)


class Libraries(NamedTuple):
    """Loaded libraries that have programs in C, on fibres, and in C with threads."""

    c: ctypes.CDLL
    fibres: ctypes.CDLL
    threads: ctypes.CDLL | None = None


def compile_threads(programs: Sequence[GeneratedProgram]) -> ctypes.CDLL | None:
    """Return one loaded library of several C programs that run on some threads, None if there are none."""
    if not programs:
        return None
    library = compile_c(programs, "-fopenmp")
    ask_for_threads(library, _THREADS)
    return library


def compile_c(programs: Sequence[GeneratedProgram], *flags: str) -> ctypes.CDLL:
    """Return one loaded library of several C programs, no two of which have launches of one name.

    Raises
    ------
    CompilerError
        ``no-c-compiler``, ``cannot-load``.
    """
    compiler = find_compiler("c")
    with tempfile.TemporaryDirectory(prefix="polyloop-") as directory:
        names = [f"kernel{number}.c" for number in range(len(programs))]
        for name, program in zip(names, programs, strict=True):
            (Path(directory) / name).write_text(program.device_code)
        command = [*compiler.command, *_FLAGS, *flags, *names, "-o", "library.so", "-lm"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=directory)
        assert done.returncode == 0, f"the C compiler refuses emitted code:\n{done.stderr}"
        return load_library(Path(directory) / "library.so")


def compile_fibres(programs: Sequence[GeneratedProgram]) -> ctypes.CDLL:
    """Return one loaded library of several CUDA programs on fibres."""
    return fibre_library(*programs, quick=True)


def _by_value(scalar: np.generic) -> Any:  # noqa: ANN401 - a number as ctypes has it
    kind: Any = scalar.dtype
    return np.ctypeslib.as_ctypes_type(kind)(scalar.item())


def copied(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return a copy with the same strides."""
    strides = tuple(stride // array.itemsize for stride in array.strides)
    found = empty_numpy(array.dtype, array.shape, strides, poison=False)
    found[...] = array
    return found


def _run_c(library: ctypes.CDLL, program: GeneratedProgram, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    copies = {name: copied(value) if isinstance(value, np.ndarray) else value for name, value in arguments.items()}
    binding = Binder(program, HostMemory()).bind(copies, poison=True)
    views = {**binding.views, **binding.host_workspace()}
    for launch, _, _ in binding.launches:
        values = [
            ctypes.c_void_p(views[name].pointer) if name in views else _by_value(binding.scalars[name])
            for name in launch.arguments
        ]
        getattr(library, launch.name)(*values)
    return dict(binding.result().items())


def difference(expected: Mapping[str, Any], got: Mapping[str, Any], *, signed: bool = False) -> str | None:
    """Return the first element that differs, as text; None where all are equal, sums too large to be exact aside.

    Zeros of both signs are equal unless *signed*.
    """
    for name, right in expected.items():
        wrong = got[name]
        limit, rtol = _EXACT.get(right.dtype.name, (np.inf, 0.0))
        finite = right[np.isfinite(right)]
        loose = finite.size and np.abs(finite).astype(np.float64).max() >= limit
        equal = _equal(right, wrong, rtol if loose else 0.0, signed=signed)
        if not equal.all():
            where = tuple(int(k) for k in np.argwhere(~equal)[0])
            return f"{name}{list(where)} is {wrong[where]}, and must be {right[where]}"
    return None


def different_meaning(
    before: LoopKernel, given_before: Mapping[str, Any], after: LoopKernel, given: Mapping[str, Any]
) -> str | None:
    """Return a difference of two reference programs as text, None if they agree or both refuse the sizes."""
    expected, found = _interpreted(before, given_before), _interpreted(after, given)
    if expected is None or found is None:
        return None if expected is found else "one of the programs leaves an array"
    return difference(expected, found)


def _interpreted(kernel: LoopKernel, given: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the results of the reference program, None for sizes with which it would leave an array."""
    try:
        return interpret(kernel, **given)
    except ArgumentError as error:
        if error.codes != ("out-of-bounds",):
            raise
        return None


def _equal(
    right: np.ndarray[Any, Any], wrong: np.ndarray[Any, Any], rtol: float, *, signed: bool
) -> np.ndarray[Any, Any]:
    """Return the mask of equal elements: integers in each bit, NaN like NaN."""
    if right.dtype.kind not in "fc":
        return np.asarray(right == wrong)
    close = np.isclose(right, wrong, rtol=rtol, atol=0, equal_nan=True)
    if signed and right.dtype.kind == "f":
        close &= (right != 0) | (np.signbit(right) == np.signbit(wrong))
    return np.asarray(close)


def _has_signs(kernel: LoopKernel) -> bool:
    """Return whether the signs of zeros are said: nothing takes the least or the greatest of zeros of both signs."""
    return not any(_chooses(expand_rules(i.expression, kernel.substitutions)) for i in kernel.instructions)


def _chooses(expr: Expression) -> bool:
    name = ""
    if isinstance(expr, Reduction):
        name = expr.operation.name
    elif isinstance(expr, p.Call):
        name = function_name(expr)
    return isinstance(expr, p.Min | p.Max) or name in _CHOICES or any(map(_chooses, children(expr)))


def other_loops(before: LoopKernel, after: LoopKernel) -> str | None:
    """Return the other loops of a transformed kernel's reference program, as text; None if they are the same.

    Nothing is said about a program of other instructions, inames or barriers.
    """
    old, new = before.reference, after.reference
    assert old is not None, "a kernel has its reference program"
    assert new is not None, "a kernel has its reference program"
    lowered = instruction_tree(lower(new.kernel))
    if lowered != new.tree:
        return f"the program is lowered to other loops than it says:\n{new}\n{lowered}"
    same = (
        set(runs(old.tree)) == set(runs(new.tree))
        and old.kernel.inames == new.kernel.inames
        and all(set(i.inames) == set(new.kernel.instruction(i.id).inames) for i in old.kernel.instructions)
        and len(old.kernel.barriers) == len(new.kernel.barriers)
    )
    return f"the program has other loops:\n{old}\nnow\n{new}" if same and nests(old.tree) != nests(new.tree) else None


def disagreement(
    programs: Programs, arguments: Mapping[str, Any], libraries: Libraries, seed: int = 0
) -> str | None:
    """Run a kernel in C and on fibres in three thread orders; return how it differs from the interpreter, or None.

    Parameters
    ----------
    libraries
        That have the programs.
    seed
        Of the random thread order.

    Raises
    ------
    UnsupportedError
        There are too many blocks to run.
    """
    try:
        expected = interpret(programs.kernel, **arguments)
    except ArgumentError as refused:
        try:
            _run_c(libraries.c, programs.c, arguments)
        except ArgumentError:
            return None
        return f"only the interpreter refuses the arguments: {refused}"
    signed = _has_signs(programs.kernel)
    for some in programs.all:
        try:
            found = _differing(some, expected, arguments, libraries, seed, signed=signed)
        except IndexTooSmall:
            if len(programs.all) > 1 and some is programs.all[-1]:  # a call is refused with index-overflow
                raise UnsupportedError("indices that may not fit into 64 bits") from None
            if some is programs.all[-1]:
                raise
            continue
        if found is not None:
            return found
    return None


def _blocks(program: GeneratedProgram, arguments: Mapping[str, Any]) -> int:
    """Return the number of blocks of a program's largest launch."""
    copies = {name: copied(value) if isinstance(value, np.ndarray) else value for name, value in arguments.items()}
    try:
        binding = Binder(program, HostMemory()).bind(copies, poison=False)
    except ArgumentError as refused:
        if "grid-too-large" in refused.codes:
            return _MOST_BLOCKS + 1
        raise
    return max((math.prod(grid) for _, grid, _ in binding.launches), default=0)


def _differing(
    programs: Programs,
    expected: Mapping[str, Any],
    arguments: Mapping[str, Any],
    libraries: Libraries,
    seed: int,
    *,
    signed: bool,
) -> str | None:
    if _blocks(programs.cuda, arguments) > _MOST_BLOCKS:
        raise UnsupportedError("too many blocks")
    bits = "" if programs.c.index_bits == 32 else f" with {programs.c.index_bits}-bit indices"
    if (found := difference(expected, _run_c(libraries.c, programs.c, arguments), signed=signed)) is not None:
        return f"in C{bits}: {found}"
    if programs.threads is not None and libraries.threads is not None:
        results = _run_c(libraries.threads, programs.threads, arguments)
        if (found := difference(expected, results, signed=signed)) is not None:
            return f"in C on {_THREADS} threads{bits}: {found}"
    try:
        orders = run_on_fibres(programs.cuda, arguments, seed=seed, library=libraries.fibres)
    except PolyloopError as error:
        return f"on fibres{bits}: {error}"
    for order, result in orders.items():
        if (found := difference(expected, dict(result.items()), signed=signed)) is not None:
            return f"on fibres{bits} in order '{order}': {found}"
    return None

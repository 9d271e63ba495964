"""Running emitted CUDA C and HIP C++ on the CPU, to test it where there is no GPU.

Every thread of a block is a fibre.  The same launch runs in several orders of threads and blocks:
a kernel that lacks a barrier gives different outputs.  Shared memory holds NaN at the beginning of
each block, outputs hold NaN at the beginning of each run, and arrays are surrounded by NaN.
"""

from __future__ import annotations

import ctypes
import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from polyloop.codegen.program import AskedElement, DeviceLaunch, GeneratedProgram
from polyloop.errors import CodegenError, Diagnostic, VerificationError
from polyloop.expr.dtypes import is_inexact
from polyloop.expr.records import leaf_fields
from polyloop.kernel.arrays import ArrayArg
from polyloop.runtime.arguments import Binder, Binding, IndexTooSmall, Result, index_overflow
from polyloop.runtime.ccompile import Prelude, find_compiler, open_library
from polyloop.runtime.cuda.tensormaps import BYTES, fibre_map
from polyloop.runtime.evaluate import element_at
from polyloop.runtime.hip.fibre_text import hip_body, hip_header, wave_of
from polyloop.runtime.parts import assembled
from polyloop.runtime.steps import Step
from polyloop.runtime.views import ArrayView, HostMemory, element_range
from polyloop.schedule.copy_engine import TensorMap

__all__ = ["ORDERS", "agree", "disagreement", "fibre_library", "fibre_prelude", "fibre_source", "run_on_fibres"]

ORDERS: Final = ("forward", "reverse", "random")
"""Orders in which threads between barriers, and blocks, can run."""

_FLAGS: Final = ("-std=c++17", "-O1", "-w", "-fPIC", "-shared", "-ffp-contract=off", "-fno-strict-aliasing")
_CHECKS: Final = ("-fsanitize=bounds", "-fsanitize=alignment", "-fsanitize=signed-integer-overflow",
                  "-fsanitize=integer-divide-by-zero")
_GUARD: Final = 4096  # bytes of 0xFF before and after each array
_ALIGNMENT: Final = 256  # as from cudaMalloc
_HEADER_LINE: Final = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]cuda[^\n]*$', re.MULTILINE)
_INCLUDE: Final = re.compile(r"^[ \t]*#[ \t]*include[^\n]*$", re.MULTILINE)
_GUARDS: Final = re.compile(r"^#ifndef (POLYLOOP_\w+)$", re.MULTILINE)
_UNFENCED: Final = 9
"""A fault of fibres.h, as the numbers in :func:`_explain` are."""
_C_FUNCTION: Final = 'extern "C" __global__'
_CXX_FUNCTION: Final = "__global__"
_ASM: Final = re.compile(r'asm(?: volatile)?\((?:"(?:\\.|[^"\\])*"|[^";])*;')
_PARTS: Final = re.compile(r'(?<!\\n)"\s*\n\s*"')
"""The end of one part of a literal and the beginning of the next; those that end a line of assembler text stay."""
_PTX: Final = re.compile(r'asm\("([\w.]+) %0, %1;" : "=\w"\(([\w.]+)\) : "\w"\(([\w.]+)\)\);')
_COPY: Final = re.compile(r'asm volatile\("cp\.async\.c[ag]\.shared\.global \[%0\], \[%1\], (\d+);" :: [^;]*\);')
_FILL: Final = re.compile(r'asm volatile\("cp\.async\.c[ag]\.shared\.global \[%0\], \[%1\], (\d+), %2;" :: [^;]*\);')
_COMMIT: Final = re.compile(r'asm volatile\("cp\.async\.commit_group;" ::: "memory"\);')
_WAIT: Final = re.compile(r'asm volatile\("cp\.async\.wait_group %0;" :: "n"\((\w+)\) : "memory"\);')
_MMA: Final = re.compile(
    r'asm volatile\("mma\.sync\.aligned\.(m16n8k16(?=.*f16)|m16n8k8(?=.*tf32))\.row\.col\.f32\.(\w+)\.\2\.f32 '
    r'[^"]*"\s*:[^;]*\);'
)
_MMA_OF_BYTES: Final = re.compile(
    r'asm volatile\("mma\.sync\.aligned\.m16n8k32\.row\.col\.([fs]32)\.(e4m3|e5m2|s8|u8)\.\2\.\1 [^"]*"\s*:[^;]*\);'
)
_MMA_OF_DOUBLES: Final = re.compile(
    r'asm volatile\("mma\.sync\.aligned\.m(8|16)n8k(4|8|16)\.row\.col\.f64\.f64\.f64\.f64 [^"]*"\s*:[^;]*\);'
)
_LDMATRIX: Final = re.compile(
    r'asm volatile\("ldmatrix\.sync\.aligned\.m8n8\.x(\d)(\.trans)?\.shared\.b16 [^"]*"\s*:[^;]*\);'
)
_WGMMA: Final = re.compile(
    r'asm volatile\("[^"]*"\s*"wgmma\.mma_async\.sync\.aligned\.m64n(\d+)k\d+\.[fs]32\.(\w+)\.\2 '
    r'[^"]*?(?:, 1, 1(?:, (\d), (\d))?)?;[^"]*"\s*:[^;]*\);'
)
_WGMMA_OF_ROWS: Final = re.compile(
    r'asm volatile\("[^"]*"\s*"wgmma\.mma_async\.sync\.aligned\.m64n(\d+)k16\.f32\.(\w+)\.\2 '
    r'\{[^}]*\}, \{[^}]*\}[^"]*?, 1, 1, (\d);[^"]*"\s*:[^;]*\);'
)
"""The first operand is in registers."""
_OPEN: Final = re.compile(r'asm volatile\("mbarrier\.init[^"]*"\s*:[^;]*\);')
_FREE_OF_GROUP: Final = re.compile(
    r'(if \(threadIdx\.x % 128 == 0\)\s*)asm volatile\("mbarrier\.arrive\.shared[^"]*"\s*:[^;]*\);'
)
_FREE: Final = re.compile(r'asm volatile\("mbarrier\.arrive\.shared[^"]*"\s*:[^;]*\);')
_MEET: Final = re.compile(r'asm volatile\("bar\.sync (\d+), (\d+);" ::: "memory"\);')
_EXPECT: Final = re.compile(r'asm volatile\("mbarrier\.arrive\.expect_tx[^"]*"\s*:[^;]*\);')
_AWAIT: Final = re.compile(r'asm volatile\("[^"]*"\s*"mbarrier\.try_wait[^"]*"\s*"[^"]*"\s*:[^;]*\);')
_BOX: Final = re.compile(r'asm volatile\("cp\.async\.bulk\.tensor\.(\d)d\.(shared|global)[^"]*"\s*:[^;]*\);')
_BOXES_STORED: Final = re.compile(r'asm volatile\("cp\.async\.bulk\.commit_group;[^"]*" ::: "memory"\);')
"""Barriers that count bytes, and copies of boxes; the functions around them call their operands so."""
_CLUSTER_ARRIVE: Final = re.compile(r'asm volatile\("barrier\.cluster\.arrive[^"\\]*;" ::: "memory"\);')
_CLUSTER_WAIT: Final = re.compile(r'asm volatile\("barrier\.cluster\.wait[^"\\]*;" ::: "memory"\);')
_CLUSTER_BARRIER: Final = re.compile(
    r'asm volatile\("barrier\.cluster\.arrive[^"]*\\n *barrier\.cluster\.wait[^"]*" ::: "memory"\);'
)
_ARRIVAL: Final = re.compile(r"(?<=before = )atomicInc\(arrived, blocks - 1\)")
_RELEASE: Final = re.compile(r'asm volatile\("red\.release\.gpu\.global\.add\.u32 [^"]*"\s*::\s*"l"\((\w+)\)[^;]*\);')
_ACQUIRE: Final = re.compile(
    r'asm volatile\("ld\.acquire\.gpu\.global\.u32 [^"]*"\s*:\s*"=r"\((\w+)\)\s*:\s*"l"\((\w+)\)[^;]*\);'
)
_MAPA: Final = re.compile(r'asm\("mapa\.u64 [^"]*"\s*:[^;]*\);')
_NO_EFFECT: Final = re.compile(
    r'asm volatile\("(?:(?:\{[^"]*pmevent[^"]*|fence\.mbarrier[^"]*|)"\s*:[^;]*'
    r'|setmaxnreg[^"]*")\);'
)
_ORDER: Final = re.compile(r'asm volatile\("wgmma\.fence[^"]*"\s*:[^;]*\);')
_PUBLISH: Final = re.compile(r'asm volatile\("fence\.proxy[^"]*"\s*:[^;]*\);')
_PRODUCTS: Final = re.compile(
    r'asm volatile\("(?=wgmma)(wgmma\.commit_group\.sync\.aligned;)?(?:\\n)?'
    r'(?:wgmma\.wait_group\.sync\.aligned (\d);)?"\s*:[^;]*\);'
)
"""The end of a group of products, a wait for groups, or both."""
_OVERLOADED: Final = ("abs", "sin", "cos", "tan", "sinh", "cosh", "tanh", "exp", "log", "sqrt", "pow")
_USING: Final = "".join(f"using ::{name};\n" for name in _OVERLOADED)
"""Functions of numbers, which functions of complex numbers in the namespace of a program would hide."""
_DYNAMIC: Final = re.compile(r"extern\s+__shared__\s+(?:__align__\(\d+\)\s+)?([\w\s]+?)\s+(\w+)\s*\[\s*\]\s*;")


class _Report(ctypes.Structure):
    _fields_ = (
        ("fault", ctypes.c_int32), ("line", ctypes.c_int32), ("other_line", ctypes.c_int32),
        ("thread", ctypes.c_int32), ("other_thread", ctypes.c_int32), ("block", ctypes.c_int32 * 3),
        ("value", ctypes.c_int64),
    )


def fibre_source(*programs: GeneratedProgram) -> str:
    """Return the C++ text that runs *programs* on fibres, after :func:`fibre_prelude`: emitted text, entry points.

    Each program is in a namespace of its own, and its functions are C++ functions: whatever they are called, they
    are no functions of the libraries that the process has loaded.  No two launches may have one name.
    """
    bodies = [_body(program) for program in programs]
    includes = dict.fromkeys(line for body in bodies for line in _INCLUDE.findall(body))
    texts = [f'{_forgotten(body)}namespace polyloop_{number} {{\n{_USING}'
             f'#line 1 "kernel.cu"\n{_INCLUDE.sub("", body)}\n}}\n'
             f'#line 1 "entry"\n{_entries(program, f"::polyloop_{number}::")}'
             for number, (program, body) in enumerate(zip(programs, bodies, strict=True))]
    return "\n".join([*includes, *texts])


def fibre_prelude(*programs: GeneratedProgram) -> Prelude:
    """Return the text that is common to :func:`fibre_source` of all programs with warps of the size of *programs*."""
    folder = Path(__file__).parent
    header, definitions = ((folder / name).read_text() for name in ("fibres.h", "fibres.cpp"))
    waves = {wave_of(program.device_code) for program in programs if program.target == "hip"}
    if waves:
        (wave,) = waves
        assert all(program.target == "hip" for program in programs), "programs of one library have warps of one size"
        header = "\n".join([f"#define POLYLOOP_WAVE {wave}", header, hip_header()])
    return Prelude(header, definitions)


def _forgotten(body: str) -> str:
    """Return lines after which *body* has its own helpers in its namespace, where another one has the same."""
    return "".join(f"#undef {macro}\n" for macro in _GUARDS.findall(body))


def _body(program: GeneratedProgram) -> str:
    body = _HEADER_LINE.sub("", program.device_code).replace(_C_FUNCTION, _CXX_FUNCTION)
    if program.target == "hip":
        return hip_body(body)
    body = _ASM.sub(_on_one_line, body)
    body = _PTX.sub(lambda match: f"polyloop::ptx_{match[1].replace('.', '_')}({match[2]}, {match[3]});", body)
    body = _COPY.sub(r"polyloop::start_copy(to, from, \1);", body)
    body = _FILL.sub(r"polyloop::start_copy(to, size ? from : nullptr, \1);", body)
    body = _COMMIT.sub("polyloop::end_group();", body)
    body = _RELEASE.sub(r"atomicAdd(\1, 1u);", body)
    body = _ACQUIRE.sub(r"\1 = *(volatile unsigned int *)\2;", body)
    body = _WAIT.sub(r"polyloop::await_groups(\1);", body)
    body = _OPEN.sub(lambda match: f"polyloop::open_ring(ring + slot, {'frees' if 'frees' in match[0] else 1});", body)
    body = _FREE_OF_GROUP.sub(r"\1polyloop::free_slot_of_group(slot);", body)
    body = _FREE.sub("polyloop::free_slot(slot);", body)
    body = _MEET.sub(r"polyloop::meet_in_role(__LINE__, \1, \2);", body)
    body = _EXPECT.sub("polyloop::expect_bytes(slot, bytes);", body)
    body = _AWAIT.sub("polyloop::await_bytes(__LINE__, ring + slot, *phases >> slot & 1);", body)
    body = _CLUSTER_ARRIVE.sub("polyloop::cluster_arrive(__LINE__);", body)
    body = _CLUSTER_WAIT.sub("polyloop::cluster_wait(__LINE__);", body)
    body = _CLUSTER_BARRIER.sub("polyloop::cluster_arrive(__LINE__), polyloop::cluster_wait(__LINE__);", body)
    body = _ARRIVAL.sub("polyloop::count_arrival(__LINE__, arrived, blocks - 1)", body)
    body = _MAPA.sub("there = polyloop::in_block(here, rank);", body)
    body = _BOXES_STORED.sub("polyloop::await_stores();", _BOX.sub(_box, body))
    body = _MMA.sub(_product, body)
    body = _MMA_OF_BYTES.sub(_product_of_bytes, body)
    body = _MMA_OF_DOUBLES.sub(_product_of_doubles, body)
    body = _LDMATRIX.sub(_matrices, body)
    body = _WGMMA_OF_ROWS.sub(_product_of_rows, body)
    body = _ORDER.sub("polyloop::order_registers();", _PUBLISH.sub("polyloop::publish();", body))
    body = _NO_EFFECT.sub("(void)0;", _PRODUCTS.sub(_group_of_products, _WGMMA.sub(_product_of_tiles, body)))
    if found := re.search(r"w?g?mma(?:\.sync|_async)[\w.]*", body):
        message = f"fibres do not know the matrix instruction {found[0]}"
        hint = "they know m16n8 and m64nN of numbers of 8 and 16 bits and of tf32, and m8n8 and m16n8 of float64"
        raise CodegenError("run_on_fibres", program.kernel, [Diagnostic("unsupported-intrinsic", message, (), (hint,))])
    return _DYNAMIC.sub(r"\1 *const \2 = (\1 *)polyloop_dynamic_shared;", body)


def _on_one_line(match: re.Match[str]) -> str:
    """Return a statement of assembler text on one line; the lines behind it keep their numbers."""
    return re.sub(r"\s*\n\s*", " ", _PARTS.sub("", match[0])) + "\n" * match[0].count("\n")


def _box(match: re.Match[str]) -> str:
    """Return the call that the copy of a box becomes, to shared memory or to an array."""
    call = "copy_box(to, map, slot" if match[2] == "shared" else "store_box(from, map"
    return f"polyloop::{call}, {{{', '.join(f'x{axis}' for axis in range(int(match[1])))}}});"


def _product(match: re.Match[str]) -> str:
    """Return the call that a matrix instruction becomes; the function around it calls its operands so."""
    return f"polyloop::mma_{match[1]}_{match[2]}(__LINE__, {{&d0, &d1, &d2, &d3}}, a, b);"


def _product_of_bytes(match: re.Match[str]) -> str:
    """Return the call that a matrix instruction of elements of 8 bits becomes."""
    return f"polyloop::mma_of_bytes(__LINE__, {{&d0, &d1, &d2, &d3}}, a, b, polyloop::{match[2]}_of);"


def _product_of_doubles(match: re.Match[str]) -> str:
    """Return the call that a matrix instruction of float64 becomes."""
    into = ", ".join(f"&d{number}" for number in range(int(match[1]) // 4))
    return f"polyloop::mma_f64<{match[1]}, {match[2]}>(__LINE__, {{{into}}}, a, b);"


def _product_of_rows(match: re.Match[str]) -> str:
    """Return the call that a matrix instruction of four warps becomes whose first operand is in registers."""
    kind = {"f16": "FLOAT16", "bf16": "BFLOAT16"}[match[2]]
    return f"polyloop::wgmma_of_rows<{match[1]}, polyloop::{kind}, {match[3]}>(__LINE__, d, a, b);"


def _product_of_tiles(match: re.Match[str]) -> str:
    """Return the call that a matrix instruction of four warps becomes."""
    kind = {"f16": "FLOAT16", "bf16": "BFLOAT16"}.get(match[2], match[2].upper())
    turned = f"{match[3] or 0}, {match[4] or 0}"
    return f"polyloop::wgmma<{match[1]}, polyloop::{kind}, {turned}>(__LINE__, d, a, b);"


def _group_of_products(match: re.Match[str]) -> str:
    """Return the calls that the end of a group of products, and a wait for groups, become."""
    end = "polyloop::end_products();" if match[1] else ""
    return end + (f"polyloop::await_products({match[2]});" if match[2] else "")


def _matrices(match: re.Match[str]) -> str:
    """Return the call that a load of matrices becomes."""
    into = ", ".join(f"&r{number}" for number in range(int(match[1])))
    return f"polyloop::ldmatrix(__LINE__, {{{into}}}, row, {'true' if match[2] else 'false'});"


def _entries(program: GeneratedProgram, home: str) -> str:
    names = dict.fromkeys(launch.name for launch in program.launches)
    return "".join(
        f'extern "C" int polyloop_run_{name}(void **arguments, const int *grid, const int *block, size_t shared,\n'
        f"    int cluster, int order, uint64_t seed, polyloop::Report *report) {{\n"
        f"    return polyloop::run_grid(polyloop::thunk<&{home}{name}>, arguments, grid, block, shared, cluster,\n"
        f"                              order, seed, report);\n"
        f"}}\n"
        f'extern "C" int polyloop_sizes_{name}(int *into) {{ return polyloop::sizes(&{home}{name}, into); }}\n'
        for name in names)


def fibre_library(*programs: GeneratedProgram, quick: bool = False) -> ctypes.CDLL:
    """Return the loaded library that runs *programs*, for :func:`run_on_fibres`.

    Parameters
    ----------
    quick
        Whether to compile without optimization, for programs that run once.
    """
    return _library(fibre_source(*programs), fibre_prelude(*programs), quick=quick)


@functools.lru_cache(maxsize=64)
def _library(source: str, prelude: Prelude, *, quick: bool = False) -> ctypes.CDLL:
    compiler = find_compiler("c++")
    checks = tuple(flag for flag in _CHECKS if compiler.accepts(flag))
    flags = tuple("-O0" if quick and flag == "-O1" else flag for flag in _FLAGS)
    return open_library(source, language="c++", flags=flags, kind="fibres", check_flags=checks, prelude=prelude)


@dataclass(frozen=True, slots=True)
class _Guarded:
    """A copy of an array between two stretches of 0xFF bytes."""

    name: str
    raw: np.ndarray[Any, Any]
    array: np.ndarray[Any, Any]
    begin: int
    end: int

    def damage(self) -> str | None:
        """Return the position of an overwritten guard, or None."""
        before, after = self.raw[:self.begin], self.raw[self.end:]
        if (hit := np.flatnonzero(before != 0xFF)).size:
            size = self.array.itemsize
            return f"{-(-(self.begin - int(hit[-1])) // size) * size} bytes before its first element"
        if (hit := np.flatnonzero(after != 0xFF)).size:
            return f"{int(hit[0])} bytes after its last element"
        return None


def _guard(name: str, view: ArrayView) -> _Guarded:
    size = view.dtype.itemsize
    low, high = element_range(view.shape, view.strides)
    extent = (high - low) * size
    raw = np.full(2 * _GUARD + extent + _ALIGNMENT, 0xFF, np.uint8)
    begin = _GUARD + -(raw.__array_interface__["data"][0] + _GUARD) % _ALIGNMENT
    array: np.ndarray[Any, Any] = np.ndarray(view.shape, view.dtype, raw, begin - low * size,
                                             tuple(stride * size for stride in view.strides))
    array[...] = view.owner
    return _Guarded(name, raw, array, begin, begin + extent)


def run_on_fibres(program: GeneratedProgram, arguments: Mapping[str, object], *,
                  orders: Sequence[str] = ORDERS, seed: int = 0,
                  library: ctypes.CDLL | None = None) -> dict[str, Result]:
    """Run a program for CUDA or HIP on the CPU, once for each order of its threads and blocks.

    Waves of HIP have 32 or 64 lanes, as its target says.  Lanes that come to a shuffle together exchange values, and
    what is read of others is poison.

    Parameters
    ----------
    arguments
        NumPy arrays and numbers by name, as for a call of the compiled kernel; they are not
        changed.
    orders
        Some of :data:`ORDERS`; ``"random"`` draws a new order at every barrier.
    seed
        Of the random order.
    library
        From :func:`fibre_library`, where *program* was compiled with others; otherwise it is compiled here.

    Returns
    -------
    dict
        The outputs for each order; :func:`agree` compares them.

    Raises
    ------
    VerificationError
        ``barrier-divergence``, ``out-of-bounds``, ``misaligned-access``, ``integer-overflow``,
        ``division-by-zero``, each with the line of the emitted text.
    """
    if program.target not in {"cuda", "hip"}:
        raise CodegenError("run_on_fibres", program.kernel, [Diagnostic(
            "unknown-target", f"fibres run CUDA C and HIP C++, not a program for '{program.target}'", (),
            ("generate it with CudaTarget() or HipTarget()",))])
    unknown = [order for order in orders if order not in ORDERS]
    assert not unknown, f"unknown order {unknown}"
    try:
        binding = Binder(program, HostMemory()).bind(arguments, poison=True)
    except IndexTooSmall as signal:
        raise index_overflow(program.kernel, signal, is_wide=program.index_bits != 32) from None
    loaded = fibre_library(program) if library is None else library
    return {order: _run(loaded, binding, ORDERS.index(order), seed) for order in orders}


def _run(library: ctypes.CDLL, binding: Binding, order: int, seed: int) -> Result:
    program = binding.program
    guarded = {name: _guard(name, view)
               for name, view in {**binding.views, **binding.host_workspace()}.items()}

    def read(element: AskedElement) -> np.generic:
        first = guarded[element.array].array.__array_interface__["data"][0]
        return element_at(binding.address(element.array, first), element)

    for step in binding.launches.asking(read):
        launch, grid, _ = step
        maps = {described.name: described for described in launch.maps}
        values = [
            _described(maps[name], guarded, binding) if name in maps else _value(name, guarded, binding, step)
            for name in launch.arguments
        ]
        _check_sizes(library, launch, values)
        pointers = (ctypes.c_void_p * max(1, len(values)))(*(v.__array_interface__["data"][0] for v in values))
        report = _Report()
        three = ctypes.c_int * 3
        shared = ctypes.c_size_t(launch.dynamic_shared_bytes)
        getattr(library, f"polyloop_run_{launch.name}")(
            pointers, three(*grid), three(*launch.block), shared, ctypes.c_int(_cluster(program, launch)),
            ctypes.c_int(order), ctypes.c_uint64(seed + 1), ctypes.byref(report))
        if report.fault:
            raise VerificationError("run_on_fibres", program.kernel, [_explain(program, launch, report)])
        for item in guarded.values():
            if (where := item.damage()) is not None:
                raise VerificationError("run_on_fibres", program.kernel, [Diagnostic(
                    "out-of-bounds", f"'{launch.name}' wrote outside the array '{item.name}'", (where,),
                    ("this is a fault of the code generator unless the kernel declares the wrong shape",))])
    arrays = {name: item.array for name, item in guarded.items()}
    for name in program.zeroed:
        if arrays[name].any():
            raise VerificationError("run_on_fibres", program.kernel, [Diagnostic(
                "miscounted-arrivals", f"the counters '{name}' are not 0 after a run", (),
                ("this is a fault of the code generator: the next run would begin with them",))])
    outputs = {arg.name: arrays[arg.name] for arg in program.arguments if isinstance(arg, ArrayArg) and arg.is_output}
    wholes = assembled([split for split in program.split if split.name in binding.wholes], arrays)
    return Result.of(binding.joined(outputs, wholes))


def _cluster(program: GeneratedProgram, launch: DeviceLaunch) -> int:
    """Return the blocks of a cluster of a launch, as its function says."""
    found = re.search(rf"__cluster_dims__\((\d+), 1, 1\)[^{{;]*\b{launch.name}\(", program.device_code)
    return 1 if found is None else int(found[1])


def _value(name: str, guarded: Mapping[str, _Guarded], binding: Binding, step: Step) -> np.ndarray[Any, Any]:
    """Return one launch parameter as a one-element array, whose address the launch takes."""
    if name in guarded:
        return np.array([binding.address(name, guarded[name].array.__array_interface__["data"][0])], np.uint64)
    return np.array([binding.scalar(name, step)])


def _described(described: TensorMap, guarded: Mapping[str, _Guarded], binding: Binding) -> np.ndarray[Any, Any]:
    """Return one launch parameter that describes an array, at an address as aligned as its type."""
    address = binding.address(described.array, guarded[described.array].array.__array_interface__["data"][0])
    raw = np.zeros(2 * BYTES, np.uint8)
    begin = -raw.__array_interface__["data"][0] % BYTES
    found = raw[begin : begin + BYTES]
    found[:] = np.frombuffer(fibre_map(described, binding, address), np.uint8)
    return found.view(f"V{BYTES}")


def _check_sizes(library: ctypes.CDLL, launch: DeviceLaunch, values: Sequence[np.ndarray[Any, Any]]) -> None:
    sizes = (ctypes.c_int * (len(values) + 1))()
    count = getattr(library, f"polyloop_sizes_{launch.name}")(sizes)
    expected = [value.itemsize for value in values]
    assert list(sizes[:count]) == expected, f"'{launch.name}' takes {list(sizes[:count])} bytes, given {expected}"


def _explain(program: GeneratedProgram, launch: DeviceLaunch, report: _Report) -> Diagnostic:
    lines = program.device_code.splitlines()

    def text(line: int) -> str:
        return f"line {line}: {lines[line - 1].strip()}" if 1 <= line <= len(lines) else f"line {line}"

    def thread(number: int) -> str:
        x, y, _ = launch.block
        return f"thread ({number % x}, {number // x % y}, {number // x // y})"

    where = f"in '{launch.name}'"
    block = f"block ({report.block[0]}, {report.block[1]}, {report.block[2]})"
    here = f"{thread(report.thread)} of {block} is at {text(report.line)}"
    other = thread(report.other_thread)
    hints = ("this is a fault of the code generator unless the kernel holds C text of yours",)
    match report.fault:
        case 1:
            return Diagnostic("barrier-divergence", f"{where} threads of one block wait at different barriers",
                              (here, f"{other} is at {text(report.other_line)}"), hints)
        case 2:
            return Diagnostic("barrier-divergence", f"{where} threads wait at a barrier that others never reach",
                              (here, f"{other} has ended"), hints)
        case 3:
            return Diagnostic("out-of-bounds", f"{where} an index is outside its array",
                              (here, f"the index is {report.value}"), hints)
        case 4:
            return Diagnostic("integer-overflow", f"{where} signed integer arithmetic overflows", (here,), hints)
        case 5:
            return Diagnostic("division-by-zero", f"{where} an integer is divided by zero, or the quotient overflows",
                              (here,), hints)
        case 7:
            return Diagnostic("barrier-divergence", f"{where} threads wait for bytes that never arrive", (here,), hints)
        case 8:
            return Diagnostic("out-of-bounds", f"{where} a block uses the shared memory of one that has ended",
                              (here, f"block {report.value} of its cluster has ended"), hints)
        case _:
            return _of_memory(report, where, here, hints)


def _of_memory(report: _Report, where: str, here: str, hints: tuple[str, ...]) -> Diagnostic:
    if report.fault == _UNFENCED:
        why = "what the block has stored may come later than its count, or what it reads be older"
        message = f"{where} a block counts its arrival without a fence on both sides"
        return Diagnostic("miscounted-arrivals", message, (here, why), hints)
    return Diagnostic("misaligned-access", f"{where} a pointer is not aligned for its type",
                      (here, f"the address is {report.value:#x}"), hints)


def disagreement(outputs: Mapping[str, Result], *, rtol: float = 0.0, atol: float = 0.0) -> str | None:
    """Return the first element that differs between two orders, as text; None where all agree.

    Parameters
    ----------
    rtol, atol
        How far two numbers may differ; 0 asks for equal values (NaN equals NaN).
    """
    items = list(outputs.items())
    for order, result in items[1:]:
        first_order, first = items[0]
        for name, one, other in _scalars(first, result):
            equal = np.isclose(one, other, rtol=rtol, atol=atol, equal_nan=is_inexact(one.dtype))
            if not equal.all():
                index = tuple(int(k) for k in np.argwhere(~equal)[0])
                subscript = ", ".join(map(str, index))
                return f"{name}[{subscript}] is {one[index]} in order '{first_order}' and {other[index]} in '{order}'"
    return None


def _scalars(first: Result, second: Result) -> Iterator[tuple[str, np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
    """Yield pairs of arrays with their name; of records, each field by itself."""
    for name in first.keys():  # noqa: SIM118  # iterating over a result gives its values
        one, other = np.asarray(first[name]), np.asarray(second[name])
        for path in leaf_fields(one.dtype):
            left, right = one, other
            for field in path:
                left, right = left[field], right[field]
            yield ".".join((name, *path)), left, right


def agree(outputs: Mapping[str, Result], *, rtol: float = 0.0, atol: float = 0.0) -> bool:
    """Return whether every order gave the same outputs."""
    return disagreement(outputs, rtol=rtol, atol=atol) is None

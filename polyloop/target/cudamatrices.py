"""Matrix instructions in CUDA C: functions around PTX instructions."""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Final

from polyloop.codegen.device.entries import Matrices, SharedMatrices
from polyloop.expr.dtypes import DType, is_integer
from polyloop.kernel.intrinsic import MatrixIntrinsic

__all__ = ["PACK", "PACK_BYTES", "cuda_matrices", "shared_matrices"]

PACK: Final = (
    "unsigned int (unsigned short low, unsigned short high)", "return low | (unsigned int)high << 16;",
)  # fmt: skip
PACK_BYTES: Final = (
    "unsigned int (unsigned char x0, unsigned char x1, unsigned char x2, unsigned char x3)",
    "return x0 | (unsigned int)x1 << 8 | (unsigned int)x2 << 16 | (unsigned int)x3 << 24;",
)
_REGISTERS: Final = {"float32": ("float", "f"), "float64": ("double", "d"), "int32": ("int", "r")}
"""C type of a result, and the constraint of its register in inline PTX."""


_DESCRIPTOR: Final = (
    "unsigned long long (const void *tile, unsigned int panels, unsigned int rows)",
    "const unsigned int place = (unsigned int)__cvta_generic_to_shared(tile) & 0x3ffffu;",
    "return place >> 4 | (unsigned long long)(panels >> 4) << 16 | (unsigned long long)(rows >> 4) << 32 | 1ull << 62;",
)
"""PTX ISA, "Matrix Descriptor Format": 18 bits of the address, which in a cluster has the number of the block above."""
_BEGIN: Final = ("void ()", 'asm volatile("wgmma.fence.sync.aligned;" ::: "memory");')
_COMMIT: Final = ("void ()", 'asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");')
_BEHIND: Final = (
    "void (float x)",
    'asm volatile("{\\n.reg .pred p;\\nsetp.nan.f32 p, %0, %0;\\n@p pmevent 7;\\n}" :: "f"(x) : "memory");',
)
"""PTX ISA, "pmevent": it triggers an event of performance monitors, which no program sees."""


def cuda_matrices(arch: str) -> Matrices:
    """Return the matrix instructions of the devices of one architecture."""
    return Matrices(
        partial(_lacks, arch), _multiply, _load, _convert, PACK, _pair, "__float_as_uint", "__uint_as_float",
        PACK_BYTES,
    )  # fmt: skip


def shared_matrices() -> SharedMatrices:
    """Return the matrix instructions of groups of four warps: PTX ISA, "Asynchronous Warpgroup Level Matrix"."""
    return SharedMatrices(
        _multiply_shared, _multiply_rows, _DESCRIPTOR, _BEGIN, _finish, _COMMIT, _wait, _complete, _ready,
        _BEHIND,
    )  # fmt: skip


def _lacks(arch: str, intrinsic: MatrixIntrinsic) -> tuple[str, str] | None:
    """Return the reason why the device lacks the instruction, and a hint; None if it has it."""
    if not isinstance(intrinsic.capability, int):
        hint = f'generate code for one: HipTarget("{intrinsic.devices[0]}"), or take an instruction of CUDA: mma_..'
        return f"it is an instruction of {' and '.join(intrinsic.devices)}, and the code is for {arch}", hint
    if intrinsic.is_shared:
        hint = 'generate code for it: CudaTarget("sm_90a"), or take an instruction with operands in registers'
        return None if arch == "sm_90a" else (f"it is an instruction of sm_90a, and the code is for {arch}", hint)
    capability = int(arch.removeprefix("sm_").rstrip("af") or 0)
    if intrinsic.capability <= capability:
        return None
    return (
        f"it has compute capability {capability}, and {intrinsic.capability} is asked for",
        f'generate code for a newer one: CudaTarget("sm_{intrinsic.capability}"), or leave out tensorize',
    )


def _multiply(intrinsic: MatrixIntrinsic) -> list[str]:
    """Return the function around the instruction."""
    counts = {x: intrinsic.registers(x) // intrinsic.per_register for x in "ab"}
    results = [f"d{n}" for n in range(intrinsic.registers("d"))]
    number = len(results)
    groups = ["{" + ", ".join(f"%{n}" for n in range(len(results))) + "}"]
    for count in counts.values():
        groups.append("{" + ", ".join(f"%{number + n}" for n in range(count)) + "}")
        number += count
    text = f"{intrinsic.instruction} {', '.join([*groups, groups[0]])};"
    double = intrinsic.is_double
    kind, letter = _REGISTERS[intrinsic.results.name]
    given = ", ".join(f'"{"d" if double else "r"}"({x}[{n}])' for x, count in counts.items() for n in range(count))
    taken = ", ".join(f'"+{letter}"({name})' for name in results)
    register = "double" if double else "unsigned int"
    parameters = [f"{kind} &{name}" for name in results]
    parameters += [f"const {register} (&{x})[{n}]" for x, n in counts.items()]
    margin = " " * len("asm volatile")
    return [f"void ({', '.join(parameters)})",
            f'asm volatile("{text}"', f"{margin} : {taken}", f"{margin} : {given});"]  # fmt: skip


def _multiply_shared(intrinsic: MatrixIntrinsic, a: str, b: str) -> list[str]:
    """Return the function around the instruction for operands in shared memory, stored by rows along *a* and *b*."""
    count = intrinsic.registers("d")
    results = "{" + ", ".join(f"%{n}" for n in range(count)) + "}"
    turned = f", {int(a != 'k')}, {int(b != 'k')}" if intrinsic.operands.itemsize == 2 else ""
    signs = "" if is_integer(intrinsic.operands) else ", 1, 1"
    text = f"{intrinsic.instruction} {results}, %{count}, %{count + 1}, p{signs}{turned};"
    kind, taken = _results(count, intrinsic.results)
    return [f"void ({kind} *d, unsigned long long a, unsigned long long b)",
            'asm volatile("{\\n.reg .pred p;\\nsetp.eq.u32 p, 0, 0;\\n"', f'             "{text}\\n}}"',
            f"             : {taken}", '             : "l"(a), "l"(b));']  # fmt: skip


def _multiply_rows(intrinsic: MatrixIntrinsic, b: str) -> list[str]:
    """Return the function around the instruction for rows of a in registers, and b stored by rows along *b*."""
    count = intrinsic.registers("d")
    held = prod(part.extent for part in intrinsic.in_registers() if not part.in_lane) // intrinsic.per_register
    results = "{" + ", ".join(f"%{n}" for n in range(count)) + "}"
    rows = "{" + ", ".join(f"%{count + n}" for n in range(held)) + "}"
    text = f"{intrinsic.instruction} {results}, {rows}, %{count + held}, p, 1, 1, {int(b != 'k')};"
    kind, taken = _results(count, intrinsic.results)
    given = ", ".join(f'"r"(a[{n}])' for n in range(held))
    return [f"void ({kind} *d, const unsigned int (&a)[{held}], unsigned long long b)",
            'asm volatile("{\\n.reg .pred p;\\nsetp.eq.u32 p, 0, 0;\\n"', f'             "{text}\\n}}"',
            f"             : {taken}", f'             : {given}, "l"(b));']  # fmt: skip


def _results(count: int, dtype: DType) -> tuple[str, str]:
    """Return the C type of the results of a thread, and the operands of inline PTX that they are."""
    kind, letter = _REGISTERS[dtype.name]
    return kind, ", ".join(f'"+{letter}"(d[{n}])' for n in range(count))


def _finish(count: int, dtype: DType) -> list[str]:
    """Return the function that ends a group of products and waits for it; their results are used behind it."""
    kind, taken = _results(count, dtype)
    return [f"void ({kind} *d)", 'asm volatile("wgmma.commit_group.sync.aligned;\\nwgmma.wait_group.sync.aligned 0;"',
            f'             : {taken} :: "memory");']  # fmt: skip


def _wait(pending: int) -> list[str]:
    """Return the function that waits for all groups of products but the last ones."""
    return ["void ()", f'asm volatile("wgmma.wait_group.sync.aligned {pending};" ::: "memory");']


def _complete(pending: int, count: int, dtype: DType) -> list[str]:
    """Return the function that waits for all groups of products but the last ones; results are used behind it."""
    kind, taken = _results(count, dtype)
    return [f"void ({kind} *d)", f'asm volatile("wgmma.wait_group.sync.aligned {pending};" : {taken} :: "memory");']


def _ready(count: int, dtype: DType) -> list[str]:
    """Return the function behind which registers hold what products add to."""
    kind, taken = _results(count, dtype)
    return [f"void ({kind} *d)", f'asm volatile("" : {taken} :: "memory");']


def _load(count: int, transposed: bool) -> list[str]:
    """Return the function that loads some matrices of 8 rows of 16 bytes: PTX ISA, "ldmatrix"."""
    names = [f"r{n}" for n in range(count)]
    operands = ", ".join(f"%{n}" for n in range(count))
    trans = ".trans" if transposed else ""
    instruction = f"ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {{{operands}}}, [%{count}];"
    taken = ", ".join(f'"=r"({name})' for name in names)
    parameters = [*(f"unsigned int &{name}" for name in names), "const void *row"]
    return [
        f"void ({', '.join(parameters)})",
        "const unsigned int shared = (unsigned int)__cvta_generic_to_shared(row);",
        f'asm volatile("{instruction}"',
        f'             : {taken} : "r"(shared) : "memory");',
    ]


def _convert(intrinsic: MatrixIntrinsic) -> list[str]:
    """Return the function that makes an operand of a float."""
    body = [f'asm("{intrinsic.conversion} %0, %1;" : "=r"(r) : "f"(x));']
    if intrinsic.newer:
        capability, newer = intrinsic.newer
        other = body[0].replace(intrinsic.conversion, newer)
        body = [f"#if __CUDA_ARCH__ >= {10 * capability}", other, "#else", *body, "#endif"]
    return ["unsigned int (float x)", "unsigned int r;", *body, "return r;"]


def _pair(convert: str) -> list[str]:
    """Return the function that loads two neighbours as operands."""
    return [
        "void (unsigned int &r0, unsigned int &r1, const float *pair)",
        "const float2 x = *(const float2 *)pair;",
        f"r0 = {convert}(x.x);",
        f"r1 = {convert}(x.y);",
    ]

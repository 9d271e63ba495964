"""Matrix instructions in CUDA C: functions around PTX instructions."""

from __future__ import annotations

from functools import partial
from typing import Final

from polyloop.codegen.device.entries import Matrices
from polyloop.kernel.intrinsic import MatrixIntrinsic

__all__ = ["cuda_matrices"]

_PACK: Final = (
    "unsigned int (unsigned short low, unsigned short high)", "return low | (unsigned int)high << 16;",
)  # fmt: skip


def cuda_matrices(capability: int) -> Matrices:
    """Return the matrix instructions of the devices of one compute capability."""
    return Matrices(
        partial(_lacks, capability), _multiply, _load, _convert, _PACK, _pair, "__float_as_uint", "__uint_as_float"
    )


def _lacks(capability: int, intrinsic: MatrixIntrinsic) -> tuple[str, str] | None:
    """Return the reason why the device lacks the instruction, and a hint; None if it has it."""
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
    given = ", ".join(f'"{"d" if double else "r"}"({x}[{n}])' for x, count in counts.items() for n in range(count))
    taken = ", ".join(f'"+{"d" if double else "f"}"({name})' for name in results)
    register = "double" if double else "unsigned int"
    parameters = [f"{'double' if double else 'float'} &{name}" for name in results]
    parameters += [f"const {register} (&{x})[{n}]" for x, n in counts.items()]
    margin = " " * len("asm volatile")
    return [f"void ({', '.join(parameters)})",
            f'asm volatile("{text}"', f"{margin} : {taken}", f"{margin} : {given});"]  # fmt: skip


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

"""Asynchronous copies from global to shared memory in CUDA C: functions around PTX instructions."""

from __future__ import annotations

from typing import Final

from polyloop.codegen.device.entries import Copies
from polyloop.codegen.language import Definition

__all__ = ["COPIES", "copy_definitions"]

_SIZES: Final = (4, 8, 16)

COPIES: Final = Copies(
    {size: f"cp_async_{size}" for size in _SIZES},
    {size: f"cp_async_{size}_zfill" for size in _SIZES},
    "cp_async_commit",
    "cp_async_wait",
    "{0}<{pending}>();",
)
"""PTX ISA, "Data Movement and Conversion Instructions: cp.async": 4, 8 or 16 bytes, aligned to their number, on sm_80
and later.  Fewer bytes of the source may be copied, down to none; the others become zeros."""

_HEAD: Final = "static __device__ __forceinline__ void"


def copy_definitions() -> dict[str, Definition]:
    """Return the functions by name."""
    found = {COPIES.starts[size]: Definition(_start(size)) for size in _SIZES}
    found |= {COPIES.fills[size]: Definition(_fill(size)) for size in _SIZES}
    commit = f'{_HEAD} {COPIES.commit}()\n{{\n    asm volatile("cp.async.commit_group;" ::: "memory");\n}}'
    wait = (
        f"template <int pending> {_HEAD} {COPIES.wait}()\n{{\n"
        '    asm volatile("cp.async.wait_group %0;" :: "n"(pending) : "memory");\n}'
    )
    return {**found, COPIES.commit: Definition(commit), COPIES.wait: Definition(wait)}


def _start(size: int) -> str:
    return (
        f"{_HEAD} {COPIES.starts[size]}(void *to, const void *from)\n{{\n"
        "    const unsigned int shared = (unsigned int)__cvta_generic_to_shared(to);\n"
        f'    asm volatile("{_instruction(size)};" :: "r"(shared), "l"(from) : "memory");\n'
        "}"
    )


def _fill(size: int) -> str:
    return (
        f"{_HEAD} {COPIES.fills[size]}(void *to, const void *from, bool is_there)\n{{\n"
        "    const unsigned int shared = (unsigned int)__cvta_generic_to_shared(to);\n"
        f"    const int size = is_there ? {size} : 0;  // the rest becomes zeros\n"
        f'    asm volatile("{_instruction(size)}, %2;" :: "r"(shared), "l"(from), "r"(size) : "memory");\n'
        "}"
    )


def _instruction(size: int) -> str:
    level = "cg" if size == max(_SIZES) else "ca"  # copies that bypass the first-level cache have 16 bytes
    return f"cp.async.{level}.shared.global [%0], [%1], {size}"

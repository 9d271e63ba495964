"""Asynchronous copies from global to shared memory in CUDA C: functions around PTX instructions."""

from __future__ import annotations

from typing import Final

from polyloop.codegen.language import Copies, Definition

__all__ = ["COPIES", "copy_definitions"]

COPIES: Final = Copies({4: "cp_async_4", 8: "cp_async_8", 16: "cp_async_16"}, "cp_async_commit", "cp_async_wait")
"""PTX ISA, "Data Movement and Conversion Instructions: cp.async": 4, 8 or 16 bytes, aligned to their number, on sm_80
and later."""

_HEAD: Final = "static __device__ __forceinline__ void"


def copy_definitions() -> dict[str, Definition]:
    """Return the functions by name."""
    found = {COPIES.starts[size]: Definition(_start(size)) for size in COPIES.starts}
    commit = f'{_HEAD} {COPIES.commit}()\n{{\n    asm volatile("cp.async.commit_group;" ::: "memory");\n}}'
    wait = (
        f"template <int pending> {_HEAD} {COPIES.wait}()\n{{\n"
        '    asm volatile("cp.async.wait_group %0;" :: "n"(pending) : "memory");\n}'
    )
    return {**found, COPIES.commit: Definition(commit), COPIES.wait: Definition(wait)}


def _start(size: int) -> str:
    level = "cg" if size == max(COPIES.starts) else "ca"  # what goes past the first cache has 16 bytes
    instruction = f"cp.async.{level}.shared.global [%0], [%1], {size};"
    return (
        f"{_HEAD} {COPIES.starts[size]}(void *to, const void *from)\n{{\n"
        "    const unsigned int shared = (unsigned int)__cvta_generic_to_shared(to);\n"
        f'    asm volatile("{instruction}" :: "r"(shared), "l"(from) : "memory");\n'
        "}"
    )

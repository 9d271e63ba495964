"""Paths of Loopy's modules: each has the names of the package, whatever module of Loopy they are from."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any, Final

__all__ = ["install"]

_PATHS: Final = (
    "auto_test", "check", "codegen", "codegen.result", "diagnostic", "kernel", "kernel.array", "kernel.creation",
    "kernel.data", "kernel.function_interface", "kernel.instruction", "kernel.tools", "library", "library.function",
    "library.reduction", "match", "preprocess", "schedule", "schedule.tools", "schedule.tree", "statistics", "symbolic",
    "target", "target.c", "target.c.c_execution", "target.cuda", "target.execution", "target.ispc", "target.opencl",
    "target.pyopencl", "tools", "transform", "transform.add_barrier", "transform.arithmetic",
    "transform.array_buffer_map", "transform.batch", "transform.buffer", "transform.callable", "transform.concatenate",
    "transform.data", "transform.diff", "transform.fusion", "transform.iname", "transform.instruction",
    "transform.loop_fusion", "transform.pack_and_unpack_args", "transform.padding", "transform.parameter",
    "transform.precompute", "transform.privatize", "transform.realize_reduction", "transform.save", "transform.subst",
    "translation_unit", "type_inference", "types", "typing", "version",
)  # fmt: skip


class _Path(ModuleType):
    """A module with the names of the package."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  # whatever the name stands for
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(sys.modules["polyloop.loopy"], name)


def install() -> None:
    """Let ``from polyloop.loopy.transform.data import ..`` find the names of the package."""
    for path in _PATHS:
        name = f"polyloop.loopy.{path}"
        module = sys.modules.setdefault(name, _Path(name, "Names of polyloop.loopy, at a path of Loopy's."))
        module.__path__ = []
        parent, _, last = name.rpartition(".")
        if parent != "polyloop.loopy":
            setattr(sys.modules[parent], last, module)

"""A kernel with the attributes that Loopy's scripts ask for."""
# ruff: noqa: ANN401  # attributes of any type

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from polyloop.kernel.arrays import Argument, TemporaryVariable
from polyloop.kernel.instruction import Instruction
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.tags import InameTag

__all__ = ["Kernel", "plain"]


class Kernel:
    """A :class:`polyloop.LoopKernel` with the attributes of Loopy's kernels besides its own.

    Attributes
    ----------
    kernel
        The kernel itself.
    """

    __slots__ = ("kernel",)

    kernel: LoopKernel

    def __init__(self, kernel: LoopKernel) -> None:
        self.kernel = kernel

    @property
    def args(self) -> list[Argument]:
        """The arguments, in their order."""
        return [*self.kernel.arguments]

    @property
    def arg_dict(self) -> Mapping[str, Argument]:
        """The arguments by name."""
        return {entry.name: entry for entry in self.kernel.arguments}

    @property
    def temporary_variables(self) -> Mapping[str, TemporaryVariable]:
        """The temporaries by name."""
        return self.kernel.temporaries

    @property
    def id_to_insn(self) -> Mapping[str, Instruction]:
        """The instructions by their ids."""
        return {entry.id: entry for entry in self.kernel.instructions}

    def all_inames(self) -> frozenset[str]:
        """Return the inames of all domains."""
        return frozenset(self.kernel.inames)

    def insn_inames(self, insn: str | Instruction) -> frozenset[str]:
        """Return the inames of the loops around an instruction."""
        return frozenset((self.id_to_insn[insn] if isinstance(insn, str) else insn).inames)

    def iname_tags(self, iname: str) -> frozenset[InameTag]:
        """Return the tag of *iname*, if it has one."""
        return frozenset(tag for name, tag in self.kernel.iname_tags.items() if name == iname)

    def get_read_variables(self) -> frozenset[str]:
        """Return the variables that instructions read."""
        return frozenset(name for entry in self.kernel.instructions for name in entry.reads)

    def get_written_variables(self) -> frozenset[str]:
        """Return the variables that instructions write."""
        return frozenset(name for entry in self.kernel.instructions for name in entry.writes)

    def stringify(self, *_: object, **__: object) -> str:
        """Return the kernel as text, all of it."""
        return str(self.kernel)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.kernel, name)

    def __call__(self, *operands: Any, **arguments: Any) -> Any:
        """Run the kernel, as :class:`polyloop.LoopKernel` does."""
        return self.kernel(*operands, **arguments)

    def __str__(self) -> str:
        return str(self.kernel)

    def __repr__(self) -> str:
        return repr(self.kernel)


def plain(given: Any) -> Any:
    """Return the kernel that a view shows; other values as they are."""
    return given.kernel if isinstance(given, Kernel) else given

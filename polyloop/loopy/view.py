"""A kernel with the attributes that Loopy's scripts ask for."""
# ruff: noqa: ANN401  # attributes of any type

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from polyloop.expr.nodes import targets_of
from polyloop.expr.rewrite import variables
from polyloop.kernel.arrays import Argument, TemporaryVariable
from polyloop.kernel.instruction import Instruction
from polyloop.kernel.kernel import LoopKernel
from polyloop.loopy.tags import Iname, Marked, Marks, of_type

__all__ = ["Kernel", "Statement", "plain"]


class Statement(Marked):
    """An instruction of a kernel with the attributes of Loopy's instructions besides its own."""

    entry: Instruction

    @property
    def within_inames(self) -> frozenset[str]:
        """The inames of the loops around it."""
        return frozenset(self.entry.inames)

    def reduction_inames(self) -> frozenset[str]:
        """Return the inames of its reductions."""
        return frozenset(iname for term in self.entry.terms for iname in term.inames if iname not in self.entry.inames)

    def assignee_var_names(self) -> tuple[str, ...]:
        """Return the variables that it assigns."""
        return self.entry.writes

    def write_dependency_names(self) -> frozenset[str]:
        """Return the variables that it assigns, and those in their subscripts."""
        return frozenset(self.entry.writes) | variables(self.entry.assignee)

    def read_dependency_names(self) -> frozenset[str]:
        """Return the variables, sizes and inames that it reads."""
        return self.entry.reads | variables(self.entry.expression) | frozenset(
            name for target in targets_of(self.entry.assignee) for index in getattr(target, "index_tuple", ())
            for name in variables(index))  # fmt: skip

    def dependency_names(self) -> frozenset[str]:
        """Return all names in it."""
        return self.read_dependency_names() | self.write_dependency_names()


class Kernel:
    """A :class:`polyloop.LoopKernel` with the attributes of Loopy's kernels besides its own.

    Attributes
    ----------
    kernel
        The kernel itself.
    marks
        Tags of the script's own.
    """

    __slots__ = ("kernel", "marks")

    kernel: LoopKernel
    marks: Marks

    def __init__(self, kernel: LoopKernel, marks: Marks | None = None) -> None:
        self.kernel, self.marks = kernel, {} if marks is None else marks

    @property
    def args(self) -> list[Argument | Marked]:
        """The arguments, in their order."""
        return [self._marked(entry) for entry in self.kernel.arguments]

    @property
    def arg_dict(self) -> Mapping[str, Argument | Marked]:
        """The arguments by name."""
        return {entry.name: self._marked(entry) for entry in self.kernel.arguments}

    @property
    def temporary_variables(self) -> Mapping[str, TemporaryVariable | Marked]:
        """The temporaries by name."""
        return {name: self._marked(entry) for name, entry in self.kernel.temporaries.items()}

    @property
    def inames(self) -> Mapping[str, Iname]:
        """The inames, from the outermost, with their tags."""
        return {name: Iname(name, self.iname_tags(name)) for name in self.kernel.inames}

    @property
    def instructions(self) -> list[Statement]:
        """The instructions, in their order."""
        return [self._tagged(entry) for entry in self.kernel.instructions]

    @property
    def id_to_insn(self) -> Mapping[str, Statement]:
        """The instructions by their ids."""
        return {entry.id: entry for entry in self.instructions}

    def _marked(self, entry: Any) -> Any:
        tags = self.marks.get(("array", entry.name))
        return entry if tags is None else Marked(entry, tags)

    def _tagged(self, entry: Instruction) -> Statement:
        own = {name: self.marks[key] for name in entry.tags if (key := ("tag", name)) in self.marks}
        return Statement(entry, (entry.tags - {*own}).union(*own.values()))

    def all_inames(self) -> frozenset[str]:
        """Return the inames of all domains."""
        return frozenset(self.kernel.inames)

    def insn_inames(self, insn: str | Instruction | Statement) -> frozenset[str]:
        """Return the inames of the loops around an instruction."""
        return frozenset((self.id_to_insn[insn] if isinstance(insn, str) else insn).inames)

    def iname_tags(self, iname: str) -> frozenset[Any]:
        """Return the tags of *iname*: of the package, at most one, and of the script's."""
        found = frozenset(tag for name, tag in self.kernel.iname_tags.items() if name == iname)
        return found | self.marks.get(("iname", iname), frozenset())

    def iname_tags_of_type(self, iname: str, kind: type) -> frozenset[Any]:
        """Return the tags of *iname* of one class."""
        return of_type(self.iname_tags(iname), kind)

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

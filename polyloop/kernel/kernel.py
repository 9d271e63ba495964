"""``LoopKernel``: all parts of a kernel as one immutable value."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NoReturn, Protocol, Self

import islpy as isl
import numpy as np

from polyloop.display import Shown, clipped
from polyloop.edge.first import prepare_kernels
from polyloop.expr.foreign import ForeignFunction
from polyloop.frozen import quick
from polyloop.kernel.arrays import Argument, ArrayArg, TemporaryVariable, ValueArg
from polyloop.kernel.instruction import ExplicitBarrier, Instruction, SubstitutionRule
from polyloop.kernel.made import Made
from polyloop.kernel.tags import BlockOrder, InameTag, Role, Sequential, axis_name
from polyloop.kernel.trace import Trace
from polyloop.kernel.tree import Tree, show_tree
from polyloop.kernel.waivers import Waiver
from polyloop.memo import memoised
from polyloop.poly.sets import set_text
from polyloop.serial.value import Value

if TYPE_CHECKING:
    from polyloop.kernel.methods import Methods
else:
    Methods = object  # the transforms become methods when the package is imported: transform/registry.py

__all__ = ["Condition", "Domain", "LoopKernel", "Reference", "memoised"]

_SPELT: Final[Mapping[str, str]] = MappingProxyType(
    {
        "args": "arguments", "arg_dict": "arguments", "temporary_variables": "temporaries",
        "id_to_insn": "instructions", "split": "split_iname", "tile": "split_iname",
        "order": "prioritize_loops", "reorder": "prioritize_loops", "interchange": "prioritize_loops",
    }
)
"""Names that users of Loopy and beginners try, with those of a kernel."""
_CALLS: Final[Mapping[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(("code", "source", "text", "device_code"),
                        "pl.generate_code(knl, target=pl.CudaTarget()).device_code"),
        **dict.fromkeys(("run", "launch", "execute"), "pl.compile(knl)(..) or knl(..)"),
        **dict.fromkeys(("shape", "dtype", "shapes", "dtypes"), "knl.arguments"),
    }
)  # fmt: skip
"""Names that beginners try, with what has it."""


def _near(name: str, known: Iterable[str]) -> str | None:
    """Return the public name among *known* that *name* may be meant for: a similar one, or one with that word in it."""
    public = sorted(x for x in known if x[:1] != "_")
    found = get_close_matches(name, public, n=1, cutoff=0.7)
    with_it = (x for x in public if name in x.split("_"))
    return _SPELT.get(name) or next(iter(found), None) or min(with_it, key=len, default=None)


@quick
@dataclass(frozen=True, eq=False)
class Domain:
    """One domain of the kernel: inames, and a set with these as dimensions."""

    inames: tuple[str, ...]
    set: isl.Set


class Computed(Protocol):
    """A condition on parameters that is computed from their values."""

    @property
    def names(self) -> frozenset[str]:
        """The parameters that it depends on."""

    def holds(self, values: Mapping[str, int]) -> bool:
        """Return whether it holds for these values."""


@quick
@dataclass(frozen=True, eq=False)
class Condition:
    """Condition on the parameters of a call, checked at launch, under which an access stays inside of its array.

    Attributes
    ----------
    set
        The parameters for which the access stays inside, or nothing runs.
    needs, where
        The same for people: *needs* has to hold *where* instances run at all.
    access, array, instruction
        The access as text, its array with the shape, and the id of the instruction.
    inside
        A condition on the parameters that is no set, for a subscript that is not affine: something with ``names`` and
        ``holds``, as :class:`polyloop.verification.computed_subscripts.Inside`.  Then *set*, *needs* and *where* say
        nothing.
    """

    set: isl.Set
    needs: isl.Set
    where: isl.Set
    access: str
    array: str
    instruction: str
    inside: Computed | None = None


@quick
@dataclass(frozen=True, eq=False)
class Reference(Shown):
    """The definite loop program that the user's text stands for (design, section 3).

    ``kernel`` is the kernel as created (with ``reference`` None), ``tree`` its loops in order.  ``steps`` describes the
    steps of the tree that are no instructions: a reduction that collects its terms in a loop where what they read is
    set.  ``first`` is that of the kernel as created, where a step made this one of it.
    """

    kernel: LoopKernel
    tree: Tree
    steps: Mapping[str, str] = field(default_factory=dict)
    first: Reference | None = None

    def __repr__(self) -> str:
        return f"<Reference of {self.kernel!r}>"

    def __str__(self) -> str:
        shown = {**self.steps, **{instruction.id: str(instruction) for instruction in self.kernel.instructions}}
        return show_tree(self.tree, lambda name: f"{shown[name]}    {{id={name}}}")


_IN_ORDER: Final = BlockOrder()


@quick
@dataclass(frozen=True, eq=False)
class LoopKernel(Value, Shown, Methods):
    """Computation and its mapping to loops and hardware; a transform returns a new one and never changes this one.

    Create one with :func:`polyloop.make_kernel`.

    Attributes
    ----------
    name
        C identifier of the generated function.
    parameters
        Integer value arguments that occur in domains, in a fixed order.
    assumptions
        Parameter set guaranteed by the caller; checked at launch.
    conditions
        Further conditions on the parameters, under which no access leaves its array; checked at launch.
    domains
        The iteration domains that new instructions take their bounds from.
    instructions
        In text order.
    barriers
        The barriers that the user wrote, in their order.
    evaluations
        Temporary -> id of the instruction that fills it ahead of its use.
    partials
        Temporary -> instruction of the reference program, and number of its reduction: the states of which results are
        combined.
    buffers
        Temporary -> array that it holds a part of while instructions work on that part.
    tile_inames
        Outer inames of splits.
    slabs
        iname -> (front, back) iterations to peel.
    blocks
        Order of the blocks of each launch.
    roles
        Roles of the threads of a block, the last of which executes what no other one does; none if all do the same.
    target
        Default target of code generation; of no meaning to analyses and transforms.
    foreign
        The foreign functions that expressions may call.
    made
        How it was made, for :func:`polyloop.kernel_to_python`.
    index_dtype
        Type of inames, and of integer parameters that were given no type: int32 or int64.
    preambles
        Names and texts of C code in front of the generated functions, in the order of the names.
    silenced_warnings
        Patterns of warnings that are not issued.
    fast
        Whether the functions of instructions that do not say may be approximations.
    waivers
        The user's reasons for not insisting on proofs (``pl.unchecked``); none in most kernels.
    """

    def __new__(cls, *_: object, **__: object) -> Self:
        """Return an object without fields, once kernels have their methods."""
        prepare_kernels()
        return object.__new__(cls)

    name: str
    parameters: tuple[str, ...]
    assumptions: isl.Set
    domains: tuple[Domain, ...]
    instructions: tuple[Instruction, ...]
    arguments: tuple[Argument, ...]
    temporaries: Mapping[str, TemporaryVariable] = field(default_factory=dict)
    substitutions: Mapping[str, SubstitutionRule] = field(default_factory=dict)
    iname_tags: Mapping[str, InameTag] = field(default_factory=dict)
    loop_priority: tuple[tuple[str, ...], ...] = ()
    barriers: tuple[ExplicitBarrier, ...] = ()
    evaluations: Mapping[str, str] = field(default_factory=dict)
    partials: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    buffers: Mapping[str, str] = field(default_factory=dict)
    tile_inames: frozenset[str] = frozenset()
    slabs: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    fixed: Mapping[str, int] = field(default_factory=dict)
    foreign: tuple[ForeignFunction, ...] = ()
    index_dtype: np.dtype[np.generic] = field(default_factory=lambda: np.dtype(np.int32))
    conditions: tuple[Condition, ...] = ()
    silenced_warnings: tuple[str, ...] = ()
    preambles: tuple[tuple[str, str], ...] = ()
    target: Hashable | None = None
    fast: bool = False
    waivers: tuple[Waiver, ...] = ()
    reference: Reference | None = None
    trace: Trace = field(default_factory=Trace)
    made: Made | None = field(default=None, compare=False)
    blocks: BlockOrder = _IN_ORDER
    roles: tuple[Role, ...] = ()

    def __str__(self) -> str:
        return show_kernel(self)

    def __repr__(self) -> str:
        inames = clipped(", ".join(self.inames), 150)
        count = len(self.instructions)
        return f"<LoopKernel '{self.name}': {count} instruction{'s' * (count != 1)}, inames {inames}>"

    @cached_property
    def inames(self) -> tuple[str, ...]:
        """Every loop iname and reduction iname, in the order of the domains."""
        return tuple([iname for domain in self.domains for iname in domain.inames])

    def argument(self, name: str) -> Argument | None:
        """Return the argument called *name*, or None."""
        return _arguments(self).get(name)

    def tag(self, iname: str) -> InameTag:
        """Return the tag of *iname*; a sequential loop unless tagged."""
        return self.iname_tags.get(iname) or _SEQUENTIAL

    def axis(self, iname: str) -> str | None:
        """Return the hardware axis, or digit of the thread number, that *iname* runs on; None for a loop."""
        return _axes(self).get(iname)

    def instruction(self, name: str) -> Instruction:
        """Return the instruction with id *name*, which must exist."""
        return next(instruction for instruction in self.instructions if instruction.id == name)

    if not TYPE_CHECKING:  # a checker knows what there is

        def __getattr__(self, name: str) -> NoReturn:
            """Raise the error of a name that no kernel has, with the one that may be meant."""
            near = None if name[:1] == "_" else _near(name, {*dir(type(self)), *type(self).__dataclass_fields__})
            hint = "" if near is None else f"; did you mean '{near}'?"
            hint = f"; write {_CALLS[name]}" if name in _CALLS else hint
            raise AttributeError(f"a LoopKernel has no attribute '{name}'{hint}", name=name, obj=self)

    def names(self) -> frozenset[str]:
        """Return every name in use, none of which a new variable may take."""
        return _names(self)

    def fresh(self, wish: str, also: Iterable[str] = ()) -> str:
        """Return *wish*, or *wish* with the first number that makes it unused."""
        taken = self.names().union(also)
        if wish not in taken:
            return wish
        return next(name for i in range(len(taken) + 1) if (name := f"{wish}_{i}") not in taken)

    def arrays(self) -> Mapping[str, ArrayArg | TemporaryVariable]:
        """Return everything that an instruction may assign or subscript."""
        return _arrays(self)

    def values(self) -> Mapping[str, ValueArg]:
        """Return the scalar arguments."""
        return _values(self)


_SEQUENTIAL: Final = Sequential()


@memoised
def _axes(kernel: LoopKernel) -> Mapping[str, str]:
    found = {iname: axis_name(tag) for iname, tag in kernel.iname_tags.items()}
    return {iname: axis for iname, axis in found.items() if axis is not None}


@memoised
def _arguments(kernel: LoopKernel) -> Mapping[str, Argument]:
    return {argument.name: argument for argument in reversed(kernel.arguments)}


@memoised
def _names(kernel: LoopKernel) -> frozenset[str]:
    return frozenset(
        (
            *kernel.inames,
            *kernel.parameters,
            *[argument.name for argument in kernel.arguments],
            *kernel.temporaries,
            *kernel.substitutions,
            *[name for function in kernel.foreign for name in function.names()],
            kernel.name,
        )
    )


@memoised
def _arrays(kernel: LoopKernel) -> Mapping[str, ArrayArg | TemporaryVariable]:
    found: dict[str, ArrayArg | TemporaryVariable] = {
        argument.name: argument for argument in kernel.arguments if isinstance(argument, ArrayArg)
    }
    found.update(kernel.temporaries)
    return MappingProxyType(found)


@memoised
def _values(kernel: LoopKernel) -> Mapping[str, ValueArg]:
    return MappingProxyType({entry.name: entry for entry in kernel.arguments if isinstance(entry, ValueArg)})


def show_kernel(kernel: LoopKernel) -> str:
    """Return *kernel* as text for people: arguments, domains, tags, instructions; stable, one fact a line."""
    sections: list[tuple[str, list[str]]] = [
        ("unchecked", [*map(str, kernel.waivers)]),
        ("arguments", [argument.shown() for argument in kernel.arguments]),
        ("temporaries", [temporary.shown() for temporary in kernel.temporaries.values()]),
        ("domains", [set_text(domain.set) for domain in kernel.domains]),
        ("assumptions", [] if kernel.assumptions.plain_is_universe() else [set_text(kernel.assumptions)]),
        ("conditions", [str(condition.inside or set_text(condition.set)) for condition in kernel.conditions]),
        ("tags", [f"{iname}: {tag}" for iname, tag in kernel.iname_tags.items()]),
        ("blocks", [str(kernel.blocks)] if str(kernel.blocks) else []),
        ("roles", [str(role) for role in kernel.roles]),
        ("foreign functions", [str(function) for function in kernel.foreign]),
        ("rules", [str(rule) for rule in kernel.substitutions.values()]),
        ("instructions", [f"{_show_nest(i)}{i}    {{id={i.id}{_show_nosync(i)}{_show_matrix(i)}}}"
                          for i in kernel.instructions]),
        ("barriers", [f"{barrier.place.text}, after {', '.join(sorted(barrier.before)) or 'nothing'}"
                      for barrier in kernel.barriers]),
    ]
    lines = [f"kernel {kernel.name}"]
    for title, entries in sections:
        if entries:
            lines.append(f"{title}:")
            lines.extend(f"    {entry}" for entry in entries)
    return "\n".join(lines)


def _show_nosync(instruction: Instruction) -> str:
    denied = sorted(f"{entry}" for entry in instruction.nosync)
    return f", nosync={':'.join(denied)}" if denied else ""


def _show_matrix(instruction: Instruction) -> str:
    return "" if instruction.matrix is None else f", by {instruction.matrix}"


def _show_nest(instruction: Instruction) -> str:
    return f"[{', '.join(instruction.inames)}]  " if instruction.inames else ""

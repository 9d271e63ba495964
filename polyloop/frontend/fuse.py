"""``fuse_kernels``: several kernels, one after the other, as one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, TypeAlias

import islpy as isl

from polyloop.creation.create import complete_kernel
from polyloop.edge.checks import EXPLAINED
from polyloop.errors import Diagnostic, KernelError, VerificationError
from polyloop.expr.names import KERNEL_NAME, check_identifier
from polyloop.frontend.renamed import Names, renamed
from polyloop.frontend.script import script_of
from polyloop.frontend.unify import Flow, flows_of, unified
from polyloop.kernel.arrays import ValueArg
from polyloop.kernel.domains import parameters_of
from polyloop.kernel.instruction import Copy, ExplicitBarrier, Instruction
from polyloop.kernel.kernel import Domain, LoopKernel
from polyloop.kernel.made import python
from polyloop.kernel.trace import Trace
from polyloop.poly.affine import Affine
from polyloop.poly.sets import parameter_space
from polyloop.transform.base import Applied
from polyloop.transform.recipe import Recipe
from polyloop.verification.order import order_violations

__all__ = ["fuse_kernels"]

_Flow: TypeAlias = "tuple[str, int, int] | tuple[str, int, int, str]"


@dataclass(frozen=True, eq=False)
class _Fused:
    """A call of ``fuse_kernels``."""

    kernels: tuple[LoopKernel, ...]
    options: tuple[tuple[str, object], ...]
    steps: tuple[Applied, ...] = ()
    """The steps of the kernels, as they were done again to the result."""

    def script(self, variable: str) -> str:
        """Return the scripts of the kernels, and the call."""
        names = [f"{variable}_{number}" for number in range(len(self.kernels))]
        parts = [script_of(kernel, name) for kernel, name in zip(self.kernels, names, strict=True)]
        return "\n".join([*parts, f"{variable} = {self.call(', '.join(names))}"])

    def call(self, names: str) -> str:
        """Return the call with *names* for the kernels."""
        options = "".join(f", {name}={python(value)}" for name, value in self.options)
        return f"pl.fuse_kernels([{names}]{options})"


def fuse_kernels(
    kernels: LoopKernel | Sequence[LoopKernel],
    suffixes: Sequence[str] | None = None,
    data_flow: Sequence[Annotated[_Flow, EXPLAINED]] | None = None,
    *,
    name: str | None = None,
) -> LoopKernel:
    """Fuse kernels into one that runs them one after the other, with common loops where legal.

    ::

        S(i), T(i)   with data_flow=[("out", 0, 1, "x")]

        for i: out[i] = f(a[i])                 for i:
        for i: y[i] = g(x[i])            ->         out[i] = f(a[i])
                                                    y[i] = g(out[i])

    Parameters
    ----------
    kernels
        In the order in which they run.  If some are transformed already, no loops are shared, and what was done to each
        kernel is done again to its part.
    suffixes
        One for each kernel: a suffix for names that another kernel has too; by default ``"_1"`` for the second kernel,
        and so on.
    data_flow
        ``(array, i, j, other)``: the array *array* that kernel *i* writes is called *other* in kernel *j*, which reads
        it or writes it again. ``(array, i, j)`` is redundant: arguments of one name are one argument.
    name
        Of the result; by default the names of the kernels, joined by ``_and_``.

    Returns
    -------
    LoopKernel
        Arguments are identified by name.  Temporaries, substitution rules and instructions keep their names where no
        other kernel has them.  Two kernels share an iname if it has the same domain in both, and if running its loops
        together provably gives every read the value that it gets when the kernels run one after the other; otherwise
        the later kernel's iname is renamed.  The trace begins with the fusion.

    Raises
    ------
    KernelError
        ``bad-fusion`` (nothing to fuse, suffixes that do not fit), ``bad-data-flow``, ``fusion-conflict`` (one argument
        with two shapes or types, with both), ``contradiction`` (assumptions that exclude each other), and what
        :func:`polyloop.make_kernel` raises.
    TransformError
        What a step raises that does not fit any more, as where both kernels change one argument's layout.

    Notes
    -----
    The result has a new reference program: see ``print(knl.reference)``.  After Loopy's function of the same name,
    which fuses loops of one name whether or not that is legal.
    """
    kernels = _check(kernels, suffixes, name)
    whole = name or "_and_".join(kernel.name for kernel in kernels)
    written = [_as_written(kernel) for kernel in kernels]
    recipes = [Recipe(tuple(_own_steps(kernel))) for kernel in kernels]
    endings = list(suffixes) if suffixes is not None else [f"_{number}" for number in range(len(kernels))]
    flows = flows_of(data_flow or (), written, whole)
    options = (("suffixes", suffixes), ("data_flow", data_flow), ("name", name))
    made = _Fused(tuple(kernels), tuple((key, value) for key, value in options if value is not None))
    fusion = _Fusion(written, endings, flows, whole)
    try:
        fused, notes = fusion.result(share=not any(map(len, recipes)))
    except (KernelError, VerificationError) as error:
        raise KernelError("fuse_kernels", whole, error.found) from error
    origin = "\n".join([f"# knl = {made.call(', '.join(kernel.name for kernel in kernels))}", *notes])
    fused = replace(fused, made=made, trace=Trace((), origin))
    for number, recipe in enumerate(recipes):
        names = fusion.names(number, {})
        everything = {**names.variables, **names.instructions}
        fused = recipe.apply(fused, rename={old: new for old, new in everything.items() if old in recipe.names})
    done = tuple(step for step in fused.trace if isinstance(step, Applied))
    return replace(fused, made=replace(made, steps=done), trace=Trace((), origin))


def _check(
    kernels: LoopKernel | Sequence[LoopKernel], suffixes: Sequence[str] | None, name: str | None
) -> Sequence[LoopKernel]:
    """Return the kernels, of which there are some, with as many suffixes."""

    def refuse(message: str, hint: str) -> KernelError:
        return KernelError("fuse_kernels", None, [Diagnostic("bad-fusion", message, hints=(hint,))])

    if isinstance(kernels, LoopKernel) or not kernels:
        raise refuse("there is nothing to fuse", "pass the kernels in a list: pl.fuse_kernels([first, second])")
    if in_roles := [kernel.name for kernel in kernels if kernel.roles]:
        raise refuse(f"'{in_roles[0]}' has roles, which are of all threads of a block",
                     "fuse the kernels first: pl.assign_roles(pl.fuse_kernels([..]), {..})")
    if suffixes is not None and len(suffixes) != len(kernels):
        raise refuse(f"there are {len(kernels)} kernels and {len(suffixes)} suffixes", "give one for each kernel")
    problem = None if name is None else check_identifier(name, KERNEL_NAME)
    if problem is not None:
        raise KernelError("fuse_kernels", None, [problem])
    return kernels


def _as_written(kernel: LoopKernel) -> LoopKernel:
    """Return the reference program of *kernel*."""
    assert kernel.reference is not None, "a created kernel has a reference program"
    return kernel.reference.kernel


def _own_steps(kernel: LoopKernel) -> Iterator[Applied]:
    """Yield the steps that made *kernel* of its reference program."""
    for step in (*(kernel.made.steps if isinstance(kernel.made, _Fused) else ()), *kernel.trace):
        assert isinstance(step, Applied), "a trace holds applied transforms"
        if not step.transform.changes_meaning:
            yield step


class _Fusion:
    """State of a fusion: the names taken so far, and the kernels with their new names."""

    def __init__(self, kernels: Sequence[LoopKernel], endings: Sequence[str], flows: Sequence[Flow], name: str) -> None:
        self.name = name
        self.kernels = kernels
        self.endings = endings
        self.flows = flows
        self.arguments = {
            self.argument(number, entry.name) for number, kernel in enumerate(kernels) for entry in kernel.arguments
        }
        parameters = dict.fromkeys(name for kernel in kernels for name in kernel.parameters)
        self.parameters = tuple(parameters)
        self.space = parameter_space(self.parameters)

    def argument(self, number: int, name: str) -> str:
        """Return the name in the result of argument *name* of kernel *number*."""
        return next((flow.array for flow in self.flows if (flow.reader, flow.other) == (number, name)), name)

    def result(self, *, share: bool) -> tuple[LoopKernel, list[str]]:
        """Return the fused kernel, whose kernels *share* loops where they can, and notes for its trace."""
        apart = self.combined([self.names(number, {}) for number in range(len(self.kernels))])
        best, notes = apart, []
        shared: dict[int, dict[str, str]] = {}
        for number, owners, inames, outer in self.candidates(apart) if share else ():
            if not outer <= shared.get(number, {}).keys():
                continue
            for owner in owners:
                theirs = self.names(owner, shared.get(owner, {})).all(inames)
                same = dict(zip(inames, theirs, strict=True))
                trial = {**shared, number: {**shared.get(number, {}), **same}}
                together = self.together(trial, apart)
                if together is not None:
                    best, shared = together, trial
                    break
            else:
                own, others = self.kernels[number].name, ", ".join(f"'{self.kernels[owner].name}'" for owner in owners)
                notes.append(
                    f"# '{own}' does not share {', '.join(inames)} with {others}: some read would get another value"
                )
        return best, notes

    def candidates(self, apart: LoopKernel) -> Iterable[tuple[int, list[int], tuple[str, ...], frozenset[str]]]:
        """Yield domains shared with earlier kernels: kernel number, numbers of the others, inames, inames around."""
        seen: list[tuple[int, tuple[str, ...], isl.Set]] = []
        space = apart.assumptions
        for number, kernel in enumerate(self.kernels):
            for piece in kernel.domains:
                domain = piece.set.align_params(space.get_space())
                owners = [
                    other
                    for other, inames, known in seen
                    if other < number and inames == piece.inames and known.is_equal(domain)
                ]
                if owners and piece.inames:
                    yield number, owners, piece.inames, frozenset(parameters_of(piece.set)) & frozenset(kernel.inames)
                seen.append((number, piece.inames, domain))

    def together(self, shared: dict[int, dict[str, str]], apart: LoopKernel) -> LoopKernel | None:
        """Return the kernel in which some inames are shared, None if some read gets another value than in *apart*."""
        names = [self.names(number, shared.get(number, {})) for number in range(len(self.kernels))]
        try:
            kernel = self.combined(names)
            back = {}
            old = iter(apart.instructions)
            for new in kernel.instructions:
                back[new.id] = _pointing(new, next(old))
            judged = replace(
                kernel,
                reference=apart.reference,
                instructions=tuple(back[new.id] for new in kernel.instructions),
                barriers=apart.barriers,
                waivers=(),
            )
            return None if any(True for _ in order_violations(judged)) else kernel
        except (KernelError, VerificationError):
            return None

    def names(self, number: int, shared: dict[str, str]) -> Names:
        """Return the new names of kernel *number*; inames in *shared* take names of an earlier kernel."""
        kernel, ending = self.kernels[number], self.endings[number]
        earlier = self.kernels[:number]
        taken = set(self.arguments).union(*(other.names() - {other.name} for other in self.kernels), self.parameters)
        before = set(self.arguments).union(*(self.local_names(other) for other in earlier))
        variables = {}
        for old in self.local_names(kernel):
            if old in shared:
                variables[old] = shared[old]
            elif old in before:
                variables[old] = _fresh(old + ending, taken)
                taken.add(variables[old])
        variables.update(
            (argument.name, new)
            for argument in kernel.arguments
            if (new := self.argument(number, argument.name)) != argument.name
        )
        for argument in kernel.arguments:
            owner = argument.layout_of if isinstance(argument, ValueArg) else None
            if owner in variables:
                variables[argument.name] = variables[owner] + argument.name.removeprefix(owner)
        ids = {name for other in self.kernels for name in _ids(other)}
        used = {name for other in earlier for name in _ids(other)}
        instructions = {}
        for name in _ids(kernel):
            if name in used:
                instructions[name] = _fresh(name + ending, ids)
                ids.add(instructions[name])
        return Names(variables, instructions)

    def local_names(self, kernel: LoopKernel) -> list[str]:
        return [*kernel.inames, *kernel.temporaries, *kernel.substitutions]

    def combined(self, names: Sequence[Names]) -> LoopKernel:
        """Return the kernels under *names*, one after the other."""
        parts = []
        blocks = 0
        for kernel, own in zip(self.kernels, names, strict=True):
            parts.append(renamed(kernel, own, blocks, self.space))
            blocks += 1 + max((number for i in kernel.instructions for _, number in i.blocks), default=-1)
        domains: dict[tuple[str, ...], Domain] = {}
        for part in parts:
            for piece in part.domains:
                domains.setdefault(piece.inames, piece)
        assumptions = self.space
        for part in parts:
            assumptions = assumptions.intersect(part.assumptions)
        if assumptions.is_empty():
            notes = tuple(f"'{part.name}' assumes {part.assumptions}" for part in parts)
            problem = Diagnostic(
                "contradiction", "the kernels assume what excludes each other", notes, ("fuse kernels of equal sizes",)
            )
            raise KernelError("fuse_kernels", self.name, [problem])
        kernel = LoopKernel(
            name=self.name,
            waivers=tuple(dict.fromkeys(reason for part in self.kernels for reason in part.waivers)),
            parameters=self.parameters,
            assumptions=assumptions.coalesce(),
            domains=tuple(domains.values()),
            foreign=tuple(dict.fromkeys(function for part in parts for function in part.foreign)),
            instructions=tuple(instruction for part in parts for instruction in _with_precision(part)),
            barriers=tuple(_barriers(parts)),
            arguments=unified(parts, self.name),
            temporaries={name: entry for part in parts for name, entry in part.temporaries.items()},
            substitutions={name: rule for part in parts for name, rule in part.substitutions.items()},
            loop_priority=tuple(dict.fromkeys(chain for part in parts for chain in part.loop_priority)),
            silenced_warnings=tuple(dict.fromkeys(pattern for part in parts for pattern in part.silenced_warnings)),
            preambles=tuple(sorted({preamble for part in parts for preamble in part.preambles})),
            target=next((part.target for part in parts if part.target is not None), None),
            index_dtype=max((part.index_dtype for part in parts), key=lambda dtype: dtype.itemsize),
            fixed={k: v for part in parts for k, v in part.fixed.items() if k not in self.parameters},
        )
        return complete_kernel(kernel, None)


def _with_precision(kernel: LoopKernel) -> Iterator[Instruction]:
    """Yield the instructions of a kernel, each with the precision that the kernel gives it."""
    for instruction in kernel.instructions:
        yield replace(instruction, fast=kernel.fast if instruction.fast is None else instruction.fast)


def _ids(kernel: LoopKernel) -> list[str]:
    return [*(instruction.id for instruction in kernel.instructions), *(barrier.id for barrier in kernel.barriers)]


def _barriers(parts: Sequence[LoopKernel]) -> Iterator[ExplicitBarrier]:
    """Yield the barriers of *parts*, each behind what it followed and behind the parts before its own."""
    earlier: frozenset[str] = frozenset()
    for part in parts:
        for barrier in part.barriers:
            yield replace(barrier, before=barrier.before | earlier)
        earlier |= {instruction.id for instruction in part.instructions}


def _fresh(wish: str, taken: set[str]) -> str:
    return wish if wish not in taken else next(x for i in range(len(taken) + 1) if (x := f"{wish}_{i}") not in taken)


def _pointing(new: Instruction, old: Instruction) -> Instruction:
    """Return *new* as a copy of *old*, the same instruction with other inames."""
    assert isinstance(new.origin, Copy), "an instruction as written"
    assert isinstance(old.origin, Copy), "an instruction as written"
    forms = {x: Affine.variable(y) for x, y in zip(old.origin.forms, new.origin.forms, strict=True)}
    return replace(new, origin=Copy(old.id, forms))

"""``TranslationUnit``: kernels as Loopy's scripts hold them, with options and a way to be called."""
# ruff: noqa: ANN401  # arrays of any library, and arguments of transforms

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

from polyloop.creation.create import make_kernel
from polyloop.edge.calls import public
from polyloop.errors import Diagnostic, KernelError
from polyloop.expr.foreign import ForeignFunction
from polyloop.frontend.function import make_function
from polyloop.kernel.build.function import Function
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.text.specs import GlobalArg, TemporaryVariable, ValueArg
from polyloop.loopy.call import Executor
from polyloop.loopy.callees import in_calls
from polyloop.loopy.options import Options
from polyloop.loopy.tags import Marks
from polyloop.loopy.view import Kernel, plain
from polyloop.target.base import Target

__all__ = ["CallableKernel", "Creation", "TranslationUnit", "Waiting"]

_make_kernel: Final = public(make_kernel)
_make_function: Final = public(make_function)
_UNKNOWN: Final = "unknown-function"

Step: TypeAlias = tuple[Callable[..., Any], tuple[Any, ...], Mapping[str, Any]]


@dataclass(frozen=True, eq=False)
class Creation:
    """The call that makes a kernel, which is repeated once functions are known."""

    arguments: tuple[Any, ...]
    options: Mapping[str, Any]
    is_entry: bool = True

    @property
    def name(self) -> str:
        """Name of the kernel."""
        return str(self.options["name"])

    def declared(self) -> tuple[str, ...]:
        """Return the names that are declared in ``kernel_data``, in their order."""
        data = self.arguments[2] if len(self.arguments) > 2 else self.options.get("kernel_data")
        entries = [entry for entry in data or () if isinstance(entry, GlobalArg | ValueArg | TemporaryVariable)]
        return tuple(part.strip() for entry in entries for part in entry.name.split(","))

    def renamed(self, name: str) -> Creation:
        """Return the call under another name."""
        return replace(self, options={**self.options, "name": name})

    def kernel(self, functions: Sequence[Function | ForeignFunction]) -> LoopKernel:
        """Return the kernel, which may call *functions*."""
        return _make_kernel(*self.arguments, **self.options, functions=functions)

    def function(self, functions: Sequence[Function | ForeignFunction]) -> Function:
        """Return the function, which may call *functions*."""
        options = {key: value for key, value in self.options.items() if key in ("name", "kernel_data")}
        return _make_function(*self.arguments, **options, functions=functions)


@dataclass(frozen=True)
class Waiting:
    """A kernel that calls functions which are not known yet, and the steps that wait for them."""

    creation: Creation
    error: KernelError
    steps: tuple[Step, ...] = ()

    @property
    def missing(self) -> str:
        """Name of the function that is missing first."""
        return next((entry.subject or "" for entry in self.error.found if entry.code == _UNKNOWN), "")


@dataclass(frozen=True)
class CallableKernel:
    """An entry of ``callables_table``."""

    subkernel: Kernel


@dataclass(frozen=True, eq=False)
class TranslationUnit:
    """Kernels, and functions that they call; what Loopy's ``make_kernel`` returns.

    ::

        knl = lp.make_kernel("{[i]: 0 <= i < n}", "out[i] = 2*a[i]")
        knl = lp.split_iname(knl, "i", 16, inner_tag="l.0", outer_tag="g.0")
        evt, (out,) = knl(queue, a=a)          # a queue of PyOpenCL
        evt, (out,) = knl(a=a)                 # NumPy arrays, on the processor; evt is None
        knl["loopy_kernel"].inames, knl.default_entrypoint.args

    Attributes
    ----------
    creations
        The calls that made its kernels and functions.
    kernels
        The kernels that are called from outside, by name.
    functions
        Functions that are put in place where kernels call them.
    waiting
        A kernel that calls functions which the unit does not have yet.
    options
        Options of calls.
    marks
        Tags of the script's own on inames, arrays and instructions.
    called
        Functions with the steps that were done to them, which are done where kernels call them.
    """

    creations: tuple[Creation, ...]
    kernels: Mapping[str, LoopKernel] = field(default_factory=dict)
    functions: tuple[Function | ForeignFunction, ...] = ()
    waiting: tuple[Waiting, ...] = ()
    options: Options = field(default_factory=Options)
    marks: Marks = field(default_factory=dict)
    called: Mapping[str, LoopKernel] = field(default_factory=dict)

    @classmethod
    def of(cls, kernel: LoopKernel, like: TranslationUnit | None = None) -> TranslationUnit:
        """Return the unit of one kernel, with the options of another unit."""
        options = Options() if like is None else like.options
        marks = {} if like is None else like.marks
        return cls(() if like is None else like.creations, {kernel.name: kernel}, options=options, marks=marks)

    # {{{ what is in it

    @property
    def entrypoints(self) -> frozenset[str]:
        """Names of the kernels that are called from outside."""
        return frozenset((*self.kernels, *(entry.creation.name for entry in self.waiting)))

    @property
    def callables_table(self) -> Mapping[str, CallableKernel]:
        """Kernels and functions, by name."""
        functions = {entry.name: entry.kernel for entry in self.functions if isinstance(entry, Function)}
        return {name: CallableKernel(Kernel(kernel)) for name, kernel in {**functions, **self.kernels}.items()}

    @property
    def default_entrypoint(self) -> Kernel:
        """The kernel of the unit, of which it has one."""
        return Kernel(self.only(), self.marks)

    @property
    def target(self) -> Target | None:
        """Target that the kernels were made for; None: the queue or the arrays of a call decide."""
        given = next((kernel.target for kernel in self.kernels.values()), None)
        return given if isinstance(given, Target) else None

    def only(self, name: str | None = None) -> LoopKernel:
        """Return the kernel called *name*, by default the only one.

        Raises
        ------
        KernelError
            ``unknown-function``, ``which-kernel``.
        """
        if self.waiting:
            raise self.waiting[0].error
        if name is None and len(self.kernels) == 1:
            return next(iter(self.kernels.values()))
        if name is not None and name in self.kernels:
            return self.kernels[name]
        if name is None and self.is_function:
            return self.function(self.creations[-1].name)
        wish = "one of its kernels" if name is None else f"the kernel '{name}'"
        known = ", ".join(sorted(self.kernels)) or "none: functions are called by kernels"
        hint = f"kernels: {known}; say which: knl.with_entrypoints(..), knl[..] or entrypoint=.."
        problem = Diagnostic("which-kernel", f"there is no telling {wish}", hints=(hint,))
        raise KernelError("TranslationUnit", None, [problem])

    @property
    def is_function(self) -> bool:
        """True if the unit holds a function, and no kernel."""
        return bool(self.creations) and not self.kernels and not self.waiting and not self.creations[-1].is_entry

    def function(self, name: str) -> LoopKernel:
        """Return a function as a kernel, with the steps that were done to it."""
        return self.called.get(name) or next(
            entry.kernel for entry in self.functions if isinstance(entry, Function) and entry.name == name)

    def __getitem__(self, name: str) -> Kernel:
        functions = {entry.name for entry in self.functions if isinstance(entry, Function)}
        return Kernel(self.function(name) if name in functions else self.only(name), self.marks)

    def __str__(self) -> str:
        shown = [str(kernel) for kernel in self.kernels.values()]
        shown += [f"kernel {entry.creation.name}: needs a function '{entry.missing}'" for entry in self.waiting]
        return "\n".join([*shown, *[str(entry) for entry in self.functions]])

    def __repr__(self) -> str:
        return f"<TranslationUnit: {', '.join(sorted(self.entrypoints)) or 'functions alone'}>"

    def __getattr__(self, name: str) -> Any:
        if name[:1] != "_" and len(self.kernels) == 1 and hasattr(Kernel(self.only()), name):
            hint = f"it is one of its kernel: knl.default_entrypoint.{name}, or lp.{name}(knl, ..)"
            raise AttributeError(f"a TranslationUnit has no attribute '{name}'; {hint}", name=name, obj=self)
        raise AttributeError(f"a TranslationUnit has no attribute '{name}'", name=name, obj=self)

    # }}}
    # {{{ units made of it

    def with_kernel(self, kernel: LoopKernel | Kernel) -> TranslationUnit:
        """Return the unit with *kernel* in the place of the one of its name."""
        found = plain(kernel)
        if found.name not in self.kernels and any(
            isinstance(entry, Function) and entry.name == found.name for entry in self.functions
        ):
            return self.with_called(found)
        marks = {**self.marks, **kernel.marks} if isinstance(kernel, Kernel) else self.marks
        return replace(self, kernels={**self.kernels, found.name: found}, marks=marks)

    def with_called(self, function: LoopKernel) -> TranslationUnit:
        """Return the unit in whose kernels each call of a function has the steps that were done to *function*."""
        before = self.function(function.name)
        kernels = {name: in_calls(kernel, before, function) for name, kernel in self.kernels.items()}
        return replace(self, kernels=kernels, called={**self.called, function.name: function})

    def with_entrypoints(self, entrypoints: str | frozenset[str]) -> TranslationUnit:
        """Return the unit with these kernels alone to be called from outside."""
        names = [part.strip() for part in entrypoints.split(",")] if isinstance(entrypoints, str) else [*entrypoints]
        if self.waiting:
            return self
        return replace(self, kernels={name: self.only(name) for name in names})

    def with_functions(self, more: Sequence[Function | ForeignFunction]) -> TranslationUnit:
        """Return the unit whose kernels may call *more* functions; those that waited for them are made."""
        functions = tuple(dict.fromkeys((*self.functions, *more)))
        unit = replace(self, functions=functions, waiting=())
        for entry in self.waiting:
            unit = unit.with_creation(entry.creation, entry.steps)
        return unit

    def with_creation(self, creation: Creation, steps: tuple[Step, ...] = ()) -> TranslationUnit:
        """Return the unit with one more kernel or function, which waits for functions that are not known."""
        unit = replace(self, creations=tuple(dict.fromkeys((*self.creations, creation))))
        try:
            if not creation.is_entry:
                return unit.with_functions([creation.function(self.functions)])
            kernel = creation.kernel(self.functions)
        except KernelError as error:
            if any(entry.code == _UNKNOWN for entry in error.found):
                return replace(unit, waiting=(*unit.waiting, Waiting(creation, error, steps)))
            raise
        for entry in self.functions:
            if isinstance(entry, Function) and entry.name in self.called:
                kernel = in_calls(kernel, entry.kernel, self.called[entry.name])
        for step, arguments, options in steps:
            kernel = step(kernel, *arguments, **options)
        return unit.with_kernel(kernel)

    def later(self, step: Step) -> TranslationUnit:
        """Return the unit with a step that waits, as its kernel does, for functions."""
        waiting = tuple(replace(entry, steps=(*entry.steps, step)) for entry in self.waiting)
        return replace(self, waiting=waiting)

    def copy(self, **changes: Any) -> TranslationUnit:
        """Return the unit with another ``target`` or other ``options``.

        Raises
        ------
        KernelError
            ``no-such-option``.
        """
        target = changes.pop("target", self.target)
        options = self.options.changed(changes.pop("options", None))
        if changes:
            hint = "with_kernel(..) and with_entrypoints(..) change the kernels"
            problem = Diagnostic("no-such-option", f"copy cannot change '{next(iter(changes))}'", hints=(hint,))
            raise KernelError("TranslationUnit.copy", None, [problem])
        kernels = {name: replace(kernel, target=target) for name, kernel in self.kernels.items()}
        return replace(self, kernels=kernels, options=options)

    # }}}
    # {{{ calls

    def executor(self, context: object = None, *, entrypoint: str | None = None, **_: Any) -> Executor:
        """Return the function that runs a kernel of the unit; the context, which a queue has too, means nothing."""
        del context
        kernel = self.only(entrypoint)
        known: dict[str, Executor] = self.__dict__.setdefault("_executors", {})
        if kernel.name not in known:
            creation = next((entry for entry in self.creations if entry.name == kernel.name), None)
            known[kernel.name] = Executor(kernel, self.options, () if creation is None else creation.declared())
        return known[kernel.name]

    def __call__(self, *operands: Any, entrypoint: str | None = None, **arguments: Any) -> tuple[Any, Any]:
        """Run the kernel: see :class:`polyloop.loopy.call.Executor`."""
        return self.executor(entrypoint=entrypoint)(*operands, **arguments)

    # }}}

"""Units made by ``make_kernel`` and its like, and functions given to them."""
# ruff: noqa: ANN401  # arguments of make_kernel

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from polyloop.edge.calls import public
from polyloop.errors import Diagnostic, KernelError
from polyloop.expr.foreign import ForeignFunction
from polyloop.frontend.einsum import make_einsum as _core_einsum
from polyloop.kernel.build.function import Function
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.layout import Auto
from polyloop.kernel.objects import BarrierInstruction, NoOpInstruction
from polyloop.loopy.data import listed, marks_of
from polyloop.loopy.external import with_external
from polyloop.loopy.functions import foreign_of, generated, mangled
from polyloop.loopy.missing import refused
from polyloop.loopy.options import Options
from polyloop.loopy.unit import Creation, TranslationUnit
from polyloop.loopy.view import plain

__all__ = [
    "inline_callable_kernel", "make_einsum", "make_function", "make_kernel", "make_program", "merge",
    "register_callable", "register_preamble_generators", "rename_callable", "set_options",
]  # fmt: skip

_EINSUM: Final = public(_core_einsum)
_NAMES: Final = re.compile(r"[A-Za-z_]\w*")
_BARRIER: Final = re.compile(r"(^\s*\.\.\.\s*)[lg]barrier\b", re.MULTILINE)
_NO_EFFECT: Final = frozenset({"enforce_variable_access_ordered", "flags", "lang_version", "tags"})
_INSTEAD: Final[Mapping[str, str]] = {
    "function_manglers": "pass functions=[pl.ForeignFunction(..)]",
    "iname_slab_increments": "say slabs= where inames are split",
    "substitutions": "write rules in the text: f(x) := ..",
    "temporary_variables": "list temporaries in kernel_data",
}


def make_kernel(
    domains: Any, instructions: Any, kernel_data: Any = None, *, name: str = "loopy_kernel", options: Any = None,
    **more: Any,
) -> TranslationUnit:  # fmt: skip
    """Create a unit of one kernel; Loopy's ``make_kernel``.

    Parameters
    ----------
    domains, instructions, kernel_data, more
        As for :func:`polyloop.make_kernel`.  ``flags`` and ``lang_version`` have no effect.
    name
        Name of the kernel, and of the generated function.
    options
        :class:`Options`, a dictionary, or names separated by commas.

    Returns
    -------
    TranslationUnit
        A kernel that calls functions which are not known waits for :func:`merge` or :func:`register_callable`.

    Raises
    ------
    KernelError
        As :func:`polyloop.make_kernel`.
    """
    found = _accepted("make_kernel", more)
    functions = [*found.pop("functions", ())]
    generators, manglers = found.pop("preamble_generators", None), found.pop("symbol_manglers", None)
    data = listed(kernel_data)
    if manglers:
        declared = [part for entry in data or () if hasattr(entry, "name") for part in _NAMES.findall(entry.name)]
        instructions, more_functions = mangled(instructions, declared, manglers)
        functions += more_functions
    creation = Creation((domains, instructions, data), {"name": name, **found})
    unit = TranslationUnit((), functions=tuple(functions), options=Options().changed(options),
                           marks=marks_of(kernel_data)).with_creation(creation)  # fmt: skip
    return register_preamble_generators(unit, generators) if generators else unit


def register_preamble_generators(translation_unit: TranslationUnit, preamble_generators: Any) -> TranslationUnit:
    """Return the unit with the texts that functions yield for its kernels in front of their text.

    Parameters
    ----------
    preamble_generators
        Functions of one :class:`polyloop.loopy.functions.PreambleInfo`, which yield pairs of a key and a text.
    """

    def with_texts(kernel: LoopKernel) -> LoopKernel:
        return replace(kernel, preambles=generated(kernel, preamble_generators))

    if translation_unit.waiting:
        return translation_unit.later((with_texts, (), {}))
    kernels = {name: with_texts(kernel) for name, kernel in translation_unit.kernels.items()}
    return replace(translation_unit, kernels=kernels)


def make_function(
    domains: Any, instructions: Any, kernel_data: Any = None, *, name: str = "loopy_kernel", **more: Any
) -> TranslationUnit:  # fmt: skip
    """Create a unit of one function, for kernels to call; Loopy's ``make_function``.

    Parameters
    ----------
    domains, instructions, kernel_data
        As for :func:`polyloop.make_function`.
    name
        By which statements call it.
    """
    _accepted("make_function", more)
    creation = Creation((domains, _without_barriers(instructions), listed(kernel_data)), {"name": name}, is_entry=False)
    return TranslationUnit((), marks=marks_of(kernel_data)).with_creation(creation)


def _without_barriers(instructions: Any) -> Any:
    """Return the statements of a function with no-operations for barriers, which are derived where it is called."""
    if isinstance(instructions, list | tuple):
        return [_without_barriers(entry) for entry in instructions]
    if isinstance(instructions, BarrierInstruction):
        return "... nop" if instructions.id is None else NoOpInstruction(id=instructions.id)
    return _BARRIER.sub(r"\1nop", instructions) if isinstance(instructions, str) else instructions


def make_einsum(spec: str, arg_names: Any, **more: Any) -> TranslationUnit:
    """Create a unit of the kernel of :func:`polyloop.make_einsum`."""
    return TranslationUnit.of(_EINSUM(spec, arg_names, **_accepted("make_einsum", more)))


def make_program(kernel: Any) -> TranslationUnit:
    """Return the unit of *kernel*."""
    return TranslationUnit.of(plain(kernel))


def _accepted(function: str, options: Mapping[str, Any]) -> dict[str, Any]:
    for name, hint in _INSTEAD.items():
        if options.get(name):
            problem = Diagnostic("no-such-option", f"'{name}' cannot be given", hints=(hint,))
            raise KernelError(function, None, [problem])
    found = {name: value for name, value in options.items() if name not in _NO_EFFECT and name not in _INSTEAD}
    if isinstance(found.get("default_order"), Auto):
        del found["default_order"]
    return found


def _as_function(unit: TranslationUnit, name: str) -> Function | ForeignFunction:
    """Return the function of a unit of one, under another name."""
    if len(unit.creations) != 1:
        hint = "make one function, and merge others with lp.merge"
        problem = Diagnostic("bad-function", f"'{name}' is not one function", (), (hint,))
        raise KernelError("register_callable", None, [problem])
    creation = unit.creations[0]
    return creation.renamed(name).function([entry for entry in unit.functions if entry.name != creation.name])


def merge(translation_units: Sequence[Any]) -> TranslationUnit:
    """Return one unit of several: kernels may call the functions of all of them.

    Raises
    ------
    KernelError
        ``name-taken``.
    """
    units = [entry if isinstance(entry, TranslationUnit) else make_program(entry) for entry in translation_units]
    names = [name for unit in units for name in unit.entrypoints]
    if len({*names}) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        hint = "give one of them another name: make_kernel(.., name=..)"
        raise KernelError("merge", None, [Diagnostic("name-taken", f"there are two kernels '{twice}'", (), (hint,))])
    wanted = {entry.missing for unit in units for entry in unit.waiting}
    done = {name: kernel for unit in units for name, kernel in unit.called.items()}
    marks = {key: tags for unit in units for key, tags in unit.marks.items()}
    merged = TranslationUnit(
        tuple(entry for unit in units for entry in unit.creations),
        {name: kernel for unit in units for name, kernel in unit.kernels.items() if name not in wanted},
        waiting=tuple(entry for unit in units for entry in unit.waiting), options=units[0].options, marks=marks,
        called=done)
    called = [made for unit in units for made in unit.functions]
    called += [entry.function(unit.functions) for unit in units for entry in unit.creations
               if entry.is_entry and entry.name in wanted]  # fmt: skip
    return merged.with_functions(called)


def register_callable(
    translation_unit: TranslationUnit, function_identifier: str, callable_: Any, redefining_not_ok: bool = True
) -> TranslationUnit:  # fmt: skip
    """Return the unit whose kernels may call a function by the name *function_identifier*.

    Parameters
    ----------
    callable_
        A unit of :func:`make_function`, a :class:`polyloop.Function`, a :class:`polyloop.ForeignFunction`, or a
        :class:`polyloop.loopy.ScalarCallable`.

    Raises
    ------
    KernelError
        ``bad-function``; as :func:`polyloop.make_kernel`, of kernels that waited for it.
    """
    del redefining_not_ok
    if isinstance(callable_, TranslationUnit):
        return translation_unit.with_functions([_as_function(callable_, function_identifier)])
    if hasattr(callable_, "with_types"):
        if hasattr(callable_, "emit_call_insn"):
            return _with_external(translation_unit, function_identifier, callable_)
        return translation_unit.with_functions(foreign_of(callable_, function_identifier))
    if isinstance(callable_, Function | ForeignFunction) and callable_.name == function_identifier:
        return translation_unit.with_functions([callable_])
    hint = "pass what lp.make_function returns, or a pl.ForeignFunction of this name with its C text as preamble"
    message = f"'{function_identifier}' cannot be a {type(callable_).__name__}"
    raise KernelError("register_callable", None, [Diagnostic("bad-function", message, (), (hint,))])


def _with_external(unit: TranslationUnit, name: str, callable_: Any) -> TranslationUnit:
    """Return the unit whose kernels that wait for *name* have calls that *callable_* writes."""
    waiting = [entry for entry in unit.waiting if entry.missing == name]
    changed = replace(unit, waiting=tuple(entry for entry in unit.waiting if entry.missing != name),
                      creations=tuple(entry for entry in unit.creations if entry not in [w.creation for w in waiting]))
    for entry in waiting:
        changed = changed.with_creation(with_external(entry.creation, name, callable_), entry.steps)
    return changed


def inline_callable_kernel(translation_unit: TranslationUnit, function_name: str) -> TranslationUnit:
    """Return the unit as it is: functions are in place where they are called, from the beginning.

    Raises
    ------
    KernelError
        ``unknown-function``.
    """
    if function_name not in {entry.name for entry in translation_unit.functions}:
        problem = Diagnostic("unknown-function", f"no function '{function_name}'", (), ("lp.merge it first",))
        raise KernelError("inline_callable_kernel", None, [problem])
    return translation_unit


def rename_callable(
    translation_unit: TranslationUnit, old_name: str, new_name: str | None = None, existing_ok: bool = False
) -> TranslationUnit:  # fmt: skip
    """Return the unit with a kernel called *new_name*.

    Raises
    ------
    KernelError
        ``which-kernel``: there is none of this name.
    """
    del existing_ok
    if new_name is None:
        raise refused("rename_callable", "give new_name")
    kernel = translation_unit.only(old_name)
    others = {name: entry for name, entry in translation_unit.kernels.items() if name != old_name}
    creations = tuple(entry.renamed(new_name) if entry.name == old_name else entry
                      for entry in translation_unit.creations)  # fmt: skip
    return replace(translation_unit, kernels={**others, new_name: replace(kernel, name=new_name)}, creations=creations)


def set_options(translation_unit: TranslationUnit, *options: Any, **more: Any) -> TranslationUnit:
    """Return the unit with other :class:`Options`.

    Raises
    ------
    ArgumentError
        ``no-such-option``.
    """
    changed = translation_unit.options.changed(options[0] if options else None, **more)
    return replace(translation_unit, options=changed)

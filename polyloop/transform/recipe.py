"""``Recipe``: a trace as data, applied to other kernels with other names and numbers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

from polyloop.display import Shown
from polyloop.edge.calls import public
from polyloop.edge.checks import fits
from polyloop.edge.data import parse_json
from polyloop.edge.words import shown
from polyloop.errors import Diagnostic, TransformError, unknown_name
from polyloop.kernel.arrays import ArrayArg
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.trace import Change, Kind, Trace, steps_text
from polyloop.serial.value import Value
from polyloop.transform.base import Applied
from polyloop.transform.declare import Names, fields_of
from polyloop.transform.stored import applied_of

__all__ = ["Recipe"]

_NAME: Final = re.compile(r"(?<![\w.])[A-Za-z_]\w*(?![\w:])", re.ASCII)
_WORDS: Final = frozenset({Names.NOTHING, Names.TAG})
"""Of texts that name nothing in a kernel."""
_KINDS: Final = frozenset(kind.value for kind in Kind)


class _Text(str):
    """Text whose ``repr`` has no quotes: the name of a parameter in a script."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


@dataclass(frozen=True, eq=False)
class Recipe(Value, Shown):
    """Transforms as data, to be applied to kernels that they were not written for.

    ::

        recipe = pl.Recipe.of(pl.split_iname(knl, "i", 128, outer_tag="g.0", inner_tag="l.0"))
        recipe = recipe.with_parameters(block="1.inner_length")
        fast = recipe.apply(other, rename={"i": "row"}, block=256)

    Attributes
    ----------
    steps
        The transforms in their order.
    places
        Parameter -> position of its value: ``"1.inner_length"`` is an argument of the first step.
    """

    steps: tuple[Applied, ...] = ()
    places: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    # {{{ as data

    @classmethod
    @public
    def of(cls, source: LoopKernel | Trace) -> Recipe:
        """Return the recipe by which a kernel was transformed."""
        trace = source.trace if isinstance(source, LoopKernel) else source
        steps = []
        for step in trace:
            if not isinstance(step, Applied):
                raise _bad(f"it has {shown(step)} for a step")
            steps.append(step)
        return cls(tuple(steps))

    @classmethod
    @public
    def from_json(cls, text: str) -> Recipe:
        """Return the recipe that :meth:`to_json`, or ``Trace.to_json``, wrote.

        Raises
        ------
        TransformError
            ``bad-trace``, ``unknown-transform``, ``unknown-parameter``.
        """
        try:
            found = parse_json(text)
        except ValueError as error:
            raise _bad(str(error)) from error
        if isinstance(found, list):
            found = {"steps": found}
        if not isinstance(found, dict) or not isinstance(found.get("steps"), list):
            raise _bad("it has no steps")
        steps = tuple(map(_step, found["steps"]))
        places = found.get("parameters", {})
        if not fits(Mapping[str, str | list[str]], places):
            raise _bad("its parameters are no mapping from names to places")
        return cls(steps).with_parameters(**places)

    def to_json(self) -> str:
        """Return the recipe as JSON."""
        steps = []
        for step in self.steps:
            changes = [[change.kind.value, change.gone, change.made] for change in step.changes]
            steps.append({**step.data(), "changes": changes})
        places = {name: list(at) for name, at in self.places.items()}
        return json.dumps({"steps": steps, "parameters": places}, indent=2)

    def __str__(self) -> str:
        lines = [f"{name} = {value!r}" for name, value in self.parameters.items()]
        for number, step in enumerate(self.steps, 1):
            given = self._arguments(number, {name: _Text(name) for name in self.places})
            arguments = ", ".join(["knl", *(f"{name}={value!r}" for name, value in given.items())])
            lines.append(f"knl = pl.{step.transform.name}({arguments})  # step {number}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        given = f", with parameters {', '.join(self.places)}" if self.places else ""
        return f"<Recipe {steps_text(step.call() for step in self.steps)}{given}>"

    def __len__(self) -> int:
        return len(self.steps)

    def __add__(self, other: Recipe) -> Recipe:
        """Return the recipe that goes on with *other*; parameters of one name are one parameter."""
        places = dict(self.places)
        for name, at in other.places.items():
            moved = [_shifted(place, len(self)) for place in at]
            places[name] = (*places.get(name, ()), *moved)
        return Recipe((*self.steps, *other.steps), places)

    # }}}

    # {{{ parameters

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters and the values that were recorded for them."""
        return {name: self._recorded(places[0]) for name, places in self.places.items()}

    @public
    def with_parameters(self, **places: str | Sequence[str]) -> Recipe:
        """Return the recipe with values that each application may choose.

        ::

            recipe.with_parameters(tile=["1.inner_length", "2.inner_length"], block="3.lengths.i")

        Parameters
        ----------
        places
            Where the value of each parameter stands: step, argument, and the key inside of it; ``print(recipe)`` shows
            them.

        Raises
        ------
        TransformError
            ``unknown-parameter``, with the arguments that the step has; ``name-taken`` for the name ``rename``.
        """
        new = dict(self.places)
        for name, given in places.items():
            if name in ("rename", "kernel", "self"):
                hints = ("choose another name",)
                raise _refusal(None, [Diagnostic("name-taken", f"no parameter can be called '{name}'", hints=hints)])
            new[name] = (given,) if isinstance(given, str) else tuple(given)
            if not new[name]:
                hints = ('pass the place, or the places, that it stands for: block="1.inner_length"',)
                raise _refusal(None, [Diagnostic("unknown-parameter", f"'{name}' stands for no place", hints=hints)])
            for place in new[name]:
                self._recorded(place)
        return Recipe(self.steps, new)

    def _loaded(self) -> None:
        """Check the places of a recipe that was read, as those that it is given."""
        Recipe(self.steps).with_parameters(**self.places)

    def _recorded(self, place: str) -> Any:  # noqa: ANN401 - JSON values
        """Return the value at *place*."""
        number, *path = place.split(".")
        if not (number.isdecimal() and 1 <= int(number) <= len(self) and path):
            hints = (f'write step and argument, "1.inner_length"; there are {len(self)} steps',)
            raise _refusal(None, [Diagnostic("unknown-parameter", f"'{place}' is no place in the recipe", hints=hints)])
        step = self.steps[int(number) - 1]
        value: Any = {**_defaults(step), **_plain(step)}
        for key in path:
            keys = list(value) if isinstance(value, dict) else list(map(str, range(len(_listed(value)))))
            if key not in keys:
                known = ", ".join(keys) or "none"
                hints = (f"known: {known}",)
                message = f"'{place}' is no place in the recipe: step {number} is {step.call()}"
                raise _refusal(None, [Diagnostic("unknown-parameter", message, hints=hints)])
            value = value[key] if isinstance(value, dict) else value[int(key)]
        return value

    def _arguments(self, number: int, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of a step with the values of parameters put in."""
        step = self.steps[number - 1]
        given = _plain(step)
        for name, value in values.items():
            for place in self.places[name]:
                at, *path = place.split(".")
                if int(at) == number:
                    given = _with(given, path, value)
        return given

    # }}}

    @public
    def apply(self, kernel: LoopKernel, *, rename: Mapping[str, str] | None = None, **values: Any) -> LoopKernel:  # noqa: ANN401 - whatever the steps take
        """Return *kernel* with the steps applied, each of them checked as always.

        Parameters
        ----------
        rename
            Name in the recipe -> name in *kernel*: of inames, arrays, instructions, parameters.  Names that steps make
            follow: where the recipe says ``i_inner``, ``{"i": "row"}`` lets it mean ``row_inner``.
        values
            The values of parameters; by default those that were recorded.

        Raises
        ------
        TransformError
            What the step that does not fit raises, with the step, what it refers to, and what the kernel has;
            ``unknown-parameter``, ``bad-value`` for *values*; ``unknown-name`` where no step mentions what is renamed.
        """
        names = dict(rename or {})
        if found := [*self._value_violations(values), *self._name_violations(names)]:
            raise _refusal(kernel, found)
        for number, step in enumerate(self.steps, 1):
            arguments = _renamed(step, self._arguments(number, values), names)
            present = applied_of(step.transform.name, arguments)
            try:
                kernel = present.transform(kernel)
            except TransformError as error:
                found = [self._explained(kernel, number, present, names, finding) for finding in error.found]
                raise _refusal(kernel, found) from error
            done = kernel.trace.steps[-1]
            names |= _paired(step.changes, done.changes, names)
        return kernel

    def _value_violations(self, values: Mapping[str, Any]) -> Iterator[Diagnostic]:
        recorded = self.parameters
        for name, value in values.items():
            if name not in recorded:
                yield unknown_name("parameter", name, recorded)
            elif recorded[name] is not None and type(value) is not type(recorded[name]):
                message = f"parameter '{name}' of the recipe cannot be {value!r}"
                yield Diagnostic("bad-value", message, hints=(f"it was {recorded[name]!r}",))

    @property
    def names(self) -> frozenset[str]:
        """The names that its steps mention, which :meth:`apply` can replace."""
        mentioned: set[str] = set()
        for step in self.steps:
            _renamed(step, _plain(step), _Listening(mentioned))
        return frozenset(mentioned)

    def _name_violations(self, names: Mapping[str, str]) -> Iterator[Diagnostic]:
        mentioned = self.names
        for name in names:
            if name not in mentioned:
                hints = (f"its steps mention {', '.join(sorted(mentioned))}",)
                yield Diagnostic("unknown-name", f"no step of the recipe mentions '{name}'", hints=hints)

    def _explained(
        self, kernel: LoopKernel, number: int, step: Applied, names: Mapping[str, str], finding: Diagnostic
    ) -> Diagnostic:
        """Return *finding* with notes on the step, and on the names that the kernel has instead."""
        notes = [*finding.notes, f"step {number} of the recipe is {step.call()}"]
        hints = list(finding.hints)
        if finding.subject:
            notes.append(f"'{kernel.name}' has {_inventory(kernel, finding.code)}")
            meant = next((old for old, new in names.items() if new == finding.subject), finding.subject)
            maker = self._maker(number, meant)
            if maker:
                notes.append(f"in the recipe, '{meant}' was made by step {maker}: {self.steps[maker - 1].call()}")
            else:
                hints.append(f'name it here: recipe.apply({kernel.name}, rename={{"{meant}": ".."}})')
        return replace(finding, notes=tuple(notes), hints=tuple(hints))

    def _maker(self, before: int, name: str) -> int:
        """Return the number of the step that made a name, 0 if it was there from the beginning."""
        made = [
            number
            for number, step in enumerate(self.steps[: before - 1], 1)
            if any(name in change.made for change in step.changes)
        ]
        return made[-1] if made else 0


# {{{ arguments of steps


def _plain(step: Applied) -> dict[str, Any]:
    """Return the arguments of a step as JSON values."""
    given = step.data()["arguments"]
    assert isinstance(given, dict), "a step has its arguments by name"
    return given


def _defaults(step: Applied) -> dict[str, Any]:
    """Return the arguments that a step leaves open, none where it takes any."""
    given = {entry.name: getattr(step.transform, entry.name) for entry in fields(step.transform)}
    return {name: value for name, value in given.items() if value is None or isinstance(value, str | int | float)}


def _listed(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else ()


def _with(value: Any, path: Sequence[str], new: Any) -> Any:  # noqa: ANN401 - JSON values
    """Return *value* with *new* at *path*."""
    if not path:
        return new
    first, *rest = path
    if isinstance(value, dict):
        return {**value, first: _with(value.get(first), rest, new)}
    return [_with(entry, rest, new) if str(at) == first else entry for at, entry in enumerate(value)]


def _shifted(place: str, count: int) -> str:
    number, _, path = place.partition(".")
    return f"{int(number) + count}.{path}"


def _step(entry: object) -> Applied:
    """Return a step that was read from JSON."""
    if not isinstance(entry, dict) or not {"name", "arguments"} <= entry.keys():
        raise _bad(f"no step: {json.dumps(entry)}")
    found = entry.get("changes", [])
    if not fits(list[tuple[str, list[str], list[str]]], found) or any(kind not in _KINDS for kind, _, _ in found):
        raise _bad(f"no changes of names: {json.dumps(found)}")
    changes = tuple(Change(Kind(kind), tuple(gone), tuple(made)) for kind, gone, made in found)
    return replace(applied_of(entry["name"], entry["arguments"]), changes=changes)


# }}}

# {{{ names


class _Listening(dict[str, str]):
    """Identity renaming that records the names looked up."""

    def __init__(self, heard: set[str]) -> None:
        super().__init__()
        self.heard = heard

    def get(self, key: str, default: Any = None) -> Any:  # noqa: ANN401 - as of a dictionary
        """Return *default*."""
        self.heard.add(key)
        return default


def _renamed(step: Applied, arguments: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Return the arguments of a step with the names of a kernel replaced, where a text names something in it."""

    def text(found: re.Match[str]) -> str:
        return str(names.get(found.group(), found.group()))

    def value(given: Any, keys: Names | None, values: Names | None) -> Any:  # noqa: ANN401 - JSON values
        if isinstance(given, dict):
            return {value(key, keys, keys): value(entry, values, values) for key, entry in given.items()}
        if isinstance(given, list):
            return [value(entry, values, values) for entry in given]
        return _NAME.sub(text, given) if isinstance(given, str) and values not in _WORDS else given

    declared = fields_of(type(step.transform))
    new = {}
    for name, given in arguments.items():
        keys = declared[name].names if name in declared else None
        keyed = declared[name].keyed if name in declared else None
        new[name] = value(given, keys, keyed.values if keyed else keys)
    return new


def _paired(recorded: Sequence[Change], present: Sequence[Change], names: Mapping[str, str]) -> dict[str, str]:
    """Return recorded name -> present name, for the names that a step introduced.

    They correspond by their order, if there are as many; otherwise by what they were made of.
    """
    found: dict[str, str] = {}
    for kind in Kind:
        old, new = ([name for change in side if change.kind is kind for name in change.made]
                    for side in (recorded, present))  # fmt: skip
        if len(old) == len(new):
            found |= dict(zip(old, new, strict=True))
        else:
            known = {earlier: later for later in new for earlier in [_made_of(later, names)]}
            found |= {name: known[name] for name in (old or known) if name in known}
    return {old: new for old, new in found.items() if old != new}


def _made_of(name: str, names: Mapping[str, str]) -> str:
    """Return the name that *name* would have if it had been made of names in the recipe."""
    for old, new in names.items():
        name = re.sub(rf"(?<![A-Za-z0-9]){re.escape(new)}(?![A-Za-z0-9])", old, name)
    return name


# }}}

# {{{ messages


_INVENTORY: Final[Mapping[str, tuple[str, Callable[[LoopKernel], Sequence[str]]]]] = {
    "unknown-iname": ("inames", lambda kernel: kernel.inames),
    "unknown-instruction": ("instructions", lambda kernel: [i.id for i in kernel.instructions]),
    "unknown-parameter": ("parameters", lambda kernel: kernel.parameters),
    "unknown-temporary": ("temporaries", lambda kernel: list(kernel.temporaries)),
    "unknown-rule": ("rules", lambda kernel: list(kernel.substitutions)),
    "unknown-argument": ("arguments", lambda kernel: [argument.name for argument in kernel.arguments]),
    "unknown-array": ("arrays", lambda kernel: [a.name for a in kernel.arrays().values() if _is_array(a)]),
}


def _is_array(entry: object) -> bool:
    return isinstance(entry, ArrayArg) or bool(getattr(entry, "shape", ()))


def _inventory(kernel: LoopKernel, code: str) -> str:
    what, names = _INVENTORY.get(code, ("arrays and temporaries", lambda other: list(other.arrays())))
    return f"{what} {', '.join(found)}" if (found := names(kernel)) else f"no {what}"


def _refusal(kernel: LoopKernel | None, found: Sequence[Diagnostic]) -> TransformError:
    operation = "Recipe.apply" if kernel else "Recipe"
    return TransformError(operation, kernel.name if kernel else None, found)


def _bad(why: str) -> TransformError:
    hints = ("pass what Recipe.to_json() or Trace.to_json() returned",)
    return TransformError("Recipe", None, [Diagnostic("bad-trace", "this is not a recipe", (why,), hints)])


# }}}

"""Registry of all transforms by name, the source of methods, replayed traces and tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Final, TypeVar

from polyloop.edge.calls import public
from polyloop.edge.first import imported
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.trace import Trace
from polyloop.transform.declare import function_of
from polyloop.transform.index import HOMES

if TYPE_CHECKING:  # an import of the package does without all that a transform needs
    from polyloop.transform.base import Transform

__all__ = ["FUNCTIONS", "TRANSFORMS", "install_methods"]

_T = TypeVar("_T")

class _Catalogue(Mapping[str, _T]):
    """Values made of each transform on first use."""

    def __init__(self, made: Callable[[str], _T]) -> None:
        self._made = cache(made)

    def __getitem__(self, name: str) -> _T:
        return self._made(name)

    def __contains__(self, name: object) -> bool:
        return name in HOMES

    def __iter__(self) -> Iterator[str]:
        return iter(HOMES)

    def __len__(self) -> int:
        return len(HOMES)


def _class(name: str) -> type[Transform]:
    found: type[Transform] = getattr(imported(f"polyloop.transform.{HOMES[name]}"), name.title().replace("_", ""))
    return found


TRANSFORMS: Final[Mapping[str, type[Transform]]] = _Catalogue(_class)
"""The classes, by the name of the public function."""


def _function(name: str) -> Callable[..., LoopKernel]:
    """Return the public function of a transform, its arguments checked."""
    return public(function_of(TRANSFORMS[name]))


FUNCTIONS: Final[Mapping[str, Callable[..., LoopKernel]]] = _Catalogue(_function)
"""The public functions, which are also methods of ``LoopKernel``."""


class _Method:
    """Descriptor of a method that loads its transform when it is first used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, kernel: LoopKernel | None, owner: type[LoopKernel]) -> Callable[..., LoopKernel]:
        function = FUNCTIONS[self._name]
        setattr(LoopKernel, self._name, function)
        method: Callable[..., LoopKernel] = getattr(owner if kernel is None else kernel, self._name)
        return method


class _Reader:
    """Descriptor of ``Trace.from_json``, which loads it when it is first used."""

    def __get__(self, trace: Trace | None, owner: type[Trace]) -> Callable[[str], Trace]:
        Trace.from_json = staticmethod(public(imported("polyloop.transform.stored").trace_from_json))
        return owner.from_json


def install_methods() -> None:
    """Make every transform a method, ``knl.split_iname("i", 16)``, and let traces be read."""
    for name in HOMES:
        setattr(LoopKernel, name, _Method(name))
    setattr(Trace, "from_json", _Reader())  # noqa: B010 - the types know only the function

"""Methods of low layers that draw: made when the package is imported, loaded when first used.

A kernel, a result and what :class:`polyloop.display.Shown` is a base of cannot import what draws them, which is above
them.  So the methods are put there from here, as those of transforms are (``transform/registry.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from polyloop.display import Drawing, Shown
from polyloop.edge.calls import public
from polyloop.edge.first import imported
from polyloop.kernel.kernel import LoopKernel

__all__ = ["DRAWN", "RESULTS", "install_pictures"]

DRAWN: Final = {
    "diff": "difference",
    "draw_accesses": "accesses",
    "draw_dependences": "dependences",
    "draw_domain": "domain",
    "draw_footprint": "footprint",
    "draw_layout": "layout",
    "draw_loops": "loops",
    "draw_pipeline": "pipeline",
    "draw_roofline": "roofline",
}
"""The functions whose first argument is a kernel, which are methods too, by name: the module of each."""

RESULTS: Final = {"Tuned": ("tuned", "draw_tuned")}
"""The module and the function that draw a result, by the name of its class."""


class _Drawing:
    """Descriptor of a method that loads what draws when it is first used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, kernel: LoopKernel | None, owner: type[LoopKernel]) -> Callable[..., Any]:
        function = public(getattr(imported(f"polyloop.viz.{DRAWN[self._name]}"), self._name))
        setattr(LoopKernel, self._name, function)
        method: Callable[..., Any] = getattr(owner if kernel is None else kernel, self._name)
        return method


def _loops(kernel: LoopKernel) -> object:
    """Return the picture of the loops of *kernel*: :func:`polyloop.draw_loops`."""
    return kernel.draw_loops()


def _html(shown: Shown) -> str:
    """Return the HTML form of an object, for notebooks."""
    form: str = imported("polyloop.viz.notebook").html_of(shown)
    return form


def _picture(shown: Shown) -> Drawing:
    """Return the picture of a result that draws itself."""
    module, name = RESULTS[type(shown).__name__]
    drawing: Drawing = getattr(imported(f"polyloop.viz.{module}"), name)(shown)
    return drawing


def install_pictures() -> None:
    """Make the functions that draw kernels methods, ``knl.draw_loops()``, and let notebooks show HTML."""
    for name in DRAWN:
        setattr(LoopKernel, name, _Drawing(name))
    setattr(LoopKernel, "loops", property(_loops))  # noqa: B010 - the types know it from the stub
    setattr(Shown, "_repr_html_", _html)  # noqa: B010 - the types know no such method
    setattr(Shown, "_picture", _picture)  # noqa: B010 - as above

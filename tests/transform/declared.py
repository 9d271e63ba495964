"""What follows from the declarations of transforms as text: their index, and the methods as type checkers see them.

``python -m tests.transform.declared`` writes both anew.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import types
from collections.abc import Iterator
from pathlib import Path
from textwrap import wrap
from typing import Annotated, Any, Final, Union, get_args, get_origin

import polyloop
import polyloop.transform
from polyloop.transform.base import Transform
from polyloop.transform.declare import function_of
from polyloop.viz.methods import DRAWN

ROOT: Final = Path(polyloop.__file__).parent
_WIDTH: Final = 120
_PACKAGE: Final = "polyloop.transform."


def transforms() -> Iterator[type[Transform]]:
    """Yield every transform that there is, each once."""
    found = {}
    for module in pkgutil.walk_packages(polyloop.transform.__path__, _PACKAGE):
        for kind in vars(importlib.import_module(module.name)).values():
            if isinstance(kind, type) and issubclass(kind, Transform) and not inspect.isabstract(kind):
                found[kind.name] = kind
    yield from (found[name] for name in sorted(found))


def index() -> str:
    """Return the module of each transform as Python."""
    homes = ((kind.name, kind.__module__.removeprefix(_PACKAGE)) for kind in transforms())
    lines = [
        '"""The module of each transform, loaded when first used; ``python -m tests.transform.declared`` writes it."""',
        "",
        "from __future__ import annotations",
        "",
        "from collections.abc import Mapping",
        "from typing import Final",
        "",
        '__all__ = ["HOMES"]',
        "",
        "HOMES: Final[Mapping[str, str]] = {",
        *(f'    "{name}": "{home}",' for name, home in homes),
        "}",
    ]
    return "\n".join(lines) + "\n"


class _Spelling:
    """Annotations as text, and the names that have to be imported for them."""

    def __init__(self) -> None:
        self.imports: set[tuple[str, str]] = set()

    def __call__(self, hint: Any) -> str:
        origin, arguments = get_origin(hint), get_args(hint)
        if hint is None or hint is types.NoneType:
            return "None"
        if origin is Annotated:
            return self(arguments[0])
        if origin in (Union, types.UnionType):
            return " | ".join(dict.fromkeys(map(self, arguments)))
        if hint is ...:
            return "..."
        if isinstance(hint, list):
            return f"[{', '.join(map(self, hint))}]"
        kind = hint if origin is None else origin
        if kind.__module__ != "builtins":
            self.imports.add((kind.__module__.removesuffix("._isl"), kind.__name__))
        return kind.__name__ if origin is None else f"{kind.__name__}[{', '.join(map(self, arguments))}]"


def _method(kind: type[Transform], spell: _Spelling) -> str:
    """Return a transform as a method: the first line of its documentation is there for editors."""
    function = function_of(kind)
    parts = []
    for entry in inspect.signature(function, eval_str=True).parameters.values():
        if entry.kind is entry.KEYWORD_ONLY and "*" not in parts:
            parts.append("*")
        if entry.name == "kernel":
            parts.append("kernel")
            if entry.kind is entry.POSITIONAL_ONLY:
                parts.append("/")
            continue
        star = "**" if entry.kind is entry.VAR_KEYWORD else ""
        default = "" if entry.default is entry.empty else f" = {_shown(entry.default)}"
        parts.append(f"{star}{entry.name}: {spell(entry.annotation)}{default}")
    head = f"    def {kind.name}("
    line = f"{head}{', '.join(parts)}) -> LoopKernel:"
    if len(line) > _WIDTH:
        inside = f"        {', '.join(parts)}\n"
        each = "".join(f"        {part},\n" for part in parts)
        line = f"{head}\n{inside if len(inside) <= _WIDTH else each}    ) -> LoopKernel:"
    summary = (kind.__doc__ or "").partition("\n")[0]
    return f'{line}\n        """{summary}"""\n'


def _shown(value: object) -> str:
    return re.sub("^'(.*)'$", r'"\1"', repr(value))


def _drawing(name: str, spell: _Spelling) -> str:
    """Return a function that draws a kernel, as a method."""
    function = inspect.unwrap(getattr(importlib.import_module(f"polyloop.viz.{DRAWN[name]}"), name))
    parts = []
    for number, entry in enumerate(inspect.signature(function, eval_str=True).parameters.values()):
        if entry.kind is entry.KEYWORD_ONLY and "*" not in parts:
            parts.append("*")
        default = "" if entry.default is entry.empty else f" = {_shown(entry.default)}"
        parts.append(f"{entry.name}: {spell(entry.annotation)}{default}" if number else "kernel")
    inside = "".join(f"        {part},\n" for part in parts)
    summary = (function.__doc__ or "").partition("\n")[0]
    return f'    def {name}(\n{inside}    ) -> Picture:\n        """{summary}"""\n'


_LOOPS: Final = '''    @property
    def loops(kernel) -> Picture:
        """The loops of the kernel as a picture: ``draw_loops()``."""
'''


def methods() -> str:
    """Return transforms and what draws as a stub: methods of a class, and the functions of the transforms."""
    spell = _Spelling()
    spell.imports |= {("polyloop.kernel.kernel", "LoopKernel"), ("polyloop.kernel.called", "Called")}
    kinds = [*transforms()]
    spell.imports.add(("polyloop.viz.picture", "Picture"))
    texts = [*(_method(kind, spell) for kind in kinds), *(_drawing(name, spell) for name in DRAWN), _LOOPS]
    modules: dict[str, list[str]] = {}
    for module, name in sorted(spell.imports):
        modules.setdefault(module, []).append(name)
    lines: dict[int, list[str]] = {}
    for module, names in modules.items():
        rank = 0 if module in ("collections.abc", "typing") else 2 if module.startswith("polyloop") else 1
        lines.setdefault(rank, []).append(f"from {module} import {', '.join(sorted(names))}")
    listed = ", ".join(f'"{kind.name}"' for kind in kinds)
    return "\n".join(
        [
            "# Transforms as type checkers see them: written by `python -m tests.transform.declared`.",
            "",
            *"\n\n".join("\n".join(lines[rank]) for rank in sorted(lines)).split("\n"),
            "",
            "__all__ = [",
            *wrap(listed, _WIDTH, initial_indent="    ", subsequent_indent="    "),
            "]",
            "",
            "class Methods(Called):",
            *(text.rstrip("\n") for text in texts),
            "",
            *(f"{kind.name} = Methods.{kind.name}" for kind in kinds),
        ]
    ) + "\n"


FILES: Final = {ROOT / "transform" / "index.py": index, ROOT / "kernel" / "methods.pyi": methods}


if __name__ == "__main__":
    for path, text in FILES.items():
        path.write_text(text(), encoding="utf-8")

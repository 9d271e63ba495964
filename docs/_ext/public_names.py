"""Directives for pages of public names: ``.. public-names::`` lists them, ``.. transforms::`` has those of a family.

Each name gets an entry in a table and its docstring behind it.  Signatures are those that a caller sees.
"""

from __future__ import annotations

import inspect
import re
import sys
import types
import typing
from collections.abc import Iterator
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.docutils import SphinxDirective
from sphinx.util.inspect import stringify_signature

import polyloop as pl
from polyloop.transform.index import HOMES

MADE_BY_FUNCTIONS = {
    "Batched", "BoundCall", "Certificate", "CompiledKernel", "Dependence", "Dependences", "DeviceLaunch", "Function",
    "GeneratedProgram", "JaxFunction", "LaunchCheck", "LoopKernel", "MemAccess", "Op", "Picture",
    "SpecializingKernel", "Sync", "Target", "Trace", "Tuned",
}  # fmt: skip
"""Classes of results: their constructors are no interface."""

TYPES = {name for name in pl.__all__ if isinstance(getattr(pl, name), type) and getattr(pl, name).__module__ == "numpy"}
"""Types of elements, which are NumPy's."""


def summary(name: str) -> str:
    """Return the first sentence of the documentation of a name."""
    if name in TYPES:
        return f"NumPy's type ``{name}``."
    text = inspect.getdoc(getattr(pl, name)) or ""
    text = re.sub(r":meth:`(\w+)`", r"``\1``", text)  # methods have their name in their class alone
    return " ".join(text.partition("\n\n")[0].split())


def directives(name: str) -> Iterator[str]:
    """Yield the lines that document a name."""
    value = getattr(pl, name)
    if name in TYPES:
        yield from (f".. py:class:: {name}", "", f"   {summary(name)}", "")
        return
    if isinstance(value, types.ModuleType):
        yield from (f".. py:data:: {name}", "", *(f"   {line}" for line in inspect.getdoc(value).splitlines()), "")
        return
    if isinstance(value, type):
        kind = "exception" if issubclass(value, Exception | Warning) else "class"
        yield from (f".. auto{kind}:: {name}", "   :members:")
        if kind == "exception":
            yield "   :show-inheritance:"
        if name == "LoopKernel":
            yield f"   :exclude-members: {', '.join(HOMES)}"
    elif callable(value):
        yield f".. autofunction:: {name}"
    else:
        yield f".. autodata:: {name}"
    yield ""


class PublicNames(SphinxDirective):
    """Documentation of the names in the content."""

    has_content = True

    def names(self) -> list[str]:
        """Return the names, in their order."""
        return [name for line in self.content for name in line.replace(",", " ").split()]

    def run(self) -> list[nodes.Node]:
        """Return the table of the names, and the entry of each."""
        lines = [".. py:currentmodule:: polyloop", "", ".. list-table::", "   :class: names", "   :widths: 35 65", ""]
        for name in self.names():
            lines += [f"   * - :py:obj:`{name} <polyloop.{name}>`", f"     - {summary(name)}"]
        lines.append("")
        for name in self.names():
            lines += directives(name)
        holder = nodes.Element()
        self.state.nested_parse(StringList(lines, source=self.get_source_info()[0]), self.content_offset, holder)
        return holder.children


class Transforms(PublicNames):
    """Documentation of the transforms of a family, a folder of ``polyloop/transform``."""

    has_content = False
    required_arguments = 1

    def names(self) -> list[str]:
        """Return the names of the family; those that are in none are a family of their own, called ``other``."""
        family = self.arguments[0]
        return [name for name, home in HOMES.items() if (home.split(".")[0] if "." in home else "other") == family]


def signature(
    app: Sphinx, what: str, name: str, value: Any, options: Any, args: str | None, result: str | None
) -> tuple[str | None, str | None] | None:
    """Return the signature as callers see it: without the package's notes to itself in annotations."""
    if what in ("class", "exception") and (what == "exception" or name.rpartition(".")[2] in MADE_BY_FUNCTIONS):
        return "", None
    if what not in ("class", "function", "method") or not callable(value) or args is None:
        return None
    maker = inspect.unwrap(value.__init__ if isinstance(value, type) else value)
    try:
        found, hints = inspect.signature(value), typing.get_type_hints(maker, vars(sys.modules[maker.__module__]))
    except (AttributeError, NameError, TypeError, ValueError):
        return None
    own = {key: each for key, each in found.parameters.items() if key != "self"}
    parameters = [each.replace(annotation=hints.get(key, each.annotation)) for key, each in own.items()]
    found = found.replace(parameters=parameters, return_annotation=hints.get("return", found.empty))
    text = stringify_signature(found, unqualified_typehints=True, short_literals=True)
    text = re.sub(r"<class '([\w.]+)'>", r"\1", text).replace("<factory>", "...")
    given, arrow, returned = text.rpartition(" -> ")
    return (given, returned) if arrow and what != "class" else (given or text, None)


def known_elsewhere(app: Sphinx, env: BuildEnvironment, node: addnodes.pending_xref, inner: Any) -> nodes.Node | None:
    """Resolve a type that a signature has by its home in the package; types that are not public are no links."""
    target = node.get("reftarget", "")
    short = target.rpartition(".")[2]
    if node.get("refdomain") != "py":
        return None
    if short in pl.__all__ and target != f"polyloop.{short}":
        domain = env.domains["py"]
        return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", f"polyloop.{short}", node, inner)
    return inner if node.get("reftype") == "class" or target.startswith("numpy.") else None


def setup(app: Sphinx) -> dict[str, bool]:
    """Register all of it."""
    app.setup_extension("sphinx.ext.autodoc")
    app.add_directive("public-names", PublicNames)
    app.add_directive("transforms", Transforms)
    app.connect("autodoc-process-signature", signature)
    app.connect("missing-reference", known_elsewhere)
    return {"parallel_read_safe": True}

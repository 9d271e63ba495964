"""Instructions given as C text by the user."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

import pymbolic.primitives as p

from polyloop.display import Shown, brief
from polyloop.errors import Diagnostic, KernelError
from polyloop.expr.names import check_identifier
from polyloop.expr.nodes import CText, Expression, Targets, array_name, element_of
from polyloop.expr.parser import parse_expression
from polyloop.expr.printer import show

__all__ = ["CInstruction"]


@dataclass(frozen=True)
class CInstruction(Shown):
    """An instruction given as C text, for code that expressions cannot state; an entry of the list of instructions.

    ::

        pl.make_kernel(
            "{[i]: 0 <= i < n}",
            [pl.CInstruction("i", "float x = a[i]; while (x > 1.0f) x *= 0.5f; b[i] = x;", {"a"}, ["b[i]"])],
            [pl.GlobalArg("a, b", np.float32, shape="n")])
        ->
        {
            const int i = 32*bx + tx;
            float x = a[i]; ...
        }

    Parameters
    ----------
    iname_exprs
        Values of loops that the text uses: ``"i"``, ``"i, j"``, or pairs of a C name and an expression, such as
        ``("row", "i + 1")``.  Each is a local constant in front of the text.
    code
        C statements, put between braces as they are, on every target; no barriers, no ``return``.  Arguments and
        temporaries have their own names.  Arrays are what C has of them: arguments are pointers to their first element.
    read_variables
        Variables that the text reads: names of arrays (any element), of scalars and of sizes, or elements such as
        ``"a[i]"``.
    assignees
        Variables that the text may assign: ``"t"``, ``"b[i]"``, or ``"b"`` for any element of an array; nothing else.
    predicates
        Conditions: text, or pymbolic expressions.
    convergent
        True: all threads of a block have to reach the text together, because what it calls has barriers or exchanges
        values between lanes.  A place under a condition that may differ between threads is refused
        (``divergent-call``).
    id, depends_on, within_inames, tags
        As ``{id=.., dep=.., inames=+.., tags=..}`` of other instructions.

    Notes
    -----
    Analysis relies on the declaration: each instance reads the old values of its assignees, and *may* write them.  A
    temporary of which each instance has its own value is therefore set by another instruction first. Nothing about
    types is inferred from the text.  The interpreter refuses it.

    This is how a function with effects is called: the declaration is what it reads and what it may write, so that each
    call keeps its place among the accesses to these, or a transform is refused.  A
    :class:`polyloop.ForeignFunction` in an expression has none.
    """

    iname_exprs: Collection[str | tuple[str, str]] | str
    code: str
    read_variables: Collection[str] = frozenset()
    assignees: Collection[str] | str = ()
    predicates: Collection[str | Expression] = field(default=(), kw_only=True)
    id: str | None = field(default=None, kw_only=True)
    depends_on: Collection[str] | str = field(default=(), kw_only=True)
    within_inames: Collection[str] = field(default=(), kw_only=True)
    tags: Collection[str] = field(default=(), kw_only=True)
    convergent: bool = field(default=False, kw_only=True)

    __repr__ = brief

    def __post_init__(self) -> None:
        if not isinstance(self.predicates, str):
            given = [entry if isinstance(entry, str) else show(entry) for entry in self.predicates]
            given = sorted(given) if isinstance(self.predicates, set | frozenset) else given
            object.__setattr__(self, "predicates", given)
        for name in ("iname_exprs", "assignees", "predicates", "depends_on"):
            object.__setattr__(self, name, _entries(getattr(self, name)))
        for name in ("read_variables", "within_inames", "tags"):
            object.__setattr__(self, name, tuple(sorted(_entries(getattr(self, name)))))

    def text(self) -> CText:
        """Return the declared effects of the text: its reads, writes and bound names.

        Raises
        ------
        KernelError
            ``bad-c-instruction``, ``bad-identifier``, ``reserved-name``, and the errors of the expression parser.
        """
        names: dict[str, Expression] = {}
        for entry in dict.fromkeys(self.iname_exprs):
            name, value = (entry, entry) if isinstance(entry, str) else entry
            problem = check_identifier(name)
            if problem is None and name in names:
                problem = _bad(f"'{name}' is bound twice", "name each value once")
            if problem is not None:
                raise KernelError("make_kernel", None, [problem])
            names[name] = parse_expression(value)
        reads = []
        for entry in self.read_variables:
            expr = parse_expression(entry)
            if isinstance(expr, p.Variable):
                names.setdefault(expr.name, expr)
            elif isinstance(element_of(expr), p.Subscript):
                reads.append(expr)
            else:
                message = f"'{entry}' in read_variables is no variable and no element"
                raise KernelError("make_kernel", None, [_bad(message, "write a name, or an element, a[i]")])
        touched = (*map(array_name, self.targets().elements), *map(array_name, reads))
        return CText(self.code, tuple(names), tuple(names.values()), tuple(reads), touched, self.convergent)

    def targets(self) -> Targets:
        """Return the variables and elements that the text may assign."""
        found = []
        for entry in self.assignees:
            expr = parse_expression(entry)
            if not isinstance(element_of(expr), p.Variable | p.Subscript):
                message = f"'{entry}' cannot be assigned"
                raise KernelError("make_kernel", None, [_bad(message, "write a temporary, t, or an element, a[i]")])
            found.append(expr)
        return Targets(tuple(found))

    def __str__(self) -> str:
        return f"C({' '.join(self.code.split())!r})"


def _entries(given: object) -> tuple[object, ...]:
    """Return the entries of a sequence, or of text with commas."""
    if isinstance(given, str):
        return tuple(part.strip() for part in given.split(",") if part.strip())
    assert isinstance(given, Iterable), f"{given!r} is no collection"
    return tuple(tuple(entry) if isinstance(entry, list) else entry for entry in given)


def _bad(message: str, hint: str) -> Diagnostic:
    return Diagnostic("bad-c-instruction", message, hints=(hint,))

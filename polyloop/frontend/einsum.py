"""``make_einsum``: kernels from einsum specifications."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from polyloop.creation.create import make_kernel
from polyloop.edge.calls import public
from polyloop.errors import Diagnostic, KernelError
from polyloop.expr.names import check_identifier, too_many_axes
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.text.specs import GlobalArg, ValueArg

__all__ = ["make_einsum"]

_LETTERS: Final = re.compile(r"[A-Za-z]*", re.ASCII)
_EXAMPLE: Final = 'write one group of letters per argument: "ij,jk->ik"'


def make_einsum(spec: str, arg_names: str | Sequence[str], **knl_creation_kwargs: Any) -> LoopKernel:  # noqa: ANN401
    """Create the kernel of a sum of products, in the notation of :func:`numpy.einsum`.

    ::

        knl = pl.make_einsum("ij,j->i", ("a", "x"))

        # is the same as

        knl = pl.make_kernel(
            ["{[i]: 0 <= i < Ni}", "{[j]: 0 <= j < Nj}"],
            "out[i] = sum(j, a[i, j]*x[j])",
            [pl.GlobalArg("a", shape="Ni, Nj"), pl.GlobalArg("x", shape="Nj"), pl.GlobalArg("out", shape="Ni"),
             pl.ValueArg("Ni, Nj")], name="einsum2to1_kernel")

    The kernel can be called at once, with the operands by position or by name: ``knl(a, x).out``.

    Parameters
    ----------
    spec
        Indices of each argument, one letter an axis, then ``->`` and those of the result.  Indices that the result
        lacks are summed over.  Without ``->`` the result has the indices that occur once, in alphabetical order.
        A letter that occurs twice in one argument reads its diagonal.  Each letter is an iname.
    arg_names
        Names of the arguments, one for each group of letters: ``"a, x"`` or ``("a", "x")``.  The result is ``out``.
    knl_creation_kwargs
        ``name``, ``assumptions``, ``fixed_parameters`` and the other keywords of :func:`polyloop.make_kernel`.

    Raises
    ------
    KernelError
        ``bad-einsum``, ``wrong-argument-count``, ``name-taken``, ``bad-identifier``, ``reserved-name``,
        ``too-many-axes``, and the errors of :func:`polyloop.make_kernel`.

    Notes
    -----
    The extent of index ``i`` is the parameter ``Ni``, whichever arguments have it.  Types are those of the
    arrays of a call, unless :func:`polyloop.add_dtypes` states them.
    """
    inputs, output = _read(spec)
    names = [name.strip() for name in (arg_names.split(",") if isinstance(arg_names, str) else arg_names)]
    letters = list(dict.fromkeys(output + "".join(inputs)))
    _check_names(names, inputs, (*letters, *(f"N{letter}" for letter in letters), "out"))
    sizes = _sizes(letters, names, inputs)
    summed = [letter for letter in letters if letter not in output]
    factors = "*".join(_access(name, indices) for name, indices in zip(names, inputs, strict=True))
    value = f"sum({_inames(summed)}, {factors})" if summed else factors
    groups = [group for group in (output, summed) if group]
    domains = [_domain(group, sizes) for group in groups] or ["{:}"]
    shapes = {**dict(zip(names, inputs, strict=True)), "out": output}  # the order of arguments by position
    data: list[object] = [
        GlobalArg(name, shape=", ".join(sizes[letter] for letter in indices) if indices else ())
        for name, indices in shapes.items()
    ]
    if sizes:
        data.append(ValueArg(", ".join(dict.fromkeys(sizes.values()))))
    options = {"name": f"einsum{len(names)}to{len(output)}_kernel", **knl_creation_kwargs}
    if "kernel_data" in options:
        hint = "give types with pl.add_dtypes(knl, {'a': 'float32'})"
        raise _fail("bad-einsum", "the arguments of an einsum follow from its specification", hint)
    return public(make_kernel)(domains, f"{_access('out', output)} = {value}", data, **options)


def _fail(code: str, message: str, hint: str) -> KernelError:
    return KernelError("make_einsum", None, [Diagnostic(code, message, hints=(hint,))])


def _access(name: str, indices: str) -> str:
    return f"{name}[{', '.join(indices)}]" if indices else name


def _domain(letters: Sequence[str], sizes: dict[str, str]) -> str:
    """Return one domain; the summed indices have their own, so that a sum over nothing is 0 and not left out."""
    bounds = " and ".join(f"0 <= {letter} < {sizes[letter]}" for letter in letters)
    return f"{{[{', '.join(letters)}]: {bounds}}}"


def _inames(letters: Sequence[str]) -> str:
    return letters[0] if len(letters) == 1 else f"({', '.join(letters)})"


def _read(spec: str) -> tuple[list[str], str]:
    """Return the index letters of the inputs, and of the result."""
    left, arrow, right = spec.replace(" ", "").partition("->")
    inputs = left.split(",")
    for part in (*inputs, right):
        if not _LETTERS.fullmatch(part):
            why = "there is no '...'; name every axis" if "." in part else _EXAMPLE
            raise _fail("bad-einsum", f"'{part}' in '{spec}' is no group of letters", why)
    counts = Counter("".join(inputs))
    if not arrow:
        return inputs, "".join(sorted(letter for letter, count in counts.items() if count == 1))
    for letter, count in Counter(right).items():
        if count > 1:
            raise _fail("bad-einsum", f"index '{letter}' occurs twice in the result of '{spec}'", "name it once")
        if letter not in counts:
            hint = f"known: {', '.join(sorted(counts))}" if counts else _EXAMPLE
            raise _fail("bad-einsum", f"index '{letter}' of the result of '{spec}' is in no argument", hint)
    return inputs, right


def _sizes(letters: Sequence[str], names: Sequence[str], inputs: Sequence[str]) -> dict[str, str]:
    """Return index -> name of its extent; indices at one axis of one argument share it."""
    first = {letter: letter for letter in letters}
    axes: dict[tuple[str, int], str] = {}
    for name, indices in zip(names, inputs, strict=True):
        for axis, letter in enumerate(indices):
            old, new = first[letter], first[axes.setdefault((name, axis), letter)]
            first = {key: new if value == old else value for key, value in first.items()}
    return {letter: f"N{first[letter]}" for letter in letters}


def _check_names(names: Sequence[str], inputs: Sequence[str], taken: Sequence[str]) -> None:
    if len(names) != len(inputs):
        message = f"the specification has {len(inputs)} argument{'s' if len(inputs) > 1 else ''}, not {len(names)}"
        raise _fail("wrong-argument-count", message, f"name each of {', '.join(repr(part) for part in inputs)}")
    for name, indices in zip(names, inputs, strict=True):
        problem = check_identifier(name, "argument name") or too_many_axes(name, len(indices))
        if problem is not None:
            raise KernelError("make_einsum", None, [problem])
        if name in taken:
            what = "the result" if name == "out" else "an index, or its extent"
            raise _fail("name-taken", f"argument '{name}' has the name of {what}", "choose another name")
    twice = [name for name, count in Counter(names).items() if count > 1]
    shapes = {name: {part for other, part in zip(names, inputs, strict=True) if other == name} for name in twice}
    for name, found in shapes.items():
        if len({len(part) for part in found}) > 1:
            parts = " and ".join(f"'{part}'" for part in sorted(found))
            raise _fail("bad-einsum", f"argument '{name}' is given as {parts}", "an array has one number of axes")

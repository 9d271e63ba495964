"""Twists of a random kernel: types that wrap, unions and strides, strided arrays, computed subscripts, hostile names.

Each takes the text of a kernel and returns another, whose name it adds to the ``features`` of the source.
"""

from __future__ import annotations

import keyword
import random
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np

from polyloop.expr.functions import FUNCTIONS
from polyloop.expr.names import check_identifier
from polyloop.kernel.text.specs import GlobalArg, TemporaryVariable, ValueArg
from polyloop.testing.drawing.hostile import HOSTILE
from polyloop.testing.drawing.random_kernels import EXTENT, INDICES, Source

__all__ = ["FAR", "TWISTS", "twisted"]

FAR: Final = ("far", "far parameter")
"""Features of sources whose inames are large."""
_BY: Final = "far"
"""The parameter by which inames are shifted."""
_OFFSETS: Final = (2**31 - 3, 2**31 - 3, 2**31 - 8, 2**31, 2**32 - 3, 2**32, -(2**31) - 2, 2**40)
_KEPT: Final = frozenset({"n", "nnz", "begin", "stop", *INDICES, _BY})
"""Names that arguments are drawn by."""
_COLLIDING: Final = (
    "i_outer", "i_inner", "j_outer", "j_inner", "k_inner", "k_outer", "x_fetch", "a_fetch", "acc", "acc_0", "i_0",
    "j_0", "l0", "f", "s0", "part", "insn", "insn_1", "bx", "tx", "n_0", "u", "v", "q", "t0_0", "o0_buf",
    "make_value_index",
)  # fmt: skip
"""Names that transforms, and generated programs, would give to what they make."""
_NAMES: Final = tuple(
    name for name in HOSTILE
    if check_identifier(name, "name") is None and not keyword.iskeyword(name) and name not in FUNCTIONS
    and name.lower() not in {"mod", "nan", "infty"}
)  # fmt: skip
"""Hostile names that kernels can have."""
_FUNCTIONS: Final = frozenset({"sum", "min", "max", "product", "any", "all", "argmin", "argmax", "if", "for", "end"})
_WRAPPING: Final = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
_DOMAIN: Final = re.compile(r"(?P<head>.*\{\s*\[(?P<inames>[^\]]*)\]\s*:)(?P<condition>.*)\}\s*")
_RULE: Final = re.compile(r"\s*(?P<name>\w+)\((?P<parameters>[^)]*)\) := (?P<body>.*)")
_WORD: Final = re.compile(r"\b[A-Za-z_]\w*\b")

Twist = Callable[[random.Random, Source], Source]


def _words(text: str, new: Mapping[str, str]) -> str:
    return _WORD.sub(lambda word: new.get(word[0], word[0]), text)


def _free(line: str, new: Mapping[str, str]) -> str:
    """Return a line with other names, but for the parameters of a rule."""
    rule = _RULE.fullmatch(line)
    if rule is None:
        return _words(line, new)
    own = {name.strip() for name in rule["parameters"].split(",")}
    body = _words(rule["body"], {x: y for x, y in new.items() if x not in own})
    return f"{rule['name']}({rule['parameters']}) := {body}"


def _named(source: Source) -> Iterable[str]:
    """Return the arrays and scalars that are declared."""
    return [name for entry in source.data if (name := getattr(entry, "name", None)) is not None]


def _with(source: Source, feature: str, **changes: Any) -> Source:  # noqa: ANN401 - the fields of a source
    twin = None if source.twin is None or "lines" in changes else replace(source.twin, **changes)
    return replace(source, features=(*source.features, feature), twin=twin, **changes)


# {{{ integers


def integers(rng: random.Random, source: Source) -> Source:
    """Give all values one integer type, whose sums and products wrap."""
    kind = np.dtype(rng.choice(_WRAPPING))
    data = tuple(
        replace(entry, dtype=kind)
        if isinstance(entry, GlobalArg | TemporaryVariable) and entry.name not in INDICES
        else entry
        for entry in source.data
    )
    return _with(source, f"type {kind.name}", data=data)


# }}}
# {{{ domains


def _conditions(source: Source, change: Callable[[tuple[str, ...], str], str]) -> tuple[str, ...]:
    """Return the first domain with another condition, and the others."""
    match = _DOMAIN.fullmatch(source.domains[0])
    assert match is not None, f"unexpected domain {source.domains[0]}"
    inames = tuple(name.strip() for name in match["inames"].split(","))
    return (f"{match['head']} {change(inames, match['condition'].strip())}}}", *source.domains[1:])


def unions(rng: random.Random, source: Source) -> Source:
    """Restrict domains to unions of several pieces."""

    def change(inames: tuple[str, ...], condition: str) -> str:
        x, y = rng.choice(inames), rng.choice(inames)
        piece = rng.choice((
            f"({x} <= 1 or {x} >= 4)", f"({x} <= 0 or {y} >= 3 or {x} = 2)", f"({x} != 2)", f"({x} < {y} or {y} = 0)",
            f"({x} <= 2 or ({y} >= 3 and {x} mod 2 = 0))",
        ))  # fmt: skip
        return f"({condition}) and {piece}"

    return _with(source, "union", domains=_conditions(source, change))


def strided(rng: random.Random, source: Source) -> Source:
    """Restrict domains to strided sets."""

    def change(inames: tuple[str, ...], condition: str) -> str:
        x, y = rng.choice(inames), rng.choice(inames)
        step = rng.choice((
            f"{x} mod 3 = 1", f"{x} mod 2 = 0", f"({x} + {y}) mod 3 = 0", f"{x} mod 4 <= 1",
            f"exists(e0: {x} = 3*e0 + 2)", f"floor({x}/2) mod 2 = 0",
        ))  # fmt: skip
        return f"({condition}) and {step}"

    return _with(source, "strided domain", domains=_conditions(source, change))


def apart(rng: random.Random, source: Source) -> Source:
    """Let an iname have no value at most sizes: the others of its domain range as far as they do by themselves."""
    if not {*FAR}.isdisjoint(source.features):
        return source  # it is i - far that would have to be small

    def change(inames: tuple[str, ...], condition: str) -> str:
        bounds = ("3 - n", "2 - n", "1 - n", "n - 4") if re.search(r"\bn\b", source.domains[0]) else ("0", "1", "2")
        return f"({condition}) and {rng.choice(inames)} < {rng.choice(bounds)}"

    return _with(source, "apart", domains=_conditions(source, change))


# }}}
# {{{ arrays


def layouts(rng: random.Random, source: Source) -> Source:
    """Store some arguments with gaps between rows and elements, or with the first axis contiguous."""
    data = tuple(
        replace(entry, **_layout(rng, entry.shape))
        if isinstance(entry, GlobalArg) and isinstance(entry.shape, str) and rng.random() < 0.7
        else entry
        for entry in source.data
    )  # fmt: skip
    return source if data == source.data else _with(source, "strided arrays", data=data)


def _layout(rng: random.Random, shape: str) -> dict[str, Any]:
    extents = [extent.strip() for extent in shape.split(",")]
    if len(extents) == 1:
        return {"strides": str(rng.choice((2, 2, 3)))}
    row = extents[-1]
    return rng.choice((
        {"order": "F"}, {"strides": f"{row} + {rng.choice((1, 3, 8))}, 1"}, {"strides": f"2*({row}) + 1, 2"},
        {"dim_tags": "N0,N1"}, {"strides": f"1, {extents[0]} + 2"}, {"strides": f"3, 3*({extents[0]})"},
    ))  # fmt: skip


_COMPUTED: Final = (
    "({0}) & 7", "({0}) % 5", "(({0}) ^ 1) & 7", "(({0}) & 1) << 2", "if({0} < 5, {0}, 4)", "min({0}, 6)",
    "7 - (({0}) & 7)", "(({0}) | 1) & 7", "(({0}) & 3) + 2", "(({0}) >> 1) & 3",
)  # fmt: skip
_ELEMENT: Final = re.compile(r"\b(\w+)\[([^\[\]]*)\]")


def computed(rng: random.Random, source: Source) -> Source:
    """Compute subscripts of arrays that are only read by operators on bits, choices and remainders."""
    written = {found[1] for line in source.lines if (found := re.match(r"\s*(?:<> )?(\w+)\[", line))}
    roomy = (entry.name for entry in source.data if isinstance(entry, GlobalArg) and EXTENT in str(entry.shape))
    read = {*roomy} - written

    def subscripts(found: re.Match[str]) -> str:
        parts = [part.strip() for part in found[2].split(",")]
        if found[1] not in read or any(part.count("(") != part.count(")") for part in parts):
            return found[0]
        new = [rng.choice(_COMPUTED).format(part) if rng.random() < 0.5 else part for part in parts]
        return f"{found[1]}[{', '.join(new)}]"

    lines = tuple(_ELEMENT.sub(subscripts, line) for line in source.lines)
    return source if lines == source.lines else _with(source, "computed subscripts", lines=lines)


# }}}
# {{{ large numbers


def far(rng: random.Random, source: Source) -> Source:
    """Shift inames so far that index arithmetic crosses 2^31 or 2^32, while arrays stay small.

    Often numbers are added that are made of the inames themselves; otherwise it means what *source* does.
    """
    match = _DOMAIN.fullmatch(source.domains[0])
    assert match is not None, f"unexpected domain {source.domains[0]}"
    inames = [name.strip() for name in match["inames"].split(",")]
    moved = [x for x in inames if rng.random() < 0.7] or inames[:1]
    is_parameter = rng.random() < 0.5
    by = _BY if is_parameter else str(rng.choice(_OFFSETS))
    new = {x: f"({x} - ({by}))" for x in moved}
    domains = tuple(_shifted(domain, new, is_parameter=is_parameter) for domain in source.domains)
    lines = tuple(x if x.strip().startswith("for ") else _free(x, new) for x in source.lines)
    shifted = lines
    if rng.random() < 0.6:
        lines = tuple(_with_number(rng, line, moved) for line in lines)
    data = (ValueArg(_BY, np.dtype(np.int64)), *source.data) if is_parameter else source.data
    found = _with(source, FAR[is_parameter], domains=domains, lines=lines, data=data)
    return replace(found, twin=source) if lines == shifted else found


def _shifted(domain: str, new: Mapping[str, str], *, is_parameter: bool) -> str:
    match = _DOMAIN.fullmatch(domain)
    assert match is not None, f"unexpected domain {domain}"
    condition, head = _words(match["condition"], new), match["head"]
    if is_parameter and condition != match["condition"] and head.startswith("["):
        head = f"[{_BY}, {head[1:]}"
    return f"{head}{condition}}}"


def _with_number(rng: random.Random, line: str, inames: list[str]) -> str:
    """Return an assignment to an array with the value of an iname added."""
    match = re.fullmatch(r"(\s*[ot]\d+\[.*?\] = )([^{]*)((?: \{.*\})?)", line)
    if match is None or "atomic" in line or any(f"({x} - " not in match[1] for x in inames) or rng.random() < 0.4:
        return line
    x = rng.choice(inames)
    number = rng.choice((x, f"2*{x}", f"{x} // 3", f"{x} % 7", f"3*{x} - 1", f"({x} + {x}) % 1000"))
    return f"{match[1]}{match[2]} + {number}{match[3]}"


# }}}
# {{{ evaluations that may fail

_GUARDED: Final = (
    "if(div[{0}] != 0, sum(g, (g + 9) // div[{0}]), 0)",
    "if(div[{0}] != 0, max(g, ratio({0}, g)), 1)",
    "if(div[{0}] > 0, ratio({0}, {1}), 2)",
    "if(div[{0}] > 0 and {1} > 3, sum(g, 9 % div[{0}] + ratio({0}, g)), 0)",
    "if(div[{0}] == 0, 0, ratio({0}, 4))",
    "if(div[{0}] != 0, sum(g, div[jump[{0}] + g]), 3)",
    "sum(g, if(div[g + 3] != 0, ratio(g + 3, {0}), 1))",
    "if(div[{0} + 1] != 0, ratio({0} + 1, 2), 0) + if(div[{0}] > 0, leap({0}), 0)",
)  # fmt: skip
"""Values that may fail where their condition does not hold."""
_GUARDED_RULES: Final = (
    "ratio(p, q) := (p + q) // div[p]", "ratio(p, q) := if(div[p] != 0, (p + q) // div[p], q)",
)
_VALUE: Final = re.compile(r"(?P<target>\s*[ot]\d+\[(?P<at>[^\]]*)\] = )(?P<value>[^{]*)(?P<options>(?: \{.*\})?)")


def guarded(rng: random.Random, source: Source) -> Source:
    """Add divisions by zero, and elements far outside of their array, under conditions that rule them out."""
    if not {*FAR}.isdisjoint(source.features) or "rules" in source.features:
        return source

    def more(line: str) -> str:
        found = _VALUE.fullmatch(line)
        places = [] if found is None else [x for x in found["at"].split(", ") if re.fullmatch(r"[ij] \+ 3", x)]
        if found is None or not places or "atomic" in line or rng.random() < 0.3:
            return line
        added = rng.choice(_GUARDED).format(rng.choice(places), rng.choice(places))
        options = found["options"] or rng.choice(("", "", f" {{if=div[{rng.choice(places)}] != 0}}"))
        return f"{found['target']}{found['value']} + {added}{options}"

    lines = tuple(map(more, source.lines))
    if lines == source.lines:
        return source
    text, data = "\n".join(lines), list(source.data)
    rules = (rng.choice(_GUARDED_RULES), "leap(p) := div[jump[p]]")
    lines = (*(rule for rule in rules if re.search(rf"\b{rule.split('(')[0]}\(", text)), *lines)
    kind = np.dtype(np.int32)
    data += [GlobalArg(name, kind, shape=EXTENT) for name in ("div", "jump") if name in text or name in " ".join(lines)]
    domains = (*source.domains, *(("{[g]: 0 <= g < 3}",) if "(g," in text else ()))
    return _with(source, "guarded", lines=lines, data=tuple(data), domains=domains)


# }}}
# {{{ names


def _renamed(rng: random.Random, source: Source, names: Iterable[str], feature: str) -> Source:
    text = "\n".join((*source.domains, *source.lines))
    used = set(_WORD.findall(text)) | set(_named(source)) | _FUNCTIONS
    own = set(re.findall(r"<> (\w+)", text)) | set(re.findall(r"\{\s*\[([^\]]*)\]", text)[0].split(", "))
    own |= {iname for found in re.findall(r"\{\s*\[([^\]]*)\]", text) for iname in found.split(", ")}
    old = sorted((own | set(_named(source))) - _KEPT)
    chosen = [name for name in old if rng.random() < 0.6] or old[:1]
    free = [name for name in names if name not in used]
    new = dict(zip(chosen, rng.sample(free, len(chosen)), strict=True))
    lines = tuple(_free(line, new) for line in source.lines)
    data = tuple(
        replace(entry, name=new.get(entry.name, entry.name))
        if isinstance(entry, GlobalArg | TemporaryVariable | ValueArg)
        else entry
        for entry in source.data
    )
    domains = tuple(_words(domain, new) for domain in source.domains)
    return _with(source, feature, domains=domains, lines=lines, data=data)


def hostile(rng: random.Random, source: Source) -> Source:
    """Give inames, arrays and scalars names that mean something in C, CUDA or Python."""
    return _renamed(rng, source, _NAMES, "hostile names")


def colliding(rng: random.Random, source: Source) -> Source:
    """Give inames, arrays and scalars names that transforms and generated programs would give to others."""
    return _renamed(rng, source, _COLLIDING, "colliding names")


# }}}

TWISTS: Final[tuple[tuple[Twist, float], ...]] = (
    (unions, 0.10), (strided, 0.08), (layouts, 0.15), (integers, 0.25), (far, 0.12), (hostile, 0.15), (colliding, 0.10),
    (apart, 0.06), (computed, 0.08), (guarded, 0.2),
)  # fmt: skip
"""With how likely each is."""


def twisted(rng: random.Random, source: Source) -> Source:
    """Return *source* with some twists."""
    for twist, chance in TWISTS:
        if rng.random() < chance:
            source = twist(rng, source)
    return source


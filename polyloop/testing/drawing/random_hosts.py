"""Random loops around blocks: time loops, triangles, colours, nests of them, with several loops over blocks inside."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Final

import numpy as np

from polyloop.kernel.text.specs import GlobalArg
from polyloop.testing.drawing.random_chains import Step
from polyloop.testing.drawing.random_kernels import Source

__all__ = ["ASKED", "HOSTS", "host_recipe", "host_source"]

HOSTS: Final = "host loops"
"""The feature of a source of :func:`host_source`."""
ASKED: Final = "asked by the host"
"""The feature of those with conditions that a host may decide."""
_ASKED: Final = 0.4
_ON_NUMBERS: Final = ("n*n > 6", "n*t % 3 != 1", "(n + t)*t % 2 == 0", "t*t < n")
_OUTER: Final = ("0 <= t < 3", "0 <= t < n", "1 <= t < n", "0 <= t < n and t mod 2 = 0", "0 <= t < 4 and t < n")
_SECOND: Final = ("0 <= s < 2", "0 <= s <= t", "t <= s < n", "0 <= s < 2 and s <= n")
_INNER: Final = ("0 <= {i} < n", "t <= {i} < n", "0 <= {i} <= t and {i} < n", "0 <= {i} < n - t", "1 <= {i} < n - 1")
_MARGIN: Final = 3


def host_source(seed: int) -> Source:
    """Return the text of a kernel with sequential loops around loops that can run on blocks."""
    rng = random.Random(seed + 41)
    loops = ("t", "s") if rng.random() < 0.3 else ("t",)
    nests = rng.randint(1, 3)
    conditions = [rng.choice(_OUTER), *([rng.choice(_SECOND)] if len(loops) > 1 else [])]
    inames = [f"i{number}" for number in range(nests)]
    conditions += [rng.choice(_INNER).format(i=iname) for iname in inames]
    domain = f"[n] -> {{[{', '.join((*loops, *inames))}]: {' and '.join(conditions)}}}"
    lines = [f"for {loops[0]}"]
    early = rng.randint(0, nests - 1) if len(loops) > 1 else 0  # loops over blocks before the second loop
    for number, iname in enumerate(inames):
        if len(loops) > 1 and number == early:
            lines.append(f"for {loops[1]}")
        known = loops if number >= early else loops[:1]
        lines += [f"for {iname}", *_body(rng, iname, known, number), "end"]
    lines += ["end"] * len(loops)
    kind = np.dtype(rng.choice((np.float64, np.uint32)))
    data: tuple[GlobalArg, ...] = (
        GlobalArg("x, y", kind, shape=f"2*n + {2 * _MARGIN}"), GlobalArg("z", kind, shape=f"n + 6, 2*n + {2 * _MARGIN}")
    )  # fmt: skip
    asked = random.Random(seed + 47)
    features: tuple[str, ...] = (HOSTS,)
    if asked.random() < _ASKED:
        lines, features = _with_conditions(asked, lines), (HOSTS, ASKED)
        data = (*data, GlobalArg("level", np.int32, shape=1))
    options = (("seq_dependencies", True), ("silenced_warnings", "*"), ("assumptions", "n >= 0"))
    return Source(f"hosts_{seed}", (domain,), tuple(lines), data, options, features)


def _with_conditions(rng: random.Random, lines: list[str]) -> list[str]:
    """Return *lines* whose loop may end early, as ``level`` says, and with conditions on numbers.

    Now and then one statement, any of them, goes without.
    """
    condition = "level[0] > 0" if rng.random() < 0.7 else rng.choice(_ON_NUMBERS)
    places = [number for number, line in enumerate(lines) if " = " in line and not line.startswith("<>")]
    bare = rng.choice(places) if rng.random() < 0.3 else None
    found = [f"{line} {{if={condition}}}" if number in places and number != bare else line
             for number, line in enumerate(lines)]
    last = "level[0] = level[0] - 1"
    last += f" {{if={condition}}}" if rng.random() < 0.9 else ""
    return [f"level[0] = {rng.randint(0, 3)}", *found[:-1], last, found[-1]]


def _body(rng: random.Random, iname: str, loops: tuple[str, ...], number: int) -> list[str]:
    def element(own: bool) -> str:
        at = rng.choice((iname,) if own else (iname, iname, f"{iname} + 1", f"n - 1 - {iname}", loops[-1]))
        name = rng.choice("xxyz")
        row = f"{loops[0]}{rng.choice(('', ' + 1'))}, " if name == "z" else ""
        return f"{name}[{row}{at} + {_MARGIN}]"

    lines = []
    for _ in range(rng.randint(1, 2)):
        value = " + ".join(element(own=False) for _ in range(rng.randint(1, 2)))
        lines.append(f"{element(own=rng.random() < 0.8)} = {value} + {rng.choice((1, *loops))}")
    if rng.random() < 0.2:
        lines = [f"<> w{number} = {lines[0].partition(' = ')[2]}", *lines[1:], f"{element(own=True)} = w{number}"]
    return lines


def host_recipe(seed: int) -> Iterator[Step]:
    """Yield steps for the kernel of *seed*: each loop over blocks on blocks, on threads, or sequential."""
    rng = random.Random(seed + 43)
    for number in range(3):
        draw = rng.random()
        if draw < 0.5:
            tags = {"outer_tag": "g.0", "inner_tag": "l.0"}
            yield Step("split_iname", {"split_iname": f"i{number}", "inner_length": rng.choice((2, 4)), **tags})
        elif draw < 0.8:
            yield Step("tag_inames", {"iname_to_tag": {f"i{number}": "g.0"}})
        elif draw < 0.9:
            yield Step("tag_inames", {"iname_to_tag": {"t": "g.1"}})
    if rng.random() < 0.15:
        yield Step("split_iname", {"split_iname": "t", "inner_length": 2})

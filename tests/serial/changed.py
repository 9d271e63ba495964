"""Forms changed at random, sealed again with a right hash: what becomes of each is a refusal, or a value that is used.

``python -m tests.serial.changed --forms 20000`` changes forms of the gallery's kernels, of programs, recipes, traces,
certificates, results, errors and reports, and prints what became of them, with the seeds of those that ended otherwise.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import polyloop as pl
from polyloop.kernel.kernel import LoopKernel

__all__ = ["change", "outcome", "sealed", "used"]

Path = list[Any]
_POOL: Final[tuple[Any, ...]] = (
    0, 1, -1, 2, 7, 2**31, 2**70, True, False, None, "", "x", "i", "int", "n", "a", "\0", "é", "1", "{ [i] : i = 0 }",
    "insn", "float", "global", [0], [], {}, "(", "%",
)  # fmt: skip
_SIGNS: Final = "0123456789+-*i nx=<>[]{},:"


def sealed(values: Sequence[object]) -> bytes:
    """Return the form with these entries."""
    content = json.dumps(values, separators=(",", ":"))
    digest = hashlib.sha256(content.encode()).hexdigest()
    return json.dumps({"format": "polyloop", "version": 1, "sha256": digest, "values": values}).encode()


def change(rng: random.Random, values: list[Any]) -> None:
    """Change one or two places of entries: a leaf, the number or order of members, or a class."""
    for _ in range(rng.choice((1, 1, 1, 2))):
        number = rng.randrange(len(values))
        entry, kind = values[number], rng.random()
        if kind < 0.1 and len(entry) > 2 and entry[0] in ("tuple", "set", "dict", "list"):
            _change_members(rng, entry)
        elif kind < 0.15:
            entry[0] = rng.choice([v[0] for v in values if type(v[-1]) is type(entry[-1])])
        elif places := [*_leaves(entry, [])]:
            place = rng.choice(places)
            _put(entry, place, _other(rng, _at(entry, place), values, number))


def _change_members(rng: random.Random, entry: list[Any]) -> None:
    one, other = rng.randrange(1, len(entry)), rng.randrange(1, len(entry))
    how = rng.choice(("less", "more", "swapped"))
    if how == "less":
        del entry[one]
    elif how == "more":
        entry.insert(one, entry[one])
    else:
        entry[one], entry[other] = entry[other], entry[one]


def _is_part(value: object) -> bool:
    return isinstance(value, list) and len(value) == 1 and isinstance(value[0], int)


def _leaves(value: Any, place: Path) -> Iterator[Path]:
    if isinstance(value, dict):
        for name in value:
            yield from _leaves(value[name], [*place, name])
    elif isinstance(value, list) and not (place and _is_part(value)):
        for number in range(0 if place else 1, len(value)):
            yield from _leaves(value[number], [*place, number])
    else:
        yield place


def _at(value: Any, place: Path) -> Any:
    for key in place:
        value = value[key]
    return value


def _put(value: Any, place: Path, new: object) -> None:
    _at(value, place[:-1])[place[-1]] = new


def _other(rng: random.Random, old: Any, values: list[Any], number: int) -> object:
    """Return another leaf than *old*, most often one of its kind."""
    if rng.random() < 0.15:
        return rng.choice(_POOL)
    if _is_part(old):
        kind = values[old[0]][0] if 0 <= old[0] < len(values) else None
        alike = [k for k in range(number) if values[k][0] == kind and rng.random() < 0.9]
        return [rng.choice(alike or [0])]
    if isinstance(old, bool):
        return not old
    if isinstance(old, int):
        return old + rng.choice((1, -1, 2, -2, 100, -100, -old, 2**31, -2 * old))
    if isinstance(old, str):
        return _text(rng, old, values)
    return rng.choice(_POOL)


def _text(rng: random.Random, old: str, values: list[Any]) -> str:
    at = rng.randrange(len(old) + 1)
    texts = [text for v in values for p in _leaves(v, []) if isinstance(text := _at(v, p), str)]
    return rng.choice((
        lambda: rng.choice(texts or [""]),
        lambda: old[:at] + rng.choice(_SIGNS) + old[at + 1 :], lambda: old[:at] + old[at + 1 :],
    ))()  # fmt: skip


def used(value: object, targets: Sequence[pl.Target]) -> str:
    """Do with a value that was read what users do, and return what became of it."""
    if not isinstance(value, LoopKernel):
        _ = repr(value), str(value), pl.dumps(value), type(value).__module__ == "builtins" or hash(value)
        return "value"
    for target in targets:
        try:
            pl.generate_code(value, target=target)
        except pl.PolyloopError as error:
            return f"refused: {error.codes[0]}"
    return "code"


def outcome(data: bytes, targets: Sequence[pl.Target]) -> str:
    """Return what became of a form; whatever else than an error of the package's is raised goes on."""
    with warnings.catch_warnings(), pl.time_budget(5):
        warnings.simplefilter("ignore")
        try:
            value = pl.loads(data)
        except pl.SerialError as error:
            return f"not read: {error.codes[0]}"
        return used(value, targets)


def main(forms: Mapping[str, Callable[[], Any]], count: int, first: int, seconds: float = 1e9) -> int:
    """Change *count* forms, or those of a time, and print what became of them; return how many ended otherwise."""
    texts, found, wrong = dict[str, str](), Counter[str](), 0
    begin = time.perf_counter()
    for seed in range(first, first + count):
        rng = random.Random(seed)
        name = rng.choice([*forms])
        if name not in texts:
            texts[name] = pl.dumps(forms[name]()).decode()
        values = json.loads(texts[name])["values"]
        change(rng, values)
        try:
            found[outcome(sealed(values), (pl.CudaTarget() if seed % 4 == 0 else pl.CTarget(),))] += 1
        except Exception as error:
            wrong += 1
            last = traceback.extract_tb(error.__traceback__)[-1]
            print(f"seed {seed}, {name}: {type(error).__name__}: {error} ({last.filename}:{last.lineno})"[:300])
        is_last = seed == first + count - 1 or time.perf_counter() - begin > seconds
        if is_last or not (seed - first + 1) % 1000:
            print(seed - first + 1, "forms:", dict(found.most_common(12)), "otherwise:", wrong, flush=True)
        if is_last:
            break
    return wrong


if __name__ == "__main__":
    from tests.serial.forms import FORMS

    parser = argparse.ArgumentParser(prog="python -m tests.serial.changed")
    parser.add_argument("--forms", type=int, default=20000)
    parser.add_argument("--first", type=int, default=0, metavar="SEED")
    parser.add_argument("--seconds", type=float, default=1e9)
    given = parser.parse_args()
    sys.exit(main(FORMS, given.forms, given.first, given.seconds) > 0)

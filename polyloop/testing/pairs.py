"""One pair of a random kernel and a random chain of transforms: made, judged, and compared.

What the library accepts must be legal by brute force, and compute what the reference interpreter computes, in C and on
fibres in three thread orders.  What it refuses must be refused for a reason: the instances that the refusal names must
do what it says.  Whether a refused kernel was legal after all is counted.
"""

from __future__ import annotations

import random
import traceback
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

import numpy as np

from polyloop.errors import (
    CodegenError,
    Diagnostic,
    KernelError,
    PolyloopError,
    PolyloopWarning,
    TransformError,
    VerificationError,
    Witness,
)
from polyloop.kernel.kernel import LoopKernel
from polyloop.memo import forgotten
from polyloop.program.conditions import may_fail_in
from polyloop.program.lower import lower
from polyloop.schedule.build import build_verified
from polyloop.target.cuda import CudaTarget
from polyloop.target.interpreter import interpret
from polyloop.testing.agreement import (
    Libraries,
    Programs,
    compile_c,
    compile_fibres,
    compile_threads,
    difference,
    different_meaning,
    disagreement,
    other_loops,
)
from polyloop.testing.brute import Data, Run, Violation, execute, reference_run
from polyloop.testing.drawing.breaks import Break
from polyloop.testing.drawing.drawers import DRAWERS
from polyloop.testing.drawing.draws import AnySource, drawn_source
from polyloop.testing.drawing.numbers import numbers_of
from polyloop.testing.drawing.random_boxes import BOXES, box_recipe
from polyloop.testing.drawing.random_branches import BRANCHES, branch_recipe
from polyloop.testing.drawing.random_chains import Step, random_recipe, random_step
from polyloop.testing.drawing.random_hosts import HOSTS, host_recipe
from polyloop.testing.drawing.random_kernels import is_allowed, random_arguments
from polyloop.testing.drawing.random_meetings import MEETINGS, meeting_recipe
from polyloop.testing.drawing.random_tiles import TILES, tile_recipe
from polyloop.testing.drawing.twists import FAR
from polyloop.testing.programs import as_built, generated, with_threads
from polyloop.testing.symbols import UnsupportedError
from polyloop.testing.unwritten import reads_unwritten
from polyloop.testing.waived import is_waived
from polyloop.testing.witnesses import Verdict, check_witness
from polyloop.transform.base import Transform
from polyloop.transform.loops.auto_local import assign_auto
from polyloop.transform.registry import TRANSFORMS

__all__ = ["Exploration", "Failure", "Pair", "Tally", "check_pair", "check_pairs", "compared", "draw", "legality"]

_WITH_THREADS: Final = 3
"""Every so many seeds, programs run on several threads too."""
_LARGE: Final = frozenset({*FAR, "computed subscripts"})
"""Features of sources whose index arithmetic may need 64 bits: by what inames are, or what temporaries might be."""
SIZES: Final = (0, 1, *range(1, 11))
"""Sizes at which programs run; 1 more often."""
_JUDGED: Final = (6, 4, 9, 3, 2, 5, 7, 1)
"""Sizes at which brute force judges what was refused, in the order tried."""
_MOST: Final = 8000
"""Instances that brute force executes at most."""
_LARGEST: Final = 40
"""Size of a witness that is looked at."""
_RECIPES: Final = {
    TILES: tile_recipe, BOXES: box_recipe, HOSTS: host_recipe, MEETINGS: meeting_recipe,
    BRANCHES: branch_recipe,
}  # fmt: skip
"""Steps for programs with some feature."""
_WAIVED: Final = 0.05
"""Chains that begin with a waiver."""
_FORGOTTEN: Final = 20
"""One pair in so many is made once more without memory."""
_SAME_RESULTS: Final = frozenset({"add_barrier", "add_nosync", "assume", "fix_parameters"})
"""Steps that make another kernel of a program, with the same results for the arguments that are left."""
_ATTEMPTS: Final = 4
"""Sets of data, where data decides."""

REASONED: Final = frozenset(
    {
        "accumulator-clobbered", "copy-incomplete", "copy-wrong-element", "illegal-order", "illegal-parallel",
        "instance-lost", "not-proven", "out-of-bounds", "race", "storage-in-use", "term-twice", "write-race",
    }
)  # fmt: skip
"""Codes that say what a program would do wrong; others say what a device or a transform cannot do."""


@dataclass(frozen=True)
class Pair:
    """A kernel and the transforms that it was put through; ``sizes`` are where its program runs."""

    source: AnySource
    steps: tuple[Step, ...]
    sizes: tuple[int, ...] = ()
    seed: int = 0

    @property
    def features(self) -> tuple[str, ...]:
        """Features of the program and of the chain."""
        own = {"unchecked": "waiver", "swizzle": "layout step", "add_padding": "layout step"}
        found = [own[step.name] for step in self.steps if step.name in own]
        found += ["vectors" for step in self.steps if step.name == "vectorize" or "vec" in step.arguments]
        return tuple(dict.fromkeys((*self.source.features, *found)))

    def script(self) -> str:
        """Return Python text that makes the transformed kernel."""
        lines = ["import numpy as np", "", "import polyloop as pl"]
        if any(isinstance(step, Break) for step in self.steps):
            lines.append("from polyloop.testing.drawing.breaks import broken")
        lines += ["", self.source.script()]
        return "\n".join([*lines, *(step.script() for step in self.steps)])


@dataclass(frozen=True)
class Failure:
    """A failure: ``kind`` is wrong-result, wrong-meaning, accepted-illegal, false-witness, remembered or crash."""

    kind: str
    pair: Pair
    text: str


@dataclass
class Tally:
    """Counts of the pairs that were tried, by their outcome."""

    counts: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    witnesses: Counter[tuple[str, str]] = field(default_factory=Counter)
    precision: Counter[tuple[str, str]] = field(default_factory=Counter)
    accepted: Counter[str] = field(default_factory=Counter)
    drawn: Counter[tuple[str, str]] = field(default_factory=Counter)
    """A feature of a program or a chain, and whether it was drawn, made, accepted, or compared."""
    failures: list[Failure] = field(default_factory=list)
    precise: list[tuple[str, Pair]] = field(default_factory=list)
    """Code and chain of what was refused though legal at all sizes tried."""

    def note(self, features: Iterable[str], outcome: str) -> None:
        """Count the *outcome* of a pair with these features."""
        self.drawn.update((feature, outcome) for feature in features)

    def add(self, other: Tally) -> None:
        """Count *other* too."""
        for mine, theirs in (
            (self.counts, other.counts), (self.refused, other.refused), (self.accepted, other.accepted)
        ):  # fmt: skip
            mine.update(theirs)
        self.witnesses.update(other.witnesses)
        self.precision.update(other.precision)
        self.drawn.update(other.drawn)
        self.failures += other.failures
        self.precise += other.precise


def _given(
    kernel: LoopKernel, n: int, seed: int, *, wild: bool = False, sizes: Mapping[str, int] | None = None
) -> tuple[dict[str, int], Data]:
    """Return sizes and arrays for brute force."""
    arguments = random_arguments(kernel, n, seed, wild=wild, sizes=sizes)
    sizes = {name: value for name, value in arguments.items() if isinstance(value, int)}
    if "n" in kernel.parameters:
        sizes["n"] = n
    return sizes, {name: value for name, value in arguments.items() if isinstance(value, np.ndarray)}


_Known: TypeAlias = dict[tuple[object, int, int], Run]
"""Runs of reference programs, by program, size and seed."""


def _before(
    kernel: LoopKernel, given: Mapping[str, int], data: Data, case: tuple[int, int], known: _Known
) -> Run:
    """Return the run of the reference program."""
    key = (kernel.reference, *case)
    found = known.get(key)
    if found is None:
        found = known[key] = reference_run(kernel, given, data, most=_MOST)
    return found


def legality(
    kernel: LoopKernel, sizes: Iterable[int], seed: int, known: _Known | None = None, *, wild: bool = False
) -> Violation | None:
    """Return the first violation that brute force finds at *sizes*, None if there is none.

    Parameters
    ----------
    known
        Runs of reference programs; those made here are added.
    wild
        Whether data may be such as no kernel of its kind expects.

    Raises
    ------
    UnsupportedError
        No size could be judged.
    """
    judged = 0
    for n in sizes:
        if not is_allowed(kernel, n):
            continue
        given, data = _given(kernel, n, seed, wild=wild)
        try:
            before = _before(kernel, given, data, (n, seed), {} if known is None else known)
            after = execute(kernel, given, data, before.symbols, expected=before, most=_MOST)
        except UnsupportedError:
            continue
        judged += 1
        if after.violations:
            return Violation(after.violations[0].kind, f"n = {n}: {after.violations[0].text}")
    if not judged:
        raise UnsupportedError("no size can be judged")
    return None


def _depends_on_data(kernel: LoopKernel) -> bool:
    """Return whether data decides which elements are touched."""
    return any(not all(map(s.is_unconditional, s.accesses)) for s in lower(kernel).statements.values())


@dataclass
class Exploration:
    """State of drawing one pair."""

    source: AnySource
    rng: random.Random
    tally: Tally
    seed: int
    kernel: LoopKernel = field(init=False)
    sizes: list[int] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    said: list[tuple[Step, str]] = field(default_factory=list)
    """The steps tried, each with the code with which it was refused, if it was."""
    known: _Known = field(default_factory=dict)
    trying: Step | None = None

    def crash(self, error: Exception) -> None:
        """Record an exception of the library that is no refusal."""
        text = "".join(traceback.format_exception(error))
        self.fail("crash", text, [] if self.trying is None else [self.trying])

    def fail(self, kind: str, text: str, more: Sequence[Step] = ()) -> None:
        """Note a failure, after all steps and *more*."""
        pair = Pair(self.source, (*self.steps, *more), (), self.seed)
        self.tally.failures.append(Failure(kind, pair, text))

    def run(self, pair: Pair | None = None) -> tuple[Pair, Programs] | None:
        """Return the transformed kernel's programs, None where something was refused for good.

        The chain is drawn, unless a *pair* is given.
        """
        self.tally.note(self.source.features, "drawn")
        try:
            self.begin()
        except KernelError as refused:
            self.tally.note(self.source.features, "refused")
            self.tally.counts["kernels refused"] += 1
            self.tally.refused[f"make_kernel: {refused.codes[0]}"] += 1
            return None
        sizes = self.sizes if pair is None else pair.sizes
        self.meaning(sizes)
        for step in self.chain() if pair is None else pair.steps:
            self.apply(step)
        if self.seed % _FORGOTTEN == 0:
            self.remembered()
        return self.finish(self.kernel, sizes)

    def begin(self) -> None:
        """Make the kernel, and draw the sizes at which it runs."""
        self.kernel = self.source.make()
        possible = [n for n in SIZES if is_allowed(self.kernel, n)] or [1]
        self.sizes = self.rng.sample(possible, min(2, len(possible)))

    def take(self, step: Step) -> None:
        """Transform the kernel, which may be refused."""
        self.kernel = step(self.kernel)

    def chain(self) -> Iterator[Step]:
        """Draw steps, each for the kernel that the steps before have made."""
        rng, kernel = self.rng, self.kernel
        recipe = list(random_recipe(rng, kernel)) if rng.random() < 0.5 else []
        for feature, own in _RECIPES.items():
            recipe = list(own(self.seed)) if feature in self.source.features else recipe
        if rng.random() < _WAIVED:
            yield Step("unchecked", DRAWERS["unchecked"](rng, kernel))
        yield from recipe
        for _ in range(rng.choice((0, 0, 1, 2)) if recipe else rng.choice((1, 2, 3, 4, 5, 6))):
            yield random_step(rng, self.kernel)

    def apply(self, step: Step) -> None:
        """Transform the kernel, unless that is refused."""
        self.trying, before = step, self.kernel
        try:
            self.take(step)
            self.said.append((step, ""))
        except (TransformError, VerificationError) as refused:
            self.said.append((step, refused.codes[0]))
            self.tally.counts["steps refused"] += 1
            self.refusal(self.kernel, refused, step)
            self.trying = None
            return
        self.tally.counts["steps accepted"] += 1
        self.tally.accepted[step.name] += 1
        self.steps.append(step)
        if self.kernel.reference is not before.reference:
            if step.name in _SAME_RESULTS or not TRANSFORMS[step.name].changes_meaning:
                self.same_meaning(before)
            if (found := other_loops(before, self.kernel)) is not None:
                self.fail("wrong-meaning", found)
        self.trying = None

    def remembered(self) -> None:
        """Look whether the same steps are refused, and the same programs made, where nothing is remembered."""
        known = self.texts(self.kernel)
        self.tally.counts["pairs made without memory"] += 1
        with forgotten():
            kernel = self.source.make()
            for step, said in self.said:
                try:
                    kernel, found = step(kernel), ""
                except (TransformError, VerificationError) as refused:
                    found = refused.codes[0]
                if found != said:
                    self.fail("remembered", f"{step.script()}: {said or 'accepted'}, without memory {found}", [step])
                    return
            texts = self.texts(kernel)
        if texts != known:
            self.fail("remembered", f"{known[0]}\nwithout memory:\n{texts[0]}")

    def texts(self, kernel: LoopKernel) -> tuple[str, ...]:
        """Return the texts of both programs, or the code with which they are refused."""
        try:
            programs = generated(kernel, is_large=False)
        except (VerificationError, CodegenError) as refused:
            return (refused.codes[0],)
        return programs.c.device_code, programs.cuda.device_code

    def meaning(self, sizes: Iterable[int]) -> None:
        """Record a failure if the kernel's results differ from the meaning of its text."""
        numbers = numbers_of(self.source.features)
        for n in sizes:
            arguments = random_arguments(self.kernel, n, self.seed, whole=True, numbers=numbers)
            expected = self.source.expected(arguments)
            if expected is None or not is_allowed(self.kernel, n):
                continue
            self.tally.counts["meanings compared"] += 1
            try:
                found = interpret(self.kernel, **arguments)
            except VerificationError:
                return  # of a program that has no schedule
            wrong = difference(found, {name: expected[name] for name in found})
            if wrong is not None:
                self.fail("wrong-meaning", f"n = {n}: {wrong}")
                return

    def same_meaning(self, before: LoopKernel) -> None:
        """Record a failure if the kernel's program has other results than that of *before*."""
        fixed = {name: value for name, value in self.kernel.fixed.items() if name not in before.fixed}
        numbers = numbers_of(self.source.features, [step.name for step in self.steps])
        for n in (5, 2):
            if not is_allowed(self.kernel, n):
                continue
            arguments = random_arguments(self.kernel, n, self.seed, whole=True, numbers=numbers)
            try:
                wrong = different_meaning(before, {**arguments, **fixed}, self.kernel, arguments)
            except VerificationError:
                return  # of a program that has no schedule
            if wrong is not None:
                self.fail("wrong-result", f"n = {n}: the program is another one: {wrong}")
                return

    def refusal(self, kernel: LoopKernel, refused: PolyloopError, step: Step | None) -> None:
        """Check a refusal: its witness is real, and the step is illegal."""
        finding = refused.found[0]
        self.tally.refused[f"{'schedule' if step is None else step.name}: {finding.code}"] += 1
        if finding.code not in REASONED:
            return
        transform, before = getattr(refused, "transform", None), getattr(refused, "before", None)
        try:
            if isinstance(transform, Transform) and isinstance(before, LoopKernel):
                after = transform.rewrite(before)
            else:
                after = assign_auto(kernel)
            if finding.witness is not None:
                self.witness(after, finding.code, finding.witness, refused, step)
            else:
                self.tally.witnesses[finding.code, "none"] += 1
            self.needed(after, finding, step)
        except (UnsupportedError, VerificationError):
            self.tally.precision[finding.code, "not judged"] += 1

    def witness(
        self, after: LoopKernel, code: str, witness: Witness, refused: PolyloopError, step: Step | None
    ) -> None:
        """Judge the instances that a refusal names."""
        named, verdict = dict(witness.parameters), Verdict.UNDECIDED
        n = named.get("n", 5)
        for attempt in range(_ATTEMPTS):
            if verdict is Verdict.UNDECIDED and 0 <= n <= _LARGEST:
                given, data = _given(after, n, self.seed + attempt, wild=attempt > 1, sizes=named)
                verdict = check_witness(after, witness, data, sizes=given, most=_MOST)
        self.tally.witnesses[code, verdict.name.lower()] += 1
        if verdict is Verdict.FALSE:
            self.fail("false-witness", f"{refused}\n{witness}", [] if step is None else [step])

    def needed(self, after: LoopKernel, finding: Diagnostic, step: Step | None) -> None:
        """Count whether the refusal was needed at the sizes tried: small ones, and that of the witness."""
        code = finding.code
        if code == "out-of-bounds":
            return
        after = assign_auto(after)
        named = () if finding.witness is None else finding.witness.parameters
        sizes = (*_JUDGED, *(n for name, n in named if name == "n" and max(_JUDGED) < n <= _LARGEST))
        found = legality(after, sizes, self.seed, self.known)
        if found is None and _depends_on_data(after):
            for attempt in range(1, _ATTEMPTS):
                found = found or legality(after, _JUDGED[:4], self.seed + attempt, wild=True)
            self.tally.precision[code, "legal for the data tried" if found is None else "illegal"] += 1
            return
        self.tally.precision[code, "legal" if found is None else "illegal"] += 1
        if found is None:
            more = [] if step is None else [step]
            self.tally.precise.append((code, Pair(self.source, (*self.steps, *more), (), self.seed)))

    def finish(self, kernel: LoopKernel, sizes: Sequence[int]) -> tuple[Pair, Programs] | None:
        """Generate code, and check an accepted kernel by brute force."""
        try:
            programs = generated(kernel, is_large=bool(_LARGE & {*self.source.features}))
            if self.seed % _WITH_THREADS == 0:
                threads, code = with_threads(kernel)
                programs = replace(programs, threads=threads)
                self.tally.counts["pairs with threads"] += threads is not None
                if code:
                    self.tally.refused[f"with threads: {code}"] += 1
        except (VerificationError, CodegenError) as refused:
            self.tally.counts["schedules refused"] += 1
            self.refusal(kernel, refused, None)
            return None
        self.tally.counts["pairs accepted"] += 1
        pair = Pair(self.source, tuple(self.steps), tuple(sizes), self.seed)
        self.tally.note(pair.features, "accepted")
        defined = self.judged(kernel, sizes)
        pair = replace(pair, sizes=defined)
        return (pair, programs) if defined else None

    def judged(self, kernel: LoopKernel, sizes: Iterable[int]) -> tuple[int, ...]:
        """Return the *sizes* at which the program reads no undefined value; record violations.

        Brute force knows nothing of evaluations that stop a program: where these may be waived, nothing is run.
        """
        launches = build_verified(kernel, CudaTarget().limits).schedule.launches
        kernel = as_built(kernel)
        if kernel.waivers and any(may_fail_in(kernel, i.expression) for i in kernel.instructions):
            self.tally.counts["accepted kernels not run: what may fail is waived"] += 1
            return ()
        defined = list[int]()
        numbers = numbers_of(self.source.features, [step.name for step in self.steps])
        for n in sizes:
            if not is_allowed(kernel, n):
                defined.append(n)
                continue
            given, data = _given(kernel, n, self.seed + n)
            try:
                before = _before(kernel, given, data, (n, self.seed + n), self.known)
                if before.undefined:
                    self.tally.counts["sizes at which the program reads what nothing wrote"] += 1
                    continue
                after = execute(
                    kernel, given, data, before.symbols, expected=before, most=_MOST, launches=launches
                )  # fmt: skip
                self.tally.counts["accepted runs judged by brute force"] += 1
                if after.violations and is_waived(kernel.waivers, after.violations):
                    self.tally.counts["accepted runs that are not legal, as was waived"] += 1
                    continue
                if after.violations:
                    self.fail("accepted-illegal", f"n = {n}: {after.violations[0]}")
            except UnsupportedError:
                self.tally.counts["accepted runs not judged"] += 1
                if kernel.waivers:
                    continue
            if reads_unwritten(kernel, random_arguments(kernel, n, self.seed + n, numbers=numbers)):
                self.tally.counts["sizes at which the program reads what nothing wrote"] += 1
                continue
            defined.append(n)
        return tuple(defined)


def draw(seed: int, tally: Tally, pair: Pair | None = None) -> tuple[Pair, Programs] | None:
    """Draw the pair of *seed*, or run *pair*; return it with its programs if it is accepted."""
    source = drawn_source(seed) if pair is None else pair.source
    exploration = Exploration(source, random.Random(seed + 1_000_000_007), tally, seed)
    tally.counts["pairs"] += 1
    try:
        return exploration.run(pair)
    except Exception as error:  # whatever the library raises here is a fault of it
        exploration.crash(error)
        return None


def check_pair(pair: Pair) -> Tally:
    """Run one pair: its steps, without refused ones, and its sizes."""
    tally = Tally()
    warnings.simplefilter("ignore", PolyloopWarning)
    found = draw(pair.seed, tally, pair)
    for entry in () if found is None else _compiled([found], tally):
        _compare(*entry, tally)
    return tally


def check_pairs(seeds: Iterable[int]) -> Tally:
    """Draw a pair for each seed, and compare all that are accepted with the interpreter."""
    tally = Tally()
    warnings.simplefilter("ignore", PolyloopWarning)
    return compared([entry for seed in seeds if (entry := draw(seed, tally)) is not None], tally)


def compared(found: Sequence[tuple[Pair, Programs]], tally: Tally) -> Tally:
    """Compare accepted pairs with the interpreter, and return *tally* with the outcomes."""
    if found:
        for pair, programs, libraries in _compiled(found, tally):
            _compare(pair, programs, libraries, tally)
    return tally


def _compiled(
    found: Sequence[tuple[Pair, Programs]], tally: Tally
) -> Iterator[tuple[Pair, Programs, Libraries]]:
    """Yield every pair with its compiled libraries; all pairs share them, unless a compiler refuses that."""
    try:
        programs = [some for _, own in found for some in own.all]
        libraries = Libraries(
            compile_c([some.c for some in programs]),
            compile_fibres([some.cuda for some in programs]),
            compile_threads([some.threads for some in programs if some.threads is not None]),
        )
    except (PolyloopError, AssertionError) as error:
        if len(found) == 1:
            tally.failures.append(Failure("crash", found[0][0], str(error)))
            return
        middle = len(found) // 2
        yield from _compiled(found[:middle], tally)
        yield from _compiled(found[middle:], tally)
        return
    yield from ((pair, own, libraries) for pair, own in found)


def _compare(pair: Pair, programs: Programs, libraries: Libraries, tally: Tally) -> None:
    tally.counts["pairs compared"] += 1
    tally.note((*pair.features, *(f"size {n}" for n in pair.sizes if n in (0, 1))), "compared")
    for n in pair.sizes:
        arguments: Mapping[str, Any] = random_arguments(
            programs.kernel, n, pair.seed + n, numbers=numbers_of(pair.features, [step.name for step in pair.steps])
        )
        try:
            wrong = disagreement(programs, arguments, libraries, pair.seed)
        except UnsupportedError:
            tally.counts["runs not compared (too many blocks)"] += 1
            continue
        except Exception:
            tally.failures.append(Failure("crash", pair, f"n = {n}: {traceback.format_exc()}"))
            return
        tally.counts["runs compared"] += 1
        if wrong is not None:
            text = f"n = {n}: {wrong}\n{programs.c.device_code}\n{programs.cuda.device_code}"
            tally.failures.append(Failure("wrong-result", pair, text))
            return

"""The canonical form: equal values, equal bytes, in every process; what is no form of ours is refused."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import hashlib
import json
import os
import pickle
import pickletools
import subprocess
import sys
import typing
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.runtime.calls import Result
from polyloop.serial import classes
from polyloop.serial.form import loads
from polyloop.serial.plain import Absent
from polyloop.transform.registry import TRANSFORMS
from tests.gallery import GALLERY

ROOT = Path(__file__).parents[2]
F32 = np.float32


def double(factor: int = 2) -> pl.LoopKernel:
    kernel = pl.make_kernel(
        "{[i]: 0 <= i < n}", f"y[i] = {factor}*x[i]", [pl.GlobalArg("x, y", F32, shape="n"), ...], name="dbl")
    return pl.split_iname(kernel, "i", 32, outer_tag="g.0", inner_tag="l.0")


def refused() -> pl.PolyloopError:
    with pytest.raises(pl.TransformError) as caught:
        pl.split_iname(double(), "zz", 3)
    return caught.value


MAKE: dict[str, Callable[[], Any]] = {
    "kernel": double,
    "trace": lambda: double().trace,
    "recipe": lambda: pl.Recipe.of(double()).with_parameters(block="1.inner_length"),
    "certificate": lambda: pl.verify(double()),
    "program": lambda: pl.generate_code(double(), target=pl.CudaTarget("sm_80")),
    "compiled kernel": lambda: pl.compile(double(), target=pl.CTarget()),
    "specializing kernel": lambda: pl.compile(pl.make_kernel("{[i]: 0 <= i < n}", "z[i] = 2*x[i]")),
    "result": lambda: pl.compile(double(), target=pl.CTarget())(x=np.ones(3, F32)),
    "error": refused,
    "warning": lambda: pl.PolyloopWarning("make_kernel", "dbl", refused().found[0]),
    "explanation": lambda: pl.explain(double(), {"n": 99}, device="H100"),
    "equivalence": lambda: pl.check_equivalence(double(), double(), target=pl.CTarget()),
}


@pytest.mark.parametrize("name", MAKE)
def test_equal_values_have_equal_bytes_and_hashes(name: str) -> None:
    one, other = MAKE[name](), MAKE[name]()
    data = pl.dumps(one)
    again = pl.loads(data)
    assert type(again) is type(one)
    assert one == again
    assert pl.dumps(again) == data
    if name != "equivalence":  # it has its time
        assert one == other
    assert hash(one) == hash(again)
    assert one != "something else"
    for made in (copy.copy(one), copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
        assert made == one


@pytest.mark.parametrize("name", MAKE)
def test_a_pickle_of_ours_is_one_call_of_the_reader(name: str) -> None:
    """Nothing else than ``loads`` is looked up by pickle, and it is given the canonical form."""
    value = MAKE[name]()
    reader, arguments = value.__reduce__()
    assert (reader, arguments) == (loads, (pl.dumps(value),))
    said = [(code.name, argument) for code, argument, _ in pickletools.genops(pickle.dumps(value, 2))]
    assert [argument for code, argument in said if code == "GLOBAL"] in (
        ["polyloop.serial.form loads"], ["polyloop.serial.form loads", "_codecs encode"])


@pytest.mark.parametrize("other", [
    lambda k: pl.tag_inames(double(3), {}),
    lambda k: double(3),
    lambda k: pl.rename_iname(k, "i_inner", "lane"),
    lambda k: pl.assume(k, "n >= 1"),
    lambda k: dataclasses.replace(k, name="other"),
    lambda k: dataclasses.replace(k, target=pl.CTarget()),
])  # fmt: skip
def test_other_kernels_are_unequal(other: Callable[[pl.LoopKernel], pl.LoopKernel]) -> None:
    kernel = double()
    assert kernel != other(kernel)
    assert kernel.fingerprint != other(kernel).fingerprint
    assert len({kernel, other(kernel), double()}) == 2


def test_where_a_statement_stands_and_how_it_was_spelt_is_no_part_of_a_fingerprint() -> None:
    one = pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = 2*x[i]", [pl.GlobalArg("x, y", F32, shape="n"), ...])
    two = pl.make_kernel("{ [i] : 0 <= i < n }", "\n\n  y[i] = 2 * x[i]", [pl.GlobalArg("x, y", F32, shape="n"), ...])
    assert one == two
    assert pl.dumps(one) != pl.dumps(two), "which is kept"
    assert pl.kernel_to_python(pl.loads(pl.dumps(two))) == pl.kernel_to_python(two)


def test_questions_change_no_fingerprint() -> None:
    """ISL changes sets in place when it is asked about them."""
    asked, fresh = GALLERY["matmul_in_registers"].build(), GALLERY["matmul_in_registers"].build()
    pl.generate_code(asked, target=pl.CudaTarget())
    pl.verify(asked)
    pl.dependences(asked)
    assert asked.fingerprint == fresh.fingerprint


_PROGRAM = """
import sys, warnings
warnings.simplefilter("ignore")
import polyloop as pl
from tests.gallery import GALLERY
from tests.serial.test_form import hashes
for name in sys.argv[1:]:
    kernel = GALLERY[name].build()
    pl.verify(kernel)
    print(kernel.fingerprint, hash(kernel), pl.generate_code(kernel).fingerprint)
print(*hashes(), sep=chr(10))
"""


def hashes() -> list[str]:
    """Return the hash of a value of each kind."""
    return [f"{name} {hash(make())}" for name, make in MAKE.items() if name != "equivalence"]  # it has its time


def test_fingerprints_and_hashes_are_those_of_other_processes() -> None:
    names = [name for name in sorted(GALLERY) if "cuda" not in GALLERY[name].refused][::25]
    others = [
        subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, *names], cwd=ROOT, stdout=subprocess.PIPE, text=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"]})
        for seed in ("1", "77")]  # fmt: skip
    kernels = [GALLERY[name].build() for name in names]
    mine = [f"{k.fingerprint} {hash(k)} {pl.generate_code(k).fingerprint}" for k in kernels] + hashes()
    for other in others:
        assert other.communicate()[0].splitlines() == mine
        assert other.returncode == 0


def test_results_keep_their_hash_while_their_elements_change() -> None:
    one, other = MAKE["result"](), MAKE["result"]()
    before, kept = hash(one), {one: "kept"}
    one.y[0] = 7
    assert (hash(one), kept[one], one == other, hash(other)) == (before, "kept", False, before)
    assert copy.copy(one).y is one.y  # as a copy of a list has the same entries
    assert copy.deepcopy(one).y is not one.y
    assert hash(Result.of({"y": one.y.astype(np.float64)})) != before != hash(Result.of({"z": one.y}))
    torch = pytest.importorskip("torch")
    here, meta = (Result.of({"y": torch.zeros(3, device=place)}) for place in ("cpu", "meta"))
    assert here != meta  # and no error of Torch's


def round_trip(name: str) -> None:
    kernel = GALLERY[name].build()
    data = pl.dumps(kernel)
    made = pl.loads(data)
    assert made == kernel, name
    assert (pl.dumps(made), str(made), made.trace) == (data, str(kernel), kernel.trace), name
    assert GALLERY[name].build() == kernel, name
    for target in (pl.CTarget(), pl.CudaTarget()):
        try:
            program = pl.generate_code(kernel, target=target)
            error: pl.PolyloopError | None = None
        except pl.PolyloopError as refusal:
            error = refusal
        if error is not None:
            assert pl.loads(pl.dumps(error)) == error, name
            continue
        assert pl.generate_code(made, target=target) == program == pl.loads(pl.dumps(program)), name


@pytest.mark.parametrize("part", range(4))
def test_kernels_of_the_gallery(part: int) -> None:
    for name in sorted(GALLERY)[part::24]:
        round_trip(name)


@pytest.mark.slow
def test_every_kernel_of_the_gallery() -> None:
    for name in sorted(GALLERY):
        round_trip(name)


def test_targets_are_values() -> None:
    for target in (
        pl.CTarget(openmp=True), pl.CudaTarget("sm_80", min_blocks=2, options=["-use_fast_math"], std="c++20"),
        pl.CudaTarget(link=[b"\x7fELF"]), pl.HipTarget("gfx90a"), pl.OpenCLTarget(version="2.0"),
        pl.OpenCLTarget(pl.OpenCLDevice(max_threads=256)),
    ):  # fmt: skip
        made = pl.loads(pl.dumps(dataclasses.replace(double(), target=target))).target
        assert made == target
        assert copy.deepcopy(target) is target
        assert pickle.loads(pickle.dumps(target)) == target


def test_a_target_with_tables_of_its_own_is_no_data() -> None:
    own = pl.CTarget()
    own = dataclasses.replace(own, language=dataclasses.replace(own.language, name="mine"))
    kernel = dataclasses.replace(double(), target=own)
    with pytest.raises(pl.ArgumentError) as caught:
        pl.dumps(kernel)
    assert caught.value.codes == ("not-picklable",)
    assert "has tables of its own" in str(caught.value)
    assert pickle.loads(pickle.dumps(own)).language.name == "mine"  # by its parts
    assert kernel == kernel  # noqa: PLR0124 - to itself alone
    assert kernel != dataclasses.replace(double(), target=own)
    assert hash(kernel) == hash(kernel)


def test_functions_are_named_and_not_held() -> None:
    """A module's function is found where the module is loaded; nothing is imported, and a lambda is not there."""
    cube = pl.ForeignFunction("cube", (F32,), preamble="static float cube(float x) { return x*x*x; }",
                              reference=lambda x: x * x * x)
    kernel = pl.make_kernel("{[i]: 0 <= i < 3}", "y[i] = cube(x[i])", [pl.GlobalArg("x, y", F32, shape="3")],
                            functions=[cube])  # fmt: skip
    assert pl.interpret(kernel, x=np.ones(3, F32) * 2)["y"].tolist() == [8, 8, 8]
    made = pl.loads(pl.dumps(kernel))
    assert made == kernel
    assert pl.compile(made, target=pl.CTarget())(x=np.ones(3, F32) * 2).y.tolist() == [8, 8, 8]
    (function,) = made.foreign
    assert isinstance(function.reference, Absent)
    with pytest.raises(pl.ArgumentError, match="function-not-here"):
        pl.interpret(made, x=np.ones(3, F32))
    assert pl.dumps(made) == pl.dumps(kernel)


# {{{ what is no form


def changed(change: Callable[[dict[str, Any]], object], *, seal: bool = True) -> bytes:
    """Return a form with a change, with its SHA-256 made right again."""
    form = json.loads(pl.dumps(double()))
    change(form)
    if seal:
        content = json.dumps(form["values"], separators=(",", ":"))
        form["sha256"] = hashlib.sha256(content.encode()).hexdigest()
    return json.dumps(form).encode()


def entry(form: dict[str, Any], name: str, number: int = 0) -> Any:
    return [value for value in form["values"] if value[0] == name][number]


def member(name: str, field: str, value: object, number: int = 0) -> Callable[[dict[str, Any]], object]:
    return lambda form: entry(form, name, number)[1].update({field: value})


def extra(name: str, *parts: object) -> Callable[[dict[str, Any]], object]:
    return lambda form: form["values"].append([name, *parts])


TAMPERED: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "a class of Python's": (extra("os.system", "true"), "there is no class 'os.system'"),
    "a class that is not listed": (extra("DiskCache", {}), "there is no class 'DiskCache'"),
    "a class by its module": (extra("polyloop.runtime.cache:DiskCache", {}), "there is no class"),
    "a part that comes later": (extra("tuple", [99999]), "is no part that comes before"),
    "itself": (lambda form: form["values"].append(["tuple", [len(form["values"])]]), "is no part that comes before"),
    "a list for a part": (extra("tuple", [1, 2]), "is no part that comes before"),
    "a number with a point": (extra("tuple", 1.5), "is no part that comes before"),
    "a field too many": (member("LoopKernel", "warp_roles", None), "'LoopKernel' has other fields: warp_roles"),
    "a field too few": (
        lambda form: entry(form, "LoopKernel")[1].pop("blocks"), "'LoopKernel' has other fields: blocks"),
    "a number for a text": (member("LoopKernel", "name", 7), "'LoopKernel': name cannot be 7"),
    "a name that is code": (member("LoopKernel", "name", "f(){} int g"), "is no name"),
    "a name of C": (member("LoopKernel", "name", "int"), "'int' is a keyword of C or C++"),
    "a variable that is code": (member("Variable", "name", "x; abort()"), "is no name"),
    "an unknown variable": (member("Variable", "name", "unheard_of"), "which the kernel has not"),
    "a set that is none": (lambda form: entry(form, "Set").__setitem__(1, "{ [i : }"), "ISL cannot read"),
    "a set of other names": (lambda form: entry(form, "Set", 1).__setitem__(1, "{ [q] : q = 0 }"), "is not over"),
    "a type that is none": (extra("dtype", "O"), "is no type of numbers"),
    "a type by a command": (extra("dtype", "f4,(2,)f8"), "is no type"),
    "an enumeration's other name": (extra("Scope", "UNIVERSE"), "UNIVERSE"),
    "a step that is none": (extra("step drop_tables", {}), "there is no class"),
    "a step with a wrong type": (member("step split_iname", "inner_length", "long"), "inner_length cannot be 'long'"),
    "an error that is none": (extra("error", "SystemExit", "a", None, [0]), "there is no error 'SystemExit'"),
    "a target that is none": (extra("Target", "cuda"), "there is no such target"),
    "a compiled kernel of nothing": (extra("CompiledKernel", None), "there is no such compiled kernel"),
    "no entry": (lambda form: form["values"].append(7), "has no name in front"),
    "no entries": (lambda form: form.update(values=[]), "it has other parts than a form"),
    "a part more": (lambda form: form.update(run="rm"), "it has other parts than a form"),
    "another format": (lambda form: form.update(format="dragon"), "it does not say that it is a form of polyloop"),
    "a key twice": (extra("dict", [0], [0]), "pairs"),
    "a huge array": (lambda form: form["values"].extend([["dtype", "float64"], ["tuple", 10**12], [
        "array", [len(form["values"])], [len(form["values"]) + 1], ""]]), "entry"),
}  # fmt: skip


@pytest.mark.parametrize("name", [7, "", "y; abort()", None])
def test_outputs_of_results_have_names(name: object) -> None:
    result = MAKE["result"]()
    data = pl.dumps(Result.of({name: result.y}))  # type: ignore[dict-item]
    with pytest.raises(pl.SerialError, match="a result has outputs that are called"):
        pl.loads(data)


@pytest.mark.parametrize("name", TAMPERED)
def test_tampered_forms_are_refused(name: str) -> None:
    change, words = TAMPERED[name]
    with pytest.raises(pl.SerialError) as caught:
        pl.loads(changed(change))
    assert caught.value.codes == ("bad-form",)
    assert words in str(caught.value)


def test_a_change_without_a_new_hash_is_refused() -> None:
    with pytest.raises(pl.SerialError, match="its SHA-256 is another one"):
        pl.loads(changed(member("LoopKernel", "name", "other"), seal=False))


@pytest.mark.parametrize(("version", "age"), [(0, "older"), (2, "newer"), (None, "older"), ("1", "older")])
def test_forms_of_other_versions_are_refused(version: object, age: str) -> None:
    with pytest.raises(pl.SerialError) as caught:
        pl.loads(changed(lambda form: form.update(version=version)))
    assert caught.value.codes == ("form-version",)
    assert age in str(caught.value)


@pytest.mark.parametrize("data", [
    b"", b"{}", b"[]", b"null", b"\x80\x04N.", b"\xff\xfe", b'{"format": "polyloop"', b"[" * 100_000, "text", None, 3,
], ids=str)  # fmt: skip
def test_foreign_data_is_refused(data: Any) -> None:
    with pytest.raises(pl.SerialError) as caught:
        pl.loads(data)
    assert caught.value.codes in (("bad-form",), ("form-version",))


def test_every_truncation_is_refused() -> None:
    data = pl.dumps(double())
    for end in {*range(0, len(data), 97), len(data) - 1, len(data) - 2}:
        with pytest.raises(pl.SerialError):
            pl.loads(data[:end])


def test_every_changed_byte_is_refused() -> None:
    data = bytearray(pl.dumps(double()))
    for place in range(0, len(data), 53):
        other = bytearray(data)
        other[place] ^= 1
        try:
            found = pl.loads(bytes(other))
        except pl.SerialError:
            continue
        assert found == double(), "only a space may have been another sign"


def test_random_changes_with_a_right_hash_raise_nothing_else() -> None:
    """Whatever a form says, it is refused with a code, or it is a value; nothing else is raised, and nothing runs."""
    rng, plain = np.random.default_rng(0), json.loads(pl.dumps(double()))
    pool = [0, -1, 2**70, True, None, "", "x", "int", [0], [3], ["tuple"], {}, {"name": "y"}, [10**9], "\0", "é"]
    for _ in range(400):
        form = json.loads(json.dumps(plain))
        values = form["values"]
        spot = values[int(rng.integers(len(values)))]
        new = pool[int(rng.integers(len(pool)))]
        if len(spot) > 1 and isinstance(spot[1], dict) and spot[1]:
            spot[1][[*spot[1]][int(rng.integers(len(spot[1])))]] = new
        else:
            spot[int(rng.integers(len(spot)))] = new
        content = json.dumps(values, separators=(",", ":"))
        form["sha256"] = hashlib.sha256(content.encode()).hexdigest()
        with contextlib.suppress(pl.SerialError):
            pl.loads(json.dumps(form).encode())


def test_a_damaged_pickle_is_refused_by_the_reader() -> None:
    data = pickle.dumps(double(), 2)
    at = data.index(b"dbl")
    with pytest.raises(pickle.UnpicklingError, match="bad-form"):
        pickle.loads(data[:at] + b"dbk" + data[at + 3 :])


def test_reading_imports_and_runs_nothing_of_the_users(tmp_path: Path) -> None:
    """A module that the form names by a function is not imported, and no compiler is called for a compiled kernel."""
    (tmp_path / "loud.py").write_text("raise SystemExit('imported')\n")
    kernel = pl.compile(double(), target=pl.CTarget())
    form = json.loads(pl.dumps(kernel))
    form["values"][:0] = []
    data = json.dumps(form["values"], separators=(",", ":"))
    assert "loud" not in data
    function = json.dumps([["function", "loud", "f", ""]], separators=(",", ":"))
    foreign = json.dumps({"format": "polyloop", "version": 1, "values": json.loads(function),
                          "sha256": hashlib.sha256(function.encode()).hexdigest()})  # fmt: skip
    program = f"""
import os, sys
sys.path.insert(0, {str(tmp_path)!r})
os.environ["PATH"] = "/nowhere"
os.environ["POLYLOOP_CACHE_DIR"] = {str(tmp_path / "cache")!r}
import polyloop as pl
assert callable(pl.loads({foreign.encode()!r}))
assert "loud" not in sys.modules
run = pl.loads({pl.dumps(kernel)!r})
assert run.source and run.program.launches
try:
    run(x=1)
except pl.CompilerError as error:
    print(error.codes)
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True,
                          env={"PYTHONPATH": str(ROOT), "CC": "/nowhere/cc"})  # fmt: skip
    assert "compiler" in done.stdout

# }}}


def mentioned(hint: Any) -> Iterator[Any]:
    yield hint
    for part in typing.get_args(hint):
        yield from mentioned(part) if not isinstance(part, str) else ()


def test_the_table_has_every_class_that_its_classes_hold() -> None:
    listed: list[Any] = [classes.class_of(name) for name in classes._places()]
    for kind in [*listed, *TRANSFORMS.values()]:
        assert kind is not None
        if issubclass(kind, Enum) or kind.__module__.startswith("pymbolic"):
            continue
        for field, hint in classes.hints_of(kind).items():
            for part in mentioned(hint):
                ours = isinstance(part, type) and part.__module__.startswith("polyloop.")
                if not ours or not (dataclasses.is_dataclass(part) or issubclass(part, Enum)):
                    continue
                known = classes.name_of(part) or part.__name__ in classes.ADAPTED or part.__name__ == "Transform"
                assert known, f"{kind.__name__}.{field} may hold a {part.__name__}"

"""``kernel_to_python``: what is printed makes the same kernel."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.cli.kernels import DEMO_KERNELS
from polyloop.testing.drawing.random_chains import random_recipe
from polyloop.testing.drawing.random_kernels import random_source
from tests.gallery import GALLERY


def again(knl: pl.LoopKernel, **options: Any) -> pl.LoopKernel:
    namespace: dict[str, Any] = {}
    exec(pl.kernel_to_python(knl, **options), namespace)
    found = namespace[options.get("var_name", "knl")]
    assert isinstance(found, pl.LoopKernel)
    return found


def same(one: pl.LoopKernel, other: pl.LoopKernel, code: bool = True) -> None:
    assert str(one) == str(other)
    assert str(one.reference) == str(other.reference)
    assert str(one.trace) == str(other.trace)
    if not code:
        return
    for target in (pl.CTarget(), pl.CudaTarget()):
        texts = []
        for knl in (one, other):
            try:
                texts.append(pl.generate_code(knl, target=target).device_code)
            except pl.PolyloopError as error:
                texts.append(str(error))
        assert texts[0] == texts[1]


@pytest.mark.few(60)
@pytest.mark.parametrize("name", sorted(GALLERY))
def test_gallery_kernels_are_made_again(name: str) -> None:
    knl = GALLERY[name].build()
    if any(function.reference is not None for function in knl.foreign):
        with pytest.raises(pl.KernelError) as refused:
            pl.kernel_to_python(knl)
        assert refused.value.codes == ("no-script",)
        return
    same(knl, again(knl), code=False)


@pytest.mark.parametrize("name", sorted(DEMO_KERNELS))
def test_demo_kernels_are_made_again(name: str) -> None:
    knl = DEMO_KERNELS[name].build()
    same(knl, again(knl))


@pytest.mark.few(10)
@pytest.mark.parametrize("seed", range(30))
def test_random_kernels_are_made_again(seed: int) -> None:
    try:
        knl = random_source(seed).make()
    except pl.KernelError:
        return
    same(knl, again(knl), code=False)
    for step in random_recipe(random.Random(seed), knl):
        try:
            knl = step(knl)
        except pl.PolyloopError:
            continue
    same(knl, again(knl), code=seed < 4)


def written() -> pl.LoopKernel:
    knl = pl.make_kernel(
        "{[i]: 0 <= i < n}",
        """
        c[i] = 2*a[i]   # twice
        """,
        [pl.GlobalArg("a, c", np.float32, shape=("n",)), ...],
        name="twice",
        assumptions="n >= 1",
    )
    return pl.split_iname(knl, "i", 64, outer_tag="g.0", inner_tag="l.0")


def test_the_script_is_what_a_person_would_write() -> None:
    assert pl.kernel_to_python(written()) == (
        "import numpy as np\n"
        "\n"
        "import polyloop as pl\n"
        "\n"
        "knl = pl.make_kernel(\n"
        "    '{[i]: 0 <= i < n}',\n"
        '    """\n'
        "        c[i] = 2*a[i]   # twice\n"
        '        """,\n'
        "    [pl.GlobalArg('a, c', dtype=np.float32, shape=('n',)),\n"
        "     ...],\n"
        "    name='twice',\n"
        "    assumptions='n >= 1',\n"
        ")\n"
        "knl = pl.split_iname(knl, split_iname='i', inner_length=64, outer_tag='g.0', inner_tag='l.0')\n"
    )


def test_the_variable_is_chosen() -> None:
    same(written(), again(written(), var_name="scale"))


def test_as_a_test_it_is_a_function() -> None:
    namespace: dict[str, Any] = {}
    exec(pl.kernel_to_python(written(), is_test=True), namespace)
    namespace["test_twice"]()


@pytest.mark.parametrize(
    "data",
    [
        [pl.GlobalArg("a", "float64", shape=pl.auto), pl.ValueArg("n", np.dtype("int64")), ...],
        [pl.GlobalArg("a", np.float64, shape=(np.int32(20),), order="F", is_input=True), "..."],
        [pl.TemporaryVariable("t", float, address_space=pl.AddressSpace.PRIVATE), ...],
        None,
    ],
)
def test_declarations_of_all_kinds_are_made_again(data: list[object] | None) -> None:
    text = ["<> t = a[i] + 1", 'b[i] = 0.5*t {id=last}']
    for domains in ("{[i]: 0 <= i < 20}", ["{[i]: 0 <= i < 20}", "[n] -> {[j]: 0 <= j < n}"]):
        knl = pl.make_kernel(domains, [*text, "a[i] = b[i]"] if data is None else text, data)
        same(knl, again(knl))


def test_sets_are_printed_as_text() -> None:
    domain = pl.make_kernel("{[i]: 0 <= i < n}", "a[i] = 0.0").domains[0].set
    knl = pl.make_kernel([domain], "a[i] = 0.0", fixed_parameters={"n": 5})
    same(knl, again(knl))


def test_einsums_are_made_again() -> None:
    knl = pl.make_einsum("ij,j->i", "a, x")
    same(knl, again(knl))


def test_the_variable_must_be_an_identifier() -> None:
    with pytest.raises(pl.KernelError, match="'2' is not a valid variable"):
        pl.kernel_to_python(written(), var_name="2")

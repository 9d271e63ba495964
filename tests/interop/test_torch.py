"""Kernels as operators of PyTorch: values, gradients, compiled functions, and each wrong use refused."""

from __future__ import annotations

import itertools
import sys
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.runtime import views
from tests.interop.libraries import F, added, matvec, matvec_backward, refused, required, rounded

torch: Any = required("torch")
polyloop_torch: Any = required("polyloop.torch")
NUMBERS = itertools.count()


def fresh() -> str:
    """Return a name that no operator has."""
    return f"polyloop_tests::op{next(NUMBERS)}"


@pytest.fixture(scope="module")
def op() -> Any:
    return polyloop_torch.custom_op(matvec(), fresh(), backward=matvec_backward())


@pytest.fixture(scope="module")
def plain() -> Any:
    """Return an operator without gradients."""
    return polyloop_torch.custom_op(matvec(), fresh(), backward=False)


@pytest.fixture
def data() -> tuple[Any, Any]:
    torch.manual_seed(0)
    return torch.rand(3, 4), torch.rand(4)


def test_values(op: Any, plain: Any, data: tuple[Any, Any]) -> None:
    a, x = data
    for run in (op, plain):
        for number in range(4):
            torch.testing.assert_close(run(a, x, float(number)), number * (a @ x))
        torch.testing.assert_close(run(a=a, s=2, x=x), 2 * a @ x)


def test_gradients_are_those_of_pytorch(op: Any, data: tuple[Any, Any]) -> None:
    a, x = (each.requires_grad_() for each in data)
    own = torch.autograd.grad(torch.sin(op(a, x, 2.0)).sum(), (a, x))
    other = torch.autograd.grad(torch.sin(2 * a @ x).sum(), (a, x))
    for one, two in zip(own, other, strict=True):
        torch.testing.assert_close(one, two)
    # a gradient of stride 0, and one that is not asked
    (only,) = torch.autograd.grad(op(a.detach(), x, 2.0).sum(), (x,))
    torch.testing.assert_close(only, torch.autograd.grad((2 * a.detach() @ x).sum(), (x,))[0])
    with torch.no_grad():
        assert not op(a, x, 2.0).requires_grad


@pytest.mark.parametrize("grad", [False, True])
def test_opcheck(op: Any, plain: Any, data: tuple[Any, Any], grad: bool) -> None:
    a, x = (each.requires_grad_(grad) for each in data)
    torch.library.opcheck(op if grad else plain, (a, x, 2.0))
    torch.library.opcheck(op, (a, x), {"s": 2.0})


def test_opcheck_of_several_outputs_and_changed_tensors() -> None:
    several = polyloop_torch.custom_op(rounded(), fresh())
    x, z = torch.rand(5), torch.ones(1)
    y, w = several(x, z, 0.5, 3)
    torch.testing.assert_close(y, x[:-1] + x[1:] + 0.5)
    torch.testing.assert_close(w, (x + 3)[:, None])
    torch.library.opcheck(several, (x, z, 0.5, 3))
    change = polyloop_torch.custom_op(added(), fresh())
    version, u, v = x._version, x.clone(), torch.ones(5)
    assert change(u, v) is None
    torch.testing.assert_close(u, x + 1)
    assert (x._version, u._version) == (version, 1)
    torch.library.opcheck(change, (u, v), test_utils=("test_schema", "test_faketensor"))


def test_compiled_functions_have_no_graph_breaks_and_take_other_sizes(op: Any) -> None:
    def model(a: Any, x: Any) -> Any:
        return torch.sin(op(a, torch.cos(x), 2.0)).sum()

    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    compiled, x = torch.compile(model, fullgraph=True, backend="aot_eager"), torch.rand(4)
    for rows in (3, 5, 6, 7, 9, 11, 12, 13, 14, 15):  # more than there may be compilations
        a = torch.rand(rows, 4, requires_grad=True)
        (own,), (other,) = torch.autograd.grad(compiled(a, x), (a,)), torch.autograd.grad(model(a, x), (a,))
        torch.testing.assert_close(own, other)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 2  # of one size, and of all


def test_compiled_functions_see_changes() -> None:
    change = polyloop_torch.custom_op(added(), fresh())
    u, v = torch.zeros(4), torch.ones(4)

    def twice(u: Any, v: Any) -> Any:
        change(u, v)
        change(u, v)
        return u + 1

    torch.testing.assert_close(torch.compile(twice, fullgraph=True, backend="aot_eager")(u, v), torch.full((4,), 3.0))
    assert u.tolist() == [2.0] * 4


def test_sizes_that_follow_from_no_shape() -> None:
    knl = pl.make_kernel(
        "{[i]: 0 <= i < n}", "y[i] = x[0]*k", [pl.GlobalArg("x", F, shape="1"), pl.GlobalArg("y", F, shape="n"),
                                               pl.ValueArg("k, n", np.int32)], name="repeated")  # fmt: skip
    op = polyloop_torch.custom_op(knl, fresh())
    assert op(torch.ones(1), 2, n=3).tolist() == [2.0, 2.0, 2.0]
    assert op(torch.ones(1), 3, n=2).tolist() == [3.0, 3.0]
    compiled = torch.compile(lambda x: op(x, 2, n=5), fullgraph=True, backend="aot_eager")
    assert compiled(torch.ones(1)).shape == (5,)
    assert "the size 'n' follows from no array" in refused(lambda: op(torch.ones(1), 2))


def test_a_name_is_registered_once_and_wholly() -> None:
    name = fresh()
    namespace, short = name.split("::")
    space = getattr(torch.ops, namespace)
    polyloop_torch.custom_op(matvec_backward(), f"{name}_backward")  # in the way of the second of two operators
    for _ in range(2):
        assert "[op-exists]" in refused(lambda: polyloop_torch.custom_op(matvec(), name, backward=matvec_backward()))
        assert not hasattr(space, short)
    op = polyloop_torch.custom_op(matvec(), name, backward=False)
    assert "choose another name" in refused(lambda: polyloop_torch.custom_op(matvec(), name, backward=False))
    assert getattr(space, short).default is op
    assert op(torch.ones(2, 2), torch.ones(2), 1.0).tolist() == [2.0, 2.0]


def test_what_pytorch_refuses_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise RuntimeError("no more operators today")

    name = fresh()
    namespace, short = name.split("::")
    with monkeypatch.context() as patched:
        patched.setattr("torch._library.autograd.make_autograd_impl", fails)
        found = refused(lambda: polyloop_torch.custom_op(matvec(), name, backward=matvec_backward()))
    assert "[op-refused]" in found
    assert "no more operators today" in found
    assert not hasattr(getattr(torch.ops, namespace), short)
    op = polyloop_torch.custom_op(matvec(), name, backward=matvec_backward())
    x = torch.ones(2, requires_grad=True)
    op(torch.ones(2, 2), x, 1.0).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
    with monkeypatch.context() as patched:  # which are no public names of PyTorch
        patched.setattr("polyloop.interop.torchops.importlib", None)
        public = polyloop_torch.custom_op(matvec(), fresh(), backward=matvec_backward())
    public(torch.ones(2, 2), x, 1.0).sum().backward()
    assert x.grad.tolist() == [4.0, 4.0]


def test_a_call_without_gradients_goes_from_the_dispatcher_to_the_kernel(
    op: Any, data: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, x = data
    seen: list[str] = []

    class Mode(torch.utils._python_dispatch.TorchDispatchMode):  # type: ignore[misc]  # PyTorch's has no types here
        def __torch_dispatch__(self, function: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(str(function))
            return function(*args, **(kwargs or {}))

    expected = op(a, x, 2.0)
    with torch.profiler.profile() as profile:
        op(a, x, 2.0)
    assert not any("Generated" in event.key for event in profile.key_averages())
    with Mode():  # which stands between autograd and the kernel
        torch.testing.assert_close(op(a, x, 2.0), expected)
    assert [name for name in seen if "polyloop" in name] == [f"{op.namespace}.{op._opname}.default"]
    with torch.inference_mode():
        torch.testing.assert_close(op(a, x, 2.0), expected)
    meta = op(a.to("meta"), x.to("meta"), 2.0)
    assert (meta.device.type, meta.shape) == ("meta", expected.shape)
    assert op(a, x.requires_grad_(), 2.0).grad_fn is not None


def renamed(old: str, new: str) -> pl.LoopKernel:
    return matvec_backward().rename_argument(old, new)


@pytest.mark.parametrize(("make", "message"), [
    (lambda: polyloop_torch.custom_op(matvec(), "matvec"), "'matvec' is no name of an operator [bad-op-name]"),
    (lambda: polyloop_torch.custom_op(matvec(), "a::b c"), "[bad-op-name]"),
    (lambda: polyloop_torch.custom_op(matvec(), fresh(), backward=matvec()), "'y' is no gradient of 'matvec'"),
    (lambda: polyloop_torch.custom_op(matvec(), fresh(), backward=renamed("x", "v")), "'v' is no argument of 'matvec'"),
    (lambda: polyloop_torch.custom_op(matvec(np.float64), fresh(), backward=matvec_backward()), "[wrong-backward]"),
    (lambda: polyloop_torch.custom_op(added(), fresh(), backward=matvec_backward()), "'u' is read and written"),
    (lambda: polyloop_torch.custom_op(pl.make_einsum("i,i->i", "a, b"), fresh()), "[unknown-dtype]"),
    (lambda: polyloop_torch.custom_op(matvec().rename_argument("s", "out"), fresh()), "'out' can be no argument"),
    (lambda: polyloop_torch.custom_op("matvec", fresh()), "[wrong-argument-type]"),
])  # fmt: skip
def test_kernels_that_are_no_operators_are_refused(make: Any, message: str) -> None:
    assert message in refused(make)


def test_wrong_tensors_are_refused_at_the_call(op: Any, plain: Any, data: tuple[Any, Any]) -> None:
    a, x = data
    for run in (op, plain):
        assert "[wrong-dtype]" in refused(lambda run=run: run(a.double(), x, 1.0))
        assert "[wrong-strides]" in refused(lambda run=run: run(a.t(), x[:3], 1.0))
        assert "[wrong-strides]" in refused(lambda run=run: run(a, x[:1].expand(4), 1.0))
        assert "[inconsistent-size]" in refused(lambda run=run: run(a, x[:3], 1.0))
        assert "[wrong-shape]" in refused(lambda run=run: run(a, a, 1.0))
    assert "'a' requires gradients" in refused(lambda: plain(a.requires_grad_(), x, 1.0))
    with pytest.raises(Exception, match="no-gradient"):  # the compiler's, around ours
        torch.compile(lambda a: plain(a, x, 1.0), fullgraph=True, backend="aot_eager")(a)
    change = polyloop_torch.custom_op(added(), fresh())
    u = torch.zeros(8)
    assert "[overlapping-arguments]" in refused(lambda: change(u[:4], u[2:6]))
    assert "[wrong-strides]" in refused(lambda: change(u[:1].expand(4), u[4:]))
    assert "[assumption-violated]" in refused(lambda: change(u[:1], u[4:5]))


def test_a_gradient_that_no_kernel_computes_is_refused() -> None:
    knl = pl.make_kernel(
        "{[i, l]: 0 <= i, l < m}", "grad_x[i] = s*sum(l, a[l, i]*grad_y[l])",
        [pl.GlobalArg("a", F, shape="m, m"), pl.GlobalArg("grad_x, grad_y", F, shape="m"), pl.ValueArg("s", F), ...])
    op = polyloop_torch.custom_op(matvec(), fresh(), backward=knl)
    a, x = torch.rand(3, 3), torch.rand(3, requires_grad=True)
    torch.testing.assert_close(torch.autograd.grad(op(a, x, 2.0).sum(), x)[0], 2 * a.sum(0))
    assert "computes no gradient of 'a' [no-gradient]" in refused(lambda: op(a.requires_grad_(), x, 2.0))


def test_without_pytorch_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    assert 'pip install "polyloop[interop]"' in refused(lambda: polyloop_torch.custom_op(matvec(), fresh()))


def test_gradients_follow_from_the_kernel() -> None:
    knl = pl.make_kernel(
        "{[i, j, k]: 0 <= i < m and 0 <= j, k < n}", """
        <> total = sum(j, exp(x[i, j]))
        y[i, k] = w[k]*exp(x[i, k])/total
        """,
        [pl.GlobalArg("x, y", np.float64, shape="m, n"), pl.GlobalArg("w", np.float64, shape="n"), ...])
    op = polyloop_torch.custom_op(knl, fresh())
    x = torch.rand(3, 4, dtype=torch.float64, requires_grad=True)
    w = torch.rand(4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(op, (x, w))
    torch.library.opcheck(op, (x, w))
    ours = torch.autograd.grad(torch.sin(op(x, w)).sum(), (x, w))
    theirs = torch.autograd.grad(torch.sin(w*torch.softmax(x, 1)).sum(), (x, w))
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other)
    compiled = torch.compile(lambda x: op(x, w).sum(), fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(torch.autograd.grad(compiled(x), x)[0], torch.autograd.grad(op(x, w).sum(), x)[0])


def test_a_kernel_that_cannot_be_differentiated_says_why() -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = lgamma(x[i])", [pl.GlobalArg("x, y", F, shape="n"), ...])
    op = polyloop_torch.custom_op(knl, fresh())
    torch.testing.assert_close(op(torch.ones(3)), torch.zeros(3))
    assert "the derivative of 'lgamma' is not known" in refused(lambda: op(torch.ones(3, requires_grad=True)))


@pytest.mark.parametrize("is_there", [True, False])
def test_new_outputs_are_those_of_pytorch_with_and_without_its_own_allocator(
    monkeypatch: pytest.MonkeyPatch, *, is_there: bool
) -> None:
    if not is_there:
        monkeypatch.setattr(torch._C._dynamo, "guards", None, raising=False)
        monkeypatch.setitem(sys.modules, "torch._C._dynamo.guards", None)
    assert (views._direct(torch, torch.device("cpu")) is not None) == is_there
    for dtype, shape, strides in (("float32", (3, 4), (1, 3)), ("float8_e5m2", (5,), (2,)), ("complex64", (), ()),
                                  ("int8", (0, 7), (7, 1))):  # fmt: skip
        tensor, pointer = views.torch_allocator("cpu", np.dtype(dtype), shape, strides)()
        wanted = torch.empty_strided(shape, strides, dtype=getattr(torch, dtype))
        seen = [(t.dtype, t.device, t.shape, t.stride(), t.requires_grad) for t in (tensor, wanted)]
        assert seen[0] == seen[1]
        assert pointer == tensor.data_ptr()


def test_the_allocator_of_the_current_gpu_serves_only_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert views._direct(torch, torch.device("cuda:1")) is None
    assert views._direct(torch, torch.device("meta")) is None

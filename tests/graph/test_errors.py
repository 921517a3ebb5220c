"""Every wrong input has an error of the right class, whose message names the place, what came and what is accepted."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import metaop as mo
from metaop import errors
from metaop.backends import Backend, catalog, get
from metaop.backends.bind import Bindings
from metaop.errors import (
    AttributeValueError,
    CycleError,
    DeviceError,
    DomainError,
    DtypeError,
    FeedError,
    FrameworkError,
    GradientError,
    InternalError,
    MetaopError,
    MissingFrameworkError,
    ShapeError,
    UnknownBackendError,
    UnsupportedOpError,
    UsageError,
    UserError,
)
from tests.graph.support import BACKENDS

ONES = np.ones((2, 3), np.float32)


def x23(name: str = "x") -> mo.Placeholder:
    return mo.Placeholder(shape=(2, 3), dtype="float32", name=name)


def assert_says(error: BaseException, *fragments: str) -> None:
    for fragment in fragments:
        assert fragment in str(error), f"{fragment!r} is not in: {error}"


# -- the tree ----------------------------------------------------------------------------------------------------------


def test_every_error_says_whose_fault_it_is() -> None:
    for name in errors.__all__:
        kind = getattr(errors, name)
        assert issubclass(kind, MetaopError)
        if kind is not MetaopError:
            assert sum(issubclass(kind, branch) for branch in (UserError, FrameworkError, InternalError)) == 1, name
        assert f"{name} " in errors.__doc__ or f"{name}\n" in errors.__doc__, f"{name} is missing from the drawing"


def test_errors_are_also_what_python_calls_them() -> None:
    assert issubclass(UserError, ValueError)
    assert issubclass(DtypeError, TypeError)
    assert issubclass(MissingFrameworkError, ImportError)
    assert issubclass(UnsupportedOpError, NotImplementedError)
    assert issubclass(FrameworkError, RuntimeError)
    for kind in (ShapeError, DtypeError, AttributeValueError, CycleError):
        assert issubclass(kind, mo.GraphError)


# -- feeds -------------------------------------------------------------------------------------------------------------


def test_an_unfed_placeholder() -> None:
    x, other = x23(), mo.Placeholder(name="other")
    with pytest.raises(FeedError) as caught:
        mo.Session().run(x + other, {other: 1.0})
    assert_says(caught.value, "placeholder 'x'", "float32[2, 3]", "is not fed", "'other'")
    with pytest.raises(FeedError, match=r"'x'.*feed_dict has nothing"):
        mo.Session().gradients(mo.reduce_sum(x), x)


@pytest.mark.parametrize("kind", ["variable", "constant", "operator", "name", "number"])
def test_only_placeholders_are_fed(kind: str) -> None:
    node = {
        "variable": mo.Variable(1.0, name="n"),
        "constant": mo.Constant(1.0, name="n"),
        "operator": mo.relu(mo.Variable(1.0), name="n"),
        "name": "n",
        "number": 3,
    }[kind]
    with pytest.raises(FeedError, match="feed_dict") as caught:
        mo.Session().run(mo.relu(mo.Variable(1.0)), {node: 1.0})
    if kind in ("variable", "constant", "operator"):
        assert_says(caught.value, "'n'", f"is a {kind.capitalize()}", "only placeholders are fed")
    if kind == "number":
        assert_says(caught.value, "3 is not a node")


def test_a_feed_of_the_wrong_shape_or_dtype() -> None:
    x = mo.Placeholder(shape=(None, 3), dtype="float32", name="x")
    for wrong, got in (
        (np.ones((2, 4), np.float32), "float32[2, 4]"),
        (np.ones(3, np.float32), "float32[3]"),
        (np.ones((2, 3)), "float64[2, 3]"),
        (np.ones((2, 3), int), "int64[2, 3]"),
    ):
        with pytest.raises(FeedError) as caught:
            mo.Session().run(mo.relu(x), {x: wrong})
        assert_says(caught.value, "placeholder 'x'", "float32[?, 3]", got)


@pytest.mark.parametrize("wrong", ["text", [[1.0], [2.0, 3.0]], np.array([1j]), None, object(), np.array(["a"])])
def test_a_feed_that_is_no_array_of_numbers(wrong: Any) -> None:
    x = mo.Placeholder(name="x")
    with pytest.raises(FeedError, match="placeholder 'x'"):
        mo.Session().run(mo.relu(x), {x: wrong})


def test_a_node_fed_as_data() -> None:
    x = x23()
    with pytest.raises(FeedError, match="placeholder 'x'"):
        mo.Session().run(mo.relu(x), {x: mo.Variable(ONES)})


# -- shapes and dtypes, while building and when run --------------------------------------------------------------------


def test_shapes_that_do_not_fit_while_building() -> None:
    with pytest.raises(ShapeError) as caught:
        mo.add(x23("left"), mo.Variable(np.ones(4, np.float32), name="right"), name="total")
    assert_says(caught.value, "node 'total' (add)", "[2, 3]", "[4]", "left: float32[2, 3]", "right: float32[4]")
    with pytest.raises(ShapeError, match=r"a matmul node: .*x: float32\[2, 3\]"):
        x23() @ x23()


def test_shapes_that_do_not_fit_when_run() -> None:
    x = mo.Placeholder(name="x")
    total = mo.add(x, mo.Variable(np.ones(4, np.float32), name="right"), name="total")
    for call in (
        lambda: mo.Session().run(total, {x: ONES}),
        lambda: mo.Session().gradients(mo.reduce_sum(total), x, {x: ONES}),
    ):
        with pytest.raises(ShapeError) as caught:
            call()
        assert_says(caught.value, "node 'total' (add)", "x: float32[2, 3]", "right: float32[4]", "do not broadcast")


def test_dtypes_that_do_not_fit_while_building() -> None:
    with pytest.raises(DtypeError) as caught:
        mo.add(x23("left"), mo.Variable(np.ones(3), name="right"), name="total")
    assert_says(caught.value, "node 'total' (add)", "float32 and float64", "metaop.cast")
    with pytest.raises(DtypeError) as caught:
        mo.exp(mo.Constant([1, 2], name="whole"), name="e")
    assert_says(caught.value, "node 'e' (exp)", "'x'", "float16, float32 or float64", "int64[2]", "whole")


def test_dtypes_that_do_not_fit_when_run() -> None:
    x = mo.Placeholder(name="x")
    with pytest.raises(DtypeError) as caught:
        mo.Session().run(mo.exp(x, name="e"), {x: np.array([1, 2])})
    assert_says(caught.value, "node 'e' (exp)", "int64[2]", "float16, float32 or float64", "metaop.cast")


@pytest.mark.parametrize("shape", [(-1,), (2.5,), ("a",), (True,)])
def test_a_shape_that_is_none(shape: Any) -> None:
    with pytest.raises(ShapeError, match="a size is an integer >= 0, or None"):
        mo.Placeholder(shape=shape)


@pytest.mark.parametrize("dtype", ["complex64", "object", "no such type", np.dtype("U3")])
def test_a_dtype_that_metaop_does_not_know(dtype: Any) -> None:
    with pytest.raises(DtypeError, match="use one of bool, int8"):
        mo.Placeholder(dtype=dtype)


@pytest.mark.parametrize("value", ["text", [[1], [1, 2]], [object()]])
def test_a_stored_value_that_is_no_array(value: Any) -> None:
    for kind in (mo.Variable, mo.Constant):
        with pytest.raises((UsageError, DtypeError)):
            kind(value, name="w")
    with pytest.raises(UsageError, match=r"variable 'w'.*node 'x'"):
        mo.Variable(mo.Placeholder(name="x"), name="w")


# -- operators ---------------------------------------------------------------------------------------------------------


def test_wrong_attributes() -> None:
    with pytest.raises(AttributeValueError) as caught:
        mo.softmax(x23(), axes=1, name="s")
    assert_says(caught.value, "node 's' (softmax)", "no attribute 'axes'", "axis")
    with pytest.raises(AttributeValueError) as caught:
        mo.softmax(x23(), axis="last", name="s")
    assert_says(caught.value, "node 's' (softmax)", "'axis' takes an integer", "'last'")
    with pytest.raises(AttributeValueError) as caught:
        mo.softmax(x23(), axis=2, name="s")
    assert_says(caught.value, "node 's' (softmax)", "axis 2", "-2 to 1", "x: float32[2, 3]")
    with pytest.raises(AttributeValueError) as caught:
        mo.reshape(x23(), name="r")
    assert_says(caught.value, "node 'r' (reshape)", "'shape' is required", "sequence of ints")
    with pytest.raises(AttributeValueError) as caught:
        mo.gelu(x23(), approximate="erf")
    assert_says(caught.value, "gelu", "'none' or 'tanh'", "'erf'")
    x = mo.Placeholder(name="x")
    with pytest.raises(AttributeValueError) as caught:
        mo.Session().run(mo.softmax(x, axis=2, name="s"), {x: ONES})
    assert_says(caught.value, "node 's' (softmax)", "axis 2", "x: float32[2, 3]")


def test_a_wrong_number_of_tensors() -> None:
    with pytest.raises(UsageError) as caught:
        mo.relu(x23(), x23(), name="r")
    assert_says(caught.value, "node 'r' (relu)", "takes 1 tensors; got 2", "relu(x)")
    with pytest.raises(UsageError) as caught:
        mo.add(x23())
    assert_says(caught.value, "a add node", "takes 2 tensors; got 1", "add(x, y)")
    with pytest.raises(UsageError, match=r"takes 1 to any number of tensors; got 0"):
        mo.concat()
    with pytest.raises(UsageError, match=r"takes 2 to 3 tensors; got 4"):
        mo.conv2d(*[x23() for _ in range(4)])
    with pytest.raises(UsageError, match="argument 'y' is required"):
        mo.add(x23(), None)


def test_an_unknown_operator() -> None:
    with pytest.raises(UsageError, match="no meta operator 'rleu'; did you mean 'relu'"):
        mo.apply("rleu", [x23()])
    with pytest.raises(UsageError, match=r"forward\['rleu'\] names no meta operator; 'relu'"):
        mo.derive("numpy", name="typo", forward={"rleu": abs})
    with pytest.raises(UsageError, match=r"gradient\['relu'\] must be a function; got 3"):
        mo.derive("numpy", name="typo", gradient={"relu": 3})
    for name in ("torch", "pytorch", "a==b", "a@b", ""):
        with pytest.raises(UsageError, match="derive"):
            mo.derive("numpy", name=name)


def test_a_cycle() -> None:
    a = mo.relu(mo.Variable(1.0), name="a")
    b = mo.relu(a, name="b")
    a.run_after(b)
    for call in (mo.Session().run, lambda n: mo.Session().gradients(n, n)):
        with pytest.raises(CycleError) as caught:
            call(b)
        assert_says(caught.value, "'a'", "'b'", "->", "run_after")


# -- backends ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("wrong", "near"), [("torhc", "torch"), ("tensorflwo", "tensorflow"), ("numpyy", "numpy")])
def test_an_unknown_backend_names_the_nearest(wrong: str, near: str) -> None:
    y = mo.relu(mo.Variable(1.0))

    def set_backend() -> None:
        y.backend = wrong

    for call in (
        lambda: mo.Session(wrong),
        lambda: mo.Session(bindings={y: wrong}),
        lambda: mo.Session().rebind(y, wrong),
        lambda: mo.relu(1.0, backend=wrong),
        lambda: mo.derive(wrong, name="derived"),
        set_backend,
    ):
        with pytest.raises(UnknownBackendError) as caught:
            call()
        assert_says(caught.value, f"unknown backend {wrong!r}", f"did you mean {near!r}?", "onnxruntime")
    assert y.backend is None


@pytest.mark.parametrize("wrong", ["", "torch==", "torch@", "==1.0", "torch @cpu", 3, None])
def test_what_is_no_backend_spec(wrong: Any) -> None:
    with pytest.raises(UnknownBackendError, match=r"name\[==version\]\[@device\]"):
        mo.Session(wrong)


def fake(name: str = "nosuch", **changes: Any) -> catalog.Entry:
    given = {
        "name": name,
        "module": "metaop.backends.nosuch",
        "package": "nosuch_framework",
        "distributions": ("nosuch-dist",),
        "extra": "nosuch",
    }
    return catalog.Entry(**{**given, **changes})


@pytest.fixture
def no_environments(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("METAOP_HOME", str(tmp_path))
    monkeypatch.delenv(catalog.CREATE, raising=False)


@pytest.mark.usefixtures("no_environments")
def test_a_missing_framework_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(catalog.CATALOG, "nosuch", fake())
    with pytest.raises(MissingFrameworkError) as caught:
        mo.Session("nosuch")
    assert_says(
        caught.value,
        "backend 'nosuch' needs nosuch-dist",
        "not installed here",
        'pip install "metaop[nosuch]"',
        'metaop env create "nosuch==',
    )
    # Building a graph with it is fine; running it is not.
    y = mo.relu(mo.Variable(1.0), backend="nosuch")
    with pytest.raises(MissingFrameworkError, match="nosuch"):
        mo.Session().run(y)
    row = mo.backends()["nosuch"]
    assert not row
    assert row.version is None
    assert_says(ValueError(row.reason), "nosuch-dist", "not installed")


@pytest.mark.usefixtures("no_environments")
def test_an_installed_framework_that_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "installed_version", lambda entry: None)
    monkeypatch.setattr(catalog, "_loaded", {})
    with pytest.raises(MissingFrameworkError, match=r"pip install \"metaop\[torch\]\""):
        mo.Session("torch")
    assert not mo.backends()["torch"].available


@pytest.mark.usefixtures("no_environments")
def test_another_version_than_the_installed_one() -> None:
    with pytest.raises(MissingFrameworkError) as caught:
        mo.Session("numpy==0.0.1")
    assert_says(caught.value, "'numpy==0.0.1'", np.__version__, 'pip install "numpy==0.0.1"')
    assert mo.Session(f"numpy=={np.__version__}").backend.startswith("numpy")


def test_a_framework_that_does_not_import(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(catalog.CATALOG, "broken", fake("broken", package="numpy", distributions=("numpy",)))
    with pytest.raises(MissingFrameworkError) as caught:
        mo.Session("broken")
    assert_says(caught.value, "backend 'broken'", "is installed but does not import", "metaop.backends.nosuch")
    assert isinstance(caught.value.__cause__, ImportError)


@pytest.mark.parametrize(
    "spec", [f"{b}@cuda:0" for b in BACKENDS if b != "tensorflow"] + ["torch@nonsense", "tensorflow@/GPU:0"]
)
def test_a_missing_device(spec: str) -> None:
    name, _, device = spec.partition("@")
    if name not in BACKENDS:
        pytest.skip(f"{name} is not under test")
    if device.startswith(("cuda", "/GPU")):
        _need_no_gpu(name)
    with pytest.raises(DeviceError) as caught:
        mo.Session(spec)
    assert_says(caught.value, name, repr(device))


def _need_no_gpu(name: str) -> None:
    if name == "torch":
        import torch

        if torch.cuda.is_available():
            pytest.skip("there is such a device here")


def test_the_cpu_is_a_device_of_every_backend() -> None:
    y = mo.relu(mo.Variable([-1.0, 1.0]))
    for backend in BACKENDS:
        assert mo.Session(f"{backend}@cpu").run(y).tolist() == [0.0, 1.0]


class Small(Backend):
    """A backend that knows one operator and says why it lacks another."""

    name = "small"
    bindings = Bindings("small")

    def version(self) -> str:
        return "1"

    def from_numpy(self, array: np.ndarray) -> np.ndarray:
        return array

    def to_numpy(self, tensor: np.ndarray) -> np.ndarray:
        return tensor


Small.bindings.rename({"relu": lambda x: np.maximum(x, 0)})
Small.bindings.unsupported("tanh", reason="it has no curves")


def test_an_operator_that_the_backend_does_not_compute() -> None:
    small = Small()
    assert mo.Session(small).run(mo.relu(mo.Variable([-1.0]))).tolist() == [0.0]
    for call in (
        lambda sess, node: sess.run(node),
        lambda sess, node: sess.gradients(mo.reduce_sum(node), node.inputs[0]),
    ):
        node = mo.tanh(mo.Variable([1.0]), name="t")
        with pytest.raises(UnsupportedOpError) as caught:
            call(mo.Session(bindings={node: small}), node)
        assert_says(caught.value, "node 't' (tanh on small)", "it has no curves", "another backend")
        node = mo.exp(mo.Variable([1.0]), name="e")
        with pytest.raises(UnsupportedOpError, match=r"node 'e' \(exp on small\).*no binding has been written"):
            call(mo.Session(bindings={node: small}), node)


@pytest.mark.parametrize("backend", BACKENDS)
def test_operators_that_a_framework_lacks_say_so_before_anything_runs(backend: str) -> None:
    table = get(backend).bindings.table
    for op, binding in table.items():
        if binding.function is not None or mo.ops()[op].variadic:
            continue
        arrays = mo.ops()[op].all_samples()[0].inputs()
        node = mo.apply(op, arrays, mo.ops()[op].all_samples()[0].attrs, name="n")
        with pytest.raises(UnsupportedOpError) as caught:
            mo.Session(backend).run(node)
        assert_says(caught.value, f"node 'n' ({op} on {backend})", binding.reason)


# -- a framework that fails --------------------------------------------------------------------------------------------


class Boom(Exception):
    """What the framework raises."""


def boom(*tensors: Any, **attrs: Any) -> Any:
    raise Boom("out of order")


@pytest.mark.parametrize("base", BACKENDS)
def test_a_framework_that_raises_inside_a_node(base: str) -> None:
    mo.derive(base, name="failing", forward={"tanh": boom})
    w = mo.Variable([1.0], name="w")
    # Further nodes before and after it, in the same segment.
    node = mo.tanh(mo.exp(mo.relu(w)), name="middle")
    loss = mo.reduce_sum(mo.relu(node) * 2.0)
    for call in (lambda s: s.run(loss), lambda s: s.gradients(loss, w), lambda s: s.gradients(loss, node)):
        with pytest.raises(FrameworkError) as caught:
            call(mo.Session("failing"))
        assert_says(caught.value, "node 'middle' (tanh on failing)", "Boom", "out of order")
        assert (caught.value.node, caught.value.op, caught.value.backend) == ("middle", "tanh", "failing")
        assert isinstance(caught.value.__cause__, Boom)


def test_each_line_of_the_generated_code_names_its_node() -> None:
    node: mo.Node = mo.Variable([1.0])
    nodes = []
    for i in range(6):
        node = mo.tanh(node, name=f"t{i}") if i != 3 else mo.split(node, num_outputs=1, name="t3")[0]
        nodes.append(node)
    for i, failing in enumerate(nodes):
        mo.derive("numpy", name="at", forward={"split" if i == 3 else "tanh": boom})
        with pytest.raises(FrameworkError) as caught:
            mo.Session(bindings={failing: "at"}).run(node)
        assert caught.value.node == f"t{i}"


@pytest.mark.parametrize("base", BACKENDS)
def test_a_framework_that_raises_in_a_gradient(base: str) -> None:
    mo.derive(base, name="failing", gradient={"tanh": boom})
    w = mo.Variable([1.0], name="w")
    loss = mo.reduce_sum(mo.tanh(w, name="t"))
    assert mo.Session("failing").run(loss) == pytest.approx(np.tanh(1.0))
    with pytest.raises(FrameworkError) as caught:
        mo.Session("failing").gradients(loss, w)
    assert_says(caught.value, "gradient of node 't' (tanh)", "failing", "Boom", "out of order")
    assert (caught.value.node, caught.value.op, caught.value.backend) == ("t", "tanh", "failing")
    assert isinstance(caught.value.__cause__, Boom)


def test_a_gradient_function_that_returns_no_tuple() -> None:
    mo.derive("numpy", name="careless", gradient={"add": lambda g, y, a, b: g})
    w = mo.Variable([1.0, 2.0, 3.0], name="w")
    with pytest.raises(UsageError) as caught:
        mo.Session("careless").gradients(mo.reduce_sum(mo.add(w, w, name="s")), w)
    assert_says(caught.value, "node 's' (add)", "careless", "one entry per input (2)")


WRONG_RESULTS = {
    "shape": (lambda x: x[:1], "float32[1]"),
    "dtype": (lambda x: x.astype(np.float64), "float64[2]"),
    "nothing": (lambda x: None, "relu"),
    "two": (lambda x: (x, x), "relu"),
}


@pytest.mark.parametrize("kind", WRONG_RESULTS)
@pytest.mark.parametrize("checked", [False, True])
def test_a_framework_that_returns_what_it_must_not(kind: str, checked: bool) -> None:
    forward, got = WRONG_RESULTS[kind]
    mo.derive("numpy", name="wrong", forward={"relu": forward})
    y = mo.relu(mo.Variable([1.0, 2.0]), name="r")
    with pytest.raises(FrameworkError) as caught:
        mo.Session("wrong", check_domains=checked).run(y)
    assert_says(caught.value, "node 'r' (relu on wrong)", got)
    assert (caught.value.node, caught.value.op, caught.value.backend) == ("r", "relu", "wrong")


def test_a_wrong_number_of_outputs_in_a_gradient() -> None:
    mo.derive("numpy", name="wrong", forward={"relu": lambda x: (x, x)})
    w = mo.Variable([1.0, 2.0])
    with pytest.raises(FrameworkError) as caught:
        mo.Session("wrong").gradients(mo.reduce_sum(mo.relu(w, name="r")), w)
    assert_says(caught.value, "node 'r' (relu on wrong)", "2 outputs", "has 1")


def test_what_cannot_cross_names_the_node_that_made_it() -> None:
    if "torch" not in BACKENDS:
        pytest.skip("needs two kinds of tensors")
    mo.derive("numpy", name="wrong", forward={"relu": lambda x: None})
    y = mo.relu(mo.Variable([1.0, 2.0]), name="r")
    with pytest.raises(FrameworkError, match=r"node 'r' \(relu on wrong\)") as caught:
        mo.Session("torch", {y: "wrong"}).run(mo.tanh(y))
    assert caught.value.__cause__ is not None


def test_causes_never_form_a_circle() -> None:
    mo.derive("numpy", name="wrong", forward={"relu": lambda x: x[:1]})
    y = mo.relu(mo.Variable([1.0, 2.0]), name="r")
    for call in (lambda: mo.Session("wrong").run(y), lambda: mo.Session("wrong", check_domains=True).run(y)):
        with pytest.raises(FrameworkError) as caught:
            call()
        error: BaseException | None = caught.value
        for _ in range(10):
            error = None if error is None else error.__cause__
        assert error is None


def test_an_error_of_ours_inside_a_binding_keeps_its_class() -> None:
    def refuse(x: Any) -> Any:
        raise UnsupportedOpError("not on Mondays")

    mo.derive("numpy", name="picky", forward={"relu": refuse})
    y = mo.relu(mo.Variable([1.0]), name="r")
    with pytest.raises(UnsupportedOpError, match=r"node 'r' \(relu on picky\): not on Mondays"):
        mo.Session("picky").run(y)


def test_interrupts_are_not_swallowed() -> None:
    def interrupt(x: Any) -> Any:
        raise KeyboardInterrupt

    mo.derive("numpy", name="interrupted", forward={"relu": interrupt})
    y = mo.relu(mo.Variable([1.0]))
    with pytest.raises(KeyboardInterrupt):
        mo.Session("interrupted").run(y)
    with pytest.raises(KeyboardInterrupt):
        mo.Session("interrupted").gradients(mo.reduce_sum(y), y.inputs[0])


def test_a_session_goes_on_after_an_error() -> None:
    x = mo.Placeholder(name="x")
    y = x + mo.Variable([1.0, 2.0])
    sess = mo.Session()
    for _ in range(2):
        with pytest.raises(ShapeError):
            sess.run(y, {x: np.ones(3)})
        assert sess.run(y, {x: np.ones(2)}).tolist() == [2.0, 3.0]


# -- domains -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_values_outside_a_domain_are_refused_only_if_asked_for(backend: str) -> None:
    x = mo.Placeholder(shape=(2,), dtype="float32", name="x")
    y = mo.log(mo.identity(x), name="logarithm")
    loss = mo.reduce_sum(y)
    cases = (np.float32([1, np.nan]), "1 NaN"), (np.float32([-1, 1]), "1 values outside [0, inf], such as -1.0")
    for data, words in cases:
        with np.errstate(invalid="ignore"):
            free = mo.Session(backend)
            assert np.isnan(free.run(y, {x: data})).any()
            free.gradients(loss, x, {x: data})
        strict = mo.Session(backend, check_domains=True)
        for call in (lambda s, d: s.run(y, {x: d}), lambda s, d: s.gradients(loss, x, {x: d})):
            with pytest.raises(DomainError) as caught:
                call(strict, data)
            assert_says(caught.value, f"node 'logarithm' (log on {backend})", "'x'", words)
    fine = np.float32([1, 2])
    np.testing.assert_allclose(strict.run(y, {x: fine}), np.log(fine), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(strict.gradients(loss, x, {x: fine}), 1 / fine, rtol=1e-6)


def test_checked_and_free_sessions_give_the_same_bits() -> None:
    rng = np.random.default_rng(0)
    x = mo.Placeholder(shape=(3, 4), dtype="float32")
    w = mo.Variable(rng.uniform(-1, 1, (4, 2)).astype(np.float32))
    loss = mo.reduce_mean(mo.log(mo.softmax(x @ w)))
    feeds = {x: rng.uniform(-1, 1, (3, 4)).astype(np.float32)}
    for backend in BACKENDS:
        free, strict = mo.Session(backend), mo.Session(backend, check_domains=True)
        assert free.run(loss, feeds).tobytes() == strict.run(loss, feeds).tobytes()
        assert free.gradients(loss, w, feeds).tobytes() == strict.gradients(loss, w, feeds).tobytes()


# -- gradients (more of them in test_gradients) ------------------------------------------------------------------------


def test_a_gradient_that_does_not_exist() -> None:
    w = mo.Variable([1.0, 2.0], name="w")
    for target, words in (
        (mo.multiply(w, w, name="y"), ("'y'", "float32[2]", "not a scalar", "grad_output")),
        (mo.argmax(w, name="best"), ("'best'", "int64[]", "only floating values")),
        (mo.reduce_sum(mo.cast(w > 1.0, to="float32"), name="count"), ("'count'", "'w'", "greater", "boolean")),
    ):
        with pytest.raises(GradientError) as caught:
            mo.Session().gradients(target, w)
        assert_says(caught.value, *words)


def test_messages_stay_on_one_line() -> None:
    x = mo.Placeholder(name="x")
    with pytest.raises(ShapeError) as caught:
        mo.Session().run(x + np.ones(3), {x: np.ones((4, 4))})
    assert "\n" not in str(caught.value)
    assert inspect.cleandoc(str(caught.value)) == str(caught.value)


def test_a_framework_that_says_it_is_not_implemented_refuses() -> None:
    """PyTorch adds no uint16; no binding says so, for asking before each call would cost every addition."""
    x = mo.Placeholder(shape=(2,), dtype="uint16", name="x")
    with mo.Session("torch") as session, pytest.raises(errors.UnsupportedOpError, match=r"node 'sum'.*not implemented"):
        session.run(mo.add(x, x, name="sum"), {x: np.ones(2, "uint16")})

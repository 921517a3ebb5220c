"""The judges: functions that put a backend to the test on one sample and return what is wrong with it.

Each returns a list of complaints, empty where all is well, so that the tests of the backends and the tests of the
judges themselves (``tests/backends/test_harness.py``) use the very same code. None of them decides what to do about a
complaint: that is :func:`settle`, which knows the table of expected differences.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from metaop import backends
from metaop.backends.base import Backend
from metaop.errors import AttributeValueError, UnsupportedOpError
from metaop.ops import REGISTRY
from metaop.ops.spec import MetaOp, Sample
from metaop.types import TensorType
from tests import oracles, tolerances

SEED = int(os.environ.get("METAOP_TEST_SEED", "0"))
ALL_BACKENDS = ("numpy", "torch", "tensorflow", "tflite", "onnxruntime", "jax")
BACKENDS = tuple(filter(None, os.environ.get("METAOP_TEST_BACKENDS", "").split(","))) or ALL_BACKENDS
OPS = tuple(REGISTRY)
DIFFERENTIABLE = tuple(name for name, op in REGISTRY.items() if op.differentiable)


@dataclass(frozen=True)
class Case:
    """One sample of an operator, in one dtype, from one seed."""

    sample: Sample
    index: int
    dtype: str
    seed: int = SEED

    @property
    def op(self) -> MetaOp:
        return self.sample.op

    @property
    def attrs(self) -> dict[str, Any]:
        return self.sample.attrs

    @property
    def special(self) -> bool:
        return self.sample.special

    @property
    def empty(self) -> bool:
        """Whether a tensor that goes in or comes out has no elements."""
        types = types_of(self.inputs())
        return any(t is not None and 0 in t.shape for t in (*types, *self.output_types))

    @property
    def output_types(self) -> tuple[TensorType, ...]:
        """What the rule infers; where sizes depend on the data, the types of what the reference gives."""
        inputs = self.inputs()
        if self.op.sizes_from_data:
            with np.errstate(all="ignore"):
                return tuple(types_of(as_list(self.op.reference(*inputs, **self.attrs))))
        return self.op.infer(types_of(inputs), self.attrs)

    def inputs(self, seed: int | None = None) -> list[np.ndarray | None]:
        return self.sample.inputs(self.dtype, self.seed if seed is None else seed)

    def __str__(self) -> str:
        return f"{self.sample} in {self.dtype}, sample {self.index}, seed {self.seed}"


@dataclass(frozen=True)
class Complaint:
    """One thing that is wrong. A wrong value is off by ``error``, which is ``excess`` times its bound."""

    kind: str
    text: str
    excess: float = 0.0
    error: float = 0.0

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


def main_dtype(op: MetaOp) -> str:
    """The dtype in which an operator is exercised first."""
    return next(name for name in ("float32", "int64", "bool", "uint8") if np.dtype(name) in op.dtypes)


def cases(op: MetaOp, dtypes: Iterable[str], *, special: bool = True) -> list[Case]:
    """Every sample of an operator in those of the dtypes that it takes; NaN and infinities only in floating ones."""
    found = [
        Case(sample, index, dtype)
        for dtype in dtypes
        if np.dtype(dtype) in op.dtypes
        for index, sample in enumerate(op.all_samples())
        if not sample.special or (special and (dtype.startswith("float") or dtype == main_dtype(op)))
    ]
    return [case for case in found if _attributes_fit(case)]


def _attributes_fit(case: Case) -> bool:
    """Whether the sample's attributes mean something in this dtype: a bound of -0.5 does not for integers."""
    try:
        case.op.infer(types_of(case.inputs()), case.attrs)
    except AttributeValueError:
        return False
    return True


#: backends that compile each new combination of types and attributes, which takes many times longer than computing it
COMPILED = ("jax",)
THOROUGH = os.environ.get("METAOP_TEST_THOROUGH", "0") not in ("", "0")


def affordable(spec: str, chosen: list[Case]) -> list[Case]:
    """On a backend that compiles, all cases of the main dtype; of each other one the special and one ordinary case."""
    if spec not in COMPILED or THOROUGH:
        return chosen
    first: dict[str, Case] = {}
    for case in filter(ordinary, chosen):
        first.setdefault(case.dtype, case)
    return [c for c in chosen if c.dtype == main_dtype(c.op) or c.special or first.get(c.dtype) is c]


def ordinary(case: Case) -> bool:
    """Neither special values nor an empty tensor."""
    return not case.special and not case.empty


# -- the truth ---------------------------------------------------------------------------------------------------------


def as_list(result: Any) -> list[np.ndarray]:
    return [np.asarray(r) for r in (result if isinstance(result, tuple | list) else (result,))]


def types_of(arrays: Sequence[np.ndarray | None]) -> list[TensorType | None]:
    return [None if a is None else TensorType(a.dtype, a.shape) for a in arrays]


def widen(arrays: Sequence[np.ndarray | None]) -> list[np.ndarray | None]:
    """The same values with floating ones in float64, in fresh memory."""
    return [None if a is None else a.astype(np.float64) if a.dtype.kind == "f" else a.copy() for a in arrays]


def floating_positions(arrays: Sequence[np.ndarray | None]) -> list[int]:
    return [i for i, a in enumerate(arrays) if a is not None and a.dtype.kind == "f"]


def incoming_gradients(outputs: Sequence[TensorType], seed: int) -> list[np.ndarray | None]:
    """A random gradient for each floating output. Never all ones: wrong gradients hide behind those."""
    rng = np.random.default_rng([seed, 7])
    return [rng.uniform(-2, 2, t.shape).astype(t.dtype) if t.dtype.kind == "f" else None for t in outputs]


def linearize(
    backend: Backend, op: MetaOp, attrs: dict[str, Any], inputs: Sequence[np.ndarray | None], grads: Sequence[Any]
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Outputs, and the gradients of the floating inputs: zeros where a backend says that there is none."""
    wrt = floating_positions(inputs)
    tensors = [None if a is None else backend.from_numpy(a) for a in inputs]
    with np.errstate(all="ignore"):
        outputs, pullback = backend.linearize(op.name, attrs, tensors, wrt)
        found = pullback([None if g is None else backend.from_numpy(g) for g in grads])
    pairs = zip(wrt, found, strict=True)
    gradients = [np.zeros_like(inputs[i]) if g is None else backend.to_numpy(g) for i, g in pairs]
    return [backend.to_numpy(y) for y in outputs], gradients


class Jittery(type(backends.get("numpy"))):
    """NumPy with every result passed through ``jitter``: what rounding within a gradient rule does to its outcome."""

    def __init__(self, jitter: Callable[[np.ndarray], np.ndarray]) -> None:
        super().__init__()
        self.jitter = jitter

    def call(self, op: str, attrs: Any, inputs: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(self.jitter(y) if y.dtype.kind == "f" else y for y in super().call(op, attrs, inputs))


@dataclass(frozen=True)
class Truth:
    """What must come out: types, values from a float64 run on the same inputs, and how far off each may be."""

    types: tuple[TensorType, ...]
    values: list[np.ndarray]
    bounds: list[np.ndarray]


@functools.lru_cache(maxsize=512)
def _forward_truth(name: str, index: int, dtype: str, seed: int) -> Truth:
    op = REGISTRY[name]
    case = Case(op.all_samples()[index], index, dtype, seed)
    inputs = case.inputs()
    types = case.output_types

    def run(*arrays: np.ndarray | None, jitter: Any = None) -> list[np.ndarray]:
        with np.errstate(all="ignore"):
            return as_list(op.reference(*arrays, **case.attrs))

    wide = inputs if name in tolerances.ABOUT_BITS else widen(inputs)
    values = run(*wide)
    return Truth(types, values, tolerances.forward_bound(name)(run, wide, case.attrs, values, types))


def forward_truth(case: Case) -> Truth:
    return _forward_truth(case.op.name, case.index, case.dtype, case.seed)


@functools.lru_cache(maxsize=512)
def _gradient_truth(name: str, index: int, dtype: str, seed: int) -> Truth:
    op = REGISTRY[name]
    case = Case(op.all_samples()[index], index, dtype, seed)
    inputs = case.inputs()
    wide = widen(inputs)
    grads = widen(incoming_gradients(case.output_types, seed))

    def run(*arrays: np.ndarray | None, jitter: Any = None) -> list[np.ndarray]:
        numpy = backends.get("numpy") if jitter is None else Jittery(jitter)
        return linearize(numpy, op, case.attrs, arrays[: len(inputs)], arrays[len(inputs) :])[1]

    types = tuple(TensorType(inputs[i].dtype, inputs[i].shape) for i in floating_positions(inputs))
    values = run(*wide, *grads)
    return Truth(types, values, tolerances.gradient_bound(name)(run, [*wide, *grads], case.attrs, values, types))


def gradient_truth(case: Case) -> Truth:
    return _gradient_truth(case.op.name, case.index, case.dtype, case.seed)


# -- comparing ---------------------------------------------------------------------------------------------------------


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal dtype, shape and bits: tells NaN from NaN and 0.0 from -0.0."""
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def compare(
    what: str, found: np.ndarray, expected: np.ndarray, bound: np.ndarray, wanted: TensorType
) -> list[Complaint]:
    """How ``found`` differs from the wider ``expected`` by more than ``bound``."""
    if found.dtype != wanted.dtype:
        return [Complaint("dtype", f"{what} is {found.dtype.name}, not {wanted.dtype.name}")]
    if found.shape != expected.shape:
        return [Complaint("shape", f"{what} has shape {found.shape}, not {expected.shape}")]
    if found.dtype.kind != "f":
        wrong = np.argwhere(found != expected)
        return [_differs("value", what, found, expected, wrong, np.inf, np.inf)] if len(wrong) else []
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = expected.astype(found.dtype)
        complaints = []
        for kind, test in (("nan", np.isnan), ("infinity", np.isposinf), ("infinity", np.isneginf)):
            wrong = np.argwhere(test(found) != test(rounded))
            if len(wrong):
                complaints.append(_differs(kind, what, found, expected, wrong))
        finite = np.isfinite(found) & np.isfinite(rounded)
        error = np.where(finite, np.abs(found.astype(np.float64) - expected), 0.0)
        # Where the bound is exact the rounded result itself is right, although it is off by its own rounding.
        error = np.where(found == rounded, 0.0, error)
    wrong = np.argwhere(error > bound)
    if len(wrong):
        with np.errstate(divide="ignore", invalid="ignore"):
            excess = float(np.nanmax(np.where(error > 0, error / bound, 0.0)))
        complaints.append(_differs("value", what, found, expected, wrong, excess, float(error.max())))
    return complaints


def _differs(
    kind: str,
    what: str,
    found: np.ndarray,
    expected: np.ndarray,
    wrong: np.ndarray,
    excess: float = 0,
    error: float = 0,
) -> Complaint:
    at = tuple(int(i) for i in wrong[0])
    text = f"{what}{list(at)} is {found[at]!s}, expected {expected[at]!s}; {len(wrong)} of {found.size} differ"
    if 0 < excess < np.inf:
        text += f"; at worst {excess:.3g} times the bound, at most {error:.3g}"
    return Complaint(kind, text, excess, error)


def compare_all(what: str, found: Sequence[np.ndarray], truth: Truth) -> list[Complaint]:
    if len(found) != len(truth.types):
        return [Complaint("count", f"{len(found)} {what}s, not {len(truth.types)}")]
    rows = zip(found, truth.values, truth.bounds, truth.types, strict=True)
    return [c for i, row in enumerate(rows) for c in compare(f"{what} {i}", *row)]


def _unchanged(what: str, arrays: Sequence[np.ndarray | None], before: Sequence[np.ndarray | None]) -> list[Complaint]:
    return [
        Complaint("input changed", f"{what} {i} was written into")
        for i, (now, then) in enumerate(zip(arrays, before, strict=True))
        if now is not None and not same_bits(now, then)
    ]


def _copies(arrays: Sequence[np.ndarray | None]) -> list[np.ndarray | None]:
    return [None if a is None else a.copy() for a in arrays]


# -- the judges --------------------------------------------------------------------------------------------------------


def call(backend: Backend, case: Case, inputs: Sequence[np.ndarray | None]) -> list[np.ndarray]:
    tensors = [None if a is None else backend.from_numpy(a) for a in inputs]
    with np.errstate(all="ignore"):
        return [backend.to_numpy(y) for y in backend.call(case.op.name, case.attrs, tensors)]


def guarded(judge: Callable[..., list[Complaint]]) -> Callable[..., list[Complaint]]:
    """Any exception but a refusal is a complaint, so that one bad sample does not hide the others."""

    @functools.wraps(judge)
    def wrapper(*args: Any) -> list[Complaint]:
        try:
            return judge(*args)
        except UnsupportedOpError:
            raise
        except Exception as error:
            first = str(error).strip().splitlines()
            return [Complaint("raised", f"{type(error).__name__}: {first[0] if first else ''}")]

    return wrapper


@guarded
def forward_complaints(backend: Backend, case: Case) -> list[Complaint]:
    """Values, types, purity and repeatability of one call. A refusal (:class:`UnsupportedOpError`) passes through."""
    inputs = case.inputs()
    before = _copies(inputs)
    outputs = call(backend, case, inputs)
    kept = _copies(outputs)
    complaints = compare_all("output", outputs, forward_truth(case)) + _unchanged("input", inputs, before)
    # Other data in between: a backend that reuses its buffers would change the outputs it gave before.
    call(backend, case, case.inputs(case.seed + 1))
    if not all(map(same_bits, outputs, kept)):
        complaints.append(Complaint("aliased", "a later call changed the outputs of an earlier one"))
    if not all(map(same_bits, call(backend, case, before), kept)):
        complaints.append(Complaint("unrepeatable", "the same inputs gave other bits the second time"))
    return complaints


@guarded
def gradient_complaints(backend: Backend, case: Case) -> list[Complaint]:
    """The gradients of one call, for a random incoming gradient, against the derived ones in float64."""
    op, attrs, inputs = case.op, case.attrs, case.inputs()
    grads = incoming_gradients(case.output_types, case.seed)
    before, grads_before = _copies(inputs), _copies(grads)
    outputs, found = map(_copies, linearize(backend, op, attrs, inputs, grads))
    _, again = linearize(backend, op, attrs, inputs, grads)
    complaints = compare_all("gradient", found, gradient_truth(case))
    if not all(map(same_bits, outputs, call(backend, case, before))):
        complaints.append(Complaint("primal", "the outputs are not those of a plain call"))
    complaints += _unchanged("input", inputs, before) + _unchanged("incoming gradient", grads, grads_before)
    if not all(map(same_bits, found, again)):
        complaints.append(Complaint("unrepeatable", "the same inputs gave other gradients the second time"))
    return complaints


@guarded
def oracle_complaints(backend: Backend, case: Case) -> list[Complaint]:
    """Values and native gradients against direct calls of the framework, bit for bit.

    NumPy's oracle computes with Python numbers: it is held against the reference within the bound of float64. A refusal
    of what the direct call computes is a complaint; empty tensors are not tried, for some kernels die of them.
    """
    framework = getattr(backend, "base", backend).name
    inputs = case.inputs()
    wrt = floating_positions(inputs) if case.op.differentiable and not case.special else []
    grads = incoming_gradients(case.output_types, case.seed)
    try:
        outputs = call(backend, case, inputs)
    except UnsupportedOpError:
        if case.empty or not _oracle_is_right(framework, case, grads[0]):
            raise
        return [Complaint("overcautious", "refused, although the framework's own call gives the right result")]
    try:
        values, gradients = oracles.answer(framework, case.op.name, case.inputs(), case.attrs, grads[0], wrt)
    except Exception as error:
        return [Complaint("oracle", f"the framework's own call fails: {error}")]
    if framework == "numpy":
        truth = forward_truth(case)
        return compare_all("output", outputs, Truth(truth.types, values, truth.bounds))
    complaints = exact_complaints("output", outputs, values)
    if gradients is not None and wrt:
        _, ours = linearize(backend, case.op, case.attrs, inputs, grads)
        # Where the framework has no gradient there is nothing to equal; test_gradient.py judges what a binding adds.
        pairs = [(g, t) for g, t in zip(ours, gradients, strict=True) if t is not None]
        complaints += exact_complaints("gradient", [g for g, _ in pairs], [t for _, t in pairs])
    return complaints


def _oracle_is_right(framework: str, case: Case, grad: np.ndarray) -> bool:
    try:
        values, _ = oracles.answer(framework, case.op.name, case.inputs(), case.attrs, grad, [])
    except Exception:
        return False
    return not compare_all("output", values, forward_truth(case))


def exact_complaints(what: str, found: Sequence[np.ndarray], oracle: Sequence[np.ndarray]) -> list[Complaint]:
    """Bit for bit."""
    if len(found) != len(oracle):
        return [Complaint("count", f"{len(found)} {what}s, the oracle gives {len(oracle)}")]
    complaints = []
    for i, (ours, theirs) in enumerate(zip(found, oracle, strict=True)):
        if ours.dtype != theirs.dtype or ours.shape != theirs.shape:
            text = f"{what} {i} is {ours.dtype}{list(ours.shape)}, the oracle's is {theirs.dtype}{list(theirs.shape)}"
            complaints.append(Complaint("dtype" if ours.dtype != theirs.dtype else "shape", text))
        elif not same_bits(ours, theirs):
            raw = f"u{ours.dtype.itemsize}"
            ours, theirs = np.ascontiguousarray(ours), np.ascontiguousarray(theirs)
            wrong = np.argwhere(
                ours.reshape(-1).view(raw).reshape(ours.shape) != theirs.reshape(-1).view(raw).reshape(ours.shape)
            )
            complaints.append(_differs("bits", f"{what} {i}", ours, theirs, wrong))
    return complaints


def collect(
    judge: Callable[[Backend, Case], list[Complaint]], backend: Backend, chosen: Sequence[Case]
) -> list[tuple[Case, list[Complaint]]]:
    """What a judge says of each case; a refusal is a complaint of its own kind, never a silent skip."""
    results = []
    for case in chosen:
        try:
            results.append((case, judge(backend, case)))
        except UnsupportedOpError as error:
            results.append((case, [Complaint("refused", str(error))]))
    return results


# -- the verdict -------------------------------------------------------------------------------------------------------


def settle(check: str, backend: Backend, op: str, results: Sequence[tuple[Case, list[Complaint]]]) -> list[str]:
    """What is left after the expected differences: complaints that no row explains, and rows that explain nothing."""
    rows = tolerances.expected(check, backend.name, op, backend.version())
    # What cannot be computed has no gradient either.
    absent = [] if check == "forward" else tolerances.expected("forward", backend.name, op, backend.version())
    absent = [row for row in absent if row.kind in ("refused", "raised")]
    occurred = set()
    left = []
    for case, complaints in results:
        for complaint in complaints:
            row = next((r for r in rows + absent if r.explains(case, complaint)), None)
            if row is None:
                left.append(f"{case}\n    {complaint}")
            else:
                occurred.add(row)
    # With other data a row about rounding need not occur.
    gone = [row for row in rows if row.steady and row not in occurred] if SEED == 0 else []
    gone = [row for row in gone if row.op != "*" or any(row.when(case) for case, _ in results)]
    left += [f"expected difference no longer occurs, remove its row: {row}" for row in gone]
    return left


def report(backend: Backend, lines: Sequence[str]) -> str:
    return f"{backend.name} {backend.version()}: {len(lines)} complaints\n  " + "\n  ".join(lines)

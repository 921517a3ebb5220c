"""Gradient rules against central differences of the references, in float64."""

import numpy as np
import pytest

from metaop import backends
from metaop.backends import derive
from metaop.ops import REGISTRY
from tests.checks import (
    DIFFERENTIABLE,
    Case,
    as_list,
    cases,
    floating_positions,
    incoming_gradients,
    linearize,
)

STEP = 1e-5


def differences(case, inputs, grads, position):
    """The gradient of one input by central differences, and how far rounding and curvature may put it off."""
    x = inputs[position]
    found, spread = np.zeros(x.shape), np.zeros(x.shape)
    for at in np.ndindex(x.shape):
        ends = []
        for step in (STEP, -STEP):
            moved = x.copy()
            moved[at] += step
            ends.append((moved[at], as_list(case.op(*inputs[:position], moved, *inputs[position + 1 :], **case.attrs))))
        (right, above), (left, below) = ends
        for g, a, b in zip(grads, above, below, strict=True):
            if g is not None:
                found[at] += np.sum(g * (a - b)) / (right - left)
                spread[at] += np.sum(np.abs(g * a)) * np.finfo(float).eps / STEP
    scale = np.abs(found).max(initial=0.0)
    return found, 1e-6 * np.abs(found) + 1e-7 * scale + 4 * spread


def difference_complaints(backend, case):
    """Where a backend's gradients are not those of the reference."""
    op, inputs = case.op, case.inputs()
    grads = incoming_gradients(case.output_types, case.seed)
    complaints = []
    found = linearize(backend, op, case.attrs, inputs, grads)[1]
    for position, ours in zip(floating_positions(inputs), found, strict=True):
        truth, bound = differences(case, inputs, grads, position)
        name = op.param_at(position).name
        if ours.shape != truth.shape or ours.dtype != np.float64:
            complaints.append(f"{case}: gradient of {name} is {ours.dtype}{ours.shape}, not float64{truth.shape}")
        elif not (np.abs(ours - truth) <= bound).all():
            worst = np.unravel_index(np.argmax(np.abs(ours - truth) - bound), truth.shape)
            at = [int(i) for i in worst]
            complaints.append(f"{case}: gradient of {name}{at} is {ours[worst]}, differences give {truth[worst]}")
    return complaints


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_rule_agrees_with_differences(name):
    numpy = backends.get("numpy")
    found = []
    for case in cases(REGISTRY[name], ["float64"], special=False):
        found += difference_complaints(numpy, case)
    assert not found, "\n".join(found)


FLAT = ("floor", "ceil", "round", "sign", "eye_like")


@pytest.mark.parametrize("name", [name for name in DIFFERENTIABLE if name not in FLAT])
def test_no_gradient_is_zero_everywhere(name):
    """Differences of samples that all lie on a plateau would agree with a rule that says nothing."""
    op = REGISTRY[name]
    largest = {}
    for case in cases(op, ["float64"], special=False):
        inputs = case.inputs()
        grads = incoming_gradients(case.output_types, case.seed)
        found = linearize(backends.get("numpy"), op, case.attrs, inputs, grads)[1]
        for position, g in zip(floating_positions(inputs), found, strict=True):
            param = op.param_at(position).name
            largest[param] = max(largest.get(param, 0.0), np.abs(g).max(initial=0.0))
    flat = [param for param, size in largest.items() if size == 0]
    assert not flat, f"the gradient of {flat} is zero in every sample"


FAULTS = {
    "scaled": lambda g, y, x, z: (g * z * (1 + 1e-5), g * x),
    "dropped": lambda g, y, x, z: (g * z, None),
    "swapped": lambda g, y, x, z: (g * x, g * z),
    "sign flipped": lambda g, y, x, z: (g * z, -g * x),
    "one element off": lambda g, y, x, z: (g * z + 1e-4 * np.eye(*g.shape), g * x),
    "incoming gradient ignored": lambda g, y, x, z: (z, g * x),
    "narrowed": lambda g, y, x, z: ((g * z).astype(np.float32), g * x),
    "transposed": lambda g, y, x, z: ((g * z).T, g * x),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_checker_catches(fault):
    sample = next(s for s in REGISTRY["multiply"].all_samples() if s.tensors == ((2, 3), (2, 3)))
    case = Case(sample, 0, "float64")
    faulty = derive("numpy", name="numpy-faulty", gradient={"multiply": FAULTS[fault]})
    assert difference_complaints(faulty, case)


def test_the_checker_accepts_the_truth():
    sample = next(s for s in REGISTRY["multiply"].all_samples() if s.tensors == ((2, 3), (2, 3)))
    right = derive("numpy", name="numpy-right", gradient={"multiply": lambda g, y, x, z: (g * z, g * x)})
    assert difference_complaints(right, Case(sample, 0, "float64")) == []

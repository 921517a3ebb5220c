"""Every kind of fault, at every node of three models: found first, verified, and blamed on the right side.

A fault is in one node only. Combinations in which it cannot show are named by a rule with a reason
(:func:`tests.debug.faults.exempt`), and the rule itself is held to account: which nodes it exempts is written down
here. Where nothing was injected, nothing may be found.
"""

from __future__ import annotations

import itertools

import pytest

import metaop as mo
from tests import checks, models

if "torch" not in checks.BACKENDS:
    pytest.skip("METAOP_TEST_BACKENDS leaves out PyTorch, into which the faults are injected", allow_module_level=True)

from tests.debug import faults
from tests.debug.faults import FAULTS

#: the three models take every fault; the fourth, whose operators return other things too, those of arguments and axes
CASES = [(name, kind) for name in ("mlp", "cnn", "attention") for kind in FAULTS]
CASES += [("branching", "swapped"), ("branching", "off_by_one_axis")]
#: what PyTorch with one faulty node is compared with; TensorFlow, which is slow node by node, takes every fourth
#: combination and NumPy the others
FIRST = [b for b in ("torch", "numpy", "tensorflow") if b in checks.BACKENDS]
#: without TFLite, which converts every operator first: a tenth of a second each time
IN_PROCESS = [b for b in ("numpy", "torch", "tensorflow", "onnxruntime") if b in checks.BACKENDS]


def complaint(model: models.Model, kind: str, name: str, first: str) -> str | None:
    """What went wrong in finding one fault; ``None`` where it was found as it should be."""
    node = model.node(name)
    faulty = FAULTS[kind](node)
    with mo.DebugSession(progress=False) as sess:
        report = sess.run(model.loss, model.feeds, frameworks=[first, {None: "torch", node: faulty}])
        if not report.suspects:
            return "not found"
        if report.suspects[0].node != name:
            return f"found at {report.suspects[0]} first"
        if kind in faults.FAILURES and report.suspects[0].status != "error":
            return f"status {report.suspects[0].status}"
        verdict = sess.verify(report.suspects[0])
    if not verdict:
        return f"not confirmed: {verdict}"
    if verdict.nodes != (name,):
        return f"confirmed for {verdict.nodes}"
    if verdict.blame != faults.NAME:
        return f"blamed on {verdict.blame}: {verdict}"
    return None


def nodes_for(model: models.Model, kind: str, first: str) -> list[str]:
    nodes = [n.name for n in model.operators if faults.exempt(model, n, kind) is None]
    if first == "torch" or not {"numpy", "tensorflow"} <= set(FIRST):
        return nodes
    offset = list(FAULTS).index(kind)
    return [n for i, n in enumerate(nodes) if ((i + offset) % 4 == 0) == (first == "tensorflow")]


@pytest.mark.parametrize(("name", "kind"), CASES)
@pytest.mark.parametrize("first", FIRST)
def test_every_fault_at_every_node(first: str, name: str, kind: str) -> None:
    model = models.MODELS[name](checks.SEED)
    wrong = {node: complaint(model, kind, node, first) for node in nodes_for(model, kind, first)}
    assert not any(wrong.values()), "\n".join(f"{node}: {text}" for node, text in wrong.items() if text)


SWAPPABLE = {
    "mlp": {"centre", "dense1", "loss"},
    "cnn": {"norm", "loss"},
    "attention": {"norm1", "scores", "mixed", "norm2"},
    "branching": {"above", "both", "difference"},
}
WITH_AXIS = {
    "mlp": {"loss"},
    "cnn": {"flatten", "loss"},
    "attention": {"norm1", "softmax", "norm2"},
    "branching": {"both", "halves", "spread"},
}


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_the_exemptions_are_these_and_no_others(name: str, kind: str) -> None:
    model = models.MODELS[name](checks.SEED)
    names = {n.name for n in model.operators}
    if kind == "swapped":
        expected = names - SWAPPABLE[name]
    elif kind == "off_by_one_axis":
        expected = names - WITH_AXIS[name]
    elif kind in faults.GRADIENT_FAULTS and name == "mlp":
        expected = {"centre"}
    else:
        expected = set()
    assert {n.name for n in model.operators if faults.exempt(model, n, kind)} == expected
    spread = [nodes_for(model, kind, first) for first in FIRST if first != "torch"]
    assert sorted(itertools.chain(*spread)) == sorted(names - expected), "each fault is looked for on two pairs"


@pytest.mark.parametrize("kind", faults.GRADIENT_FAULTS)
def test_a_gradient_that_goes_nowhere_changes_nothing(kind: str) -> None:
    model = models.mlp(checks.SEED)
    node = model.node("centre")
    with mo.DebugSession(progress=False) as sess:
        report = sess.run(model.loss, model.feeds, frameworks=["torch", {None: "torch", node: FAULTS[kind](node)}])
    assert report.consistent
    assert all(r.output_delta == 0 and r.gradient_delta == 0 for r in report.records)


@pytest.mark.parametrize("pair", list(itertools.combinations(IN_PROCESS, 2)), ids="-".join)
@pytest.mark.parametrize("name", models.MODELS)
def test_nothing_is_found_where_nothing_is_wrong(name: str, pair: tuple[str, str]) -> None:
    for seed in range(5):
        model = models.MODELS[name](100 + seed)
        frameworks = list(pair) if seed % 2 else list(pair[::-1])
        with mo.DebugSession(progress=False) as sess:
            report = sess.run(model.loss, model.feeds, frameworks=frameworks)
        assert report.consistent, f"seed {seed}\n{report}"
        assert {r.status for r in report.records} == {"ok"}


@pytest.mark.parametrize("backend", IN_PROCESS)
@pytest.mark.parametrize("name", models.MODELS)
def test_a_framework_agrees_with_itself_bit_for_bit(name: str, backend: str) -> None:
    model = models.MODELS[name](checks.SEED)
    with mo.DebugSession(progress=False) as sess:
        report = sess.run(model.loss, model.feeds, frameworks=[backend, backend])
    assert {r.score for r in report.records} == {0.0}
    assert {r.local_output_delta for r in report.records} == {0.0}

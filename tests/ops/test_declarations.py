"""Every declaration is complete, and says the same in its rule, its reference, its samples and its rejects."""

import re
import typing

import numpy as np
import pytest

from metaop.errors import UserError
from metaop.ops import REGISTRY
from metaop.types import TensorType
from tests.checks import OPS, as_list, cases, main_dtype, ordinary, same_bits, types_of

DTYPES = ("float32", "float64", "float16", "int64", "int32", "uint8", "bool")

ELEMENTWISE = ("activation", "arithmetic", "bitwise", "elementwise", "logic", "rectifiers", "trigonometry")

every_op = pytest.mark.parametrize("op", REGISTRY.values(), ids=OPS)


@every_op
def test_is_documented(op):
    assert op.summary.endswith((".", ":")), f"{op.name} needs a docstring that starts with a sentence; has {op.doc!r}"


@every_op
def test_has_a_gradient_or_says_why_not(op):
    assert (op.gradient is None) == bool(op.nondifferentiable), (
        f"{op.name} needs a gradient rule, or a reason why it has none, and not both"
    )


@every_op
def test_samples_cover_what_the_signature_offers(op):
    samples = op.all_samples()
    assert any(map(ordinary, cases(op, [main_dtype(op)]))), "no ordinary sample"
    for index, param in enumerate(op.params):
        given = {index < len(s.tensors) and s.tensors[index] is not None for s in samples}
        assert True in given, f"{param.name} is never given"
        assert False in given or not param.optional, f"{param.name} is never left out"
    for name, attr in op.attrs.items():
        seen = {s.attrs[name] for s in samples}
        choices = typing.get_args(attr.annotation) if typing.get_origin(attr.annotation) is typing.Literal else ()
        choices = (True, False) if attr.annotation is bool else choices
        assert set(choices) <= seen, f"no sample has {name} = {sorted(set(choices) - seen)}"
        assert len(seen) > 1, f"every sample has {name} = {seen}"


@every_op
def test_elementwise_operators_meet_scalars_empty_and_special_values(op):
    if op.family not in ELEMENTWISE or "axis" in op.attrs:
        return
    shapes = [[np.shape(a) for a in s.inputs(next(iter(op.dtypes))) if a is not None] for s in op.all_samples()]
    assert any(all(shape == () for shape in row) for row in shapes), "no scalar sample"
    assert any(0 in shape for row in shapes for shape in row), "no empty sample"
    if np.dtype("float32") in op.dtypes and not op.random:
        assert any(s.special for s in op.all_samples()), "no sample with NaN and infinities"


@every_op
def test_every_dtype_has_samples(op):
    tried = {case.dtype for case in cases(op, DTYPES)}
    assert tried == {name for name in DTYPES if np.dtype(name) in op.dtypes}


@every_op
def test_every_sample_fits_some_dtype(op):
    fitting = {case.index for case in cases(op, [d.name for d in op.dtypes])}
    assert fitting == set(range(len(op.all_samples()))), "a sample's attributes are refused in every dtype"


@every_op
def test_reference_gives_what_the_rule_infers(op):
    for case in cases(op, DTYPES):
        inputs = case.inputs()
        before = [None if a is None else a.copy() for a in inputs]
        with np.errstate(all="ignore"):
            results = as_list(op(*inputs, **case.attrs))
        found, inferred = tuple(types_of(results)), op.infer(types_of(inputs), case.attrs)
        if op.sizes_from_data:
            assert all(t.dtype == u.dtype and u.admits(t) for t, u in zip(found, inferred, strict=True)), str(case)
            assert not all(u.known for u in inferred), f"{case}: nothing is left for the data to decide"
        else:
            assert found == inferred, str(case)
        assert op.outputs is None or len(results) == len(op.outputs), str(case)
        assert all(a is None or same_bits(a, b) for a, b in zip(inputs, before, strict=True)), (
            f"{case}: wrote to inputs"
        )


@every_op
@pytest.mark.parametrize("unknown", ["sizes", "rank", "dtype", "everything"])
def test_rule_with_unknowns_admits_the_truth(op, unknown):
    def blur(t):
        dtype = None if unknown in ("dtype", "everything") else t.dtype
        shape = t.shape if unknown == "dtype" else (None,) * len(t.shape) if unknown == "sizes" else None
        return TensorType(dtype, shape)

    for case in cases(op, DTYPES):
        exact = types_of(case.inputs())
        truth = op.infer(exact, case.attrs)
        blurred = [None if t is None else blur(t) for t in exact]
        partial = op.infer(blurred, case.attrs)
        assert len(partial) == len(truth), str(case)
        assert all(p.admits(t) for p, t in zip(partial, truth, strict=True)), (
            f"{case}: from {', '.join(map(str, blurred))} the rule infers {', '.join(map(str, partial))}, "
            f"but the truth is {', '.join(map(str, truth))}"
        )
        for i, t in enumerate(exact):
            one = [blur(t) if i == j and t is not None else u for j, u in enumerate(exact)]
            assert all(p.admits(t) for p, t in zip(op.infer(one, case.attrs), truth, strict=True)), f"{case}, input {i}"


@every_op
def test_rejects_what_it_must(op):
    rejects = op.all_rejects()
    assert rejects, f"{op.name} declares nothing that it refuses"
    for reject in rejects:
        print(f"{op.name} must refuse {', '.join(map(str, reject.types))} {reject.attrs}")
        with pytest.raises(UserError, match=re.escape(reject.message)):
            op.infer(reject.types, op.complete(reject.attrs))


@every_op
def test_random_data_is_seeded_and_typed(op):
    for name, draw in op.random.items():
        index = [p.name for p in op.params].index(name)
        for case in cases(op, ["float32"]):
            types = types_of(case.inputs())
            types += [None] * (len(op.params) - len(types))
            one, two, other = (draw(np.random.default_rng(s), *types, **case.attrs) for s in (1, 1, 2))
            assert same_bits(one, two), str(case)
            assert one.dtype in op.dtypes_of(op.params[index]), str(case)
            assert one.shape == other.shape

"""PyTorch modules become graphs that compute and differentiate as the modules do; what cannot is refused as a whole."""

from __future__ import annotations

import functools
import io
import pickle
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import metaop as mo
from metaop.errors import MissingFrameworkError, UsageError
from tests import checks

if "torch" not in checks.BACKENDS:
    pytest.skip("the modules are PyTorch's", allow_module_level=True)

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks import torch_zoo as zoo

IN_PROCESS = [b for b in ("numpy", "torch", "tensorflow", "onnxruntime", "tflite", "jax") if b in checks.BACKENDS]


def normal(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def labels(count: int, *shape: int) -> torch.Tensor:
    return torch.randint(0, count, shape, generator=torch.Generator().manual_seed(1))


#: a module, and from a batch size to inputs
ZOO: dict[str, tuple[Callable[[], nn.Module], Callable[[int], tuple[torch.Tensor, ...]]]] = {
    "resnet18": (lambda: zoo.resnet18(8, 10), lambda n: (normal(n, 3, 32, 32),)),
    "resnet50": (lambda: zoo.resnet50(4, 10), lambda n: (normal(n, 3, 32, 32),)),
    "mobilenet": (lambda: zoo.mobilenet(4, 10), lambda n: (normal(n, 3, 32, 32),)),
    "unet": (lambda: zoo.unet(4, 2), lambda n: (normal(n, 3, 16, 16),)),
    "tagger": (zoo.tagger, lambda n: (labels(50, n, 7),)),
    "gpt2": (lambda: zoo.gpt2(100, 32, 32, 4, 2), lambda n: (labels(100, n, 16),)),
    "bert": (lambda: zoo.bert(100, 32, 32, 4, 2), lambda n: (labels(100, n, 16), (normal(n, 16) > -0.5).long())),
}


@functools.cache
def imported(name: str, dynamic: bool) -> tuple[nn.Module, mo.Model]:
    make, inputs = ZOO[name]
    module = make()
    return module, mo.from_torch(module, inputs(2), dynamic_batch=dynamic)


def feeds(model: mo.Model, inputs: tuple[Any, ...]) -> dict[str, np.ndarray]:
    return {node.name: value.numpy() for node, value in zip(model.inputs, inputs, strict=True)}


def outputs(module: nn.Module, inputs: tuple[Any, ...]) -> list[np.ndarray]:
    with torch.no_grad():
        found = module(*inputs)
    found = found.values() if isinstance(found, dict) else found if isinstance(found, tuple) else [found]
    return [tensor.numpy() for tensor in found]


def close(got: Any, want: Any, tolerance: float = 1e-5, least: float = 1e-6) -> None:
    """Within rounding, which is relative to the largest element, as sums over the others are; that is at least
    ``least``.
    """
    assert got.shape == want.shape
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=0, atol=tolerance * max(least, float(np.abs(want).max(initial=0))))


def agrees(module: nn.Module, *inputs: torch.Tensor, backends: Any = ("numpy", "torch"), **options: Any) -> mo.Model:
    """Import, run, and compare with the module."""
    model = mo.from_torch(module, inputs, **options)
    wanted = outputs(module, inputs)
    for backend in backends:
        for got, want in zip(model.run(feeds(model, inputs), backend=backend).values(), wanted, strict=True):
            close(got, want)
    return model


class Lambda(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *x: torch.Tensor) -> Any:
        return self.function(*x)


# -- the zoo ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", IN_PROCESS)
@pytest.mark.parametrize("name", ZOO)
def test_networks(name: str, backend: str) -> None:
    module, model = imported(name, False)
    inputs = ZOO[name][1](2)
    for got, want in zip(
        model.run(feeds(model, inputs), backend=backend).values(), outputs(module, inputs), strict=True
    ):
        close(got, want)


@pytest.mark.parametrize("name", ZOO)
def test_any_batch(name: str) -> None:
    module, model = imported(name, True)
    assert all(node.shape is not None and node.shape[0] is None for node in model.inputs)
    for batch in (1, 2, 3):
        inputs = ZOO[name][1](batch)
        for got, want in zip(model.run(feeds(model, inputs), "torch").values(), outputs(module, inputs), strict=True):
            close(got, want)


@pytest.mark.parametrize("backend", [b for b in ("numpy", "torch") if b in IN_PROCESS])
@pytest.mark.parametrize("name", ZOO)
def test_gradients(name: str, backend: str) -> None:
    """Of all parameters: natively on PyTorch, by derived rules on NumPy."""
    module, model = imported(name, False)
    inputs = ZOO[name][1](2)
    module.zero_grad()
    found = module(*inputs)
    result = next(iter(found.values())) if isinstance(found, dict) else found
    weights = normal(*result.shape, seed=7)
    (result * weights).sum().backward()
    expected = {name: p.grad.numpy() for name, p in module.named_parameters() if p.grad is not None}
    loss = mo.reduce_sum(mo.multiply(model.outputs[0], mo.Constant(weights.numpy())))
    wanted = [p for p in model.parameters if p.name in expected]
    assert {p.name for p in wanted} == set(expected)
    data = dict(zip(model.inputs, (x.numpy() for x in inputs), strict=True))
    # Some gradients are zero but for rounding: a constant added to every key changes no attention.
    least = 0.01 * max(float(np.abs(g).max()) for g in expected.values())
    with mo.Session(backend) as session:
        for variable, gradient in zip(wanted, session.gradients(loss, wanted, data), strict=True):
            close(gradient, expected[variable.name], 1e-4, least)


def test_names_are_those_of_modules() -> None:
    module, model = imported("resnet18", False)
    assert model.node("layer1.0.conv1").op.name == "conv2d"
    assert model.node("layer2.0.downsample.1").op.name == "batch_norm"
    assert model.node("fc").op.name == "linear"
    assert {p.name for p in model.parameters} == {name for name, _ in module.named_parameters()}
    assert isinstance(model.node("bn1.running_mean"), mo.Constant)
    names = [n.name for n in model.nodes]
    assert len(names) == len(set(names))


def test_shared_weights_are_one_variable() -> None:
    module, model = imported("gpt2", False)
    assert len(model.parameters) == len(list(module.parameters()))
    assert model.node("lm_head").inputs[1] is model.node("wte").inputs[1]


def test_outputs_have_the_names_of_a_dict() -> None:
    assert imported("bert", False)[1].output_names == ["hidden", "pooled"]
    assert imported("gpt2", False)[1].output_names == ["output"]
    pair = mo.from_torch(Lambda(lambda x: (x + 1, (x * 2, x * 3))), normal(2))
    assert pair.output_names == ["output_0", "output_1.0", "output_1.1"]


# -- modes ------------------------------------------------------------------------------------------------------------


def test_batch_norm_in_training() -> None:
    module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True)).train()
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    model = mo.from_torch(module, normal(2, 3, 8, 8))
    assert model.node("1").attrs["training"] is True
    assert all(torch.equal(before[name], tensor) for name, tensor in module.state_dict().items())
    x = normal(2, 3, 8, 8, seed=3)
    close(model.run({"input": x.numpy()}, "torch")["output"], module(x).detach().numpy())


def test_dropout_follows_the_mode() -> None:
    module = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))
    assert "dropout" not in {n.op.name for n in mo.from_torch(module.eval(), normal(2, 4)).nodes if hasattr(n, "op")}
    model = mo.from_torch(module.train(), normal(2, 4))
    assert model.node("1").op.name == "dropout"
    assert model.node("1").attrs["ratio"] == 0.5


def test_modules_are_left_as_they_were() -> None:
    module = nn.BatchNorm1d(3).train()
    mo.from_torch(module, normal(4, 3))
    assert module.training
    assert module.num_batches_tracked == 0


# -- single operators -------------------------------------------------------------------------------------------------


class WithStates(nn.Module):
    """A network whose first states are inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(3, 4, bias=False)

    def forward(self, x: torch.Tensor, h: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        return self.lstm(x, (h, c))[0]


MASK = torch.tensor([[True, False, True, True], [False, False, False, False], [True, True, True, True]])

FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "in place": (lambda x: x.clone().add_(1).mul_(2).relu_(), (normal(2, 3),)),
    "alpha": (lambda x, y: torch.add(x, y, alpha=3) - torch.sub(x, y, alpha=2), (normal(2, 3), normal(3))),
    "numbers": (lambda x: 1 - x / 3 + 2 * x**2 - x**3 + 2.0**x, (normal(2, 3),)),
    "promotion": (lambda x, n: (x * n, n / 2, n + 1, (n > 1) & (x > 0), n * 0.5), (normal(3), torch.arange(3))),
    "compared": (lambda x, n: (x > n, x == 0, n <= 1, n != 2), (normal(3), torch.arange(3))),
    "clamped": (lambda x: x.clamp(-0.5, 0.5) + x.clamp_min(0) + F.relu6(x * 9), (normal(4, 5),)),
    "where": (lambda x: torch.where(x > 0, x, 0.0).masked_fill(x > 1, -1.0), (normal(4, 5),)),
    "activations": (
        lambda x: F.elu(x) + F.selu(x) + F.hardswish(x) + F.hardsigmoid(x) + F.softplus(x) + F.softsign(x) + F.silu(x),
        (normal(4, 5),),
    ),
    "prelu": (nn.PReLU(3), (normal(2, 3, 4),)),
    "pads": (lambda x: F.pad(F.pad(x, (1, -1)), (1, 1, 2, 0), mode="reflect"), (normal(1, 2, 4, 5),)),
    "same": (nn.Conv2d(3, 4, (2, 3), padding="same", dilation=(1, 2)), (normal(1, 3, 6, 7),)),
    "transposed": (nn.ConvTranspose1d(4, 6, 3, 2, 1, 1, groups=2), (normal(2, 4, 5),)),
    "pools": (
        lambda x: (F.avg_pool2d(x, 3, 2, 1), F.max_pool2d(x, 3, 2, 1, ceil_mode=True), F.adaptive_avg_pool2d(x, 4)),
        (normal(1, 2, 8, 8),),
    ),
    "slices": (lambda x: (x[:, 1:3, ::2], x[-1], x[..., -2], x[None, :, 0], x.flip(1)), (normal(3, 4, 5),)),
    "parts": (lambda x: (*x.chunk(2, 1), *x.unbind(0), torch.stack(x.split(1, 2))), (normal(2, 4, 2),)),
    "views": (lambda x: x.t().reshape(-1).view(3, 1, 2).squeeze(1).expand(2, 3, 2).repeat(1, 2, 1), (normal(2, 3),)),
    "gathers": (lambda x, i: x[i] + x.index_select(0, i), (normal(5, 2), labels(5, 3))),
    "constants": (
        lambda x: x + torch.tril(torch.ones(3, 3)) * torch.arange(3) + torch.full((3,), 2.0),
        (normal(3, 3),),
    ),
    "reduced": (
        lambda x: (x.sum(), x.mean(1), x.amax((0, 2), keepdim=True), x.prod(0), x.argmax(-1), x.cumsum(1)),
        (normal(2, 3, 4),),
    ),
    "variance": (lambda x: (x.var(1), x.std((0, 1), correction=0, keepdim=True)), (normal(4, 5),)),
    "norms": (lambda x: F.group_norm(x, 2) + F.instance_norm(x) + F.layer_norm(x, x.shape[1:]), (normal(2, 4, 5),)),
    "rms": (nn.RMSNorm(5), (normal(2, 5),)),
    "einsum": (lambda x, y: torch.einsum("bij,kj->bik", x, y), (normal(2, 3, 4), normal(5, 4))),
    "gru": (nn.GRU(3, 4, num_layers=2, bidirectional=True), (normal(5, 2, 3),)),
    "lstm with states": (
        WithStates(),
        (normal(5, 2, 3), normal(1, 2, 4), normal(1, 2, 4)),
    ),
    "attention": (lambda q, k: F.scaled_dot_product_attention(q, k, k, scale=0.3), (normal(2, 3, 4), normal(2, 5, 4))),
    "masked attention": (
        lambda q, k: F.scaled_dot_product_attention(q, k, k, attn_mask=MASK),
        (normal(2, 3, 8), normal(2, 4, 8)),
    ),
    "biased attention": (
        lambda q, k, m: F.scaled_dot_product_attention(q, k, k, attn_mask=m),
        (normal(2, 3, 8), normal(2, 4, 8), torch.where(MASK, 0.5, -torch.inf)),
    ),
    "losses": (
        lambda x, y: (F.mse_loss(x, y), F.l1_loss(x, y, reduction="sum"), F.huber_loss(x, y, delta=0.5)),
        (normal(3, 4), normal(3, 4, seed=5)),
    ),
    "labels": (lambda x, y: F.cross_entropy(x, y), (normal(3, 4), labels(4, 3))),
    "shuffled": (lambda x: F.pixel_shuffle(x, 2).roll((1, -1), (2, 3)), (normal(1, 8, 2, 3),)),
    "upsampled": (lambda x: F.interpolate(x, scale_factor=(2, 3)), (normal(1, 2, 3, 2),)),
    "unchanged": (lambda x: (x, x.clone()), (normal(2),)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    function, inputs = FUNCTIONS[name]
    module = function if isinstance(function, nn.Module) else Lambda(function)
    agrees(module.eval(), *inputs)


def test_a_row_without_weights_has_gradients() -> None:
    """PyTorch's attention gives 0, and not NaN, where a mask forbids everything; so do its gradients."""
    module = Lambda(FUNCTIONS["masked attention"][0])
    q, k = normal(2, 3, 8), normal(2, 4, 8)
    model = mo.from_torch(module, (q, k))
    a, b = q.clone().requires_grad_(), k.clone().requires_grad_()
    module(a, b).sum().backward()
    data = dict(zip(model.inputs, (q.numpy(), k.numpy()), strict=True))
    with mo.Session("numpy") as session:
        found = session.gradients(mo.reduce_sum(model.outputs[0]), model.inputs, data)
    for got, want in zip(found, (a.grad, b.grad), strict=True):
        close(got, want.numpy())


def test_open_sizes_in_shapes() -> None:
    def function(x: torch.Tensor) -> Any:
        n = x.shape[0]
        ones = torch.ones(n, 2) * n
        return (
            x.view(n * 2, 2),
            x.reshape(n, 1, 2, 2).expand(n, 3, 2, 2),
            ones,
            torch.arange(n)[:, None] + torch.zeros(1, n),
            torch.zeros(3, n, 2) + x.view(n, 2, 2)[:, 0],
        )

    module = Lambda(function)
    model = mo.from_torch(module, normal(4, 4), dynamic_batch=True)
    for batch in (1, 3, 4):
        x = normal(batch, 4)
        for backend in ("numpy", "torch"):
            found = model.run({model.inputs[0].name: x.numpy()}, backend)
            for got, want in zip(found.values(), outputs(module, (x,)), strict=True):
                close(got, want)


# -- refusals ---------------------------------------------------------------------------------------------------------


def test_every_refusal_is_told_at_once() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.inv(x) + torch.special.i0(x) + torch.rand(3, 3)

    with pytest.raises(mo.ModelError, match="3 operators of the model cannot be expressed") as caught:
        mo.from_torch(Lambda(function), normal(3, 3))
    found = {entry["op"]: entry["why"] for entry in caught.value.unsupported}
    assert "no meta operator" in found["special_i0"]
    assert "random" in found["rand"]


def test_arguments_that_are_not_read_are_refused() -> None:
    with pytest.raises(mo.ModelError, match=r"scale_grad_by_freq=True is not supported"):
        mo.from_torch(nn.Embedding(3, 2, scale_grad_by_freq=True), labels(3, 2))
    with pytest.raises(mo.ModelError, match=r"sparse=True is not supported"):
        mo.from_torch(nn.Embedding(3, 2, sparse=True), labels(3, 2))


def test_wrong_arguments() -> None:
    with pytest.raises(UsageError, match="example inputs"):
        mo.from_torch(nn.Linear(2, 2))
    with pytest.raises(UsageError, match=r"takes a torch\.nn\.Module"):
        mo.from_torch(3, normal(2))
    with pytest.raises(UsageError, match="no axis 5 of 'input'"):
        mo.from_torch(nn.Linear(2, 2), normal(2, 2), dynamic_batch={"input": 5})
    with pytest.raises(mo.ModelError, match=r"torch\.export cannot follow"):
        mo.from_torch(nn.Linear(2, 2), normal(3, 3))
    with pytest.raises(mo.ModelError, match=r"torch\.complex64"):
        mo.from_torch(nn.Linear(2, 2).to(torch.complex64), normal(2, 2).to(torch.complex64))


def test_a_batch_that_the_module_fixes_is_refused() -> None:
    with pytest.raises(mo.ModelError, match="without dynamic_batch"):
        mo.from_torch(Lambda(lambda x: x.view(2, 6) + 1), normal(2, 6), dynamic_batch=True)


def test_named_inputs_and_arrays() -> None:
    module = imported("bert", False)[0]
    ids, mask = ZOO["bert"][1](2)
    model = mo.from_torch(module, {"input_ids": ids.numpy(), "attention_mask": mask.numpy()})
    assert [n.name for n in model.inputs] == ["input_ids", "attention_mask"]


def test_torch_is_loaded_on_first_use_only() -> None:
    code = "import metaop, sys; metaop.from_torch; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_missing_torch_is_told_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingFrameworkError, match=r"pip install 'metaop\[torch\]'"):
        mo.from_torch(object(), ())


# -- files ------------------------------------------------------------------------------------------------------------


@functools.cache
def saved(name: str) -> bytes:
    file = io.BytesIO()
    shapes = ({0: torch.export.Dim("batch")},) * len(ZOO[name][1](2))
    program = torch.export.export(ZOO[name][0](), ZOO[name][1](2), dynamic_shapes=shapes)
    torch.export.save(program, file)
    return file.getvalue()


@pytest.mark.parametrize("name", ["unet", "bert"])
def test_exported_programs(name: str, tmp_path: Path) -> None:
    (tmp_path / "model.pt2").write_bytes(saved(name))
    model = mo.from_torch(tmp_path / "model.pt2")
    module = imported(name, False)[0]
    inputs = ZOO[name][1](3)
    for got, want in zip(model.run(feeds(model, inputs), "torch").values(), outputs(module, inputs), strict=True):
        close(got, want)


def rewritten(data: bytes, change: Callable[[str, bytes], bytes], more: dict[str, bytes] | None = None) -> bytes:
    """The archive with members changed, or further ones."""
    result = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(result, "w") as new:
        root = old.namelist()[0].partition("/")[0]
        for info in old.infolist():
            inner = info.filename.partition("/")[2]
            new.writestr(info.filename, change(inner, old.read(info)))
        for name, content in (more or {}).items():
            new.writestr(f"{root}/{name}", content)
    return result.getvalue()


class Bomb:
    """Goes off when it is unpickled."""

    def __reduce__(self) -> Any:
        return pytest.fail, ("code from the file was run",)


def replacing(old: str, new: str) -> Callable[[str, bytes], bytes]:
    return lambda name, data: data.replace(old.encode(), new.encode()) if name.endswith(".json") else data


HOSTILE: dict[str, tuple[Callable[[str, bytes], bytes], dict[str, bytes], str]] = {
    "pickled weight": (replacing('"use_pickle": false', '"use_pickle": true'), {}, "is pickled"),
    "custom object": (replacing('"path_name": "weight_0"', '"path_name": "custom_obj_0"'), {}, "is pickled"),
    "sample inputs": (lambda n, d: pickle.dumps(Bomb()) if n.startswith("data/sample") else d, {}, "sample inputs"),
    "any function": (replacing("torch.ops.aten.conv2d.default", "torch.hub.os.system"), {}, "'torch.hub.os.system'"),
    "operator.call": (replacing("torch.ops.aten.conv2d.default", "_operator.call"), {}, "'_operator.call'"),
    "size": (replacing('"expr_str": "', '"expr_str": "__import__(\'os\').getpid() + '), {}, "more than arithmetic"),
    "library": (lambda n, d: d, {"data/aotinductor/model/x.so": b""}, "no part of a plain program"),
    "container": (replacing("builtins.tuple", "collections.defaultdict"), {}, "collections.defaultdict"),
    "nothing": (lambda n, d: b"" if n == "models/model.json" else d, {}, "not an exported program"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_files_that_could_run_code_are_refused(name: str, tmp_path: Path) -> None:
    change, more, message = HOSTILE[name]
    data = rewritten(saved("unet"), change, more)
    assert data != rewritten(saved("unet"), lambda n, d: d)
    (tmp_path / "model.pt2").write_bytes(data)
    with pytest.raises(mo.ModelError, match=message):
        mo.from_torch(tmp_path / "model.pt2")


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(mo.ModelError, match="No such file"):
        mo.from_torch(tmp_path / "model.pt2")
    for cut in (0, 10, len(saved("unet")) // 2):
        (tmp_path / "model.pt2").write_bytes(saved("unet")[:cut])
        with pytest.raises(mo.ModelError, match="not an exported program"):
            mo.from_torch(tmp_path / "model.pt2")
    (tmp_path / "model.pt2").write_bytes(saved("unet"))
    with pytest.raises(UsageError, match="give it alone"):
        mo.from_torch(tmp_path / "model.pt2", normal(1, 3, 16, 16))

"""What people do with PyTorch beyond whole layers: the values of the module and its gradients, on every backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import metaop as mo
from tests import checks

if "torch" not in checks.BACKENDS:
    pytest.skip("the modules are PyTorch's", allow_module_level=True)

import torch
import torch.nn.functional as F
from torch import nn

from metaop.errors import UnsupportedOpError
from tests.models.test_torch_import import IN_PROCESS, Lambda, agrees, close, feeds, labels, normal, outputs

Case = tuple[Callable[..., Any], tuple[torch.Tensor, ...]]


def assigned(x: torch.Tensor) -> torch.Tensor:
    y = torch.zeros_like(x)
    y[:, 1:] = x[:, :-1]
    y[0] = 1.0
    y[:, ::2] += x[:, :1]
    y[x > 1] = 7.0
    return y


def put(x: torch.Tensor, i: torch.Tensor, j: torch.Tensor) -> Any:
    a, b, c = x.clone(), x.clone(), x.clone()
    a[i, j] = 5.0
    b[:, i] = x[:, :2] * 2
    c.index_put_((i,), x[:2], accumulate=True)
    return a, b, c, x.index_add(0, i, x[:2]), x.index_fill(1, j, 0.5)


class Cells(nn.Module):
    """Steps written out, as in decoders."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.gru, self.lstm = nn.RNNCell(3, 4), nn.GRUCell(4, 4), nn.LSTMCell(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h, g, s = x.new_zeros(x.shape[0], 4), x.new_zeros(x.shape[0], 4), (x[:, 0, :2], x[:, 0, 1:])
        found = []
        for t in range(x.shape[1]):
            h = self.rnn(x[:, t], h)
            g = self.gru(h, g)
            s = self.lstm(g, s)
            found.append(s[0])
        return torch.stack(found, 1)


class Projected(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(3, 4, proj_size=2)

    def forward(self, x: torch.Tensor) -> Any:
        y, (h, c) = self.lstm(x)
        return y, h, c


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=True, activation="gelu")
        # Nested tensors, which PyTorch has for inference only, would give 0 for what is padded.
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, x: torch.Tensor, padded: torch.Tensor) -> torch.Tensor:
        return self.encoder(x, src_key_padding_mask=padded)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True, kdim=4, vdim=6)

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
        return self.attention(q, k, v, need_weights=True)


class Transformed(nn.Module):
    """A spatial transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.theta = nn.Linear(3, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        grid = F.affine_grid(self.theta(x.mean((2, 3))).view(-1, 2, 3), list(x.shape), align_corners=False)
        return F.grid_sample(x, grid, padding_mode="border", align_corners=False)


PAIR = (torch.tensor([0, 2]), torch.tensor([1, -1]))

#: functions that are compared with their gradients
SMOOTH: dict[str, Case] = {
    "assigned": (assigned, (normal(3, 4),)),
    "put": (put, (normal(3, 3), *PAIR)),
    "read": (
        lambda x, i, j: (x[i, j], x[:, i], x[i, :, j], x[:, i, j], x[..., j], x[i[:, None], j]),
        (normal(3, 4, 5), *PAIR),
    ),
    "gathered": (lambda x, i: (x.gather(1, i), x.take_along_dim(i, 1)), (normal(3, 6), labels(6, 3, 2))),
    "scattered": (
        lambda x, i: (x.scatter_add(1, i, x[:, :2]), x.scatter(1, i[:, :1], x[:, :1]), x.scatter(1, i[:, :1], 2.0)),
        (normal(3, 6), labels(6, 3, 2)),
    ),
    "resized": (
        lambda x: (
            F.interpolate(x, scale_factor=2.0, mode="bilinear"),
            F.interpolate(x, (7, 4), mode="bilinear", align_corners=True),
            F.interpolate(x, (7, 3)),
            F.interpolate(x, (9, 4), mode="nearest-exact"),
            F.interpolate(x, scale_factor=1.5),
        ),
        (normal(1, 2, 4, 5),),
    ),
    "line resized": (lambda x: F.interpolate(x, 7, mode="linear"), (normal(1, 2, 4),)),
    "pooled unevenly": (
        lambda x: (
            F.adaptive_avg_pool2d(x, (3, 2)),
            F.adaptive_max_pool2d(x, (3, None)),
            F.adaptive_avg_pool1d(x[0], 4),
        ),
        (normal(1, 2, 7, 5),),
    ),
    "rolled": (
        lambda x: (
            x.roll(2),
            x.repeat_interleave(2, 1),
            x.tile(2, 1),
            x.rot90(),
            x.diagonal(1),
            x.diag(),
            x.t().trace(),
        ),
        (normal(4, 4),),
    ),
    "unfolded": (lambda x: (x.unfold(2, 2, 2), F.unfold(x, 2), F.pixel_unshuffle(x, 2)), (normal(1, 2, 4, 4),)),
    "folded": (lambda x: F.fold(x, (4, 4), 2, stride=2), (normal(1, 8, 4),)),
    "circular": (lambda x: F.pad(x, (1, 2), mode="circular"), (normal(2, 3, 5),)),
    "gated": (
        lambda x: (F.glu(x), F.celu(x, 0.5), F.logsigmoid(x), F.softshrink(x), F.threshold(x, 0.1, 20.0), F.rrelu(x)),
        (normal(3, 4),),
    ),
    "numbers": (
        lambda x: (torch.atan2(x, x + 0.1), torch.hypot(x, 2 * x), x.abs().log2(), x.exp2(), x.asinh(), x.frac()),
        (normal(3, 4),),
    ),
    "norms": (
        lambda x: (F.normalize(x, dim=1), x.norm(dim=0), x.norm(p=3), x.abs().amax(1), torch.cdist(x, x[:1] + 1)),
        (normal(3, 4),),
    ),
    "products": (
        lambda x, y: (
            torch.tensordot(x, y, ([1], [0])),
            torch.kron(x, y),
            torch.outer(x[0], y[0]),
            x[0] @ x[1],
            x.cumprod(1),
        ),
        (normal(3, 4), normal(4, 2)),
    ),
    "smoothed labels": (
        lambda x, y: (
            F.cross_entropy(x, y, label_smoothing=0.1),
            F.nll_loss(x, y),
            F.cross_entropy(x, y, ignore_index=1),
        ),
        (normal(3, 4), torch.tensor([1, 0, 3])),
    ),
    "losses": (
        lambda x, y: (
            F.smooth_l1_loss(x, y),
            F.kl_div(x, y.softmax(1), reduction="sum"),
            F.triplet_margin_loss(x, y, x + y),
        ),
        (normal(3, 4), normal(3, 4, seed=5)),
    ),
    "sorted": (
        lambda x: (*x.topk(2, -1), *x.sort(0, descending=True), x.argsort(1), *x.median(1)[:0]),
        (normal(3, 4),),
    ),
    "cells": (Cells(), (normal(2, 3, 3),)),
    "relu network": (nn.RNN(3, 4, 2, nonlinearity="relu", bidirectional=True), (normal(5, 2, 3),)),
    "projected": (Projected(), (normal(4, 2, 3),)),
    "encoder": (Encoder(), (normal(2, 3, 8), torch.tensor([[False, False, True], [False, False, False]]))),
    "several attentions": (Attention(), (normal(2, 3, 8), normal(2, 5, 4), normal(2, 5, 6))),
    "transformed": (Transformed(), (normal(2, 3, 4, 5),)),
    "bags": (nn.EmbeddingBag(6, 3, mode="sum"), (labels(6, 4, 2),)),
    "normalized weights": (torch.nn.utils.parametrizations.weight_norm(nn.Linear(4, 3)), (normal(2, 4),)),
    "bilinear": (nn.Bilinear(3, 4, 2), (normal(2, 3), normal(2, 4))),
    "circular convolution": (nn.Conv2d(2, 3, 3, padding=1, padding_mode="circular"), (normal(1, 2, 4, 4),)),
}

#: what has no gradients
DISCRETE: dict[str, Case] = {
    "integers": (
        lambda n: (
            n // 3,
            n % 3,
            -n // 2,
            -n % 3,
            n << 1,
            n ^ 5,
            F.one_hot(n, 10),
            torch.div(n, 2, rounding_mode="trunc"),
        ),
        (torch.tensor([0, 3, 7, 9]),),
    ),
    "divided": (
        lambda x: (
            x // 0.3,
            x % 0.3,
            x % -0.3,
            torch.fmod(x, 0.3),
            torch.div(x, 0.3, rounding_mode="trunc"),
            x.trunc(),
        ),
        (normal(3, 4),),
    ),
    "truth": (
        lambda x: (
            (x > 0).any(),
            (x > 0).all(1),
            (x > 0).any((0, 1)),
            x.any(0, keepdim=True),
            (x[:0] > 0).all(),
            x.isinf(),
        ),
        (normal(3, 4),),
    ),
    "a corner": (
        lambda x, i: (x.scatter(1, i, x), x.scatter_add(1, i, x), x.gather(1, i[:2])),
        (normal(3, 6), labels(6, 3, 1)),
    ),
    "counted": (lambda x: torch.bucketize(x, torch.tensor([-1.0, 0.0, 1.0]), right=True), (normal(3, 4),)),
    "places": (lambda x: F.max_pool2d(x, 2, return_indices=True), (normal(2, 3, 4, 5),)),
    "filled": (lambda x: (torch.arange(1, 7, 2) + x[:1], torch.linspace(0, 1, 3) * x[:1], torch.eye(3)), (normal(3),)),
}

#: TFLite lacks many of these kernels; that whole networks run on it is tested with them
BACKENDS = [b for b in IN_PROCESS if b != "tflite"]

#: what backends have no kernel for
REFUSED = {("tensorflow", "transformed"), ("tensorflow", "line resized"), ("jax", "places")}


@pytest.mark.parametrize("name", [*SMOOTH, *DISCRETE])
def test_values(name: str) -> None:
    function, inputs = (SMOOTH | DISCRETE)[name]
    module = (function if isinstance(function, nn.Module) else Lambda(function)).eval()
    model = mo.from_torch(module, inputs)
    wanted = outputs(module, inputs)
    for backend in BACKENDS:
        try:
            found = model.run(feeds(model, inputs), backend=backend)
        except UnsupportedOpError:
            assert (backend, name) in REFUSED
            continue
        assert (backend, name) not in REFUSED
        for got, want in zip(found.values(), wanted, strict=True):
            close(got, want)


@pytest.mark.parametrize("backend", [b for b in ("numpy", "torch") if b in IN_PROCESS])
@pytest.mark.parametrize("name", SMOOTH)
def test_gradients(name: str, backend: str) -> None:
    """With respect to the parameters and all that is fed, of a random combination of the outputs."""
    function, inputs = SMOOTH[name]
    module = (function if isinstance(function, nn.Module) else Lambda(function)).eval()
    model = mo.from_torch(module, inputs)
    leaves = [x.clone().requires_grad_(x.is_floating_point()) for x in inputs]
    module.zero_grad()
    found = module(*leaves)
    flat = torch.utils._pytree.tree_leaves(found)
    loss, total = torch.zeros(()), None
    for number, (result, node) in enumerate(zip(flat, model.outputs, strict=True)):
        if not result.requires_grad:
            continue
        weights = normal(*result.shape, seed=number)
        loss = loss + (result * weights).sum()
        term = mo.reduce_sum(node * mo.Constant(weights.numpy()))
        total = term if total is None else total + term
    loss.backward()
    assert total is not None
    wanted = {n: p.grad for n, p in module.named_parameters()}
    wanted |= {node.name: x.grad for node, x in zip(model.inputs, leaves, strict=True) if x.requires_grad}
    nodes = [n for n in (*model.parameters, *model.inputs) if wanted.get(n.name) is not None]
    assert len(nodes) == sum(g is not None for g in wanted.values())
    data = dict(zip(model.inputs, (x.numpy() for x in inputs), strict=True))
    with mo.Session(backend) as session:
        for node, got in zip(nodes, session.gradients(total, nodes, data), strict=True):
            close(got, wanted[node.name].numpy(), 3e-5, 1e-2)


# -- how it is taken apart ---------------------------------------------------------------------------------------------


def test_only_what_has_no_mapping_is_taken_apart() -> None:
    model = agrees(nn.Sequential(nn.Linear(4, 4), nn.Softmin(1), nn.GELU(), nn.Hardtanh()), normal(2, 4))
    assert [n.op.name for n in model.nodes if isinstance(n, mo.Operator)] == [
        *("linear", "negative", "softmax", "gelu", "clip"),
    ]
    model = agrees(Lambda(lambda x: F.gelu(F.channel_shuffle(x, 2))), normal(1, 4, 2, 2))
    kinds = [n.op.name for n in model.nodes if isinstance(n, mo.Operator)]
    assert kinds[-1] == "gelu"
    assert set(kinds[:-1]) <= {"reshape", "transpose"}


def test_parts_that_cannot_be_expressed_name_the_whole() -> None:
    with pytest.raises(mo.ModelError, match=r"complex numbers are not supported \(it is a part of aten\.fft_rfft\)"):
        mo.from_torch(Lambda(lambda x: torch.view_as_real(torch.fft.rfft(x))), normal(2, 8))
    offsets = torch.tensor([0, 1])
    with pytest.raises(mo.ModelError, match=r"embedding_bag\.padding_idx, where bags of different sizes"):
        mo.from_torch(Lambda(lambda i, w: F.embedding_bag(i, w, offsets)), (labels(4, 5), normal(4, 2)))


def test_masks_choose() -> None:
    """As many elements as the mask is true for, which only the data tell."""
    module = Lambda(lambda x: (x[x > 0], x[x[:, 0] > 0], x.masked_select(x < 0), (x > 0).nonzero()))
    model = mo.from_torch(module, normal(3, 4))
    for seed in (1, 2):
        x = normal(3, 4, seed=seed)
        for backend in ("numpy", "torch", "onnxruntime"):
            found = model.run(feeds(model, (x,)), backend).values()
            for got, want in zip(found, outputs(module, (x,)), strict=True):
                close(got, want)


def test_open_sizes() -> None:
    def function(x: torch.Tensor) -> Any:
        y = x.clone()
        y[0] = 2.0
        y[:, 0] = 3.0
        steps = torch.arange(1, x.shape[0] + 1)
        return y, x.var(0), x.std(), steps * 2, x[:, [0, 2]], F.interpolate(x[None], 5, mode="linear"), x.cumprod(0)

    module = Lambda(function)
    model = mo.from_torch(module, normal(4, 3), dynamic_batch=True)
    for batch in (2, 3, 5):
        x = normal(batch, 3)
        for backend in ("numpy", "torch"):
            for got, want in zip(model.run(feeds(model, (x,)), backend).values(), outputs(module, (x,)), strict=True):
                close(got, want)


def test_bfloat16() -> None:
    module = nn.Sequential(nn.Linear(4, 3), nn.ReLU()).bfloat16()
    x = normal(2, 4).bfloat16()
    model = mo.from_torch(module, x)
    with torch.no_grad():
        want = module(x).float().numpy()
    array = x.float().numpy().astype(model.inputs[0].dtype)
    for backend in ("numpy", "torch", "jax", "tensorflow"):
        got = model.run({"input": array}, backend)["output"]
        assert got.dtype.name == "bfloat16"
        np.testing.assert_allclose(got.astype("float32"), want, rtol=2**-7, atol=2**-8)

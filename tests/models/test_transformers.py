"""Models of the package ``transformers``, where it is installed: small ones with random weights, on every backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import metaop as mo
from tests import checks

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers", reason="no part of what metaop needs: pip install transformers")

BACKENDS = [b for b in ("numpy", "torch", "tensorflow", "onnxruntime", "tflite", "jax") if b in checks.BACKENDS]
SIZES = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "vocab_size": 99,
    "max_position_embeddings": 40,
}
SHARED = {**SIZES, "num_key_value_heads": 2}
GPT2 = {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 99, "n_positions": 40}
T5 = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4, "vocab_size": 99}
VIT = {k: v for k, v in SIZES.items() if not k.startswith(("vocab", "max"))} | {"image_size": 16, "patch_size": 4}

Make = Callable[[], Any]

#: model, and what of its result is looked at
MODELS: dict[str, tuple[Make, str]] = {
    "bert": (lambda: transformers.BertModel(transformers.BertConfig(**SIZES)), "last_hidden_state"),
    "gpt2": (lambda: transformers.GPT2LMHeadModel(transformers.GPT2Config(**GPT2)), "logits"),
    "llama": (lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig(**SHARED)), "logits"),
    "qwen2": (lambda: transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**SHARED)), "logits"),
    "roberta": (lambda: transformers.RobertaModel(transformers.RobertaConfig(**SIZES)), "last_hidden_state"),
    "t5": (lambda: transformers.T5Model(transformers.T5Config(**T5)), "last_hidden_state"),
    "vit": (lambda: transformers.ViTModel(transformers.ViTConfig(**VIT)), "last_hidden_state"),
}


class Plain(torch.nn.Module):  # type: ignore[misc]
    """From tensors to one tensor."""

    def __init__(self, name: str) -> None:
        super().__init__()
        make, self.result = MODELS[name]
        self.name, self.model = name, make().eval()

    def forward(self, x: Any, mask: Any = None) -> Any:
        if self.name == "vit":
            return self.model(pixel_values=x).last_hidden_state
        more = {"decoder_input_ids": x} if self.name == "t5" else {}
        if self.name in ("t5", "gpt2", "llama", "qwen2"):
            more["use_cache"] = False
        return getattr(self.model(input_ids=x, attention_mask=mask, **more), self.result)


@pytest.mark.parametrize("name", MODELS)
def test_outputs_are_those_of_the_model(name: str) -> None:
    torch.manual_seed(0)
    module = Plain(name)
    ids = torch.randint(5, 99, (2, 9))
    inputs = (torch.randn(2, 3, 16, 16),) if name == "vit" else (ids, torch.tensor([[1] * 9, [1] * 6 + [0] * 3]))
    model = mo.from_torch(module, inputs, dynamic_batch=True)
    with torch.no_grad():
        want = module(*inputs).numpy()
    feeds = {node.name: x.numpy() for node, x in zip(model.inputs, inputs, strict=True)}
    for backend in BACKENDS:
        (got,) = model.run(feeds, backend).values()
        np.testing.assert_allclose(got, want, rtol=0, atol=2e-5 * np.abs(want).max(), err_msg=backend)

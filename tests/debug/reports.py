"""Made-up reports, as plain data, for the tests of the page: small, like a ResNet-50, and with thousands of nodes."""

from __future__ import annotations

import random
from typing import Any

Data = dict[str, Any]


class Builder:
    """A report that grows node by node; scores are drawn, most of them within rounding."""

    def __init__(self, seed: int = 0) -> None:
        self.random = random.Random(seed)
        self.nodes: list[Data] = []
        self.records: list[Data] = []
        self.verifications: list[Data] = []

    def leaf(self, name: str, kind: str, type: str = "float32[64, 64]") -> str:
        self.nodes.append({"name": name, "kind": kind, "op": None, "inputs": [], "attrs": "", "type": type})
        return name

    def op(self, name: str, op: str, *inputs: str, attrs: str = "", type: str = "float32[8, 64, 56, 56]") -> str:
        node = {"name": name, "kind": "operator", "op": op, "inputs": list(inputs), "attrs": attrs, "type": type}
        self.nodes.append(node)
        same = self.random.random() < 0.35
        score = 0.0 if same else 10 ** self.random.uniform(-2.2, 0)
        self.records.append(
            {
                "node": name,
                "op": op,
                "output_delta": score * 3.1e-7,
                "gradient_delta": score * 7.7e-7,
                "local_output_delta": score * 1.2e-7,
                "local_gradient_delta": score * 2.5e-7,
                "score": score,
                "gradient_score": score / 2,
                "output_score": score,
                "tail_score": None,
                "kind": "same" if same else "noise",
                "status": "ok",
                "message": None,
                "seconds": self.random.uniform(0.0005, 0.09),
                "bytes": self.random.randrange(0, 4 << 20),
                "gradient_kind": ["native", "derived"],
                "suspect": False,
                "wrong": None,
                "parts": [self.part("output 0", score, same)],
            }
        )
        return name

    def part(self, what: str, score: float, same: bool = False) -> Data:
        edges = [-10 + 0.5 * n for n in range(15)]
        centre = self.random.uniform(4, 8)
        counts = [0 if same else int(40000 * 2 ** -((n - centre) ** 2)) for n in range(14)]
        worst = None if same else {"index": [0, 3, 1, 17], "a": 0.512345678, "b": 0.512399124, "reference": 0.512345671}
        histogram = {"edges": edges, "counts": counts}
        delta = score * 1e-7
        return {
            "what": what,
            "delta": delta,
            "score": score,
            "worst": worst,
            "histogram": histogram,
            "equal": 200704 if same else 90412,
        }

    def change(self, node: str, **values: Any) -> None:
        next(record for record in self.records if record["node"] == node).update(values)

    def fault(self, node: str, score: Any = 531.2) -> None:
        """Makes a node the culprit, verified."""
        parts = [self.part("output 0", 531.2), self.part("gradient of " + node + ".weight", 84.0)]
        self.change(
            node,
            score=score,
            output_score=score,
            gradient_score=84.0,
            output_delta=0.104,
            gradient_delta=0.0213,
            local_output_delta=0.1,
            local_gradient_delta=0.2,
            kind="fault",
            suspect=True,
            wrong="onnxruntime",
            parts=parts,
        )
        op = next(record["op"] for record in self.records if record["node"] == node)
        self.verifications.append(
            {
                "confirmed": True,
                "nodes": [node],
                "op": op,
                "blame": "onnxruntime",
                "evidence": [
                    f"all of onnxruntime but {node} agrees with torch: output 2.1e-07, gradient 4.4e-07",
                    f"torch with only {node} on onnxruntime differs as much as before: output 0.104",
                    "the float64 reference is 531 units of rounding from onnxruntime, 0.8 from torch",
                    "jax and tensorflow side with torch",
                ],
                "before": {"output": 0.104, "gradient": 0.0213},
                "after": {"output": 2.1e-7, "gradient": 4.4e-7},
                "reproduced": {"output": 0.104, "gradient": 0.0213},
            }
        )

    def report(self, target: str) -> Data:
        suspects = sum(record["suspect"] for record in self.records)
        word = "disagree" if suspects else "agree"
        return {
            "format": "metaop-report",
            "format_version": 2,
            "metaop": "0.1.0",
            "frameworks": ["torch", "onnxruntime"],
            "versions": ["2.13.0", "1.31.1"],
            "target": target,
            "parameters": [node["name"] for node in self.nodes if node["kind"] == "variable"],
            "seed": 0,
            "method": "auto",
            "judge": "noise",
            "thresholds": {"score": 1.0, "output": 1.5e-4, "gradient": 1.5e-4},
            "consistent": not suspects,
            "headline": f"torch (2.13.0) and onnxruntime (1.31.1) {word} on {target!r}: "
            f"{suspects} of {len(self.records)} nodes suspect",
            "notes": [],
            "graph": {"nodes": self.nodes, "outputs": [target]},
            "records": self.records[::-1],
            "verifications": self.verifications,
            "feeds": None,
        }


def small() -> Data:
    """Twelve operators, every class of record, feeds, and names that are not nice."""
    b = Builder(1)
    x = b.leaf("x", "placeholder", "float32[8, 3, 32, 32]")
    labels = b.leaf("labels", "placeholder", "int64[8]")
    w1, w2 = b.leaf("conv1.weight", "variable"), b.leaf("conv2.weight", "variable")
    w3, bias = b.leaf("fc.weight", "variable"), b.leaf("fc.bias", "variable")
    scale = b.leaf("scale", "constant", "float32[]")
    h = b.op("normalize", "multiply", x, scale)
    h = b.op("conv1", "conv2d", h, w1, attrs="strides=(1, 1), pads=(1, 1, 1, 1)")
    skip = b.op("relu1", "relu", h)
    h = b.op("conv2", "conv2d", skip, w2, attrs="strides=(1, 1), pads=(1, 1, 1, 1)")
    h = b.op("<script>alert(1)</script>", "gelu", h)
    h = b.op("add", "add", h, skip)
    h = b.op("pool", "global_average_pool", h)
    h = b.op("flat", "reshape", h)
    h = b.op("fc", "linear", h, w3, bias)
    h = b.op("</script><!--", "softmax", h)
    b.op("accuracy", "argmax", h)
    loss = b.op("loss", "cross_entropy", h, labels, type="float32[]")
    b.fault("conv2")
    b.change("<script>alert(1)</script>", kind="convention", score=24.1, output_delta=6e-5)
    b.change("</script><!--", kind="tail", score=0.7, tail_score=812.0)
    b.change("accuracy", kind="unsupported", status="unsupported", score=None, output_delta=None, gradient_delta=None)
    b.change("accuracy", message="argmax has no gradient <img src=x onerror=alert(2)>", parts=[])
    b.change("pool", kind="failed", status="crash", score="inf", output_delta="inf", suspect=True, parts=[])
    b.change("pool", message="the worker died of SIGFPE in global_average_pool", gradient_delta="nan")
    data = b.report(loss)
    data["notes"] = ["the seed drew all feeds", "<b>not bold</b>"]
    data["feeds"] = [
        {"name": "batch_001.npz", "score": 0.9, "output_delta": 1e-7, "class_distance": 0.0, "mad_distance": 0.0},
        {"name": "batch_003.npz", "score": 12.0, "output_delta": 1e-3, "class_distance": 0.0, "mad_distance": 0.1},
        {"name": "batch_002.npz", "score": "inf", "output_delta": "inf", "class_distance": 1.0, "mad_distance": 1.0},
    ]
    return data


def resnet() -> Data:
    """The shape of a ResNet-50: 16 residual blocks, 53 convolutions."""
    b = Builder(2)

    def conv(h: str, name: str, after: str = "relu") -> str:
        h = b.op(name, "conv2d", h, b.leaf(f"{name}.weight", "variable"), attrs="strides=(1, 1), group=1")
        norm = name.replace("conv", "bn").replace("downsample.0", "downsample.1")
        leaves = [b.leaf(f"{norm}.{part}", "variable") for part in ("weight", "bias", "mean", "var")]
        h = b.op(norm, "batch_norm", h, *leaves, attrs="epsilon=1e-05, training=False")
        return b.op(norm.replace("bn", "relu"), "relu", h) if after else h

    h = conv(b.leaf("input", "placeholder", "float32[8, 3, 224, 224]"), "conv1")
    h = b.op("maxpool", "max_pool2d", h)
    for layer, blocks in enumerate((3, 4, 6, 3), start=1):
        for block in range(blocks):
            path = f"layer{layer}.{block}"
            skip = conv(h, f"{path}.downsample.0", after="") if block == 0 else h
            for n in (1, 2):
                h = conv(h, f"{path}.conv{n}")
            h = b.op(f"{path}.add", "add", conv(h, f"{path}.conv3", after=""), skip)
            h = b.op(f"{path}.relu", "relu", h)
    h = b.op("avgpool", "global_average_pool", h)
    h = b.op("flatten", "reshape", h)
    h = b.op("fc", "linear", h, b.leaf("fc.weight", "variable"), b.leaf("fc.bias", "variable"))
    loss = b.op("loss", "cross_entropy", h, b.leaf("labels", "placeholder", "int64[8]"))
    b.fault("layer3.2.conv2")
    return b.report(loss)


def deep(count: int = 2000) -> Data:
    """A transformer's shape, of about so many nodes: branches for heads, skips, masks that every block reads."""
    b = Builder(3)
    h = b.op("embed", "gather", b.leaf("embed.weight", "variable"), b.leaf("tokens", "placeholder", "int64[1, 128]"))
    mask = b.op("mask", "where", b.leaf("mask.input", "placeholder"))
    block = 0
    while len(b.nodes) < count - 3:
        path = f"transformer.blocks.{block}"
        n = b.op(f"{path}.norm1", "layer_norm", h, b.leaf(f"{path}.norm1.scale", "variable"))
        parts = {}
        for part in "qkv":
            parts[part] = b.op(f"{path}.{part}", "linear", n, b.leaf(f"{path}.{part}.weight", "variable"))
            parts[part] = b.op(f"{path}.{part}.split", "reshape", parts[part])
            parts[part] = b.op(f"{path}.{part}.heads", "transpose", parts[part])
        s = b.op(f"{path}.scores", "matmul", parts["q"], parts["k"])
        s = b.op(f"{path}.scaled", "multiply", s, b.leaf(f"{path}.scale", "constant"))
        s = b.op(f"{path}.masked", "add", s, mask)
        s = b.op(f"{path}.softmax", "softmax", s)
        s = b.op(f"{path}.mix", "matmul", s, parts["v"])
        s = b.op(f"{path}.join", "reshape", b.op(f"{path}.back", "transpose", s))
        s = b.op(f"{path}.out", "linear", s, b.leaf(f"{path}.out.weight", "variable"))
        h = b.op(f"{path}.add1", "add", h, s)
        n = b.op(f"{path}.norm2", "layer_norm", h, b.leaf(f"{path}.norm2.scale", "variable"))
        n = b.op(f"{path}.up", "linear", n, b.leaf(f"{path}.up.weight", "variable"))
        n = b.op(f"{path}.gelu", "gelu", n)
        n = b.op(f"{path}.down", "linear", n, b.leaf(f"{path}.down.weight", "variable"))
        h = b.op(f"{path}.add2", "add", h, n)
        block += 1
    loss = b.op("loss", "reduce_mean", h)
    b.fault(f"transformer.blocks.{block // 3}.softmax")
    for record in b.records:
        if record["op"] == "gelu":
            record.update(kind="convention", score=31.0)
    return b.report(loss)

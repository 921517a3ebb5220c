"""Damaged and malicious ONNX files, and a program that reads many of them: ``python -m tests.models.hostile FOLDER``.

Every file is made from a sound one by seeded changes. The program says, one line of JSON per file, what came of it: a
model, a refusal, or anything else, which would be a bug. It watches which files are opened meanwhile.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from onnx import AttributeProto, ModelProto, TensorProto, helper

import metaop as mo
from metaop.cli import main as cli
from tests.models import attention, cnn
from tests.models.build import model, perceptron, value

SECONDS = 10
MEMORY = 1 << 30
HUGE = (1 << 31, 1 << 40, (1 << 63) - 1, -1, -(1 << 63), 10**6)

Rng = np.random.Generator


def shapes() -> ModelProto:
    """Shape arithmetic, a branch, a function and most kinds of attributes."""
    branch = helper.make_graph([helper.make_node("Tanh", ["r"], ["b"])], "branch", [], [value("b", None)])
    twice = helper.make_function(
        "mine", "twice", ["a"], ["b"], [helper.make_node("Add", ["a", "a"], ["b"])], [helper.make_opsetid("", 21)]
    )
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "zero"], ["n"]),
        helper.make_node("Unsqueeze", ["n", "first"], ["u"]),
        helper.make_node("Concat", ["u", "rest"], ["t"], axis=0),
        helper.make_node("Reshape", ["x", "t"], ["r"]),
        helper.make_node("If", ["c"], ["i"], then_branch=branch, else_branch=branch),
        helper.make_node("ConstantOfShape", ["wide"], ["k"]),
        helper.make_node("Add", ["i", "k"], ["a"]),
        helper.make_node("Pad", ["a", "pads"], ["p"], mode="constant"),
        helper.make_node("Slice", ["p", "starts", "ends", "first", "steps"], ["l"]),
        helper.make_node("Tile", ["k", "twos"], ["m"]),
        helper.make_node("Split", ["m"], ["q", "w"], axis=1, num_outputs=2),
        helper.make_node("Expand", ["q", "wide"], ["e"]),
        helper.make_node("ReduceSum", ["e", "first"], ["v"], keepdims=1),
        helper.make_node("twice", ["v"], ["f"], domain="mine"),
        helper.make_node("Range", ["zero", "limit", "one"], ["g"]),
        helper.make_node("Cast", ["g"], ["h"], to=TensorProto.FLOAT),
        helper.make_node("LRN", ["image"], ["j"], size=3),
        helper.make_node("MaxPool", ["j"], ["o"], kernel_shape=[2, 2], auto_pad="SAME_UPPER"),
        helper.make_node("Hardmax", ["o"], ["hard"]),
        helper.make_node("ReduceMax", ["hard"], ["z"], keepdims=0),
        helper.make_node("Add", ["f", "z"], ["y"]),
    ]
    integers = {"zero": 0, "first": [0], "rest": [-1], "wide": [1, 6], "pads": [0, 1, 0, 1], "starts": [0], "ends": [9]}
    stored = {
        k: np.array(v, np.int64) for k, v in {**integers, "steps": [1], "twos": [2, 2], "limit": 5, "one": 1}.items()
    }
    stored["c"] = np.array(True)
    inputs = [value("x", ("n", 2, 3)), value("image", (1, 3, 4, 4))]
    proto = model(nodes, inputs, [value(name, None) for name in "yhl"], stored, functions=[twice])
    proto.opset_import.append(helper.make_opsetid("mine", 1))
    return proto


def external() -> ModelProto:
    """Weights beside the model."""
    proto = perceptron()
    for tensor in (t for t in proto.graph.initializer if t.data_type == TensorProto.FLOAT):
        tensor.data_location = TensorProto.EXTERNAL
        entries = {"location": "weights.bin", "offset": "0", "length": str(len(tensor.raw_data))}
        tensor.ClearField("raw_data")
        for key, text in entries.items():
            tensor.external_data.add(key=key, value=text)
    return proto


BASES: tuple[Callable[[], ModelProto], ...] = (
    perceptron,
    shapes,
    external,
    lambda: mo.to_onnx(attention().loss),
    lambda: mo.to_onnx({"loss": cnn().loss, "prediction": cnn().prediction}),
)


# -- changes of bytes --------------------------------------------------------------------------------------------------


def truncated(rng: Rng, content: bytearray) -> None:
    del content[int(rng.integers(len(content))) :]


def flipped(rng: Rng, content: bytearray) -> None:
    for _ in range(int(rng.integers(1, 6))):
        content[int(rng.integers(len(content)))] ^= 1 << int(rng.integers(8))


def replaced(rng: Rng, content: bytearray) -> None:
    for _ in range(int(rng.integers(1, 6))):
        content[int(rng.integers(len(content)))] = int(rng.integers(256))


def cut(rng: Rng, content: bytearray) -> None:
    place = int(rng.integers(len(content)))
    del content[place : place + int(rng.integers(1, 40))]


def doubled(rng: Rng, content: bytearray) -> None:
    place = int(rng.integers(len(content)))
    content[place:place] = content[place : place + int(rng.integers(1, 40))]


BYTES = (truncated, flipped, replaced, cut, doubled)


# -- changes of meaning ------------------------------------------------------------------------------------------------


def pick(rng: Rng, items: Any) -> Any:
    return items[int(rng.integers(len(items)))]


def dangling(rng: Rng, proto: ModelProto) -> None:
    node = pick(rng, [n for n in proto.graph.node if n.input])
    node.input[int(rng.integers(len(node.input)))] = "nowhere"


def rewired(rng: Rng, proto: ModelProto) -> None:
    """An edge from anywhere, which may well be a cycle."""
    node = pick(rng, [n for n in proto.graph.node if n.input])
    node.input[int(rng.integers(len(node.input)))] = pick(rng, pick(rng, proto.graph.node).output)


def renamed_output(rng: Rng, proto: ModelProto) -> None:
    pick(rng, proto.graph.node).output[0] = pick(rng, pick(rng, proto.graph.node).output)


def removed(rng: Rng, proto: ModelProto) -> None:
    del proto.graph.node[int(rng.integers(len(proto.graph.node)))]


def other_operator(rng: Rng, proto: ModelProto) -> None:
    names = "Conv Gemm Loop If LSTM Resize Tile Range Expand ConstantOfShape Trilu OneHot EyeLike Hardmax Split Nothing"
    names += (
        " MaxPool Einsum Pad Gather NonZero SoftmaxCrossEntropyLoss DepthToSpace GroupNormalization BatchNormalization"
    )
    pick(rng, proto.graph.node).op_type = pick(rng, names.split())


def fewer_or_more_inputs(rng: Rng, proto: ModelProto) -> None:
    node = pick(rng, proto.graph.node)
    if node.input and rng.integers(2):
        node.input.pop()
    else:
        node.input.append(pick(rng, [*proto.graph.initializer, *proto.graph.input]).name)


def huge_initializer(rng: Rng, proto: ModelProto) -> None:
    tensor = pick(rng, proto.graph.initializer)
    tensor.dims.append(1)
    tensor.dims[int(rng.integers(len(tensor.dims)))] = int(pick(rng, HUGE))


def huge_input(rng: Rng, proto: ModelProto) -> None:
    info = pick(rng, proto.graph.input).type.tensor_type.shape
    if info.dim:
        pick(rng, info.dim).dim_value = int(pick(rng, HUGE))


def huge_numbers(rng: Rng, proto: ModelProto) -> None:
    """Constants that are shapes, pads, repeats, limits."""
    found = [t for t in proto.graph.initializer if t.data_type == TensorProto.INT64 and not t.external_data]
    if found:
        tensor = pick(rng, found)
        numbers = np.frombuffer(tensor.raw_data, np.int64).copy()
        if numbers.size:
            numbers[int(rng.integers(numbers.size))] = int(pick(rng, HUGE))
            tensor.raw_data = numbers.tobytes()


def huge_attribute(rng: Rng, proto: ModelProto) -> None:
    attribute = pick(rng, [a for n in proto.graph.node for a in n.attribute])
    if attribute.type == AttributeProto.INTS and attribute.ints:
        attribute.ints[int(rng.integers(len(attribute.ints)))] = int(pick(rng, HUGE))
    elif attribute.type == AttributeProto.INT:
        attribute.i = int(pick(rng, HUGE))


def wrong_attribute(rng: Rng, proto: ModelProto) -> None:
    attribute = pick(rng, [a for n in proto.graph.node for a in n.attribute])
    attribute.type = pick(rng, AttributeProto.AttributeType.values())
    if rng.integers(2):
        attribute.ints.extend(int(i) for i in rng.integers(-3, 9, int(rng.integers(9))))


def wrong_dtype(rng: Rng, proto: ModelProto) -> None:
    if rng.integers(2):
        pick(rng, proto.graph.initializer).data_type = int(rng.integers(0, 30))
    else:
        pick(rng, [*proto.graph.input, *proto.graph.output]).type.tensor_type.elem_type = int(rng.integers(0, 30))


def wrong_fields(rng: Rng, proto: ModelProto) -> None:
    """Numbers in a field that is not their dtype's."""
    tensor = pick(rng, proto.graph.initializer)
    tensor.ClearField("raw_data")
    getattr(tensor, pick(rng, ["float_data", "int32_data", "int64_data", "double_data", "uint64_data"])).extend([1] * 9)


def other_versions(rng: Rng, proto: ModelProto) -> None:
    proto.opset_import[0].version = int(rng.integers(-2, 40))
    proto.ir_version = int(rng.integers(0, 20))


def outside(rng: Rng, proto: ModelProto) -> None:
    tensor = pick(rng, proto.graph.initializer)
    tensor.data_location = TensorProto.EXTERNAL
    del tensor.external_data[:]
    places = (
        "../secret.bin /etc/passwd link folder/secret.bin pipe weights.bin/../../secret.bin /dev/zero . //etc/passwd"
    )
    entries = {"location": pick(rng, [*places.split(), "\0", "", "file:///etc/passwd", "C:\\x", "~/secret.bin"])}
    if rng.integers(2):
        entries["offset"] = str(pick(rng, [0, 4, -1, 1 << 62, "many"]))
    if rng.integers(2):
        entries["length"] = str(pick(rng, [0, 24, 1 << 62, "many"]))
    for key, text in entries.items():
        tensor.external_data.add(key=key, value=text)


def recursive(rng: Rng, proto: ModelProto) -> None:
    for function in proto.functions:
        call = function.node.add(op_type=pick(rng, proto.functions).name, domain=function.domain)
        call.input.extend(function.input)
        call.output.append("again")


def false_notes(rng: Rng, proto: ModelProto) -> None:
    """Notes of metaop's own exporter that lie."""
    node = pick(rng, proto.graph.node)
    notes = {"metaop.op": ["relu", "expand", "split", "none"], "metaop.open": ["axes", "shape shape", "x y z"]}
    notes["metaop.attributes"] = [
        '{"alpha": 1e999}',
        "{",
        "[[[",
        '{"shape": [1099511627776]}',
        '{"num_outputs": 1e9}',
        "1",
    ]
    for key, texts in notes.items():
        node.metadata_props.add(key=key, value=pick(rng, texts))
    if rng.integers(2):
        node.domain = "metaop"


MEANING = (
    dangling,
    rewired,
    renamed_output,
    removed,
    other_operator,
    fewer_or_more_inputs,
    huge_initializer,
    huge_input,
    huge_numbers,
    huge_attribute,
    wrong_attribute,
    wrong_dtype,
    wrong_fields,
    other_versions,
    outside,
    recursive,
    false_notes,
)


def mutated(seed: int, bases: list[bytes]) -> tuple[str, bytes]:
    """What was done, and the file."""
    rng = np.random.default_rng(seed)
    base = int(rng.integers(len(bases)))
    proto, done = ModelProto.FromString(bases[base]), []
    if rng.integers(3):
        for _ in range(int(rng.integers(1, 3))):
            change = pick(rng, MEANING)
            change(rng, proto)
            done.append(change.__name__)
    content = bytearray(proto.SerializeToString())
    if not done or not rng.integers(4):
        scar = pick(rng, BYTES)
        scar(rng, content)
        done.append(scar.__name__)
    return f"base {base}: " + ", ".join(done), bytes(content)


# -- the program -------------------------------------------------------------------------------------------------------


def prepare(folder: Path) -> None:
    """A folder for the model with things that lead out of it, and a secret beside it."""
    (folder / "home").mkdir(parents=True)
    (folder / "secret.bin").write_bytes(bytes(4096))
    (folder / "home" / "weights.bin").write_bytes(np.ones(64, np.float32).tobytes())
    (folder / "home" / "link").symlink_to(folder / "secret.bin")
    (folder / "home" / "folder").symlink_to(folder)
    os.mkfifo(folder / "home" / "pipe")


def run_command(path: Path) -> tuple[str, str]:
    """``metaop run`` on the file: what it says on standard error must be one line, whatever happens."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        code = cli(["run", str(path), "--backend", "numpy"])
    why = said.getvalue()
    if code not in (0, 2, 3) or "Traceback" in why or why.count("\n") != (code != 0):
        return "bug", f"exit code {code}: {why}"
    return ("refused" if code else "imported"), why


def main(folder: Path, first: int, count: int, commands: bool = False) -> None:
    """Read so many mutated files, or run them with the command line."""
    prepare(folder)
    home = os.path.realpath(folder / "home")
    path = Path(home) / "model.onnx"
    bases = [base().SerializeToString() for base in BASES]
    opened: list[str] = []

    def watch(event: str, args: Any) -> None:
        if event == "open" and isinstance(args[0], str | bytes):
            opened.append(os.fsdecode(args[0]))

    def too_long(*_: Any) -> None:
        raise TimeoutError(f"more than {SECONDS} s")

    for content in bases:  # all is imported that ever will be
        path.write_bytes(content)
        mo.from_onnx(path)
        if commands:
            run_command(path)
    sys.addaudithook(watch)
    signal.signal(signal.SIGALRM, too_long)
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    for seed in range(first, first + count):
        done, content = mutated(seed, bases)
        path.write_bytes(content)
        opened.clear()
        start, status, why = time.monotonic(), "imported", ""
        signal.alarm(SECONDS)
        try:
            if commands:
                status, why = run_command(path)
            else:
                mo.from_onnx(path)
        except mo.UserError as error:
            status, why = "refused", str(error)
        except BaseException as error:
            status, why = "bug", f"{type(error).__name__}: {error}"
        finally:
            signal.alarm(0)
        outside = [p for p in opened if not os.path.realpath(p).startswith(home + os.sep)]
        # Python's own modules are loaded when they are first needed.
        strange = [p for p in outside if not p.endswith((".py", ".pyc"))]
        line = {"seed": seed, "done": done, "status": status, "why": why[:300], "opened": strange}
        print(json.dumps({**line, "seconds": time.monotonic() - start}), flush=True)
    # Not what getrusage says, which counts the process that this one was forked from.
    status = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    print(json.dumps({"peak": 1024 * next(int(s.split()[1]) for s in status if s.startswith("VmHWM"))}), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), "commands" in sys.argv[4:])

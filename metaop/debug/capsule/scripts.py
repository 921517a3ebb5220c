"""The plain script of each framework: its own calls, its own autodiff, no metaop.

A script reads ``inputs.npz``, computes, writes ``result_<name>.npz`` and prints the versions that it ran on as one line
of JSON. What differs between frameworks is a subclass of :class:`Script` each. Scripts must run on the Pythons of old
releases, from 3.6 on.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from metaop.backends import Backend
from metaop.backends.base import Variant
from metaop.debug.capsule.case import Case, Got, Step
from metaop.debug.capsule.data import array_literal, file_name, literal
from metaop.debug.capsule.functions import write_function
from metaop.debug.capsule.source import NotExtracted, Writer
from metaop.graph.nodes import Constant, Node, Operator
from metaop.graph.order import execution_order
from metaop.graph.program import Value, value_of
from metaop.types import is_floating

__all__ = ["SCRIPTS", "Script", "script_class"]

_WIDTH = 110
#: names that scripts use for themselves
_RESERVED = ("arrays", "results", "gradients", "found", "tape", "session", "feed", "name", "options", "outputs")


def _is_bfloat16(dtype: np.dtype | None) -> bool:
    return dtype is not None and dtype.name == "bfloat16"


def call_text(function: str, arguments: Sequence[str], indent: str = "") -> str:
    """A call, on one line where it fits."""
    line = f"{function}({', '.join(arguments)})"
    if len(indent) + len(line) <= _WIDTH and "\n" not in line:
        return line
    inner = "".join(f"\n{indent}    {a}," for a in arguments)
    return f"{function}({inner}\n{indent})"


class Script:
    """One framework's script for one case; :meth:`text` writes it, or says by :class:`NotExtracted` why it cannot."""

    #: the package that is imported, and its usual statement and name
    package = ""
    imports: tuple[tuple[str, str], ...] = ()
    #: what makes a NumPy array of a tensor, and one of bfloat16 an array of its bits
    to_array = "np.asarray({})"
    to_bits = "np.asarray({}).view(np.uint16)"
    #: how many numbers of the version decide between branches of the binding files, and their name there
    fact = ("VERSION", 2)
    #: what stops a gradient
    detach = "{}"

    def __init__(self, case: Case, backend: Backend, got: Got, slug: str, version: str) -> None:
        self.case = case
        self.backend = backend
        self.base = backend.base if isinstance(backend, Variant) else backend
        self.variant = backend if isinstance(backend, Variant) else None
        self.got = got
        self.slug = slug
        self.version = version
        self.names: dict[Value, str] = {v: f"input_{i}" for i, v in enumerate(case.inputs)}
        for node in case.nodes:
            for index in range(len(node.types)):
                self.names[node, index] = f"value_{len(self.names) - len(case.inputs)}"
        self.incoming = {
            v: f"incoming_{i}"
            for i, v in enumerate(case.outputs)
            if v in case.incoming and is_floating(case.types[v].dtype)
        }
        #: further files that the script needs, by name
        self.files: dict[str, Any] = {}

    # -- the whole ----------------------------------------------------------------------------------------------------

    def text(self, inline: bool = False) -> str:
        """The script; ``inline`` has the data within it, and prints what comes out."""
        from metaop.backends.isolation.recipes import release

        name, count = self.fact
        reserved = [*_RESERVED, *self.names.values(), *self.incoming.values()]
        self.writer = Writer({name: release(self.version)[:count]}, reserved)
        for text, bound in (
            ("import json", "json"),
            ("import sys", "sys"),
            ("import numpy as np", "np"),
            *self.imports,
        ):
            self.writer.add_import(text, bound)
        body = self.body(inline)
        if "ml_dtypes." in "\n".join([*body, *self.writer.pieces]):
            self.writer.add_import("import ml_dtypes", "ml_dtypes")
        ending = self._printed() if inline else self._saved()
        definitions = self.writer.text()
        parts = [
            self._heading(inline),
            _import_lines(self.writer.imports, self.package, unused=("json", "sys") if inline else ()),
            *([definitions] if definitions else []),
            "\n".join([*self.settings(inline), *body, *ending]),
        ]
        return parts[0] + "\n\n" + "\n\n\n".join(parts[1:]) + "\n"

    def _heading(self, inline: bool) -> str:
        ops = ", ".join(dict.fromkeys(node.op.name for node in self.case.nodes))
        what = f"{ops}{' and gradients' if self.case.wrt else ''} on {self.package} {self.version}"
        if inline:
            return f'"""{what}."""'
        return (
            f'"""{what}.\n\n'
            f"    python run_{self.slug}.py\n\n"
            f'Reads inputs.npz and writes result_{self.slug}.npz; compare.py compares. metaop is not needed.\n"""'
        )

    def settings(self, inline: bool) -> list[str]:
        """Statements that come before all others."""
        return []

    def body(self, inline: bool) -> list[str]:
        """The statements that leave every result in a variable; see :meth:`result`."""
        raise NotImplementedError

    # -- data ---------------------------------------------------------------------------------------------------------

    def load(self, inline: bool) -> list[str]:
        """Statements that make tensors of the data."""
        lines = []
        if not inline:
            lines.append('arrays = np.load("inputs.npz")')
        values = [*self.case.inputs.items(), *((v, self.case.incoming[v]) for v in self.incoming)]
        for number, (value, data) in enumerate(values):
            array = np.asarray(data)
            name = self.names[value] if number < len(self.case.inputs) else self.incoming[value]
            key = file_name(name.replace("_", " "), array.dtype)
            source = array_literal(array) if inline else f'arrays["{key}"]'
            text = self.tensor(source, array.dtype)
            lines.append(f"{name} = {text}")
        return [*lines, ""]

    def tensor(self, source: str, dtype: np.dtype) -> str:
        """The expression for a tensor of an array; of bfloat16 the array has the bits."""
        return source

    def result(self, name: str) -> str:
        """The variable that holds the result of that name."""
        kind, _, index = name.partition(" ")
        if kind == "output":
            return self.names[self.case.outputs[int(index)]]
        return f"gradient_{index}"

    def _results(self) -> list[tuple[str, np.dtype | None]]:
        found = [(f"output {i}", self.case.types[v].dtype) for i, v in enumerate(self.case.outputs)]
        return found + [(f"gradient {i}", self.case.types[v].dtype) for i, v in enumerate(self.case.wrt)]

    def _saved(self) -> list[str]:
        lines = ["", "results = {"]
        for name, dtype in self._results():
            convert = self.to_bits if _is_bfloat16(dtype) else self.to_array
            lines.append(f'    "{file_name(name, dtype)}": {convert.format(self.result(name))},')
        versions = "".join(f', "{p}": {name}.__version__' for p, name in self._versions().items())
        return [
            *lines,
            "}",
            f'np.savez("result_{self.slug}.npz", **results)',
            f'print(json.dumps({{"python": sys.version.split()[0], "numpy": np.__version__{versions}}}))',
        ]

    def _versions(self) -> dict[str, str]:
        """What else has a version, and what it is called in the script."""
        found = {text.split()[1].partition(".")[0]: bound for text, bound in self.imports if bound != "functools"}
        return {**found, "ml_dtypes": "ml_dtypes"} if "import ml_dtypes" in self.writer.imports else found

    def _printed(self) -> list[str]:
        lines = [""]
        for name, dtype in self._results():
            shown = self.to_bits if _is_bfloat16(dtype) else self.to_array
            expected = self.case.expected.get(name)
            comment = ""
            if expected is not None and expected.size <= 16:
                comment = "  # expected: " + " ".join(str(np.asarray(expected).tolist()).split())
            lines.append(f'print("{name}:", {shown.format(self.result(name))}.tolist()){comment}')
        return lines

    # -- calls --------------------------------------------------------------------------------------------------------

    def target(self, op: Any, attrs: Mapping[str, Any]) -> tuple[str, list[str], bool]:
        """A function as an expression, its keywords as text, and whether it is to be compiled where that is usual."""
        if self.variant is not None and op.name in self.variant.forward:
            function = self.user_function(self.variant.forward[op.name], op.name)
            return function, self._keywords(attrs), False
        found = self.writer.binding(f"metaop.backends.{self.package}", op.name)
        return found.function, self._keywords(found.keywords(attrs)), found.compiled

    def _keywords(self, attrs: Mapping[str, Any]) -> list[str]:
        return [f"{name}={literal(value)}" for name, value in attrs.items()]

    def user_function(self, function: Any, name: str) -> str:
        """A function given to ``mo.derive``."""
        return write_function(self.writer, function, name, frozenset(["numpy", self.package]))

    def arguments(self, step: Step) -> list[str]:
        """The tensors that go into an operator."""
        return ["None" if v is None else self.names[v] for v in step.inputs]

    def assign(self, step: Step, text: str, indent: str = "") -> str:
        """The statement that gives the outputs their names."""
        names = [self.names[v] for v in step.outputs]
        if step.op.outputs is None or len(names) > 1:
            left = f"({names[0]},)" if len(names) == 1 else ", ".join(names)
        else:
            left = names[0]
        return f"{indent}{left} = {text}"

    def compute(self, step: Step, indent: str = "") -> list[str]:
        """The statements that compute one operator."""
        function, keywords, _ = self.target(step.op, step.attrs)
        lines = [self.assign(step, call_text(function, [*self.arguments(step), *keywords], indent), indent)]
        if not step.wrt and self.case.wrt and any(self._depends(v) for v in step.inputs):
            # Where metaop has no gradient of an operator, none goes through it.
            lines += [f"{indent}{n} = {self.detach.format(n)}" for n in self._smooth(step)]
        return [line for line in lines if line.strip() != _no_effect(line)]

    def _smooth(self, step: Step) -> list[str]:
        return [self.names[v] for v in step.outputs if is_floating(self.case.types[v].dtype)]

    def _depends(self, value: Value | None) -> bool:
        """Whether a value is part of what is differentiated."""
        return value in self.case.wrt or any(value in s.outputs and s.wrt for s in self.case.steps)

    def custom(self) -> list[str] | None:
        """The statements for a gradient given to ``mo.derive``, if there is one."""
        ops = [s.op.name for s in self.case.steps if s.wrt]
        if self.variant is None or not any(op in self.variant.custom for op in ops):
            return None
        if len(self.case.steps) > 1:
            raise NotExtracted("a gradient given to mo.derive is written down for single operators only")
        (step,) = self.case.steps
        rule = self.user_function(self.variant.custom[step.op.name], step.op.name + "_gradient")
        grads = [self.incoming.get(v, "None") for v in step.outputs]
        values = [self.names[v] for v in step.outputs]
        g, y = (grads[0], values[0]) if len(values) == 1 else (f"({', '.join(grads)})", f"({', '.join(values)})")
        call = call_text(rule, [g, y, *self.arguments(step), *self._keywords(step.attrs)])
        lines = [f"found = {call}"]
        totals: dict[Value, str] = {}
        for i in step.wrt:
            value = step.inputs[i]
            assert value is not None
            totals[value] = f"{totals[value]} + found[{i}]" if value in totals else f"found[{i}]"
        for index, value in enumerate(self.case.wrt):
            lines.append(f"gradient_{index} = {totals.get(value, self.zeros(self.names[value]))}")
        return lines

    def zeros(self, name: str) -> str:
        """Zeros like a tensor."""
        return f"np.zeros_like({name})"

    def surely_differentiable(self) -> bool:
        """Whether some gradient is not zero, so that the framework surely has one."""
        found = [self.got.arrays.get(f"gradient {i}") for i in range(len(self.case.wrt))]
        return any(g is not None and bool(np.any(g.view(np.uint8) if _is_bfloat16(g.dtype) else g)) for g in found)

    def device(self) -> str | None:
        """The device, where it is not the processor."""
        device = getattr(self.base, "device", None)
        return None if device in (None, "cpu") else str(device)

    def only_cpu(self) -> None:
        """Refuse devices for which the script has no words."""
        if self.device() is not None:
            raise NotExtracted(f"scripts of {self.package} run on the processor, and this ran on {self.device()}")

    def forward_and_back(self) -> tuple[list[Step], list[Step]]:
        """The operators that nothing is differentiated through, and the others; each group in order."""
        before = [s for s in self.case.steps if not any(self._depends(v) for v in s.inputs)]
        return before, [s for s in self.case.steps if s not in before]


def _no_effect(line: str) -> str | None:
    left, _, right = line.strip().partition(" = ")
    return line.strip() if left == right else None


def _import_lines(imports: Mapping[str, None], package: str, unused: Sequence[str]) -> str:
    """Import statements: the standard library first, then others."""
    wanted = [text for text in imports if text not in {f"import {name}" for name in unused}]
    own = sorted(t for t in wanted if t.split()[1].partition(".")[0] in sys.stdlib_module_names)
    others = sorted((t for t in wanted if t not in own), key=lambda t: t.split()[1].lower())
    return "\n\n".join("\n".join(group) for group in (own, others) if group)


class TorchScript(Script):
    """PyTorch."""

    package = "torch"
    imports = (("import torch", "torch"),)
    to_array = "{}.detach().cpu().numpy()"
    to_bits = "{}.detach().cpu().view(torch.int16).numpy().view(np.uint16)"
    detach = "{}.detach()"

    def tensor(self, source: str, dtype: np.dtype) -> str:
        text = f"torch.from_numpy({source})"
        if _is_bfloat16(dtype):
            text = f"torch.from_numpy({source}.view(np.int16)).view(torch.bfloat16)"
        return text if self.device() is None else f'{text}.to("{self.device()}")'

    def settings(self, inline: bool) -> list[str]:
        torch = sys.modules.get("torch")
        if inline or torch is None or not self.base.in_process:
            return []
        # As many as here, for that decides how sums are split, and so their last bits.
        return [f"torch.set_num_threads({torch.get_num_threads()})"]

    def zeros(self, name: str) -> str:
        return f"torch.zeros_like({name})"

    def body(self, inline: bool) -> list[str]:
        lines = self.load(inline)
        custom = self.custom()
        if self.case.wrt and custom is None:
            lines[-1:] = [f"{self.names[v]}.requires_grad_()" for v in self.case.wrt] + [""]
        for step in self.case.steps:
            lines += self.compute(step)
        if not self.case.wrt:
            return lines
        if custom is not None:
            return [*lines, *custom]
        wanted = ", ".join(self.names[v] for v in self.case.wrt)
        if len(self.incoming) == 1 and self.surely_differentiable():
            ((value, g),) = self.incoming.items()
            arguments = [f"[{self.names[value]}]", f"[{wanted}]", f"[{g}]", "allow_unused=True"]
            lines.append(f"gradients = {call_text('torch.autograd.grad', arguments)}")
        else:
            pairs = ", ".join(f"({self.names[v]}, {g})" for v, g in self.incoming.items())
            arguments = ["[y for y, _ in found]", f"[{wanted}]", "[g for _, g in found]", "allow_unused=True"]
            lines += [
                f"gradients = [None] * {len(self.case.wrt)}",
                f"found = [(y, g) for y, g in [{pairs}] if y.requires_grad]",
                "if found:",
                f"    gradients = {call_text('torch.autograd.grad', arguments, '    ')}",
            ]
        for i, value in enumerate(self.case.wrt):
            name = self.names[value]
            lines.append(f"gradient_{i} = {self.zeros(name)} if gradients[{i}] is None else gradients[{i}]")
        return lines


class TensorflowScript(Script):
    """TensorFlow."""

    package = "tensorflow"
    imports = (("import tensorflow as tf", "tf"),)
    fact = ("RELEASE", 2)
    detach = "tf.stop_gradient({})"

    def tensor(self, source: str, dtype: np.dtype) -> str:
        view = ".view(tf.bfloat16.as_numpy_dtype)" if _is_bfloat16(dtype) else ""
        return f"tf.constant({source}{view})"

    def zeros(self, name: str) -> str:
        return f"tf.zeros_like({name})"

    def body(self, inline: bool) -> list[str]:
        self.only_cpu()
        lines = self.load(inline)
        custom = self.custom()
        if not self.case.wrt or custom is not None:
            for step in self.case.steps:
                lines += self.compute(step)
            return [*lines, *(custom or [])]
        before, recorded = self.forward_and_back()
        for step in before:
            lines += self.compute(step)
        wanted = ", ".join(self.names[v] for v in self.case.wrt)
        lines += ["with tf.GradientTape() as tape:", f"    tape.watch([{wanted}])"]
        for step in recorded:
            lines += self.compute(step, "    ")
        outputs = ", ".join(self.names[v] for v in self.incoming)
        grads = ", ".join(self.incoming.values())
        lines.append(f"gradients = tape.gradient([{outputs}], [{wanted}], output_gradients=[{grads}])")
        for i, value in enumerate(self.case.wrt):
            zeros = self.zeros(self.names[value])
            # Gradients of gathers come as rows and their numbers.
            lines.append(f"gradient_{i} = {zeros} if gradients[{i}] is None else tf.convert_to_tensor(gradients[{i}])")
        return lines


class JaxScript(Script):
    """JAX: compiled operator by operator, forward and gradient each as a whole."""

    package = "jax"
    imports = (("import jax", "jax"), ("import jaxlib", "jaxlib"), ("import functools", "functools"))
    fact = ("VERSION", 3)

    def settings(self, inline: bool) -> list[str]:
        return ['jax.config.update("jax_enable_x64", True)']

    def tensor(self, source: str, dtype: np.dtype) -> str:
        view = ".view(jax.numpy.bfloat16)" if _is_bfloat16(dtype) else ""
        return f"jax.device_put({source}{view})"

    def zeros(self, name: str) -> str:
        return f"jax.numpy.zeros_like({name})"

    def body(self, inline: bool) -> list[str]:
        self.only_cpu()
        lines = self.load(inline)
        custom = self.custom()
        bound: list[tuple[str, bool]] = []
        for step in self.case.steps:
            function, keywords, compiled = self.target(step.op, step.attrs)
            whole = call_text("functools.partial", [function, *keywords]) if keywords else function
            bound.append((whole, compiled))
            if compiled:
                called = call_text("jax.jit", [whole, "keep_unused=True"])
                lines.append(self.assign(step, f"{called}({', '.join(self.arguments(step))})"))
            else:
                lines.append(self.assign(step, call_text(function, [*self.arguments(step), *keywords])))
        if custom is not None:
            return [*lines, *custom]
        if self.case.wrt:
            lines += ["", *self._backward(bound)]
        if not any("functools" in line for line in [*lines, *self.writer.pieces]):
            self.writer.imports.pop("import functools")
        return lines

    def _backward(self, bound: Sequence[tuple[str, bool]]) -> list[str]:
        gradient = self.writer.define("metaop.backends.jax.adapter", "_gradients")
        held = dict(self.incoming)
        lines = []
        for step, (whole, compiled) in reversed(list(zip(self.case.steps, bound, strict=True))):
            if not step.wrt or not any(v in held for v in step.outputs):
                continue
            inputs = f"[{', '.join(self.arguments(step))}]"
            grads = f"[{', '.join(held.get(v, 'None') for v in step.outputs)}]"
            positions = f"({', '.join(map(str, step.wrt))},)"
            if compiled:
                partial = call_text("functools.partial", [gradient, whole, positions])
                call = f"{call_text('jax.jit', [partial, 'keep_unused=True'])}({inputs}, {grads})"
            else:
                call = call_text(gradient, [whole, positions, inputs, grads])
            lines.append(f"found = {call}")
            for index, position in enumerate(step.wrt):
                value = step.inputs[position]
                assert value is not None
                name = f"gradient_of_{self.names[value]}"
                lines.append(f"{name} = {f'{held[value]} + ' if value in held else ''}found[{index}]")
                held[value] = name
        for i, value in enumerate(self.case.wrt):
            lines.append(f"gradient_{i} = {held.get(value, self.zeros(self.names[value]))}")
        return lines


class MxnetScript(Script):
    """MXNet."""

    package = "mxnet"
    imports = (("import mxnet as mx", "mx"),)
    to_array = "{}.asnumpy()"
    detach = "{}.detach()"

    def settings(self, inline: bool) -> list[str]:
        return ["mx.util.set_np_shape(True)"]

    def tensor(self, source: str, dtype: np.dtype) -> str:
        return f'mx.np.array({source}, dtype="{dtype.name}")'

    def zeros(self, name: str) -> str:
        return f"mx.np.zeros_like({name})"

    def body(self, inline: bool) -> list[str]:
        self.only_cpu()
        lines = self.load(inline)
        if not self.case.wrt:
            for step in self.case.steps:
                lines += self.compute(step)
            return lines
        before, recorded = self.forward_and_back()
        for step in before:
            lines += self.compute(step)
        lines += [f"{self.names[v]}.attach_grad()" for v in self.case.wrt]
        lines.append("with mx.autograd.record(train_mode=True):")
        for step in recorded:
            lines += self.compute(step, "    ")
        outputs, grads = ", ".join(self.names[v] for v in self.incoming), ", ".join(self.incoming.values())
        if self.surely_differentiable():
            lines.append(f"mx.autograd.backward([{outputs}], [{grads}], train_mode=True)")
        else:
            backward = self.writer.define("metaop.backends.mxnet.adapter", "backward")
            lines.append(f"{backward}(list(zip([{outputs}], [{grads}])))")
        lines += [f"gradient_{i} = {self.names[v]}.grad" for i, v in enumerate(self.case.wrt)]
        return lines


class NumpyScript(Script):
    """NumPy: the references, and the operators' gradient rules spelled out."""

    package = "numpy"
    fact = ("VERSION", 0)

    def target(self, op: Any, attrs: Mapping[str, Any]) -> tuple[str, list[str], bool]:
        if self.variant is not None and op.name in self.variant.forward:
            return super().target(op, attrs)
        return self.writer.define(op.reference.__module__, op.name), self._keywords(attrs), False

    def tensor(self, source: str, dtype: np.dtype) -> str:
        return f"{source}.view(ml_dtypes.bfloat16)" if _is_bfloat16(dtype) else source

    def body(self, inline: bool) -> list[str]:
        lines = ['np.seterr(all="ignore")', *self.load(inline)]
        custom = self.custom()
        if self.got.graph is None:
            if self.case.wrt and custom is None and self.got.failure is None:
                raise NotExtracted("how the gradient is derived was not recorded")
            for step in self.case.steps:
                lines += self.compute(step)
            return [*lines, *(custom or [])]
        return [*lines, *self._graph(self.got.graph)]

    def _graph(self, graph: Mapping[str, Node]) -> list[str]:
        """The recorded graph as statements."""
        names: dict[Value, str] = {}
        lines = []
        for node in execution_order(list(graph.values())):
            if isinstance(node, Constant):
                names[node, 0] = f"constant_{sum(name.startswith('constant') for name in names.values())}"
                lines.append(f"{names[node, 0]} = {self._constant(names[node, 0], node.value)}")
            elif isinstance(node, Operator):
                for index in range(len(node.types)):
                    names[node, index] = f"t{sum(name[0] == 't' for name in names.values())}"
                lines += self._operator(node, names)
            else:
                names[node, 0] = node.name
        self._named = {name: names[value_of(node)] for name, node in graph.items()}
        return lines

    def result(self, name: str) -> str:
        return self._named[name] if self.got.graph is not None else super().result(name)

    def _constant(self, name: str, array: np.ndarray) -> str:
        text = array_literal(array)
        if len(text) > 400:
            self.files[f"constants_{self.slug}.npz"] = {
                **self.files.get(f"constants_{self.slug}.npz", {}),
                name: array,
            }
            key = file_name(name, array.dtype)
            text = f'np.load("constants_{self.slug}.npz")["{key}"]'
        return self.tensor(text, array.dtype)

    def _operator(self, node: Operator, names: Mapping[Value, str]) -> list[str]:
        op, attrs = node.op, node.attrs
        function, keywords, _ = self.target(op, attrs)
        dtypes = [None if n is None else n.dtype for n in node.inputs]
        replaced = self.variant is not None and op.name in self.variant.forward
        widened = any(map(_is_bfloat16, dtypes)) and op.name != "bit_cast" and not replaced
        arguments = []
        for source, dtype in zip(node.inputs, dtypes, strict=True):
            text = "None" if source is None else names[value_of(source)]
            arguments.append(f"{text}.astype(np.float32)" if widened and _is_bfloat16(dtype) else text)
        own = [names[node, i] for i in range(len(node.types))]
        many = op.outputs is None or len(own) > 1
        left = (f"({own[0]},)" if len(own) == 1 else ", ".join(own)) if many else own[0]
        lines = [f"{left} = {call_text(function, [*arguments, *keywords])}"]
        if widened:
            # NumPy lacks kernels: computed in float32, and rounded once.
            kinds = [
                "ml_dtypes.bfloat16" if _is_bfloat16(t.dtype) else f'"{t.dtype.name}"'  # type: ignore[union-attr]
                for t in node.types
            ]
            lines += [f"{n} = np.asarray({n}).astype({kind})" for n, kind in zip(own, kinds, strict=True)]
        return lines


class OnnxRuntimeScript(Script):
    """ONNX Runtime: the operators as a model, and the operators' gradient rules as another."""

    package = "onnxruntime"
    imports = (("import onnxruntime", "onnxruntime"),)

    def body(self, inline: bool) -> list[str]:
        self.only_cpu()
        if inline:
            raise NotExtracted("the model is a file of its own")
        if self.got.graph is None:
            raise NotExtracted("what metaop runs there was not recorded")
        if self.variant is not None:
            raise NotExtracted("functions given to mo.derive are no part of a model of ONNX Runtime")
        self.writer.pieces.append(_SESSION)
        lines = [
            'arrays = np.load("inputs.npz")',
            "feed = {name.replace(' ', '_'): arrays[name] for name in arrays.files}",
        ]
        for file, kind, count in (
            ("model.onnx", "output", len(self.case.outputs)),
            ("gradient.onnx", "gradient", len(self.case.wrt)),
        ):
            if not count:
                continue
            names = ", ".join(f'"{kind}_{i}"' for i in range(count))
            lines += [
                f'session = open_session("{self.model_file(file)}")',
                f"found = session.run([{names}], {{i.name: feed[i.name] for i in session.get_inputs()}})",
                *(f"{kind}_{i} = found[{i}]" for i in range(count)),
            ]
        return lines

    def model_file(self, name: str) -> str:
        """The file with a model, which each release has of its own."""
        stem, _, ending = name.partition(".")
        return name if self.slug == "onnxruntime" else f"{stem}_{self.slug}.{ending}"

    def result(self, name: str) -> str:
        return name.replace(" ", "_")


_SESSION = """def open_session(path):
    options = onnxruntime.SessionOptions()
    # The operators themselves are what is looked at: nothing is folded or fused.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.enable_cpu_mem_arena = False
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])"""

SCRIPTS: dict[str, type[Script]] = {
    "torch": TorchScript,
    "tensorflow": TensorflowScript,
    "jax": JaxScript,
    "mxnet": MxnetScript,
    "numpy": NumpyScript,
    "onnxruntime": OnnxRuntimeScript,
}


def script_class(framework: str) -> type[Script]:
    """The class that writes a framework's scripts."""
    if framework not in SCRIPTS:
        raise NotExtracted(f"no plain script can be written for {framework!r}")
    return SCRIPTS[framework]

"""One operator as a TensorFlow Lite model: converted, loaded, tried once, and run."""

import contextlib
import os
import re
import sys
import tempfile
import threading
import warnings

import numpy as np
import tensorflow as tf

from metaop.backends.base import as_tuple
from metaop.backends.tensorflow.bindings import RELEASE
from metaop.errors import UnsupportedOpError

# One conversion at a time: the converter is not known to be safe in threads, and standard error is held back meanwhile.
_converting = threading.Lock()

# What converter and interpreter write to standard error; all of it that matters is in their exceptions too.
_NOISE = re.compile(
    rb"\s*$|[IWEF]\d{4} |INFO: |WARNING: All log messages|"
    rb"loc\(|error: |Some ops are not|TF Select ops: |Details:|\ttf\."
)


class Model:
    """``run`` is a function from arrays of fixed types to what the binding returns, for any number of threads.

    ``types`` are pairs of dtype and shape, or ``None`` for an absent input.
    """

    def __init__(self, binding, attrs, types):
        try:
            with _converting, _without_noise():
                graph, module, many = _trace(binding, attrs, types)
                content = _convert(graph, module)
                interpreter = _load(content)
            # With nothing held back: should a kernel end the process, what it says last must be seen.
            _try(interpreter)
            stale = _convolves(graph.graph) and _keeps_weights(interpreter, _load(content))
        except _Refusal as refusal:
            given = ", ".join("-" if t is None else "{}{}".format(t[0].name, list(t[1])) for t in types)
            raise UnsupportedOpError("tflite does not compute {}({}): {}".format(binding.op, given, refusal)) from None
        self.run = _runner(interpreter, many, len(types))
        if stale:
            # With a new interpreter each time, which takes a millisecond.
            self.run = lambda *arrays: _runner(_load(content), many, len(types))(*arrays)


def _runner(interpreter, many, count):
    """A function on arrays, as short as the number of inputs and outputs allows: it is called a million times.

    What it returns are copies: the next call does not change what this one gave.
    """
    # By name, because an input that the operator ignores may be gone.
    inputs = sorted((int(d["name"].rpartition("_")[2]), d["index"]) for d in interpreter.get_input_details())
    get = interpreter.get_tensor
    outputs = [(get if len(d["shape"]) else _as_array(get), d["index"]) for d in interpreter.get_output_details()]
    lock, give, invoke = threading.Lock(), interpreter.set_tensor, interpreter.invoke
    take, output = outputs[0]
    order = [position for position, _ in inputs]
    if not many and order == [0] and count == 1:
        first = inputs[0][1]

        def unary(x):
            with lock:
                give(first, x)
                invoke()
                return take(output)

        return unary
    if not many and order == [0, 1] and count == 2:
        (_, first), (_, second) = inputs

        def binary(x, y):
            with lock:
                give(first, x)
                give(second, y)
                invoke()
                return take(output)

        return binary

    def general(*arrays):
        with lock:
            for position, index in inputs:
                give(index, arrays[position])
            invoke()
            found = [take(index) for take, index in outputs]
        return tuple(found) if many else found[0]

    return general


def _as_array(get):
    """For scalars, which come as NumPy scalars."""
    return lambda index: np.asarray(get(index))


class _Refusal(Exception):
    """Why there is no such model, in one line."""


def _trace(binding, attrs, types):
    """The binding as a TensorFlow graph of fixed types, the object that owns it, and whether it returns a tuple."""
    keywords = binding.keywords(attrs)
    specs = [
        tf.TensorSpec(shape, dtype, name="input_{}".format(i))
        for i, (dtype, shape) in ((i, t) for i, t in enumerate(types) if t is not None)
    ]

    many = False

    def compute(*given):
        nonlocal many
        given = iter(given)
        tensors = [None if t is None else next(given) for t in types]
        result = binding.function(*tensors, **keywords)
        many = isinstance(result, (tuple, list))
        # Identities, so that an input may be an output, and one tensor several outputs.
        return tuple(tf.identity(y) for y in as_tuple(result))

    module = tf.Module()
    module.compute = tf.function(compute, input_signature=specs, autograph=False)
    try:
        graph = module.compute.get_concrete_function()
    except UnsupportedOpError as error:
        raise _Refusal(_one_line(error)) from error
    except (ValueError, TypeError, tf.errors.OpError) as error:
        raise _Refusal("TensorFlow refuses: {}".format(_one_line(error))) from error
    if _has_empty_data(graph.graph):
        # Most kernels have never seen any, and several end the process.
        raise _Refusal("its kernels take no empty tensors")
    return graph, module, many


def _has_empty_data(graph):
    """Whether any tensor computed from the inputs is empty; lists of axes and sizes become constants."""
    data = set()
    for node in graph.get_operations():
        if node.type == "Placeholder" or (
            node.type not in ("Shape", "Rank", "Size") and any(t.name in data for t in node.inputs)
        ):
            if any(t.shape.num_elements() == 0 for t in node.outputs):
                return True
            data.update(t.name for t in node.outputs)
    return False


def _convert(graph, module):
    # TensorFlow before 2.7 has no need of the owner, and no parameter for it.
    owner = (module,) if RELEASE >= (2, 7) else ()
    converter = tf.lite.TFLiteConverter.from_concrete_functions([graph], *owner)
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
    converter.optimizations = []
    # Straight from the graph, which takes half the time of the way through a saved model on disk.
    converter.experimental_lower_to_saved_model = False
    try:
        return converter.convert()
    except Exception as error:  # the class of its errors is private
        raise _Refusal(_reason(str(error))) from error


def _load(content):
    with warnings.catch_warnings():
        # TensorFlow announces that this class will move to another package.
        warnings.simplefilter("ignore")
        interpreter = tf.lite.Interpreter(model_content=content)
    try:
        interpreter.allocate_tensors()
    except (RuntimeError, ValueError) as error:
        raise _Refusal(_one_line(error)) from error
    return interpreter


def _try(interpreter):
    """Run it on zeros: some kernels look at dtypes and shapes only when they run.

    Where these divide, and check by what, it is ones: zeros come first, for they are positions of any table.
    """
    for number in (0, 1):
        for detail in interpreter.get_input_details():
            interpreter.set_tensor(detail["index"], np.full(detail["shape"], number, detail["dtype"]))
        try:
            return interpreter.invoke()
        except RuntimeError as error:
            if number or "division by 0" not in str(error).lower():
                raise _Refusal(_one_line(error)) from error
    return None


def _convolves(graph):
    return any(node.type.startswith("Conv") for node in graph.get_operations())


def _keeps_weights(used, fresh):
    """Whether a convolution that has run computes something else than one that has not.

    Kernels of TensorFlow 2.0 transpose the weights once, at the first run, even where they are an input.
    """
    found = []
    for interpreter in (used, fresh):
        for detail in interpreter.get_input_details():
            interpreter.set_tensor(detail["index"], np.ones(detail["shape"], detail["dtype"]))
        interpreter.invoke()
        found.append([interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()])
    return any(not np.array_equal(a, b) for a, b in zip(*found))


def _reason(message):
    """What the converter's long message comes down to."""
    missing = re.findall(r"^\ttf\.(\w+\(.*?\)) -> ", message, re.MULTILINE)
    # Before TensorFlow 2.2 the converter is another program, whose whole output this is.
    missing += re.findall(r"will need custom implementations: (.+?)\.\s", message)
    if missing:
        return "it has no builtin kernel for TensorFlow's {}".format(", ".join(sorted(set(missing))))
    errors = re.findall(r"error: (.+)", message)
    return _one_line(errors[0] if errors else message)


def _one_line(message):
    return " ".join(str(message).split())[:300]


@contextlib.contextmanager
def _without_noise():
    """Hold back what is written to standard error, and pass on the lines that are not known to be noise."""
    with contextlib.suppress(AttributeError, ValueError):
        sys.stderr.flush()
    try:
        kept = os.dup(2)
    except OSError:
        yield
        return
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            held.seek(0)
            for line in held:
                if not _NOISE.match(line):
                    os.write(2, line)

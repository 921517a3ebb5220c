"""The table of TensorFlow bindings; one file per family fills it.

Bindings run eagerly, and are also traced for TensorFlow Lite: they decide by attributes and static shapes only. Where a
public function does nothing but convert its arguments and call one kernel, the kernel is called directly
(``tf.raw_ops``), which halves the cost of a small call.
"""

import functools
import re

import tensorflow as tf

from metaop.backends.bind import Bindings
from metaop.errors import UnsupportedOpError

bind = Bindings("tensorflow")
#: major and minor version, for bindings whose calls came or changed with one
RELEASE = tuple(int(n) for n in re.findall(r"\d+", tf.__version__)[:2])


def where_kernels_exist(function):
    """The function, with TensorFlow's word that it has no kernel for a dtype (uint16, mostly) made a refusal."""

    @functools.wraps(function)
    def call(*tensors, **attrs):
        try:
            return function(*tensors, **attrs)
        except (TypeError, ValueError, tf.errors.OpError) as error:
            message = " ".join(str(error).split())
            for words in ("not in the list of allowed values", "Could not find device for node"):
                if words in message:
                    reason = message.partition(" [Op:")[0].partition("; NodeDef")[0]
                    raise UnsupportedOpError("tensorflow {}: {}".format(tf.__version__, reason)) from error
            raise

    return call

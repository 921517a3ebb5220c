"""The table of TensorFlow bindings; one file per family fills it.

Bindings run eagerly, and are also traced for TensorFlow Lite: they decide by attributes and static shapes only. Where a
public function does nothing but convert its arguments and call one kernel, the kernel is called directly
(``tf.raw_ops``), which halves the cost of a small call.
"""

import re

import tensorflow as tf

from metaop.backends.bind import Bindings

bind = Bindings("tensorflow")
#: major and minor version, for bindings whose calls came or changed with one
RELEASE = tuple(int(n) for n in re.findall(r"\d+", tf.__version__)[:2])

"""TensorFlow Lite: the TensorFlow bindings, converted. Importing this package imports TensorFlow."""

import metaop.backends.tensorflow  # noqa: F401  first, because it sets what TensorFlow reads when it is imported
from metaop.backends.tflite.adapter import TfliteBackend

BACKEND = TfliteBackend

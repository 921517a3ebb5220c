"""TensorFlow Lite: the TensorFlow bindings, converted. Importing this package imports TensorFlow."""

from metaop.backends.tflite.adapter import TfliteBackend

BACKEND = TfliteBackend

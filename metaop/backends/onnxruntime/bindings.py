"""The table of ONNX Runtime bindings; one file per family fills it."""

from metaop.backends.onnxruntime.graph import GraphBindings

bind = GraphBindings("onnxruntime")

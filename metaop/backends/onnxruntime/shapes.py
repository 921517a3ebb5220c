"""Shapes."""

from metaop.backends.onnxruntime.bindings import bind


@bind
def shape_of(o, x, *, start, end):
    return o.Shape(x, start=start) if end is None else o.Shape(x, start=start, end=end)


@bind
def size_of(o, x):
    return o.Size(x)

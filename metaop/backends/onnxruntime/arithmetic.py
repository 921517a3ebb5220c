"""Remainders."""

from metaop.backends.onnxruntime.bindings import bind

bind.unsupported("log1p", reason="ONNX has no such operator, and log(1 + x) loses an x that is small")
bind.unsupported("expm1", reason="ONNX has no such operator, and exp(x) - 1 loses an x that is small")


@bind
def mod(o, x, y, *, fmod):
    if x.dtype.kind != "f" or fmod:
        return o.Mod(x, y, fmod=fmod)
    # Before opset 28 ONNX has no other remainder of floating numbers; where it has not y's sign, one y is missing.
    rest = o.Mod(x, y, fmod=1)
    other = o.Xor(o.Less(rest, 0.0), o.Less(y, 0.0))
    return o.Where(o.And(o.Not(o.Equal(rest, 0.0)), other), o.Add(rest, y), rest)

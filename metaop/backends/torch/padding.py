"""ONNX writes pads as all begins, then all ends; PyTorch as pairs, from the last axis backwards."""


def torch_pads(begins, ends):
    """The pads as ``F.pad`` wants them."""
    return [size for pair in zip(reversed(begins), reversed(ends)) for size in pair]

"""Convolutions."""

from metaop.backends.onnxruntime.bindings import bind


def _conv(o, x, w, b, **attributes):
    return o.Conv(x, w, b, auto_pad="NOTSET", kernel_shape=w.shape[2:], **attributes)


@bind
def conv1d(o, x, w, b=None, *, strides, pads, dilations, group):
    return _conv(o, x, w, b, strides=strides, pads=pads, dilations=dilations, group=group)


@bind
def conv2d(o, x, w, b=None, *, strides, pads, dilations, group):
    return _conv(o, x, w, b, strides=strides, pads=pads, dilations=dilations, group=group)


@bind
def conv3d(o, x, w, b=None, *, strides, pads, dilations, group):
    return _conv(o, x, w, b, strides=strides, pads=pads, dilations=dilations, group=group)


@bind
def depthwise_conv2d(o, x, w, b=None, *, strides, pads, dilations):
    return _conv(o, x, w, b, strides=strides, pads=pads, dilations=dilations, group=x.shape[1])


def _conv_transpose(o, x, w, b, strides, output_padding, **attributes):
    if 0 in x.shape[2:]:
        o.no_kernel("its ConvTranspose reads beyond empty tensors, which kills the process")
    # Refused since some release when the session is run; before that the values were wrong (onnxruntime#14208).
    if any(p >= s for p, s in zip(output_padding, strides)):
        o.no_kernel("its ConvTranspose wants an output_padding smaller than the stride")
    return o.ConvTranspose(
        x,
        w,
        b,
        auto_pad="NOTSET",
        kernel_shape=w.shape[2:],
        strides=strides,
        output_padding=output_padding,
        **attributes,
    )


@bind
def conv_transpose1d(o, x, w, b=None, *, strides, pads, output_padding, dilations, group):
    return _conv_transpose(o, x, w, b, strides, output_padding, pads=pads, dilations=dilations, group=group)


@bind
def conv_transpose2d(o, x, w, b=None, *, strides, pads, output_padding, dilations, group):
    return _conv_transpose(o, x, w, b, strides, output_padding, pads=pads, dilations=dilations, group=group)


@bind
def conv_transpose3d(o, x, w, b=None, *, strides, pads, output_padding, dilations, group):
    return _conv_transpose(o, x, w, b, strides, output_padding, pads=pads, dilations=dilations, group=group)

"""What operators of any rank leave out about their windows, in numbers."""


def explicit(rank, strides, pads, dilations):
    """Steps of one and no padding where nothing else is said, for windows with so many axes."""
    return {
        "strides": (1,) * rank if strides is None else strides,
        "pads": (0,) * (2 * rank) if pads is None else pads,
        "dilations": (1,) * rank if dilations is None else dilations,
    }

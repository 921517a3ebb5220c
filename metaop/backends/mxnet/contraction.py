"""MXNet's products."""

import mxnet as mx

from metaop.backends.mxnet.bindings import VERSION, bind, product


@bind
def einsum(*inputs, equation):
    return mx.np.einsum(equation, *inputs)


@bind
def linear(x, w, b=None):
    return mx.npx.fully_connected(x, w, b, num_hidden=w.shape[0], no_bias=b is None, flatten=False)


@bind
def embedding(indices, weight):
    rows, columns = weight.shape
    return mx.npx.embedding(indices, weight, input_dim=rows, output_dim=columns, dtype=weight.dtype)


if VERSION >= (1, 7):
    bind.rename({"matmul": mx.np.matmul})
else:

    @bind
    def matmul(x, y):
        if len(x.shape) <= 2 and len(y.shape) <= 2:
            return mx.np.dot(x, y)
        # np.matmul came with release 1.7; batch_dot has one batch axis, and does not broadcast.
        rows = x if len(x.shape) > 1 else mx.np.expand_dims(x, 0)
        columns = y if len(y.shape) > 1 else mx.np.expand_dims(y, 1)
        rank = max(len(rows.shape), len(columns.shape))
        sizes = [(1,) * (rank - len(t.shape)) + t.shape for t in (rows, columns)]
        batch = tuple(b if a == 1 else a for a, b in zip(sizes[0][:-2], sizes[1][:-2]))
        count = product(batch)
        left, right = (
            mx.np.reshape(mx.np.broadcast_to(t, batch + t.shape[-2:]), (count,) + t.shape[-2:]) for t in (rows, columns)
        )
        z = mx.npx.batch_dot(left, right)
        return mx.np.reshape(z, batch + x.shape[-2:-1] + (y.shape[-1:] if len(y.shape) > 1 else ()))

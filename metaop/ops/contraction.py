"""Contractions: products summed over shared axes, and the lookup of rows, which is one with a one-hot matrix."""

import string

import numpy as np

from metaop.errors import AttributeValueError, ShapeError
from metaop.ops.domain import Domain
from metaop.ops.rules import broadcast_shapes, require_rank, unify_size
from metaop.ops.spec import meta_op
from metaop.types import FLOATING, INDEX

# -- matmul ------------------------------------------------------------------------------------------------------------


def multiplied(x, y):
    require_rank("matmul: 'x'", x, 1)
    require_rank("matmul: 'y'", y, 1)
    if x.shape is not None and y.shape is not None:
        unify_size(x.shape[-1], y.shape[-1 if len(y.shape) == 1 else -2], f"matmul: 'x' of type {x}, 'y' of type {y}")
    if x.shape is None or y.shape is None:
        return x.with_shape(None)
    batch = broadcast_shapes([x.shape[:-2], y.shape[:-2]])
    rows = x.shape[-2:-1]
    columns = y.shape[-1:] if len(y.shape) > 1 else ()
    return x.with_shape(batch + rows + columns)


@meta_op(rule=multiplied, dtypes=FLOATING | INDEX)
@np.errstate(all="ignore")
def matmul(x, y):
    """The product of matrices, of which the leading axes are batches that broadcast.

    A vector on the left counts as one row, on the right as one column; that axis is then left out of the result.
    """
    return np.asarray(np.matmul(x, y))


@matmul.vjp
def matmul_vjp(m, g, z, x, y):
    x_shape, y_shape = m.shape(x), m.shape(y)
    rows = x if len(x_shape) > 1 else m.reshape(x, shape=(1, *x_shape))
    columns = y if len(y_shape) > 1 else m.reshape(y, shape=(*y_shape, 1))
    batch = np.broadcast_shapes(m.shape(rows)[:-2], m.shape(columns)[:-2])
    full = (*batch, m.shape(rows)[-2], m.shape(columns)[-1])
    g = g if m.shape(g) == full else m.reshape(g, shape=full)
    dx = m.sum_to(m.matmul(g, turned(m, columns)), rows)
    dy = m.sum_to(m.matmul(turned(m, rows), g), columns)
    return (
        dx if rows is x else m.reshape(dx, shape=x_shape),
        dy if columns is y else m.reshape(dy, shape=y_shape),
    )


def turned(m, matrices):
    """Each matrix of a batch, transposed."""
    rank = len(m.shape(matrices))
    return m.transpose(matrices, perm=(*range(rank - 2), rank - 1, rank - 2))


@matmul.samples
def matmul_samples(draw):
    yield draw(x=(2, 3), y=(3, 4))
    yield draw(x=(5, 2, 3), y=(5, 3, 4))
    yield draw(x=(2, 1, 2, 3), y=(5, 3, 4))
    yield draw(x=(2, 3), y=(5, 3, 4))
    yield draw(x=(4, 2, 3), y=(3, 2))
    yield draw(x=(3,), y=(3,))
    yield draw(x=(3,), y=(3, 4))
    yield draw(x=(2, 3), y=(3,))
    yield draw(x=(3,), y=(2, 3, 4))
    yield draw(x=(2, 4, 3), y=(3,))
    yield draw(x=(1, 1), y=(1, 1))
    yield draw(x=(2, 0), y=(0, 3))
    yield draw(x=(0, 3), y=(3, 2))
    yield draw(x=[[np.nan, 1.0], [np.inf, 2.0], [0.0, -np.inf]], y=[[1.0, 0.0], [2.0, 3.0]], special=True)


@matmul.rejects
def matmul_rejects(reject):
    yield reject(x="float32[2, 3]", y="float32[4, 2]", message="sizes 3 and 4 differ")
    yield reject(x="float32[?, 3]", y="float32[4]", message="sizes 3 and 4 differ")
    yield reject(x="float32[]", y="float32[2]", message="'x' must have rank at least 1")
    yield reject(x="float32[...]", y="float32[]", message="'y' must have rank at least 1")
    yield reject(x="float32[2, 2, 3]", y="float32[3, 3, 4]", message="do not broadcast")
    yield reject(x="float32[2, 3]", y="float64[3, 2]", message="one dtype")
    yield reject(x="bool[2, 3]", y="bool[3, 2]", message="takes")


# -- linear ------------------------------------------------------------------------------------------------------------


def projected(x, w, b=None):
    require_rank("linear: 'x'", x, 1)
    require_rank("linear: 'w'", w, 2, 2)
    outputs = None if w.shape is None else w.shape[0]
    if x.shape is not None and w.shape is not None:
        unify_size(x.shape[-1], w.shape[1], f"linear: 'x' of type {x}, 'w' of type {w}")
    if b is not None:
        require_rank("linear: 'b'", b, 1, 1)
        if b.shape is not None:
            outputs = unify_size(outputs, b.shape[0], f"linear: 'w' of type {w}, 'b' of type {b}")
    return x.with_shape(None if x.shape is None else (*x.shape[:-1], outputs))


@meta_op(rule=projected, dtypes=FLOATING)
@np.errstate(all="ignore")
def linear(x, w, b=None):
    """``x [..., I]`` times the transpose of ``w [O, I]``, plus ``b [O]``: the fully connected layer."""
    y = np.asarray(np.matmul(x, w.T))
    return y if b is None else y + b


@linear.vjp
def linear_vjp(m, g, y, x, w, *b):
    rows, columns = int(np.prod(m.shape(x)[:-1])), m.shape(w)
    flat = m.reshape(g, shape=(rows, columns[0]))
    dw = m.matmul(turned(m, flat), m.reshape(x, shape=(rows, columns[1])))
    return (m.matmul(g, w), dw, *[None if t is None else m.reduce_sum(flat, axes=(0,)) for t in b])


@linear.samples
def linear_samples(draw):
    yield draw(x=(3, 4), w=(5, 4), b=(5,))
    yield draw(x=(3, 4), w=(5, 4))
    yield draw(x=(2, 3, 4), w=(4, 4), b=(4,))
    yield draw(x=(2, 1, 3, 4), w=(1, 4), b=(1,))
    yield draw(x=(4,), w=(3, 4), b=(3,))
    yield draw(x=(4,), w=(3, 4))
    yield draw(x=(0, 4), w=(3, 4), b=(3,))
    yield draw(x=(2, 4), w=(0, 4), b=(0,))
    yield draw(x=[[np.nan, 1.0], [np.inf, 2.0]], w=[[1.0, 2.0], [3.0, -1.0]], b=[0.0, np.inf], special=True)


@linear.rejects
def linear_rejects(reject):
    yield reject(x="float32[2, 3]", w="float32[4, 5]", message="sizes 3 and 5 differ")
    yield reject(x="float32[2, 3]", w="float32[3]", message="'w' must have rank 2")
    yield reject(x="float32[]", w="float32[2, 3]", message="'x' must have rank at least 1")
    yield reject(x="float32[2, 3]", w="float32[4, 3]", b="float32[3]", message="sizes 4 and 3 differ")
    yield reject(x="float32[2, 3]", w="float32[4, 3]", b="float32[1, 4]", message="'b' must have rank 1")
    yield reject(x="int64[2, 3]", w="int64[4, 3]", message="takes")


# -- einsum ------------------------------------------------------------------------------------------------------------


def parse_equation(equation, count):
    """One term per operand and the output's, each a tuple of letters and at most one ``"..."``.

    Without ``->`` the output has the broadcast axes first and then, in alphabetical order, the letters that occur once.
    """

    def refuse(why):
        return AttributeValueError(f"einsum: equation {equation!r} {why}")

    def term(text):
        letters = tuple(text.replace("...", "."))
        if not set(letters) <= set(string.ascii_letters + "."):
            raise refuse(f"has a term {text!r} of more than letters and '...'")
        if letters.count(".") > 1:
            raise refuse(f"has '...' twice within {text!r}")
        return tuple("..." if letter == "." else letter for letter in letters)

    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = [term(text) for text in left.split(",")]
    if len(terms) != count:
        raise refuse(f"has {len(terms)} terms on the left; got {count} inputs")
    seen = [index for t in terms for index in t]
    if arrow:
        output = term(right)
        if len(set(output)) < len(output):
            raise refuse("repeats an index in the output")
        for index in output:
            if index not in seen:
                raise refuse(f"has {index!r} in the output and in no input")
        if "..." in seen and "..." not in output:
            raise refuse("has '...' in an input and not in the output; name the axes to be summed")
    else:
        output = ("...",) * ("..." in seen) + tuple(sorted(i for i in set(seen) - {"..."} if seen.count(i) == 1))
    return terms, output


def label_axes(terms, output, ranks, equation):
    """The terms with a number for each broadcast axis, counted from the last one, in place of ``"..."``.

    ``None`` for an operand of unknown rank.
    """
    broadcast = 0
    labelled = []
    for position, (term, rank) in enumerate(zip(terms, ranks, strict=True)):
        if rank is None:
            labelled.append(None)
            continue
        extra = rank - len(term) + ("..." in term)
        if extra < 0 or (extra > 0 and "..." not in term):
            raise ShapeError(
                f"einsum: inputs[{position}] has rank {rank}; the term {''.join(term)!r} of equation {equation!r} "
                "does not fit"
            )
        broadcast = max(broadcast, extra if "..." in term else 0)
        labelled.append(filled(term, extra))
    return labelled, filled(output, broadcast)


def filled(term, broadcast):
    """The term with the numbers ``broadcast - 1, ..., 0`` in place of ``"..."``."""
    found = []
    for index in term:
        found += range(broadcast - 1, -1, -1) if index == "..." else [index]
    return tuple(found)


def contracted(*inputs, equation):
    terms, output = parse_equation(equation, len(inputs))
    # An input of unknown rank fixes nothing but the number of letters it has, if there is no "..." among them.
    shapes = [
        (None,) * len(term) if t.shape is None and "..." not in term else t.shape
        for t, term in zip(inputs, terms, strict=True)
    ]
    ranks = [None if shape is None else len(shape) for shape in shapes]
    labelled, result = label_axes(terms, output, ranks, equation)
    sizes = {}
    for labels, shape in zip(labelled, shapes, strict=True):
        for label, size in zip(labels or (), shape or (), strict=True):
            what = f"einsum: axis {label!r} of equation {equation!r}"
            if isinstance(label, str):
                sizes[label] = unify_size(sizes.get(label), size, what)
            else:
                sizes[label] = broadcast_shapes([(sizes.get(label, 1),), (size,)])[0]
    if "..." in output and None in ranks:
        return inputs[0].with_shape(None)
    return inputs[0].with_shape(tuple(sizes.get(label) for label in result))


@meta_op(rule=contracted, dtypes=FLOATING)
@np.errstate(all="ignore")
def einsum(*inputs, equation: str):
    """The sum of products that ``equation`` writes in Einstein's notation: ``"bij,bjk->bik"`` multiplies matrices.

    ``...`` stands for axes that broadcast. Without ``->`` the result has the axes of ``...`` and then, in alphabetical
    order, the indices that occur once. An index twice within one input takes its diagonal: ``"ii->"`` is the trace.
    """
    return np.asarray(np.einsum(equation, *inputs, optimize=len(inputs) > 2))


@einsum.vjp
def einsum_vjp(m, g, y, *inputs, equation):
    terms, output = parse_equation(equation, len(inputs))
    shapes = [m.shape(x) for x in inputs]
    labelled, result = label_axes(terms, output, [len(shape) for shape in shapes], equation)
    sizes = {}
    for labels, shape in zip(labelled, shapes, strict=True):
        for label, size in zip(labels, shape, strict=True):
            sizes[label] = size if sizes.get(label, 1) == 1 else sizes[label]
    # Axes of size 1 that were stretched are left out, so that every remaining axis has the full size of its label.
    stretched = [
        tuple(a for a, label in enumerate(labels) if shape[a] == 1 != sizes[label])
        for labels, shape in zip(labelled, shapes, strict=True)
    ]
    labelled = [
        tuple(s for a, s in enumerate(labels) if a not in gone)
        for labels, gone in zip(labelled, stretched, strict=True)
    ]
    factors = [m.squeeze(x, axes=gone) if gone else x for x, gone in zip(inputs, stretched, strict=True)]
    found = []
    for position, labels in enumerate(labelled):
        others = [(f, t) for k, (f, t) in enumerate(zip(factors, labelled, strict=True)) if k != position]
        once = tuple(dict.fromkeys(labels))
        share = einsum_share(m, [(g, result), *others], once, tuple(sizes[label] for label in once))
        share = on_diagonals(m, share, labels, once)
        shape = shapes[position]
        found.append(share if m.shape(share) == shape else m.reshape(share, shape=shape))
    return tuple(found)


def on_diagonals(m, share, labels, once):
    """``share``, whose axes are ``once``, on the diagonals of a tensor whose axes are ``labels``; 0 elsewhere."""
    size = dict(zip(once, m.shape(share), strict=True))
    for axis, label in enumerate(labels):
        first = labels.index(label)
        if first < axis:
            share = m.unsqueeze(share, axes=(axis,))
            shape = [size[label] if a in (first, axis) else 1 for a in range(len(m.shape(share)))]
            mask = np.eye(size[label], dtype=bool).reshape(shape)
            share = m.where(m.constant(mask, bool), share, 0.0)
    return share


def einsum_share(m, factors, labels, sizes):
    """The product of ``factors``, summed to the axes ``labels``; those that no factor has are stretched to size."""
    seen = sorted({label for _, term in factors for label in term}, key=str)
    letters = {label: string.ascii_letters[i] for i, label in enumerate(seen)}
    present = [label for label in labels if label in letters]
    spelled = [(tensor, "".join(letters[label] for label in term)) for tensor, term in factors if term]
    # Scalars are multiplied in afterwards: an empty term is where backends differ most.
    scalars = [tensor for tensor, term in factors if not term]
    found = None
    if spelled:
        left = ",".join(term for _, term in spelled)
        right = "".join(letters[label] for label in present)
        found = m.einsum(*(tensor for tensor, _ in spelled), equation=f"{left}->{right}")
    for scalar in scalars:
        found = scalar if found is None else m.multiply(found, scalar)
    if len(present) < len(labels):
        ones = tuple(size if label in letters else 1 for label, size in zip(labels, sizes, strict=True))
        found = m.expand(m.reshape(found, shape=ones), shape=sizes)
    return found


@einsum.samples
def einsum_samples(draw):
    yield draw((2, 3), (3, 4), equation="ij,jk->ik")
    yield draw((2, 2, 3, 4), (2, 2, 4, 5), equation="bnij,bnjc->bnic")
    yield draw((2, 3), (3, 4), equation="ij,jk")
    yield draw((2, 3), equation="ba")
    yield draw((2, 3, 4), equation="ijk->ki")
    yield draw((2, 3), equation="ij->")
    yield draw((3,), (3,), equation="i,i->")
    yield draw((3,), (4,), equation="i,j->ji")
    yield draw((2, 3), (4, 3), equation="ij,kj->k")
    yield draw((2, 3), (3, 4), (4, 2), equation="ij,jk,kl->il")
    yield draw((5, 2, 3), (3, 4), equation="...ij,jk->...ik")
    yield draw((5, 1, 2, 3), (4, 3, 2), equation="...ij, ...jk -> ...ik")
    yield draw((2, 4, 3), (1, 3), equation="a...b,...b->...")
    yield draw((2, 3, 4), equation="i...")
    yield draw((), (2, 3), equation=",ij->ji")
    yield draw((), equation="->")
    yield draw((3, 3), equation="ii->i")
    yield draw((3, 3), equation="ii->")
    yield draw((2, 3, 3), equation="...ii->...i")
    yield draw((3, 2, 3), (2, 4), equation="iji,jk->ki")
    yield draw((1, 3), (3, 1), equation="ij,jk->ik")
    yield draw((0, 3), (3, 2), equation="ij,jk->ik")
    yield draw((2, 0), (0, 3), equation="ij,jk->ik")
    yield draw([[np.nan, 1.0], [np.inf, 2.0]], [[1.0, 0.0], [2.0, 3.0]], equation="ij,jk->ik", special=True)


@einsum.rejects
def einsum_rejects(reject):
    two = ("float32[2, 3]", "float32[3, 4]")
    yield reject(*two, equation="ij->ij", message="got 2 inputs")
    yield reject(*two, equation="ij,kj->ik", message="axis 'j' of equation 'ij,kj->ik': sizes 3 and 4 differ")
    yield reject(*two, equation="ij,jk->im", message="'m' in the output")
    yield reject(*two, equation="ij,jkl->il", message="does not fit")
    yield reject(*two, equation="i,jk->ik", message="inputs[0] has rank 2")
    yield reject("float32[2, 3]", equation="ii->i", message="sizes 2 and 3 differ")
    yield reject("float32[2, 2]", equation="ij->ii", message="repeats an index in the output")
    yield reject("float32[2, 2]", equation="...i...->...", message="twice")
    yield reject("float32[2, 3]", equation="i1->i", message="more than letters")
    yield reject("float32[2, 3]", equation="...i->i", message="name the axes to be summed")
    yield reject("float32[2, 3]", "float32[4, 3]", equation="...i,...i->...", message="do not broadcast")
    yield reject("float32[2]", equation="...ij->...i", message="does not fit")
    yield reject("float32[...]", "float32[2]", equation="...i,ij->...j", message="inputs[1] has rank 1")
    yield reject("int64[2, 3]", equation="ij->ji", message="takes")


# -- embedding ---------------------------------------------------------------------------------------------------------


def looked_up(indices, weight):
    require_rank("embedding: 'weight'", weight, 2, 2)
    if weight.shape is not None and weight.shape[0] == 0 and indices.shape is not None and all(indices.shape):
        raise ShapeError(f"embedding: 'weight' of type {weight} has no rows for 'indices' of type {indices} to select")
    if indices.shape is None:
        return weight.with_shape(None)
    return weight.with_shape((*indices.shape, None if weight.shape is None else weight.shape[1]))


@meta_op(
    rule=looked_up,
    dtypes=FLOATING,
    also={"indices": INDEX},
    # Drawn so that they fit every weight of two rows or more.
    domain={"indices": Domain(low=0, spread=(0, 1), text="rows")},
)
def embedding(indices, weight):
    """The rows of ``weight`` at ``indices``, which are 0 or more; the last axis of the result runs along a row."""
    if np.any(indices < 0):
        raise IndexError(f"embedding: index {indices.min()} is negative; rows are counted from 0")
    return np.take(weight, indices, axis=0)


@embedding.vjp
def embedding_vjp(m, g, y, indices, weight):
    return None, m.scatter_add(indices, g, axis=0, size=m.shape(weight)[0])


@embedding.samples
def embedding_samples(draw):
    yield draw(indices=[0, 4, 2, 4], weight=(5, 3))
    yield draw(indices=(2, 3), weight=(4, 2))
    yield draw(indices=(), weight=(3, 2))
    yield draw(indices=[[0], [0]], weight=(1, 1))
    yield draw(indices=(0, 2), weight=(3, 2))
    yield draw(indices=(2,), weight=(3, 0))
    yield draw(indices=[1, 0, 1], weight=[[np.nan, 1.0], [np.inf, -0.0]], special=True)


@embedding.rejects
def embedding_rejects(reject):
    yield reject(indices="int64[2]", weight="float32[3]", message="'weight' must have rank 2")
    yield reject(indices="float32[2]", weight="float32[3, 2]", message="'indices' takes int32 or int64")
    yield reject(indices="int64[2]", weight="float32[0, 2]", message="no rows")

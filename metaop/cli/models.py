"""``metaop run`` and ``metaop localize``: a model file on a backend, and a model file between two."""

from __future__ import annotations

import io
import json
from contextlib import suppress
from pathlib import Path
from typing import Any, get_args

import click
import numpy as np
from rich.console import Console

import metaop as mo
from metaop.cli import matrix
from metaop.debug.comparison import Judge, Method
from metaop.debug.cradle import open_feeds
from metaop.debug.render import rich_table
from metaop.errors import FeedError, UsageError
from metaop.models.files import KINDS, open_model, random_feeds, read_feeds
from metaop.models.model import Model
from metaop.models.store import write_atomically

__all__ = ["localize", "run"]


def _inputs(command: Any) -> Any:
    """The options that say what a model is fed."""
    for option in (
        click.option(
            "--shape", "shapes", multiple=True, help="Sizes of an input with open ones: x=1,3,224,224 (repeatable)."
        ),
        click.option("--seed", default=0, show_default=True, help="Seed of random inputs and of all else drawn."),
        click.option("--feed", "feed", metavar="F.npz", help="Inputs by name, or a folder of such files."),
        click.option("--output", "outputs", multiple=True, help="Only this output or node (repeatable)."),
        click.argument("model", metavar="MODEL"),
    ):
        command = option(command)
    return command


@click.command(help=f"Run MODEL ({KINDS}) on a backend and show its outputs.")
@_inputs
@click.option("--backend", "-b", default="numpy", show_default=True, help="The backend, such as torch or mxnet==1.9.1.")
@click.option("--out", metavar="F.npz", help="Write the outputs there.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def run(
    model: str,
    outputs: tuple[str, ...],
    feed: str | None,
    seed: int,
    shapes: tuple[str, ...],
    backend: str,
    out: str | None,
    as_json: bool,
) -> None:
    opened = open_model(model)
    feeds = _feeds(opened, feed, seed, shapes)
    found = opened.run(feeds, backend=backend, outputs=outputs or None)
    if out is not None:
        _write_arrays(out, found)
    rows = [{"output": name, "type": _type(a), **_statistics(a)} for name, a in found.items()]
    if as_json:
        click.echo(json.dumps({"model": opened.name, "backend": backend, "seed": seed, "outputs": rows}, indent=1))
        return
    matrix.show(
        ("output", "type", "min", "mean", "max", "not finite"),
        [
            (r["output"], r["type"], *(_number(r[k]) for k in ("min", "mean", "max")), str(r["not_finite"]))
            for r in rows
        ],
    )


@click.command(help=f"Find the operator of MODEL ({KINDS}) on which two frameworks differ, and say which is wrong.")
@_inputs
@click.option("--between", nargs=2, required=True, metavar="A B", help="The two backends.")
@click.option("--gradients/--no-gradients", default=False, help="Also compare the gradients of all parameters.")
@click.option(
    "--method", type=click.Choice(get_args(Method)), default="auto", show_default=True, help="How nodes are compared."
)
@click.option("--judge", type=click.Choice(get_args(Judge)), help="Rounding of the data at hand, or fixed thresholds.")
@click.option("--threshold", type=float, help="What a delta may be, for both kinds: judges by fixed thresholds.")
@click.option("--tails", is_flag=True, help="Also accuse results that are wrong only relative to themselves.")
@click.option("--limit", default=20, show_default=True, help="Rows of the table; 0 for all.")
@click.option("--json", "json_path", metavar="F", help="Write the report there as JSON.")
@click.option("--html", "html_path", metavar="F", help="Write the report there as a page.")
@click.option("--export", metavar="DIR", help="Write a capsule there: scripts that show the difference without metaop.")
@click.option("--out", metavar="DIR", help="Write results there as they come; the same command goes on from there.")
def localize(
    model: str,
    outputs: tuple[str, ...],
    feed: str | None,
    seed: int,
    shapes: tuple[str, ...],
    between: tuple[str, str],
    gradients: bool,
    method: Method,
    judge: Judge | None,
    threshold: float | None,
    tails: bool,
    limit: int,
    json_path: str | None,
    html_path: str | None,
    export: str | None,
    out: str | None,
) -> int:
    opened = open_model(model)
    targets = [opened.node(name) for name in outputs] or opened.outputs
    given: Any
    if feed is not None and Path(feed).is_dir():
        _no_shapes(shapes)
        given = [(name, opened.feed_dict(feeds, targets)) for name, feeds in open_feeds(feed)]
    else:
        given = opened.feed_dict(_feeds(opened, feed, seed, shapes), targets)

    def write(report: mo.DebugReport) -> None:
        if json_path is not None:
            write_atomically(json_path, report.to_json().encode() + b"\n")
        if html_path is not None:
            write_atomically(html_path, report.to_html().encode())

    options = {"threshold_output": threshold, "threshold_gradient": threshold, "judge": judge, "tails": tails}
    with mo.DebugSession(seed=seed, **options) as session:  # type: ignore[arg-type]
        computed = _computed(targets)
        try:
            report = session.run(computed, given, frameworks=between, gradients=gradients, method=method, out=out)
        except KeyboardInterrupt:
            with suppress(UsageError):  # which says that nothing is known yet
                click.echo(session.report.table(limit=limit or None))
            goes_on = (
                "with --out DIR the same command goes on" if out is None else f"the same command goes on from {out}"
            )
            raise click.Abort(goes_on) from None
        # Written before anything else can fail: the comparison is what took the time.
        write(report)
        _show(report, limit or None)
        if report.consistent:
            return 0
        verdict = session.verify(report.suspects[0])
        click.echo(f"\n{verdict}\nblame: {verdict.blame or 'undecided'}")
        if not verdict and len(report.suspects) > 1:
            click.echo(f"\nall of them: {session.explain()}")
        write(report)
        if export is not None:
            capsule = report.export(export)
            click.echo(f"\ncapsule: {capsule.folder}, " + ("reproduced" if capsule else "not reproduced"))
            for note in capsule.notes:
                click.echo(f"note: {note}")
    return 1


def _computed(targets: list[mo.Node]) -> list[mo.Node]:
    found = [t for t in dict.fromkeys(targets) if isinstance(t.producer, mo.Operator)]
    if not found:
        raise UsageError("no operator computes what was asked for: there is nothing to compare")
    return found


def _feeds(model: Model, feed: str | None, seed: int, shapes: tuple[str, ...]) -> dict[str, np.ndarray]:
    if seed < 0:
        raise UsageError(f"--seed is an integer >= 0; got {seed}")
    if feed is not None:
        _no_shapes(shapes)
        return read_feeds(feed)
    return random_feeds(model.inputs, seed, dict(_shape(text) for text in shapes))


def _show(report: mo.DebugReport, limit: int | None) -> None:
    """In colour on a terminal; as plain text, whole names and all, anywhere else."""
    console = Console()
    if not console.is_terminal:
        click.echo(report.table(limit=limit))
        return
    console.print(rich_table(report, limit))
    if limit is not None and len(report.records) > limit:
        console.print(f"... and {len(report.records) - limit} more")
    for note in report.notes:
        console.print(f"note: {note}", markup=False)


def _no_shapes(shapes: tuple[str, ...]) -> None:
    if shapes:
        raise UsageError("--shape is for random inputs; with --feed the data have shapes of their own")


def _shape(text: str) -> tuple[str, tuple[int, ...]]:
    name, equals, sizes = text.rpartition("=")
    try:
        shape = tuple(int(s) for s in sizes.split(",")) if sizes else ()
    except ValueError:
        shape = (-1,)
    if not equals or not name or min(shape, default=0) < 0:
        raise FeedError(f"--shape {text!r} is not NAME=SIZE,SIZE,...; for example x=1,3,224,224")
    return name, shape


def _write_arrays(path: str, arrays: dict[str, np.ndarray]) -> None:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type]
    write_atomically(path, buffer.getvalue())


def _type(array: np.ndarray) -> str:
    return f"{array.dtype.name}{list(array.shape)}"


def _statistics(array: np.ndarray) -> dict[str, Any]:
    """What one looks at first; of the finite values only, and how many are not."""
    wide = array.astype(np.float64)
    finite = wide[np.isfinite(wide)]
    numbers: dict[str, Any] = {"min": None, "mean": None, "max": None}
    if finite.size:
        numbers = {"min": float(finite.min()), "mean": float(finite.mean()), "max": float(finite.max())}
    return {**numbers, "not_finite": int(array.size - finite.size)}


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.6g}"

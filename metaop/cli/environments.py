"""``metaop env``: environments of isolated backends."""

from __future__ import annotations

import click

from metaop.backends.isolation import environments
from metaop.cli import matrix

__all__ = ["env"]


@click.group()
def env() -> None:
    """Make, list and remove environments for frameworks at other versions than the ones installed here."""


@env.command()
@click.argument("spec")
@click.option("--python", help="A Python version such as 3.7, or the path of an interpreter.")
def create(spec: str, python: str | None) -> None:
    """Make the environment of SPEC, for example "mxnet==1.6.0"."""
    made = environments.create(spec, python=python, report=lambda text: click.echo(text, err=True))
    click.echo(f"{made.name} (Python {made.python}, {made.bytes / 1e6:.0f} MB) in {made.path}")


@env.command("list")
def list_() -> None:
    """List the environments that exist."""
    found = environments.environments()
    if not found:
        click.echo(f'none in {environments.home()}; make one with: metaop env create "mxnet==1.9.1"')
        return
    matrix.show(
        ("environment", "python", "MB", "folder"),
        [(e.name, e.python, f"{e.bytes / 1e6:.0f}", str(e.path)) for e in found],
    )


@env.command()
@click.argument("spec")
def remove(spec: str) -> None:
    """Delete the environment of SPEC."""
    click.echo(f"removed {environments.remove(spec).name}")

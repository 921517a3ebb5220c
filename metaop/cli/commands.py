"""The commands, thin over the library: each says nothing that a call could not say."""

from __future__ import annotations

import json
from typing import Any

import click

import metaop as mo
from metaop.cli import matrix
from metaop.cli.environments import env
from metaop.cli.models import localize, run

__all__ = ["cli"]


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(mo.__version__, prog_name="metaop")
def cli() -> None:
    """Find out which operator of which deep-learning framework is wrong, and prove it."""


@cli.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def backends(as_json: bool) -> None:
    """List every known backend: name, version, whether it can be used here and, if not, why."""
    infos = mo.backends().values()
    if as_json:
        rows = [
            {
                "name": i.name,
                "aliases": list(i.aliases),
                "version": i.version,
                "available": i.available,
                "reason": i.reason,
            }
            for i in infos
        ]
        click.echo(json.dumps(rows, indent=1))
        return
    matrix.show(
        ("backend", "aliases", "version", "available"),
        [(i.name, ", ".join(i.aliases), i.version or "-", "yes" if i.available else f"no: {i.reason}") for i in infos],
    )


@cli.command()
@click.argument("name", required=False)
@click.option("--backend", "-b", "chosen", multiple=True, help="Only these backends (may be given several times).")
@click.option("--family", help="Only the operators of one family.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@click.option("--markdown", is_flag=True, help="Print a Markdown table with all reasons.")
def ops(name: str | None, chosen: tuple[str, ...], family: str | None, as_json: bool, markdown: bool) -> None:
    """Show which backend computes which meta operator, and how its gradient comes about.

    With NAME, describe that operator. Cells: native (the framework's autodiff), derived (metaop's gradient rule with
    that backend's forwards), forward (the operator has no gradient), unsupported.
    """
    table = matrix.support_matrix(list(chosen) or None, _select(name, family))
    if as_json:
        click.echo(json.dumps(table.as_dict(), indent=1))
    elif markdown:
        click.echo(table.as_markdown())
    elif name is not None:
        _describe(name, table)
    else:
        table.show()


for command in (env, run, localize):
    cli.add_command(command)


def _select(name: str | None, family: str | None) -> list[Any]:
    registry = mo.ops()
    if name is not None:
        if name not in registry:
            raise mo.UserError(
                f"there is no meta operator {name!r}{matrix.nearest(name, registry)}. 'metaop ops' lists all"
            )
        return [registry[name]]
    found = [op for op in registry.values() if family in (None, op.family)]
    if not found:
        families = dict.fromkeys(op.family for op in registry.values())
        raise mo.UserError(
            f"there is no family {family!r}{matrix.nearest(str(family), families)}: {', '.join(families)}"
        )
    return found


def _describe(name: str, table: matrix.SupportMatrix) -> None:
    op = mo.ops()[name]
    click.echo(f"{op.signature}\n\n{op.doc}\n")
    click.echo(f"family: {op.family}\ndtypes: {matrix.describe_dtypes(op.dtypes)}")
    for param, dtypes in op.also.items():
        click.echo(f"  {param}: {matrix.describe_dtypes(dtypes)}")
    click.echo(f"gradient: {op.nondifferentiable or 'yes'}\n")
    for backend in table.backends:
        kind, reason = table.cell(op, backend)
        click.echo(f"  {backend:<14}{kind}{f': {reason}' if reason else ''}")

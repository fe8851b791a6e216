"""`clew facets`: what producers say of a run, a job or a dataset."""

from __future__ import annotations

from collections.abc import Mapping

import click
from msgspec import Raw
from rich.table import Table

from clew.cli.options import index_option, json_option, lake_option
from clew.cli.screen import data, print_json
from clew.errors import ClewError
from clew.home import Home
from clew.index.reader import IndexReader
from clew.query.facets import dataset_facets, job_facets


@click.group("facets")
def command() -> None:
    """Show the facets of a run, a job or a dataset."""


@command.command("run")
@click.argument("run_id")
@json_option
@lake_option
def run(run_id: str, as_json: bool, home: Home) -> None:  # noqa: FBT001
    """Show the facets that the events of a run give to it, to its job, and to what it read and wrote.

    They are read from the lake: from the facet tables, and from the events themselves where these have no facets yet.
    """
    # Here, and not above: the other commands can do without Arrow.
    from clew.lake.delta import Lake
    from clew.lake.facets import facets_of_run
    from clew.lake.format import require_lake

    require_lake(home.lake)
    lake = Lake(home.lake)
    found = facets_of_run(lake, run_id, lake.facet_order)
    if not found.facets and not found.jobs and not found.inputs and not found.outputs:
        hint = "A run is named by the runId of its events, as the table runs lists them."
        raise ClewError(f"There are no facets of a run {run_id!r}.", hint=hint)
    if as_json:
        print_json(found)
        return
    _show(f"run {run_id}", found.facets)
    for job in found.jobs:
        _show(f"job {job.namespace} {job.name}", job.facets)
    for word, datasets in (("read", found.inputs), ("wrote", found.outputs)):
        for dataset in datasets:
            name = _dataset(dataset.namespace, dataset.name, dataset.version)
            _show(f"{word} {name}", {**dataset.facets, **dataset.input_facets, **dataset.output_facets})


@command.command("job")
@click.argument("namespace")
@click.argument("name")
@json_option
@index_option
def job(namespace: str, name: str, as_json: bool, home: Home) -> None:  # noqa: FBT001
    """Show the facets that a job has now, after all its events."""
    with IndexReader(home.index) as index:
        found = job_facets(index, namespace, name)
    if as_json:
        print_json(found)
    else:
        _show(f"job {namespace} {name}", found.facets)


@command.command("dataset")
@click.argument("namespace")
@click.argument("name")
@click.option("--dataset-version", "version", help="The dataset's version. Default: the one described last.")
@json_option
@index_option
def dataset(namespace: str, name: str, version: str | None, as_json: bool, home: Home) -> None:  # noqa: FBT001
    """Show the facets that a dataset has now, after all its events."""
    with IndexReader(home.index) as index:
        found = dataset_facets(index, namespace, name, version)
    if as_json:
        print_json(found)
    else:
        _show(f"dataset {_dataset(namespace, name, found.version)}", found.facets)


def _dataset(namespace: str, name: str, version: str | None) -> str:
    return f"{namespace} {name}" + (f" (version {version})" if version else "")


def _show(title: str, facets: Mapping[str, Raw]) -> None:
    table = Table(box=None, pad_edge=False, show_header=False, title=title, title_justify="left")
    table.add_column(no_wrap=True, min_width=max(map(len, facets), default=0))
    table.add_column(no_wrap=True, overflow="ellipsis")
    for name, facet in facets.items():
        table.add_row(name, bytes(facet).decode())
    data().print(table)

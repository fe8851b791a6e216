"""`clew facets`: show the facets of a run, a job or a dataset."""

from __future__ import annotations

from collections.abc import Mapping

import click
from msgspec import Raw
from rich.table import Table

from clew.cli.options import index_option, json_option, lake_option
from clew.cli.screen import print_json, stdout_console
from clew.errors import ClewError
from clew.home import DataDir
from clew.index.reader import IndexReader
from clew.query.facets import find_dataset_facets, find_job_facets


@click.group("facets")
def facets_group() -> None:
    """Show the facets of a run, a job or a dataset."""


@facets_group.command("run")
@click.argument("run_id")
@json_option
@lake_option
def facets_run(run_id: str, as_json: bool, home: DataDir) -> None:  # noqa: FBT001
    """Show the facets of a run, its job, its inputs and its outputs.

    Facets are read from the facet tables of the lake, and from the raw events where facets are not backfilled yet.
    """
    # Imported here: the other commands do not need Arrow.
    from clew.lake.delta import Lake
    from clew.lake.facets import load_run_facets
    from clew.lake.format import require_lake

    require_lake(home.lake)
    lake = Lake(home.lake)
    result = load_run_facets(lake, run_id, lake.facet_order)
    if not result.facets and not result.jobs and not result.inputs and not result.outputs:
        hint = "Pass the runId of the events, as listed by `clew runs`."
        raise ClewError(f"There are no facets of run {run_id!r}.", hint=hint)
    if as_json:
        print_json(result)
        return
    _print_facets(f"run {run_id}", result.facets)
    for job in result.jobs:
        _print_facets(f"job {job.namespace} {job.name}", job.facets)
    for verb, datasets in (("read", result.inputs), ("wrote", result.outputs)):
        for dataset in datasets:
            name = _dataset_title(dataset.namespace, dataset.name, dataset.version)
            _print_facets(f"{verb} {name}", {**dataset.facets, **dataset.input_facets, **dataset.output_facets})


@facets_group.command("job")
@click.argument("namespace")
@click.argument("name")
@json_option
@index_option
def facets_job(namespace: str, name: str, as_json: bool, home: DataDir) -> None:  # noqa: FBT001
    """Show the current facets of a job."""
    with IndexReader(home.index) as index:
        result = find_job_facets(index, namespace, name)
    if as_json:
        print_json(result)
    else:
        _print_facets(f"job {namespace} {name}", result.facets)


@facets_group.command("dataset")
@click.argument("namespace")
@click.argument("name")
@click.option("--dataset-version", "version", help="Dataset version (default: the latest).")
@json_option
@index_option
def facets_dataset(namespace: str, name: str, version: str | None, as_json: bool, home: DataDir) -> None:  # noqa: FBT001
    """Show the current facets of a dataset."""
    with IndexReader(home.index) as index:
        result = find_dataset_facets(index, namespace, name, version)
    if as_json:
        print_json(result)
    else:
        _print_facets(f"dataset {_dataset_title(namespace, name, result.version)}", result.facets)


def _dataset_title(namespace: str, name: str, version: str | None) -> str:
    return f"{namespace} {name}" + (f" (version {version})" if version else "")


def _print_facets(title: str, facets: Mapping[str, Raw]) -> None:
    table = Table(box=None, pad_edge=False, show_header=False, title=title, title_justify="left")
    table.add_column(no_wrap=True, min_width=max(map(len, facets), default=0))
    table.add_column(no_wrap=True, overflow="ellipsis")
    for name, facet in facets.items():
        table.add_row(name, bytes(facet).decode())
    stdout_console().print(table)

"""Events without their facets."""

from __future__ import annotations

from msgspec import structs

from clew.events.openlineage import Dataset, Event, Facets


def bare(event: Event) -> Event:
    """The event without its facets, but for the versions of its datasets: those are part of what it names."""
    return structs.replace(
        event,
        run=event.run and structs.replace(event.run, facets=None),
        job=event.job and structs.replace(event.job, facets=None),
        dataset=event.dataset and _bare_dataset(event.dataset),
        inputs=[_bare_dataset(dataset) for dataset in event.inputs or ()],
        outputs=[_bare_dataset(dataset) for dataset in event.outputs or ()],
    )


def _bare_dataset(dataset: Dataset) -> Dataset:
    return structs.replace(dataset, facets=_version(dataset.facets), input_facets=None, output_facets=None)


def _version(facets: Facets | None) -> Facets | None:
    return {"version": facets["version"]} if facets and "version" in facets else None

"""Events without their facets."""

from __future__ import annotations

from msgspec import structs

from clew.events.openlineage import Dataset, Event, Facets


def without_facets(event: Event) -> Event:
    """Return the event without facets, except the `version` facets that identify its datasets."""
    return structs.replace(
        event,
        run=event.run and structs.replace(event.run, facets=None),
        job=event.job and structs.replace(event.job, facets=None),
        dataset=event.dataset and _dataset_without_facets(event.dataset),
        inputs=[_dataset_without_facets(dataset) for dataset in event.inputs or ()],
        outputs=[_dataset_without_facets(dataset) for dataset in event.outputs or ()],
    )


def _dataset_without_facets(dataset: Dataset) -> Dataset:
    return structs.replace(dataset, facets=_version_facet_only(dataset.facets), input_facets=None, output_facets=None)


def _version_facet_only(facets: Facets | None) -> Facets | None:
    return {"version": facets["version"]} if facets and "version" in facets else None

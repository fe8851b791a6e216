"""The pseudo-dataset with the facets that store user annotations. It has events, but lists omit it."""

from __future__ import annotations

from typing import Final

ANNOTATIONS_NAMESPACE: Final = "clew"
ANNOTATIONS_NAME: Final = "notes"
IS_ANNOTATIONS: Final = f"(namespace = '{ANNOTATIONS_NAMESPACE}' and name = '{ANNOTATIONS_NAME}')"
# All other datasets.
DATASETS: Final = f"datasets where not {IS_ANNOTATIONS}"

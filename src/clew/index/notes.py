"""The dataset whose facets are what people noted. Events tell of it as of any other, but lists leave it out."""

from __future__ import annotations

from typing import Final

NAMESPACE: Final = "clew"
NAME: Final = "notes"
IS_NOTES: Final = f"(namespace = '{NAMESPACE}' and name = '{NAME}')"
# All others.
DATASETS: Final = f"datasets where not {IS_NOTES}"

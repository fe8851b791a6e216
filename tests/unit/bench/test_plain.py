"""Tests of the baselines in plain Python."""

from __future__ import annotations

import gzip
import json
from itertools import islice
from pathlib import Path

from bench.generate import generate_events
from bench.measure_growth import strip_facets as strip_for_growth
from bench.measure_pipeline import make_sized_events
from bench.plain import measure_gzip_bytes, measure_import_cpu, measure_parsing_cpu, measure_parsing_memory


def test_measures_are_positive(tmp_path: Path) -> None:
    bodies = list(islice(generate_events(200, 1), 200))
    with gzip.open(tmp_path / "events.gz", "wb") as file:
        file.writelines(body + b"\n" for body in bodies)
    assert measure_parsing_cpu(bodies) > 0
    assert measure_parsing_memory(tmp_path / "events.gz").pss >= 0
    assert measure_import_cpu(["json"]) > 0
    assert 0 < measure_gzip_bytes(bodies) < sum(map(len, bodies)) / len(bodies)


def test_events_have_the_sizes_of_their_names() -> None:
    events = make_sized_events(2_000_000)
    means = {name: sum(map(len, bodies)) / len(bodies) for name, bodies in events.items()}
    assert 700 < means["1 KB"] < 2_000
    assert 5_000 < means["6.5 KB"] < 8_000
    assert 90_000 < means["100 KB"] < 130_000
    assert 900_000 < means["1 MB"] < 1_300_000
    assert all(len(set(bodies)) == len(bodies) for bodies in events.values())


def test_events_for_growth_have_no_repeated_facets() -> None:
    event = json.loads(strip_for_growth(next(generate_events(10, 1))))
    assert "facets" not in event["job"]
    assert all("schema" not in dataset["facets"] for dataset in (*event["inputs"], *event["outputs"]))

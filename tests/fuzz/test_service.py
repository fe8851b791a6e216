"""Mutated events through collector and pipeline: each is answered, and is stored as its answer says.

`make test-fuzz FUZZ_EVENTS=1000000` sends a million events, of corpora if they are present, else generated ones.
"""

from __future__ import annotations

import http.client
import os
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from random import Random

import pytest
from bench.generate import generate_events
from bench.measure_collector import run_collector
from deltalake import DeltaTable
from tests.fuzz.mutations import mutate
from tests.support.paths import ROOT

from clew.events.ids import event_id

EVENTS = int(os.environ.get("FUZZ_EVENTS", "20000"))
SEED = int(os.environ.get("FUZZ_SEED", "1"))
CLIENTS = 4
# A mutation of a large event costs as much as a hundred others.
MAX_SEED_BYTES = 20_000
CREATED, BAD_REQUEST, UNPROCESSABLE = 201, 400, 422
TABLE_OF_STATUS = {CREATED: "lineage_events", UNPROCESSABLE: "rejected_events"}


def load_seeds() -> list[bytes]:
    shared = Path(os.environ.get("CLEW_SHARED", ROOT.parent / "shared"))
    corpus = [line for path in sorted(shared.glob("corpus/**/*.jsonl")) for line in path.read_bytes().splitlines()]
    return [body for body in corpus or islice(generate_events(1_000, SEED), 200) if len(body) < MAX_SEED_BYTES]


def send_events(port: int, seed: int, count: int) -> list[tuple[str, int]]:
    """Send mutated events over one connection; return the id and the status of each."""
    random, seeds = Random(seed), load_seeds()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    sent = []
    for _ in range(count):
        body = mutate(random, random.choice(seeds)).replace(b"\n", b" ").replace(b"\r", b" ").strip()
        # A list is a batch of events.
        if body.startswith(b"{"):
            connection.request("POST", "/api/v1/lineage", body, {"content-type": "application/json"})
            response = connection.getresponse()
            response.read()
            sent.append((event_id(body), response.status))
    connection.close()
    return sent


@pytest.mark.spark
@pytest.mark.timeout(4 * 3_600)
def test_every_event_is_stored_as_answered(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with run_collector(home) as (port, _), ThreadPoolExecutor(CLIENTS) as executor:
        per_client = EVENTS // CLIENTS
        sending = [executor.submit(send_events, port, SEED + number, per_client) for number in range(CLIENTS)]
        sent = {pair for future in sending for pair in future.result()}
    print(Counter(status for _, status in sent))  # noqa: T201
    assert {status for _, status in sent} <= {CREATED, BAD_REQUEST, UNPROCESSABLE}
    command = [sys.executable, "-m", "clew", "pipeline", "run", "--home", str(home)]
    # 1: events were rejected.
    assert subprocess.run(command, check=False).returncode in {0, 1}
    for status, table in TABLE_OF_STATUS.items():
        rows = DeltaTable(home / "lake" / table).to_pyarrow_table(columns=["event_id"]).column("event_id").to_pylist()
        stored = Counter(str(row) for row in rows)
        assert max(stored.values(), default=1) == 1, f"events are more than once in {table}"
        missing = {identity for identity, answer in sent if answer == status} - set(stored)
        assert not missing, f"{len(missing)} events that were answered with {status} are not in {table}: {missing}"

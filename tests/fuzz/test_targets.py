"""Mutated events against each target (`make test-fuzz FUZZ_EXAMPLES=100000`)."""

from __future__ import annotations

import os
from itertools import islice
from random import Random

import pytest
from bench.generate import generate_events
from tests.fuzz.mutations import mutate
from tests.fuzz.targets import TARGETS
from tests.support.paths import ROOT

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "2000"))
SEED = int(os.environ.get("FUZZ_SEED", "1"))
QUERIES = (
    b"select t.a, sum(b) as total from t join s using (a) where c > 1 group by all having total > 2 order by 1",
    b"with w as (select *, row_number() over (partition by a order by b) r from t) select * exclude (r) from w",
    b"select a, (select max(c) from s where s.a = t.a) m, case when b then 1 end from t union all select * from s",
    b"select unnest([a, b]) x, struct_pack(k := a).k, columns('a.*') from t, lateral (select c from s) q",
)
SEEDS: dict[str, tuple[bytes, ...]] = {
    "sql": QUERIES,
    "node_ids": (b"dataset/postgres%3A%2F%2Fshop/public.orders", b"job/a%2Fb/c%25d", b"dataset//x"),
}


def load_seeds(target: str) -> list[bytes]:
    if target in SEEDS:
        return list(SEEDS[target])
    cases = (ROOT / "tests" / "cases" / "pipeline").glob("*/events.ndjson")
    golden = [line for path in sorted(cases) for line in path.read_bytes().splitlines()]
    return [*golden, *islice(generate_events(1_000, SEED), 20)]


@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("target", TARGETS)
def test_mutated_input(target: str) -> None:
    random, seeds = Random(SEED), load_seeds(target)
    for number in range(EXAMPLES):
        data = mutate(random, random.choice(seeds))
        try:
            TARGETS[target](data)
        except Exception as error:
            error.add_note(f"example {number}: {data!r}")
            raise

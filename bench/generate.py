"""Write reproducible OpenLineage events: the same count and seed give the same bytes on every machine.

python bench/generate.py 100000 events.jsonl --seed 7 --big 10
"""

from __future__ import annotations

import argparse
import heapq
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import msgspec

TABLE_COUNT = 3_000
JOB_COUNT = 2_000
RUNS_PER_SECOND = 4.0
REDELIVERED_SHARE = 0.01
MAX_REDELIVERY_SECONDS = 30.0
BIG_BYTES = (900_000, 10_900_000)
START_TIME = datetime(2026, 1, 1, tzinfo=UTC)

PRODUCER = "https://example.com/clew/bench/generate"
SPEC = "https://openlineage.io/spec"
NAMESPACES = ("postgres://warehouse:5432", "s3://lake", "bigquery", "snowflake://acme-eu", "file")
AREAS = ("billing", "crm", "inventory", "marketing", "payments", "risk", "shipping", "support")
ENTITIES = (
    "account",
    "basket",
    "campaign",
    "claim",
    "customer",
    "invoice",
    "order",
    "parcel",
    "refund",
    "ticket",
    "visit",
)
ATTRIBUTES = (
    "amount",
    "city",
    "closed_at",
    "code",
    "country",
    "currency",
    "id",
    "kind",
    "name",
    "opened_at",
    "rate",
    "status",
)
TYPES = ("bigint", "boolean", "date", "decimal(18,2)", "double", "timestamp", "varchar")
SUBTYPES = ("IDENTITY", "IDENTITY", "TRANSFORMATION", "AGGREGATION")
END_TYPES = ("COMPLETE",) * 92 + ("FAIL",) * 6 + ("ABORT",) * 2

Json = dict[str, Any]


@dataclass(frozen=True)
class Table:
    """Dataset, and the facets that are equal in all its events."""

    namespace: str
    name: str
    columns: tuple[str, ...]
    facets: dict[str, msgspec.Raw]


@dataclass(frozen=True)
class Job:
    """Job, its inputs, its outputs and their column lineage."""

    namespace: str
    name: str
    parent: str
    facets: msgspec.Raw
    inputs: tuple[Table, ...]
    outputs: tuple[tuple[Table, msgspec.Raw], ...]


def make_facet(name: str, version: str, /, **body: Any) -> Json:
    """Make a facet with the two required fields."""
    return {"_producer": PRODUCER, "_schemaURL": f"{SPEC}/facets/{version}/{name}.json#/$defs/{name}", **body}


def encode_raw(value: Json) -> msgspec.Raw:
    """Encode a value once that is part of many events."""
    return msgspec.Raw(msgspec.json.encode(value))


def format_time(seconds: float) -> str:
    """Format a time, given in seconds after the start."""
    return (START_TIME + timedelta(seconds=seconds)).isoformat(timespec="milliseconds")


def make_run_id(random: Random, seconds: float) -> str:
    """Make a UUID of version 7, as OpenLineage recommends: it begins with the time."""
    time = START_TIME + timedelta(seconds=seconds)
    random_bits = UUID(int=random.getrandbits(128), version=4).int
    time_bits = int(time.timestamp() * 1000) << 80
    return str(UUID(int=time_bits | 7 << 76 | random_bits & ((1 << 76) - 1)))


def make_tables(random: Random) -> list[Table]:
    """Make all datasets."""
    return [make_table(random, number) for number in range(TABLE_COUNT)]


def make_table(random: Random, number: int) -> Table:
    """Make a dataset with three to fourteen columns."""
    namespace = random.choice(NAMESPACES)
    name = f"{random.choice(AREAS)}.{random.choice(ENTITIES)}_{number:04}"
    width = random.choice((3, 4, 4, 5, 5, 6, 8, 14))
    columns = tuple(f"{random.choice(ENTITIES)}_{random.choice(ATTRIBUTES)}_{position}" for position in range(width))
    fields = [make_field(random, column, name) for column in columns]
    schema = make_facet("SchemaDatasetFacet", "1-2-0", fields=fields)
    source = make_facet("DatasourceDatasetFacet", "1-0-1", name=namespace, uri=f"{namespace}/{name}")
    return Table(namespace, name, columns, {"schema": encode_raw(schema), "dataSource": encode_raw(source)})


def make_field(random: Random, column: str, table: str) -> Json:
    """Make a schema field; one in three has a description."""
    field = {"name": column, "type": random.choice(TYPES)}
    return field | {"description": f"{column} of {table}"} if random.random() < 1 / 3 else field


def make_jobs(random: Random, tables: list[Table]) -> list[Job]:
    """Make all jobs. Each writes tables after those it reads, so that lineage has no cycles."""
    return [make_job(random, tables, number) for number in range(JOB_COUNT)]


def make_job(random: Random, tables: list[Table], number: int) -> Job:
    """Make a job with one to three inputs and one or two outputs."""
    frontier = 10 + number * (len(tables) - 12) // JOB_COUNT
    nearby = range(max(0, frontier - 200), frontier)
    inputs = tuple(tables[position] for position in random.sample(nearby, random.choice((1, 1, 2, 2, 3))))
    outputs = tables[frontier : frontier + random.choice((1, 1, 1, 2))]
    name = f"{random.choice(AREAS)}_daily.build_{number:04}"
    return Job(
        namespace=f"scheduler-{number % 6}",
        name=name,
        parent=name.partition(".")[0],
        facets=encode_raw(job_facets(random, name, inputs, outputs)),
        inputs=inputs,
        outputs=tuple((table, encode_raw(column_lineage(random, inputs, table))) for table in outputs),
    )


def job_facets(random: Random, name: str, inputs: tuple[Table, ...], outputs: list[Table]) -> Json:
    """Make four job facets, one of them SQL with quotes and non-ASCII letters."""
    columns = ",\n  ".join(f"coalesce(t.{column}, '-') as \"{column} à jour\"" for column in outputs[0].columns)
    sql = f"insert into {outputs[0].name}\nselect\n  {columns}\nfrom {' natural join '.join(t.name for t in inputs)} t"
    commit = f"{random.getrandbits(160):040x}"
    return {
        "jobType": make_facet("JobTypeJobFacet", "2-0-3", processingType="BATCH", integration="SPARK", jobType="JOB"),
        "sql": make_facet("SQLJobFacet", "1-1-0", query=sql, dialect="spark"),
        "sourceCodeLocation": make_facet(
            "SourceCodeLocationJobFacet", "1-0-1", type="git", url=f"https://example.com/{name}.py", version=commit
        ),
        "ownership": make_facet(
            "OwnershipJobFacet", "1-0-1", owners=[{"name": f"team:{random.choice(AREAS)}", "type": "OWNER"}]
        ),
    }


def column_lineage(random: Random, inputs: tuple[Table, ...], output: Table) -> Json:
    """Make column lineage with one source for most columns, two for some."""
    fields = {
        column: {
            "inputFields": [input_field(random, random.choice(inputs)) for _ in range(random.choice((1, 1, 1, 2)))]
        }
        for column in output.columns
    }
    return make_facet("ColumnLineageDatasetFacet", "1-2-0", fields=fields)


def input_field(random: Random, table: Table) -> Json:
    """Make an input field of a random column."""
    transformation = {"type": "DIRECT", "subtype": random.choice(SUBTYPES), "description": "", "masking": False}
    return {
        "namespace": table.namespace,
        "name": table.name,
        "field": random.choice(table.columns),
        "transformations": [transformation],
    }


def run_events(random: Random, job: Job, start: float) -> Iterator[tuple[float, bytes]]:
    """Generate the events of a run and their times: START, sometimes RUNNING, and an end."""
    types = ("START", *("RUNNING",) * random.choice((0, 0, 0, 0, 1, 2)), random.choice(END_TYPES))
    duration = 1 + random.expovariate(1 / 120)
    facets = {
        "parent": make_facet(
            "ParentRunFacet",
            "1-1-0",
            run={"runId": make_run_id(random, start)},
            job={"namespace": job.namespace, "name": job.parent},
        ),
        "nominalTime": make_facet("NominalTimeRunFacet", "1-0-1", nominalStartTime=format_time(start // 3650 * 3650)),
        "processing_engine": make_facet("ProcessingEngineRunFacet", "1-1-1", name="spark", version="4.2.0"),
    }
    run = make_run_id(random, start)
    for position, event_type in enumerate(types):
        time = start + duration * position / (len(types) - 1)
        has_ended = position == len(types) - 1
        event = {
            "eventType": event_type,
            "eventTime": format_time(time),
            "run": {"runId": run, "facets": facets | run_facets(random, event_type)},
            "job": {"namespace": job.namespace, "name": job.name, "facets": job.facets},
            "inputs": [input_dataset(random, table, has_ended=has_ended) for table in job.inputs],
            "outputs": [output_dataset(random, table, lineage, event_type) for table, lineage in job.outputs],
            "producer": PRODUCER,
            "schemaURL": f"{SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent",
        }
        yield time, msgspec.json.encode(event)


def run_facets(random: Random, event_type: str) -> Json:
    """Make the run facets of one event; one of them is not a standard facet."""
    facets: Json = {}
    if event_type == "FAIL":
        trace = "\n".join(f"\tat com.example.Stage{random.randrange(90)}.run" for _ in range(random.randrange(8, 60)))
        facets["errorMessage"] = make_facet(
            "ErrorMessageRunFacet", "1-0-1", message="Division by zero", programmingLanguage="JAVA", stackTrace=trace
        )
    if random.random() < 0.3:
        facets["bench_cost"] = make_facet(
            "CostRunFacet", "1-0-0", cpuSeconds=random.randrange(9_999), euros=random.random()
        )
    return facets


def input_dataset(random: Random, table: Table, *, has_ended: bool) -> Json:
    """Make an input dataset; the last event sometimes has column metrics."""
    dataset: Json = {"namespace": table.namespace, "name": table.name, "facets": table.facets}
    if has_ended and random.random() < 0.4:
        metrics = {column: column_metrics(random) for column in table.columns}
        dataset["inputFacets"] = {
            "dataQualityMetrics": make_facet(
                "DataQualityMetricsInputDatasetFacet", "1-0-2", rowCount=random.randrange(10**7), columnMetrics=metrics
            )
        }
    return dataset


def column_metrics(random: Random) -> Json:
    """Make the metrics of a column."""
    return {
        "nullCount": random.randrange(1_000),
        "distinctCount": random.randrange(100_000),
        "min": round(random.random(), 6),
        "max": round(random.random() * 1e6, 3),
    }


def output_dataset(random: Random, table: Table, lineage: msgspec.Raw, event_type: str) -> Json:
    """Make an output dataset; a COMPLETE event has statistics, version and column lineage."""
    dataset: Json = {"namespace": table.namespace, "name": table.name, "facets": table.facets}
    if event_type == "COMPLETE":
        version = make_facet("DatasetVersionDatasetFacet", "1-0-1", datasetVersion=str(random.getrandbits(60)))
        rows, size = random.randrange(10**7), random.randrange(10**10)
        statistics = make_facet("OutputStatisticsOutputDatasetFacet", "1-0-2", rowCount=rows, size=size)
        dataset["facets"] = table.facets | {"columnLineage": lineage, "version": version}
        dataset["outputFacets"] = {"outputStatistics": statistics}
    return dataset


def big_event(random: Random, job: Job, size: int) -> bytes:
    """Make a COMPLETE event of about `size` bytes, with an output of thousands of columns."""
    # A column needs 365 bytes, in schema and lineage together.
    columns = tuple(f"wide_column_{position:06}" for position in range(size // 365))
    fields = [{"name": column, "type": "varchar", "description": f"{column} of a wide table"} for column in columns]
    schema = encode_raw(make_facet("SchemaDatasetFacet", "1-2-0", fields=fields))
    wide = Table("s3://lake", f"wide.{random.choice(ENTITIES)}_{random.randrange(10**6)}", columns, {"schema": schema})
    lineage = encode_raw(column_lineage(random, job.inputs, wide))
    time = random.random() * 3650
    event = {
        "eventType": "COMPLETE",
        "eventTime": format_time(time),
        "run": {"runId": make_run_id(random, time)},
        "job": {"namespace": job.namespace, "name": job.name, "facets": job.facets},
        "inputs": [input_dataset(random, table, has_ended=False) for table in job.inputs],
        "outputs": [output_dataset(random, wide, lineage, "COMPLETE")],
        "producer": PRODUCER,
        "schemaURL": f"{SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent",
    }
    return msgspec.json.encode(event)


def random_big_event(random: Random, jobs: list[Job]) -> bytes:
    """Make a big event of a random job, with 0.9 to 10.9 MB."""
    return big_event(random, random.choice(jobs), random.randint(*BIG_BYTES))


def generate_deliveries(random: Random, jobs: list[Job]) -> Iterator[bytes]:
    """Generate endless events as a collector receives them: runs are interleaved, and some events come twice."""
    queue: list[tuple[float, int, bytes]] = []
    sequence = itertools.count()
    now = 0.0
    while True:
        for time, body in run_events(random, random.choice(jobs), now):
            heapq.heappush(queue, (time, next(sequence), body))
            if random.random() < REDELIVERED_SHARE:
                redelivery_time = time + random.random() * MAX_REDELIVERY_SECONDS
                heapq.heappush(queue, (redelivery_time, next(sequence), body))
        now += random.expovariate(RUNS_PER_SECOND)
        while queue and queue[0][0] <= now:
            yield heapq.heappop(queue)[2]


def generate_events(count: int, seed: int, big: int = 0) -> Iterator[bytes]:
    """Generate `count` events, `big` of them large and evenly distributed."""
    random = Random(seed)
    jobs = make_jobs(random, make_tables(random))
    # A separate generator, so that big events do not change the others.
    big_random = Random(seed + 1)
    small_events = generate_deliveries(random, jobs)
    for position in range(count):
        is_big = position * big // count != (position + 1) * big // count
        yield random_big_event(big_random, jobs) if is_big else next(small_events)


def main() -> None:
    """Write events to a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int, help="number of events, one per line")
    parser.add_argument("out", type=Path, help="output file")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--big", type=int, default=0, metavar="K", help="number of events with 0.9 to 10.9 MB")
    args = parser.parse_args()
    if not 0 <= args.big <= args.count:
        parser.error(f"--big is {args.big}: it must be between 0 and the count, {args.count}")
    with args.out.open("wb") as file:
        file.writelines(body + b"\n" for body in generate_events(args.count, args.seed, args.big))


if __name__ == "__main__":
    main()

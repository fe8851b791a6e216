"""Write OpenLineage events that repeat: the same count and seed give the same bytes on every machine.

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

TABLES = 3_000
JOBS = 2_000
RUNS_PER_SECOND = 4.0
REDELIVERED = 0.01
REDELIVERED_WITHIN_SECONDS = 30.0
BIG_BYTES = (900_000, 10_900_000)
START_OF_TIME = datetime(2026, 1, 1, tzinfo=UTC)

PRODUCER = "https://example.com/clew/bench/generate"
SPEC = "https://openlineage.io/spec"
STORES = ("postgres://warehouse:5432", "s3://lake", "bigquery", "snowflake://acme-eu", "file")
AREAS = ("billing", "crm", "inventory", "marketing", "payments", "risk", "shipping", "support")
THINGS = (
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
TRAITS = (
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
ENDINGS = ("COMPLETE",) * 92 + ("FAIL",) * 6 + ("ABORT",) * 2

Json = dict[str, Any]


@dataclass(frozen=True)
class Table:
    """A dataset, and the facets that are the same in all its events."""

    namespace: str
    name: str
    columns: tuple[str, ...]
    facets: dict[str, msgspec.Raw]


@dataclass(frozen=True)
class Job:
    """A job, what it reads and writes, and where each written column comes from."""

    namespace: str
    name: str
    parent: str
    facets: msgspec.Raw
    inputs: tuple[Table, ...]
    outputs: tuple[tuple[Table, msgspec.Raw], ...]


def facet(kind: str, version: str, /, **body: Any) -> Json:
    """A facet with the two fields that the spec asks of each."""
    return {"_producer": PRODUCER, "_schemaURL": f"{SPEC}/facets/{version}/{kind}.json#/$defs/{kind}", **body}


def raw(value: Json) -> msgspec.Raw:
    """Encode once what stands in many events."""
    return msgspec.Raw(msgspec.json.encode(value))


def timestamp(seconds: float) -> str:
    """A moment after the start of time, as events write it."""
    return (START_OF_TIME + timedelta(seconds=seconds)).isoformat(timespec="milliseconds")


def run_id(random: Random, seconds: float) -> str:
    """A UUID of version 7, as OpenLineage advises and its clients make them: it begins with the time."""
    moment = START_OF_TIME + timedelta(seconds=seconds)
    drawn = UUID(int=random.getrandbits(128), version=4).int
    since_1970 = int(moment.timestamp() * 1000) << 80
    return str(UUID(int=since_1970 | 7 << 76 | drawn & ((1 << 76) - 1)))


def make_tables(random: Random) -> list[Table]:
    """The datasets of the world."""
    return [make_table(random, number) for number in range(TABLES)]


def make_table(random: Random, number: int) -> Table:
    """One dataset, with three to fourteen columns."""
    namespace = random.choice(STORES)
    name = f"{random.choice(AREAS)}.{random.choice(THINGS)}_{number:04}"
    width = random.choice((3, 4, 4, 5, 5, 6, 8, 14))
    columns = tuple(f"{random.choice(THINGS)}_{random.choice(TRAITS)}_{place}" for place in range(width))
    fields = [make_field(random, column, name) for column in columns]
    schema = facet("SchemaDatasetFacet", "1-2-0", fields=fields)
    source = facet("DatasourceDatasetFacet", "1-0-1", name=namespace, uri=f"{namespace}/{name}")
    return Table(namespace, name, columns, {"schema": raw(schema), "dataSource": raw(source)})


def make_field(random: Random, column: str, table: str) -> Json:
    """A column as a schema lists it; one in three is described."""
    field = {"name": column, "type": random.choice(TYPES)}
    return field | {"description": f"{column} of {table}"} if random.random() < 1 / 3 else field


def make_jobs(random: Random, tables: list[Table]) -> list[Job]:
    """The jobs of the world. Each writes tables further on than those it reads, so that lineage has no cycles."""
    return [make_job(random, tables, number) for number in range(JOBS)]


def make_job(random: Random, tables: list[Table], number: int) -> Job:
    """One job: one to three inputs, one or two outputs."""
    frontier = 10 + number * (len(tables) - 12) // JOBS
    nearby = range(max(0, frontier - 200), frontier)
    inputs = tuple(tables[place] for place in random.sample(nearby, random.choice((1, 1, 2, 2, 3))))
    outputs = tables[frontier : frontier + random.choice((1, 1, 1, 2))]
    name = f"{random.choice(AREAS)}_daily.build_{number:04}"
    return Job(
        namespace=f"scheduler-{number % 6}",
        name=name,
        parent=name.partition(".")[0],
        facets=raw(job_facets(random, name, inputs, outputs)),
        inputs=inputs,
        outputs=tuple((table, raw(column_lineage(random, inputs, table))) for table in outputs),
    )


def job_facets(random: Random, name: str, inputs: tuple[Table, ...], outputs: list[Table]) -> Json:
    """Four facets, among them SQL with quotes and letters beyond ASCII."""
    columns = ",\n  ".join(f"coalesce(t.{column}, '-') as \"{column} à jour\"" for column in outputs[0].columns)
    sql = f"insert into {outputs[0].name}\nselect\n  {columns}\nfrom {' natural join '.join(t.name for t in inputs)} t"
    commit = f"{random.getrandbits(160):040x}"
    return {
        "jobType": facet("JobTypeJobFacet", "2-0-3", processingType="BATCH", integration="SPARK", jobType="JOB"),
        "sql": facet("SQLJobFacet", "1-1-0", query=sql, dialect="spark"),
        "sourceCodeLocation": facet(
            "SourceCodeLocationJobFacet", "1-0-1", type="git", url=f"https://example.com/{name}.py", version=commit
        ),
        "ownership": facet(
            "OwnershipJobFacet", "1-0-1", owners=[{"name": f"team:{random.choice(AREAS)}", "type": "OWNER"}]
        ),
    }


def column_lineage(random: Random, inputs: tuple[Table, ...], output: Table) -> Json:
    """One source for most columns of `output`, two for some."""
    fields = {
        column: {
            "inputFields": [input_field(random, random.choice(inputs)) for _ in range(random.choice((1, 1, 1, 2)))]
        }
        for column in output.columns
    }
    return facet("ColumnLineageDatasetFacet", "1-2-0", fields=fields)


def input_field(random: Random, table: Table) -> Json:
    """Some column of `table`, as the source of another."""
    transformation = {"type": "DIRECT", "subtype": random.choice(SUBTYPES), "description": "", "masking": False}
    return {
        "namespace": table.namespace,
        "name": table.name,
        "field": random.choice(table.columns),
        "transformations": [transformation],
    }


def run_events(random: Random, job: Job, start: float) -> Iterator[tuple[float, bytes]]:
    """The events of one run and when each happened: a start, perhaps some progress, an end."""
    types = ("START", *("RUNNING",) * random.choice((0, 0, 0, 0, 1, 2)), random.choice(ENDINGS))
    duration = 1 + random.expovariate(1 / 120)
    facets = {
        "parent": facet(
            "ParentRunFacet",
            "1-1-0",
            run={"runId": run_id(random, start)},
            job={"namespace": job.namespace, "name": job.parent},
        ),
        "nominalTime": facet("NominalTimeRunFacet", "1-0-1", nominalStartTime=timestamp(start // 3650 * 3650)),
        "processing_engine": facet("ProcessingEngineRunFacet", "1-1-1", name="spark", version="4.2.0"),
    }
    run = run_id(random, start)
    for place, event_type in enumerate(types):
        moment = start + duration * place / (len(types) - 1)
        has_ended = place == len(types) - 1
        event = {
            "eventType": event_type,
            "eventTime": timestamp(moment),
            "run": {"runId": run, "facets": facets | run_facets(random, event_type)},
            "job": {"namespace": job.namespace, "name": job.name, "facets": job.facets},
            "inputs": [input_dataset(random, table, has_ended=has_ended) for table in job.inputs],
            "outputs": [output_dataset(random, table, lineage, event_type) for table, lineage in job.outputs],
            "producer": PRODUCER,
            "schemaURL": f"{SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent",
        }
        yield moment, msgspec.json.encode(event)


def run_facets(random: Random, event_type: str) -> Json:
    """What only this event says of its run; one facet is of nobody's standard."""
    facets: Json = {}
    if event_type == "FAIL":
        trace = "\n".join(f"\tat com.example.Stage{random.randrange(90)}.run" for _ in range(random.randrange(8, 60)))
        facets["errorMessage"] = facet(
            "ErrorMessageRunFacet", "1-0-1", message="Division by zero", programmingLanguage="JAVA", stackTrace=trace
        )
    if random.random() < 0.3:
        facets["bench_cost"] = facet("CostRunFacet", "1-0-0", cpuSeconds=random.randrange(9_999), euros=random.random())
    return facets


def input_dataset(random: Random, table: Table, *, has_ended: bool) -> Json:
    """A table as it was read, at the end sometimes with metrics of its columns."""
    dataset: Json = {"namespace": table.namespace, "name": table.name, "facets": table.facets}
    if has_ended and random.random() < 0.4:
        metrics = {column: column_metrics(random) for column in table.columns}
        dataset["inputFacets"] = {
            "dataQualityMetrics": facet(
                "DataQualityMetricsInputDatasetFacet", "1-0-2", rowCount=random.randrange(10**7), columnMetrics=metrics
            )
        }
    return dataset


def column_metrics(random: Random) -> Json:
    """Figures of one column."""
    return {
        "nullCount": random.randrange(1_000),
        "distinctCount": random.randrange(100_000),
        "min": round(random.random(), 6),
        "max": round(random.random() * 1e6, 3),
    }


def output_dataset(random: Random, table: Table, lineage: msgspec.Raw, event_type: str) -> Json:
    """A table as it is written; how much, which version and from where is known once the run is complete."""
    dataset: Json = {"namespace": table.namespace, "name": table.name, "facets": table.facets}
    if event_type == "COMPLETE":
        version = facet("DatasetVersionDatasetFacet", "1-0-1", datasetVersion=str(random.getrandbits(60)))
        rows, size = random.randrange(10**7), random.randrange(10**10)
        statistics = facet("OutputStatisticsOutputDatasetFacet", "1-0-2", rowCount=rows, size=size)
        dataset["facets"] = table.facets | {"columnLineage": lineage, "version": version}
        dataset["outputFacets"] = {"outputStatistics": statistics}
    return dataset


def big_event(random: Random, job: Job, size: int) -> bytes:
    """The end of a run that wrote a table of thousands of columns, about so many bytes in all."""
    # 365 bytes: what a column takes in the schema and in the lineage together.
    columns = tuple(f"wide_column_{place:06}" for place in range(size // 365))
    fields = [{"name": column, "type": "varchar", "description": f"{column} of a wide table"} for column in columns]
    schema = raw(facet("SchemaDatasetFacet", "1-2-0", fields=fields))
    wide = Table("s3://lake", f"wide.{random.choice(THINGS)}_{random.randrange(10**6)}", columns, {"schema": schema})
    lineage = raw(column_lineage(random, job.inputs, wide))
    moment = random.random() * 3650
    event = {
        "eventType": "COMPLETE",
        "eventTime": timestamp(moment),
        "run": {"runId": run_id(random, moment)},
        "job": {"namespace": job.namespace, "name": job.name, "facets": job.facets},
        "inputs": [input_dataset(random, table, has_ended=False) for table in job.inputs],
        "outputs": [output_dataset(random, wide, lineage, "COMPLETE")],
        "producer": PRODUCER,
        "schemaURL": f"{SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent",
    }
    return msgspec.json.encode(event)


def any_big_event(random: Random, jobs: list[Job]) -> bytes:
    """A big event of one of the jobs, somewhere between 0.9 and 10.9 MB."""
    return big_event(random, random.choice(jobs), random.randint(*BIG_BYTES))


def deliveries(random: Random, jobs: list[Job]) -> Iterator[bytes]:
    """Events without end as a collector receives them: runs interleave, and some events come twice."""
    waiting: list[tuple[float, int, bytes]] = []
    arrival = itertools.count()
    now = 0.0
    while True:
        for moment, body in run_events(random, random.choice(jobs), now):
            heapq.heappush(waiting, (moment, next(arrival), body))
            if random.random() < REDELIVERED:
                late = moment + random.random() * REDELIVERED_WITHIN_SECONDS
                heapq.heappush(waiting, (late, next(arrival), body))
        now += random.expovariate(RUNS_PER_SECOND)
        while waiting and waiting[0][0] <= now:
            yield heapq.heappop(waiting)[2]


def events(count: int, seed: int, big: int = 0) -> Iterator[bytes]:
    """`count` events, `big` of them large and evenly spread."""
    random = Random(seed)
    jobs = make_jobs(random, make_tables(random))
    # Their own numbers, so that the other events are the same with and without them.
    big_random = Random(seed + 1)
    usual = deliveries(random, jobs)
    for place in range(count):
        is_big = place * big // count != (place + 1) * big // count
        yield any_big_event(big_random, jobs) if is_big else next(usual)


def main() -> None:
    """Write the file that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int, help="how many events, one a line")
    parser.add_argument("out", type=Path, help="the file to write")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--big", type=int, default=0, metavar="K", help="how many of them have 0.9 to 10.9 MB")
    wanted = parser.parse_args()
    if not 0 <= wanted.big <= wanted.count:
        parser.error(f"--big is {wanted.big}: it must be between 0 and the count, {wanted.count}")
    with wanted.out.open("wb") as file:
        file.writelines(body + b"\n" for body in events(wanted.count, wanted.seed, wanted.big))


if __name__ == "__main__":
    main()

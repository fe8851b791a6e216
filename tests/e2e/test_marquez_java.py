"""Tests of `clew serve` with Marquez's Java client: every read method for every entity."""

from __future__ import annotations

import os
import re
import runpy
import shutil
import subprocess
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.test_marquez_client import corpus, run_server
from tests.support.paths import ROOT
from tests.unit.api.marquez.conftest import Shop, dataset, event

from clew.data_dir import DataDir

GENERATE = runpy.run_path(str(ROOT / "bench" / "generate.py"))
SOURCES = ROOT / "tests" / "e2e" / "java"
ARTIFACT = "io.github.marquezproject:marquez-java:0.51.1"
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>clew</groupId><artifactId>clients</artifactId><version>1</version><dependencies><dependency>
<groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>
</dependency></dependencies></project>
"""


def download_client() -> Path:
    """Download the client and its dependencies from Maven Central, once; skip the test if this is impossible."""
    folder = ROOT / ".tools" / "marquez-java"
    if not list(folder.glob("marquez-java-*.jar")):
        maven = shutil.which("mvn")
        if maven is None:
            pytest.skip("Maven is not installed: set CLEW_MARQUEZ_JAVA to a folder with the jars")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "pom.xml").write_text(_POM.format(*ARTIFACT.split(":")))
        command = [maven, "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={folder}"]
        result = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True, timeout=300)
        if result.returncode:
            pytest.skip(f"{ARTIFACT} cannot be downloaded: {result.stdout[-300:]}")
    return folder


@pytest.fixture(scope="module")
def client_classes(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Compile the programs that use the client; return the class path."""
    compiler = shutil.which("javac")
    if compiler is None:
        pytest.skip("there is no Java compiler")
    configured = os.environ.get("CLEW_MARQUEZ_JAVA")
    jars = sorted((Path(configured) if configured else download_client()).rglob("*.jar"))
    classes = tmp_path_factory.mktemp("classes")
    class_path = os.pathsep.join(map(str, [classes, *jars]))
    sources = map(str, sorted(SOURCES.glob("*.java")))
    subprocess.run([compiler, "-cp", class_path, "-d", str(classes), *sources], check=True)
    return class_path


def run_client(class_path: str, program: str, *arguments: str) -> dict[str, tuple[int, int]]:
    """Run a program; return the successful and failed calls of each method."""
    command = ["java", "-Xmx256m", "-cp", class_path, program, *arguments]
    result = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    counts = {
        match[1]: (int(match[2]), int(match[3]))
        for match in re.finditer(r"^(\S.*)\t(\d+)\t(\d+)$", result.stdout, re.MULTILINE)
    }
    assert all(failed == 0 for _, failed in counts.values()), result.stdout
    return counts


def unusual_events() -> Iterator[dict[str, Any]]:
    """Yield events whose entities lack what most have: times, types, writers, URLs, parents with events."""
    bare = {"namespace": "no facets", "name": "räw/data:set"}
    untyped = dataset("untyped", facets={"schema": {"fields": [{"name": "a"}, {"name": "b", "type": None}]}})
    location = {"sourceCodeLocation": {"type": "git", "repoUrl": "git@host:shop.git", "path": "a.py", "version": "1"}}
    yield event("START", 1, "only-start", "a b", inputs=[bare], outputs=[untyped], job_facets=location, parent="none")
    yield event("FAIL", 2, "failed", "failing", inputs=[untyped], outputs=[bare])
    yield event("OTHER", 3, "other", "custom")
    yield {**event("COMPLETE", 4, "no-zone", "timeless", outputs=[bare]), "eventTime": "2026-01-01T10:00:00.5"}
    yield {**event("COMPLETE", 5, "date", "timeless", inputs=[bare]), "eventTime": "2026-01-01"}
    for text, source in (("odd", "not a url: {}|"), ("empty", "")):
        facets = {"dataSource": {"name": text, "uri": source}, "version": {"datasetVersion": "1"}}
        own = {"namespace": "sources", "name": text, "facets": facets}
        yield event("COMPLETE", 6, text, text, inputs=[own], outputs=[own])
    yield {
        "eventTime": "2026-01-01T11:00:00Z",
        "dataset": {**dataset("declared", "id"), "facets": {"lifecycleStateChange": {"lifecycleStateChange": "DROP"}}},
    }
    yield {
        "eventTime": "2026-01-01T11:00:00Z",
        "job": {"namespace": "shop", "name": "declared"},
        "inputs": [bare],
        "outputs": [untyped],
    }
    lineage = {"a": [("untyped", "b"), ("elsewhere", "z")]}
    yield event("COMPLETE", 7, "columns", "columns", outputs=[dataset("columns", "", lineage)])


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> DataDir:
    shop = Shop(tmp_path_factory.mktemp("java") / "home")
    shop.send([*corpus(), *unusual_events(), *islice(GENERATE["generate_events"](10_000, 7), 60)])
    with shop.client:
        shop.request("PUT", "/namespaces/by hand", 400, body={"ownerName": "ann"})
        shop.request("PUT", "/namespaces/by-hand", body={"ownerName": "ann"})
        shop.request("PUT", "/sources/by-hand", body={"type": "s3", "connectionUrl": "s3://lake"})
    shop.index_new_events()
    return shop.home


def test_all_reads_of_the_java_client(home: DataDir, client_classes: str) -> None:
    with run_server(home) as url:
        counts = run_client(client_classes, "MarquezReads", url)
    assert len(counts) == 22
    assert all(count > 0 for count, _ in counts.values())

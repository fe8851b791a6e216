"""Tests of unmodified producers that send to a collector, each in its own environment, with an API key."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import requests
from tests.support.paths import ROOT

from clew.server.auth import KeyFile, Scope

# dbt-core 1.12 cannot be installed from PyPI alone.
DBT = ("dbt-core<1.12", "dbt-duckdb", "openlineage-dbt")
DBT_PROJECT = {
    "dbt_project.yml": "name: shop\nprofile: shop\nversion: '1.0'\nmodel-paths: [models]\nseed-paths: [seeds]\n",
    "profiles.yml": "shop:\n  target: dev\n  outputs:\n    dev: {type: duckdb, path: shop.duckdb}\n",
    "seeds/raw_orders.csv": "id,customer,price\n1,ann,3\n2,bob,4\n3,ann,5\n",
    "models/orders.sql": "select id, customer, price * 2 as doubled from {{ ref('raw_orders') }}",
    "models/totals.sql": "select customer, sum(doubled) as total from {{ ref('orders') }} group by customer",
}
AIRFLOW = ("apache-airflow>=3", "apache-airflow-providers-openlineage", "apache-airflow-providers-standard")
AIRFLOW_DAGS = {
    "dags/shop.py": """
from datetime import datetime
from airflow.sdk import DAG
from airflow.providers.standard.operators.bash import BashOperator

with DAG("shop", start_date=datetime(2026, 1, 1), schedule=None):
    BashOperator(task_id="load", bash_command="true") >> BashOperator(task_id="count", bash_command="true")
"""
}


class Producer:
    """A project folder and an environment of a producer, and a data directory with keys."""

    def __init__(self, folder: Path, start_collector: Callable[..., Any]) -> None:
        self.home, self._project, self._environment = folder / "home", folder / "shop", folder / "env"
        self._start_collector = start_collector
        self.home.mkdir()
        keys = KeyFile(self.home / "keys.json")
        self.write_key, self._read_key = keys.add("producer", [Scope.WRITE]), keys.add("prometheus", [Scope.READ])

    def prepare(self, packages: tuple[str, ...], files: dict[str, str]) -> None:
        """Install packages, or skip the test, and write files."""
        uv = shutil.which("uv") or str(ROOT / ".tools" / "uv" / "bin" / "uv")
        if shutil.which(uv) is None:
            pytest.skip("uv is not installed")
        settings = {**os.environ, "UV_SYSTEM_CERTS": "1", "UV_NATIVE_TLS": "1"}
        create = ["venv", "--python", sys.executable, str(self._environment)]
        for arguments in (create, ["pip", "install", "--python", str(self._environment), *packages]):
            result = subprocess.run([uv, *arguments], capture_output=True, text=True, env=settings, check=False)
            if result.returncode:
                pytest.skip(f"{packages[0]} cannot be installed here: {result.stderr.strip()[-300:]}")
        for name, text in files.items():
            path = self._project / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def run(self, *commands: str, **settings: str) -> int:
        """Run programs of the environment in order while a collector runs; return the number of stored events.

        In settings, URL, KEY and FOLDER are replaced by the collector's URL, the key and the project folder.
        """
        with self._start_collector(self.home, "--require-key") as collector:
            values = {"URL": collector.url, "KEY": self.write_key, "FOLDER": str(self._project)}
            variables = {
                name: re.sub("URL|KEY|FOLDER", lambda match: values[match[0]], text) for name, text in settings.items()
            }
            path = f"{self._environment / 'bin'}:{os.environ['PATH']}"
            for command in commands:
                result = subprocess.run(
                    command.split(),
                    cwd=self._project,
                    env={**os.environ, "PATH": path, **variables},
                    executable=self._environment / "bin" / command.split()[0],
                    capture_output=True,
                    text=True,
                    timeout=400,
                    check=False,
                )
                assert result.returncode == 0, result.stdout + result.stderr
            headers = {"authorization": f"Bearer {self._read_key}"}
            metrics = requests.get(f"{collector.url}/metrics", headers=headers, timeout=20).text
        outcomes = dict(re.findall(r'events_total{outcome="(\w+)",stream="openlineage"} (\d+)', metrics))
        assert outcomes.keys() == {"stored"}
        return int(outcomes["stored"])


@pytest.fixture
def producer(tmp_path: Path, start_collector: Callable[..., Any]) -> Producer:
    return Producer(tmp_path, start_collector)


def test_dbt(producer: Producer, read_log: Callable[[Path], list[Any]]) -> None:
    producer.prepare(DBT, DBT_PROJECT)
    count = producer.run(
        "dbt seed --profiles-dir .",
        "dbt-ol run --profiles-dir .",
        OPENLINEAGE_URL="URL",
        OPENLINEAGE_API_KEY="KEY",
        OPENLINEAGE_NAMESPACE="shop",
        DBT_SEND_ANONYMOUS_USAGE_STATS="false",
    )
    events = read_log(producer.home)
    assert len(events) == count
    states = Counter((event["job"]["name"].rpartition(".")[2], event["eventType"]) for event in events)
    for model in ("orders", "totals"):
        assert (states[model, "START"], states[model, "COMPLETE"]) == (1, 1), states
    outputs = [output["facets"] for event in events for output in event["outputs"] if output["name"].endswith("totals")]
    lineage = next(facets["columnLineage"]["fields"] for facets in outputs if "columnLineage" in facets)
    assert {source["field"] for source in lineage["total"]["inputFields"]} == {"doubled"}


def test_airflow(producer: Producer, read_log: Callable[[Path], list[Any]]) -> None:
    producer.prepare(AIRFLOW, AIRFLOW_DAGS)
    transport = {"type": "http", "url": "URL", "auth": {"type": "api_key", "apiKey": "KEY"}}
    count = producer.run(
        "airflow db migrate",
        "airflow dags test shop",
        AIRFLOW_HOME="FOLDER",
        AIRFLOW__CORE__LOAD_EXAMPLES="false",
        AIRFLOW__OPENLINEAGE__TRANSPORT=json.dumps(transport),
        AIRFLOW__OPENLINEAGE__NAMESPACE="shop",
    )
    events = read_log(producer.home)
    assert len(events) == count
    states = {(event["job"]["namespace"], event["job"]["name"], event["eventType"]) for event in events}
    for task in ("shop.load", "shop.count"):
        assert {("shop", task, "START"), ("shop", task, "COMPLETE")} <= states

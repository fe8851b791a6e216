"""Tests of health, readiness and metrics of the long-running commands, and of the dashboard and alerts on them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml
from prometheus_client.parser import text_string_to_metric_families
from tests.support.event_generator import Scenario
from tests.support.paths import ROOT

from clew.collector.metrics import CollectorMetrics
from clew.data_dir import DataDir
from clew.pipeline.metrics import PipelineMetrics

pytestmark = pytest.mark.e2e

COMMANDS = {
    "collect": ("collect", "--port", "0"),
    "serve": ("serve", "--port", "0"),
    "serve and collect": ("serve", "--collect", "--port", "0", "--webhook", "http://127.0.0.1:9/"),
    "mcp": ("mcp", "--http", "--port", "0"),
    "watch": ("watch", "--metrics-port", "0"),
}


@contextmanager
def start(home: Path, *arguments: str) -> Iterator[str]:
    """Run a command until the end of the block; yield the URL that it serves."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("CLEW_", "OPENLINEAGE_"))}
    command = [sys.executable, "-m", "clew", *arguments, "--home", str(home)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stderr is not None
        try:
            lines = iter(process.stderr.readline, "")
            yield next(match[0] for line in lines if (match := re.search(r"http://[\d.]+:\d+", line)))
        finally:
            process.terminate()
            process.communicate(timeout=60)


@pytest.fixture(scope="module")
def metrics(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the output of `/metrics` of each command; of the pipeline, without a JVM."""
    texts = {}
    for name, arguments in COMMANDS.items():
        folder = tmp_path_factory.mktemp("home")
        scenario = Scenario(folder)
        scenario.run("load")
        scenario.index_events()
        with start(folder, *arguments) as url:
            assert requests.get(f"{url}/healthz", timeout=30).text == "ok\n", name
            ready = requests.get(f"{url}/readyz", timeout=30)
            assert (ready.status_code, ready.text) == (200, "ready\n"), name
            texts[name] = requests.get(f"{url}/metrics", timeout=30).text
    home = DataDir(tmp_path_factory.mktemp("home")).create()
    with PipelineMetrics(home).serve("127.0.0.1", 0) as port:
        texts["pipeline"] = requests.get(f"http://127.0.0.1:{port}/metrics", timeout=30).text
    return texts


def families(texts: dict[str, str]) -> dict[str, set[str]]:
    """Return the sample names of each metric that Prometheus stores, by name as documented."""
    return {
        f"{family.name}_total" if family.type == "counter" else family.name: _samples(family)
        for text in texts.values()
        for family in text_string_to_metric_families(text)
        if not family.name.endswith("_created")
    }


def _samples(family: Any) -> set[str]:
    suffixes = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}.get(family.type, ("",))
    return {f"{family.name}{suffix}" for suffix in suffixes}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_metrics(command: str, metrics: dict[str, str]) -> None:
    assert any(name.startswith(("clew_", "process_")) for name in families({"": metrics[command]}))


def test_every_metric_is_documented(metrics: dict[str, str]) -> None:
    names = {name for name in families(metrics) if name.startswith("clew_")}
    pages = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md"))
    documented = set(re.findall(r"^\| `(clew_\w+)`", pages, re.MULTILINE))
    assert names <= documented


def expressions() -> dict[str, str]:
    """Return the PromQL expressions of the dashboard and of the alerts, by title."""
    dashboard = json.loads((ROOT / "deploy" / "grafana" / "clew.json").read_text(encoding="utf-8"))
    rules = yaml.safe_load((ROOT / "deploy" / "helm" / "clew" / "files" / "alerts.yaml").read_text(encoding="utf-8"))
    panels = {
        f"{panel['title']} {target['refId']}": target["expr"]
        for panel in dashboard["panels"]
        for target in panel["targets"]
    }
    return panels | {rule["alert"]: rule["expr"] for group in rules["groups"] for rule in group["rules"]}


@pytest.fixture(scope="module")
def stored_names(metrics: dict[str, str]) -> set[str]:
    supervised = CollectorMetrics(ROOT)
    supervised.watch_pipeline(lambda: True, lambda: 0)
    found = families({**metrics, "up": supervised.render().decode()})
    # Added by Prometheus to each target.
    return {"up", *(name for names in found.values() for name in names)}


@pytest.mark.parametrize("title", expressions())
def test_metrics_of_the_dashboard_and_of_alerts_exist(title: str, stored_names: set[str]) -> None:
    expression = re.sub(r"\{[^}]*\}|\[[^]]*\]|\bby \([^)]*\)", "", expressions()[title])
    names = set(re.findall(r"\b(?:clew|process)_\w+|\bup\b", expression))
    assert names
    assert names <= stored_names


def test_labels_of_the_dashboard_and_of_alerts_exist(metrics: dict[str, str]) -> None:
    labels = {
        label
        for text in metrics.values()
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        for label in sample.labels
    }
    # Labels that counters get with the first event or request, and those that Prometheus adds.
    labels |= {"outcome", "stream", "status", "table", "endpoint", "instance", "job"}
    for expression in expressions().values():
        used = {name for group in re.findall(r"\bby \(([^)]*)\)", expression) for name in group.split(", ")}
        used |= set(re.findall(r"[{,](\w+)[=!]", expression))
        assert used <= labels, expression


def test_panels_do_not_overlap() -> None:
    dashboard = json.loads((ROOT / "deploy" / "grafana" / "clew.json").read_text(encoding="utf-8"))
    cells = [
        (x, y)
        for panel in dashboard["panels"]
        for position in [panel["gridPos"]]
        for x in range(position["x"], position["x"] + position["w"])
        for y in range(position["y"], position["y"] + position["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) == 23


def test_alerts_have_a_severity_and_a_summary() -> None:
    rules = yaml.safe_load((ROOT / "deploy" / "helm" / "clew" / "files" / "alerts.yaml").read_text(encoding="utf-8"))
    for group in rules["groups"]:
        for rule in group["rules"]:
            assert rule["labels"]["severity"] in {"warning", "critical"}
            assert set(rule["annotations"]) == {"summary", "description"}

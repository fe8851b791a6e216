"""dbt, unmodified, sends to a collector: an environment of its own, a project in DuckDB, an API key."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import requests

from clew.serving.grants import Scope
from clew.serving.keys import KeyFile

ROOT = Path(__file__).parent.parent.parent
# dbt-core 1.12 cannot be installed from PyPI alone.
PACKAGES = ("dbt-core<1.12", "dbt-duckdb", "openlineage-dbt")
PROJECT = {
    "dbt_project.yml": "name: shop\nprofile: shop\nversion: '1.0'\nmodel-paths: [models]\nseed-paths: [seeds]\n",
    "profiles.yml": "shop:\n  target: dev\n  outputs:\n    dev: {type: duckdb, path: shop.duckdb}\n",
    "seeds/raw_orders.csv": "id,customer,price\n1,ann,3\n2,bob,4\n3,ann,5\n",
    "models/orders.sql": "select id, customer, price * 2 as doubled from {{ ref('raw_orders') }}",
    "models/totals.sql": "select customer, sum(doubled) as total from {{ ref('orders') }} group by customer",
}


@pytest.fixture(scope="module")
def dbt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment with dbt."""
    uv = shutil.which("uv") or str(ROOT / ".tools" / "uv" / "bin" / "uv")
    if shutil.which(uv) is None:
        pytest.skip("there is no uv to install dbt with")
    folder = tmp_path_factory.mktemp("dbt") / "env"
    environment = {**os.environ, "UV_SYSTEM_CERTS": "1", "UV_NATIVE_TLS": "1"}
    for arguments in (
        ["venv", "--python", sys.executable, str(folder)],
        ["pip", "install", "--python", str(folder), *PACKAGES],
    ):
        ended = subprocess.run(
            [uv, *arguments], capture_output=True, text=True, env=environment, timeout=600, check=False
        )
        if ended.returncode:
            pytest.skip(f"dbt cannot be installed here: {ended.stderr.strip()[-300:]}")
    return folder / "bin"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, text in PROJECT.items():
        path = tmp_path / "shop" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "shop"


def test_what_dbt_does_is_in_the_log(
    dbt: Path, project: Path, collecting: Callable[..., Any], stored: Callable[[Path], list[Any]], tmp_path: Path
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    keys = KeyFile(home / "keys.json")
    sender, reader = keys.add("dbt", [Scope.WRITE]), keys.add("prometheus", [Scope.READ])
    with collecting(home, "--require-key") as collector:
        environment = {
            **os.environ,
            "PATH": f"{dbt}:{os.environ['PATH']}",
            "OPENLINEAGE_URL": collector.url,
            "OPENLINEAGE_API_KEY": sender,
            "OPENLINEAGE_NAMESPACE": "shop",
            "DBT_SEND_ANONYMOUS_USAGE_STATS": "false",
        }
        for program in (("dbt", "seed"), ("dbt-ol", "run")):
            command = [str(dbt / program[0]), program[1], "--profiles-dir", ".", "--project-dir", "."]
            ended = subprocess.run(
                command, cwd=project, env=environment, capture_output=True, text=True, timeout=300, check=False
            )
            assert ended.returncode == 0, ended.stdout + ended.stderr
        headers = {"authorization": f"Bearer {reader}"}
        figures = requests.get(f"{collector.url}/metrics", headers=headers, timeout=20).text
    events = stored(home)
    assert f'outcome="stored",stream="openlineage"}} {len(events)}.0' in figures, "none is a dead letter"
    states = Counter((event["job"]["name"].rpartition(".")[2], event["eventType"]) for event in events)
    for model in ("orders", "totals"):
        assert (states[model, "START"], states[model, "COMPLETE"]) == (1, 1), states
    outputs = [output for event in events for output in event["outputs"] if output["name"].endswith("totals")]
    (fields,) = [
        output["facets"]["columnLineage"]["fields"] for output in outputs if "columnLineage" in output["facets"]
    ][:1]
    assert {source["field"] for source in fields["total"]["inputFields"]} == {"doubled"}

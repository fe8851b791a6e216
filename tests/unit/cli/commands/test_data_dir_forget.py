"""Tests of `clew forget`: which entity a name is, and what is refused. Removal itself needs Spark."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from clew.cli.commands.data_dir import find_target
from clew.cli.main import cli
from clew.data_dir import DataDir
from clew.errors import ClewError, UsageError
from clew.events.erasure import ErasureKind, ErasureTarget
from clew.events.ids import event_id
from clew.events.streams import decode_event
from clew.index.extract.extractor import ChangeExtractor
from clew.index.writer import IndexWriter
from clew.query.names import UnknownNameError


@pytest.fixture
def home(tmp_path: Path) -> DataDir:
    """Create an index with datasets, an alias of one, a namespace and a session."""
    home = DataDir(tmp_path / "home").create()
    symlinks = {"symlinks": {"identifiers": [{"namespace": "hive", "name": "orders_view", "type": "TABLE"}]}}
    datasets = [
        {"namespace": "shop", "name": "a/orders", "facets": symlinks},
        {"namespace": "shop", "name": "b/orders"},
        {"namespace": "files", "name": "marketing"},
    ]
    event = {
        "eventTime": "2026-01-01T10:00:00Z",
        "run": {"runId": "0195486f-8a00-7000-8000-000000000001"},
        "job": {"namespace": "marketing", "name": "load"},
        "inputs": datasets,
        "outputs": [],
    }
    cell = {
        "event_type": "cell_execution_start",
        "session_id": "ab12cd34",
        "execution_id": "e1",
        "timestamp": "2026-01-01T10:00:00Z",
        "notebook": "nb.py",
    }
    extractor = ChangeExtractor()
    for seq, (stream, document) in enumerate([("openlineage", event), ("runtime", cell)]):
        body = json.dumps(document).encode()
        extractor.add(decode_event(stream, body), event_id(body), seq)
    with IndexWriter(home.index) as writer:
        writer.apply("test/0", extractor.changes())
    return home


def test_finds_datasets_with_aliases_namespaces_and_sessions(home: DataDir) -> None:
    dataset = ErasureTarget(ErasureKind.DATASET, names=(("hive", "orders_view"), ("shop", "a/orders")))
    for name in ("a/orders", "shop:a/orders", "dataset:shop:a/orders", "orders_view"):
        assert find_target(home, name, None) == dataset
    assert find_target(home, "shop", None) == ErasureTarget(ErasureKind.NAMESPACE, "shop")
    assert find_target(home, "ab12cd34", None) == ErasureTarget(ErasureKind.SESSION, "ab12cd34")


def test_a_name_of_several_entities_is_refused(home: DataDir) -> None:
    with pytest.raises(UsageError, match=r"'marketing' is the name of the namespace marketing and the dataset files"):
        find_target(home, "marketing", None)
    assert find_target(home, "marketing", ErasureKind.NAMESPACE).id == "marketing"
    assert find_target(home, "marketing", ErasureKind.DATASET).names == (("files", "marketing"),)
    with pytest.raises(UsageError, match="Pass the namespace as well"):
        find_target(home, "orders", None)
    with pytest.raises(UnknownNameError, match="There is no session 'marketing'"):
        find_target(home, "marketing", ErasureKind.SESSION)


def test_needs_an_index(tmp_path: Path) -> None:
    with pytest.raises(ClewError, match="There is no index"):
        find_target(DataDir(tmp_path), "a", None)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Missing the name"),
        (["--resume"], "There is no interrupted removal"),
        (["nothing"], "There is no dataset, session or namespace 'nothing'"),
    ],
)
def test_invalid_calls(arguments: list[str], message: str, home: DataDir) -> None:
    result = CliRunner().invoke(cli, ["forget", *arguments, "--home", str(home.root)])
    assert isinstance(result.exception, UsageError)
    assert message in str(result.exception)


def test_an_interrupted_removal_must_be_completed_first(home: DataDir) -> None:
    target = ErasureTarget(ErasureKind.NAMESPACE, "shop")
    request = {"target": msgspec.to_builtins(target), "requested_at": "2026-01-01T00:00:00+00:00"}
    (home.root / "forget.json").write_text(json.dumps(request))
    result = CliRunner().invoke(cli, ["forget", "marketing", "--home", str(home.root)])
    assert "The removal of the namespace shop was interrupted" in str(result.exception)
    assert "clew forget --resume" in str(result.exception)

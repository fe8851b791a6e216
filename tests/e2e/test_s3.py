"""Tests of a lake in a bucket from the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clew.data_dir import BucketUrl, DataDir
from clew.lake.lake import Lake
from clew.lake.manifest import LAKE_FORMAT_VERSION

Clew = Callable[..., Any]
KEYS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"}


@pytest.mark.parametrize(
    ("lake", "environment", "code", "message", "hint"),
    [
        ("s3://not-there/lake", {}, 1, "the bucket does not exist", "pass another with --lake"),
        (
            "s3://any/lake",
            {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"},
            1,
            "the object store cannot be reached",
            "AWS_ENDPOINT_URL",
        ),
        ("s3://any/lake", {"AWS_ALLOW_HTTP": "false"}, 1, "its endpoint uses http", "AWS_ALLOW_HTTP=true"),
        ("s3://any/my lake", {}, 2, "it does not name a bucket", "Use s3://bucket/prefix"),
        ("hdfs://any/lake", {}, 2, "it is neither a folder nor a bucket", "s3://bucket/prefix"),
    ],
)
def test_unusable_bucket_is_reported(
    lake: str,
    environment: dict[str, str],
    code: int,
    message: str,
    hint: str,
    s3_endpoint: str,
    tmp_path: Path,
    clew: Clew,
) -> None:
    defaults = {**KEYS, "AWS_ENDPOINT_URL": s3_endpoint, "AWS_ALLOW_HTTP": "true"}
    result = clew("pipeline", "status", "--home", tmp_path, "--lake", lake, **(defaults | environment))
    assert (result.returncode, result.stdout) == (code, "")
    assert message in result.stderr
    assert hint in result.stderr
    assert "Traceback" not in result.stderr


def test_commands_without_spark(bucket: BucketUrl, tmp_path: Path, clew: Clew) -> None:
    Lake(bucket).create_or_validate()
    home = DataDir(tmp_path).create()
    for command, text in {
        ("pipeline", "status"): "lineage_events",
        ("pipeline", "backfill"): "Nothing to backfill.",
        ("config",): str(bucket),
        ("doctor",): f"format {LAKE_FORMAT_VERSION} at {bucket}",
    }.items():
        result = clew(*command, "--home", home.root, CLEW_LAKE=str(bucket))
        assert "Traceback" not in result.stderr
        assert text in " ".join((result.stdout + result.stderr).split()), result
    result = clew("facets", "run", "nobody", "--home", home.root, "--lake", bucket)
    assert (result.returncode, result.stdout) == (1, "")
    assert "There are no facets of run 'nobody'" in result.stderr

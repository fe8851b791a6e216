"""A lake in a bucket, as someone meets it at the terminal: what is wrong is said in a sentence."""

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
    ("lake", "environment", "code", "sentence", "way_out"),
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
        ("gs://any/lake", {}, 2, "it is neither a folder nor S3", "s3://bucket/prefix"),
    ],
)
def test_a_bucket_that_cannot_be_used(
    lake: str,
    environment: dict[str, str],
    code: int,
    sentence: str,
    way_out: str,
    s3_endpoint: str,
    tmp_path: Path,
    clew: Clew,
) -> None:
    usual = {**KEYS, "AWS_ENDPOINT_URL": s3_endpoint, "AWS_ALLOW_HTTP": "true"}
    ended = clew("pipeline", "status", "--home", tmp_path, "--lake", lake, **(usual | environment))
    assert (ended.returncode, ended.stdout) == (code, "")
    assert sentence in ended.stderr
    assert way_out in ended.stderr
    assert "Traceback" not in ended.stderr


def test_commands_that_need_no_spark(bucket: BucketUrl, tmp_path: Path, clew: Clew) -> None:
    Lake(bucket).create_or_validate()
    home = DataDir(tmp_path).create()
    for command, told in {
        ("pipeline", "status"): "lineage_events",
        ("pipeline", "backfill"): "Nothing to backfill.",
        ("config",): str(bucket),
        ("doctor",): f"format {LAKE_FORMAT_VERSION} at {bucket}",
    }.items():
        ended = clew(*command, "--home", home.root, CLEW_LAKE=str(bucket))
        assert "Traceback" not in ended.stderr
        assert told in " ".join((ended.stdout + ended.stderr).split()), ended
    ended = clew("facets", "run", "nobody", "--home", home.root, "--lake", bucket)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "There are no facets of run 'nobody'" in ended.stderr

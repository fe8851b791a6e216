"""A lake in a bucket, as someone meets it at the terminal: what is wrong is said in a sentence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clew.home import BucketUrl, Home
from clew.lake.delta import Lake

Clew = Callable[..., Any]
KEYS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"}


@pytest.mark.parametrize(
    ("lake", "environment", "code", "sentence", "way_out"),
    [
        ("s3://not-there/lake", {}, 1, "there is no bucket of that name", "name another with --lake"),
        ("s3://any/lake", {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}, 1, "it cannot be reached", "AWS_ENDPOINT_URL"),
        ("s3://any/lake", {"AWS_ALLOW_HTTP": "false"}, 1, "its endpoint is http", "AWS_ALLOW_HTTP=true"),
        ("s3://any/my lake", {}, 2, "that names no place in a bucket", "Write s3://bucket/prefix"),
        ("gs://any/lake", {}, 2, "that is neither a folder nor S3", "s3://bucket/prefix"),
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
    Lake(bucket).prepare()
    home = Home(tmp_path).create()
    for command, told in {
        ("pipeline", "status"): "lineage_events",
        ("pipeline", "backfill"): "All events have their facets",
        ("config",): str(bucket),
        ("doctor",): f"format 1 at {bucket}",
    }.items():
        ended = clew(*command, "--home", home.root, CLEW_LAKE=str(bucket))
        assert "Traceback" not in ended.stderr
        assert told in " ".join((ended.stdout + ended.stderr).split()), ended
    ended = clew("facets", "run", "nobody", "--home", home.root, "--lake", bucket)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "There are no facets of a run 'nobody'" in ended.stderr

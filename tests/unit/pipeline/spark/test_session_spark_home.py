"""Tests of SPARK_HOME during the start of a session."""

from __future__ import annotations

import os
from pathlib import Path

import pyspark
import pytest

from clew.pipeline.spark import session
from clew.pipeline.spark.session import spark_home_without_zip


def test_is_the_installed_spark_without_the_python_zip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    with spark_home_without_zip():
        home = Path(os.environ["SPARK_HOME"])
        assert (home / "jars").samefile(Path(pyspark.__file__).parent / "jars")
        assert (home / "bin" / "spark-submit").is_file()
        assert not (home / "python").exists()
    assert "SPARK_HOME" not in os.environ


def test_does_not_override_spark_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", "elsewhere")
    with spark_home_without_zip():
        assert os.environ["SPARK_HOME"] == "elsewhere"
    assert os.environ["SPARK_HOME"] == "elsewhere"


def test_sets_nothing_if_links_cannot_be_created(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    (tmp_path / "jars").touch()
    monkeypatch.setattr(session, "temporary_folder", lambda _: tmp_path)
    session._symlinked_spark_home.cache_clear()
    with spark_home_without_zip():
        assert "SPARK_HOME" not in os.environ
    session._symlinked_spark_home.cache_clear()

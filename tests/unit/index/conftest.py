"""What tests of the index share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from clew.index.sink import IndexSink


@pytest.fixture(scope="module")
def sink(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IndexSink]:
    with IndexSink(tmp_path_factory.mktemp("index") / "index.sqlite") as opened:
        # Thousands of small transactions, none of which has to survive.
        opened._database.execute("pragma synchronous = off")
        opened._database.execute("pragma journal_mode = memory")
        yield opened

"""Tests of listening on a port."""

from __future__ import annotations

import pytest

from clew.errors import ClewError, UsageError
from clew.server.run import listen, listener_url


def test_port_zero_selects_a_free_port() -> None:
    with listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        assert port > 0
        assert listener_url(listener) == f"http://127.0.0.1:{port}/"


def test_reports_a_port_in_use() -> None:
    with listen("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with pytest.raises(ClewError, match=f"Port {port} on 127.0.0.1 is in use") as raised:
            listen("127.0.0.1", port)
    assert "--port" in str(raised.value)


@pytest.mark.parametrize(("host", "port"), [("127.0.0.1", 65536), ("127.0.0.1", -1), ("no such host", 0)])
def test_rejects_invalid_hosts_and_ports(host: str, port: int) -> None:
    with pytest.raises(UsageError):
        listen(host, port)

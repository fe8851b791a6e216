"""A client for the API of `clew serve`: `Client` for scripts and notebooks, `AsyncClient` for asyncio.

    with clew.Client("http://127.0.0.1:8777") as client:
        result = client.send(requests.lineage_request("dataset:file:/data/orders.csv", direction="downstream"))

Each request of `clew.client.requests` is also a method of both clients: `client.lineage(…)`.
"""

from clew.client.client import AsyncClient, Client
from clew.client.requests import ApiError

__all__ = ["ApiError", "AsyncClient", "Client"]

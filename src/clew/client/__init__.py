"""A client for the API of `clew serve`: `Client` for scripts and notebooks, `AsyncClient` for asyncio.

    with clew.Client("http://127.0.0.1:8777") as client:
        found = client.ask(questions.lineage("dataset:file:/data/orders.csv", direction="downstream"))

Every question of `clew.client.questions` is a method of both, too, and gives the same answer.
"""

from clew.client.asking import AsyncClient, Client
from clew.client.questions import AnswerError

__all__ = ["AnswerError", "AsyncClient", "Client"]

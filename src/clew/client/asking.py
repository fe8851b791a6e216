"""Clients that ask a server: the same questions, in a thread or in asyncio."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Generic, ParamSpec, Self, TypeVar, overload

import httpx2

from clew.client import questions
from clew.client.questions import AnswerError, Question

P = ParamSpec("P")
T = TypeVar("T")

_SECONDS = 30.0


class _Asked(Generic[P, T]):
    """A question as a method: called on a client, it is asked at once; on an async one, it can be awaited."""

    def __init__(self, question: Callable[P, Question[T]]) -> None:
        self._question = question
        self.__doc__ = question.__doc__

    @overload
    def __get__(self, client: Client, kind: type[Client] | None = None) -> Callable[P, T]: ...

    @overload
    def __get__(self, client: AsyncClient, kind: type[AsyncClient] | None = None) -> Callable[P, Awaitable[T]]: ...

    @overload
    def __get__(self, client: None, kind: type[Any] | None = None) -> Self: ...

    def __get__(self, client: Client | AsyncClient | None, kind: type[Any] | None = None) -> Any:
        if client is None:
            return self
        ask: Callable[[Question[T]], Any] = client.ask

        def asked(*args: P.args, **kwargs: P.kwargs) -> Any:
            return ask(self._question(*args, **kwargs))

        asked.__doc__ = self.__doc__
        return asked


class _Questions:
    """All questions."""

    lineage = _Asked(questions.lineage)
    path = _Asked(questions.path)
    impact = _Asked(questions.impact)
    diff = _Asked(questions.diff)
    search = _Asked(questions.search)
    dataset = _Asked(questions.dataset)
    job = _Asked(questions.job)
    run = _Asked(questions.run)
    datasets = _Asked(questions.datasets)
    jobs = _Asked(questions.jobs)
    runs = _Asked(questions.runs)
    facets = _Asked(questions.facets)
    facet_history = _Asked(questions.facet_history)
    status = _Asked(questions.status)


class Client(_Questions):
    """Asks a server, and waits. Give `http` to use a client of your own: another transport, a header, a proxy."""

    def __init__(self, url: str, *, http: httpx2.Client | None = None) -> None:
        self._url = url.rstrip("/")
        self._http = http or httpx2.Client(timeout=_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of connections."""
        self._http.close()

    def ask(self, question: Question[T]) -> T:
        """The answer to a question."""
        try:
            response = self._http.get(f"{self._url}{question.path}", params=question.parameters)
        except httpx2.TransportError as fault:
            raise _unreachable(self._url, fault) from fault
        return question.read(response.status_code, response.content)


class AsyncClient(_Questions):
    """The same for asyncio."""

    def __init__(self, url: str, *, http: httpx2.AsyncClient | None = None) -> None:
        self._url = url.rstrip("/")
        self._http = http or httpx2.AsyncClient(timeout=_SECONDS)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Let go of connections."""
        await self._http.aclose()

    async def ask(self, question: Question[T]) -> T:
        """The answer to a question."""
        try:
            response = await self._http.get(f"{self._url}{question.path}", params=question.parameters)
        except httpx2.TransportError as fault:
            raise _unreachable(self._url, fault) from fault
        return question.read(response.status_code, response.content)


def _unreachable(url: str, fault: Exception) -> AnswerError:
    message = f"The server {url} does not answer: {str(fault) or type(fault).__name__}."
    return AnswerError(message, status=0, hint="Start it with `clew serve`, or name another address.")

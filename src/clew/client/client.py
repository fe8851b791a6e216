"""HTTP clients of the API, synchronous and for asyncio."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Generic, ParamSpec, Self, TypeVar, overload

import httpx2

from clew.client import requests
from clew.client.requests import ApiError, ApiRequest

P = ParamSpec("P")
T = TypeVar("T")

_TIMEOUT_SECONDS = 30.0


class _Endpoint(Generic[P, T]):
    """A request as a method of both clients; on the async client it returns an awaitable."""

    def __init__(self, build_request: Callable[P, ApiRequest[T]]) -> None:
        self._build_request = build_request
        self.__doc__ = build_request.__doc__

    @overload
    def __get__(self, client: Client, owner: type[Client] | None = None) -> Callable[P, T]: ...

    @overload
    def __get__(self, client: AsyncClient, owner: type[AsyncClient] | None = None) -> Callable[P, Awaitable[T]]: ...

    @overload
    def __get__(self, client: None, owner: type[Any] | None = None) -> Self: ...

    def __get__(self, client: Client | AsyncClient | None, owner: type[Any] | None = None) -> Any:
        if client is None:
            return self
        send: Callable[[ApiRequest[T]], Any] = client.send

        def call(*args: P.args, **kwargs: P.kwargs) -> Any:
            return send(self._build_request(*args, **kwargs))

        call.__doc__ = self.__doc__
        return call


class _Endpoints:
    """API endpoints as methods."""

    lineage = _Endpoint(requests.lineage_request)
    path = _Endpoint(requests.path_request)
    impact = _Endpoint(requests.impact_request)
    diff = _Endpoint(requests.diff_request)
    search = _Endpoint(requests.search_request)
    dataset = _Endpoint(requests.dataset_request)
    job = _Endpoint(requests.job_request)
    run = _Endpoint(requests.run_request)
    datasets = _Endpoint(requests.datasets_request)
    jobs = _Endpoint(requests.jobs_request)
    runs = _Endpoint(requests.runs_request)
    facets = _Endpoint(requests.facets_request)
    facet_history = _Endpoint(requests.facet_history_request)
    status = _Endpoint(requests.status_request)


class Client(_Endpoints):
    """Synchronous API client; pass `http` for a custom transport, headers or a proxy."""

    def __init__(self, url: str, *, http: httpx2.Client | None = None) -> None:
        self._url = url.rstrip("/")
        self._http = http or httpx2.Client(timeout=_TIMEOUT_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def send(self, request: ApiRequest[T]) -> T:
        """Send a request and return the decoded response."""
        try:
            response = self._http.get(f"{self._url}{request.path}", params=request.params)
        except httpx2.TransportError as error:
            raise _unreachable(self._url, error) from error
        return request.decode_response(response.status_code, response.content)


class AsyncClient(_Endpoints):
    """API client for asyncio; pass `http` for a custom transport, headers or a proxy."""

    def __init__(self, url: str, *, http: httpx2.AsyncClient | None = None) -> None:
        self._url = url.rstrip("/")
        self._http = http or httpx2.AsyncClient(timeout=_TIMEOUT_SECONDS)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def send(self, request: ApiRequest[T]) -> T:
        """Send a request and return the decoded response."""
        try:
            response = await self._http.get(f"{self._url}{request.path}", params=request.params)
        except httpx2.TransportError as error:
            raise _unreachable(self._url, error) from error
        return request.decode_response(response.status_code, response.content)


def _unreachable(url: str, error: Exception) -> ApiError:
    message = f"Cannot reach the server {url}: {str(error) or type(error).__name__}."
    return ApiError(message, status=0, hint="Start it with `clew serve`, or pass another URL.")

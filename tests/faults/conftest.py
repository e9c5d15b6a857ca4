"""A way to the server that fails on demand."""

from collections.abc import AsyncIterator

import pytest

from benchmarks.proxy import Proxy, proxied

from ..conftest import Server, database_of


@pytest.fixture
async def proxy(server: Server, database_url: str) -> AsyncIterator[Proxy]:
    """A proxy in front of the server; it ends before the database is emptied, which waits for its connections."""
    async with proxied(server.params) as proxy:
        yield proxy


@pytest.fixture
def proxy_url(server: Server, proxy: Proxy, database_url: str) -> str:
    """The superuser's address of an empty store, through the proxy."""
    return server.url(database_of(database_url), host="127.0.0.1", port=str(proxy.port))

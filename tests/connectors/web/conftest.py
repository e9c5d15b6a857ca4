"""One browser and one set of sites for the tests of a module."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from memory_context import WebConnector

from ...support.sites import Sites, served_sites
from ...support.web import new_connector


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def web(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[WebConnector]:
    connector = new_connector(folder=str(tmp_path_factory.mktemp("files")))
    await connector.on_start()
    yield connector
    await connector.on_stop()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sites() -> AsyncIterator[Sites]:
    async with served_sites() as running:
        yield running

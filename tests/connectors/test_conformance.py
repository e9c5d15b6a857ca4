"""The project's own connectors pass the public checks."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from memory_context import Connector, EditorConnector, FileSystemConnector
from memory_context.testing import CONNECTOR_CHECKS

from ..support.web import new_connector


@pytest.mark.parametrize("check", CONNECTOR_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("connector", [EditorConnector, FileSystemConnector])
async def test_connector_passes(
    check: Callable[[Connector], Awaitable[None]], connector: Callable[[str], Connector], tmp_path: Path
) -> None:
    await check(connector(str(tmp_path)))


async def test_web_connector_passes() -> None:
    web = new_connector()
    for check in CONNECTOR_CHECKS:
        await check(web)

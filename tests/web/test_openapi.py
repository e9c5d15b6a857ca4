"""Whatever the description of the API allows, and much that it does not, is answered as the description says."""

import asyncio
from contextlib import suppress
from typing import Any

import httpx
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode

from memory_context import MemoryStore
from memory_context.surfaces.web import ChatLimits, create_app

from .conftest import Model, assistant

_EXAMPLES = 30


def test_generated_requests_get_only_described_responses(database_url: str):
    """Requests made from the description, valid and not: no 5xx, no status or media type that is not described."""
    store = MemoryStore(database_url)
    limits = ChatLimits(requests_per_minute=1_000_000)
    app = create_app(store, assistant(Model()), agents=["assistant"], allow_anonymous=True, limits=limits)
    loop = asyncio.new_event_loop()
    client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://chat")
    lifespan = app.router.lifespan_context(app)
    loop.run_until_complete(lifespan.__aenter__())
    schema = schemathesis.openapi.from_dict(app.openapi())
    tried: dict[str, set[int]] = {}
    try:
        for operation in (result.ok() for result in schema.get_all_operations()):
            for mode in GenerationMode:
                statuses = tried.setdefault(operation.label, set())
                with suppress(Unsatisfiable):  # where nothing can be wrong with a request
                    _try(operation.as_strategy(generation_mode=mode), client, loop, statuses)
    finally:
        loop.run_until_complete(lifespan.__aexit__(None, None, None))
        loop.run_until_complete(client.aclose())
        loop.run_until_complete(store.close())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
    assert len(tried) == 18
    assert {200, 422} <= tried["POST /api/chat"]
    assert all(tried.values())


def _try(strategy: Any, client: httpx.AsyncClient, loop: asyncio.AbstractEventLoop, statuses: set[int]) -> None:
    @settings(
        max_examples=_EXAMPLES // 2,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=strategy)
    def run(case: Any) -> None:
        request = case.as_transport_kwargs(base_url="http://chat")
        request.pop("cookies", None)
        if "data" in request:
            request["content"] = request.pop("data")
        response = loop.run_until_complete(client.request(**request))
        statuses.add(response.status_code)
        assert response.status_code < 500, response.text
        responses = case.operation.definition.raw["responses"]
        assert str(response.status_code) in responses, (request, response.text)
        if response.status_code >= 400:
            assert response.headers["content-type"] == "application/problem+json"
            assert response.json()["status"] == response.status_code

    run()

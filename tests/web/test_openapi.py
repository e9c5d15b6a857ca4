"""Whatever the description of the API allows, and much that it does not, is answered as the description says."""

import asyncio
from contextlib import suppress
from typing import Any

import httpx
import pytest
import schemathesis
from fastapi import FastAPI
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import Case, GenerationMode

from memory_context import MemoryStore
from memory_context.surfaces.web import ChatLimits, create_app

from .conftest import Model, assistant

_EXAMPLES = 6
"""Of each operation and mode."""


@pytest.mark.thorough
def test_generated_requests_get_only_described_responses(database_url: str):
    """Requests made from the description, valid and not: no 5xx, no status or media type that is not described."""
    store = MemoryStore(database_url)
    limits = ChatLimits(requests_per_minute=1_000_000)
    app = create_app(store, assistant(Model()), agents=["assistant"], allow_anonymous=True, limits=limits)
    schema = schemathesis.openapi.from_dict(app.openapi())
    # made first, without a server: each is sent once
    cases = [
        case
        for operation in (result.ok() for result in schema.get_all_operations())
        for mode in GenerationMode
        for case in _cases(operation, mode)
    ]
    tried = asyncio.run(_send(app, store, cases))
    assert len(tried) == 17
    assert {200, 422} <= tried["POST /api/chat"]


def _cases(operation: Any, mode: GenerationMode) -> list[Case]:
    made: list[Case] = []

    @settings(
        max_examples=_EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def make(case: Case) -> None:
        made.append(case)

    with suppress(Unsatisfiable):  # where nothing can be wrong with a request
        make()
    return made


async def _send(app: FastAPI, store: MemoryStore, cases: list[Case]) -> dict[str, set[int]]:
    tried: dict[str, set[int]] = {}
    client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://chat")
    async with store, app.router.lifespan_context(app), client:
        for case in cases:
            request = case.as_transport_kwargs(base_url="http://chat")
            request.pop("cookies", None)
            if "data" in request:
                request["content"] = request.pop("data")
            response = await client.request(**request)
            tried.setdefault(case.operation.label, set()).add(response.status_code)
            assert response.status_code < 500, response.text
            described = case.operation.definition.raw["responses"]
            assert str(response.status_code) in described, (request, response.text)
            if response.status_code >= 400:
                assert response.json()["detail"]
            elif response.content:
                media_type = response.headers["content-type"].partition(";")[0]
                assert media_type in described[str(response.status_code)]["content"]
    return tried

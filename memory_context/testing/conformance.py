"""Checks for every embedder, compactor and connector; parametrise your tests with them.

@pytest.mark.parametrize("check", EMBEDDER_CHECKS, ids=lambda check: check.__name__)
async def test_my_embedder(check):
    await check(MyEmbedder())
"""

import asyncio
import json
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import cast

from autogen_core import ComponentBase, ComponentLoader, ComponentModel, Image
from pydantic import BaseModel

from memory_context.connectors.host import ConnectorHost
from memory_context.connectors.protocols import Connector, ConnectorObservation
from memory_context.foundation.compactors.compactor import Compactor, Hint, Result
from memory_context.foundation.compactors.registry import contract_violation
from memory_context.foundation.embeddings.embedder import Embedder, Purpose, check_embedder, embed_checked
from memory_context.foundation.policy import ConnectorsPolicy
from memory_context.foundation.tokens import default_token_counter

__all__ = ["COMPACTOR_CHECKS", "CONNECTOR_CHECKS", "EMBEDDER_CHECKS"]

_STATE_CHARACTERS = 500_000
_PURPOSES: tuple[Purpose, ...] = ("document", "query")
_HARD_TEXTS = ("", " ", "x", "naïve café", "東京は日本の首都です", "🙂" * 50, "word " * 20_000, "a" * 100_000, "\r\n\t")
_RESULTS = (
    *_HARD_TEXTS,
    "\x00 \ud800 [MemoryRef: not_a_key]",
    json.dumps([{"id": number, "name": f"row {number}"} for number in range(2000)]),
    "\n".join(f"2026-01-01 ERROR line {number} failed" for number in range(3000)),
)


async def embedder_has_usable_name_and_dimensions(embedder: Embedder) -> None:
    """The name is printable; Postgres can store the dimensions."""
    check_embedder(embedder)


async def embedder_gives_finite_vector_of_its_dimensions_for_hard_texts(embedder: Embedder) -> None:
    """Empty, blank, long and non-Latin texts."""
    for purpose in _PURPOSES:
        vectors = await embed_checked(embedder, _HARD_TEXTS, purpose)
        assert len(vectors) == len(_HARD_TEXTS), f"{len(vectors)} vectors for {len(_HARD_TEXTS)} texts"


async def embedder_keeps_order_of_texts(embedder: Embedder) -> None:
    """A text's vector is independent of other texts and concurrent calls."""
    texts = [f"{word} number {number}" for number, word in enumerate(("owls", "invoices", "trains", "granite") * 8)]
    together, *alone = await asyncio.gather(
        embed_checked(embedder, texts, "document"), *(embed_checked(embedder, [text], "document") for text in texts)
    )
    for text, one, (other,) in zip(texts, together, alone, strict=True):
        assert _cosine(one, other) > 0.99, f"{text!r} has another vector among other texts than alone"


async def compactor_answers_within_limits(compactor: Compactor) -> None:
    """Status, description and facts are str; facts and excerpt fit the hint; passages follow the content's order."""
    for result, hint in _cases():
        problem = contract_violation(compactor.compact(result, hint), result, hint)
        assert problem is None, f"{problem} (content {result.content[:40]!r}, {hint!r})"


async def compactor_is_deterministic(compactor: Compactor) -> None:
    """Equal input gives equal answers: views are compared by bytes."""
    for result, hint in _cases():
        first, second = compactor.compact(result, hint), compactor.compact(result, hint)
        assert first == second, f"two answers for one result: {first!r} and {second!r}"


EMBEDDER_CHECKS: Sequence[Callable[[Embedder], Awaitable[None]]] = (
    embedder_has_usable_name_and_dimensions,
    embedder_gives_finite_vector_of_its_dimensions_for_hard_texts,
    embedder_keeps_order_of_texts,
)
"""Each takes an embedder."""

COMPACTOR_CHECKS: Sequence[Callable[[Compactor], Awaitable[None]]] = (
    compactor_answers_within_limits,
    compactor_is_deterministic,
)
"""Each takes a compactor."""


def _cases() -> list[tuple[Result, Hint]]:
    hints = (Hint(), Hint(task="Which rows failed?", facts_limit_tokens=20, excerpt_limit_tokens=100))
    return [(Result(content, "run_shell", "{}"), hint) for content in _RESULTS for hint in hints]


def _cosine(one: Sequence[float] | None, other: Sequence[float] | None) -> float:
    return 1.0 if one == other else math.fsum(a * b for a, b in zip(one or (), other or (), strict=True))


async def connector_can_be_source_of_messages(connector: Connector) -> None:
    """Its id holds letters, digits, `_` and `-` only."""
    ConnectorHost([connector], ConnectorsPolicy(), default_token_counter())


async def connector_starts_and_stops_again(connector: Connector) -> None:
    """A stop without a start, and a second one, do nothing; a second start opens it again."""
    await connector.on_stop()
    for _ in range(2):
        await connector.on_start()
        await connector.get_observations()
        await connector.on_stop()
        await connector.on_stop()


async def connector_starts_twice(connector: Connector) -> None:
    """A start of an open connector does nothing: contexts may share it."""
    try:
        await connector.on_start()
        await connector.get_observations()
        await connector.on_start()
        assert not await connector.get_observations(), "a second start brought observations"
    finally:
        await connector.on_stop()


async def connector_is_loaded_from_component_data(connector: Connector) -> None:
    """A connector that is a component loads as an equal one, which is not open."""
    if isinstance(connector, ComponentBase):
        dumped = cast("ComponentBase[BaseModel]", connector).dump_component()
        model = ComponentModel.model_validate_json(dumped.model_dump_json())
        again = ComponentLoader.load_component(model, object)
        assert isinstance(again, Connector), f"{again!r} is no connector"
        assert again.id == connector.id, f"the loaded one has id {again.id!r}, not {connector.id!r}"
        await again.on_stop()


async def connector_renders_observations_and_state(connector: Connector) -> None:
    """Observations name the connector; what they and the state render are texts and images."""
    await connector.on_start()
    try:
        for one in await connector.get_observations():
            assert isinstance(one, ConnectorObservation), f"{one!r} is no observation"
            assert one.source_connector_id == connector.id, f"{one!r} names another connector"
            _assert_elements(one.render())
        _assert_elements(await connector.render_current_state())
    finally:
        await connector.on_stop()


async def connector_saves_state_as_json(connector: Connector) -> None:
    """A state that is saved is JSON of at most 500,000 characters, and can be loaded before the start."""
    save, load = getattr(connector, "save_state", None), getattr(connector, "load_state", None)
    assert (save is None) == (load is None), "save_state and load_state belong together"
    await connector.on_start()
    await connector.get_observations()
    try:
        saved = None if save is None else json.dumps(save())
    finally:
        await connector.on_stop()
    if saved is not None and load is not None:
        assert len(saved) <= _STATE_CHARACTERS, f"{len(saved):,} characters of state are not archived"
        load(json.loads(saved))
        await connector_renders_observations_and_state(connector)


def _assert_elements(rendered: Sequence[object]) -> None:
    for one in rendered:
        assert isinstance(one, (str, Image)), f"{one!r} is neither a text nor an image"


CONNECTOR_CHECKS: tuple[Callable[[Connector], Awaitable[None]], ...] = (
    connector_can_be_source_of_messages,
    connector_starts_and_stops_again,
    connector_starts_twice,
    connector_is_loaded_from_component_data,
    connector_renders_observations_and_state,
    connector_saves_state_as_json,
)
"""Each check takes a connector that was not started."""

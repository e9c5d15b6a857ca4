"""The host of connectors: order, limits, and connectors that hang, raise or flood."""

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

import pytest
from autogen_core import Image
from PIL import Image as Pictures

from memory_context.connectors import ConnectorHost, ConnectorObservation, Element, Noticed, TextObservation
from memory_context.policy import ConnectorsPolicy
from memory_context.tokens import default_token_counter

PICTURE = Image(Pictures.new("RGB", (4, 4)))


class Scripted:
    """A connector that answers as told."""

    def __init__(
        self,
        connector_id: str,
        observe: Callable[[], Awaitable[Any]] | None = None,
        show: Callable[[], Awaitable[Any]] | None = None,
        start: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.id = connector_id
        self.state_limit_tokens = 0
        self.events: list[str] = []
        self._observe, self._show, self._start = observe, show, start

    async def on_start(self) -> None:
        self.events.append("start")
        if self._start is not None:
            await self._start()

    async def on_stop(self) -> None:
        self.events.append("stop")

    def tools(self) -> list[Any]:
        return []

    async def get_observations(self) -> Any:
        self.events.append("observe")
        return [TextObservation(self.id, f"{self.id} changed")] if self._observe is None else await self._observe()

    async def render_current_state(self) -> Sequence[Element]:
        return [f"{self.id} is well"] if self._show is None else await self._show()


class Hostile:
    """An observation that cannot be rendered."""

    source_connector_id = "b"

    def render(self) -> list[Element]:
        raise RuntimeError("no")


def host_of(*connectors: Scripted, seconds: float = 10.0, **others: Any) -> ConnectorHost:
    policy = ConnectorsPolicy(timeout_seconds=seconds, state_limit_tokens=100)
    return ConnectorHost(connectors, policy, default_token_counter(), **others)


async def forever() -> Any:
    while True:  # ignores cancellation as a stuck browser does
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if time.monotonic() > forever.until:  # type: ignore[attr-defined]
                raise


forever.until = 0.0  # type: ignore[attr-defined]


async def broken() -> Any:
    raise RuntimeError("broken")


def giving(value: Any) -> Callable[[], Awaitable[Any]]:
    async def give() -> Any:
        return value

    return give


async def test_direct_observations_come_first_then_connectors_in_order() -> None:
    host = host_of(Scripted("b"), Scripted("a"))
    await host.start()
    noticed = await host.notice([TextObservation("a", "the click", images=(PICTURE,))])
    assert noticed == [
        Noticed("a", ("the click", PICTURE)),
        Noticed("b", ("b changed",)),
        Noticed("a", ("a changed",)),
    ]


@pytest.mark.parametrize("trouble", [forever, broken, giving(3), giving([Hostile(), 7])])
async def test_connector_in_trouble_hides_no_other(trouble: Callable[[], Awaitable[Any]]) -> None:
    host = host_of(Scripted("a"), Scripted("b", trouble), Scripted("c"), seconds=1.0)
    await host.start()
    assert [one.connector_id for one in await host.notice()] == ["a", "c"]


async def test_connector_that_still_hangs_is_not_asked_again() -> None:
    stuck = Scripted("b", forever)
    host = host_of(stuck, Scripted("c"), seconds=0.5)
    forever.until = time.monotonic() + 60  # type: ignore[attr-defined]
    await host.start()
    await host.notice()
    await host.notice()
    forever.until = 0.0  # type: ignore[attr-defined]
    assert stuck.events == ["start", "observe"]
    assert [one.elements[0] for one in await host.states()] == ["[Error: Could not render state for b]", "c is well"]


async def test_observation_that_cannot_be_rendered_is_left_out() -> None:
    some: list[ConnectorObservation] = [TextObservation("b", "one"), Hostile(), TextObservation("b", "two")]
    host = host_of(Scripted("b", giving(some)))
    await host.start()
    assert await host.notice() == [Noticed("b", ("one", "two"))]


async def test_endless_observations_are_cut() -> None:
    def endless() -> Iterable[ConnectorObservation]:
        return (TextObservation("b", str(number)) for number in itertools.count())

    host = host_of(Scripted("b", giving(endless())))
    await host.start()
    (noticed,) = await host.notice()
    assert len(noticed.elements) == 201
    assert "the others are left out" in str(noticed.elements[-1])


async def test_failed_state_says_so_and_an_empty_one_is_left_out() -> None:
    host = host_of(Scripted("a", show=broken), Scripted("b", show=giving([])), Scripted("c"))
    await host.start()
    assert [(one.connector_id, one.elements) for one in await host.states()] == [
        ("a", ("[Error: Could not render state for a]",)),
        ("c", ("c is well",)),
    ]


async def test_states_share_the_limit() -> None:
    long = giving(["word " * 5000, PICTURE])
    connectors = Scripted("a", show=long), Scripted("b", show=long)
    host = host_of(*connectors)
    await host.start()
    states = await host.states()
    assert sum(one.tokens for one in states) <= 120  # the limit, and a note on each cut
    assert [one.elements[1] for one in states] == [PICTURE, PICTURE]
    assert [one.state_limit_tokens for one in connectors] == [50, 50]


async def test_only_active_connectors_are_asked() -> None:
    host = host_of(Scripted("a"), Scripted("b"), active=lambda: ["b", "unknown"])
    await host.start()
    assert [one.connector_id for one in await host.notice()] == ["b"]


async def test_connector_that_failed_to_start_is_tried_again() -> None:
    starts = iter([broken, giving(None)])
    late = Scripted("a", start=lambda: next(starts)())
    host = host_of(late)
    await host.start()
    assert await host.notice() == []
    await host.start()
    assert [one.connector_id for one in await host.notice()] == ["a"]
    await host.stop()
    assert late.events == ["start", "start", "observe", "stop"]


@pytest.mark.parametrize("ids", [("a", "a"), ("a b",), ("",)])
def test_ids_must_be_unique_sources(ids: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="connector"):
        host_of(*map(Scripted, ids))

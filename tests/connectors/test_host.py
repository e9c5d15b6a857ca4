"""The host of connectors: order, limits, and connectors that hang, raise or flood."""

import asyncio
import itertools
import sys
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from autogen_core import Image
from PIL import Image as Pictures

from memory_context.connectors.host import ConnectorHost, fair_shares
from memory_context.connectors.protocols import (
    ConnectorObservation,
    ConnectorState,
    Element,
    Noticed,
    TextObservation,
)
from memory_context.foundation.errors import ConnectorError
from memory_context.foundation.policy import ConnectorsPolicy
from memory_context.foundation.tokens import default_token_counter

from ..support.waiting import soon

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


class Rendered:
    """An observation whose rendering is a function."""

    source_connector_id = "b"

    def __init__(self, render: Callable[[], Any]) -> None:
        self.render = render


def host_of(*connectors: Scripted, **others: Any) -> ConnectorHost:
    policy = ConnectorsPolicy(state_limit_tokens=100)
    return ConnectorHost(connectors, policy, default_token_counter(), **others)


async def forever() -> Any:
    await asyncio.Event().wait()


def raising(error: BaseException) -> Callable[[], Awaitable[Any]]:
    async def fail() -> Any:
        raise error

    return fail


broken = raising(RuntimeError("broken"))


def giving(value: Any) -> Callable[[], Awaitable[Any]]:
    async def give() -> Any:
        return value

    return give


async def noticed_by(host: ConnectorHost, *direct: ConnectorObservation) -> list[Noticed]:
    return [*(await soon(host.look(direct))).noticed]


async def states_of(host: ConnectorHost) -> list[ConnectorState]:
    return [*(await soon(host.look())).states]


async def test_direct_observations_come_first_then_connectors_in_order() -> None:
    host = host_of(Scripted("b"), Scripted("a"))
    assert await noticed_by(host, TextObservation("a", "the click", images=(PICTURE,))) == [
        Noticed("a", ("the click", PICTURE)),
        Noticed("b", ("b changed",)),
        Noticed("a", ("a changed",)),
    ]


async def test_observations_of_one_subject_stand_together() -> None:
    some = [
        TextObservation("b", text, subject=subject) for text, subject in (("1", ""), ("2", "p"), ("3", "p"), ("4", "q"))
    ]
    assert await noticed_by(host_of(Scripted("b", giving(some)))) == [
        Noticed("b", ("1",)),
        Noticed("b", ("2", "3"), "p"),
        Noticed("b", ("4",), "q"),
    ]


@pytest.mark.parametrize(
    "trouble",
    [
        broken,
        giving(3),
        giving([Rendered(lambda: 1 / 0), 7]),
        giving([Rendered(lambda: sys.exit(3))]),
        raising(SystemExit(3)),
        raising(asyncio.CancelledError()),
        raising(StopAsyncIteration()),
    ],
)
async def test_connector_in_trouble_hides_no_other(trouble: Callable[[], Awaitable[Any]]) -> None:
    host = host_of(Scripted("a"), Scripted("b", trouble), Scripted("c"))
    assert [one.connector_id for one in await noticed_by(host)] == ["a", "c"]


async def test_one_limit_covers_start_observations_and_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connectors that hang anywhere keep what they told before; the others are shown whole."""
    monkeypatch.setattr("memory_context.connectors.host._ANSWER_SECONDS", 1.0)
    hanging = Scripted("b", start=forever), Scripted("c", forever), Scripted("d", show=forever)
    look = await soon(host_of(Scripted("a"), *hanging).look(), seconds=1.5)
    assert [one.connector_id for one in look.noticed] == ["a", "d"]
    assert [(one.connector_id, one.elements) for one in look.states] == [
        ("a", ("a is well",)),
        ("c", ("[Error: Could not render state for c]",)),
        ("d", ("[Error: Could not render state for d]",)),
    ]


async def test_connector_that_cannot_start_shows_the_reason_until_it_can() -> None:
    reasons = ["there is no browser: install one"]

    async def start() -> None:
        if reasons:
            raise ConnectorError(reasons.pop())

    host = host_of(Scripted("a"), Scripted("web", start=start))
    first, second = await host.look(), await host.look()
    assert [one.elements[0] for one in first.states] == [
        "a is well",
        "[Error: web could not start: there is no browser: install one]",
    ]
    assert [one.elements[0] for one in second.states] == ["a is well", "web is well"]


async def test_rendering_that_never_returns_costs_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not asked for more while its thread goes on; the others and the event loop do not wait for it."""
    monkeypatch.setattr("memory_context.connectors.host._ANSWER_SECONDS", 1.0)
    begun, released = threading.Event(), threading.Event()
    renderings: list[int] = []

    def render() -> list[str]:
        renderings.append(1)
        begun.set()
        released.wait()
        return ["late"]

    stuck = Scripted("b", giving([Rendered(render)]))
    host = host_of(stuck, Scripted("c"))
    for _ in range(3):
        look = await soon(host.look())
        assert [one.connector_id for one in look.noticed] == ["c"]
    released.set()
    assert begun.is_set()
    assert renderings == [1]


async def test_endless_observations_and_huge_renderings_are_cut() -> None:
    many = (TextObservation("b", str(number)) for number in itertools.count())
    first, more = await noticed_by(host_of(Scripted("b", giving(many))))
    assert len(first.elements) == 200
    assert "the others are left out" in str(more.elements)
    endless = Rendered(lambda: (f"line {number}" for number in itertools.count()))
    (noticed,) = await noticed_by(host_of(Scripted("b", giving([endless]))))
    assert len(noticed.elements) == 1000
    (huge,) = await noticed_by(host_of(Scripted("b", giving([TextObservation("b", "x" * 100_000_000)]))))
    assert sum(len(str(one)) for one in huge.elements) < 4_000_100
    assert str(huge.elements[0]).endswith("\n[b: 96,000,000 more characters are left out]")


async def test_image_of_too_many_pixels_is_named() -> None:
    """A file of some kilobytes may hold a picture of gigabytes."""
    bomb = Image.__new__(Image)
    bomb.image = Pictures.new("1", (10_000, 10_000))
    (noticed,) = await noticed_by(host_of(Scripted("b", giving([TextObservation("b", "seen", images=(bomb,))]))))
    assert noticed.elements == ("seen", "[Image of 10000 x 10000: it is too large to be shown.]")


@pytest.mark.parametrize("source", ["[MemoryRef: a - b - 1 tokens]", "a b", "", None, 7])
async def test_source_that_cannot_send_messages_is_replaced(source: Any) -> None:
    (noticed,) = await noticed_by(host_of(), TextObservation(source, "seen"))
    assert noticed.connector_id == "action"


async def test_failed_state_says_so_and_an_empty_one_is_left_out() -> None:
    host = host_of(Scripted("a", show=broken), Scripted("b", show=giving([])), Scripted("c"))
    assert [(one.connector_id, one.elements) for one in await states_of(host)] == [
        ("a", ("[Error: Could not render state for a]",)),
        ("c", ("c is well",)),
    ]


async def test_states_share_the_limit() -> None:
    long = giving(["word " * 5000, PICTURE])
    connectors = Scripted("a", show=long), Scripted("b", show=long)
    states = await states_of(host_of(*connectors))
    assert sum(one.tokens for one in states) <= 120  # the limit, and a note on each cut
    assert [one.elements[1] for one in states] == [PICTURE, PICTURE]
    assert [one.state_limit_tokens for one in connectors] == [50, 50], "they render again within their shares"


async def test_room_that_one_state_leaves_goes_to_the_others() -> None:
    """The order of the connectors does not matter; a state that is larger than its share is rendered again."""
    small = Scripted("a", show=giving(["word " * 10]))
    asked: list[int] = []

    async def fill() -> list[str]:
        asked.append(large.state_limit_tokens)
        return ["word " * (large.state_limit_tokens - 2)]

    large = Scripted("b", show=fill)
    for connectors in ((small, large), (large, small)):
        asked.clear()
        host = host_of(*connectors)
        first = {one.connector_id: one.tokens for one in await states_of(host)}
        assert asked == [100, 89]
        assert first["b"] > 80
        assert first["a"] + first["b"] <= 100
        await states_of(host)
        assert asked == [100, 89] * 2


def test_shares_are_equal_where_all_want_more() -> None:
    assert fair_shares(100, {"a": 1000, "b": 10, "c": 1000}) == {"b": 10, "a": 45, "c": 45}
    assert fair_shares(100, {}) == {}


async def test_only_active_connectors_are_started_asked_and_shown() -> None:
    active = ["b", "unknown"]
    first, second = Scripted("a"), Scripted("b")
    host = host_of(first, second, active=lambda: active)
    look = await host.look()
    assert [one.connector_id for one in (*look.noticed, *look.states)] == ["b", "b"]
    assert first.events == []
    active[:] = ["a"]
    look = await host.look(for_changes=False)
    assert [one.connector_id for one in (*look.noticed, *look.states)] == ["a", "a"]
    assert second.events == ["start", "observe"]


@pytest.mark.parametrize("ids", [("a", "a"), ("a b",), ("",)])
def test_ids_must_be_unique_sources(ids: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="connector"):
        host_of(*map(Scripted, ids))

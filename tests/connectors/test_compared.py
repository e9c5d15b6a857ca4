"""What connectors compare with is archived: a session that goes on in another process sees what changed meanwhile."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from autogen_core.models import UserMessage

from memory_context import MemoryStore
from memory_context.connectors.filesystem import FileSystemConnector
from memory_context.memory.vault.secrets import SECRET_KEY_ENV
from memory_context.sessions.transcript.view_decisions import ConnectorCompared

from ..context.steps import add_step
from .counting import Counter, context_of, texts

pytestmark = pytest.mark.thorough


class Comparing(Counter):
    """Tells its count, and the one that it was told before."""

    def __init__(self, saved: Any = None) -> None:
        super().__init__()
        self.before: Any = None
        self._saved = saved

    def save_state(self) -> Mapping[str, Any]:
        return {"count": self.count} if self._saved is None else self._saved()

    def load_state(self, data: Mapping[str, Any]) -> None:
        assert not self.is_open
        self.before = data


async def archived(store: MemoryStore, connector: Any) -> None:
    """A session of two looks that ends."""
    async with context_of(store, connector, session="s") as context:
        await context.add_message(UserMessage(content="Go.", source="user"))
        await add_step(context, "look", "seen")


async def resumed(store: MemoryStore) -> Any:
    """Return what the connector of the resumed session compares with."""
    connector = Comparing()
    async with context_of(store, connector, session="s") as context:
        await context.add_message(UserMessage(content="And now?", source="user"))
    return connector.before


async def test_resumed_session_sees_files_that_changed_meanwhile(store: MemoryStore, tmp_path: Path) -> None:
    await archived(store, FileSystemConnector(str(tmp_path)))
    (tmp_path / "made.txt").write_text("x")
    async with context_of(store, FileSystemConnector(str(tmp_path)), session="s") as context:
        await context.add_message(UserMessage(content="And now?", source="user"))
        said = texts(await context.get_messages())
    assert "[files] Created made.txt (1 lines)" in said
    assert sum("Initial folder" in one for one in said) == 1


async def test_large_state_waits_for_the_end_and_a_huge_one_is_dropped_with_its_reason(
    store: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    sizes = iter([30_000, 600_000])
    connector = Comparing(lambda: {"seen": "x" * size})
    async with context_of(store, connector, session="s") as context:
        size = next(sizes)
        await context.add_message(UserMessage(content="Go.", source="user"))
        await context.archive()
        assert context.transcript.decisions(ConnectorCompared) == []
        await context.save_state()
        ((_, kept),) = context.transcript.decisions(ConnectorCompared)
        assert kept.state == {"seen": "x" * size}
        size = next(sizes)
    assert "more than 500,000 characters; a resumed session looks at it anew" in caplog.text
    assert await resumed(store) is None


class Loop(dict[str, Any]):
    """A state that no JSON has an end for."""

    def __init__(self) -> None:
        super().__init__(itself=self)


@pytest.mark.parametrize("state", [lambda: {"a": object()}, Loop, lambda: 1 / 0])
async def test_state_that_cannot_be_saved_leaves_the_last_one(store: MemoryStore, state: Any) -> None:
    connector = Comparing()
    async with context_of(store, connector, session="s") as context:
        await context.add_message(UserMessage(content="Go.", source="user"))
        await context.archive()
        connector._saved = state
        await add_step(context, "look", "seen")
    assert await resumed(store) == {"count": 1}


async def test_state_that_cannot_be_loaded_hinders_nothing(store: MemoryStore) -> None:
    class Broken(Comparing):
        def load_state(self, data: Mapping[str, Any]) -> None:
            raise RuntimeError("no")

    await archived(store, Comparing())
    async with context_of(store, Broken(), session="s") as context:
        await context.add_message(UserMessage(content="And now?", source="user"))
        assert "count is 1" in texts(await context.get_messages())[-2:]


async def test_secrets_are_names_in_what_is_compared_with(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    import base64

    monkeypatch.setenv(SECRET_KEY_ENV, base64.b64encode(bytes(32)).decode())
    connector = Comparing(lambda: {"fields": [{"typed s3cret-of-alice": "s3cret-of-alice"}]})
    async with context_of(store, connector, session="s") as context:
        await context.agent_memory.secrets.set("TOKEN", "s3cret-of-alice")
        await context.add_message(UserMessage(content="Go.", source="user"))
    assert await resumed(store) == {"fields": [{"typed {{secret:TOKEN}}": "{{secret:TOKEN}}"}]}

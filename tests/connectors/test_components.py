"""Contexts with connectors as component data: folders and browsers are named, and loading opens nothing."""

import json
from pathlib import Path

import pytest
from autogen_core import ComponentLoader, ComponentModel

from memory_context import EditorConnector, FileSystemConnector, MemoryContext, MemoryStore, WebConnector

from .counting import Counter

SHELL = {
    "provider": "memory_context.ShellConnector",
    "component_type": "connector",
    "config": {"folder": "/srv", "id": "sh", "run_seconds": 3.0},
}
"""Component data of an earlier version."""


def loaded(context: MemoryContext) -> MemoryContext:
    """Return the context that JSON makes of it."""
    return MemoryContext.load_component(json.loads(context.dump_component().model_dump_json()))


async def test_connectors_are_part_of_component_data(store: MemoryStore) -> None:
    given = [
        FileSystemConnector("/nowhere/project", "code"),
        EditorConnector("/nowhere/project"),
        WebConnector("https://example.org", browser="/nowhere/chrome", allowed_hosts=["example.org"]),
    ]
    again = loaded(MemoryContext("alice", "coder", memory_store=store, connectors=given)).connectors
    assert [one.id for one in again] == ["code", "editor", "web"]
    for before, after in zip(given, again, strict=True):
        assert type(before) is type(after)
        assert before.dump_component() == after.dump_component()  # type: ignore[attr-defined]


async def test_connector_that_is_no_component_is_left_out_with_its_name(
    store: MemoryStore, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    context = MemoryContext("alice", memory_store=store, connectors=[Counter(), EditorConnector(str(tmp_path))])
    assert [one.id for one in loaded(context).connectors] == ["editor"]
    assert "connectors 'counter' are no components" in caplog.text


async def test_context_loads_without_its_withdrawn_shell_connector_and_says_so_once(
    store: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    config = MemoryContext("alice", memory_store=store, connectors=[EditorConnector("/nowhere")]).dump_component()
    config.config["connectors"].insert(0, SHELL)
    context = MemoryContext.load_component(config)
    assert [one.id for one in context.connectors] == ["editor"]
    (warning,) = [one.message for one in caplog.records]
    assert warning.startswith("connector 'sh' is left out: memory_context.ShellConnector ")
    assert "LocalCommandLineCodeExecutor" in warning


def test_withdrawn_connector_says_what_to_use_instead() -> None:
    with pytest.raises(AttributeError, match=r"memory_context\.ShellConnector .*LocalCommandLineCodeExecutor"):
        ComponentLoader.load_component(SHELL, object)


async def test_component_that_is_no_connector_is_refused(store: MemoryStore) -> None:
    config = MemoryContext("alice", memory_store=store).dump_component()
    model = ComponentModel(
        provider="memory_context.testing.ScriptedModel", component_type="model", config={"decisions": ["Hi."]}
    )
    config.config["connectors"] = [model.model_dump()]
    with pytest.raises(ValueError, match=r"ScriptedModel' is no connector"):
        MemoryContext.load_component(config)

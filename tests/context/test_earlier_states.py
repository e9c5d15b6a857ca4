"""States, views and policies of version 0.2 load and show what they did, also where a promise was withdrawn since."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from memory_context import CompactionPolicy, ContextPolicy, MemoryContext, MemoryStore, ObservationPolicy
from memory_context.foundation import policy as policies
from memory_context.foundation.messages import message_to_json
from memory_context.sessions.transcript.part_decisions import CallRefused

from ..observation.observed import say

EARLIER: dict[str, dict[str, Any]] = json.loads(
    Path(__file__).with_name("earlier_states.json").read_text(encoding="utf-8")
)
"""By name: the policy as component data holds it, the saved state, and its view."""


@pytest.fixture(autouse=True)
def _nothing_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policies, "_told", set[str]())


async def _loaded(name: str, store: MemoryStore) -> MemoryContext:
    policy = ContextPolicy.model_validate(EARLIER[name]["component"])
    context = MemoryContext("alice", "clerk", name, store, policy=policy)
    await context.load_state(EARLIER[name]["state"])
    return context


async def _view(context: MemoryContext) -> list[dict[str, Any]]:
    """Return the view without the line that says how long ago the observed days were."""
    view = [message_to_json(one) for one in await context.get_messages()]
    return [one for one in view if not str(one["content"]).startswith("[Today is ")]


async def test_log_of_digests_loads_and_its_view_is_the_same(store: MemoryStore):
    context = await _loaded("digests", store)
    log = context.transcript.state.observation
    assert {line.kind for chunk in (*log.chunks, *log.buffered) for line in chunk.lines} >= {"digest"}
    assert {chunk.made_by for chunk in (*log.chunks, *log.buffered)} == {"digest"}
    assert await _view(context) == EARLIER["digests"]["view"]
    again = MemoryContext("alice", "clerk", "digests", store, policy=context.policy)
    await again.load_state(json.loads(json.dumps(await context.save_state())))
    assert await _view(again) == EARLIER["digests"]["view"]


async def test_session_with_digests_goes_on_without_new_observations(store: MemoryStore):
    """What was finished still replaces messages; then the oldest steps fold."""
    context = await _loaded("digests", store)
    observed = context.transcript.state.observation.observed
    for number in range(12):
        await say(context, number, 4)
    assert (await context.explain()).tokens <= 2000
    log = context.transcript.state.observation
    assert log.observed == observed
    assert not log.buffered
    assert context.stats.folds > 0


async def test_shortened_arguments_and_refused_calls_load_and_their_view_is_the_same(store: MemoryStore):
    context = await _loaded("arguments", store)
    assert await _view(context) == EARLIER["arguments"]["view"]
    (refused,) = [one for _, one in context.transcript.decisions(CallRefused)]
    assert refused.key in json.dumps(EARLIER["arguments"]["view"])


@pytest.mark.parametrize(
    ("name", "setting"), [("digests", "observation.mode"), ("arguments", "compaction.call_arguments")]
)
def test_withdrawn_setting_of_component_data_is_named_in_one_warning(
    name: str, setting: str, caplog: pytest.LogCaptureFixture
):
    """Of the settings withdrawn since, those at their defaults were nobody's choice."""
    for _ in range(2):
        policy = ContextPolicy.model_validate(EARLIER[name]["component"])
        assert ContextPolicy.model_validate_json(json.dumps(EARLIER[name]["component"])) == policy
    assert [record.message for record in caplog.records if "withdrawn" in record.message] == [
        record.message for record in caplog.records if setting in record.message
    ]
    assert len(caplog.records) == 1


def test_withdrawn_setting_given_in_python_is_ignored(caplog: pytest.LogCaptureFixture):
    settings: dict[str, Any] = {"call_arguments": 200, "facts_limit_tokens": 90}
    assert CompactionPolicy(**settings) == CompactionPolicy(facts_limit_tokens=90)
    mode: Any = "digest"
    assert ObservationPolicy(mode=mode) == ObservationPolicy(mode="off")
    assert [record.message for record in caplog.records] == [
        "the setting compaction.call_arguments was withdrawn: 200 is ignored; remove it",
        "observation.mode='digest' was withdrawn: 'off' is used; choose another value",
    ]


@pytest.mark.parametrize(
    "misspelt",
    [{"call_arguments": 200}, {"compaction": {"call_argument": 200}}, {"observation": {"recall": {"scopes": "user"}}}],
)
def test_unknown_setting_is_an_error(misspelt: dict[str, Any]):
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        ContextPolicy.model_validate(misspelt)
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        ContextPolicy(**misspelt)

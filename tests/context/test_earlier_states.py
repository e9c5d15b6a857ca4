"""States, views and policies of version 0.2 load and show what they did, also where a promise was withdrawn since."""

import json
import re
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


def _data(setting: str, value: object) -> dict[str, Any]:
    """Return a policy's data with one setting, by its full name."""
    for name in reversed(setting.split(".")):
        value = {name: value}
    assert isinstance(value, dict)
    return value


def _settings_told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [re.findall(r"^(?:the setting )?([a-z_.]+)[ =].*withdrawn", one.message)[0] for one in caplog.records]


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        (
            "digests",
            ["recall.enabled", "observation.mode", "observation.buffer_min_tokens", "observation.reflection_ratio"],
        ),
        ("arguments", ["compaction.call_arguments", "cache.least_prefix_tokens"]),
    ],
)
def test_withdrawn_settings_of_component_data_are_named_in_one_warning_each(
    name: str, settings: list[str], caplog: pytest.LogCaptureFixture
):
    """Of the settings withdrawn since, those at their defaults were nobody's choice."""
    for _ in range(2):
        policy = ContextPolicy.model_validate(EARLIER[name]["component"])
        assert ContextPolicy.model_validate_json(json.dumps(EARLIER[name]["component"])) == policy
        assert policy.cache.cached_price_ratio == EARLIER[name]["component"]["cache"]["cached_price_ratio"]
    assert {*_settings_told(caplog)} - {"cache.cached_price_ratio"} == {*settings}
    assert len(_settings_told(caplog)) == len({*_settings_told(caplog)})


def test_withdrawn_setting_is_silent_at_its_former_default_and_named_with_another_value(
    caplog: pytest.LogCaptureFixture,
):
    withdrawn = policies._WITHDRAWN_SETTINGS
    for setting, default in withdrawn.items():
        assert ContextPolicy.model_validate(_data(setting, default)) == ContextPolicy()
    assert caplog.records == []
    for setting in withdrawn:
        for _ in range(2):
            assert ContextPolicy(**_data(setting, "another")) == ContextPolicy()
    assert _settings_told(caplog) == [*withdrawn]


@pytest.mark.parametrize(
    ("earlier", "now", "told"),
    [
        ({"context_window_tokens": 8000}, {"token_budget": 8000}, ["context_window_tokens"]),
        ({"context_window_tokens": 8000, "token_budget": None}, {"token_budget": 8000}, ["context_window_tokens"]),
        ({"context_window_tokens": 8000, "token_budget": 4000}, {"token_budget": 4000}, []),
        ({"first_view": "excerpt"}, {"first_view_by_tool": {"*": "excerpt"}}, ["first_view"]),
        (
            {"first_view": "excerpt", "first_view_by_tool": {"fetch_*": "full"}},
            {"first_view_by_tool": {"fetch_*": "full", "*": "excerpt"}},
            ["first_view"],
        ),
        (
            {"cache": {"cached_price_ratio": 0.5, "write_price_ratio": 1.0}},
            {"cache": {"prices": "openai-gpt-4o"}},
            ["cache.cached_price_ratio"],
        ),
        ({"cache": {"cached_price_ratio": 0.4}}, {"cache": {"prices": (0.4, 1.25, 300)}}, ["cache.cached_price_ratio"]),
        ({"cache": {"cached_price_ratio": 0.1, "write_price_ratio": 1.25, "ttl_seconds": 300.0}}, {}, []),
        ({"context_window_tokens": None, "first_view": "full"}, {}, []),
    ],
)
def test_setting_of_earlier_versions_with_a_new_name_keeps_its_effect(
    earlier: dict[str, Any], now: dict[str, Any], told: list[str], caplog: pytest.LogCaptureFixture
):
    assert ContextPolicy.model_validate(earlier) == ContextPolicy.model_validate(now)
    assert _settings_told(caplog) == told
    policy = ContextPolicy.model_validate(earlier)
    assert ContextPolicy.model_validate_json(policy.model_dump_json()) == policy


def test_withdrawn_setting_given_in_python_is_ignored(caplog: pytest.LogCaptureFixture):
    settings: dict[str, Any] = {"call_arguments": 200, "mode": "plugin"}
    assert CompactionPolicy(**settings) == CompactionPolicy(mode="plugin")
    mode: Any = "digest"
    assert ObservationPolicy(mode=mode) == ObservationPolicy(mode="off")
    assert [record.message for record in caplog.records] == [
        "the setting compaction.call_arguments was withdrawn: 200 is ignored; remove it",
        "observation.mode='digest' was withdrawn: 'off' is used; choose another value",
    ]


@pytest.mark.parametrize(
    "misspelt",
    [{"call_arguments": 200}, {"compaction": {"call_argument": 200}}, {"observation": {"recalls": {"scope": "user"}}}],
)
def test_unknown_setting_is_an_error(misspelt: dict[str, Any]):
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        ContextPolicy.model_validate(misspelt)
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        ContextPolicy(**misspelt)

"""Spans and metrics of OpenTelemetry, nested in AutoGen's own and named as the conventions publish."""

import json
import re
import subprocess
import sys
import textwrap
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from autogen_agentchat.agents import AssistantAgent
from autogen_core.models import UserMessage
from opentelemetry import metrics, semconv, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from memory_context import ContextPolicy, MemoryContext, MemoryStore, StoreUnavailableError
from memory_context.foundation import telemetry
from memory_context.memory.agent_memory import AgentMemory

from ..agents.scripted import calls, model, report
from ..conftest import REPOSITORY
from .lights import Light, choose
from .steps import ALWAYS_PAYS, add_step

GENAI_REGISTRY = {
    *("gen_ai.memory.store.id", "gen_ai.memory.record.id", "gen_ai.memory.record.count"),
    *("gen_ai.memory.query.text", "gen_ai.memory.records"),
}
"""Names in the registry of open-telemetry/semantic-conventions-genai that no package for Python holds yet."""
GENAI_OPERATIONS = {"create_memory", "search_memory", "update_memory", "upsert_memory", "delete_memory"}


def survey(topic: str) -> str:
    """Survey a topic at length."""
    return report(topic)


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """What an application has that exports spans."""
    monkeypatch.delenv(telemetry.CONTENT_ENV, raising=False)
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    return exporter


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> InMemoryMetricReader:
    """What an application has that exports metrics; it counts from now on."""
    reader = InMemoryMetricReader()
    monkeypatch.setattr(metrics._internal, "_METER_PROVIDER", MeterProvider([reader]))
    monkeypatch.setattr(telemetry, "_instruments", {})
    telemetry._waiting.clear()
    for metric in telemetry._metrics:
        monkeypatch.setattr(metric, "values", type(metric.values)())
        monkeypatch.setattr(metric, "counts", {})
    return reader


def named(spans: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    return [one for one in spans.get_finished_spans() if one.name == name]


def ancestors(spans: InMemorySpanExporter, span: ReadableSpan) -> list[str]:
    """Return the names of the spans around one, the nearest first."""
    by_id = {one.context.span_id: one for one in spans.get_finished_spans()}
    names: list[str] = []
    while span.parent is not None:
        span = by_id[span.parent.span_id]
        names.append(span.name)
    return names


async def run(store: MemoryStore) -> MemoryContext:
    """Let an agent survey twice, so that one result is compacted, and search its memory."""
    context = MemoryContext("alice", "coder", "s", store, policy=ContextPolicy(cache=ALWAYS_PAYS))
    client = model(
        calls(("survey", {"topic": "owls"})),
        calls(("survey", {"topic": "bats"})),
        calls(("search_memory", {"query": "the owls of the forest"})),
        "Done.",
    )
    agent = AssistantAgent(
        "coder", client, tools=[survey, *context.tools()], model_context=context, max_tool_iterations=5
    )
    await agent.run(task="Survey owls and bats.")
    return context


async def test_spans_of_a_run_nest_in_autogens_and_hold_no_content(store: MemoryStore, spans: InMemorySpanExporter):
    context = await run(store)
    agent, tool = "invoke_agent coder", "execute_tool search_memory"
    created, found = named(spans, "create_memory"), named(spans, "search_memory")
    assert [ancestors(spans, one) for one in created] == [[agent]] * 2
    assert [one for one in found if ancestors(spans, one) == [tool, agent]]
    owls, *_ = reversed(await context.agent_memory.query())
    tokens = {"memory_context.tokens": owls.ref.token_count}
    compacted = named(spans, "memory_context.compact")
    assert len(compacted) >= 2
    assert all(ancestors(spans, one) == [agent] for one in compacted)
    assert compacted[0].attributes == tokens | {
        "gen_ai.conversation.id": "s",
        "gen_ai.agent.name": "coder",
        "memory_context.records": 1,
        "memory_context.reason": "consumed",
    }
    assert created[0].attributes == tokens | {
        "gen_ai.operation.name": "create_memory",
        "gen_ai.memory.store.id": store.describe(),
        "gen_ai.conversation.id": "s",
        "gen_ai.memory.record.count": 1,
        "gen_ai.memory.record.id": owls.key,
        "memory_context.reason": "offload",
    }
    assert created[0].kind == SpanKind.CLIENT
    ours = [one for one in spans.get_finished_spans() if one.instrumentation_scope.name == "memory_context"]
    assert "owls" not in "".join(one.to_json() for one in ours)
    await context.close()


async def test_content_is_in_spans_with_the_opt_in_of_the_conventions_only(
    store: MemoryStore, spans: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
):
    """Credentials stay out of it."""
    monkeypatch.setenv(telemetry.CONTENT_ENV, "SPAN_ONLY")
    memory = AgentMemory(store, "alice")
    ref = await memory.store("The crane's password=hunter2secret lifts owls.", description="the crane")
    await store.flush_index()
    await memory.search("the crane of the harbour")
    (created,), (found,) = named(spans, "create_memory"), named(spans, "search_memory")
    (record,) = json.loads(str((created.attributes or {})["gen_ai.memory.records"]))
    assert record["id"] == ref.key
    assert "lifts owls" in record["content"]
    assert "hunter2secret" not in "".join(one.to_json() for one in spans.get_finished_spans())
    assert (found.attributes or {})["gen_ai.memory.query.text"] == "the crane of the harbour"
    assert json.loads(str((found.attributes or {})["gen_ai.memory.records"]))[0]["id"] == ref.key


async def test_each_operation_on_records_has_the_name_of_the_conventions(
    store: MemoryStore, spans: InMemorySpanExporter
):
    memory = AgentMemory(store, "alice", "coder", "s")
    ref = await memory.store("owls", description="owls")
    assert await memory.retrieve(ref.key)
    claim = await memory.store("I like owls.", type="user_preference", origin="agent")
    await memory.confirm(claim.key)
    await memory.add("I like bats.", type="user_preference")
    await memory.notes.append("Owls hoot.")
    assert await memory.forget(ref.key)
    told = [(one.name, (one.attributes or {})["gen_ai.memory.record.count"]) for one in spans.get_finished_spans()]
    assert told == [
        ("create_memory", 1),
        ("search_memory", 1),
        ("create_memory", 1),
        ("update_memory", 1),
        ("upsert_memory", 1),
        ("update_memory", 1),
        ("delete_memory", 1),
    ]


async def test_error_is_told_by_its_type_only(spans: InMemorySpanExporter):
    """Its text may quote."""
    memory = AgentMemory(MemoryStore("postgresql://alice@127.0.0.1:1/nowhere"), "alice")
    with pytest.raises(StoreUnavailableError):
        await memory.query()
    (span,) = spans.get_finished_spans()
    assert span.status.status_code == StatusCode.ERROR
    assert (span.status.description, span.events) == (None, ())
    assert (span.attributes or {})["error.type"] == "StoreUnavailableError"


def values_of(reader: InMemoryMetricReader) -> dict[str, list[tuple[dict[str, Any], Any]]]:
    """Return attributes and points by metric."""
    data = reader.get_metrics_data()
    assert data is not None
    (resource,) = data.resource_metrics
    (scope,) = resource.scope_metrics
    return {
        one.name: [(dict(point.attributes or {}), point) for point in one.data.data_points] for one in scope.metrics
    }


async def test_metrics_equal_the_stats_of_the_contexts(store: MemoryStore, reader: InMemoryMetricReader):
    """A view that is asked for twice is one call."""
    light = Light(choose())
    policy = ContextPolicy(cache=ALWAYS_PAYS)
    context = MemoryContext("alice", "coder", "s", store, model_client=light, policy=policy)
    for topic in ("owls", "bats", "eels"):
        await context.add_message(UserMessage(content=f"Survey {topic}, which I told you of.", source="user"))
        await context.get_messages()
        await add_step(context, report(topic))
    await context.get_messages()
    await context.search("owls")
    stats, values = context.stats, values_of(reader)
    totals = {name: [point.value for _, point in values[f"memory_context.tokens.{name}"]] for name in _TOKENS}
    assert totals == {
        "kept": [stats.raw_tokens_total + stats.raw_head_tokens_total],
        "shown": [stats.view_tokens_total + stats.head_tokens_total],
        "cached": [stats.cached_tokens_total],
        "saved": [stats.saved_tokens],
    }
    assert stats.saved_tokens > 0
    light_calls = sum(point.value for _, point in values["memory_context.light_model.calls"])
    assert light_calls == context.transcript.state.light_model.total.calls > 0, "as far as they have ended"
    assert [(labels, point.value) for labels, point in values["memory_context.lookups"]] == [
        ({"memory_context.lookup.kind": "searched"}, 1)
    ]
    durations = {labels["gen_ai.operation.name"]: point for labels, point in values["gen_ai.client.operation.duration"]}
    assert durations["create_memory"].count == 3
    assert 0 < durations["search_memory"].sum < 60
    assert {labels["memory_context.transaction.kind"] for labels, _ in values["db.client.operation.duration"]} == {
        "read",
        "write",
    }
    states = {
        labels["memory_context.connection.state"]: point for labels, point in values["memory_context.connections"]
    }
    assert states["idle"].value > 0
    await context.close()


_TOKENS = ("kept", "shown", "cached", "saved")


def published() -> set[str]:
    """Return the names that the installed package of semantic conventions holds."""
    files = [file for folder in semconv.__path__ for file in Path(folder).rglob("*.py")]
    return {
        name for file in files for name in re.findall(r'^[A-Z_0-9]+: Final = "(.+)"', file.read_text(), re.MULTILINE)
    }


async def test_names_that_are_not_our_own_are_published(
    store: MemoryStore, spans: InMemorySpanExporter, reader: InMemoryMetricReader, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv(telemetry.CONTENT_ENV, "true")
    context = await run(store)
    key = (await context.agent_memory.query())[0].key
    await context.agent_memory.forget(key)
    await context.close()
    values = values_of(reader)
    ours = [one for one in spans.get_finished_spans() if one.instrumentation_scope.name == "memory_context"]
    names = {name for one in ours for name in one.attributes or {}} | {*values}
    names |= {name for points in values.values() for labels, _ in points for name in labels}
    others = {name for name in names if not name.startswith("memory_context.")}
    assert {"gen_ai.memory.records", "gen_ai.memory.query.text", "gen_ai.client.operation.duration"} <= others
    assert others - published() - GENAI_REGISTRY == set()
    assert {one.name for one in ours if not one.name.startswith("memory_context.")} <= GENAI_OPERATIONS


async def test_example_of_the_documents_traces_and_counts(store: MemoryStore, monkeypatch: pytest.MonkeyPatch):
    """An application sets its providers once; here they end with the test."""
    monkeypatch.setattr(trace, "set_tracer_provider", partial(monkeypatch.setattr, trace, "_TRACER_PROVIDER"))
    set_meters = partial(monkeypatch.setattr, metrics._internal, "_METER_PROVIDER")
    monkeypatch.setattr(metrics, "set_meter_provider", set_meters)
    monkeypatch.setattr(telemetry, "_instruments", {})
    page = (REPOSITORY / "docs" / "telemetry.md").read_text(encoding="utf-8")
    (example,) = [block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "TracerProvider" in block]
    names: dict[str, Any] = {}
    exec(compile(example, "docs/telemetry.md", "exec"), names)
    spans, reader = InMemorySpanExporter(), InMemoryMetricReader()
    names["observe"](spans, reader)
    await AgentMemory(store, "alice").store("owls", description="owls")
    assert [one.name for one in spans.get_finished_spans()] == ["create_memory"]
    assert "gen_ai.client.operation.duration" in values_of(reader)
    table = page.partition("## Metrics")[2].partition("## ")[0]
    documented = {
        name for row in re.findall(r"^\| (`.+?`) \|", table, re.MULTILINE) for name in re.findall("`(.+?)`", row)
    }
    assert documented == {metric.name for metric in telemetry._metrics}


def test_prometheus_text_has_counters_gauges_and_histograms(reader: InMemoryMetricReader):
    telemetry.count(telemetry.LOOKUPS, {"memory_context.lookup.kind": 'a "b"'}, 3)
    telemetry.count(telemetry.SAVED_TOKENS, amount=-5)
    telemetry.count(telemetry.DATABASE_SECONDS, amount=0.03)
    telemetry.count(telemetry.DATABASE_SECONDS, amount=20)
    lines = telemetry.prometheus_text().splitlines()
    assert 'memory_context_lookups_total{memory_context_lookup_kind="a \\"b\\""} 3' in lines
    assert "# TYPE memory_context_tokens_saved gauge" in lines
    assert "memory_context_tokens_saved -5" in lines
    start = lines.index('db_client_operation_duration_seconds_bucket{le="0.001"} 0')
    assert lines[start : start + 12] == [
        *(f'db_client_operation_duration_seconds_bucket{{le="{limit}"}} 0' for limit in (0.001, 0.005, 0.01)),
        *(f'db_client_operation_duration_seconds_bucket{{le="{limit}"}} 1' for limit in (0.05, 0.1, 0.5, 1, 5, 10)),
        'db_client_operation_duration_seconds_bucket{le="+Inf"} 2',
        "db_client_operation_duration_seconds_sum 20.03",
        "db_client_operation_duration_seconds_count 2",
    ]


@pytest.mark.thorough
def test_nothing_of_opentelemetry_is_imported_for_an_application_without_it():
    """AutoGen imports what it needs; a context's life adds nothing, and asks for no tracer."""
    program = """
        import asyncio, sys
        import autogen_agentchat.agents, autogen_core, autogen_ext.models.replay
        from opentelemetry import trace
        before = {name for name in sys.modules if name.startswith("opentelemetry")}
        trace.get_tracer = None
        from autogen_core.models import UserMessage
        from memory_context import MemoryContext, MemoryStore
        from memory_context.foundation import telemetry

        async def live():
            context = MemoryContext("alice", memory_store=MemoryStore("postgresql://alice@127.0.0.1:1/nowhere"))
            await context.add_message(UserMessage(content="owls " * 9000, source="user"))
            await context.get_messages()
            try:
                await context.search("owls")
            except Exception:
                pass

        asyncio.run(live())
        after = {name for name in sys.modules if name.startswith("opentelemetry")}
        assert after == before, after - before
        assert not telemetry._instruments or "opentelemetry.metrics" in before
        assert "gen_ai_client_operation_duration_seconds_count" in telemetry.prometheus_text()
    """
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(program)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

"""Spans and metrics, by OpenTelemetry's conventions for generative AI; the only module that knows OpenTelemetry.

It imports nothing: an application that traces has imported OpenTelemetry and set a provider. Metrics are counted in the
process in any case, for `/metrics`; OpenTelemetry reads the same numbers when it collects.

    AutoGen's agent or tool ─▶ create_memory, search_memory, update_memory, upsert_memory, delete_memory
                            └▶ memory_context.offload, .compact, .fold, .observe, .expand, .recall
"""

import json
import os
import sys
import threading
import time
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal
from weakref import WeakMethod

from typing_extensions import Self

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Observation
    from opentelemetry.trace import Tracer

__all__ = [
    "CACHED_TOKENS",
    "CONTENT_ENV",
    "DATABASE_SECONDS",
    "EVENTS",
    "JOBS",
    "KEPT_TOKENS",
    "LIGHT_MODEL_CALLS",
    "LIGHT_MODEL_TOKENS",
    "LOOKUPS",
    "POOL",
    "REQUESTS",
    "SAVED_TOKENS",
    "SHOWN_TOKENS",
    "Attributes",
    "MemoryOperation",
    "Metric",
    "OperationName",
    "count",
    "gauge",
    "prometheus_text",
    "record_event",
]

Attributes = Mapping[str, str | int | float | bool]
OperationName = Literal["create_memory", "search_memory", "update_memory", "upsert_memory", "delete_memory"]

CONTENT_ENV = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""Spans hold queries and contents if it is `true`, `span_only` or `span_and_event`."""

_SCOPE = "memory_context"
_NO_ATTRIBUTES: Attributes = MappingProxyType({})
_Labels = tuple[tuple[str, str | int | float | bool], ...]


@dataclass(eq=False)
class Metric:
    """A number of this process, by labels. An `updown` may fall; a `gauge` is asked for when somebody collects."""

    name: str
    kind: Literal["counter", "updown", "gauge", "histogram"]
    unit: str
    description: str
    buckets: tuple[float, ...] = ()
    values: Counter[_Labels] = field(default_factory=Counter[_Labels])
    counts: dict[_Labels, list[int]] = field(default_factory=dict[_Labels, list[int]])

    def __post_init__(self) -> None:
        _metrics.append(self)


_metrics: list[Metric] = []
_waiting: deque[tuple[Metric, Attributes, float]] = deque()
_MOST_WAITING = 1000
_lock = threading.Lock()
_gauges: list[tuple[Metric, "WeakMethod[Callable[[], Mapping[str, int]]]", str]] = []
_binding = threading.Lock()  # not the one above, which a reader takes while it holds OpenTelemetry's
_instruments: dict[str, Any] = {}

KEPT_TOKENS = Metric("memory_context.tokens.kept", "counter", "{token}", "Tokens of calls that keep everything.")
SHOWN_TOKENS = Metric("memory_context.tokens.shown", "counter", "{token}", "Tokens of the calls as they were made.")
CACHED_TOKENS = Metric("memory_context.tokens.cached", "counter", "{token}", "Shown tokens that a cache has.")
SAVED_TOKENS = Metric("memory_context.tokens.saved", "updown", "{token}", "Kept tokens without those shown.")
EVENTS = Metric("memory_context.events", "counter", "{event}", "What contexts stored, compacted, opened and so on.")
LOOKUPS = Metric("memory_context.lookups", "counter", "{lookup}", "Reads of the memory that somebody asked for.")
LIGHT_MODEL_CALLS = Metric("memory_context.light_model.calls", "counter", "{call}", "Calls of the light model.")
LIGHT_MODEL_TOKENS = Metric("memory_context.light_model.tokens", "counter", "{token}", "Tokens of those calls.")
JOBS = Metric("memory_context.jobs", "gauge", "{job}", "Background jobs that wait, and dead letters.")
POOL = Metric("memory_context.connections", "gauge", "{connection}", "Connections to the database.")
REQUESTS = Metric("memory_context.requests", "counter", "{request}", "Answered requests of a server.")
_OPERATION_SECONDS = Metric(
    "gen_ai.client.operation.duration",
    "histogram",
    "s",
    "GenAI operation duration.",
    (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92),
)
DATABASE_SECONDS = Metric(
    "db.client.operation.duration",
    "histogram",
    "s",
    "Duration of database client operations.",
    (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10),
)


# --- metrics


def count(metric: Metric, labels: Attributes = _NO_ATTRIBUTES, amount: float = 1) -> None:
    """Add to a number of this process, or a duration to a histogram; the labels may not change any more."""
    _waiting.append((metric, labels, amount))  # a sum costs more in the midst of a step than later with many others
    if len(_waiting) > _MOST_WAITING:
        _add_up()
    if not _instruments:
        _bind()


def _add_up() -> None:
    durations: list[tuple[Any, float, Attributes]] = []
    with _lock:
        while _waiting:
            metric, labels, amount = _waiting.popleft()
            key = tuple(labels.items())
            metric.values[key] += amount  # pyright: ignore[reportArgumentType]  # a Counter of floats works alike
            if metric.kind == "histogram":
                counts = metric.counts.setdefault(key, [0] * (len(metric.buckets) + 1))
                counts[bisect_left(metric.buckets, amount)] += 1
                if (histogram := _instruments.get(metric.name)) is not None:
                    durations.append((histogram, amount, labels))
    for histogram, seconds, labels in durations:  # without the lock: OpenTelemetry takes its own
        histogram.record(seconds, labels)


def gauge(metric: Metric, read: Callable[[], Mapping[str, int]], label: str) -> None:
    """Ask a method, weakly held, for the values by a label whenever somebody collects. It must not wait, nor raise."""
    with _lock:
        _gauges[:] = [one for one in _gauges if one[1]() is not None]
        _gauges.append((metric, WeakMethod(read), label))
    _bind()


def _values(metric: Metric) -> dict[_Labels, float]:
    _add_up()
    with _lock:
        values = Counter[_Labels](metric.values)
        sources = [(read, label) for of, read, label in _gauges if of is metric]
    for source, label in sources:
        if (read := source()) is not None:
            values.update({((label, name),): number for name, number in read().items()})
    return dict(values)


def _bind() -> None:
    """Let OpenTelemetry read the numbers, once the application has imported its metrics."""
    if _instruments or (otel := sys.modules.get("opentelemetry.metrics")) is None or not hasattr(otel, "get_meter"):
        return
    with _binding:
        if _instruments:  # another thread was faster
            return
        meter = otel.get_meter(_SCOPE)
        makers = {
            "counter": meter.create_observable_counter,
            "updown": meter.create_observable_up_down_counter,
            "gauge": meter.create_observable_gauge,
        }

        def read(metric: Metric, _: "CallbackOptions") -> "Iterable[Observation]":
            return [otel.Observation(value, dict(labels)) for labels, value in _values(metric).items()]

        for metric in _metrics:
            about = {"unit": metric.unit, "description": metric.description}
            if metric.kind == "histogram":
                made = meter.create_histogram(metric.name, explicit_bucket_boundaries_advisory=metric.buckets, **about)
            else:
                made = makers[metric.kind](metric.name, callbacks=[partial(read, metric)], **about)
            _instruments[metric.name] = made


def prometheus_text() -> str:
    """Return the metrics of this process in Prometheus' text format, version 0.0.4."""
    lines: list[str] = []
    for metric in _metrics:
        kind = {"updown": "gauge"}.get(metric.kind, metric.kind)
        name = metric.name.replace(".", "_") + {"histogram": "_seconds", "counter": "_total"}.get(metric.kind, "")
        lines += [f"# HELP {name} {metric.description}", f"# TYPE {name} {kind}"]
        for labels, value in sorted(_values(metric).items(), key=str):
            if metric.kind != "histogram":
                lines.append(f"{name}{_shown(labels)} {value:.15g}")
                continue
            with _lock:
                counts = list(metric.counts[labels])
            for number, limit in enumerate([*metric.buckets, "+Inf"], 1):
                lines.append(f"{name}_bucket{_shown((*labels, ('le', str(limit))))} {sum(counts[:number])}")
            lines += [f"{name}_sum{_shown(labels)} {value:.15g}", f"{name}_count{_shown(labels)} {sum(counts)}"]
    return "\n".join(lines) + "\n"


def _shown(labels: _Labels) -> str:
    texts = [f"{name.replace('.', '_')}={json.dumps(str(value), ensure_ascii=False)}" for name, value in labels]
    return "{" + ",".join(texts) + "}" if texts else ""


# --- spans

_known: tuple[object, "Tracer | None"] = (None, None)


def _tracer() -> "Tracer | None":
    """Return the tracer of the provider that the application has set; None without one."""
    global _known
    if (otel := sys.modules.get("opentelemetry.trace")) is None or not hasattr(otel, "get_tracer_provider"):
        return None
    provider = otel.get_tracer_provider()
    if provider is not _known[0]:
        is_set = not isinstance(provider, (otel.ProxyTracerProvider, otel.NoOpTracerProvider))
        _known = (provider, otel.get_tracer(_SCOPE) if is_set else None)
    return _known[1]


def record_event(name: str, attributes: Callable[[], Attributes], why: str = "") -> None:
    """Record what happened in an instant as a span of its own, a child of the current one; `why` may quote."""
    if (tracer := _tracer()) is not None:
        told = {**attributes(), "memory_context.why": why} if why and _captures_content() else attributes()
        tracer.start_span(f"{_SCOPE}.{name}", attributes=told).end()


class MemoryOperation:
    """Context of one operation on memory records, which is traced and timed.

    Args:
        store: The place of the store, without secrets.
        query: Recorded only if spans may have contents.
    """

    def __init__(self, name: OperationName, store: str, session_id: str = "", query: str = "") -> None:
        self._place, self._query, self._session_id = store, query, session_id
        self._began, self._began_at = time.perf_counter(), time.time_ns()
        self._labels: dict[str, str] = {"gen_ai.operation.name": name}
        self._told: tuple[int, str, Callable[[], Sequence[Attributes]] | None, Attributes] | None = None

    def tell(
        self,
        records: int,
        key: str = "",
        contents: "Callable[[], Sequence[Attributes]] | None" = None,
        ours: Attributes = _NO_ATTRIBUTES,
    ) -> None:
        """Note how many records it is about, the key of one, and their contents, if spans may have them."""
        self._told = (records, key, contents, ours)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:  # the text of an error may quote contents: only its type is told
            self._labels["error.type"] = kind.__qualname__
        count(_OPERATION_SECONDS, self._labels, time.perf_counter() - self._began)
        if (tracer := _tracer()) is None:
            return
        # made at once, now that all is known: that takes half as long as a span that is changed
        attributes: dict[str, Any] = {**self._labels, "gen_ai.memory.store.id": self._place}
        if self._session_id:
            attributes["gen_ai.conversation.id"] = self._session_id
        captures = _captures_content()
        if self._query and captures:
            attributes["gen_ai.memory.query.text"] = self._query
        if self._told is not None:
            records, key, contents, ours = self._told
            attributes |= {"gen_ai.memory.record.count": records, **ours}
            if key:
                attributes["gen_ai.memory.record.id"] = key
            if contents is not None and captures:
                attributes["gen_ai.memory.records"] = json.dumps(contents(), ensure_ascii=False)
        otel, name = sys.modules["opentelemetry.trace"], self._labels["gen_ai.operation.name"]
        span = tracer.start_span(name, kind=otel.SpanKind.CLIENT, attributes=attributes, start_time=self._began_at)
        if kind is not None:
            span.set_status(otel.StatusCode.ERROR)
        span.end()


def _captures_content() -> bool:
    return os.environ.get(CONTENT_ENV, "").strip().lower() in ("true", "span_only", "span_and_event")

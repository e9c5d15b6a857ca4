"""Finds the context of a memory tool by the *template* in component data.

AutoGen loads a workbench before the context, and listed tools after it: a loaded context takes the tools that wait for
its template, else those that follow.
"""

import asyncio
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol, cast
from weakref import WeakKeyDictionary, WeakSet, WeakValueDictionary, ref

from pydantic import BaseModel, model_validator

from memory_context.foundation.policy import ContextPolicy
from memory_context.foundation.tokens import TokenCounter
from memory_context.memory.agent_memory import AgentMemory
from memory_context.memory.items import MemoryItem
from memory_context.sessions.transcript.transcript import Transcript

if TYPE_CHECKING:
    from .base import MemoryTool

__all__ = [
    "MemoryToolConfig",
    "TemplateKey",
    "ToolHost",
    "attach_tool",
    "config_of",
    "find_hosts",
    "is_template_in_use",
    "register_host",
    "register_loaded_host",
]

TemplateKey = tuple[str, str, str]
"""User, agent, template."""

_MIN_SWEPT_TEMPLATES = 64


class ToolHost(Protocol):
    """The part of a context that tools need."""

    user_id: str
    agent_id: str
    session_id: str
    template_id: str
    policy: ContextPolicy
    token_counter: TokenCounter

    @property
    def agent_memory(self) -> AgentMemory: ...

    @property
    def transcript(self) -> Transcript: ...

    async def open_image(self, item: MemoryItem) -> bool:
        """Show a stored image to the model after the results; False if it is shown none."""
        ...


class _LoadedHost(Protocol):
    def note_tools(self, names: Iterable[str], *, are_late: bool = False) -> None: ...


class MemoryToolConfig(BaseModel):
    """Names the template of a tool's context; `is_late` tools are offered once something is stored."""

    user_id: str
    agent_id: str
    template_id: str
    is_late: bool = False

    @model_validator(mode="before")
    @classmethod
    def _read_earlier(cls, data: object) -> object:
        """Accept data of version 0.1.0, which named the session."""
        if isinstance(data, dict) and "template_id" not in data and "session_id" in data:
            earlier = cast(dict[str, object], data)
            return {**earlier, "template_id": earlier["session_id"]}
        return cast(object, data)

    @property
    def key(self) -> TemplateKey:
        return self.user_id, self.agent_id, self.template_id


def config_of(host: ToolHost, *, is_late: bool = False) -> MemoryToolConfig:
    """Return the config for a context."""
    return MemoryToolConfig(user_id=host.user_id, agent_id=host.agent_id, template_id=host.template_id, is_late=is_late)


class _Flow:
    """The loading of one task or thread.

    Attributes:
        waiting: Tools without a context, in runs of one agent each.
        names: Tools that followed a context; None if it took waiting ones.
    """

    def __init__(self) -> None:
        self.waiting: dict[TemplateKey, list[list[ref[MemoryTool]]]] = {}
        self.newest: WeakValueDictionary[TemplateKey, _LoadedHost] = WeakValueDictionary()
        self.names: WeakKeyDictionary[_LoadedHost, set[str] | None] = WeakKeyDictionary()

    def runs(self, key: TemplateKey) -> list[list["ref[MemoryTool]"]]:
        runs = ([one for one in run if _waits(one)] for run in self.waiting.get(key, ()))
        return [run for run in runs if run]


_lock = threading.RLock()
_flows: WeakKeyDictionary[object, _Flow] = WeakKeyDictionary()
_alive: dict[TemplateKey, WeakSet[_LoadedHost]] = {}
_loaded: WeakSet[_LoadedHost] = WeakSet()
_sweep_at = _MIN_SWEPT_TEMPLATES


def register_host(host: _LoadedHost, key: TemplateKey) -> bool:
    """Let tools of a template find this context; return whether any waited for it."""
    global _sweep_at
    with _lock:
        if len(_alive) >= _sweep_at:
            for gone in [one for one, hosts in _alive.items() if not hosts]:
                del _alive[gone]
            _sweep_at = max(_MIN_SWEPT_TEMPLATES, 2 * len(_alive))
        _alive.setdefault(key, WeakSet()).add(host)
        flow = _flow()
        runs = flow.runs(key)
        if not runs:
            return False
        for tool in filter(None, [one() for one in runs.pop()]):
            _bind(tool, host)
        flow.waiting[key] = runs
        return True


def register_loaded_host(host: _LoadedHost, key: TemplateKey) -> None:
    """Like `register_host`, for a loaded context: tools loaded next belong to it."""
    with _lock:
        had_waiting = register_host(host, key)
        flow = _flow()
        flow.newest[key] = host
        flow.names[host] = None if had_waiting else set()
        _loaded.add(host)


def is_template_in_use(key: TemplateKey) -> bool:
    """Return whether a live context was loaded from this template."""
    with _lock:
        return any(host in _loaded for host in _alive.get(key, ()))


def attach_tool(tool: "MemoryTool", key: TemplateKey) -> None:
    """Attach a loaded tool to the context before it, else to the next one."""
    with _lock:
        flow = _flow()
        host = flow.newest.get(key)
        runs = flow.runs(key)
        names = None if host is None else flow.names.get(host)
        if host is not None and names is not None and not runs and tool.name not in names:
            names.add(tool.name)
            _bind(tool, host)
            return
        if not runs or tool.name in {waiting.name for one in runs[-1] if (waiting := one()) is not None}:
            runs.append([])
        runs[-1].append(ref(tool))
        flow.waiting = {other: some for other in flow.waiting if other != key and (some := flow.runs(other))}
        flow.waiting[key] = runs


def find_hosts(key: TemplateKey) -> list[ToolHost]:
    """Return the live contexts of a template."""
    with _lock:
        return [cast(ToolHost, host) for host in _alive.get(key, ())]


def _waits(one: "ref[MemoryTool]") -> bool:
    tool = one()
    return tool is not None and not tool.has_host


def _bind(tool: "MemoryTool", host: _LoadedHost) -> None:
    tool.bind(host)
    host.note_tools([tool.name], are_late=tool.is_late)


def _flow() -> _Flow:
    try:
        owner: object = asyncio.current_task() or threading.current_thread()
    except RuntimeError:
        owner = threading.current_thread()
    return _flows.setdefault(owner, _Flow())

"""Which context a loaded tool belongs to: the one that was loaded from the same component data.

Component data describes an agent, never a conversation: its context and its tools name a *template*. AutoGen loads an
agent's workbench before its context, and tools that are listed beside it after the context:

    workbench: tools wait ─▶ context adopts the last that wait ─▶ tools that follow belong to it

So the same data loaded twice gives two pairs. What different tasks or threads load is kept apart, since they may load
the same data at once. An agent has no two tools of one name: a name that comes again begins the next agent's tools,
which is how agents inside of agents are told apart.
"""

import asyncio
import threading
from collections.abc import Iterable, Iterator
from typing import Protocol
from weakref import WeakKeyDictionary, WeakSet, WeakValueDictionary, ref

__all__ = ["TemplateKey", "attach_tool", "find_hosts", "is_template_in_use", "register_host", "register_loaded_host"]

TemplateKey = tuple[str, str, str]
"""User, agent, template."""


class _Host(Protocol):
    """A context."""

    def note_tools(self, names: Iterable[str], *, are_late: bool = False) -> None: ...


class _Tool(Protocol):
    """A tool that was loaded."""

    @property
    def name(self) -> str: ...

    @property
    def has_host(self) -> bool: ...

    @property
    def is_late(self) -> bool: ...

    def bind(self, host: _Host) -> None: ...


class _Flow:
    """What one task, or one thread outside of tasks, has loaded.

    Attributes:
        waiting: Tools without a context, in runs: those of one agent each, the last agent's last.
        newest: The context that was loaded last from each template.
        names: Of a context: the tools that followed it; None if its tools had waited for it, so that none follow.
    """

    def __init__(self) -> None:
        self.waiting: dict[TemplateKey, list[list[ref[_Tool]]]] = {}
        self.newest: WeakValueDictionary[TemplateKey, _Host] = WeakValueDictionary()
        self.names: WeakKeyDictionary[_Host, set[str] | None] = WeakKeyDictionary()

    def runs(self, key: TemplateKey) -> list[list[ref[_Tool]]]:
        """Return the runs in which a tool still waits."""
        runs = [[one for one in run if _waits(one)] for run in self.waiting.get(key, ())]
        return [run for run in runs if run]


_lock = threading.RLock()
_flows: WeakKeyDictionary[object, _Flow] = WeakKeyDictionary()
_alive: dict[TemplateKey, WeakSet[_Host]] = {}
_loaded: WeakSet[_Host] = WeakSet()
_sweep_at = 64  # templates


def register_host(host: _Host, key: TemplateKey) -> bool:
    """Let tools of this template that wait, or are called without a context, find this one; whether any waited."""
    global _sweep_at
    with _lock:
        if len(_alive) >= _sweep_at:
            for gone in [one for one, hosts in _alive.items() if not hosts]:
                del _alive[gone]
            _sweep_at = max(64, 2 * len(_alive))
        _alive.setdefault(key, WeakSet()).add(host)
        return _take_waiting(host, key)


def register_loaded_host(host: _Host, key: TemplateKey) -> None:
    """Do as `register_host` for a context that was loaded: tools that are loaded next belong to it."""
    with _lock:
        had_waiting = register_host(host, key)
        flow = _flow()
        flow.newest[key] = host
        flow.names[host] = None if had_waiting else set()
        _loaded.add(host)


def is_template_in_use(key: TemplateKey) -> bool:
    """Whether a context that is alive was loaded from this template."""
    with _lock:
        return any(host in _loaded for host in _alive.get(key, ()))


def attach_tool(tool: _Tool, key: TemplateKey) -> None:
    """Give a loaded tool to the context before it, or have it wait for the next one."""
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


def find_hosts(key: TemplateKey) -> list[_Host]:
    """Return the contexts of a template that are alive."""
    with _lock:
        return list(_alive.get(key, ()))


def _take_waiting(host: _Host, key: TemplateKey) -> bool:
    flow = _flow()
    runs = flow.runs(key)
    if not runs:
        return False
    for tool in _tools(runs.pop()):
        _bind(tool, host)
    flow.waiting[key] = runs
    return True


def _bind(tool: _Tool, host: _Host) -> None:
    tool.bind(host)
    host.note_tools([tool.name], are_late=tool.is_late)


def _tools(run: list[ref[_Tool]]) -> Iterator[_Tool]:
    for one in run:
        tool = one()
        if tool is not None:
            yield tool


def _waits(one: ref[_Tool]) -> bool:
    tool = one()
    return tool is not None and not tool.has_host


def _flow() -> _Flow:
    try:
        owner: object = asyncio.current_task() or threading.current_thread()
    except RuntimeError:
        owner = threading.current_thread()
    flow = _flows.get(owner)
    if flow is None:
        flow = _flows[owner] = _Flow()
    return flow

"""Component JSON, as AutoGen dumps agents and teams: read and checked before anything of it is loaded.

Loading a component runs code, so the namespaces of its classes have to be known: AutoGen's own, this library's, and
those in AUTOGEN_ALLOWED_PROVIDER_NAMESPACES. They are no sandbox: a `FunctionTool` carries Python in its JSON, an MCP
workbench starts a command. `Checked.reach` names these parts; people who may paste a component may run code.
"""

import copy
import importlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from autogen_agentchat.base import ChatAgent, Team
from autogen_core import is_component_class
from autogen_core._component_config import WELL_KNOWN_PROVIDERS
from autogen_core.code_executor import CodeExecutor
from autogen_core.tools import BaseTool, FunctionTool, Workbench

__all__ = ["AgentPlace", "Checked", "ComponentError", "check_component", "read_component"]

NAMESPACES_ENV = "AUTOGEN_ALLOWED_PROVIDER_NAMESPACES"

_KNOWN_NAMESPACES = ("autogen_agentchat", "autogen_core", "autogen_ext", "memory_context")
_TALKING = ("autogen_agentchat.", "autogen_core.", "autogen_ext.models.", "memory_context.")
_SECRETS = ("api_key", "azure_ad_token", "password")
_DEFAULTS: dict[str, Any] = {  # of an AssistantAgent: a dump holds them, people leave them out
    "description": "An agent.",
    "reflect_on_tool_use": False,
    "tool_call_summary_format": "{result}",
    "max_tool_iterations": 20,
    "model_client_stream": True,
}


class ComponentError(ValueError):
    """The component cannot be used; the text says where in the JSON, and what to write instead."""


@dataclass(frozen=True)
class AgentPlace:
    """One agent: where it is, such as `config.participants[0]`, its part of the JSON, and the fields of its schema."""

    path: str
    config: dict[str, Any]
    fields: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Its name, which its memory is kept under."""
        return str(self.config.get("name", ""))


@dataclass(frozen=True)
class Checked:
    """A component that may be loaded.

    Attributes:
        component: The JSON, a copy, with the fields that people leave out.
        agents: Its agents, at whatever depth, in order.
        reach: What it may run or reach on the server, a sentence each; empty for a component that only talks.
    """

    component: dict[str, Any]
    agents: tuple[AgentPlace, ...]
    reach: tuple[str, ...]


def read_component(text: str) -> dict[str, Any]:
    """Return the component in a pasted text, or raise ComponentError."""
    try:
        found: Any = json.loads(text)
    except RecursionError:
        raise ComponentError("This cannot be a component: it is nested too deeply.") from None
    except json.JSONDecodeError as error:
        raise ComponentError(f"This is no JSON: {error.msg} (line {error.lineno}, column {error.colno}).") from None
    if not isinstance(found, dict) or not isinstance(found.get("provider"), str):
        raise ComponentError(
            'A component is a JSON object with "provider" and "config", as `agent.dump_component().model_dump_json()` '
            "writes it."
        )
    return found


def check_component(component: Mapping[str, Any]) -> Checked:
    """Return what a component is, without loading it.

    Raises:
        ComponentError: It is neither an agent nor a team, names an unknown namespace, holds a secret, or gives two
            agents one name.
    """
    whole = copy.deepcopy(dict(component))
    agents: dict[str, AgentPlace] = {}
    reach: list[str] = []
    for path, part in _parts(whole, ""):
        cls, config = _class_of(part["provider"], _at(path, "provider")), part.setdefault("config", {})
        if not isinstance(config, dict):
            raise ComponentError(f"{_at(path, 'config')}: this has to be an object.")
        if not path and not issubclass(cls, (ChatAgent, Team)):
            raise ComponentError(f"{part['provider']!r} is neither an agent nor a team.")
        for name in _SECRETS:
            if isinstance(config.get(name), str) and config[name].strip("*"):  # AutoGen dumps secrets as asterisks
                raise ComponentError(
                    f"{_at(path, 'config')}.{name}: a secret in the JSON would be kept with the chat. Leave it out: "
                    "the server takes it from its environment; or name no model, and this application's is used."
                )
        reach += _reach_of(cls, config, path or "the component itself")
        if issubclass(cls, ChatAgent):
            agent = _agent(cls, config, path)
            if agent.name in agents:
                raise ComponentError(f"{path}: there is an agent {agent.name!r} already; give each a name of its own.")
            agents[agent.name] = agent
    return Checked(whole, tuple(agents.values()), tuple(reach))


def _agent(cls: type[Any], config: dict[str, Any], path: str) -> AgentPlace:
    fields: Mapping[str, Any] = getattr(cls.component_config_schema, "model_fields", {})
    config.pop("model_context", None)  # the builder puts another in its place
    if "tools" in fields and "model_client_stream" in fields:
        for name, value in _DEFAULTS.items():
            config.setdefault(name, value)
    return AgentPlace(path, config, fields)


def _at(path: str, inner: str) -> str:
    return f"{path}.{inner}" if path else inner


def _parts(node: Any, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every component in it, outer ones first, each with its path."""
    if isinstance(node, dict):
        if isinstance(node.get("provider"), str) and (not path or "config" in node):
            yield path, node
        for name, value in [*node.items()]:
            yield from _parts(value, _at(path, str(name)))
    elif isinstance(node, list):
        for place, value in enumerate(node):
            yield from _parts(value, f"{path}[{place}]")


def _class_of(provider: str, where: str) -> type[Any]:
    """Import the class that a component names, if its namespace is known."""
    module_name, _, class_name = WELL_KNOWN_PROVIDERS.get(provider, provider).rpartition(".")
    added = [name.strip() for name in os.environ.get(NAMESPACES_ENV, "").split(",") if name.strip()]
    namespaces = (*_KNOWN_NAMESPACES, *added)
    if not any(module_name == name or module_name.startswith(f"{name}.") for name in namespaces):
        raise ComponentError(
            f"{where}: {provider!r} is outside of the known namespaces ({', '.join(namespaces)}). Loading a component "
            f"runs its code: add a namespace you trust to {NAMESPACES_ENV}, and start again."
        )
    try:
        found = getattr(importlib.import_module(module_name), class_name, None)
    except ImportError as error:
        raise ComponentError(f"{where}: {provider!r} cannot be imported: {error}.") from error
    if not isinstance(found, type) or not is_component_class(found):
        raise ComponentError(f"{where}: {provider!r} is no component.")
    return found


def _reach_of(cls: type[Any], config: Mapping[str, Any], where: str) -> Iterator[str]:
    if issubclass(cls, FunctionTool):
        yield f"{where}: the tool {config.get('name')!r} is Python in this JSON"
    elif issubclass(cls, (BaseTool, CodeExecutor, Workbench)) or not cls.__module__.startswith(_TALKING):
        server = config.get("server_params")
        started = f", which starts {server['command']!r}" if isinstance(server, dict) and "command" in server else ""
        yield f"{where}: {cls.__module__}.{cls.__name__}{started}"

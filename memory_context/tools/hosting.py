"""What memory tools have in common: the context they belong to, and answers that are recognised later.

Each tool answers in text a model can act on, within the limit of a first view, so that the answer is never cut again.
What a tool answered is remembered by its hash: the context shows it once and then lets it collapse to what it was a
look at, instead of storing it as something new.

The tools are Components. A loaded one finds its context by user, agent and session among those alive in the process.
"""

from abc import abstractmethod
from typing import Any, ClassVar, Protocol, cast
from weakref import WeakSet, WeakValueDictionary

from autogen_core import CancellationToken, Component
from autogen_core.tools import BaseTool
from pydantic import BaseModel
from typing_extensions import Self

from ..memory import AgentMemory
from ..policy import ContextPolicy
from ..references import Lookup
from ..tokens import TokenCounter
from ..transcript import Transcript

__all__ = ["MemoryTool", "MemoryToolConfig", "ToolHost", "announce", "answer_limit", "remembered"]

LEAST_ANSWER_TOKENS = 500


class ToolHost(Protocol):
    """What a tool needs of its context."""

    user_id: str
    agent_id: str
    session_id: str
    policy: ContextPolicy
    token_counter: TokenCounter

    @property
    def agent_memory(self) -> AgentMemory:
        """The items the context's agent stores and reads."""
        ...

    @property
    def transcript(self) -> Transcript:
        """The messages and decisions."""
        ...


_Identity = tuple[str, str, str]

_hosts: "WeakValueDictionary[_Identity, ToolHost]" = WeakValueDictionary()
_hostless: "dict[_Identity, WeakSet[MemoryTool]]" = {}


def announce(host: ToolHost) -> bool:
    """Let loaded tools of this user, agent and session find this context; whether there were any.

    An agent's component holds its tools and its context; tools that were loaded and have no context yet get the one
    that is loaded next. So two agents loaded from one component keep apart.
    """
    identity = (host.user_id, host.agent_id, host.session_id)
    _hosts[identity] = host
    tools = list(_hostless.pop(identity, ()))
    for tool in tools:
        tool.bind(host)
    return bool(tools)


class MemoryToolConfig(BaseModel):
    """Names the context a tool belongs to."""

    user_id: str
    agent_id: str
    session_id: str


class MemoryTool(BaseTool[BaseModel, BaseModel], Component[MemoryToolConfig]):
    """A tool that belongs to one context; a subclass says what it is called, takes and answers.

    Args:
        config: Names the context by user, agent and session.
        host: The context itself; None to belong to the one that is loaded next, or to be found at the first call.
    """

    component_config_schema = MemoryToolConfig
    tool_name: ClassVar[str]
    tool_description: ClassVar[str]
    args_model: ClassVar[type[BaseModel]]

    def __init__(self, config: MemoryToolConfig, host: ToolHost | None = None) -> None:
        super().__init__(self.args_model, cast(type[BaseModel], str), self.tool_name, self.tool_description)
        self._config = config
        self._own_host = host

    async def run(self, args: BaseModel, cancellation_token: CancellationToken) -> Any:
        """Return the answer as text; problems are told in the text, never raised."""
        config = self._config
        if self._own_host is None:
            self._own_host = _hosts.get((config.user_id, config.agent_id, config.session_id))
        host = self._own_host
        if host is None:
            return (
                f"This tool has nothing to look in: no memory context of user {config.user_id!r}, agent "
                f"{config.agent_id!r}, session {config.session_id!r} is open in this process."
            )
        return await self._answer(host, args)

    def bind(self, host: ToolHost) -> None:
        """Belong to this context from now on."""
        self._own_host = host

    @abstractmethod
    async def _answer(self, host: ToolHost, args: Any) -> str: ...

    def _to_config(self) -> MemoryToolConfig:
        host = self._own_host
        if host is None:
            return self._config
        return MemoryToolConfig(user_id=host.user_id, agent_id=host.agent_id, session_id=host.session_id)

    @classmethod
    def _from_config(cls, config: MemoryToolConfig) -> Self:
        tool = cls(config)
        identity = (config.user_id, config.agent_id, config.session_id)
        _hostless.setdefault(identity, WeakSet()).add(tool)
        return tool


def answer_limit(host: ToolHost) -> int:
    """Return what an answer may take: as much as a first view shows, but enough to say how to go on."""
    return max(host.policy.result_limit_tokens, LEAST_ANSWER_TOKENS)


def remembered(host: ToolHost, text: str, label: str) -> str:
    """Return an answer after its look-up is registered: `label` is what it collapses to."""
    host.agent_memory.memory_store.lookups.add(host.user_id, text, Lookup(label))
    return text

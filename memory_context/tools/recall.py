"""`create_recall_tool`: `read_history` for an agent without the other memory tools."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..policy import RecallConfig
from .base import answer_limit
from .history import ReadHistoryArgs, ReadHistoryTool
from .hosts import MemoryToolConfig, ToolHost, config_of
from .repeats import NOTE_TOKENS, Answer

__all__ = ["RecallResult", "RecallTool", "RecallToolConfig", "create_recall_tool"]


@dataclass(frozen=True)
class RecallResult:
    """What was read, or why nothing was.

    Attributes:
        text: As the agent reads it, with the exact call for what was cut.
        data: `first_message`, `last_message` and, of another session, `session_id`; empty for several sessions.
    """

    text: str
    has_failed: bool = False
    data: Mapping[str, Any] = field(default_factory=dict[str, Any])


class RecallToolConfig(MemoryToolConfig):
    """Names the tool's context; says how much it reads."""

    recall: RecallConfig = RecallConfig()


class RecallTool(ReadHistoryTool):
    """Reads messages behind observations, within the limits of a `RecallConfig`."""

    component_config_schema = RecallToolConfig
    component_provider_override = "memory_context.tools.RecallTool"
    tool_description = (
        "Read the messages behind observations: from first_message on, back from last_message, one part whole, or by "
        "words."
    )

    def __init__(self, config: RecallToolConfig, host: ToolHost | None = None) -> None:
        super().__init__(config, host)
        self._recall = config.recall

    @property
    def config(self) -> RecallConfig:
        return self._recall

    def limit_tokens(self, host: ToolHost) -> int:
        return min(self._recall.limit_tokens - NOTE_TOKENS, answer_limit(host))

    async def recall(self, **arguments: Any) -> RecallResult:
        """Read as the agent does, for an application; never raises.

        Args:
            arguments: Those of `read_history`, such as `first_message=13, last_message=16` or `query="deadline"`.
        """
        answer = await self.answer(arguments)
        return RecallResult(answer.text, answer.failed, answer.data)

    async def _answer(self, host: ToolHost, args: ReadHistoryArgs) -> Answer:
        is_elsewhere = bool(args.memory_key) or args.session_id not in (None, host.session_id)
        if self._recall.scope == "session" and is_elsewhere:
            return Answer("Only this session can be read here: leave out session_id and memory_key.", failed=True)
        return await super()._answer(host, args)

    def _to_config(self) -> RecallToolConfig:
        base = super()._to_config()
        return RecallToolConfig(**base.model_dump(exclude={"recall"}), recall=self._recall)


class _Context(ToolHost, Protocol):
    def note_tools(self, names: Iterable[str]) -> None: ...


def create_recall_tool(context: _Context, config: RecallConfig | None = None) -> RecallTool:
    """Return the tool that reads what lies behind observations, for an agent that has no other memory tools.

    `context.tools()` and `context.workbench()` contain `read_history` already.

    Args:
        context: A `MemoryContext`.
        config: Scope and size of answers; None for `policy.observation.recall`.
    """
    recall = config or context.policy.observation.recall or RecallConfig()
    tool = RecallTool(RecallToolConfig(**config_of(context).model_dump(), recall=recall), context)
    context.note_tools([tool.name])
    return tool

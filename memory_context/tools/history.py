"""Reading the session again, folded steps included."""

from pydantic import Field

from ..view import read_history
from .base import MemoryTool, ToolArguments, ToolHost, answer_limit
from .repeats import Answer

__all__ = ["ReadHistoryArgs", "ReadHistoryTool"]


class ReadHistoryArgs(ToolArguments):
    """Arguments of `read_history`.

    Attributes:
        first_message: Number of the message to begin with; None for the first.
        first_character: Where in that message to begin, to go on in a long one.
    """

    first_message: int | None = None
    first_character: int = Field(default=1, ge=1)


class ReadHistoryTool(MemoryTool):
    """Lets a model page what happened in its session, folded steps included."""

    component_provider_override = "memory_context.tools.ReadHistoryTool"
    args_model = ReadHistoryArgs
    tool_name = "read_history"
    tool_description = "Page this session, folded messages too."

    async def _answer(self, host: ToolHost, args: ReadHistoryArgs) -> Answer:
        transcript = host.transcript
        first = transcript.state.start + 1 if args.first_message is None else args.first_message
        try:
            page = read_history(transcript, first, answer_limit(host), host.token_counter, args.first_character)
        except ValueError as error:
            return Answer(f"{error}.", failed=True)
        call = f"first_message={page.first}"
        if args.first_character > 1:
            call += f", first_character={args.first_character}"
        label = f"messages {page.first}-{page.last} of this session, by read_history({call})"
        pages = transcript.entries(page.first - 1, page.last)
        keys = [ref.key for entry in pages for part in entry.measured if part.stored for ref in part.stored.refs]
        host.agent_memory.trail.note("paged", keys, f"{self.name}: messages {page.first}-{page.last}")
        footer = page.text.rsplit("\n", 1)[-1].strip("[]")
        if "Next: " not in footer:
            footer = (
                f"What came after message {page.last} is in front of you. search_memory finds what earlier ones say."
            )
        return Answer(page.text, label, footer, data={"first_message": page.first, "last_message": page.last})

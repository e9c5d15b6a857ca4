"""The decisions of the model when there is no key: scripted, while the tools and all that they find are real.

The script knows what to look for, as somebody would who has a hunch of how AutoGen works; it does not know what will be
found. Files, lines and names in its answers are read from the tool results of this very run; what was not found is not
claimed.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

from autogen_core.models import (
    CreateResult,
    FunctionExecutionResultMessage,
    LLMMessage,
    RequestUsage,
    UserMessage,
)
from typing_extensions import Unpack

from memory_context.testing import Call, ScriptedModel, call, tool_calls

__all__ = ["CONTINUATION", "CONTINUED_TASK", "EXPLORATION", "OPENED_TASK", "RECALLED_TASK", "RECOLLECTION", "SEARCHED"]
__all__ += ["TASKS", "ScriptedClient", "Step"]

TASKS = (
    "How does a message get from a team to the model? Trace it through autogen_agentchat and autogen_core, with files "
    "and lines.",
    "Which model contexts does autogen_core ship, what does each of them keep, and which code reads and fills them?",
    "Back to the AssistantAgent: which of its lines call the model and which write into its context? What stands "
    "between a tool call and its result, and where is a cancelled run handled?",
)
OPENED_TASK = "Take _static_workbench.py once more: which methods does a StaticWorkbench have?"
RECALLED_TASK = "What did we find out last time about cancelling a run?"
SEARCHED = "how does a team ask the next agent to speak"
CONTINUED_TASK = "Where were we? From what you read before: which classes in messages.py are events, not messages?"

_AGENT = "autogen_agentchat/agents/_assistant_agent.py"
_MESSAGES = "autogen_agentchat/messages.py"
_TEAM = "autogen_agentchat/teams/_group_chat"
_CONTEXTS = "autogen_core/model_context"
_CHAT, _CORE = "autogen_agentchat", "autogen_core"
_STRATEGIES = [
    f"{_CONTEXTS}/_{name}_chat_completion_context.py"
    for name in ("unbounded", "buffered", "head_and_tail", "token_limited")
]
_CALLS = r"model_context\.add_message|model_client\.create"
_EVENTS = r"class (\w+)\(BaseAgentEvent"

_REFERENCE = re.compile(r"\[MemoryRef: (\S+) - path=([^,\]\s]+),")
_FOUND_BY_GREP = re.compile(r"^([\w/.-]+\.py):(\d+):(.*)$", re.MULTILINE)
_FOUND_IN_FILE = re.compile(r"^\d+[:-] (\d+)\t(.*)$", re.MULTILINE)

Decision = str | tuple[str, Unpack[tuple[Call, ...]]]
"""An answer, or a thought with calls."""


class ScriptedClient(ScriptedModel):
    """Takes one step a model call; a step may look at what the model was shown so far.

    Args:
        steps: One for each model call.
        first_call: Makes the ids of calls unique over processes.

    Attributes:
        results: Each tool result as it was shown first, by the id of its call.
        keys: Keys of the placeholders that were shown, by the path of the file that they stand for.
        opened: The text that the context itself brought into the view last.
    """

    def __init__(self, steps: "Sequence[Step]", first_call: int = 1) -> None:
        super().__init__("I have nothing to add.")
        self._steps = enumerate(steps, first_call)
        self.results: dict[str, str] = {}
        self.keys: dict[str, str] = {}
        self.opened = ""

    async def create(self, messages: Sequence[LLMMessage], **_: Any) -> CreateResult:
        """Return what the next step decides on these messages."""
        answered = [message for message in messages if isinstance(message, FunctionExecutionResultMessage)]
        shown = [result for message in answered for result in message.content]
        self.keys |= {path: key for one in shown for key, path in _REFERENCE.findall(one.content)}
        self.results = {one.call_id: one.content for one in shown} | self.results
        memories = [str(one.content) for one in messages if isinstance(one, UserMessage) and one.source == "memory"]
        self.opened = memories[-1] if memories else ""
        number, step = next(self._steps, (0, "I have nothing to add."))
        decision = step(self) if callable(step) else step
        if isinstance(decision, str):
            return CreateResult(finish_reason="stop", content=decision, usage=RequestUsage(0, 0), cached=False)
        thought, *calls = decision
        return tool_calls(*calls, thought=thought, id_prefix=f"call_{number}")

    def matches(self, pattern: str) -> list[tuple[str, int, str]]:
        """Return path, line number and text of each line that a grep has found and this pattern matches."""
        found = _FOUND_BY_GREP.findall("\n".join(self.results.values()))
        places = {(path, int(line), text.strip()) for path, line, text in found}
        return sorted(place for place in places if re.search(pattern, place[2]))

    def looked_up(self, pattern: str) -> list[tuple[int, str]]:
        """Return number and text of each line of a file that a regex of retrieve_memory has found."""
        found = _FOUND_IN_FILE.findall("\n".join(self.results.values()))
        return [(int(line), text) for line, text in found if re.search(pattern, text)]


Step = Decision | Callable[[ScriptedClient], Decision]


# --- steps ----------------------------------------------------------------------------------------------------------


def _shell(thought: str, command: str) -> Decision:
    return thought, call("shell", command=f'cd "$CODE_ROOT" && {command}')


def _grep(thought: str, pattern: str, path: str) -> Decision:
    return thought, call("grep", pattern=pattern, path=path)


def _read(thought: str, *paths: str) -> Decision:
    return thought, *(call("read_file", path=path) for path in paths)


def _recall(thought: str, path: str, pattern: str) -> Step:
    """Look into a file that was read before by its reference; without one, search the file again."""

    def step(seen: ScriptedClient) -> Decision:
        if key := seen.keys.get(path):
            return thought, call("retrieve_memory", memory_key=key, pattern=pattern, context_lines=0)
        return _grep(thought, pattern, path)

    return step


# --- answers: claims with the places they were seen at --------------------------------------------------------------

_WAY = (
    ("The team hands the task to its manager as GroupChatStart", r"^GroupChatStart\(messages=messages"),
    ("The manager relays it to the participants", r"^GroupChatStart\(messages=message\.m"),
    ("and asks the next speaker with GroupChatRequestPublish", r"^GroupChatRequestPublish\(\),"),
    ("The speaker's container passes its buffer to the agent", r"in self\._agent\.on_messages_stream\("),
    ("The agent writes it into its context", r"model_context\.add_message\(msg\.to_model"),
    ("reads the context back", r"await model_context\.get_messages\(\)"),
    ("and calls the model", r"model_result = await model_client\.create\("),
    ("What lies between the hops is delivered by the runtime", r"^class SingleThreadedAgentRuntime"),
)


def _trace(seen: ScriptedClient) -> str:
    lines = ["The way of a message from a team to the model, as far as I saw it:"]
    for claim, pattern in _WAY:
        if places := seen.matches(pattern):
            path, line, _ = places[0]
            lines.append(f"{len(lines)}. {claim} ({_name(path)}:{line})")
    return "\n".join(lines)


def _contexts(seen: ScriptedClient) -> str:
    shown = re.sub(r"^\d+\t", "", "\n".join(seen.results.values()), flags=re.MULTILINE)
    classes = re.findall(r'^class (\w+Context)\(ChatCompletionContext.*\n\s+"""([^"]+?)\.[\s"]', shown, re.MULTILINE)
    lines = [f"- {name}: {' '.join(sentence.split())}." for name, sentence in classes]
    users = sorted({_name(path) for path, _, _ in seen.matches(r"model_context\.(get_messages|add_message)\(")})
    return "\n".join([
        f"{len(lines)} of them, in the words of their docstrings:",
        *lines,
        f"In autogen_agentchat {len(users)} files read or fill one: {', '.join(users)}.",
    ])  # fmt: skip


def _inside_the_agent(seen: ScriptedClient) -> str:
    lines = seen.looked_up(_CALLS) or [(line, text) for path, line, text in seen.matches(_CALLS) if path == _AGENT]
    called, written = (
        ", ".join(str(line) for line, text in lines if what in text) or "(none seen)"
        for what in ("model_client.create", "model_context.add_message")
    )
    caught = [(path, f"{_name(path)}:{line}") for path, line, _ in seen.matches(r"^except .*CancelledError")]
    elsewhere = "" if _AGENT in dict(caught) else "; not in the AssistantAgent"
    return "\n".join([
        f"In {_AGENT}:",
        f"- the model is called in lines {called};",
        f"- the context is written in lines {written}, with the results after all tools of the step are done: a run "
        "that ends before leaves a call without its result in the context.",
        f"CancelledError is caught in {', '.join(place for _, place in caught) or 'no file that I saw'}{elsewhere}.",
    ])  # fmt: skip


def _events(seen: ScriptedClient) -> str:
    looked_up = [text for _, text in seen.looked_up(_EVENTS)]
    found = looked_up or [text for path, _, text in seen.matches(_EVENTS) if path == _MESSAGES]
    if not found:
        return "I did not find them."
    names = ", ".join(re.findall(_EVENTS, "\n".join(found)))
    how = " I looked them up in what the first process had read; no file was opened again." if looked_up else ""
    return f"{len(found)} classes are events: {names}.{how}"


def _methods(seen: ScriptedClient) -> str:
    methods = dict.fromkeys(re.findall(r"^\d+\t    (?:async )?def (\w+)\(", seen.opened, re.MULTILINE))
    if not methods:
        return "The file is not in my view, and I did not look it up."
    return f"{', '.join(methods)}. I called no tool for that: the context had opened the file for this question."


def _recalled_answer(seen: ScriptedClient) -> str:
    """Answer with what was concluded in an earlier conversation."""
    answers = re.findall(r"\(recalled; answer of [^\n]*\n(.*?)\n</memory-", seen.opened, re.DOTALL)
    found = [line for answer in answers for line in answer.splitlines() if "ancel" in line]
    last_time = "Last time we found out: "
    return f"{last_time}{found[0].removeprefix(last_time)}" if found else "I remember nothing of it."


def _name(path: str) -> str:
    return path.rpartition("/")[2]


# --- the scripts ----------------------------------------------------------------------------------------------------


EXPLORATION: tuple[Step, ...] = (
    _shell("First the lie of the land.", f"find {_CHAT} {_CORE} -name '*.py' | xargs wc -l | sort -n"),
    _read("A team's `run` is in the base of the group chats.", f"{_TEAM}/_base_group_chat.py"),
    _grep("Who sends and who takes the events of a group chat?", r"GroupChat(Start|RequestPublish)\(", _CHAT),
    _read("The manager decides who speaks.", f"{_TEAM}/_base_group_chat_manager.py"),
    _read("The container is what stands for an agent in the group.", f"{_TEAM}/_chat_agent_container.py"),
    _grep("Where is the agent itself called?", r"on_messages_stream\(", _CHAT),
    _read("Now the agent most people use.", _AGENT),
    _grep("Where do agents call a model?", r"model_client\.create", _CHAT),
    _grep("And where do they touch their context?", r"model_context\.\w+\(", _CHAT),
    _read("The hops are delivered by the runtime.", "autogen_core/_single_threaded_agent_runtime.py"),
    _grep("Which class is that?", r"^class \w*Runtime\b", _CORE),
    _trace,
    #
    _shell("What is in the package of the contexts?", f"wc -l {_CONTEXTS}/*.py"),
    _read("The common base first.", f"{_CONTEXTS}/_chat_completion_context.py"),
    _read("The four strategies, at once.", *_STRATEGIES),
    _read("An agent that runs code keeps a context too.", "autogen_agentchat/agents/_code_executor_agent.py"),
    _read("And the team that lets a model choose the speaker.", f"{_TEAM}/_selector_group_chat.py"),
    _grep("How are contexts saved?", r"def (save|load)_state", _CHAT),
    _read("What messages can be added?", "autogen_core/models/_types.py"),
    _read("And what do agents send each other?", _MESSAGES),
    _contexts,
    #
    _recall("I read that file before; a regex on what is stored finds the lines.", _AGENT, _CALLS),
    _read("How is a function called as a tool?", f"{_CORE}/tools/_function_tool.py", f"{_CORE}/tools/_base.py"),
    _read("And what runs a tool?", "autogen_core/tools/_static_workbench.py"),
    _shell("Who handles a cancellation?", f"grep -rn CancelledError --include='*.py' {_CHAT} {_CORE}"),
    _read("What does a token do?", "autogen_core/_cancellation_token.py"),
    _grep("And who links to it?", r"link_future|is_cancelled\(\)", _CORE),
    _recall("Back to the team: does it cancel?", f"{_TEAM}/_base_group_chat.py", r"cancellation_token|cancel\("),
    _shell("How large is all of that?", "cat $(find autogen_agentchat autogen_core -name '*.py') | wc -lc"),
    _inside_the_agent,
    #
    _methods,
)
"""The first process's turns."""

CONTINUATION: tuple[Step, ...] = (
    _recall("I read messages.py in the other process; its reference is still here.", _MESSAGES, _EVENTS),
    _events,
)
"""The second process's turn."""

RECOLLECTION: tuple[Step, ...] = (_recalled_answer,)
"""The new session's turn."""

"""The decisions of the model when there is no key: scripted, while the tools and all that they find are real.

The script knows what to look for, as somebody would who has a hunch of how AutoGen works; it does not know what will be
found. Line numbers and names in its answers are read from the tool results of this very run, the way they were shown;
what was not found is not claimed.
"""

import asyncio
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from autogen_core.models import CreateResult, LLMMessage, RequestUsage, UserMessage
from typing_extensions import Unpack

from memory_context.testing import Call, ScriptedModel, call, tool_calls

from .recorder import results_in

__all__ = [
    "CONTINUED_TASK",
    "OPENED_TASK",
    "RECALLED_TASK",
    "SEARCHED",
    "TASKS",
    "ScriptedClient",
    "continued_script",
    "exploration_script",
    "recalled_script",
]

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
_USES = r"model_context\.add_message|model_client\.create"
_EVENTS = r"class \w+\(BaseAgentEvent"

_REFERENCE = re.compile(r"\[MemoryRef: (\S+) - ([^\]\n]*) - \d+ tokens\]")
_FOUND_BY_GREP = re.compile(r"^([\w/.-]+\.py):(\d+):(.*)$", re.MULTILINE)
_FOUND_IN_FILE = re.compile(r"^\d+[:-] (\d+)\t(.*)$", re.MULTILINE)


@dataclass
class Seen:
    """What the model has been shown so far.

    Attributes:
        view: The results in the present view, as they look there.
        first_shown: The text of each result when it was shown first, by the id of its call.
        opened: What the context itself has brought into the view last.
    """

    view: list[str] = field(default_factory=list[str])
    first_shown: dict[str, str] = field(default_factory=dict[str, str])
    opened: str = ""

    def take(self, messages: Sequence[LLMMessage]) -> None:
        """Look at the messages of a call."""
        results = results_in(messages)
        self.view = [result.content for result in results]
        for result in results:
            self.first_shown.setdefault(result.call_id, result.content)
        self.opened = next(
            (str(m.content) for m in reversed(messages) if isinstance(m, UserMessage) and m.source == "memory"), ""
        )

    def key_of(self, path: str) -> str | None:
        """Return the key of the placeholder that stands for a file in the view."""
        for text in reversed(self.view):
            for key, description in _REFERENCE.findall(text):
                if f"path={path}," in description and "line=" not in description:
                    return str(key)
        return None

    def matches(self, pattern: str) -> list[tuple[str, int, str]]:
        """Return path, line number and text of each line that a grep has found and this pattern matches."""
        found = {
            (path, int(number), text.strip())
            for shown in self.first_shown.values()
            for path, number, text in _FOUND_BY_GREP.findall(shown)
        }
        return sorted(place for place in found if re.search(pattern, place[2]))

    def place(self, pattern: str, path: str = "") -> str | None:
        """Return `file.py:line` of the first line that was found, in a path if one is given."""
        return next((f"{p.rpartition('/')[2]}:{n}" for p, n, _ in self.matches(pattern) if path in p), None)

    def retrieved(self, pattern: str) -> list[tuple[int, str]]:
        """Return number and text of each line of a file that the last retrieve_memory found."""
        last = next(reversed(self.first_shown.values()), "")
        return [(int(n), text.strip()) for n, text in _FOUND_IN_FILE.findall(last) if re.search(pattern, text)]


Decision = str | tuple[str, Unpack[tuple[Call, ...]]]
Step = Callable[[Seen], Decision]


class ScriptedClient(ScriptedModel):
    """Takes one step after another, each of which looks at what it is shown before it decides.

    Args:
        steps: One for each model call.
        first_call: Makes the ids of calls unique over processes.
        pace_seconds: How long each decision takes.
    """

    def __init__(self, steps: Sequence[Step], first_call: int = 1, pace_seconds: float = 0.0) -> None:
        super().__init__("I have nothing to add.")
        self._steps, self._next_id, self._pace_seconds = iter(steps), count(first_call), pace_seconds
        self._seen = Seen()

    async def create(self, messages: Sequence[LLMMessage], **_: Any) -> CreateResult:
        """Return what the next step decides on these messages."""
        await asyncio.sleep(self._pace_seconds)
        self._seen.take(messages)
        decision = next(self._steps, lambda seen: "I have nothing to add.")(self._seen)
        if isinstance(decision, str):
            return CreateResult(finish_reason="stop", content=decision, usage=RequestUsage(0, 0), cached=False)
        thought, *calls = decision
        result = tool_calls(*calls, thought=thought)
        content = [replace(one, id=f"call_{next(self._next_id)}") for one in result.content]
        return result.model_copy(update={"content": content})


# --- what a step can be ---------------------------------------------------------------------------------------------


def _shell(thought: str, command: str) -> Step:
    return lambda seen: (thought, call("shell", command=f'cd "$CODE_ROOT" && {command}'))


def _grep(thought: str, pattern: str, path: str) -> Step:
    return lambda seen: (thought, call("grep", pattern=pattern, path=path))


def _read(thought: str, *paths: str) -> Step:
    return lambda seen: (thought, *(call("read_file", path=path) for path in paths))


def _recall(thought: str, path: str, pattern: str) -> Step:
    """Look a file that was read before up by its reference; only without one (the store was down) search it again."""

    def step(seen: Seen) -> Decision:
        if key := seen.key_of(path):
            lines = {"transform": "filtered", "pattern": pattern, "context_lines": 0}
            return thought, call("retrieve_memory", memory_key=key, **lines)
        return "I have no reference to it, so I search the file itself.", call("grep", pattern=pattern, path=path)

    return step


def _around_the_tool_results(seen: Seen) -> Decision:
    what = "FunctionExecutionResultMessage"
    lines = seen.retrieved(what) or [(n, text) for path, n, text in seen.matches(what) if path == _AGENT] or [(26, "")]
    place = {"start_line": max(lines[0][0] - 25, 1), "end_line": lines[0][0] + 5}
    if key := seen.key_of(_AGENT):
        wanted = call("retrieve_memory", memory_key=key, transform="excerpt", **place)
        return "The lines before the results are written.", wanted
    return "The lines before that.", call("read_file", path=_AGENT, **place)


# --- the answers: claims with the places they were seen at ----------------------------------------------------------

_WAY = (
    ("The team hands the task to its manager as GroupChatStart ({}).", r"^GroupChatStart\(messages=messages", ""),
    ("The manager relays it to the participants ({}),", r"^GroupChatStart\(messages=message\.m", ""),
    ("and asks the next speaker with GroupChatRequestPublish ({}).", r"^GroupChatRequestPublish\(\),", "manager"),
    ("The speaker's container passes its buffer to the agent ({}).", r"in self\._agent\.on_messages_stream\(", ""),
    ("The agent writes it into its context ({}),", r"model_context\.add_message\(msg\.to_model", _AGENT),
    ("reads the context back ({})", r"await model_context\.get_messages\(\)", _AGENT),
    ("and calls the model ({}).", r"model_result = await model_client\.create\(", _AGENT),
    ("What lies between the hops is delivered by the runtime, {}.", r"^class SingleThreadedAgentRuntime", ""),
)


def _trace(seen: Seen) -> str:
    places = [(claim, seen.place(pattern, path)) for claim, pattern, path in _WAY]
    claims = [claim.format(place) for claim, place in places if place]
    numbered = "\n".join(f"{number}. {claim}" for number, claim in enumerate(claims, 1)) or "I did not find it."
    return f"The way of a message from a team to the model, as far as I saw it:\n{numbered}"


def _contexts(seen: Seen) -> str:
    shown = "\n".join(re.sub(r"^\d+\t", "", text, flags=re.MULTILINE) for text in seen.first_shown.values())
    classes = re.findall(r'^class (\w+Context)\(ChatCompletionContext.*\n\s+"""([^"]+?)\.[\s"]', shown, re.MULTILINE)
    lines = [f"- {name}: {' '.join(sentence.split())}." for name, sentence in classes]
    readers = {path for path, _, _ in seen.matches(r"model_context\.get_messages\(")}
    writers = {path for path, _, _ in seen.matches(r"model_context\.add_message\(")}
    files = ", ".join(sorted(path.rpartition("/")[2] for path in readers | writers))
    uses = f"In autogen_agentchat {len(readers)} files read a context and {len(writers)} add to one: {files}."
    return "\n".join([f"{len(lines)} of them, in the words of their docstrings:", *lines, uses])


def _inside_the_agent(seen: Seen) -> str:
    lines = [
        (int(number), text)
        for shown in seen.first_shown.values()
        if "add_message" in shown and "matches " in shown
        for number, text in _FOUND_IN_FILE.findall(shown)
    ] or [(number, text) for path, number, text in seen.matches(r"add_message|model_client\.create") if path == _AGENT]
    calls, writes, results = (
        ", ".join(str(number) for number, text in lines if what in text) or "(none seen)"
        for what in ("model_client.create", "model_context.add_message", "FunctionExecutionResultMessage")
    )
    places = [(p, f"{p.rpartition('/')[2]}:{n}") for p, n, _ in seen.matches(r"^except .*CancelledError")]
    answer = [
        f"In {_AGENT}:",
        f"- the model is called in lines {calls};",
        f"- the context is written in lines {writes};",
        f"- what the tools found is written in line {results}, after all tools of the step are done: a run that ends "
        "before leaves a call without its result in the context.",
    ]
    if places:
        elsewhere = "" if _AGENT in dict(places) else "; not in the AssistantAgent"
        answer.append(f"CancelledError is caught in {', '.join(place for _, place in places)}{elsewhere}.")
    return "\n".join(answer)


def _events(seen: Seen) -> str:
    what = r"^class (\w+)\(BaseAgentEvent"
    looked_up = [text for _, text in seen.retrieved(what)]
    found = looked_up or [text for path, _, text in seen.matches(what) if path == _MESSAGES]
    if not found:
        return "I did not find them."
    names = ", ".join(name for text in found for name in re.findall(what, text))
    how = " I looked them up in what the first process had read; no file was opened again." if looked_up else ""
    return f"{len(found)} classes are events: {names}.{how}"


def _methods(seen: Seen) -> str:
    methods = dict.fromkeys(re.findall(r"^\d+\t    (?:async )?def (\w+)\(", seen.opened, re.MULTILINE))
    if not methods:
        return "The file is not in my view, and I did not look it up."
    return f"{', '.join(methods)}. I called no tool for that: the context had opened the file for this question."


def _recalled_answer(seen: Seen) -> str:
    """Answer with what was concluded in an earlier conversation."""
    answers = re.findall(r"\(recalled; answer of [^\n]*\n(.*?)\n</memory-", seen.opened, re.DOTALL)
    found = [line for answer in answers for line in answer.splitlines() if "ancel" in line]
    return f"Last time we found out: {found[0]}" if found else "I remember nothing of it."


def recalled_script() -> list[Step]:
    """Return the step of the new session."""
    return [_recalled_answer]


def exploration_script() -> list[Step]:
    """Return the steps of the first process's turns."""
    return [
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
        _recall("I read that file before; a regex on what is stored finds the lines.", _AGENT, _USES),
        _around_the_tool_results,
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
    ]


def continued_script() -> list[Step]:
    """Return the steps of the second process."""
    return [
        _recall("I read messages.py in the other process; its reference is still here.", _MESSAGES, _EVENTS),
        _events,
    ]

"""The decisions of the model when there is no key: scripted, while the tools and all that they find are real.

The script knows what to look for, as somebody would who has a hunch of how AutoGen works; it does not know what will be
found. Line numbers and names in its answers are read from the tool results of this very run, the way they were shown;
what was not found is not claimed.
"""

import asyncio
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from autogen_core import FunctionCall
from autogen_core.models import CreateResult, LLMMessage, ModelFamily, ModelInfo, RequestUsage, UserMessage
from autogen_ext.models.replay import ReplayChatCompletionClient

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


Step = Callable[[Seen], "str | tuple[str, list[FunctionCall]]"]


class ScriptedClient(ReplayChatCompletionClient):
    """Replays steps that look at what they are shown before they decide.

    Args:
        steps: One for each model call.
        first_call: Makes the ids of calls unique over processes.
        pace_seconds: How long each decision takes.
    """

    def __init__(self, steps: Sequence[Step], first_call: int = 1, pace_seconds: float = 0.0) -> None:
        info = ModelInfo(
            vision=False, function_calling=True, json_output=False, family=ModelFamily.UNKNOWN, structured_output=False
        )
        super().__init__([], model_info=info)
        self._steps = iter(steps)
        self._next_id = first_call
        self._seen = Seen()
        self._pace_seconds = pace_seconds

    async def create(self, messages: Sequence[LLMMessage], **kwargs: Any) -> CreateResult:
        """Return what the next step decides on these messages."""
        await asyncio.sleep(self._pace_seconds)
        self._seen.take(messages)
        step = next(self._steps, None)
        decision = "I have nothing to add." if step is None else step(self._seen)
        usage = RequestUsage(prompt_tokens=0, completion_tokens=0)
        if isinstance(decision, str):
            self.chat_completions.append(
                CreateResult(finish_reason="stop", content=decision, usage=usage, cached=False)
            )
        else:
            thought, calls = decision
            for call in calls:
                call.id, self._next_id = f"call_{self._next_id}", self._next_id + 1
            self.chat_completions.append(
                CreateResult(finish_reason="function_calls", content=calls, usage=usage, cached=False, thought=thought)
            )
        return await super().create(messages, **kwargs)


# --- what a step can be ---------------------------------------------------------------------------------------------


def _call(tool: str, **arguments: Any) -> FunctionCall:
    return FunctionCall(id="", name=tool, arguments=json.dumps(arguments))


def _shell(thought: str, command: str) -> Step:
    return lambda seen: (thought, [_call("shell", command=f'cd "$CODE_ROOT" && {command}')])


def _grep(thought: str, pattern: str, path: str) -> Step:
    return lambda seen: (thought, [_call("grep", pattern=pattern, path=path)])


def _read(thought: str, *paths: str) -> Step:
    return lambda seen: (thought, [_call("read_file", path=path) for path in paths])


def _recall(thought: str, path: str, pattern: str, context_lines: int = 0) -> Step:
    """Look a file that was read before up by its reference; only without one (the store was down) read it again."""

    def step(seen: Seen) -> tuple[str, list[FunctionCall]]:
        key = seen.key_of(path)
        if key is None:
            return "I have no reference to it, so I search the file itself.", [
                _call("grep", pattern=pattern, path=path)
            ]
        arguments = {"transform": "filtered", "pattern": pattern, "context_lines": context_lines}
        return thought, [_call("retrieve_memory", memory_key=key, **arguments)]

    return step


def _around_the_tool_results(seen: Seen) -> tuple[str, list[FunctionCall]]:
    what = "FunctionExecutionResultMessage"
    lines = seen.retrieved(what) or [(n, text) for path, n, text in seen.matches(what) if path == _AGENT] or [(26, "")]
    key = seen.key_of(_AGENT)
    start, end = max(lines[0][0] - 25, 1), lines[0][0] + 5
    if key is None:
        return "The lines before that.", [_call("read_file", path=_AGENT, start_line=start, end_line=end)]
    arguments = {"transform": "excerpt", "start_line": start, "end_line": end}
    return "The lines before the results are written.", [_call("retrieve_memory", memory_key=key, **arguments)]


# --- the answers: claims with the places they were seen at ----------------------------------------------------------


def _numbered(claims: Sequence[tuple[str, str | None]]) -> str:
    seen = [claim.format(place) for claim, place in claims if place is not None]
    return "\n".join(f"{number}. {claim}" for number, claim in enumerate(seen, 1)) or "I did not find it."


def _trace(seen: Seen) -> str:
    return "The way of a message from a team to the model, as far as I saw it:\n" + _numbered(
        [
            (
                "The team hands the task to its manager as GroupChatStart ({}).",
                seen.place(r"^GroupChatStart\(messages=messages"),
            ),
            ("The manager relays it to the participants ({}),", seen.place(r"^GroupChatStart\(messages=message\.m")),
            (
                "and asks the next speaker with GroupChatRequestPublish ({}).",
                seen.place(r"^GroupChatRequestPublish\(\),", "manager"),
            ),
            (
                "The speaker's container passes its buffer to the agent ({}).",
                seen.place(r"in self\._agent\.on_messages_stream\("),
            ),
            (
                "The agent writes it into its context ({}),",
                seen.place(r"model_context\.add_message\(msg\.to_model", _AGENT),
            ),
            ("reads the context back ({})", seen.place(r"await model_context\.get_messages\(\)", _AGENT)),
            ("and calls the model ({}).", seen.place(r"model_result = await model_client\.create\(", _AGENT)),
            (
                "What lies between the hops is delivered by the runtime, {}.",
                seen.place(r"^class SingleThreadedAgentRuntime"),
            ),
        ]
    )


def _contexts(seen: Seen) -> str:
    lines = [f"- {name}: {sentence}" for name, sentence in _first_sentences(seen)]
    readers = {path for path, _, _ in seen.matches(r"model_context\.get_messages\(")}
    writers = {path for path, _, _ in seen.matches(r"model_context\.add_message\(")}
    return "\n".join(
        [
            f"{len(lines)} of them, in the words of their docstrings:",
            *lines,
            f"In autogen_agentchat {len(readers)} files read a context and {len(writers)} add to one: "
            f"{', '.join(sorted(path.rpartition('/')[2] for path in readers | writers))}.",
        ]
    )


def _first_sentences(seen: Seen) -> Iterator[tuple[str, str]]:
    for shown in seen.first_shown.values():
        code = re.sub(r"^\d+\t", "", shown, flags=re.MULTILINE)
        for name, text in re.findall(
            r'^class (\w+Context)\(ChatCompletionContext.*\n\s+"""([^"]+?)\.[\s"]', code, re.MULTILINE
        ):
            yield name, " ".join(text.split()) + "."


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
    """Answer with what was concluded in an earlier conversation, else with places."""
    answers = re.findall(r"\(recalled; answer of [^\n]*\n(.*?)\n</memory-", seen.opened, re.DOTALL)
    found = [line for answer in answers for line in answer.splitlines() if "ancel" in line]
    return f"Last time we found out: {found[0]}" if found else _recalled_places(seen)


def _recalled_places(seen: Seen) -> str:
    label = r"^\[MemoryRef: \S+ - ([^,\]\n]*)[^\]\n]* - \d+ tokens\] \(recalled; .*lines (\d+-\d+)\)$"
    found = re.findall(label, seen.opened, re.MULTILINE)
    if not found:
        return "I remember nothing of it."
    places = "; ".join(f"lines {lines} of {description}" for description, lines in found)
    return f"From our earlier sessions I have {places}."


def recalled_script() -> list[Step]:
    """Return the step of the new session."""
    return [_recalled_answer]


def exploration_script() -> list[Step]:
    """Return the steps of the first process's turns."""
    return [
        _shell(
            "First the lie of the land.", "find autogen_agentchat autogen_core -name '*.py' | xargs wc -l | sort -n"
        ),
        _read("A team's `run` is in the base of the group chats.", f"{_TEAM}/_base_group_chat.py"),
        _grep(
            "Who sends and who takes the events of a group chat?",
            r"GroupChat(Start|RequestPublish)\(",
            "autogen_agentchat",
        ),
        _read("The manager decides who speaks.", f"{_TEAM}/_base_group_chat_manager.py"),
        _read("The container is what stands for an agent in the group.", f"{_TEAM}/_chat_agent_container.py"),
        _grep("Where is the agent itself called?", r"on_messages_stream\(", "autogen_agentchat"),
        _read("Now the agent most people use.", _AGENT),
        _grep("Where do agents call a model?", r"model_client\.create", "autogen_agentchat"),
        _grep("And where do they touch their context?", r"model_context\.\w+\(", "autogen_agentchat"),
        _read("The hops are delivered by the runtime.", "autogen_core/_single_threaded_agent_runtime.py"),
        _grep("Which class is that?", r"^class \w*Runtime\b", "autogen_core"),
        _trace,
        #
        _shell("What is in the package of the contexts?", f"wc -l {_CONTEXTS}/*.py"),
        _read("The common base first.", f"{_CONTEXTS}/_chat_completion_context.py"),
        _read(
            "The four strategies, at once.",
            *(
                f"{_CONTEXTS}/_{name}_chat_completion_context.py"
                for name in ("unbounded", "buffered", "head_and_tail", "token_limited")
            ),
        ),
        _read("An agent that runs code keeps a context too.", "autogen_agentchat/agents/_code_executor_agent.py"),
        _read("And the team that lets a model choose the speaker.", f"{_TEAM}/_selector_group_chat.py"),
        _grep("How are contexts saved?", r"def (save|load)_state", "autogen_agentchat"),
        _read("What messages can be added?", "autogen_core/models/_types.py"),
        _read("And what do agents send each other?", _MESSAGES),
        _contexts,
        #
        _recall(
            "I read that file before; a regex on what is stored finds the lines.",
            _AGENT,
            r"model_context\.add_message|model_client\.create",
        ),
        _around_the_tool_results,
        _read(
            "How is a function called as a tool?", "autogen_core/tools/_function_tool.py", "autogen_core/tools/_base.py"
        ),
        _read("And what runs a tool?", "autogen_core/tools/_static_workbench.py"),
        _shell(
            "Who handles a cancellation?", "grep -rn CancelledError --include='*.py' autogen_agentchat autogen_core"
        ),
        _read("What does a token do?", "autogen_core/_cancellation_token.py"),
        _grep("And who links to it?", r"link_future|is_cancelled\(\)", "autogen_core"),
        _recall("Back to the team: does it cancel?", f"{_TEAM}/_base_group_chat.py", r"cancellation_token|cancel\("),
        _shell("How large is all of that?", "cat $(find autogen_agentchat autogen_core -name '*.py') | wc -lc"),
        _inside_the_agent,
        #
        _methods,
    ]


def continued_script() -> list[Step]:
    """Return the steps of the second process."""
    return [
        _recall(
            "I read messages.py in the other process; its reference is still here.",
            _MESSAGES,
            r"class \w+\(BaseAgentEvent",
        ),
        _events,
    ]

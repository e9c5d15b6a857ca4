"""What the scripted model decides: which tool the user's words ask for, and what to say of what it returned.

What came back too large is looked up in the memory, as a model would do it. Nothing here knows the answers.
"""

import re
import textwrap
from collections.abc import Sequence

from autogen_core.models import AssistantMessage, FunctionExecutionResult, LLMMessage, UserMessage
from autogen_core.models import FunctionExecutionResultMessage as ResultMessage

from memory_context.testing import Call, call

__all__ = ["decide"]

_REFERENCE = re.compile(r"\[MemoryRef: (\S+) - [^\]\n]* - (\d+) tokens\]")
_FILE = re.compile(r"[\w/]+\.py\b")
_IDENTIFIER = re.compile(r"`([^`]+)`|\b([A-Za-z]+_\w+|[A-Z][a-z]+[A-Z]\w*)\b")
_NUMBERED = re.compile(r"^(?:\d+[:-] )?(\d+)\t(.*)$", re.MULTILINE)
_LISTED = re.compile(r"([\w/]+\.py)\t\d+ lines\t(.*)")
_FOUND = re.compile(r"^([\w/.]+\.py):(\d+):(.*)$", re.MULTILINE)
_KEY = re.compile(r"\b(?=\w*\d)[a-z]+(?:_[a-z]+)*_[a-z2-7]{6}\b")
_COMMON = re.compile("about|and|are|can|code|does|file|for|from|have|how|please|read|show|tell|that|the|what|where")
_HELP = """\
I am a small set of rules, not a model; start me with `OPENAI_API_KEY` set to talk to one. I understand

- "which parts does the package have?"
- "read store/pool.py and show me how a connection is opened"
- "where is `StoreUnavailableError` raised?"
- "what do you remember about placeholders?"
- "remember that the release is on Friday"\
"""


def decide(messages: Sequence[LLMMessage]) -> str | Call:
    """Return the answer, or the tool to call."""
    question, results = "", list[FunctionExecutionResult]()
    for message in messages:
        if isinstance(message, UserMessage) and message.source != "memory":
            question, results = str(message.content), []
        elif isinstance(message, ResultMessage):
            results.extend(message.content)
        elif isinstance(message, AssistantMessage) and isinstance(message.content, str):
            results = []
    return _after(question, results) if results else _at_first(question)


def _at_first(question: str) -> str | Call:
    """Choose a tool by the words of the user."""
    words = question.lower()
    named = [quoted or bare for quoted, bare in _IDENTIFIER.findall(question)]
    if told := re.match(r"\s*(?:please )?remember that (.+)", question, re.IGNORECASE | re.DOTALL):
        return call("store_memory", content=told[1].strip(), description=told[1].strip()[:120], type="user_fact")
    if "remember" in words or "your memory" in words:
        return call("search_memory", query=re.sub(r".*\bremember\b(?: about)?", "", words).strip(" ?.") or question)
    if file := _FILE.search(question):
        return call("read_file", path=file[0])
    if key := _KEY.search(question):
        return call("retrieve_memory", memory_key=key[0], transform="summary")
    if named and re.search(r"\b(where|search|find|who|which|how)\b", words):
        name = re.escape(named[0])
        return call("search_code", pattern=rf"raise .*{name}" if "raise" in words else rf"\b{name}\b")
    if re.search(r"\b(tour|parts|files|list|structure|modules|overview)\b", words):
        return call("list_files")
    return _HELP


def _after(question: str, results: Sequence[FunctionExecutionResult]) -> str | Call:
    """Answer from what the tools returned, or look up what was too large to be seen whole."""
    first, last = results[0], results[-1]
    if last.is_error:
        return f"That did not work: {last.content}"
    reference = _REFERENCE.search(first.content)
    if reference and first is last and first.name in ("read_file", "list_files"):
        lines = {"pattern": _definitions(question), "ignore_case": True, "context_lines": 12, "max_matches": 3}
        if first.name == "list_files":
            lines = {"pattern": r"^\w+\.py|__init__\.py", "context_lines": 0, "max_matches": 100}
        return call("retrieve_memory", memory_key=reference[1], **lines)
    answer = _ANSWERS.get(first.name, _told)(question, last.content)
    if reference and last.name != "search_memory":
        answer += f"\n\nAll of it is kept as `{reference[1]}` ({int(reference[2]):,} tokens); ask me about it."
    return answer


def _definitions(question: str) -> str:
    """Return a pattern of definitions that have a word of the question in their names."""
    words = dict.fromkeys(re.findall(r"[a-z]{3,}", _FILE.sub("", question).lower()))
    wanted = "|".join(word.removesuffix("s") for word in words if not _COMMON.fullmatch(word))
    return rf"(def|class) \w*({wanted or '.'})"


def _toured(question: str, result: str) -> str:
    rows = [(path.removesuffix("/__init__.py"), path, purpose) for path, purpose in _LISTED.findall(result)]
    folders = [f"- `{name}/` {purpose}" for name, path, purpose in rows if name != path]
    modules = [f"- `{name}` {purpose}" for name, path, purpose in rows if "/" not in path and path != "__init__.py"]
    title = f"The package has **{len(folders)} folders** and {len(modules)} modules of its own:\n"
    return "\n".join([title, *folders, "\nAnd at the top:\n", *modules])


def _read(question: str, result: str) -> str:
    """Show the first definition that the question asks for."""
    numbered = [(int(number), line) for number, line in _NUMBERED.findall(result)]
    if not numbered:
        return _told(question, result)
    wanted = re.compile(_definitions(question), re.IGNORECASE)
    start = next((place for place, (_, line) in enumerate(numbered) if wanted.search(line)), 0)
    first = numbered[start][0]
    shown = [line for n, (number, line) in enumerate(numbered[start : start + 24]) if number == first + n]
    code = textwrap.dedent("\n".join(shown)).rstrip()
    return f"This is the place, lines {first}-{first + code.count(chr(10))}:\n\n```python\n{code}\n```"


def _searched(question: str, result: str) -> str:
    places = [f"{path}:{number}: {text.strip()}" for path, number, text in _FOUND.findall(result)]
    first = "\n".join(places[:16])
    return f"I see **{len(places)} matching lines**, the first of them:\n\n```text\n{first}\n```" if places else result


def _told(question: str, result: str) -> str:
    return f"This is what I found:\n\n```text\n{result[:1500]}\n```"


_ANSWERS = {
    "list_files": _toured,
    "read_file": _read,
    "retrieve_memory": _read,
    "search_code": _searched,
    "store_memory": lambda question, result: "I will remember that, in this conversation and in later ones.",
}

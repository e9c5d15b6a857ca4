"""What the scripted model decides: which tool the user's words ask for, and what to say of what it returned.

What came back too large is looked up in the memory, as a model would do it. Nothing here knows the answers.
"""

import re
from collections.abc import Sequence
from typing import Any, TypeAlias

from autogen_core.models import (
    AssistantMessage,
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    LLMMessage,
    UserMessage,
)

__all__ = ["Decision", "decide"]

_REFERENCE = re.compile(r"\[MemoryRef: (\S+) - [^\]\n]* - (\d+) tokens\]")
_FILE = re.compile(r"[\w/]+\.py\b")
_IDENTIFIER = re.compile(r"`([^`]+)`|\b([A-Za-z]+_\w+|[A-Z][a-z]+[A-Z]\w*)\b")
_NUMBERED = re.compile(r"^(?:\d+[:-] )?(\d+)\t(.*)$", re.MULTILINE)
_LISTED = re.compile(r"([\w/]+\.py)\t(\d+) lines\t(.*)")
_FOUND = re.compile(r"^([\w/.]+\.py):(\d+):(.*)$", re.MULTILINE)
_PASSAGE = re.compile(
    r"^\d+\. \[MemoryRef: (\S+) - ([^\n]*?) - \d+ tokens\][^\n]*?(?:, lines (\S+))?:\n(.*?)(?=\n\n|\Z)",
    re.MULTILINE | re.DOTALL,
)
_DEFINITION = re.compile(r"\s*(?:async )?(?:def|class) (\w+)")
_KEY = re.compile(r"\b(?=\w*\d)[a-z]+(?:_[a-z]+)*_[a-z2-7]{6}\b")
_COMMON = frozenset(
    re.findall(
        r"\w+",
        "a about and are can code come comes does file for from give have here how into most please read show "
        "tell that the there this used was what where which who why with you your",
    )
)
_MOST_LINES = 24
_MOST_PLACES = 16
_HELP = """\
I am a small set of rules, not a model; start me with `OPENAI_API_KEY` set to talk to one. I can

- **take a tour**: "which parts does the package have?"
- **read a file**: "read store/pool.py and show me how a connection is opened"
- **search the code**: "where is `StoreUnavailableError` raised?"
- **ask my memory**: "what do you remember about placeholders?"
- **keep something**: "remember that the release is on Friday"

All of what the tools return is real, and kept outside of my context."""


Decision: TypeAlias = str | tuple[str, dict[str, Any]]


def decide(messages: Sequence[LLMMessage]) -> Decision:
    """Return the answer, or the tool to call and its arguments."""
    question, results = "", list[FunctionExecutionResult]()
    for message in messages:
        if isinstance(message, UserMessage) and message.source != "memory":
            question, results = str(message.content), []
        elif isinstance(message, FunctionExecutionResultMessage):
            results.extend(message.content)
        elif isinstance(message, AssistantMessage) and isinstance(message.content, str):
            results = []
    return _after(question, results) if results else _at_first(question)


def _at_first(question: str) -> Decision:
    """Choose a tool by the words of the user."""
    words = question.lower()
    named = [quoted or bare for quoted, bare in _IDENTIFIER.findall(question)]
    sought = re.search(r"\b(?:search|find|grep)(?: the code)?(?: for)? (.+)", words)
    if told := re.match(r"\s*(?:please )?remember that (.+)", question, re.IGNORECASE | re.DOTALL):
        text = told[1].strip()
        return "store_memory", {"content": text, "description": text[:120], "type": "user_fact"}
    if "remember" in words or "your memory" in words:
        about = re.sub(r".*\bremember\b(?: about)?", "", question, flags=re.IGNORECASE).strip(" ?.")
        return "search_memory", {"query": about or question}
    if file := _FILE.search(question):
        return "read_file", {"path": file[0]}
    if key := _KEY.search(question):
        return "retrieve_memory", {"memory_key": key[0], "transform": "summary"}
    if named and re.search(r"\b(where|search|find|who|which|how)\b", words):
        name = re.escape(named[0])
        return "search_code", {"pattern": rf"raise .*{name}" if "raise" in words else rf"\b{name}\b"}
    if re.search(r"\b(tour|parts|files|list|structure|modules|overview)\b", words):
        return "list_files", {}
    if sought:
        return "search_code", {"pattern": "(?i)" + re.escape(sought[1].strip(" \"'?."))}
    return _HELP


def _after(question: str, results: Sequence[FunctionExecutionResult]) -> Decision:
    """Answer from what the tools returned, or look up what was too large to be seen whole."""
    last = results[-1]
    if last.is_error:
        return f"That did not work: {last.content}"
    first = results[0]
    if first is last and (reference := _REFERENCE.search(first.content)) and (looked_for := _LOOK_UPS.get(first.name)):
        return "retrieve_memory", {"memory_key": reference[1], "transform": "filtered", **looked_for(question)}
    answer = _ANSWERS.get(first.name, _told)(question, last.content)
    references = list(dict.fromkeys(_REFERENCE.findall("\n".join(result.content for result in results))))
    if references and last.name != "search_memory":
        kept = ", ".join(f"`{key}` ({int(tokens):,} tokens)" for key, tokens in references[:2])
        answer += f"\n\nWhat I read is kept in full as {kept}; ask me about it whenever you like."
    return answer


def _wanted_lines(question: str) -> dict[str, Any]:
    pattern = rf"(def|class) \w*({'|'.join(_words(question)) or '.'})"
    return {"pattern": pattern, "ignore_case": True, "context_lines": 12, "max_matches": 3}


def _parts(question: str) -> dict[str, Any]:
    return {"pattern": r"^\w+\.py|__init__\.py", "context_lines": 0, "max_matches": 100}


_LOOK_UPS = {"read_file": _wanted_lines, "list_files": _parts}


def _words(question: str) -> list[str]:
    """Return the words that say what is wanted, those of a file's name left out."""
    words = re.findall(r"[a-z]{3,}", _FILE.sub("", question).lower())
    return list(dict.fromkeys(word.removesuffix("s") for word in words if word not in _COMMON))


# --- answering ------------------------------------------------------------------------------------------------------


def _toured(question: str, result: str) -> str:
    rows = _LISTED.findall(result)
    packages = [(path, purpose) for path, _, purpose in rows if path.endswith("/__init__.py")]
    folders = [(path.rpartition("/")[0], purpose) for path, purpose in packages]
    modules = [(path, purpose) for path, _, purpose in rows if "/" not in path and path != "__init__.py"]
    lines = [f"The package has **{len(folders)} folders** and {len(modules)} modules of its own:\n"]
    lines += [f"- `{name}/` {purpose}" for name, purpose in folders]
    lines += ["\nAnd at the top:\n"]
    lines += [f"- `{name}` {purpose}" for name, purpose in modules]
    return "\n".join(lines)


def _read(question: str, result: str) -> str:
    """Show the definition that has most of the wanted words."""
    numbered = [(int(number), line) for number, line in _NUMBERED.findall(result)]
    if not numbered:
        return _told(question, result)
    definitions = {place: found[1] for place, (_, line) in enumerate(numbered) if (found := _DEFINITION.match(line))}
    wanted = _words(question)

    def score(place: int) -> int:
        beginning = " ".join(line for _, line in numbered[place : place + 4]).lower()
        return sum((word in definitions[place].lower()) * 2 + (word in beginning) for word in wanted)

    start = max(definitions, key=score, default=0) if wanted else 0
    end = min([place for place in definitions if place > start] + [start + _MOST_LINES, len(numbered)])
    shown = [numbered[start]]
    for number, line in numbered[start + 1 : end]:
        if number != shown[-1][0] + 1:  # a gap: from here on it is another match
            break
        shown.append((number, line))
    while not shown[-1][1].strip() and len(shown) > 1:
        shown.pop()
    indent = len(shown[0][1]) - len(shown[0][1].lstrip())
    code = "\n".join(line[indent:] for _, line in shown)
    answer = f"This is the place, lines {shown[0][0]}-{shown[-1][0]}:\n\n```python\n{code}\n```"
    if len(definitions) > 1:
        names = ", ".join(f"`{name}`" for name in dict.fromkeys(definitions.values()))
        answer += f"\n\nDefined in what I looked at: {names}."
    return answer


def _searched(question: str, result: str) -> str:
    found = _FOUND.findall(result)
    if not found:
        return result
    count = len({path for path, _, _ in found})
    places = "\n".join(f"{path}:{number}: {text.strip()}" for path, number, text in found[:_MOST_PLACES])
    more = f"\n\nThese are the first {_MOST_PLACES}." if len(found) > _MOST_PLACES else ""
    first = f"I see **{len(found)} matching lines** in {count} {'file' if count == 1 else 'files'}:"
    return f"{first}\n\n```text\n{places}\n```{more}"


def _remembered(question: str, result: str) -> str:
    passages = _PASSAGE.findall(result)
    if not passages:
        return result
    lines = ["This is what I find in my memory:"]
    for key, description, place, passage in passages[:3]:
        beginning = "\n".join(passage.splitlines()[:8])
        where = f"**{re.sub('[*`]', '', description)}**, lines {place} of `{key}`" if place else f"The whole of `{key}`"
        lines.append(f"\n{where}:\n\n```text\n{beginning}\n```")
    return "\n".join(lines)


def _stored(question: str, result: str) -> str:
    return "I will remember that, in this conversation and in later ones."


def _told(question: str, result: str) -> str:
    return f"This is what I found:\n\n```text\n{result[:1500]}\n```"


_ANSWERS = {
    "list_files": _toured,
    "read_file": _read,
    "retrieve_memory": _read,
    "search_code": _searched,
    "search_memory": _remembered,
    "store_memory": _stored,
}

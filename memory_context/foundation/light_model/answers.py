"""The response format and the parser of light model answers."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

from pydantic import BaseModel

from ..errors import LightModelError
from ..text.json_text import json_objects

__all__ = [
    "ANSWER_LIMIT_CHARACTERS",
    "Completion",
    "content_at_limit",
    "response_format",
    "validated",
    "without_thoughts",
]

AnswerT = TypeVar("AnswerT", bound=BaseModel)

ANSWER_LIMIT_CHARACTERS = 100_000
"""Longer answers are refused unread."""

_THOUGHT, _THOUGHT_END = "<think>", "</think>"


@dataclass(frozen=True)
class Completion:
    """An answer as text, with the tokens that its call took.

    Attributes:
        is_cut: It ends at the token limit.
        prompt_tokens: As the client reports them; 0 if unknown, like `completion_tokens`.
    """

    text: str
    is_cut: bool = False
    prompt_tokens: int = 0
    completion_tokens: int = 0


def response_format(answer_type: type[BaseModel]) -> dict[str, Any]:
    """Return OpenAI's `response_format` for an answer type, whose lists may hold other models.

    AutoGen's client, given the type, would parse the answer and raise at the token limit.
    """
    schema = answer_type.model_json_schema()
    strict = _strict(schema)
    if others := schema.get("$defs"):
        strict["$defs"] = {name: _strict(one) for name, one in others.items()}
    return {"type": "json_schema", "json_schema": {"name": answer_type.__name__, "schema": strict, "strict": True}}


def _strict(schema: Mapping[str, Any]) -> dict[str, Any]:
    fields = {
        name: {key: value for key, value in one.items() if key not in ("default", "title")}
        for name, one in schema["properties"].items()
    }
    return {"type": "object", "properties": fields, "required": [*fields], "additionalProperties": False}


def content_at_limit(error: BaseException) -> str | None:
    """Return an answer cut at its token limit, from a client's error; None for others."""
    choices = getattr(getattr(error, "completion", None), "choices", None)
    first = cast(object, choices[0]) if isinstance(choices, list) and choices else None
    content = getattr(getattr(first, "message", None), "content", None)
    return content if isinstance(content, str) and getattr(first, "finish_reason", None) == "length" else None


def without_thoughts(answer: Completion) -> Completion:
    """Return an answer without what a reasoning model thought before; raise LightModelError if nothing is left."""
    text = answer.text.rpartition(_THOUGHT_END)[2].strip()
    if not text or text.startswith(_THOUGHT):
        raise LightModelError("the answer is empty")
    return replace(answer, text=text)


def validated(answer: Completion, answer_type: type[AnswerT]) -> AnswerT:
    """Return the one object in an answer, or raise LightModelError; of a cut answer, incomplete objects are read."""
    if len(answer.text) > ANSWER_LIMIT_CHARACTERS:
        raise LightModelError(f"the answer has {len(answer.text):,} characters")
    text = answer.text.rpartition(_THOUGHT_END)[2]
    answers: list[AnswerT] = []
    for value in json_objects(text, is_cut=answer.is_cut):
        try:
            one = answer_type.model_validate(value)
        except Exception:  # validators may raise anything
            continue
        if one not in answers:
            answers.append(one)
    if len(answers) != 1:
        raise LightModelError(f"the answer holds {len(answers)} objects of the form asked for")
    return answers[0]

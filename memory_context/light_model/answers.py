"""The response format and the parser of light model answers."""

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from pydantic import BaseModel

from ..errors import LightModelError
from ..text import json_objects

__all__ = ["ANSWER_LIMIT_CHARACTERS", "content_at_limit", "response_format", "validated"]

AnswerT = TypeVar("AnswerT", bound=BaseModel)

ANSWER_LIMIT_CHARACTERS = 100_000
"""Longer answers are refused unread."""

_THOUGHT_END = "</think>"


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


def validated(text: str, answer_type: type[AnswerT], *, is_cut: bool) -> AnswerT:
    """Return the one answer in a text, or raise LightModelError; `is_cut` reads incomplete objects."""
    if len(text) > ANSWER_LIMIT_CHARACTERS:
        raise LightModelError(f"the answer has {len(text):,} characters")
    text = text.rpartition(_THOUGHT_END)[2]  # of a reasoning model
    answers: list[AnswerT] = []
    for value in json_objects(text, is_cut=is_cut):
        try:
            answer = answer_type.model_validate(value)
        except Exception:  # validators may raise anything
            continue
        if answer not in answers:
            answers.append(answer)
    if len(answers) != 1:
        raise LightModelError(f"the answer holds {len(answers)} objects of the form asked for")
    return answers[0]

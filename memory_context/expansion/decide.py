"""Decides which candidates a request needs, and whether to search the user's memories.

The rules always run: they are cheap, named keys are expanded in any case, and they stand in for the light model.
"""

import asyncio
import re

from ..errors import LightModelError
from ..light_model import LightModel
from ..references import shorten
from ..tokens import TokenCounter
from .ambiguity import VisibleContext, find_missing
from .candidates import Expansion, ExpansionAnswer, ExpansionRequest, head_and_tail, named_keys, without_keys
from .lexicon import FUNCTION_WORDS
from .match import match_references
from .prompt import ExpansionPrompt, LightAnswer

__all__ = ["EXPANSIONS_LIMIT", "decide", "decide_by_rules"]

EXPANSIONS_LIMIT = 8
"""The most items one decision brings back; how much of them is shown is a matter of their token limit."""

_QUERY_LIMIT_CHARACTERS = 300
_QUERY_SPACE = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")
_WORD = re.compile(r"[^\W_](?:[\w./:@+'’-]*\w)?")


def decide_by_rules(asked: ExpansionRequest) -> ExpansionAnswer:
    """Return the decision as far as rules can tell: deterministic, in milliseconds, never raising.

    Reads the first and last few thousand characters of a long request.
    """
    request, last_answer = head_and_tail(asked.request), head_and_tail(asked.last_answer)
    candidates = {reference.ref.key: reference for reference in asked.references}
    named = [key for key in named_keys(request, candidates) if not candidates[key].is_visible]
    others = [reference for reference in asked.references if reference.ref.key not in named]
    matched = match_references(without_keys(request, named), others, asked.visible_texts, last_answer)
    context = VisibleContext(last_answer, asked.references, asked.visible_texts)
    missing = find_missing(request, context, has_named=bool(named))
    words = [word for word in _WORD.findall(request) if word.casefold() not in FUNCTION_WORDS] if missing else []
    return ExpansionAnswer(
        expansions=(*(Expansion(key, "named", "named by the user") for key in named), *matched),
        is_ambiguous=bool(missing),
        search_query=" ".join(dict.fromkeys(words))[:_QUERY_LIMIT_CHARACTERS].strip(),
        why=missing or "nothing is missing",
    )


async def decide(
    asked: ExpansionRequest,
    light_model: LightModel | None,
    counter: TokenCounter,
    *,
    prompt_template: str | None = None,
    prompt_limit_tokens: int = 2000,
    masks_credentials: bool = True,
) -> ExpansionAnswer:
    """Return the decision; it never raises because of the model.

    The model is asked if there is something to expand or the rules find the request ambiguous. Only its keys of
    candidates count.

    Args:
        light_model: None to decide by rules.
        prompt_template: See `ExpansionPrompt`; None for the default.

    Raises:
        ValueError: The template or the limit is unusable.
    """
    by_rules = decide_by_rules(asked)
    has_candidates = any(not reference.is_visible for reference in asked.references)
    if light_model is None or not (has_candidates or by_rules.is_ambiguous) or not light_model.is_available:
        return by_rules
    # in a thread, since counting 2,000 tokens of hard text takes milliseconds, and the counter may have to load
    messages = await asyncio.to_thread(
        lambda: ExpansionPrompt(
            counter, prompt_template, prompt_limit_tokens, masks_credentials=masks_credentials
        ).messages(asked, [expansion.key for expansion in by_rules.expansions])
    )
    try:
        answer = await light_model.ask(messages, LightAnswer)
    except LightModelError:
        return by_rules
    return _merge(asked, by_rules, answer)


def _merge(asked: ExpansionRequest, by_rules: ExpansionAnswer, answer: LightAnswer) -> ExpansionAnswer:
    """Return the model's answer, held to the candidates, behind the keys that the user named."""
    named = [expansion for expansion in by_rules.expansions if expansion.reason == "named"]
    open_keys = {reference.ref.key for reference in asked.references if not reference.is_visible}
    open_keys -= {expansion.key for expansion in named}
    chosen = [
        Expansion(key, "model", "chosen by the light model") for key in dict.fromkeys(answer.expand) if key in open_keys
    ]
    query = _QUERY_SPACE.sub(" ", answer.search[: 4 * _QUERY_LIMIT_CHARACTERS]).strip()[:_QUERY_LIMIT_CHARACTERS]
    query = query.rstrip() or by_rules.search_query or shorten(asked.request, _QUERY_LIMIT_CHARACTERS)
    return ExpansionAnswer(
        expansions=(*named, *chosen)[: max(EXPANSIONS_LIMIT, len(named))],
        is_ambiguous=answer.ambiguous,
        search_query=query if answer.ambiguous else "",
        decided_by="model",
        why="the light model found the request " + ("ambiguous" if answer.ambiguous else "concrete"),
    )

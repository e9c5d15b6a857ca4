"""The decision of a turn: one call of the light model if there is something to decide, else rules.

The rules always run first, as they are cheap and certain where they say something: a key the user named is expanded
whatever the model thinks. They also stand in when there is no model or it does not answer.
"""

import asyncio
import re
from collections.abc import Sequence

from ..errors import LightModelError
from ..light_model import LightModel
from ..references import shorten
from ..tokens import TokenCounter
from .models import Expansion, ExpansionAnswer, ExpansionRequest
from .prompt import ExpansionPrompt, LightAnswer
from .rules import decide_by_rules

__all__ = ["EXPANSIONS_LIMIT", "decide"]

EXPANSIONS_LIMIT = 8
"""The most items one decision brings back; how much of them is shown is a matter of their token limit."""

_QUERY_LIMIT_CHARACTERS = 300
_QUERY_SPACE = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")


async def decide(
    turn: ExpansionRequest,
    light_model: LightModel | None,
    counter: TokenCounter,
    *,
    prompt_template: str | None = None,
    prompt_limit_tokens: int = 2000,
    masks_credentials: bool = True,
) -> ExpansionAnswer:
    """Return what this turn needs: items to expand, and what to search for if the request is ambiguous.

    The model is not asked if the rules find the request concrete and nothing is on offer. Of its answer only keys on
    offer count. It never raises because of the model.

    Args:
        turn: What is asked, and what is at hand.
        light_model: None to decide by rules.
        counter: Counts the prompt's tokens.
        prompt_template: See `ExpansionPrompt`; None for the default.
        prompt_limit_tokens: The most tokens the prompt takes.
        masks_credentials: Whether credentials are masked in the prompt.

    Raises:
        ValueError: The template or the limit is unusable.
    """
    by_rules = decide_by_rules(turn)
    if light_model is None:
        return by_rules
    has_offers = any(not reference.is_visible for reference in turn.references)
    if not has_offers and not by_rules.is_ambiguous:
        return by_rules
    if not light_model.is_available:
        return by_rules
    relevant = [expansion.key for expansion in by_rules.expansions]
    # in a thread, since counting 2,000 tokens of hard text takes milliseconds, and the counter may have to load
    messages = await asyncio.to_thread(
        lambda: ExpansionPrompt(
            counter, prompt_template, prompt_limit_tokens, masks_credentials=masks_credentials
        ).messages(turn, relevant)
    )
    try:
        answer = await light_model.ask(messages, LightAnswer)
    except LightModelError:
        return by_rules
    return _merged(turn, by_rules, answer)


def _merged(turn: ExpansionRequest, by_rules: ExpansionAnswer, answer: LightAnswer) -> ExpansionAnswer:
    """Return the model's answer, held to what was on offer; what the user named comes first."""
    offered = {reference.ref.key for reference in turn.references if not reference.is_visible}
    named = [expansion for expansion in by_rules.expansions if expansion.reason == "named"]
    chosen = _chosen(answer.expand, offered - {expansion.key for expansion in named})
    expansions = (*named, *chosen)[: max(EXPANSIONS_LIMIT, len(named))]
    query = _QUERY_SPACE.sub(" ", answer.search[: 4 * _QUERY_LIMIT_CHARACTERS]).strip()
    query = (
        query[:_QUERY_LIMIT_CHARACTERS].rstrip()
        or by_rules.search_query
        or shorten(turn.request, _QUERY_LIMIT_CHARACTERS)
    )
    return ExpansionAnswer(
        expansions=expansions,
        is_ambiguous=answer.ambiguous,
        search_query=query if answer.ambiguous else "",
        decided_by="model",
        why="the light model found the request " + ("ambiguous" if answer.ambiguous else "concrete"),
    )


def _chosen(keys: Sequence[str], offered: set[str]) -> list[Expansion]:
    return [Expansion(key, "model", "chosen by the light model") for key in dict.fromkeys(keys) if key in offered]

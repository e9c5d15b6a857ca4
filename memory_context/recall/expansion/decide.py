"""Decides which candidates a request needs, and whether to search memories. Rules replace a failing light model."""

import asyncio
import re
from dataclasses import replace

from memory_context.foundation.errors import LightModelError
from memory_context.foundation.light_model.model import LightModel
from memory_context.foundation.references import shorten
from memory_context.foundation.tokens import TokenCounter

from .ambiguity import NOT_VISIBLE, asks_something, find_missing
from .candidates import Expansion, ExpansionAnswer, ExpansionRequest, head_and_tail, named_keys, without_keys
from .lexicon import FUNCTION_WORDS, IN_RECORDS, OWN_PHRASE, SAID, SHORT_FOR, WHEN
from .match import asks_to_act, match_references
from .prompt import ExpansionPrompt, LightAnswer

__all__ = ["EXPANSIONS_LIMIT", "decide", "decide_by_rules", "needs_model"]

EXPANSIONS_LIMIT = 8
"""Most items of one decision; the token limit decides how much of each is shown."""

_QUERY_LIMIT_CHARACTERS = 300
_QUERY_SPACE = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")
_WORD = re.compile(r"[^\W_](?:[\w./:@+'’-]*\w)?")


def decide_by_rules(asked: ExpansionRequest) -> ExpansionAnswer:
    """Return the rules' decision; deterministic, in milliseconds."""
    asked = replace(asked, request=head_and_tail(asked.request), last_answer=head_and_tail(asked.last_answer))
    request = asked.request
    candidates = {reference.ref.key: reference for reference in asked.references}
    named = [key for key in named_keys(request, candidates) if not candidates[key].is_visible]
    others = [reference for reference in asked.references if reference.ref.key not in named]
    missing = find_missing(asked, has_named=bool(named))
    sought = without_keys(request, named)
    is_elsewhere = bool(missing) and not missing.endswith(NOT_VISIBLE)  # "as last time": nothing here is meant
    may_be_stored = is_elsewhere and IN_RECORDS.search(missing) is not None and not SAID.search(request)
    is_sought = may_be_stored or not is_elsewhere
    texts = asked.visible_texts, asked.opened_texts
    matched = match_references(sought, others, *texts, last_answer=asked.last_answer) if is_sought else []
    if may_be_stored and matched:
        missing = ""
    has_hidden = any(not reference.is_visible for reference in others)
    is_own = OWN_PHRASE.match(missing) is not None
    if missing.endswith(NOT_VISIBLE) and (matched or (has_hidden and not (is_own or asks_to_act(request)))):
        missing = ""  # what it names may stand in what is stored
    asks_for_said = SAID.search(request) is not None
    topic, left_out = (SAID.sub(" ", request), FUNCTION_WORDS | WHEN) if asks_for_said else (request, FUNCTION_WORDS)
    words = [word for word in _WORD.findall(topic) if word.casefold() not in left_out] if missing else []
    words += [SHORT_FOR[word.casefold()] for word in words if word.casefold() in SHORT_FOR]
    return ExpansionAnswer(
        expansions=(*(Expansion(key, "named", "named by the user") for key in named), *matched),
        is_ambiguous=bool(missing),
        search_query=" ".join(dict.fromkeys(words))[:_QUERY_LIMIT_CHARACTERS].strip(),
        asks_for_said=asks_for_said,
        why=missing or "nothing is missing",
    )


def needs_model(asked: ExpansionRequest, by_rules: ExpansionAnswer) -> bool:
    """Return whether there is something to expand, something is missing by the rules, or the request asks something.

    Rules know few of the ways to refer to the past, so the model is asked about every question and order.
    """
    has_candidates = any(not reference.is_visible for reference in asked.references)
    return by_rules.is_ambiguous or has_candidates or asks_something(head_and_tail(asked.request))


async def decide(
    asked: ExpansionRequest,
    light_model: LightModel | None,
    counter: TokenCounter,
) -> ExpansionAnswer:
    """Return the decision, the model's if it is needed."""
    by_rules = decide_by_rules(asked)
    if light_model is None or not needs_model(asked, by_rules) or not light_model.is_available:
        return by_rules
    # in a thread: counting takes milliseconds, loading the counter longer
    messages = await asyncio.to_thread(
        lambda: ExpansionPrompt(counter).messages(asked, [expansion.key for expansion in by_rules.expansions])
    )
    try:
        answer = await light_model.ask(messages, LightAnswer)
    except LightModelError:
        return by_rules
    return _merge(asked, by_rules, answer)


def _merge(asked: ExpansionRequest, by_rules: ExpansionAnswer, answer: LightAnswer) -> ExpansionAnswer:
    """Restrict the model's answer to candidates, after user-named keys."""
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
        asks_for_said=by_rules.asks_for_said,
        decided_by="model",
        why="the light model found the request " + ("ambiguous" if answer.ambiguous else "concrete"),
    )

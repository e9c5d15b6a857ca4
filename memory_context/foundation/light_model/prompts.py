"""Parts of prompts: templates, and texts that are cut to head and tail."""

from collections.abc import Callable, Mapping, Sequence

from ..patterns import regex
from ..tokens import TokenCounter, cut_to_tokens
from ..utf8 import sendable

__all__ = ["both_ends", "check_template", "fill_template"]

_FIELD = regex(r"\{([A-Za-z_]\w*)\}")  # other braces, as in JSON, are text
_CHARACTERS_PER_TOKEN = 8
_CUT = "\n[…]\n"
_CUT_TOKENS = 6


def check_template(name: str, template: str, fields: Sequence[str]) -> list[str]:
    """Return the fields of a template; raise ValueError for an unknown one."""
    found: list[str] = _FIELD.findall(template)
    for one in found:
        if one not in fields:
            *known, last = [f"{{{field}}}" for field in fields]
            raise ValueError(
                f"the {name} has the field {{{one}}}: use {', '.join(known)} and {last}; write other braces with a "
                "space or a quote after them"
            )
    return found


def fill_template(template: str, values: Mapping[str, str]) -> str:
    """Return a template with its fields replaced, once: fields in the values stay."""
    return _FIELD.sub(lambda match: values[match[1]], sendable(template))


def both_ends(
    text: str,
    limit_tokens: int,
    counter: TokenCounter,
    clean: Callable[[str], str] = sendable,
    mask: Callable[[str], str] = str,
    mask_margin: int = 0,
) -> str:
    """Return a text that fits, else its head and tail; the cost depends on the limit only.

    Args:
        mask: Runs before the cut, which could split a credential of up to `mask_margin` characters.
    """
    reach = limit_tokens * _CHARACTERS_PER_TOKEN
    read = reach + mask_margin
    is_short = len(text) <= 2 * read
    head = mask(text if is_short else text[:read])
    tail = head if is_short else mask(text[-read:])
    if is_short and len(head) <= 2 * reach:
        text = clean(head).strip()
        if not counter.is_over(text, limit_tokens):
            return text
    half = (limit_tokens - _CUT_TOKENS) // 2
    start = cut_to_tokens(clean(head[:reach]), half, counter)
    return (start + _CUT + cut_to_tokens(clean(tail[-reach:]), half, counter, side="end")).strip()

"""Acts on one element, and says what came of it: clicked, typed and read back, chosen; or why it cannot be done."""

import asyncio
import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from playwright.async_api import ElementHandle, Locator, Page
from playwright.async_api import Error as PlaywrightError

from memory_context.foundation.errors import ConnectorError

from .snapshot import quoted

__all__ = ["click", "select", "type_text"]

_ACT_SECONDS = 10.0
_REACH_SECONDS = 3.0
_TYPED_CHARACTERS = 200
"""More are inserted at once, but for the last one: pages listen to keys for suggestions, not for long texts."""
_SUGGEST_SECONDS = 0.35
"""Pages wait about so long for the next key before they ask for suggestions."""
_OFFERED = 20
_READ_BACK_CHARACTERS = 200

_ABOUT = """one => {
  const field = one.tagName === "LABEL" && one.control ? one.control : one;
  return {
    tag: field.tagName, type: field.type ?? "", isEditable: field.isContentEditable, isChecked: field.checked === true,
    isDisabled: field.matches(":disabled") || field.getAttribute("aria-disabled") === "true",
    isReadOnly: field.readOnly === true || field.getAttribute("aria-readonly") === "true",
    isLabelled: Boolean(one.labels?.length), most: field.maxLength ?? -1,
  };
}"""
_FORMS = {
    "date": "2026-11-25 (YYYY-MM-DD)",
    "time": "14:30 (HH:MM)",
    "datetime-local": "2026-11-25T14:30 (YYYY-MM-DDTHH:MM)",
    "month": "2026-11 (YYYY-MM)",
    "week": "2026-W48 (YYYY-Www)",
    "color": "#336699",
    "number": "a number such as 12.5",
    "range": "a number within its bounds",
}
"""Types of fields that take one form of text only."""


async def _about(element: Locator) -> dict[str, Any]:
    return await element.evaluate(_ABOUT, timeout=1000 * _REACH_SECONDS)


async def click(element: Locator, *, double: bool = False) -> str:
    """Click, through its label where that covers a box; return how a box stands then.

    Raises:
        ConnectorError: It is disabled.
    """
    about = await _about(element)
    if about["isDisabled"]:
        raise ConnectorError("it is disabled; something else on the page comes first")
    is_box = about["tag"] == "INPUT" and about["type"] in ("checkbox", "radio")
    place: Locator | ElementHandle | None = element
    try:
        await element.click(trial=True, timeout=1000 * _REACH_SECONDS)
    except PlaywrightError:
        is_labelled = is_box and about["isLabelled"]
        place = (await element.evaluate_handle("one => one.labels[0]")).as_element() if is_labelled else None
        if place is None:
            raise
    await place.click(timeout=1000 * _ACT_SECONDS, no_wait_after=True, click_count=2 if double else 1)
    if not is_box:
        return ""
    with suppress(PlaywrightError):  # a page may replace it
        is_checked = await element.evaluate(f"one => ({_ABOUT})(one).isChecked", timeout=1000 * _REACH_SECONDS)
        if is_checked == about["isChecked"] and not double:
            return "; it was chosen already" if is_checked else "; the page did not check it"
        return "; it is checked now" if is_checked else "; it is not checked any more"
    return ""


async def type_text(element: Locator, page: Page, text: str) -> str:
    """Fill a field instead of what it holds, key by key where pages listen to keys; return what it holds then.

    Raises:
        ConnectorError: It is disabled or read-only, or takes another form of text.
    """
    about = await _about(element)
    if about["tag"] not in ("INPUT", "TEXTAREA", "SELECT") and not about["isEditable"]:
        inner = element.locator("input, textarea, [contenteditable]").first
        if not await inner.count():
            raise ConnectorError("it takes no text: click it, then type into the field that opens")
        element, about = inner, await _about(inner)
    if about["isDisabled"] or about["isReadOnly"]:
        raise ConnectorError(f"it is {'disabled' if about['isDisabled'] else 'read-only'}")
    kind = about["type"]
    if about["tag"] == "SELECT" or kind in ("checkbox", "radio", "file", "button", "submit"):
        raise ConnectorError("it takes no text; use the tool to select, click or upload")
    if about["tag"] == "INPUT" and kind in _FORMS:
        with suppress(PlaywrightError):  # of another form: the field stays empty
            await element.fill(text.strip(), timeout=1000 * _ACT_SECONDS)
        if text.strip() and not await element.input_value(timeout=1000 * _REACH_SECONDS):
            raise ConnectorError(f"it takes {_FORMS[kind]}, not {text[:80]!r}; it is empty now")
    else:
        wanted = text if about["tag"] != "INPUT" else " ".join(text.splitlines())
        await element.fill("", timeout=1000 * _ACT_SECONDS)
        await element.focus(timeout=1000 * _REACH_SECONDS)
        for number, line in enumerate(wanted.split("\n")):
            if number:
                await page.keyboard.press("Shift+Enter")  # Enter alone sends in many composers
            at_once = len(line) - 1 if len(line) > _TYPED_CHARACTERS else 0
            if at_once:
                await page.keyboard.insert_text(line[:at_once])
            await page.keyboard.type(line[at_once:])
        await asyncio.sleep(_SUGGEST_SECONDS)
    return await _read_back(element, about, text)


async def _read_back(element: Locator, about: dict[str, Any], text: str) -> str:
    try:
        if about["isEditable"]:
            held = await element.inner_text(timeout=1000 * _REACH_SECONDS)
        else:
            held = await element.input_value(timeout=1000 * _REACH_SECONDS)
    except PlaywrightError:
        return "; the page replaced the field"
    if about["type"] == "password":
        return f"; it holds {len(held)} characters"
    if _plain(held) == _plain(text):
        return f'; it holds "{quoted(held)[:_READ_BACK_CHARACTERS]}"'
    most = f", as it takes at most {about['most']} characters" if 0 <= about["most"] <= len(held) else ""
    return f'; it holds "{quoted(held)[:_READ_BACK_CHARACTERS]}" and not what was typed{most}'


async def select(element: Locator, wanted: Sequence[str]) -> str:
    """Choose options by their texts as they are shown; return the chosen ones.

    Raises:
        ConnectorError: It is no list, is disabled, or has no such option; says which there are.
    """
    about = await _about(element)
    if about["isDisabled"]:
        raise ConnectorError("it is disabled")
    if about["tag"] != "SELECT":
        raise ConnectorError("it is not a list of the browser's own: click it, then click the option that it shows")
    options: list[tuple[str, str, bool]] = await element.evaluate(
        "one => [...one.options].map(each => [each.label, each.value, each.disabled])"
    )
    chosen = [_chosen(options, one) for one in wanted]
    await element.select_option(index=chosen, timeout=1000 * _ACT_SECONDS)
    return ": " + ", ".join(f'"{quoted(options[at][0])}"' for at in chosen)


def _chosen(options: Sequence[tuple[str, str, bool]], wanted: str) -> int:
    """Return the option of a text: whatever its spaces and case, or of a value."""
    asked = _plain(wanted).casefold()
    found = [at for at, (label, _, _) in enumerate(options) if _plain(label).casefold() == asked]
    found = found or [at for at, (_, value, _) in enumerate(options) if value == wanted]
    if not found:
        offered = ", ".join(f'"{quoted(label)}"' for label, _, _ in options[:_OFFERED])
        more = f" and {len(options) - _OFFERED} more" if len(options) > _OFFERED else ""
        raise ConnectorError(f"there is no option {wanted[:100]!r}; there are {offered}{more}")
    if (open_one := next((at for at in found if not options[at][2]), None)) is None:
        raise ConnectorError(f"the option {wanted[:100]!r} is disabled")
    return open_one


def _plain(text: str) -> str:
    return re.sub(r"[\s\u200b\ufeff]+", " ", text).strip()

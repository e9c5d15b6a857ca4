"""The settings of a chat: what people can set, and the policy that comes of it."""

from collections.abc import Mapping
from typing import Any, NamedTuple, get_args

from pydantic import ValidationError

from memory_context import ContextPolicy
from memory_context.foundation.policy import FirstView

__all__ = ["DEFAULTS", "NUMBERS", "Bounds", "policy_of", "values_of"]

DEFAULTS = ContextPolicy(first_view_limit_tokens=3000)  # so that a file of some hundred lines shows a reference


class Bounds(NamedTuple):
    """Between what a number can be set, and in which steps."""

    least: int
    most: int
    step: int


NUMBERS = {
    "token_budget": Bounds(2000, 200_000, 1000),
    "offload_threshold_tokens": Bounds(100, 5000, 100),
    "first_view_limit_tokens": Bounds(500, 20_000, 500),
}
"""What people can set, in tokens; the server holds to it too, since every token is paid for."""

_SWITCHES = ("expansion", "compaction")


def values_of(policy: ContextPolicy) -> dict[str, Any]:
    """Return what the settings show for a policy, by the names of its fields."""
    shown: dict[str, Any] = {"first_view": policy.first_view_by_tool.get("*", "full")}
    shown |= {name: getattr(policy, name) for name in NUMBERS}
    return shown | {name: getattr(policy, name).enabled for name in _SWITCHES}


def policy_of(settings: Mapping[str, Any], base: ContextPolicy = DEFAULTS) -> ContextPolicy:
    """Return the policy that settings ask for; what they leave out stays as in `base`.

    Settings come back from a browser, and from the rows of older chats: whatever does not fit is left out.
    """
    changed = base.model_dump()
    if settings.get("first_view") in get_args(FirstView):
        view = settings["first_view"]
        changed["first_view_by_tool"] = {} if view == "full" else {"*": view}
    for name, bounds in NUMBERS.items():
        value = settings.get(name)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and bounds.least <= value <= bounds.most:
            changed[name] = int(value)
    for name in _SWITCHES:
        if isinstance(settings.get(name), bool):
            changed[name]["enabled"] = settings[name]
    try:
        return ContextPolicy.model_validate(changed)
    except ValidationError:
        return base

"""Whose words an item holds, and what follows from it: user memory, its labels, and secrets.

User memory is what people said of themselves: the types of preferences and facts, when the user or the application
stored them. It is recalled as the user's own and never pruned. A model, a tool or an imported file may store the same
types; such an item is found like any other, labelled as unconfirmed wherever it is shown, and pruned like any other.

Promise: the code path alone sets an origin. No metadata, tag, model or client raises it, and no caller may either.

Secrets are refused until there is a vault for them: everything stored is plain text, which search reads and models are
shown. Rows in clear, of development versions, stay readable by their keys, and are in no search, list or export.
"""

from collections.abc import Mapping
from typing import Any, Literal, cast, get_args

from memory_context.errors import SecretError

__all__ = [
    "SECRET_TYPE",
    "TRUSTED_ORIGINS",
    "USER_TYPES",
    "CallerOrigin",
    "Origin",
    "caveat",
    "checked_caller_origin",
    "imported_origin",
    "refuse_secret",
]

Origin = Literal["user_words", "user_edit", "application", "agent", "tool", "import", "consolidation"]
"""Whose words: the user's own, as said or as edited; the application's; an agent's model's; a tool's or page's; a
file's; or made by the memory from other items."""

CallerOrigin = Literal["application", "agent", "tool", "import"]
"""What a Python call may say of what it stores: the application's own, or something it trusts less."""

TRUSTED_ORIGINS: tuple[Origin, ...] = ("user_words", "user_edit", "application")
"""What these store under a user type is user memory."""

USER_TYPES = ("user_preference", "user_fact")
"""What people said of themselves."""

SECRET_TYPE = "user_secret"

_AUTHORS: dict[str, str] = {
    "agent": "kept by a model",
    "tool": "from a tool",
    "import": "imported",
    "consolidation": "made from other items",
}


def caveat(memory_type: str, origin: str) -> str:
    """Return what to say beside an item whose type claims to be the user's while its origin is not; else ""."""
    if memory_type not in USER_TYPES or origin in TRUSTED_ORIGINS:
        return ""
    return f"{_AUTHORS.get(origin, origin)}, not confirmed by the user"


def checked_caller_origin(origin: object) -> CallerOrigin:
    """Return an origin that a caller gave.

    Raises:
        ValueError: A call cannot say so.
    """
    if origin not in get_args(CallerOrigin):
        raise ValueError(
            f"origin={origin!r}: use one of {', '.join(get_args(CallerOrigin))}; a call may lower the trust in what it "
            "stores, never raise it"
        )
    return cast(CallerOrigin, origin)


def imported_origin(fields: Mapping[str, Any], *, is_trusted: bool) -> Origin:
    """Return the origin of an item out of a file: its own if the file is trusted; else no higher than `import`.

    Args:
        fields: The item's record. Those of earlier versions have no origin; what they show of their path tells it.
        is_trusted: Whether whoever imports vouches for the file.
    """
    origin = cast("Origin | None", fields["origin"])
    if origin is None:
        metadata = fields["content_metadata"]
        if fields["source"] == "store_memory":
            origin = "agent"
        elif "message" in metadata:
            is_result = metadata.get("part") == "result" or fields["memory_type"] == "command_output"
            origin = "tool" if is_result else "agent"
        else:
            origin = "application"
    return origin if is_trusted or origin in ("agent", "tool") else "import"


def refuse_secret(memory_type: object) -> None:
    """Refuse a type that the store must not hold in clear.

    Raises:
        SecretError: It is that of secrets; says where to keep them instead.
    """
    if memory_type == SECRET_TYPE:
        raise SecretError(
            f"type={SECRET_TYPE!r} is refused, since everything stored is plain text that is searched and shown to "
            "models: keep the secret outside of the memory, such as in an environment variable, and store its name only"
        )

"""Memory types that the store treats in a way of their own: user memory and secrets.

Secrets are refused until there is a vault for them: everything stored is plain text, which search reads and models are
shown. Rows of earlier versions stay readable by their keys, and are in no search, list or export.
"""

from memory_context.errors import SecretError

__all__ = ["SECRET_TYPE", "USER_TYPES", "refuse_secret"]

USER_TYPES = ("user_preference", "user_fact")
"""What people said of themselves."""

SECRET_TYPE = "user_secret"


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

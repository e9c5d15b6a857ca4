from .entry import EntryFilter
from .forms import DETECTED, SecretFilter, is_name, names_in, reference, resolved_text
from .secrets import SECRET_KEY_ENV, EnvironmentKeys, Rotation, Secrets, secrets_of

__all__ = [
    "DETECTED",
    "SECRET_KEY_ENV",
    "EntryFilter",
    "EnvironmentKeys",
    "Rotation",
    "SecretFilter",
    "Secrets",
    "is_name",
    "names_in",
    "reference",
    "resolved_text",
    "secrets_of",
]

"""A vault with a key of its own."""

import base64
import os

import pytest

from memory_context.memory.vault.secrets import SECRET_KEY_ENV


def made_key() -> str:
    return base64.b64encode(os.urandom(32)).decode()


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> str:
    """The current key, in the environment."""
    key = made_key()
    monkeypatch.setenv(SECRET_KEY_ENV, key)
    return key

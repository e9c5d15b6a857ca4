"""Keys of the vault, and encryption of values by AES-GCM; user and name are authenticated with each value."""

import base64
import binascii
import hashlib
import json
import os
from collections.abc import Sequence
from functools import lru_cache

from ..errors import SecretError
from ..extras import needs
from ..store import KeyProvider, SealedSecret, SecretKey

__all__ = ["SECRET_KEY_ENV", "EnvironmentKeys", "current_key", "seal", "unseal"]

SECRET_KEY_ENV = "MEMORY_CONTEXT_SECRET_KEY"

_KEY_BYTES, _NONCE_BYTES = 32, 12  # AES-256; NIST SP 800-38D, 5.2.1.1
_HOW_TO_MAKE_ONE = f"make one with `openssl rand -base64 32`, keep it safe, and set it as {SECRET_KEY_ENV}"


class EnvironmentKeys:
    """Keys from `MEMORY_CONTEXT_SECRET_KEY`: Base64 of 32 bytes each, separated by commas, the current one first."""

    def keys(self) -> Sequence[SecretKey]:
        """Return the keys; none if the variable is unset. `SecretError` if it holds no key, without quoting it."""
        return _parsed(os.environ.get(SECRET_KEY_ENV, ""))


@lru_cache(maxsize=4)
def _parsed(text: str) -> tuple[SecretKey, ...]:
    return tuple(_key(one.strip(), number) for number, one in enumerate(text.split(","), 1) if one.strip())


def _key(text: str, number: int) -> SecretKey:
    try:
        material = base64.b64decode(text, altchars=b"-_" if "-" in text or "_" in text else None, validate=True)
    except (binascii.Error, ValueError):
        material = b""
    if len(material) != _KEY_BYTES:
        raise SecretError(f"key {number} in {SECRET_KEY_ENV} is not 32 bytes in Base64: {_HOW_TO_MAKE_ONE}")
    return SecretKey(hashlib.sha256(b"memory_context key id\0" + material).hexdigest()[:16], material)


def current_key(provider: KeyProvider) -> SecretKey:
    """Return the key for new values; `SecretError` says how to make one."""
    keys = provider.keys()
    if not keys:
        raise SecretError(f"there is no key to encrypt secrets with: {_HOW_TO_MAKE_ONE}")
    return keys[0]


def seal(key: SecretKey, user_id: str, name: str, value: str, session_id: str = "") -> SealedSecret:
    """Encrypt a value with a fresh nonce."""
    nonce = os.urandom(_NONCE_BYTES)
    ciphertext = _cipher(key).encrypt(nonce, value.encode("utf-8", "surrogatepass"), _bound_to(user_id, name))
    return SealedSecret(name, session_id, key.id, nonce, ciphertext)


def unseal(keys: Sequence[SecretKey], user_id: str, sealed: SealedSecret) -> str:
    """Decrypt a value; `SecretError` if its key is missing, or it was changed or belongs to another user or name."""
    from cryptography.exceptions import InvalidTag

    key = next((one for one in keys if one.id == sealed.key_id), None)
    if key is None:
        raise SecretError(
            f"secret {sealed.name!r} was encrypted with key {sealed.key_id}, which is not there: add that key to "
            f"{SECRET_KEY_ENV}, behind a comma, or set the secret again"
        )
    try:
        data = _cipher(key).decrypt(sealed.nonce, sealed.ciphertext, _bound_to(user_id, sealed.name))
    except InvalidTag:
        raise SecretError(f"secret {sealed.name!r} is not what was stored: set it again") from None
    return data.decode("utf-8", "surrogatepass")


def _cipher(key: SecretKey):
    with needs("secrets", "the vault"):
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    return AESGCM(key.material)


def _bound_to(user_id: str, name: str) -> bytes:
    return json.dumps(["memory_context", user_id, name]).encode()

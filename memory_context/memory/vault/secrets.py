"""The secrets of one user: values go in and are encrypted, only names come out."""

import asyncio
import base64
import binascii
import hashlib
import json
import logging
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakValueDictionary

from memory_context.foundation.errors import SecretError, StoreError, StoreUnavailableError
from memory_context.foundation.extras import needs
from memory_context.foundation.runtime.background import (
    Background,
    Breaker,
    attempt,
    outages_of,
)
from memory_context.store.secret_rows import KeyProvider, SealedSecret, SecretKey

from .forms import DETECTED, SecretFilter, is_name, reference

if TYPE_CHECKING:
    from memory_context.store.memory_store import MemoryStore
    from memory_context.store.secret_rows import SecretName

__all__ = [
    "SECRET_KEY_ENV",
    "EnvironmentKeys",
    "Rotation",
    "Secrets",
    "current_key",
    "seal",
    "secrets_of",
    "unseal",
]

_logger = logging.getLogger("memory_context")

SECRET_KEY_ENV = "MEMORY_CONTEXT_SECRET_KEY"

_LEAST_CHARACTERS, _MOST_CHARACTERS = 8, 8192  # shorter values stand in ordinary text by chance
_READING, _KEEPING = "reading the values of secrets", "keeping masked credentials"
_REFRESH_SECONDS = 30.0  # another process may set one
_RETRY_SECONDS = 30.0


@dataclass(frozen=True)
class Rotation:
    """The number of values encrypted anew, and the names of those whose key is missing."""

    rotated: int
    unreadable: tuple[str, ...] = ()


class Secrets:
    """Secrets of one user in one store; `AgentMemory.secrets` gives it.

    No method returns a value. Models refer to one as `{{secret:NAME}}`, which `MemoryContext.with_secrets` resolves.
    Methods raise `StoreUnavailableError` if the database is unreachable.
    """

    def __init__(self, memory_store: "MemoryStore", user_id: str) -> None:
        self._store = memory_store
        self._user_id = user_id
        self._values: dict[str, str] = {}
        self._filter = SecretFilter({})
        self._read_at: float | None = None
        self._reading = Background[None]("memory_context secrets")
        self._began_at = 0.0
        self._breaker = Breaker(_RETRY_SECONDS)

    def __repr__(self) -> str:
        return f"<Secrets of {self._user_id!r}>"

    # --- for applications

    async def set(self, name: str, value: str) -> None:
        """Keep or replace a value; from now on texts get the name instead.

        Args:
            name: A letter, then up to 63 letters, digits, `_`, `.` and `-`.
            value: 8 to 8,192 characters, without outer white space.

        Raises:
            SecretError: There is no key, or the value is too short or too long.
            ValueError: The name is unusable.
        """
        value = _checked(name, value.strip())
        sealed = seal(current_key(self._provider), self._user_id, name, value)
        await self._store.secret_rows.upsert(self._user_id, [sealed])
        await self._keep({**self._values, name: value})

    async def names(self) -> "list[SecretName]":
        """Return all names, in order; one without a value came with an import."""
        return await self._store.secret_rows.select_names(self._user_id)

    async def delete(self, name: str) -> bool:
        """Delete a secret; return whether there was one. Texts that hold its name keep it."""
        is_gone = await self._store.secret_rows.delete(self._user_id, name)
        await self._keep({other: value for other, value in self._values.items() if other != name})
        return is_gone

    async def rotate(self) -> Rotation:
        """Encrypt all values with the current key, online; `SecretError` without one."""
        rows, key = self._store.secret_rows, current_key(self._provider)
        rotated, unreadable, after = 0, list[str](), ""
        while page := await rows.select_of_other_keys(self._user_id, key.id, after):
            for one in page:
                try:
                    value = unseal(self._provider.keys(), self._user_id, one)
                except SecretError:
                    unreadable.append(one.name)
                    continue
                again = seal(key, self._user_id, one.name, value, one.session_id)
                rotated += await rows.update_key(self._user_id, again, one.nonce)
            after = page[-1].name
        return Rotation(rotated, tuple(unreadable))

    # --- for the library: values

    @property
    def has_keys(self) -> bool:
        """False without a key; then nothing is read, hidden or resolved. Never raises."""
        try:
            return bool(self._provider.keys())
        except Exception as error:
            outages_of(self._store).failed(_READING, "secrets are neither hidden nor resolved: %s", error)
            return False

    @property
    def _provider(self) -> "KeyProvider":
        return self._store.secret_keys or EnvironmentKeys()

    @property
    def is_ready(self) -> bool:
        """True if the values are known."""
        return self._read_at is not None

    @property
    def hides(self) -> bool:
        """True if a value is known."""
        return bool(self._values)

    @property
    def filter(self) -> SecretFilter:
        """Hides the known values."""
        return self._filter

    def begin(self) -> bool:
        """Start to read unknown or old values, beside whatever the caller waits for; return whether they are read."""
        is_old = self._read_at is None or time.monotonic() - self._read_at > _REFRESH_SECONDS
        if not is_old or self._breaker.is_open or not self.has_keys:
            return False
        if self._reading.running() is None:
            self._began_at = time.monotonic()
            self._reading.start(self._read)
        return True

    async def ready(self, seconds: float) -> bool:
        """Return whether the values are known, at most so long after their reading began. Never raises."""
        if self.begin():
            try:
                left = self._began_at + seconds - time.monotonic()
                await self._reading.result(self._read, max(left, 0.0))
                outages_of(self._store).worked(_READING)
                self._breaker.worked()
            except Exception as error:  # a step goes on without
                self._breaker.failed()
                outages_of(self._store).failed(
                    _READING, "secrets are not hidden yet: %s", str(error) or f"no answer in {seconds:g} s"
                )
        return self.is_ready or not self.has_keys

    async def hidden(self, data: Any) -> Any:
        """Return JSON-native data with names in place of values; `StoreUnavailableError` if these cannot be read."""
        if not await self.ready(self._store.limits.call_seconds):
            raise StoreUnavailableError("secrets could not be read, which have to be hidden in what is stored")
        return self._filter.hide_in(data) if self._values else data

    async def _read(self) -> None:
        values: dict[str, str] = {}
        for sealed in await self._store.secret_rows.select(self._user_id):
            try:
                values[sealed.name] = unseal(self._provider.keys(), self._user_id, sealed)
            except SecretError as error:
                _logger.warning("%s; until then it is not hidden", error)
        await self._keep(values)

    async def _keep(self, values: Mapping[str, str]) -> None:
        if values != self._values:
            self._filter = await asyncio.to_thread(SecretFilter, values)  # compiling takes a few ms a value
            self._values = dict(values)
        self._read_at = time.monotonic()

    async def value_of(self, name: str) -> str:
        """Return a value, for a tool call only; `SecretError` if it or its key is missing."""
        try:
            sealed = await self._store.secret_rows.fetch(self._user_id, name)
        except StoreError:
            if name in self._values:
                return self._values[name]
            raise
        if sealed is None:
            kind = "its value was not kept" if name.startswith(DETECTED) else "no secret of that name has a value"
            raise SecretError(f"{reference(name)} cannot be resolved: {kind}")
        return unseal(self._provider.keys(), self._user_id, sealed)

    async def keep_detected(self, values: Mapping[str, str], session_id: str, seconds: float) -> bool:
        """Keep values masked in a session's tool results; return False to be asked again. Never raises."""
        if not self.has_keys:
            return True
        if self._breaker.is_open:
            return False
        try:
            key = current_key(self._provider)
            sealed = [seal(key, self._user_id, name, value, session_id) for name, value in values.items()]
            kept = await attempt(self._store.secret_rows.upsert(self._user_id, sealed), seconds)
            if kept is None:
                raise StoreUnavailableError(f"no answer in {seconds:g} s")
            kept.result()
        except Exception as error:
            self._breaker.failed()
            outages_of(self._store).failed(_KEEPING, "masked credentials cannot be used by tools yet: %s", error)
            return False
        outages_of(self._store).worked(_KEEPING)
        return True


def _checked(name: str, value: str) -> str:
    if not is_name(name) or name.startswith(DETECTED):
        raise ValueError(
            f"name={name!r}: a secret's name is a letter, then up to 63 letters, digits, _ . or -, and does not begin "
            f"with {DETECTED!r}"
        )
    if not _LEAST_CHARACTERS <= len(value) <= _MOST_CHARACTERS:
        raise SecretError(
            f"the value of {name} has {len(value):,} characters: {_LEAST_CHARACTERS} to {_MOST_CHARACTERS:,} are kept, "
            "since a shorter one stands in ordinary text by chance"
        )
    try:
        value.encode()
    except UnicodeEncodeError:
        raise SecretError(f"the value of {name} is not valid Unicode: encode it first, such as in Base64") from None
    if value in reference(name):
        raise SecretError(f"the value of {name} is a part of its reference {reference(name)}: choose another name")
    return value


_known: "WeakKeyDictionary[MemoryStore, WeakValueDictionary[str, Secrets]]" = WeakKeyDictionary()


def secrets_of(memory_store: "MemoryStore", user_id: str) -> Secrets:
    """Return the secrets of a user, one object for all of the process."""
    of_store = _known.setdefault(memory_store, WeakValueDictionary())
    found = of_store.get(user_id)
    if found is None:
        found = of_store[user_id] = Secrets(memory_store, user_id)
    return found


# --- keys; AES-GCM authenticates user and name with each value

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

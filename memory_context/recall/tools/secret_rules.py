"""SecretRules: where the arguments of a call may name secrets, which are resolved inside of the call only.

call {{secret:NAME}} ─▶ allowed at this path? ─▶ URLs name allowed hosts? ─▶ value ─▶ tool ─▶ text, names again
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import urlsplit

from memory_context.foundation.credentials.masks import MASK
from memory_context.foundation.errors import SecretError
from memory_context.foundation.runtime.background import in_thread_if_large
from memory_context.foundation.utf8 import map_strings
from memory_context.memory.vault.forms import DETECTED, SecretFilter, is_name, names_in, reference, resolved_text
from memory_context.memory.vault.secrets import Secrets

from .base import MemoryToolConfig, ToolHost, config_of, find_hosts

__all__ = ["SecretCall", "SecretRules", "SecretRulesConfig"]

_READ_SECONDS = 5.0
_FRAGMENT = 6  # characters
_ALL_DETECTED = f"{DETECTED}*"
_MASK = re.compile(rf"{re.escape(MASK[:-1])}\**\]")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[/\\]{2}[^\s\"'<>`]*")
_URL_NAMES = frozenset(("url", "urls", "uri", "href", "link", "endpoint", "host", "hostname", "base_url", "server"))
_SAFE_SCHEMES = frozenset(("https", "wss"))

Path = tuple[str, ...]


class SecretRulesConfig(MemoryToolConfig):
    """The permissions, and the template of the context."""

    allow: dict[str, list[str]]
    hosts: list[str]


@dataclass(frozen=True)
class _AllowedHost:
    scheme: str | None
    host: str
    port: int | None

    @classmethod
    def of(cls, text: str) -> "_AllowedHost":
        scheme, separator, rest = text.rpartition("://")
        address = _address(f"{scheme or 'https'}://{rest}")
        if address is None or (separator and not scheme) or rest.rstrip("/") != urlsplit(f"x://{rest}").netloc:
            raise ValueError(f"hosts: {text!r} is not a host such as 'api.example.com' or 'http://localhost:8080'")
        return cls(scheme.lower() or None, address[1], address[2])

    def takes(self, scheme: str | None, host: str, port: int | None) -> bool:
        is_scheme = scheme is None or scheme == self.scheme or (self.scheme is None and scheme in _SAFE_SCHEMES)
        is_host = host.endswith(self.host[1:]) if self.host.startswith("*.") else host == self.host
        return is_scheme and is_host and (self.port is None or port == self.port)


@dataclass(frozen=True)
class SecretCall:
    """A call that may be made; its arguments hold values, its answer is hidden before anybody reads it."""

    arguments: dict[str, Any]
    values: Mapping[str, str]
    filters: Sequence[SecretFilter]

    async def hidden(self, text: str, *, is_error: bool = False) -> str:
        """Return a text with names in place of values; in an error also of their pieces, which messages cut."""
        for one in self.filters:
            text = await in_thread_if_large(len(text), one.hide, text)
        return _without_fragments(text, self.values) if is_error else text

    def hidden_in(self, data: Any) -> Any:
        """Return JSON-native data with names in place of values."""
        for one in self.filters:
            data = one.hide_in(data)
        return data


class SecretRules:
    """The permissions of `MemoryContext.with_secrets`.

    A call that names a secret elsewhere, or reaches for another host, is refused with the reason. What the tool returns
    or raises holds names, not values.

    Args:
        allow: Paths by name, such as `headers.Authorization`; of a workbench `fetch.headers.Authorization`.
        hosts: Such as `api.example.com`, `*.example.com` (not `example.com` itself) or `http://localhost:8080`; HTTPS
            unless a scheme is given. Without any, a call with a secret and a URL is refused.
    """

    def __init__(
        self, allow: Mapping[str, Sequence[str]], hosts: Sequence[str], host: ToolHost | MemoryToolConfig
    ) -> None:
        self._allow = {name: [_checked_path(name, path) for path in paths] for name, paths in allow.items()}
        if isinstance(hosts, str) or not self._allow or not all(self._allow.values()):
            raise ValueError("with_secrets takes paths for each secret, and a list of hosts")
        for name in self._allow:
            if name != _ALL_DETECTED and not is_name(name):
                raise ValueError(f"allow: {name!r} is not the name of a secret, nor {_ALL_DETECTED!r}")
        self._hosts = list(hosts)
        self._allowed_hosts = [_AllowedHost.of(one) for one in hosts]
        self._host = host

    async def begin(self, tool: str, arguments: Mapping[str, Any], path: Path = ()) -> SecretCall:
        """Return the call with values, or raise SecretError, which says why it is refused.

        Args:
            path: The place of the arguments in the paths of `allow`.
        """
        secrets = self._secrets(tool)
        await secrets.ready(_READ_SECONDS)
        values: dict[str, str] = {}
        for place, text in _strings_of(arguments, path):
            for name in names_in(text):
                if not self._may_stand(name, place):
                    raise SecretError(self._refusal(tool, name, place))
                if name not in values:
                    values[name] = await secrets.value_of(name)
            if _MASK.search(text):
                raise SecretError(
                    f"argument {'.'.join(place)} holds {MASK}, which stands for a credential that was masked and is "
                    "not kept: leave that part unchanged, or ask the user for the secret's name"
                )
        if values:
            self._check_hosts(tool, arguments, values)
        resolved = map_strings(dict(arguments), lambda text: resolved_text(text, values))
        return SecretCall(resolved, values, (SecretFilter(values), secrets.filter))

    def _may_stand(self, name: str, path: Path) -> bool:
        paths = self._allow.get(name, []) + (self._allow.get(_ALL_DETECTED, []) if name.startswith(DETECTED) else [])
        return path[-1] != _KEY and any(_matches(path, one) for one in paths)

    def _refusal(self, tool: str, name: str, path: Path) -> str:
        places = self._allow.get(name) or (self._allow.get(_ALL_DETECTED, []) if name.startswith(DETECTED) else [])
        where = " or ".join(".".join(one) for one in places)
        may = f"may stand only in {where}" if where else f"is not given to {tool}"
        return f"{tool} was not called: {reference(name)} {may}, not in {'.'.join(path)}"

    def _check_hosts(self, tool: str, args: Mapping[str, Any], values: Mapping[str, str]) -> None:
        for path, text in _strings_of(args):
            resolved = resolved_text(text, values)
            urls = [resolved.strip()] if _is_address(path, resolved) else []
            if self._allowed_hosts and resolved != text:
                urls += _URL.findall(resolved)
            for url in urls:
                address = _address(url)
                if address is None or not any(one.takes(*address) for one in self._allowed_hosts):
                    said = ", ".join(self._hosts) or "no host at all"
                    raise SecretError(
                        f"{tool} was not called: argument {'.'.join(path)} names another host than those that "
                        f"its secrets may reach ({said})"
                    )

    def _secrets(self, tool: str) -> Secrets:
        host = self._host
        if isinstance(host, MemoryToolConfig):
            hosts = find_hosts(host.key)
            if not hosts:
                raise SecretError(f"{tool} was not called: load it together with its memory context")
            host = self._host = hosts[0]  # of the same user
        return host.agent_memory.secrets

    @property
    def config(self) -> dict[str, Any]:
        """The fields of `SecretRulesConfig`."""
        host = self._host if isinstance(self._host, MemoryToolConfig) else config_of(self._host)
        allow = {name: [".".join(path) for path in paths] for name, paths in self._allow.items()}
        named = {name: getattr(host, name) for name in MemoryToolConfig.model_fields}
        return {**named, "allow": allow, "hosts": self._hosts}


def _without_fragments(text: str, values: Mapping[str, str]) -> str:
    """Return an error's words without pieces of values, which messages cut."""
    return "".join(
        one if number % 2 else _without_pieces(one, values)  # a reference may have letters of a value
        for number, one in enumerate(_REFERENCE.split(text))
    )


def _without_pieces(text: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        pieces = {value[at : at + _FRAGMENT] for at in range(max(len(value) - _FRAGMENT, 0) + 1)}
        kept: list[str] = []
        hidden_until = 0
        for at, char in enumerate(text):
            if text[at : at + _FRAGMENT] in pieces:
                kept += [] if at < hidden_until else [reference(name)]
                hidden_until = at + _FRAGMENT
            if at >= hidden_until:
                kept.append(char)
        text = "".join(kept)
    return text


_REFERENCE = re.compile(r"(\{\{secret:[^{}]+\}\})")


# --- arguments


_KEY = "(a name)"


def _checked_path(name: str, path: str) -> Path:
    steps = tuple(path.split("."))
    if not all(steps):
        raise ValueError(f"allow[{name!r}]: {path!r} is not a path such as 'headers.Authorization'")
    return steps


def _matches(path: Path, allowed: Path) -> bool:
    return len(path) == len(allowed) and all(one in ("*", step) for step, one in zip(path, allowed, strict=True))


def _strings_of(value: Any, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Yield all strings with their paths, names of fields too."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for name, one in cast(Mapping[str, Any], value).items():
            yield (*path, _KEY), str(name)
            yield from _strings_of(one, (*path, str(name)))
    elif isinstance(value, (list, tuple)):
        for number, one in enumerate(cast(Sequence[Any], value)):
            yield from _strings_of(one, (*path, str(number)))


def _is_address(path: Path, text: str) -> bool:
    """Return whether an argument is a URL, or named as one; a path such as `/v1/items` reaches no other host."""
    text = text.strip()
    if _URL.fullmatch(text) or text[:2] in ("//", "\\\\", "/\\", "\\/"):
        return True
    is_named = any(step.lower() in _URL_NAMES for step in path[-2:])
    return is_named and bool(text) and not text.startswith("/")


def _address(url: str) -> tuple[str | None, str, int | None] | None:
    """Return scheme, host and port; None for what parsers may read differently."""
    if not url.isascii() or not url.isprintable() or "\\" in url or " " in url:
        return None
    has_scheme = "://" in url.partition("?")[0]
    try:
        parts = urlsplit(url if has_scheme else f"x://{url.removeprefix('//')}")
        host, port = (parts.hostname or "").rstrip("."), parts.port
    except ValueError:
        return None
    return (parts.scheme.lower() if has_scheme else None, host, port) if host else None

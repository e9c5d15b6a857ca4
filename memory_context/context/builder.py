"""The mixin for agent builders, light model choice, and errors of model services."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from autogen_core.models import ChatCompletionClient, ModelFamily, ModelInfo

from memory_context.foundation.credentials.masks import masked
from memory_context.foundation.patterns import regex
from memory_context.foundation.policy import ContextPolicy
from memory_context.foundation.references import shorten
from memory_context.store.memory_store import MemoryStore

from .context import MemoryContext

__all__ = [
    "LIGHT_MODEL_VARIABLE",
    "LightModelChoice",
    "MemoryContextBuilder",
    "choose_light_model",
    "openai_client",
    "provider_sentence",
]

LIGHT_MODEL_VARIABLE = "MEMORY_CONTEXT_LIGHT_MODEL"
"""Light model setting: a model at OPENAI_BASE_URL, `own`, or `off` for rules."""

_SENTENCE_CHARACTERS = 400
_CLIENT_PACKAGES = frozenset(["anthropic", "azure", "httpx", "httpx2", "ollama", "openai"])
# a team wraps its agent's error as RuntimeError: type, text, stack trace
_OF_TEAM = regex(
    r"(?:API\w*|(?:Authentication|PermissionDenied|RateLimit|InternalServer|BadRequest|NotFound)Error"
    r"|RemoteProtocolError|ReadError|ReadTimeout|ConnectError): (.*?)(?:\nTraceback:|$)",
    re.S,
)
_CODE = regex(r"Error code: (\d{3}) - ")
_MESSAGE = regex(r"""['"]message['"]: (['"])(.*?)\1[,}]""", re.S)


@dataclass(frozen=True)
class LightModelChoice:
    """The light model of an application; client None decides by rules."""

    client: ChatCompletionClient | None
    name: str

    def __str__(self) -> str:
        return f"Light model: {self.name}."


def choose_light_model(
    own: ChatCompletionClient | None, setting: ChatCompletionClient | str | None = None
) -> LightModelChoice:
    """Return the light model of an application, or raise ValueError.

    Args:
        own: The application's own client.
        setting: A client, a model name at OPENAI_BASE_URL, "own" or "off"; None reads MEMORY_CONTEXT_LIGHT_MODEL.
    """
    if isinstance(setting, ChatCompletionClient):
        return LightModelChoice(setting, f"the application's {type(setting).__name__}")
    name = (setting or os.environ.get(LIGHT_MODEL_VARIABLE, "")).strip() or "own"
    if name == "off":
        return LightModelChoice(None, "off, the rules decide")
    if name != "own":
        return LightModelChoice(openai_client(name), name)
    if own is None:
        return LightModelChoice(None, f"none, the rules decide ({LIGHT_MODEL_VARIABLE} names one)")
    return LightModelChoice(own, f"the agent's own model ({LIGHT_MODEL_VARIABLE}=off lets the rules decide)")


def openai_client(model: str) -> ChatCompletionClient:
    """Return a client for a model at OPENAI_BASE_URL, or raise ValueError."""
    try:
        from autogen_ext.models.openai import OpenAIChatCompletionClient
    except ImportError:
        raise ValueError(f"the model {model!r} needs more: pip install 'autogen-ext[openai]'") from None
    if not os.environ.get("OPENAI_API_KEY"):
        raise ValueError(f"the model {model!r} needs OPENAI_API_KEY (and OPENAI_BASE_URL for another server)")
    try:
        return OpenAIChatCompletionClient(model=model)
    except ValueError:  # unknown model
        unknown = ModelInfo(
            vision=False,
            function_calling=True,
            json_output=False,
            family=ModelFamily.UNKNOWN,
            structured_output=False,
        )
        return OpenAIChatCompletionClient(model=model, model_info=unknown)


class MemoryContextBuilder:
    """Mixin that gives an agent builder contexts with memory; put it first, so that its method is called.

    Attributes:
        light_model: See `choose_light_model`.
    """

    agent_id: str = "assistant"
    policy: ContextPolicy = ContextPolicy()
    light_model: ChatCompletionClient | str | None = None

    def build_model_context(
        self,
        user_id: str,
        data_layer: object = None,
        *,
        model_client: ChatCompletionClient | None = None,
        session_id: str | None = None,
        agent_id: str | None = None,
    ) -> MemoryContext:
        """Return a context for one conversation, without I/O. Close it when the conversation ends.

        Args:
            user_id: The authenticated user; no other user's data is visible.
            data_layer: A MemoryStore, an object with one as `memory_store`, or None for the default store.
            model_client: The application's own client, the default light model.

        Raises:
            TypeError: Another kind of `data_layer`.
            ValueError: The light model cannot be used.
        """
        return MemoryContext(
            user_id=user_id,
            agent_id=self.agent_id if agent_id is None else agent_id,
            session_id=session_id,
            memory_store=_store_of(data_layer),
            model_client=choose_light_model(model_client, self.light_model).client,
            policy=self.policy,
        )


def _store_of(data_layer: object) -> MemoryStore | None:
    if data_layer is None or isinstance(data_layer, MemoryStore):
        return data_layer
    store = getattr(data_layer, "memory_store", None)
    if isinstance(store, MemoryStore):
        return store
    raise TypeError(
        f"data_layer={data_layer!r}: pass a MemoryStore, an object with one as its memory_store, or None for the "
        "default store"
    )


def provider_sentence(error: BaseException) -> str | None:
    """Return a model service's error on one line, credentials masked; None for other errors."""
    status, said = getattr(error, "status_code", None), str(error)
    is_of_client = isinstance(status, int) or type(error).__module__.partition(".")[0] in _CLIENT_PACKAGES
    of_team = _OF_TEAM.match(said) if isinstance(error, RuntimeError) else None
    if of_team:
        said = of_team[1]
    elif isinstance(error, TimeoutError):
        said = said or "it did not answer in time."
    elif is_of_client:
        said = _of_body(getattr(error, "body", None)) or f"{said} {error.__cause__ or ''}"
    else:
        return None
    code, message = _CODE.match(said), _MESSAGE.search(said)
    if code:
        status, said = int(code[1]), message[2] if message else said[code.end() :]
    told = shorten(masked(said), _SENTENCE_CHARACTERS) or type(error).__name__
    answered = f"answered {status}" if isinstance(status, int) else "did not answer to its end"
    return f"The model's service {answered}: {told}"


def _of_body(body: object) -> str:
    fields: Mapping[object, object] = body if isinstance(body, Mapping) else {}  # pyright: ignore[reportUnknownVariableType]
    message = fields.get("message")
    return message if isinstance(message, str) else _of_body(fields["error"]) if "error" in fields else ""

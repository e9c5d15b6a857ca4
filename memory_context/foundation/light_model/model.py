"""Guarded calls of a small model. Its client may raise, hang, ignore cancellation or answer nonsense.

Prompts and errors are never logged: they may hold secrets.
"""

import asyncio
import logging
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, Literal, TypeVar, cast
from weakref import WeakMethod, WeakValueDictionary

from autogen_core import CancellationToken
from autogen_core.models import ChatCompletionClient, CreateResult, LLMMessage, SystemMessage, UserMessage
from pydantic import BaseModel

from ..errors import LightModelError
from ..runtime.background import Background, Breaker, OutageLog, attempt
from ..utf8 import sayable
from .answers import Completion, content_at_limit, response_format, validated, without_thoughts
from .usage import NO_USAGE, LightModelUsage

__all__ = ["BACKGROUND_ATTEMPTS", "ChatCompletionClient", "LightModel"]

_logger = logging.getLogger("memory_context")

AnswerT = TypeVar("AnswerT", bound=BaseModel)
ReadT = TypeVar("ReadT")

BACKGROUND_ATTEMPTS = 5
"""Attempts of a background question that decisions cancel."""

_CAP_ARGUMENTS = ("max_tokens", "max_completion_tokens", "extra_create_args")
_OPENAI_CLIENTS = "autogen_ext.models.openai"


@dataclass(frozen=True)
class _Question(Generic[ReadT]):
    """Messages and the reader of the answer, which raises LightModelError; without `answer_type` it is plain text."""

    messages: Sequence[LLMMessage]
    limit_tokens: int
    answer_type: type[BaseModel] | None
    read: Callable[[Completion], ReadT]


class LightModel:
    """Asks a small model within a timeout, behind a circuit breaker.

    A timeout opens the breaker at once, other failures after `failures_allowed` in a row.

    Args:
        client: `model_info` chooses structured output, JSON mode or plain text.
        timeout_seconds: Limit of one question with its repetition.
        answer_limit_tokens: Sent as `max_tokens`, unless the client refuses that.
        is_background: Questions wait for decisions at the same client.
    """

    def __init__(
        self,
        client: ChatCompletionClient,
        *,
        timeout_seconds: float = 5.0,
        retry_seconds: float = 30.0,
        answer_limit_tokens: int = 300,
        failures_allowed: int = 3,
        is_background: bool = False,
    ) -> None:
        self._client = client
        self._timeout_seconds = timeout_seconds
        self._retry_seconds = retry_seconds
        self._answer_limit_tokens = answer_limit_tokens
        self._breaker = Breaker(retry_seconds, failures_allowed=failures_allowed)
        self._is_background = is_background
        self._queue: _Queue | None = None
        self._has_warned = False
        self._takes_cap = True
        self.outages = OutageLog()
        self.usage = LightModelUsage()
        self.on_use: WeakMethod[Callable[[], None]] | None = None

    @property
    def is_available(self) -> bool:
        """False while the breaker is open."""
        return not self._breaker.is_open

    async def ask(self, messages: Sequence[LLMMessage], answer_type: type[AnswerT]) -> AnswerT:
        """Return the only JSON object in the answer that validates.

        The prompt should describe the JSON, as not every client takes a schema.

        Raises:
            LightModelError: No usable answer in time, an open breaker, or decisions crowded out this question.
        """
        read = partial(validated, answer_type=answer_type)
        return await self._ask(_Question(messages, self._answer_limit_tokens, answer_type, read))

    async def complete(self, messages: Sequence[LLMMessage], limit_tokens: int | None = None) -> Completion:
        """Return the answer as text, without the thoughts of a reasoning model; raises as `ask`, also if it is empty.

        Args:
            limit_tokens: Sent as `max_tokens`; None for the guard's own limit.
        """
        limit_tokens = self._answer_limit_tokens if limit_tokens is None else limit_tokens
        return await self._ask(_Question(messages, limit_tokens, None, without_thoughts))

    async def ask_about(self, instructions: str, texts: Mapping[str, str], answer_type: type[AnswerT]) -> AnswerT:
        """Ask about texts between marks of their names, which no text can close; raises as `ask`."""
        marked = [f"<{name}>\n{text.replace('</', '< /')}\n</{name}>" for name, text in texts.items()]
        messages = [SystemMessage(content=instructions), UserMessage(content="\n".join(marked), source="user")]
        return await self.ask(messages, answer_type)

    async def _ask(self, question: "_Question[ReadT]") -> ReadT:
        if not self.is_available:
            raise LightModelError(f"not asked: the light model failed less than {self._retry_seconds:g} s ago")
        if self._breaker.is_on_trial:
            self._has_warned = False
        try:
            if self._is_background:
                answer = await self._ask_behind(question)
            else:
                with self._queue_here().decision():
                    answer = await self._call(question)
        except _CrowdedOutError:
            raise
        except LightModelError as error:
            self.usage += LightModelUsage(failures=1)
            self._breaker.failed(at_once=isinstance(error, _TimeoutExceededError))
            if not self._has_warned:
                self._has_warned = True
                text = "the light model gave no usable answer (%s); going on by rules"
                self.outages.failed("asking the light model", text, error, quiet_seconds=0.0)
            raise
        finally:
            if (note := self.on_use and self.on_use()) is not None:
                note()
        self._breaker.worked()
        self._has_warned = False
        return answer

    async def _ask_behind(self, question: "_Question[ReadT]") -> ReadT:
        """Ask alone; repeat if a decision cancels it."""
        queue = self._queue_here()
        for _ in range(BACKGROUND_ATTEMPTS):
            async with queue.background:
                while not queue.is_idle.is_set():
                    await queue.is_idle.wait()
                call = queue.call.start(lambda: self._call(question))
                try:
                    await asyncio.wait((call,))
                finally:
                    queue.call.cancel()
                if not call.cancelled():
                    return call.result()
        raise _CrowdedOutError(f"given up for decisions {BACKGROUND_ATTEMPTS} times")

    def _queue_here(self) -> "_Queue":
        loop = asyncio.get_running_loop()
        if self._queue is None or self._queue.loop is not loop:
            key = id(self._client), id(loop)
            self._queue = _queues.get(key) or _Queue(self._client, loop)
            _queues[key] = self._queue
        return self._queue

    async def _call(self, question: "_Question[ReadT]") -> ReadT:
        token = CancellationToken()
        task = None
        try:
            task = await attempt(self._create(question, token), self._timeout_seconds)
        finally:
            if task is None:
                _cancel(token)
        if task is None:
            raise _TimeoutExceededError(f"no answer within {self._timeout_seconds:g} s")
        if task.cancelled():
            raise LightModelError("the client cancelled the call")
        if error := task.exception():
            result, content, is_cut = getattr(error, "completion", None), content_at_limit(error), True
        else:
            result = cast(object, task.result())
            content, is_cut = getattr(result, "content", None), getattr(result, "finish_reason", None) == "length"
        used = self._count(result)
        if error is not None and content is None:
            raise LightModelError(f"the client raised {type(error).__name__}") from error
        if not isinstance(content, str):
            raise LightModelError(f"the answer is no text but {type(content).__name__}")
        try:
            return question.read(Completion(content, is_cut, used.prompt_tokens, used.completion_tokens))
        except LightModelError as unusable:
            if not is_cut:
                raise
            raise LightModelError(f"the answer reached its limit of {question.limit_tokens} tokens") from unusable

    async def _create(self, question: "_Question[Any]", token: CancellationToken) -> CreateResult:
        """Call with the token cap; retry without if the client refuses it."""
        messages = [  # they quote what came in, and have to encode as UTF-8
            one.model_copy(update={"content": sayable(one.content)}) if isinstance(one.content, str) else one
            for one in question.messages
        ]
        json_output = self._json_output(question.answer_type)
        arguments: dict[str, Any] = {}
        is_openai = any(base.__module__.startswith(_OPENAI_CLIENTS) for base in type(self._client).__mro__)
        if isinstance(json_output, type) and is_openai:
            json_output, arguments = None, {"response_format": response_format(json_output)}
        if self._takes_cap:
            cap = {"max_tokens": question.limit_tokens, **arguments}
            self.usage += LightModelUsage(calls=1, unreported_calls=1)
            try:
                return await self._client.create(
                    messages, json_output=json_output, extra_create_args=cap, cancellation_token=token
                )
            except Exception as error:
                if token.is_cancelled() or not _is_about_the_cap(error):
                    raise
        self.usage += LightModelUsage(calls=1, unreported_calls=1)
        others: dict[str, Any] = {"extra_create_args": arguments} if arguments else {}
        result = await self._client.create(messages, json_output=json_output, cancellation_token=token, **others)
        self._takes_cap = False  # only now: the error may have had another cause
        return result

    def _json_output(self, answer_type: type[BaseModel] | None) -> type[BaseModel] | Literal[True] | None:
        info = self._client.model_info
        if answer_type is None:
            return None
        if info.get("structured_output"):
            return answer_type
        return True if info.get("json_output") else None

    def _count(self, result: object) -> LightModelUsage:
        """Add the tokens of a call; some clients report zeros for unknown counts."""
        usage = cast(object, getattr(result, "usage", None))
        prompt, completion = getattr(usage, "prompt_tokens", 0), getattr(usage, "completion_tokens", 0)
        if not (isinstance(prompt, int) and isinstance(completion, int) and prompt + completion > 0):
            return NO_USAGE
        used = LightModelUsage(prompt_tokens=prompt, completion_tokens=completion, unreported_calls=-1)
        self.usage += used
        return used


class _Queue:
    """Questions at one client in one event loop: background ones singly, after decisions.

    Small servers often have one slot, and an agent waits for its decision.
    """

    def __init__(self, client: ChatCompletionClient, loop: asyncio.AbstractEventLoop) -> None:
        self.client, self.loop = client, loop
        self.background = asyncio.Lock()
        self.call = Background[Any]("memory_context background question")
        self.is_idle = asyncio.Event()
        self.is_idle.set()
        self._decisions = 0

    @contextmanager
    def decision(self) -> Generator[None, None, None]:
        """Hold back background questions; cancel a running one."""
        self._decisions += 1
        self.is_idle.clear()
        self.call.cancel()
        try:
            yield
        finally:
            self._decisions -= 1
            if not self._decisions:
                self.is_idle.set()


_queues: "WeakValueDictionary[tuple[int, int], _Queue]" = WeakValueDictionary()  # a queue keeps its ids unique


class _TimeoutExceededError(LightModelError):
    """Opens the breaker at once."""


class _CrowdedOutError(LightModelError):
    """Not a failure of the client."""


def _cancel(token: CancellationToken) -> None:
    try:
        token.cancel()
    except Exception as error:  # a callback of the client's
        _logger.debug("cancelling a call of the light model raised %s", type(error).__name__)


def _is_about_the_cap(error: Exception) -> bool:
    try:
        text = str(error)
    except Exception:  # str() itself failed
        return False
    return any(name in text for name in _CAP_ARGUMENTS)

"""The settings of a context; `docs/settings.md` explains all, `docs/lab.md` justifies the defaults."""

import logging
import sys
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import Annotated, Any, ClassVar, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, model_validator
from typing_extensions import Self

__all__ = [
    "ArchivePolicy",
    "CachePolicy",
    "CompactionMode",
    "CompactionPolicy",
    "ConnectorsPolicy",
    "ContextPolicy",
    "ExpansionPolicy",
    "FirstView",
    "ImagesPolicy",
    "LearningPolicy",
    "MaskInView",
    "ObservationMode",
    "ObservationPolicy",
    "PriceList",
    "RecallPolicy",
    "SecretsPolicy",
    "UserMemoryPolicy",
    "without_withdrawn",
]

FirstView = Literal["full", "excerpt", "placeholder"]
CompactionMode = Literal["plugin", "model", "auto"]
MaskInView = Literal["after_use", "always", "never"]
ObservationMode = Literal["auto", "off"]

PriceList = Literal[
    "anthropic",
    "anthropic-1h",
    "openai-gpt-5",
    "openai-gpt-4.1",
    "openai-gpt-4o",
    "gemini-2.5",
    "uncached",
]
_PRICE_LISTS: dict[PriceList, tuple[float, float, float]] = {  # read, write, seconds that an entry lives
    "anthropic": (0.1, 1.25, 300),
    "anthropic-1h": (0.1, 2.0, 3600),
    "openai-gpt-5": (0.1, 1.0, 300),
    "openai-gpt-4.1": (0.25, 1.0, 300),
    "openai-gpt-4o": (0.5, 1.0, 300),
    "gemini-2.5": (0.25, 1.0, 300),
    "uncached": (1.0, 1.0, 300),
}

_NotNegative = Annotated[float, Field(ge=0)]
_Positive = Annotated[float, Field(gt=0)]

_LEAST_VIEW_TOKENS = 1000
_DOCUMENT_LIMIT_TOKENS = 12_000
"""The most for the first view of prose, a page or a mail, which is meant to be read; at most half of the budget."""
_EXCERPT_LIMIT_TOKENS = 1500
"""The most for the first view of a result too long to be whole.

1,200 were cheaper by .013 on code and dearer by .009 on MCP tools, and lost 3 of 71 strings that the next call needed.
"""

_WITHDRAWN_SETTINGS: dict[str, object] = {
    "document_first_view_limit_tokens": 12_000,
    "name_first_views": "auto",
    "fold_to_ratio": 0.6,
    "image_tokens": 1100,
    "mask_credentials": True,
    "store_retry_seconds": 30.0,
    "expansion.timeout_seconds": 5.0,
    "expansion.retry_seconds": 30.0,
    "expansion.prompt_limit_tokens": 2000,
    "expansion.answer_limit_tokens": 300,
    "expansion.prompt": None,
    "recall.enabled": True,
    "recall.limit_tokens": 2000,
    "recall.passages": 10,
    "compaction.call_arguments": None,
    "compaction.facts_limit_tokens": 280,
    "compaction.facts_in_view_tokens": 4000,
    "compaction.excerpt_limit_tokens": 1500,
    "compaction.differences": True,
    "compaction.summarise_over_tokens": 2000,
    "compaction.summary_limit_tokens": 200,
    "compaction.summary_timeout_seconds": 30.0,
    "cache.least_prefix_tokens": 1024,
    "archive.batch_messages": 1000,
    "archive.resume_timeout_seconds": 5.0,
    "archive.titles": True,
    "learning.idle_seconds": 300.0,
    "learning.prompt_limit_tokens": 2000,
    "learning.answer_limit_tokens": 600,
    "connectors.timeout_seconds": 10.0,
    "connectors.shows_images": "auto",
    "connectors.images_in_view": 2,
    "observation.buffer_target_cycles": 4,
    "observation.buffer_token_cap": 30_000,
    "observation.buffer_min_tokens": 5_000,
    "observation.previous_observer_tokens": 2_000,
    "observation.reflection_ratio": 0.2,
    "observation.reflection_buffer_activation": 0.5,
    "observation.retention_tokens": None,
    "observation.light_window_tokens": None,
    "observation.sync_timeout_seconds": 10.0,
    "observation.timeout_seconds": 60.0,
    "observation.observer_instruction": "",
    "observation.reflector_instruction": "",
    "observation.recall": {"scope": "session", "limit_tokens": 2000},
}
"""Settings of earlier versions, each with its default then, as JSON has it.

Component data holds every setting, so only another value than the default was somebody's choice, and is told of.
"""
_INSTEAD = {
    "recall.enabled": "use expansion.enabled",
    "observation.observer_instruction": "use observation.instructions",
    "observation.reflector_instruction": "use observation.instructions",
    "observation.light_window_tokens": "set context.observation.light_window_tokens",
}
"""Advice of the warnings, where a setting that stays does the same."""
_WITHDRAWN_VALUES: dict[str, dict[str, object]] = {"observation.mode": {"digest": "off"}}
"""Values of earlier versions, each with the value that takes its place."""

_logger = logging.getLogger("memory_context")
_told: set[str] = set()


class _Settings(BaseModel):
    """A group of settings, which cannot change: unknown names are errors, withdrawn ones are ignored with a warning.

    Args:
        group: The beginning of the full names of its settings.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    _group: ClassVar[str] = ""

    def __init_subclass__(cls, *, group: str | None = None, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._group = cls._group if group is None else group

    @model_validator(mode="before")
    @classmethod
    def _without_withdrawn(cls, data: object) -> object:
        if not isinstance(data, Mapping):
            return data
        return without_withdrawn(cls._group, cls._translated(dict(cast(Mapping[str, object], data))))

    @classmethod
    def _translated(cls, given: dict[str, object]) -> dict[str, object]:
        """Return settings of earlier versions under their present names; others as they are."""
        return given


def without_withdrawn(group: str, given: Mapping[str, object]) -> dict[str, object]:
    """Return settings without those that were withdrawn; log each once that had another value than its default.

    Args:
        group: The beginning of the full names of these settings, such as `observation.`.
    """
    kept: dict[str, object] = {}
    for name, value in given.items():
        setting = f"{group}{name}"
        if setting in _WITHDRAWN_SETTINGS:
            default = _WITHDRAWN_SETTINGS[setting]
            if value != default:
                advice = _INSTEAD.get(setting, "remove it")
                _tell_once(setting, f"the setting {setting} was withdrawn: {value!r} is ignored; {advice}")
            continue
        replacements = _WITHDRAWN_VALUES.get(setting, {})
        if isinstance(value, str) and value in replacements:
            new = replacements[value]
            _tell_once(setting, f"{setting}={value!r} was withdrawn: {new!r} is used; choose another value")
            value = new
        kept[name] = value
    return kept


def _tell_translated(setting: str, instead: str) -> None:
    _tell_once(setting, f"the setting {setting} was withdrawn: {instead} is used; set that")


def _tell_once(setting: str, text: str) -> None:
    if setting not in _told:
        _told.add(setting)
        _logger.warning(text)


class ExpansionPolicy(_Settings, group="expansion."):
    """Expansions: references that open, and memory that is searched, by themselves.

    Attributes:
        enabled: Else neither happens; the agent's tools still read everything.
        limit_tokens: The most tokens opened for one message.
    """

    enabled: bool = True
    limit_tokens: int = Field(default=2000, ge=100)


class RecallPolicy(_Settings, group="recall."):
    """Passages of the user's memory for an ambiguous request.

    Attributes:
        least_relevance: Share of what the request asks, from 0 to 1, that a passage has to tell by words or meaning;
            beside the search's own judgement, which asks for about a quarter.
    """

    least_relevance: float = Field(default=0.0, ge=0, le=1)


class UserMemoryPolicy(_Settings, group="user_memory."):
    """The user's memory in the head of each view.

    Attributes:
        enabled: Else nothing is loaded or shown.
        limit_tokens: The most for all of it; at most a quarter of the budget.
    """

    enabled: bool = True
    limit_tokens: int = Field(default=800, ge=100)


class CompactionPolicy(_Settings, group="compaction."):
    """Compaction of answered tool results.

    Attributes:
        enabled: Else results stay whole while the budget allows.
        mode: `plugin`: rules; `auto`: also a light model's summary, in the background; `model`: large results wait.
        summary_prompt: The question for a summary; None for the built-in one.
    """

    enabled: bool = True
    mode: CompactionMode = "auto"
    summary_prompt: str | None = None


class CachePolicy(_Settings, group="cache."):
    """Token prices with a prompt cache.

    Attributes:
        prices: A provider's list prices of 2025 by name (`uncached`: a model without a cache), or three numbers: price
            of a token read from the cache, price of a token written to it, both relative to an ordinary input token,
            and the seconds after which an entry that no call has read is gone.
        expected_calls: Model calls still to come; None estimates as many as so far, at least six.
    """

    prices: PriceList | tuple[_NotNegative, _Positive, _Positive] = "anthropic"
    expected_calls: int | None = Field(default=None, ge=1)

    @classmethod
    def _translated(cls, given: dict[str, object]) -> dict[str, object]:
        """Let the three numbers of earlier versions be `prices`, by name if they are those of a list."""
        names, default = ("cached_price_ratio", "write_price_ratio", "ttl_seconds"), _PRICE_LISTS["anthropic"]
        if any(name in given for name in names):
            numbers = tuple(given.pop(name, number) for name, number in zip(names, default, strict=True))
            prices = next((name for name, row in _PRICE_LISTS.items() if row == numbers), numbers)
            if numbers != default:
                _tell_translated("cache.cached_price_ratio", f"cache.prices={prices!r}")
            given.setdefault("prices", prices)
        return given

    @property
    def cached_price_ratio(self) -> float:
        return self._numbers[0]

    @property
    def write_price_ratio(self) -> float:
        return self._numbers[1]

    @property
    def ttl_seconds(self) -> float:
        return self._numbers[2]

    @property
    def _numbers(self) -> tuple[float, float, float]:
        return _PRICE_LISTS[self.prices] if isinstance(self.prices, str) else self.prices


class ArchivePolicy(_Settings, group="archive."):
    """Archiving of a session, so that it can be resumed.

    Attributes:
        batch_seconds: The longest that messages of a turn wait to be written; they are when it ends.
        require_history: Then `add_message` raises `StoreUnavailableError`.
    """

    enabled: bool = True
    batch_seconds: float = Field(default=60.0, gt=0)
    require_history: bool = False


class LearningPolicy(_Settings, group="learning."):
    """Learning preferences and facts from the user's own words, in the background. It needs the archive."""

    enabled: bool = True


class ConnectorsPolicy(_Settings, group="connectors."):
    """The present as connectors show it.

    Attributes:
        state_limit_tokens: The most for the texts of the present states of all together.
    """

    state_limit_tokens: int = Field(default=2000, ge=100)


class ImagesPolicy(_Settings, group="images."):
    """The most images in one view, of users, tools and observations together; older ones are references.

    Providers refuse requests over 20 MB, or with more than 20 to 100 images. When a limit is passed, images leave down
    to half of it. Images of the current user message stay first of all.

    Attributes:
        most: The most images.
        most_bytes: The most bytes of all, as they are sent in Base64.
    """

    most: int = Field(default=20, ge=0)
    most_bytes: int = Field(default=10_000_000, ge=0)


class SecretsPolicy(_Settings, group="secrets."):
    """Credentials in tool results.

    Attributes:
        mask_in_view: `after_use`: masked once answered; `always`: from the first view on; `never`: only when compacted.
    """

    mask_in_view: MaskInView = "after_use"


class ObservationPolicy(_Settings, group="observation."):
    """Observations: dated lines that replace old messages, prepared in the background.

    Attributes:
        mode: `auto`: on with a light model; `off`: only folds.
        activation_ratio: Share of the window at which finished observations replace messages.
        instructions: Added to the prompts of observer and reflector.
    """

    mode: ObservationMode = "auto"
    activation_ratio: float = Field(default=0.9, gt=0.3, le=1)
    instructions: str = ""


class ContextPolicy(_Settings):
    """When content leaves the view, its first view, and the size of the view.

    Attributes:
        offload_threshold_tokens: Larger parts are stored as items.
        first_view_by_tool: Form of a stored tool result until answered, by tool name or pattern (`fetch_*`), first
            match: `full`, up to half of the budget, `excerpt`, or `placeholder`, which compacts at once. Results of
            other tools are whole up to `first_view_limit_tokens`.
        first_view_limit_tokens: The most for a whole result, at most a quarter of the budget, and for a whole task.
        token_budget: The most tokens of `get_messages`, at most the context window of the agent's model; None is
            unlimited.
        view_target_tokens: A larger view folds its oldest steps as soon as that pays by prompt-cache prices; None: only
            for the budget; `auto`: 13,000 for an agent with memory tools and without observations, 8,000 where its
            earlier sessions with the user read much.
        reserved_tokens: Part of the budget for system prompt and tool schemas.
        user_sources: Sources whose `UserMessage` is the current task.
        joins_user_messages: User messages in a row, such as a memory text beside the user's words, become one, for
            strict chat templates (Mistral, Gemma, Llama 2, DeepSeek R1); None: if `note_agent` told of such a model.
        store_timeout_seconds: The longest a step waits for the store; content stays inline meanwhile.
    """

    offload_threshold_tokens: int = Field(default=500, ge=50)
    first_view_by_tool: dict[str, FirstView] = {}
    first_view_limit_tokens: int = Field(default=3200, ge=200)
    token_budget: int | None = 100_000
    view_target_tokens: int | Literal["auto"] | None = "auto"
    reserved_tokens: int = Field(default=0, ge=0)
    user_sources: tuple[str, ...] = ("user", "user_proxy")
    joins_user_messages: bool | None = None
    store_timeout_seconds: float = Field(default=1.0, gt=0)
    expansion: ExpansionPolicy = ExpansionPolicy()
    recall: RecallPolicy = RecallPolicy()
    user_memory: UserMemoryPolicy = UserMemoryPolicy()
    compaction: CompactionPolicy = CompactionPolicy()
    cache: CachePolicy = CachePolicy()
    archive: ArchivePolicy = ArchivePolicy()
    learning: LearningPolicy = LearningPolicy()
    observation: ObservationPolicy = ObservationPolicy()
    secrets: SecretsPolicy = SecretsPolicy()
    connectors: ConnectorsPolicy = ConnectorsPolicy()
    images: ImagesPolicy = ImagesPolicy()

    @classmethod
    def _translated(cls, given: dict[str, object]) -> dict[str, object]:
        """Let a smaller context window be the budget, and a first view of all tools that of the pattern `*`."""
        window, budget = given.pop("context_window_tokens", None), given.get("token_budget", 100_000)
        if isinstance(window, int) and (budget is None or (isinstance(budget, int) and window < budget)):
            given["token_budget"] = window
            _tell_translated("context_window_tokens", f"token_budget={window!r}")
        view, by_tool = given.pop("first_view", "full"), given.get("first_view_by_tool", {})
        if view != "full" and isinstance(by_tool, Mapping):
            given["first_view_by_tool"] = dict(cast(Mapping[str, object], by_tool)) | {"*": view}
            _tell_translated("first_view", f"first_view_by_tool={{'*': {view!r}}}")
        return given

    @model_validator(mode="after")
    def _leaves_room_for_a_view(self) -> Self:
        limit = self.token_budget
        if limit is not None and limit < _LEAST_VIEW_TOKENS:
            raise ValueError(f"token_budget={limit!r} is too small: use at least {_LEAST_VIEW_TOKENS}, or None")
        if limit is not None and limit - self.reserved_tokens < _LEAST_VIEW_TOKENS:
            raise ValueError(
                f"reserved_tokens={self.reserved_tokens!r} leaves less than {_LEAST_VIEW_TOKENS} of "
                f"token_budget={limit!r}: raise it or reserve less"
            )
        return self

    def __hash__(self) -> int:  # the generated one refuses dicts
        return hash(self.model_dump_json())

    def first_view_of(self, tool: str) -> FirstView:
        if not self.compaction.enabled:
            return "full"
        return self._named_for(tool) or "full"

    def names_first_view(self, agent_has_tools: bool) -> bool:
        """Return whether a line above a whole result names its key, for an agent that cannot look it up."""
        return self.compaction.enabled and not agent_has_tools

    def shows_whole(self, tool: str, tokens: int, is_document: Callable[[], bool]) -> bool:
        """Return whether a result is whole in its first view; `is_document` is asked only if its answer counts."""
        if not self.compaction.enabled:
            return tokens <= self.result_limit_tokens
        half = sys.maxsize if self.view_limit_tokens is None else self.view_limit_tokens // 2
        if self._named_for(tool) == "full":
            return tokens <= half
        if tokens <= self.result_limit_tokens:
            return True
        return tokens <= min(_DOCUMENT_LIMIT_TOKENS, half) and is_document()

    def _named_for(self, tool: str) -> FirstView | None:
        return next((view for name, view in self.first_view_by_tool.items() if fnmatchcase(tool, name)), None)

    @property
    def view_limit_tokens(self) -> int | None:
        """The window for the view: the budget without what is reserved."""
        return None if self.token_budget is None else self.token_budget - self.reserved_tokens

    @property
    def result_limit_tokens(self) -> int:
        """The limit for whole results except documents."""
        limit = self.view_limit_tokens
        if not self.compaction.enabled:
            return sys.maxsize if limit is None else limit
        return self.first_view_limit_tokens if limit is None else min(self.first_view_limit_tokens, limit // 4)

    @property
    def user_memory_limit_tokens(self) -> int:
        limit = self.view_limit_tokens
        return self.user_memory.limit_tokens if limit is None else min(self.user_memory.limit_tokens, limit // 4)

    @property
    def excerpt_limit_tokens(self) -> int:
        return min(self.result_limit_tokens, _EXCERPT_LIMIT_TOKENS)

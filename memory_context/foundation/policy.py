"""The settings of a context; `docs/settings.md` explains all, `docs/measurements.md` justifies the defaults."""

import logging
import sys
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import Any, ClassVar, Literal, cast

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
    "NamedFirstViews",
    "ObservationMode",
    "ObservationPolicy",
    "ObservationScope",
    "PriceList",
    "RecallConfig",
    "RecallPolicy",
    "SecretsPolicy",
    "UserMemoryPolicy",
]

FirstView = Literal["full", "excerpt", "placeholder"]
NamedFirstViews = Literal["auto", "always", "never"]
CompactionMode = Literal["plugin", "model", "auto"]
MaskInView = Literal["after_use", "always", "never"]
ObservationMode = Literal["auto", "off"]
ObservationScope = Literal["session", "user"]

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

_LEAST_VIEW_TOKENS = 1000

_WITHDRAWN_SETTINGS: dict[str, object] = {"compaction.call_arguments": None}
"""Settings of earlier versions, each with its default then, as JSON has it.

Component data holds every setting, so only another value than the default was somebody's choice, and is told of.
"""
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
        kept: dict[str, object] = {}
        for name, value in cast(Mapping[str, object], data).items():
            setting = f"{cls._group}{name}"
            if setting in _WITHDRAWN_SETTINGS:
                if value != _WITHDRAWN_SETTINGS[setting]:
                    _tell_once(setting, f"the setting {setting} was withdrawn: {value!r} is ignored; remove it")
                continue
            replacements = _WITHDRAWN_VALUES.get(setting, {})
            if isinstance(value, str) and value in replacements:
                new = replacements[value]
                _tell_once(setting, f"{setting}={value!r} was withdrawn: {new!r} is used; choose another value")
                value = new
            kept[name] = value
        return kept


def _tell_once(setting: str, text: str) -> None:
    if setting not in _told:
        _told.add(setting)
        _logger.warning(text)


class ExpansionPolicy(_Settings, group="expansion."):
    """Expansions, and the light model's decisions about them.

    Attributes:
        limit_tokens: The most tokens opened for one message.
        timeout_seconds: The longest wait for the light model; then the rules decide.
    """

    enabled: bool = True
    limit_tokens: int = Field(default=2000, ge=100)
    timeout_seconds: float = Field(default=5.0, gt=0)
    retry_seconds: float = Field(default=30.0, ge=0)
    prompt_limit_tokens: int = Field(default=2000, ge=500)
    answer_limit_tokens: int = Field(default=300, ge=50)
    prompt: str | None = None


class RecallPolicy(_Settings, group="recall."):
    """Passages of the user's memory for an ambiguous request.

    Attributes:
        least_relevance: Share of what the request asks, from 0 to 1, that a passage has to tell by words or meaning;
            beside the search's own judgement, which asks for about a quarter.
    """

    enabled: bool = True
    limit_tokens: int = Field(default=2000, ge=100)
    passages: int = Field(default=10, ge=1, le=20)
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
        facts_in_view_tokens: The most for all facts; then the oldest go, down to a share of 0.4.
        excerpt_limit_tokens: The first view of a result too long to be whole.
        differences: A result that repeats one in the view first shows how it differs from it.
    """

    enabled: bool = True
    mode: CompactionMode = "auto"
    facts_limit_tokens: int = Field(default=280, ge=0)
    facts_in_view_tokens: int = Field(default=4000, ge=0)
    excerpt_limit_tokens: int = Field(default=1500, ge=200)
    differences: bool = True
    summarise_over_tokens: int = Field(default=2000, ge=500)
    summary_limit_tokens: int = Field(default=200, ge=50)
    summary_timeout_seconds: float = Field(default=30.0, gt=0)
    summary_prompt: str | None = None


class CachePolicy(_Settings, group="cache."):
    """Token prices with a prompt cache, relative to an ordinary input token.

    The defaults are Anthropic's; `CachePolicy.of` has others by name.

    Attributes:
        least_prefix_tokens: A shorter common prefix, `reserved_tokens` included, is not cached.
        expected_calls: Model calls still to come; None estimates as many as so far, at least six.
        ttl_seconds: An entry that no call has read for so long is gone.
    """

    cached_price_ratio: float = Field(default=0.1, ge=0)
    write_price_ratio: float = Field(default=1.25, gt=0)
    least_prefix_tokens: int = Field(default=1024, ge=0)
    expected_calls: int | None = Field(default=None, ge=1)
    ttl_seconds: float = Field(default=300.0, gt=0)

    @classmethod
    def of(cls, prices: PriceList) -> Self:
        """Return the prices of a provider, from its list prices of 2025; `uncached` is for a model without a cache.

        Raises:
            ValueError: There is no such list.
        """
        if prices not in _PRICE_LISTS:
            raise ValueError(f"prices={prices!r}: use one of {', '.join(map(repr, _PRICE_LISTS))}")
        read, write, ttl_seconds = _PRICE_LISTS[prices]
        return cls(cached_price_ratio=read, write_price_ratio=write, ttl_seconds=ttl_seconds)


class ArchivePolicy(_Settings, group="archive."):
    """Archiving of a session, so that it can be resumed.

    Attributes:
        batch_messages: The most that wait within a turn.
        batch_seconds: The longest that messages of a turn wait to be written; they are when it ends.
        resume_timeout_seconds: The longest wait for a known session's history; the view then notes its absence.
        require_history: Then `add_message` raises `StoreUnavailableError`.
    """

    enabled: bool = True
    batch_messages: int = Field(default=1000, ge=1)
    batch_seconds: float = Field(default=60.0, gt=0)
    resume_timeout_seconds: float = Field(default=5.0, gt=0)
    require_history: bool = False
    titles: bool = True


class LearningPolicy(_Settings, group="learning."):
    """Learning preferences and facts from the user's own words, in the background. It needs the archive.

    Attributes:
        idle_seconds: The longest that messages wait to be archived, and then learned from, if nothing follows.
        prompt_limit_tokens: The most that a light model reads of a batch and of what is known.
    """

    enabled: bool = True
    idle_seconds: float = Field(default=300.0, gt=0)
    prompt_limit_tokens: int = Field(default=2000, ge=500)
    answer_limit_tokens: int = Field(default=600, ge=100)


class ConnectorsPolicy(_Settings, group="connectors."):
    """What connectors observe, and show of the present.

    Attributes:
        timeout_seconds: The longest wait for all of them after an action.
        images_in_view: The newest images of observations in the view, at most `images`; others are references.
        shows_images: Show images of observations; `auto` does unless the agent's model is known to have no vision.
        state_limit_tokens: The most for the texts of the present states of all together.
    """

    timeout_seconds: float = Field(default=10.0, gt=0)
    shows_images: bool | Literal["auto"] = "auto"
    images_in_view: int = Field(default=2, ge=0)
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


class RecallConfig(_Settings, group="observation.recall."):
    """How an agent reads the messages behind an observation.

    Attributes:
        scope: `session`: this session's messages; `user`: also messages and logs of the user's other sessions.
        limit_tokens: The most that one answer takes.
    """

    scope: ObservationScope = "session"
    limit_tokens: int = Field(default=2000, ge=200)


class ObservationPolicy(_Settings, group="observation."):
    """Observations: dated lines that replace old messages, prepared in the background.

    Attributes:
        mode: `auto`: on with a light model; `off`: only folds.
        activation_ratio: Share of the window at which finished observations replace messages.
        buffer_target_cycles: Observer calls between two activations.
        buffer_token_cap: The most unobserved tokens before a call; at most 0.6 of the light model's window.
        buffer_min_tokens: The least.
        previous_observer_tokens: The most of the log that an observer reads.
        reflection_ratio: Share of the window at which the log is condensed; at most half of the light model's window.
        reflection_buffer_activation: Share of that size from which this is prepared in the background.
        retention_tokens: Newest messages that stay; None: one fifth of the window. The newest step and the task always
            stay.
        light_window_tokens: Context window of the light model; None asks its client, else 32,000.
        sync_timeout_seconds: The longest that a step waits for observations; then the oldest steps fold.
        timeout_seconds: The longest of one call in the background.
        observer_instruction: Added to the observer's prompt.
        reflector_instruction: Added to the reflector's prompt.
        recall: Reading the messages behind observations; None: the view does not offer it.
    """

    mode: ObservationMode = "auto"
    activation_ratio: float = Field(default=0.9, gt=0.3, le=1)
    buffer_target_cycles: int = Field(default=4, ge=1)
    buffer_token_cap: int = Field(default=30_000, ge=1)
    buffer_min_tokens: int = Field(default=5_000, ge=1)
    previous_observer_tokens: int = Field(default=2_000, ge=0)
    reflection_ratio: float = Field(default=0.2, gt=0, le=0.5)
    reflection_buffer_activation: float = Field(default=0.5, gt=0, le=1)
    retention_tokens: int | None = Field(default=None, ge=0)
    light_window_tokens: int | None = Field(default=None, ge=1000)
    sync_timeout_seconds: float = Field(default=10.0, gt=0)
    timeout_seconds: float = Field(default=60.0, gt=0)
    observer_instruction: str = ""
    reflector_instruction: str = ""
    recall: RecallConfig | None = RecallConfig()


class ContextPolicy(_Settings):
    """When content leaves the view, its first view, and the size of the view.

    Attributes:
        offload_threshold_tokens: Larger parts are stored as items.
        first_view: Form of a stored tool result until answered; `placeholder` compacts at once.
        first_view_by_tool: The same by tool name or pattern (`fetch_*`), first match; here `full` shows results up to
            half of the budget.
        first_view_limit_tokens: The most for a whole result, at most a quarter of the budget, and for a whole task.
        document_first_view_limit_tokens: The same for documents, at most half of the budget.
        name_first_views: A line above whole results names their key; `auto`: if results are compacted and the
            agent has no memory tools.
        token_budget: The most tokens of `get_messages`; None is unlimited.
        view_target_tokens: A larger view folds its oldest steps as soon as that pays by prompt-cache prices; None: only
            for the budget; `auto`: 16,000 for an agent with memory tools and without observations.
        context_window_tokens: Context window of the agent's model; a smaller one limits the view as a budget does.
        reserved_tokens: Part of the budget for system prompt and tool schemas.
        fold_to_ratio: View after a fold; low, so that folds rarely break the cached prefix.
        user_sources: Sources whose `UserMessage` is the current task.
        joins_user_messages: User messages in a row, such as a memory text beside the user's words, become one, for
            strict chat templates (Mistral, Gemma, Llama 2, DeepSeek R1); None: if `note_agent` told of such a model.
        mask_credentials: Masks derived texts, never content and first view.
        store_timeout_seconds: The longest a step waits for the store; content stays inline meanwhile.
    """

    offload_threshold_tokens: int = Field(default=500, ge=50)
    first_view: FirstView = "full"
    first_view_by_tool: dict[str, FirstView] = {}
    first_view_limit_tokens: int = Field(default=3200, ge=200)
    document_first_view_limit_tokens: int = Field(default=12_000, ge=200)
    name_first_views: NamedFirstViews = "auto"
    token_budget: int | None = 100_000
    view_target_tokens: int | Literal["auto"] | None = "auto"
    context_window_tokens: int | None = None
    reserved_tokens: int = Field(default=0, ge=0)
    fold_to_ratio: float = Field(default=0.6, gt=0, lt=1)
    user_sources: tuple[str, ...] = ("user", "user_proxy")
    joins_user_messages: bool | None = None
    image_tokens: int = Field(default=1100, ge=0)
    mask_credentials: bool = True
    store_timeout_seconds: float = Field(default=1.0, gt=0)
    store_retry_seconds: float = Field(default=30.0, ge=0)
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

    @model_validator(mode="after")
    def _leaves_room_for_a_view(self) -> Self:
        for name in ("token_budget", "context_window_tokens"):
            limit: int | None = getattr(self, name)
            if limit is not None and limit < _LEAST_VIEW_TOKENS:
                raise ValueError(f"{name}={limit!r} is too small: use at least {_LEAST_VIEW_TOKENS}, or None")
            if limit is not None and limit - self.reserved_tokens < _LEAST_VIEW_TOKENS:
                raise ValueError(
                    f"reserved_tokens={self.reserved_tokens!r} leaves less than {_LEAST_VIEW_TOKENS} of "
                    f"{name}={limit!r}: raise it or reserve less"
                )
        return self

    def __hash__(self) -> int:  # the generated one refuses dicts
        return hash(self.model_dump_json())

    def first_view_of(self, tool: str) -> FirstView:
        if not self.compaction.enabled:
            return "full"
        return self._named_for(tool) or self.first_view

    def names_first_view(self, agent_has_tools: bool) -> bool:
        is_needed = self.compaction.enabled and not agent_has_tools
        return self.name_first_views == "always" or (self.name_first_views == "auto" and is_needed)

    def shows_whole(self, tool: str, tokens: int, is_document: Callable[[], bool]) -> bool:
        """Return whether a result is whole in its first view; `is_document` is asked only if its answer counts."""
        if not self.compaction.enabled:
            return tokens <= self.result_limit_tokens
        half = sys.maxsize if self.view_limit_tokens is None else self.view_limit_tokens // 2
        if self._named_for(tool) == "full":
            return tokens <= half
        if tokens <= self.result_limit_tokens:
            return True
        return tokens <= min(self.document_first_view_limit_tokens, half) and is_document()

    def _named_for(self, tool: str) -> FirstView | None:
        return next((view for name, view in self.first_view_by_tool.items() if fnmatchcase(tool, name)), None)

    @property
    def view_limit_tokens(self) -> int | None:
        """The window for the view: the smaller of budget and context window, without what is reserved."""
        limits = [limit for limit in (self.token_budget, self.context_window_tokens) if limit is not None]
        return min(limits) - self.reserved_tokens if limits else None

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
        return min(self.result_limit_tokens, self.compaction.excerpt_limit_tokens)

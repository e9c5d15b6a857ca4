"""The settings of a context; `docs/settings.md` explains all, `docs/measurements.md` justifies the defaults."""

import sys
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator
from typing_extensions import Self

__all__ = [
    "ArchivePolicy",
    "CachePolicy",
    "CompactionMode",
    "CompactionPolicy",
    "ContextPolicy",
    "ExpansionPolicy",
    "FirstView",
    "LearningPolicy",
    "MaskInView",
    "NamedFirstViews",
    "RecallPolicy",
    "SecretsPolicy",
    "UserMemoryPolicy",
]

FirstView = Literal["full", "excerpt", "placeholder"]
NamedFirstViews = Literal["auto", "always", "never"]
CompactionMode = Literal["plugin", "model", "auto"]
MaskInView = Literal["after_use", "always", "never"]

_LEAST_VIEW_TOKENS = 1000


class ExpansionPolicy(BaseModel):
    """Expansions, and the light model's decisions about them.

    Attributes:
        limit_tokens: The most tokens opened for one message.
        timeout_seconds: The longest wait for the light model; then the rules decide.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    enabled: bool = True
    limit_tokens: int = Field(default=2000, ge=100)
    timeout_seconds: float = Field(default=5.0, gt=0)
    retry_seconds: float = Field(default=30.0, ge=0)
    prompt_limit_tokens: int = Field(default=2000, ge=500)
    answer_limit_tokens: int = Field(default=300, ge=50)
    prompt: str | None = None


class RecallPolicy(BaseModel):
    """Passages of the user's memory for an ambiguous request."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    enabled: bool = True
    limit_tokens: int = Field(default=800, ge=100)
    passages: int = Field(default=5, ge=1, le=20)


class UserMemoryPolicy(BaseModel):
    """The user's memory in the head of each view.

    Attributes:
        enabled: Else nothing is loaded or shown.
        limit_tokens: The most for all of it; at most a quarter of the budget.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    enabled: bool = True
    limit_tokens: int = Field(default=800, ge=100)


class CompactionPolicy(BaseModel):
    """Compaction of answered tool results.

    Attributes:
        enabled: Else results stay whole while the budget allows.
        mode: `plugin`: rules; `auto`: also a light model's summary of large results, in the background; `model`: large
            results wait for it.
        facts_in_view_tokens: The most for all facts; then the oldest go, down to a share of 0.4.
        excerpt_limit_tokens: The first view of a result too long to be whole.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    enabled: bool = True
    mode: CompactionMode = "auto"
    facts_limit_tokens: int = Field(default=280, ge=0)
    facts_in_view_tokens: int = Field(default=4000, ge=0)
    excerpt_limit_tokens: int = Field(default=1800, ge=200)
    summarise_over_tokens: int = Field(default=2000, ge=500)
    summary_limit_tokens: int = Field(default=200, ge=50)
    summary_timeout_seconds: float = Field(default=30.0, gt=0)
    summary_prompt: str | None = None


class CachePolicy(BaseModel):
    """Token prices with a prompt cache, relative to an ordinary input token.

    The defaults are Anthropic's. With automatic caching (OpenAI) writing costs 1.0, reading 0.1 to 0.5.

    Attributes:
        least_prefix_tokens: A shorter common prefix, `reserved_tokens` included, is not cached.
        expected_calls: Model calls still to come; None estimates as many as so far, at least six.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    cached_price_ratio: float = Field(default=0.1, ge=0)
    write_price_ratio: float = Field(default=1.25, gt=0)
    least_prefix_tokens: int = Field(default=1024, ge=0)
    expected_calls: int | None = Field(default=None, ge=1)


class ArchivePolicy(BaseModel):
    """Archiving of a session, so that it can be resumed.

    Attributes:
        batch_seconds: The longest that messages wait to be written; a killed process loses them.
        resume_timeout_seconds: The longest wait for a known session's history; the view then notes its absence.
        require_history: Then `add_message` raises `StoreUnavailableError`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    enabled: bool = True
    batch_messages: int = Field(default=40, ge=1)
    batch_seconds: float = Field(default=60.0, gt=0)
    resume_timeout_seconds: float = Field(default=5.0, gt=0)
    require_history: bool = False
    titles: bool = True


class LearningPolicy(BaseModel):
    """Learning preferences and facts from the user's own words, in the background. It needs the archive.

    Attributes:
        idle_seconds: The longest that messages wait to be archived, and then learned from, if nothing follows.
        prompt_limit_tokens: The most that a light model reads of a batch and of what is known.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    enabled: bool = True
    idle_seconds: float = Field(default=300.0, gt=0)
    prompt_limit_tokens: int = Field(default=2000, ge=500)
    answer_limit_tokens: int = Field(default=600, ge=100)


class SecretsPolicy(BaseModel):
    """Credentials in tool results.

    Attributes:
        mask_in_view: `after_use`: masked once answered; `always`: from the first view on; `never`: only when compacted.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    mask_in_view: MaskInView = "after_use"


class ContextPolicy(BaseModel):
    """When content leaves the view, its first view, and the size of the view.

    Attributes:
        offload_threshold_tokens: Larger parts are stored as items.
        first_view: Form of a stored tool result until answered; `placeholder` compacts at once.
        first_view_by_tool: The same by tool name or pattern (`fetch_*`), first match; here `full` shows results up to
            half of the budget.
        first_view_limit_tokens: The most for a whole tool result, at most a quarter of the budget; also the part of the
            current user message that is always whole.
        document_first_view_limit_tokens: The same for documents, at most half of the budget.
        name_first_views: A line above whole results names their key; `auto`: if results are compacted and the
            agent has no memory tools.
        token_budget: The most tokens of `get_messages`; None is unlimited.
        reserved_tokens: Part of the budget for system prompt and tool schemas.
        fold_to_ratio: View after a fold; low, so that folds rarely break the cached prefix.
        user_sources: Sources whose `UserMessage` is the current task.
        mask_credentials: Masks derived texts, never content and first view.
        store_timeout_seconds: The longest a step waits for the store; content stays inline meanwhile.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    offload_threshold_tokens: int = Field(default=500, ge=50)
    first_view: FirstView = "full"
    first_view_by_tool: dict[str, FirstView] = {}
    first_view_limit_tokens: int = Field(default=4000, ge=200)
    document_first_view_limit_tokens: int = Field(default=12_000, ge=200)
    name_first_views: NamedFirstViews = "auto"
    token_budget: int | None = 100_000
    reserved_tokens: int = Field(default=0, ge=0)
    fold_to_ratio: float = Field(default=0.6, gt=0, lt=1)
    user_sources: tuple[str, ...] = ("user", "user_proxy")
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
    secrets: SecretsPolicy = SecretsPolicy()

    @model_validator(mode="after")
    def _leaves_room_for_a_view(self) -> Self:
        if self.token_budget is None:
            return self
        if self.token_budget < _LEAST_VIEW_TOKENS:
            raise ValueError(
                f"token_budget={self.token_budget!r} is too small: use at least {_LEAST_VIEW_TOKENS}, or None"
            )
        if self.token_budget - self.reserved_tokens < _LEAST_VIEW_TOKENS:
            raise ValueError(
                f"reserved_tokens={self.reserved_tokens!r} leaves less than {_LEAST_VIEW_TOKENS} of "
                f"token_budget={self.token_budget!r}: raise the budget or reserve less"
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
        return min(self.result_limit_tokens, self.compaction.excerpt_limit_tokens)

"""The base of the bodies of requests and responses."""

from functools import partial
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from memory_context.foundation.identifiers import checked_identifier

from .errors import replace_surrogates

__all__ = ["Identifier", "Text", "Wire"]


Identifier = Annotated[
    str,
    Field(min_length=1, max_length=128, json_schema_extra={"pattern": "^[ -~\u00a1-\u00ac\u00ae-\u00ff]+$"}),
    AfterValidator(partial(checked_identifier, "id")),
]
"""1 to 128 printable characters; OpenAPI promises those of Latin-1."""
Text = Annotated[str, BeforeValidator(replace_surrogates)]
"""Text of a response."""


class Wire(BaseModel):
    """A frozen body without other fields; a response can be made of a stored value."""

    model_config = ConfigDict(extra="forbid", frozen=True, from_attributes=True)

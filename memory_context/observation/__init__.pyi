from .artifacts import ARTIFACT_TRAIL_TOKENS, ArtifactTrail, artifact_trail
from .reading import MessageOrigin, ObservedMessage, UnobservedTokens, observed_messages

__all__ = [
    "ARTIFACT_TRAIL_TOKENS",
    "ArtifactTrail",
    "MessageOrigin",
    "ObservedMessage",
    "UnobservedTokens",
    "artifact_trail",
    "observed_messages",
]

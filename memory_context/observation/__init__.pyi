from .artifacts import ARTIFACT_TRAIL_TOKENS, ArtifactTrail, artifact_trail
from .digest import digest_edits, digest_lines, stored_lines
from .reading import MessageOrigin, ObservedMessage, UnobservedTokens, observed_messages
from .user_logs import SessionObservations, by_session, newest_lines, observations_of_user

__all__ = [
    "ARTIFACT_TRAIL_TOKENS",
    "ArtifactTrail",
    "MessageOrigin",
    "ObservedMessage",
    "SessionObservations",
    "UnobservedTokens",
    "artifact_trail",
    "by_session",
    "digest_edits",
    "digest_lines",
    "newest_lines",
    "observations_of_user",
    "observed_messages",
    "stored_lines",
]

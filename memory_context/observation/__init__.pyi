from .artifacts import ARTIFACT_TRAIL_TOKENS, ArtifactTrail, artifact_trail, artifacts_of
from .coordinator import BufferingCoordinator
from .digest import digest_edits, digest_lines, stored_lines
from .events import EventHandlers, ObservationEvent, ReflectionEvent
from .observer import DigestFunction, ObserverOutput, run_observer
from .observers import ObservationModels, TranscriptObservers
from .parsing import CompletionFunction
from .reading import MessageOrigin, ObservedMessage, UnobservedTokens, observed_messages
from .reflector import ReflectorOutput, compute_effective_reflection_threshold, run_reflector
from .state import BufferState, ContinuationHint, SessionObservations, by_session, newest_lines, observations_of_user

__all__ = [
    "ARTIFACT_TRAIL_TOKENS",
    "ArtifactTrail",
    "BufferState",
    "BufferingCoordinator",
    "CompletionFunction",
    "ContinuationHint",
    "DigestFunction",
    "EventHandlers",
    "MessageOrigin",
    "ObservationEvent",
    "ObservationModels",
    "ObservedMessage",
    "ObserverOutput",
    "ReflectionEvent",
    "ReflectorOutput",
    "SessionObservations",
    "TranscriptObservers",
    "UnobservedTokens",
    "artifact_trail",
    "artifacts_of",
    "by_session",
    "compute_effective_reflection_threshold",
    "digest_edits",
    "digest_lines",
    "newest_lines",
    "observations_of_user",
    "observed_messages",
    "run_observer",
    "run_reflector",
    "stored_lines",
]

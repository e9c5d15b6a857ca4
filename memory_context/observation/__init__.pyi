from .reading import MessageOrigin, ObservedMessage, UnobservedTokens, observed_messages

__all__ = ["MessageOrigin", "ObservedMessage", "UnobservedTokens", "observed_messages"]

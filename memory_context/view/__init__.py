"""Rendering within the budget: what the model sees, a pure function of transcript and policy."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

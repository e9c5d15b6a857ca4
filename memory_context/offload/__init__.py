"""Which parts leave the context, in what order, and what stays of them."""

from .offloader import Offloader, restore_texts

__all__ = ["Offloader", "restore_texts"]

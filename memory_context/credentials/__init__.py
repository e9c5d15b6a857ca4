"""Credentials in text: found by their published formats and by the names beside them, and masked."""

from .masking import MASK, Credential, credentials_in, masked, masked_in_place, without_padding

__all__ = ["MASK", "Credential", "credentials_in", "masked", "masked_in_place", "without_padding"]

"""Random strings in the alphabets of credentials and of their look-alikes, from a seed.

Credentials are put together from a prefix and random characters, so that no file of this repository holds one.
"""

import base64
import random
import string

__all__ = ["BASE62", "HEX", "URL_SAFE", "Chance"]

HEX = "0123456789abcdef"
BASE62 = string.ascii_letters + string.digits
URL_SAFE = BASE62 + "-_"


class Chance(random.Random):
    """Random values of the forms that credentials, ids and checksums have."""

    def text(self, length: int, alphabet: str = BASE62) -> str:
        """Return random characters; a digit, and of letters in both cases one each, if there is room for them."""
        made = [self.choice(alphabet) for _ in range(length)]
        sorts = [
            sort
            for sort in (string.digits, string.ascii_lowercase, string.ascii_uppercase)
            if set(sort) & set(alphabet)
        ]
        for place, sort in zip(self.sample(range(1, length), min(len(sorts), length - 1)), sorts, strict=False):
            made[place] = self.choice([one for one in sort if one in alphabet])
        return "".join(made)

    def hex(self, length: int) -> str:
        """Return hexadecimal digits."""
        return self.text(length, HEX)

    def uuid(self) -> str:
        """Return a UUID."""
        return "-".join(self.hex(length) for length in (8, 4, 4, 4, 12))

    def base64(self, size: int) -> str:
        """Return random bytes in base64."""
        return base64.b64encode(self.randbytes(size)).decode("ascii")

    def jwt(self) -> str:
        """Return a token of three parts whose first two are JSON objects."""
        head = base64.urlsafe_b64encode(b'{"alg":"HS256","typ":"JWT"}').decode().rstrip("=")
        body = (
            base64.urlsafe_b64encode(b'{"sub":"' + self.text(10).encode() + b'","exp":1900000000}').decode().rstrip("=")
        )
        return f"{head}.{body}.{self.text(43, URL_SAFE)}"

    def pem(self, kind: str = "RSA ") -> str:
        """Return a private key of random bytes."""
        body = self.base64(600)
        lines = "\n".join(body[start : start + 64] for start in range(0, len(body), 64))
        return f"-----BEGIN {kind}PRIVATE KEY-----\n{lines}\n-----END {kind}PRIVATE KEY-----\n"

    def password(self) -> str:
        """Return a password as people and generators make them."""
        word = self.choice(("hunter", "Sommer", "correct", "Winter", "letme", "dragon", "Kyoto", "piano"))
        return self.choice(
            (
                f"{word}{self.randint(2, 2099)}",
                f"{word}{self.choice('!-_+.')}{self.randint(10, 99)}",
                self.text(self.randint(10, 32)),
                f"{self.text(6)}{self.choice('!*+')}{self.text(7)}",
            )
        )

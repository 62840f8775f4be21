"""Secrets: passwords that work as themselves and show as *** wherever they are printed."""

from __future__ import annotations

from typing import Any, Final

from aktor.errors import ConfigurationError

__all__ = ["MASK", "Masked", "Secret", "unmasked"]

MASK: Final = "***"


class Secret(str):
    """A password for the connections: works as itself, and shows as *** wherever it is printed."""

    __slots__ = ()

    def __new__(cls, text: str) -> Secret:
        # str(text) of another Secret would be the mask
        return super().__new__(cls, str.__str__(text))

    def __repr__(self) -> str:
        return repr(MASK)

    def __str__(self) -> str:
        return MASK

    def __format__(self, spec: str) -> str:
        return format(MASK, spec)

    def __reduce__(self) -> Any:
        return Masked, ()

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, memo: Any) -> Secret:
        return self


class Masked(str):
    """What `consumer.config` shows in place of a secret: the text ***, also in JSON and in joins.

    People and logs see ***; another consumer made from `consumer.config` gets the secret itself.
    """

    __slots__ = ("secret",)
    secret: Secret | None

    def __new__(cls, secret: Secret | None = None) -> Masked:
        masked = super().__new__(cls, MASK)
        masked.secret = secret
        return masked

    def __reduce__(self) -> Any:
        return Masked, ()

    def __copy__(self) -> Masked:
        return self

    def __deepcopy__(self, memo: Any) -> Masked:
        return self


def unmasked(name: str, value: Any) -> Any:
    """The secret behind a Masked, anything else as it is. `name` is the setting's."""
    if not isinstance(value, Masked):
        return value
    if value.secret is None:
        raise ConfigurationError(f"{name} was masked when its configuration was pickled; set it")
    return value.secret

"""JSON that comes from a file: every field is checked for its type when it is read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NoReturn

from jitcore.errors import SerializationError

__all__ = ["Fields", "parse_json"]


def parse_json(data: bytes, name: str) -> Any:
    """The value that an entry of an archive holds as JSON.

    Raises
    ------
    SerializationError
        It is no JSON.
    """
    try:
        return json.loads(data.decode("utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise SerializationError(f"'{name}' in the archive is no valid JSON: {error}") from error


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number of JSON")


class Fields:
    """A JSON object whose fields have to be there and of the right types.

    Parameters
    ----------
    value : object
        What should be a JSON object.
    where : str
        For errors.
    """

    __slots__ = ("_held", "where")

    def __init__(self, value: object, where: str) -> None:
        self.where = where
        if not isinstance(value, dict):
            raise self.problem("is no JSON object")
        self._held: Mapping[str, Any] = value

    def problem(self, what: str) -> SerializationError:
        """The error to raise for an object that is not what it should be."""
        return SerializationError(f"{self.where} in the archive {what}")

    def __contains__(self, name: str) -> bool:
        return name in self._held

    def get(self, name: str) -> Any:
        """A field of any type."""
        if name not in self._held:
            raise self.problem(f"has no field '{name}'")
        return self._held[name]

    def _typed(self, name: str, kind: type, what: str) -> Any:
        found = self.get(name)
        if type(found) is not kind:
            raise self.problem(f"has a field '{name}' that is no {what}")
        return found

    def text(self, name: str) -> str:
        """A field that is a text."""
        found: str = self._typed(name, str, "text")
        return found

    def integer(self, name: str) -> int:
        """A field that is an integer."""
        found: int = self._typed(name, int, "integer")
        return found

    def boolean(self, name: str) -> bool:
        """A field that is true or false."""
        found: bool = self._typed(name, bool, "boolean")
        return found

    def items(self, name: str) -> list[Any]:
        """A field that is a list."""
        found: list[Any] = self._typed(name, list, "list")
        return found

    def mapping(self, name: str) -> dict[str, Any]:
        """A field that is an object itself."""
        found: dict[str, Any] = self._typed(name, dict, "object")
        return found

    def rows(self, name: str, width: int) -> list[list[Any]]:
        """A field that is a list of lists of this length."""
        found = self.items(name)
        for row in found:
            if type(row) is not list or len(row) != width:
                raise self.problem(f"has a field '{name}' whose items are no lists of {width}")
        return found

    def texts(self, name: str) -> list[str]:
        """A field that is a list of texts."""
        return [self._item(name, one, str) for one in self.items(name)]

    def integers(self, name: str) -> list[int]:
        """A field that is a list of integers."""
        return [self._item(name, one, int) for one in self.items(name)]

    def _item(self, name: str, value: Any, kind: type) -> Any:
        if type(value) is not kind:
            raise self.problem(f"has a field '{name}' with an item that is no {kind.__name__}")
        return value

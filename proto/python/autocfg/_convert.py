"""Dataclass <-> message, field by field. Fields of the same name correspond; the type hints say what is nested."""

from __future__ import annotations

import collections.abc
import dataclasses
import enum
import functools
import typing
from typing import Any, TypeVar

from . import types
from .errors import InvalidArgument

T = TypeVar("T")


@functools.lru_cache(maxsize=None)
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls, vars(types))


def _within(hint: Any) -> tuple[Any, Any]:
    """Returns what a hint wraps its type in (Union for Optional, Sequence, Mapping, or None), and that type."""
    origin = typing.get_origin(hint)
    if origin is None:
        return None, hint
    return origin, next(one for one in typing.get_args(hint) if one is not type(None))


def fill(message: Any, value: Any) -> Any:
    """Sets the fields of `message` that a dataclass has, and returns it. InvalidArgument names a field of another
    type, or out of range."""
    for field in dataclasses.fields(value):
        content = getattr(value, field.name)
        if content is None:
            continue
        target = getattr(message, field.name)
        try:
            if dataclasses.is_dataclass(content):
                target.SetInParent()
                fill(target, content)
            elif isinstance(content, collections.abc.Mapping):
                target.update(content)
            elif isinstance(content, collections.abc.Sequence) and not isinstance(content, str):
                for one in content:
                    if dataclasses.is_dataclass(one):
                        fill(target.add(), one)
                    else:
                        target.append(one)
            else:
                setattr(message, field.name, content.value if isinstance(content, enum.Enum) else content)
        except (TypeError, ValueError, AttributeError) as error:
            raise InvalidArgument(f"{type(value).__name__}.{field.name} is {content!r}; {' '.join(str(error).split())}") from error
    return message


def read(cls: type[T], message: Any) -> T:
    """Returns the dataclass of a message."""
    values: dict[str, Any] = {}
    for name, hint in _hints(typing.cast(Any, cls)).items():
        wrapper, inner = _within(hint)
        descriptor = message.DESCRIPTOR.fields_by_name[name]
        content = getattr(message, name)
        if wrapper is collections.abc.Mapping:
            values[name] = dict(content)
        elif wrapper is collections.abc.Sequence:
            values[name] = tuple(read(inner, one) if dataclasses.is_dataclass(inner) else one for one in content)
        elif descriptor.has_presence and not message.HasField(name):
            values[name] = None
        elif dataclasses.is_dataclass(inner):
            values[name] = read(typing.cast(Any, inner), content)
        elif isinstance(inner, type) and issubclass(inner, enum.Enum):
            known = descriptor.enum_type.values_by_number.get(content)
            # A newer coordinator may have states that this package does not know.
            values[name] = inner[known.name.removeprefix(_prefix(descriptor.enum_type.name))] if known else inner["UNSPECIFIED"]
        else:
            values[name] = content
    return cls(**values)


def _prefix(enum_name: str) -> str:
    """Returns "STUDY_STATE_" of "StudyState"."""
    return "".join("_" + letter if letter.isupper() else letter for letter in enum_name).lstrip("_").upper() + "_"

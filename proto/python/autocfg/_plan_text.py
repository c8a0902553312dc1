"""The text form of a plan: `tp=8,pp=4,mbs=2,sp=1`. The words and values are those of the command line."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import NamedTuple, Optional, Union

from .errors import InvalidArgument

Value = Union[int, str, bool]
_MOST = (1 << 31) - 1
_MOST_SHOWN = 60  # letters of a value


class _Option(NamedTuple):
    field: str  # of Plan
    read: Callable[[str], Optional[Value]]  # None: the text is no value
    wanted: str


def _size(text: str) -> Optional[int]:
    if not (text.isascii() and text.isdigit()):
        return None
    value = int(text) if len(text) <= len(str(_MOST)) else 0
    return value if 1 <= value <= _MOST else None


def _layers(text: str) -> bool:
    """Whether the text is the layers of each stage: "9+8+8+7", or "1+2x62+1", in which 62 stages have 2 layers."""
    return all(all(_size(number) is not None for number in entry.split("x", 1)) for entry in text.split("+"))


def _split(text: str) -> Optional[str]:
    return text if text in ("even", "auto") or _layers(text) else None


_LAYER_PARTS = ("core_attn", "mlp", "act", "norm")


def _recompute(text: str) -> Optional[str]:
    form, _, value = text.partition(":")
    if not value:
        return text if text in ("none", "selective", "full") else None
    parts = value.split("+")
    selective = form == "selective" and len(set(parts)) == len(parts) and set(parts) <= set(_LAYER_PARTS)
    return text if selective or (form == "full" and _size(value) is not None) else None


def _size_option(field: str) -> _Option:
    return _Option(field, _size, f"a whole number from 1 to {_MOST}")


def _number_option(field: str, *numbers: int) -> _Option:
    known = {str(number): number for number in numbers}
    return _Option(field, known.get, f"one of {', '.join(known)}")


def _name_option(field: str, *names: str) -> _Option:
    known = {name: name for name in names}
    return _Option(field, known.get, f"one of {', '.join(known)}")


def _flag_option(field: str) -> _Option:
    return _Option(field, {"0": False, "1": True}.get, "0 or 1")


OPTIONS = {
    "tp": _size_option("tp"),
    "pp": _size_option("pp"),
    "dp": _size_option("dp"),
    "mbs": _size_option("micro_batch"),
    "vpp": _size_option("virtual_stages"),
    "schedule": _name_option("schedule", "gpipe", "1f1b", "interleaved", "zb-h1"),
    "split": _Option("split", _split, "even, auto, or layers per stage such as 9+8+8+7 or 1+2x62+1"),
    "recompute": _Option("recompute", _recompute,
                         "none, selective, selective:NAMES with some of core_attn, mlp, act and norm joined by +, "
                         "full, or full:K with K at least 1"),
    "attention": _name_option("attention", "fused", "unfused"),
    "sp": _flag_option("sequence_parallel"),
    "zero": _number_option("zero_stage", 0, 1, 2, 3),
    "dp_shard": _size_option("dp_shard"),
    "tp_overlap": _number_option("tp_overlap", 1, 2, 4, 8),
    "grad_overlap": _flag_option("grad_overlap"),
    "param_overlap": _flag_option("param_overlap"),
    "p2p_overlap": _flag_option("p2p_overlap"),
    "scatter_gather": _flag_option("scatter_gather"),
}


def _unknown(word: str) -> InvalidArgument:
    named = [option for option, row in OPTIONS.items() if row.field == word]
    near = named or difflib.get_close_matches(word, OPTIONS, 1)
    return InvalidArgument(f"plan: unknown option {word!r}; " + (f"did you mean {near[0]}?" if near else f"expected one of {', '.join(OPTIONS)}"))


def parse(text: str) -> dict[str, Value]:
    """Returns the values by the fields of Plan. Raises InvalidArgument, in one line."""
    if not text.strip():
        raise InvalidArgument("plan: it is empty; give it as tp=2,pp=1,dp=2,mbs=1")
    values: dict[str, Value] = {}
    for part in (part.strip() for part in text.split(",")):
        word, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals:
            what = f"{part!r} is not of the form option=value" if part else f"{text!r} has an empty part"
            raise InvalidArgument(f"plan: {what}; write tp=2,pp=1")
        option = OPTIONS.get(word)
        if option is None:
            raise _unknown(word)
        if option.field in values:
            raise InvalidArgument(f"plan: {word} is named twice; give it once")
        read = option.read(value)
        if read is None:
            shown = value[:_MOST_SHOWN] if value.isprintable() else repr(value[:_MOST_SHOWN])
            raise InvalidArgument(f"plan: {word}={shown} is not valid; it must be {option.wanted}")
        values[option.field] = read
    return values

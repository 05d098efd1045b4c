"""Whether the values of a settings class have the types that its fields are declared with."""

import types
import typing
from collections.abc import Sequence
from typing import Any

from data.errors import InputError

_NAMES = {int: "a whole number", float: "a number", bool: "true or false", str: "a text", type(None): "null"}


def check_fields(settings: Any, prefix: str) -> None:
    """InputError `<prefix>.<field>=<value>: must be …` for a value of another type than its field's.

    A configuration or a command line gives whatever was written. A whole number is a number, true and false are none;
    of a sequence every element is checked; fields of other classes are passed over.
    """
    for name, kind in typing.get_type_hints(type(settings)).items():
        value = getattr(settings, name)
        kinds = typing.get_args(kind) if isinstance(kind, types.UnionType) else (kind,)
        if not any(_fits(value, one) for one in kinds):
            raise InputError(f"{prefix}.{name}={value}: must be {' or '.join(map(_said, kinds))}")


def _fits(value: Any, kind: Any) -> bool:
    if typing.get_origin(kind) is Sequence:
        (inner,) = typing.get_args(kind)
        return isinstance(value, list | tuple) and all(_fits(element, inner) for element in value)
    if kind not in _NAMES:
        return True
    if kind is float:
        kind = (int, float)
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def _said(kind: Any) -> str:
    if typing.get_origin(kind) is Sequence:
        (inner,) = typing.get_args(kind)
        return f"a list of {_NAMES[inner].removeprefix('a ')}s"
    return _NAMES.get(kind, str(kind))

"""Options by name, checked where they are made."""

from __future__ import annotations

from typing import Any

from . import _qkv


def _wrapped(value: Any) -> Any:
    if isinstance(value, dict):
        made = Options.__new__(Options)
        dict.__init__(made, {key: _wrapped(one) for key, one in value.items()})
        return made
    return [_wrapped(one) for one in value] if isinstance(value, list) else value


class Options(dict):
    """A struct of options: a dict with all its fields, which are attributes too. Nested structs are dicts, kinds
    are strings. Raises UsageError for a field that does not exist, and for a value that does not fit."""

    _name = ""

    def __init__(self, **fields: Any) -> None:
        super().__init__(_wrapped(_qkv.options(self._name, fields)))

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"expected one of {', '.join(self)}, found {name!r}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self:
            raise AttributeError(f"expected one of {', '.join(self)}, found {name!r}")
        self[name] = value


def options_class(name: str) -> type[Options]:
    """The class of a struct; its documentation lists the fields and their defaults."""
    defaults: Any = _qkv.options(name, {})
    fields = ", ".join(f"{field}={value!r}" for field, value in defaults.items())
    return type(name, (Options,), {"_name": name, "__doc__": f"{name}({fields})", "__module__": "qkv.nn"})

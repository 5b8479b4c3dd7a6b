"""Options that several commands share, and the parser of options with a JSON object."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable
from functools import partial, wraps

from bayespatch.types import JSONObject


def taking(**shared: Callable[..., object]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of other functions or dataclasses.

    Each named parameter of the command is replaced by the parameters of that function. The command receives the
    function with their values and calls it when needed, so that invalid file names are rejected before a model is
    loaded.

    Examples
    --------
    >>> def where(x: int = 1, y: int = 2) -> int:
    ...     return x + y
    >>> @taking(place=where)
    ... def command(place: Callable[[], int], json: bool = False) -> None:
    ...     print(place(), json)
    >>> command(y=5, json=True)
    6 True
    >>> list(inspect.signature(command).parameters)
    ['x', 'y', 'json']
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = _parameters(command)
        of = {name: _parameters(function) for name, function in shared.items()}

        @wraps(command)
        def run(**options: object) -> None:
            values_of = {name: {each: options.pop(each) for each in of[name] if each in options} for name in of}
            command(**options, **{name: partial(shared[name], **values) for name, values in values_of.items()})

        parameters = [one for name, param in own.items() for one in of.get(name, {name: param}).values()]
        parameters.sort(key=lambda param: param.default is not inspect.Parameter.empty)  # required parameters first
        signature = inspect.Signature(parameters, return_annotation=None)
        run.__signature__ = signature  # type: ignore[attr-defined]
        run.__annotations__ = {param.name: param.annotation for param in parameters}
        return run

    return decorate


def _parameters(function: Callable[..., object]) -> dict[str, inspect.Parameter]:
    """The parameters of a function, with string annotations evaluated."""
    names = vars(sys.modules[function.__module__])
    return {
        name: param.replace(annotation=eval(param.annotation, names)) if isinstance(param.annotation, str) else param
        for name, param in inspect.signature(function).parameters.items()
    }


def json_object(text: str, option: str) -> JSONObject:
    """Parse the JSON object passed to an option."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{option} is not JSON ({error}); pass an object such as '{{\"age\": 61}}'") from error
    if not isinstance(document, dict):
        raise ValueError(f"{option} is {text[:40]}, which is not an object; pass, for example, '{{\"age\": 61}}'")
    return document

"""Methods that do not keep their object alive."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def weak_method(method: Callable[P, T]) -> Callable[P, T]:
    """The bound method, for a part of its object: it does not keep the object alive.

    With a plain bound method, the object and its part would refer to each other, and stay until Python collects
    garbage, which it seldom does here. A call raises ReferenceError once the object is gone.
    """
    weak = weakref.WeakMethod(method)

    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        alive = weak()
        if alive is None:
            raise ReferenceError("the object of the method is gone")
        return alive(*args, **kwargs)

    return call

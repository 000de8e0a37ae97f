"""Methods that do not keep their object."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def weakly(method: Callable[P, T]) -> Callable[P, T]:
    """A bound method for a part of the object that it belongs to.

    The part would keep the object otherwise, and all that the object holds, until Python looks for cycles, which it
    seldom does here. A call raises ReferenceError once the object is gone.
    """
    weak = weakref.WeakMethod(method)

    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        alive = weak()
        if alive is None:
            raise ReferenceError("the object of the method is gone")
        return alive(*args, **kwargs)

    return call

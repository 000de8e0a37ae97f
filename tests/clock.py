"""A clock that a test sets."""


class Clock:
    """Stands in for `time.monotonic`, and stands still until a test sets `now`."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

"""What guests logged and recorded, for people to read."""

from __future__ import annotations

from itertools import zip_longest

from extender.cluster.events.event import parse
from wasm_runtime.engine import GuestEvent, Log


def log_line(log: Log) -> str:
    """A line that a guest logged: `warning: rack is full rack=r7 (node node-7)`."""
    pairs = zip_longest(log.pairs[::2], log.pairs[1::2], fillvalue="")
    words = [log.message.strip(), *(f"{key}={value}" for key, value in pairs)]
    return f"{log.severity.name.lower()}: {' '.join(words)}{f' (node {log.node})' if log.node else ''}"


def event_keys(event: GuestEvent) -> dict[str, str]:
    """The fields of a guest's Event, as cases write them; `problem` alone for bytes that are no Event."""
    try:
        found = parse(event.message)
    except ValueError as error:
        return {"problem": str(error)}
    keys = {
        "type": found.type,
        "reason": found.reason,
        "action": found.action,
        "note": found.note,
        "regarding": str(found.regarding) if found.regarding.name else "",
        "related": str(found.related) if found.related.name else "",
    }
    return {key: value for key, value in keys.items() if value}


def event_line(event: GuestEvent) -> str:
    """A guest's Event on one line."""
    keys = event_keys(event)
    if problem := keys.get("problem"):
        return f"Event that is none: {problem}"
    about = f"about {keys['regarding']}" if "regarding" in keys else ""
    return " ".join(
        ["Event:", *(keys[key] for key in ("type", "reason", "action", "note") if key in keys), about]
    ).strip()

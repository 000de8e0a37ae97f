"""YAML from outside, with a bound on what its aliases stand for."""

from __future__ import annotations

from typing import Any, Final

import yaml

MAX_ALIASED: Final = 1_000_000
"""Characters that all aliases of a document may stand for, with the aliases in them expanded."""


class BoundedLoader(yaml.SafeLoader):
    """Refuses aliases that stand for more than MAX_ALIASED characters, or for what they are in.

    A few lines of aliases of aliases are a document of terabytes to whoever walks through all of it.
    """

    def __init__(self, stream: Any) -> None:
        super().__init__(stream)
        self._size = self._aliased = 0
        self._sizes: dict[int, int] = {}
        """The number of characters of each complete node, by the node's `id()`."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Overrides PyYAML's, and raises ComposerError for aliases beyond the bound."""
        is_alias = self.check_event(yaml.AliasEvent)
        before = self._size
        node = super().compose_node(parent, index)
        if is_alias:
            self._aliased += self._sizes.get(id(node), MAX_ALIASED + 1)
            self._size += self._sizes.get(id(node), 0)
            if self._aliased > MAX_ALIASED:
                what = f"the aliases stand for more than {MAX_ALIASED} characters"
                raise yaml.composer.ComposerError(None, None, what, node.start_mark if node else None)
        else:
            self._size += 1 + (len(node.value) if isinstance(node, yaml.ScalarNode) else 0)
            self._sizes[id(node)] = self._size - before
        return node

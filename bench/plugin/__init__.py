"""The plugin level: one policy, the same pods and nodes, and every way of asking it, side by side."""

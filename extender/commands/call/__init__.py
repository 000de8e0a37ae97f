"""Calling one verb: with one module in this process, or with the plugins of a running extender."""

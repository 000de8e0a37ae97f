"""A new plugin: sources, tests, cases and all that it takes to build it."""

"""Single questions of those who develop the extender, each a program of a checkout: `python -m bench.micro.limits`."""

"""A running extender, reached by its admin address: the commands of `kwx plugin`."""

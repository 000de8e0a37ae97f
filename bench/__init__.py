"""The harness of `kwx bench`: what scheduling with the extender costs, beside peers."""

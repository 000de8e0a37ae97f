"""`kwx run`: the product at work, without a cluster."""

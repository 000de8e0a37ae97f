"""`kwx explain`: why a pod is where it is, or nowhere."""

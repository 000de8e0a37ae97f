"""The extender: answers kube-scheduler and the operator."""

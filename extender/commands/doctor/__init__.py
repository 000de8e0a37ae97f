"""What does not fit together: kube-scheduler's configuration, the extender's, and the cluster."""

"""What the extender is measured beside: another extender, and the cluster that both see."""

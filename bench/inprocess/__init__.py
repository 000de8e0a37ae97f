"""A scheduling cycle in this runtime beside one in kube-scheduler-wasm-extension, each in its own process."""

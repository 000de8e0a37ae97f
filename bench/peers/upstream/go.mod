// What it requires is what a checkout of kube-scheduler-wasm-extension requires: a workspace has both (bench/peers/gopeer.py).
module peers/upstream

go 1.24.0

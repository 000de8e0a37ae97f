// What the players share; it needs no module but Go's own, since they are built with Kubernetes' of two releases.
module peers/protocol

go 1.24.0

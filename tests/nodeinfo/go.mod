// Below `kwx.dev/guest`, whose internal packages it needs. What it requires is what its neighbours in a workspace require
// (tests/sdk_guest/test_go_nodeinfo.py).
module kwx.dev/guest/tests/nodeinfo

go 1.26.0

// Package hosttest is a host for the tests of a plugin, which run natively. A test puts nodes, pods and groups there, has
// cycles of pods run from PreFilter to PostBind, and looks at what the plugin said. The plugin is asked and told by the
// same functions as in a module:
//
//	host := hosttest.New(t)
//	host.PutNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}})
//	cycle := host.Schedule(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-1"}})
//	if cycle.Verdicts["node-1"] != guest.Success {
//		t.Error(cycle.Verdicts)
//	}
//
// The plugin is the one of the package that is tested. It registers once in a program, so there is one host at a time. What
// the plugin keeps in variables of its own stays from test to test.
package hosttest

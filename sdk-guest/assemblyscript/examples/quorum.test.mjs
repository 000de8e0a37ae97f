import assert from "node:assert/strict";
import { test } from "node:test";

import { Guest } from "../guest/testing/index.mjs";

const LABEL = "scheduling.x-k8s.io/pod-group";
const TRAIN = { namespace: "ml", name: "train" };
const NODES = ["a", "b"].map((name) => ({ metadata: { name } }));

const member = (name, label = LABEL) => ({ metadata: { name, namespace: "ml", uid: name, labels: { [label]: "train" } } });
const native = (name) => ({ metadata: { name, namespace: "ml", uid: name }, spec: { schedulingGroup: { podGroupName: "train" } } });

const held = (reason) => ({ code: "Unschedulable", reason });
const SUCCESS = { code: "Success", reason: "" };
const UNKNOWN = held("the group of the pod is not known yet");

test("a pod of no group is not held back, and one of an unknown group is", () => {
  const guest = new Guest({ nodes: NODES });
  assert.deepEqual(guest.cycle({ metadata: { name: "alone" } }).prefilter, SUCCESS);
  assert.deepEqual(guest.cycle(member("x")).prefilter, UNKNOWN);
});

test("a group is admitted when its pods are there", () => {
  const guest = new Guest({ nodes: NODES });
  guest.addPod(member("pending"));
  assert.deepEqual(guest.cycle(member("x")).prefilter, held("nobody says how many pods the group ml/train needs"));
  guest.addGroup({ ...TRAIN, minimum: 3 });
  guest.addPod(member("expected"), "a", { isTentative: true });
  assert.deepEqual(guest.cycle(member("x")).prefilter, held("2 of 3 pods of the group ml/train are there"));
  guest.addPod(member("bound", "pod-group.scheduling.sigs.k8s.io/name"), "a");
  assert.deepEqual(guest.cycle(member("x")).prefilter, SUCCESS);
  guest.removePod("pending");
  assert.deepEqual(guest.cycle(member("x")).prefilter, held("2 of 3 pods of the group ml/train are there"));
});

test("a node scores by the pods of the group that are there", () => {
  const guest = new Guest({ nodes: NODES });
  guest.addGroup({ ...TRAIN, minimum: 1 });
  for (const name of ["one", "two", "three"]) guest.addPod(member(name), "a");
  assert.deepEqual(guest.cycle(member("x")).scoreNodes(), { a: 3, b: 0 });
  guest.addPod(member("two"), "b");
  guest.addPod(member("three"));
  assert.deepEqual(guest.cycle(member("x")).scoreNodes(), { a: 1, b: 1 });
});

test("a group by spec.schedulingGroup is another one than that of a label", () => {
  const guest = new Guest({ nodes: NODES });
  guest.addGroup({ ...TRAIN, isNative: true, minimum: 2 });
  guest.addPod(member("labelled"), "a");
  guest.addPod(native("one"), "b");
  assert.deepEqual(guest.cycle(native("x")).prefilter, held("1 of 2 pods of the group ml/train are there"));
  guest.addPod(native("two"));
  const cycle = guest.cycle(native("x"));
  assert.deepEqual([cycle.prefilter, cycle.scoreNodes()], [SUCCESS, { a: 0, b: 1 }]);
});

test("a group without pods of which nothing is known is gone", () => {
  const guest = new Guest({ nodes: NODES });
  guest.addGroup({ ...TRAIN, minimum: 1 });
  guest.addPod(member("one"), "a");
  guest.removeGroup(TRAIN);
  assert.deepEqual(guest.cycle(member("x")).prefilter, held("nobody says how many pods the group ml/train needs"));
  guest.removePod("one");
  assert.deepEqual(guest.cycle(member("x")).prefilter, UNKNOWN);
});

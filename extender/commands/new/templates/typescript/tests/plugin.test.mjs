import assert from "node:assert/strict";
import { test } from "node:test";

import { Guest } from "../guest/testing/index.mjs";

const labelled = (name, labels) => ({ metadata: { name, labels } });

const nodes = [
  labelled("cheap", { "example.com/tier": "spot" }),
  labelled("steady", { "example.com/tier": "on-demand" }),
  labelled("old", { "example.com/tier": "spot", "example.com/retired": "" }),
];

test("retired nodes are left out", () => {
  const cycle = new Guest({ nodes }).cycle(labelled("web-1"));
  assert.deepEqual(cycle.filter("old"), { code: "UnschedulableAndUnresolvable", reason: "node is retired" });
  assert.deepEqual(cycle.filter("cheap"), { code: "Success", reason: "" });
});

test("nodes of the wished tier are best", () => {
  const guest = new Guest({ nodes, config: { tier: "spot" } });
  assert.deepEqual(guest.cycle(labelled("web-1")).scoreNodes(), { cheap: 100, steady: 0, old: 100 });
  const asking = labelled("web-2", { "example.com/tier": "on-demand" });
  assert.deepEqual(guest.cycle(asking).scoreNodes(), { cheap: 0, steady: 100, old: 0 });
});

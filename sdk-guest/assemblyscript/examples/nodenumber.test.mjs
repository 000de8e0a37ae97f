import assert from "node:assert/strict";
import { test } from "node:test";

import { Guest } from "../guest/testing/index.mjs";

const named = (name) => ({ metadata: { name } });
const nodes = ["node-7", "node-71", "7", "node-7x", "node"].map(named);

test("a pod with a digit prefers the nodes with the same", () => {
  const cycle = new Guest({ nodes }).cycle(named("web-7"));
  assert.deepEqual(cycle.prescore(), { code: "Success", reason: "" });
  assert.deepEqual(cycle.scoreNodes(), { "node-7": 100, "node-71": 0, 7: 100, "node-7x": 0, node: 0 });
  assert.deepEqual([cycle.score("node-7"), cycle.score("not-announced-7"), cycle.score("node")], [100, 100, 0]);
});

test("in reverse it prefers all others", () => {
  const cycle = new Guest({ nodes, config: { reverse: true } }).cycle(named("web-7"));
  cycle.prescore();
  assert.deepEqual(cycle.scoreNodes(), { "node-7": 0, "node-71": 100, 7: 0, "node-7x": 100, node: 100 });
});

test("a pod without a digit needs no score", () => {
  assert.deepEqual(new Guest({ nodes }).cycle(named("web")).prescore(), { code: "Skip", reason: "" });
});

test("what is wrong with a configuration is told", () => {
  const keys = 'expected a JSON object with "reverse" (true or false)';
  for (const [config, problem] of [
    [{ revers: true }, `guestConfig: unknown key "revers"; ${keys}`],
    [{ reverse: 1 }, 'guestConfig: "reverse" must be true or false'],
    ['{"reverse": true, "reverse": true}', 'guestConfig: "reverse" is given twice'],
    ['{"reverse": true', `guestConfig is no JSON object; ${keys}`],
    ['{"reverse": true} x', `guestConfig is no JSON object; ${keys}`],
    ["null", `guestConfig is no JSON object; ${keys}`],
    ["[".repeat(1000), `guestConfig is no JSON object; ${keys}`],
  ]) {
    const fault = () => new Guest({ config });
    assert.throws(fault, (error) => error.message.replace(/, ~lib\/[^ ]*:\d+:\d+$/, "") === `_start: ${problem}`, config);
  }
});

test("without a configuration there are the defaults", () => {
  for (const config of ["", " \n", {}, { reverse: false }]) {
    assert.equal(new Guest({ nodes, config }).cycle(named("web-7")).score("node-7"), 100);
  }
});

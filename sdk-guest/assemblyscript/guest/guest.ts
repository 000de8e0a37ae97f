import { check } from "./config";

/** What the functions of a module call, whatever the plugin keeps of pods and nodes. */
export abstract class Guest {
  abstract callEnqueue(): void;
  abstract callPrefilter(): i32;
  abstract callAddpod(): i32;
  abstract callRemovepod(): i32;
  abstract callFilter(): i32;
  abstract callFilterNodes(count: i32): i32;
  abstract callPostfilter(): i64;
  abstract callPrescore(begins: bool): i32;
  abstract callScore(): i64;
  abstract callScoreNodes(count: i32): i32;
  abstract callNormalizescore(): i32;
  abstract callReserve(): i32;
  abstract callBindingannotations(): i64;
  abstract callUnreserve(): void;
  abstract callPermit(): i64;
  abstract callPrebind(): i32;
  abstract callBind(): i32;
  abstract callPostbind(): void;
  abstract nodeChanged(number: u32): void;
  abstract nodeRemoved(number: u32): void;
  abstract nodeBuffer(count: i32): usize;
  abstract podsChanged(count: i32): void;
  abstract pendingPodsChanged(count: i32): void;
}

let registered: Guest | null = null;

/** The exports with which a pod's cycle may begin. */
let exportsPrefilter = false;
let exportsPrescore = false;

/** Makes a plugin that of the module. Call it once, behind all else. */
export function register(plugin: Guest): void {
  check();
  registered = plugin;
}

/** The plugin of the module. */
export function guest(): Guest {
  const plugin = registered;
  if (plugin === null) throw new Error("the module has no plugin: register(new …) is missing");
  return plugin;
}

/** Says that the module exports prefilter. */
export function beginsWithPrefilter(): void {
  exportsPrefilter = true;
}

/** Says that the module exports prescore. */
export function beginsWithPrescore(): void {
  exportsPrescore = true;
}

/** Whether the module exports prefilter. */
export function hasPrefilter(): bool {
  return exportsPrefilter;
}

/** The plugin of a module that has to export prefilter. */
export function guestAfterPrefilter(): Guest {
  if (!exportsPrefilter) {
    throw new Error('export * from "kwx-guest/prefilter" is missing: a pod\'s cycle begins there');
  }
  return guest();
}

/** The plugin of a module that has to export prefilter or prescore. */
export function begunGuest(): Guest {
  return exportsPrescore ? guest() : guestAfterPrefilter();
}

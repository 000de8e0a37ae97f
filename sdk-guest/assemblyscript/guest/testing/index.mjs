/**
 * A host for unit tests: it runs a plugin's module by Node.js, with pods and nodes as Kubernetes has them in JSON.
 * `kwx build --test` builds the plugin, and runs the tests.
 */

import { readFileSync } from "node:fs";

import { Imports } from "./imports.mjs";
import { Pods } from "./pods.mjs";
import { encode } from "./protobuf.mjs";

const CODES = ["Success", "Error", "Unschedulable", "UnschedulableAndUnresolvable", "Wait", "Skip", "Pending"];

/** A plugin in a host of its own. Its nodes and pods are announced as they are added, if it wants to know. */
export class Guest {
  #numbers = new Map();
  #next = 0;
  #pods;
  #exports;
  #host;

  /**
   * @param {object} [options]
   * @param {object[]} [options.nodes] the cluster's nodes
   * @param {object|string} [options.config] the plugin's guestConfig
   * @param {BufferSource} [options.module] the module, by default the one that `kwx build --test` has built
   */
  constructor({ nodes = [], config = "", module = readFileSync(process.env.GUEST_MODULE) } = {}) {
    this.#host = new Imports(typeof config === "string" ? config : JSON.stringify(config));
    const instance = new WebAssembly.Instance(new WebAssembly.Module(module), this.#host.functions());
    this.#exports = instance.exports;
    this.#host.memory = instance.exports.memory;
    this.call("_start");
    for (const node of nodes) this.addNode(node);
    this.#pods = new Pods(this);
  }

  /** The Events that the plugin recorded, as the ABI has them. */
  get events() {
    return this.#host.events;
  }

  /** The lines that it logged, such as `warning: rack is full`. */
  get logs() {
    return this.#host.logs;
  }

  /** The UIDs of the pods whose wait the plugin ended. */
  get rejectedPods() {
    return this.#host.rejected;
  }

  /** The names of the module's functions. */
  get exports() {
    return Object.keys(this.#exports).filter((name) => typeof this.#exports[name] === "function");
  }

  /** Adds a node, or exchanges the one of that name. */
  addNode(node) {
    const { name } = node.metadata;
    this.#host.nodes.set(name, encode("Node", node));
    if (!this.#numbers.has(name)) this.#numbers.set(name, this.#next++);
    if (this.#exports.nodechanged) this.#about(name, () => this.call("nodechanged", this.#numbers.get(name)));
  }

  removeNode(name) {
    this.#host.nodes.delete(name);
    if (this.#exports.noderemoved) this.call("noderemoved", this.#numbers.get(name));
    this.#numbers.delete(name);
  }

  /**
   * Puts a pod onto a node that was added, or adds one without a node, or moves or exchanges the one of that UID. It is of the
   * group that it names.
   *
   * @param {boolean} [options.isTentative] whether the pod is expected there, and may not come
   */
  addPod(pod, node, { isTentative = false } = {}) {
    if (node !== undefined && !this.#numbers.has(node)) throw new TypeError(`there is no node ${node}`);
    this.#pods.put(pod, this.#numbers.get(node), isTentative);
  }

  /** Takes a pod out of the cluster, by its UID, or by `namespace/name` if it has none. */
  removePod(uid) {
    this.#pods.remove(uid);
  }

  /**
   * Says what is known of a group of pods: `namespace`, `name`, `isNative`, `minimum`, `timeoutSeconds`, `priority` and
   * `created`, as `Group` has them. What is left out is not known.
   */
  addGroup(group) {
    this.#pods.putGroup(group);
  }

  /** Takes that away, of the group with this `namespace`, `name` and `isNative`. */
  removeGroup(group) {
    this.#pods.removeGroup(group);
  }

  /** Begins the cycle of a pod. */
  cycle(pod) {
    return new Cycle(this, this.#host, this.#numbers, encode("Pod", pod));
  }

  /** After which changes a rejected pod is worth another attempt: pairs of a resource and actions. */
  enqueue() {
    this.call("enqueue");
    return this.#host.clusterEvents;
  }

  /** Calls a function of the module. A trap is an error with what the plugin has printed. */
  call(name, ...parameters) {
    if (!this.#exports[name]) throw new TypeError(`the module exports no ${name}`);
    this.#host.begin();
    try {
      return this.#exports[name](...parameters);
    } catch (error) {
      throw new Error(`${name}: ${this.#host.printed.trim() || error.message}`, { cause: error });
    }
  }

  /** The address in the module's memory that a function gives for a buffer, as bytes. */
  buffer(name, count, size) {
    const address = this.call(name, count);
    return new DataView(this.#exports.memory.buffer, address, size);
  }

  /** Those of an address and a length. */
  bytes(address, length) {
    return Buffer.from(this.#exports.memory.buffer, address, length);
  }

  #about(name, call) {
    this.#host.nodeName = name;
    try {
      return call();
    } finally {
      this.#host.nodeName = "";
    }
  }
}

/** A pod's way through the extension points, as a host takes it. */
class Cycle {
  #guest;
  #host;
  #numbers;
  #pod;

  constructor(guest, host, numbers, pod) {
    [this.#guest, this.#host, this.#numbers, this.#pod] = [guest, host, numbers, pod];
    if (guest.exports.includes("prefilter")) this.prefilter = this.#status("prefilter");
    this.nodes = this.prefilter && host.nodeNames.length > 0 ? host.nodeNames : [...numbers.keys()];
  }

  /** What PreFilter said; undefined for a plugin without it. */
  prefilter;
  /** The names of the nodes that PreFilter left. */
  nodes;

  /** What Filter says of a node. */
  filter(node) {
    return this.#status("filter", { node });
  }

  /** What Filter says of nodes in one call, by name. */
  filterNodes(names = this.nodes) {
    const numbers = this.#list("filternodes", names);
    const answer = (encoded) => ({ code: CODES[encoded & 255], reason: encoded >> 8 ? this.#host.reasons[(encoded >> 8) - 1] : "" });
    return Object.fromEntries(names.map((name, at) => [name, answer(numbers.getUint32(4 * at, true))]));
  }

  /** Which node is nominated though none passed, in `nominated`. */
  postfilter(failed = this.nodes) {
    this.#host.documents.nodeToStatusMap = JSON.stringify(Object.fromEntries(failed.map((name) => [name, 2])));
    const answer = this.#call("postfilter");
    const nominated = answer >> 32n === 1n ? this.#host.nominated : null;
    return { ...this.#answer(Number(answer & 0xffffffffn)), nominated };
  }

  prescore(passed = this.nodes) {
    this.#host.documents.filteredNodeList = JSON.stringify(passed);
    return this.#status("prescore");
  }

  score(node) {
    const answer = this.#call("score", { node });
    const { code, reason } = this.#answer(Number(answer & 0xffffffffn));
    if (code !== "Success") throw new Error(`score: ${code}: ${reason}`);
    return Number(answer >> 32n);
  }

  /** The scores of nodes in one call, by name. */
  scoreNodes(names = this.nodes) {
    const numbers = this.#list("scorenodes", names);
    return Object.fromEntries(names.map((name, at) => [name, numbers.getInt32(4 * at, true)]));
  }

  /** The scores, by name, after NormalizeScore. */
  normalizescore(scores) {
    this.#host.documents.nodeScoreList = JSON.stringify(scores);
    const { code, reason } = this.#status("normalizescore");
    if (code !== "Success") throw new Error(`normalizescore: ${code}: ${reason}`);
    return JSON.parse(this.#host.scores);
  }

  addpod(pod, node) {
    return this.#status("addpod", { node, target: encode("Pod", pod) });
  }

  removepod(pod, node) {
    return this.#status("removepod", { node, target: encode("Pod", pod) });
  }

  reserve(node) {
    return this.#status("reserve", { node });
  }

  /** The annotations that the bind gives the pod. */
  bindingannotations(node) {
    const answer = this.#call("bindingannotations", { node });
    const texts = this.#guest.bytes(Number(answer >> 32n), Number(answer & 0xffffffffn)).toString().split("\0");
    const pairs = Array.from({ length: (texts.length - 1) / 2 }, (_, at) => texts.slice(2 * at, 2 * at + 2));
    return Object.fromEntries(pairs);
  }

  unreserve(node) {
    this.#call("unreserve", { node });
  }

  /** Whether the pod may be bound, with the milliseconds that it waits at most. */
  permit(node) {
    const answer = this.#call("permit", { node });
    return { ...this.#answer(Number(answer >> 32n)), timeout: Number(answer & 0xffffffffn) };
  }

  prebind(node) {
    return this.#status("prebind", { node });
  }

  bind(node) {
    return this.#status("bind", { node });
  }

  postbind(node) {
    this.#call("postbind", { node });
  }

  #status(name, about) {
    return this.#answer(this.#call(name, about));
  }

  #answer(code) {
    if (!(code in CODES)) throw new Error(`${code} is no status code`);
    return { code: CODES[code], reason: this.#host.reasons.at(-1) ?? "" };
  }

  #list(name, names) {
    this.#host.pod = this.#pod;
    const numbers = this.#guest.buffer("nodebuffer", names.length, 4 * names.length);
    names.forEach((each, at) => numbers.setUint32(4 * at, this.#numbers.get(each), true));
    const address = numbers.byteOffset;
    const { code, reason } = this.#answer(this.#call(name, {}, names.length));
    if (code !== "Success") throw new Error(`${name}: ${code}: ${reason}`);
    const answered = this.#guest.bytes(address, 4 * names.length);
    return new DataView(answered.buffer, answered.byteOffset, answered.length);
  }

  #call(name, { node = "", target = Buffer.alloc(0) } = {}, ...parameters) {
    Object.assign(this.#host, { pod: this.#pod, nodeName: node, target });
    try {
      return this.#guest.call(name, ...parameters);
    } finally {
      Object.assign(this.#host, { pod: Buffer.alloc(0), nodeName: "", target: Buffer.alloc(0), documents: {} });
    }
  }
}

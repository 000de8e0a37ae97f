/** The pods and groups that a guest is told of, by the sections on resident pods and groups of sdk-guest/ABI.md. */

import { encode } from "./protobuf.mjs";

/** The number of no node and of no group. */
const NONE = 0xffffffff;

/** The states of a pod in a record. */
const [GONE, THERE, TENTATIVE] = [0, 1, 2];

const LABELS = ["scheduling.x-k8s.io/pod-group", "pod-group.scheduling.sigs.k8s.io/name"];

/** Tells a guest of pods and groups, if it wants to know. */
export class Pods {
  #guest;
  /** By UID: number, node and group. */
  #pods = new Map();
  #nextPod = 0;
  /** By key: number, how many pods there are, and whether a test has said what is known of it. */
  #groups = new Map();
  #nextGroup = 0;

  /** @param {object} guest with the functions of the module, and room in its memory */
  constructor(guest) {
    this.#guest = guest;
    for (const name of ["groupschanged", "podschanged", "pendingpodschanged", "memberschanged"]) this.#tell(name, []);
  }

  /** Adds a pod on the node of a number or without one, or moves or exchanges the one of that UID. */
  put(pod, node, isTentative) {
    const uid = pod.metadata.uid ?? `${pod.metadata.namespace}/${pod.metadata.name}`;
    const former = this.#pods.get(uid);
    const place = { number: former?.number ?? this.#nextPod++, node, group: this.#claimed(pod) };
    this.#pods.set(uid, place);
    if (former && (former.node === undefined) !== (node === undefined)) this.#tellGone(former);
    const record = [place.number, node ?? NONE, isTentative ? TENTATIVE : THERE];
    this.#tellPod(node, [...record, encode("Pod", pod)]);
    this.#tell("memberschanged", [[...record, place.group?.number ?? NONE]]);
    this.#leave(former?.group);
  }

  remove(uid) {
    const place = this.#pods.get(uid);
    if (!place) throw new TypeError(`there is no pod ${uid}`);
    this.#pods.delete(uid);
    this.#tellGone(place);
    this.#tell("memberschanged", [[place.number, NONE, GONE, NONE]]);
    this.#leave(place.group);
  }

  /** Says what is known of a group. */
  putGroup(known) {
    const group = this.#group(known);
    group.isKnown = true;
    this.#tellGroup(group, known);
  }

  /** Of the group nothing is known any more but its name, if there are pods of it. */
  removeGroup(named) {
    const group = this.#group(named);
    group.isKnown = false;
    this.#tellGroup(group, {});
    this.#drop(group);
  }

  /** The group that a pod names. */
  #claimed({ metadata, spec }) {
    const native = spec?.schedulingGroup?.podGroupName;
    const name = native || LABELS.map((label) => metadata.labels?.[label]).find(Boolean);
    if (!name) return undefined;
    const group = this.#group({ namespace: metadata.namespace, name, isNative: Boolean(native) });
    group.pods++;
    return group;
  }

  /** The group of that name, which is there from now on. */
  #group({ namespace = "", name, isNative = false }) {
    const key = JSON.stringify([isNative, namespace, name]);
    if (!this.#groups.has(key)) {
      const group = { key, number: this.#nextGroup++, source: isNative ? 1 : 2, namespace, name, pods: 0, isKnown: false };
      this.#groups.set(key, group);
      this.#tellGroup(group, {});
    }
    return this.#groups.get(key);
  }

  #leave(group) {
    if (!group) return;
    group.pods--;
    this.#drop(group);
  }

  #drop(group) {
    if (group.pods > 0 || group.isKnown) return;
    this.#groups.delete(group.key);
    this.#tell("groupschanged", [[group.number, GONE, 0, 0, 0, 0, 0n, 0, 0]]);
  }

  #tellGroup({ number, source, namespace, name }, { minimum = 0, timeoutSeconds = 0, priority = 0, created = 0 }) {
    const names = [namespace, name].map((each) => Buffer.from(each));
    const lengths = names.map((each) => each.length);
    const known = [minimum, timeoutSeconds, priority, BigInt(created)];
    this.#tell("groupschanged", [[number, THERE, source, ...known, ...lengths, Buffer.concat(names)]]);
  }

  #tellGone({ number, node }) {
    this.#tellPod(node, [number, NONE, GONE, Buffer.alloc(0)]);
  }

  #tellPod(node, [number, at, state, object]) {
    const record = [number, at, state, object.length, object];
    this.#tell(node === undefined ? "pendingpodschanged" : "podschanged", [record]);
  }

  /** Each field of a record is a word, a number of 64 bits, or bytes. */
  #tell(name, records) {
    if (!this.#guest.exports.includes(name)) return;
    const written = Buffer.concat(records.flat().map(bytesOf));
    const room = this.#guest.buffer("podbuffer", written.length, written.length);
    this.#guest.bytes(room.byteOffset, written.length).set(written);
    this.#guest.call(name, records.length);
  }
}

function bytesOf(field) {
  if (typeof field === "object") return field;
  const bytes = Buffer.alloc(typeof field === "bigint" ? 8 : 4);
  if (typeof field === "bigint") bytes.writeBigUInt64LE(field);
  else bytes.writeUInt32LE(field >>> 0);
  return bytes;
}

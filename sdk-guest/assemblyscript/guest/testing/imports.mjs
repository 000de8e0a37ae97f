/** What a host offers to a guest, by sdk-guest/ABI.md: the functions, and what they answer from and keep. */

const SEVERITIES = ["info", "warning", "error", "fatal"];

export class Imports {
  /** The guest's, which is there once it is instantiated. */
  memory;
  /** Each node's protobuf, by its name. */
  nodes = new Map();
  /** What the call is about. */
  pod = Buffer.alloc(0);
  target = Buffer.alloc(0);
  nodeName = "";
  documents = {};

  /** What the guest did, since it was made. */
  events = [];
  logs = [];
  rejected = [];
  clusterEvents = [];

  constructor(config) {
    this.config = Buffer.from(config);
    this.begin();
  }

  /** Forgets what the guest answered to the call before. */
  begin() {
    [this.reasons, this.nodeNames, this.nominated, this.scores, this.printed] = [[], [], null, "{}", ""];
  }

  /** By module and name, as WebAssembly has them. A function that is not there is an error of the instantiation. */
  functions() {
    const answer = (bytes) => (buffer, limit) => this.#write(bytes(), buffer, limit);
    const document = (name, none) => answer(() => Buffer.from(this.documents[name] ?? none));
    const take = (keep) => (address, length) => keep(this.#read(address, length));
    return {
      wasi_snapshot_preview1: {
        fd_write: (_, parts, count, written) => this.#print(parts, count, written),
        clock_time_get: (_, __, time) => {
          this.#view().setBigUint64(time, BigInt(Date.now()) * 1_000_000n, true);
          return 0;
        },
      },
      "k8s.io/api": {
        node: (name, length, buffer, limit) => {
          const node = this.nodes.get(this.#read(name, length).toString());
          return this.#write(node ?? Buffer.alloc(0), buffer, limit);
        },
      },
      "k8s.io/klog": {
        severity: () => 0,
        log: (severity, address, length) => {
          this.logs.push(`${SEVERITIES[severity]}: ${this.#read(address, length)}`);
        },
      },
      "k8s.io/scheduler": {
        currentPod: answer(() => this.pod),
        targetPod: answer(() => this.target),
        currentNodeName: answer(() => Buffer.from(this.nodeName)),
        get_config: answer(() => this.config),
        filteredNodeList: document("filteredNodeList", "[]"),
        nodeToStatusMap: document("nodeToStatusMap", "{}"),
        nodeScoreList: document("nodeScoreList", "{}"),
        "result.status_reason": take((bytes) => this.reasons.push(bytes.toString())),
        "result.node_names": take((bytes) => (this.nodeNames = bytes.toString().split("\0").slice(0, -1))),
        "result.nominated_node_name": take((bytes) => (this.nominated = bytes.toString())),
        "result.normalized_score_list": take((bytes) => (this.scores = bytes.toString())),
        "result.cluster_events": take((bytes) => {
          const words = new Uint32Array(new Uint8Array(bytes).buffer);
          this.clusterEvents = Array.from({ length: words.length / 2 }, (_, at) => [...words.slice(2 * at, 2 * at + 2)]);
        }),
        "handle.eventrecorder.eventf": take((bytes) => this.events.push(JSON.parse(bytes.toString()))),
        "handle.reject_waiting_pod": (uid, length, buffer) => {
          this.rejected.push(this.#read(uid, length).toString());
          this.#view().setBigUint64(buffer, 1n, true);
        },
      },
    };
  }

  #view() {
    return new DataView(this.memory.buffer);
  }

  /** A copy: the guest's memory may grow. */
  #read(address, length) {
    return Buffer.from(Buffer.from(this.memory.buffer, address, length));
  }

  #write(bytes, buffer, limit) {
    if (bytes.length <= limit) Buffer.from(this.memory.buffer, buffer, bytes.length).set(bytes);
    return bytes.length;
  }

  #print(parts, count, written) {
    let total = 0;
    for (let at = parts; at < parts + 8 * count; at += 8) {
      const length = this.#view().getUint32(at + 4, true);
      this.printed += this.#read(this.#view().getUint32(at, true), length);
      total += length;
    }
    this.#view().setUint32(written, total, true);
    return 0;
  }
}

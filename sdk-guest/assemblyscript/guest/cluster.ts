/** What the host tells of the pod, of nodes and of what was decided so far. */

import { read, readNode, readText, send } from "./answer";
import * as host from "./host";
import { Value, parse, quote } from "./json";
import { Node, Pod } from "./objects";
import { Message } from "./protobuf";
import { Code } from "./status";

/** The pod that is being scheduled. */
export function currentPod(): Pod {
  return Message.from<Pod>(read(host.currentPod));
}

/** The pod that AddPod or RemovePod is about. */
export function targetPod(): Pod {
  return Message.from<Pod>(read(host.targetPod));
}

/** The name of the node that the call is about, in every extension point that is about one node. */
export function currentNodeName(): string {
  return readText(host.currentNodeName);
}

/** The node of this name; an empty one where the host knows none. */
export function node(name: string): Node {
  return Message.from<Node>(readNode(name));
}

/** The names of the nodes that passed Filter. Ask in prescore. */
export function filteredNodes(): string[] {
  const names: string[] = [];
  const list = told(host.filteredNodeList);
  for (let i = 0; i < list.values.length; i++) names.push(list.values[i].text);
  return names;
}

/** What Filter said of each node. Ask in postfilter. */
export function nodeStatuses(): Map<string, Code> {
  const statuses = new Map<string, Code>();
  const object = told(host.nodeToStatusMap);
  for (let i = 0; i < object.keys.length; i++) statuses.set(object.keys[i], <Code>object.values[i].integer);
  return statuses;
}

/** A node's score, to be normalized. */
export class NodeScore {
  constructor(
    readonly name: string,
    public score: i64,
  ) {}
}

export function nodeScores(): NodeScore[] {
  const scores: NodeScore[] = [];
  const object = told(host.nodeScoreList);
  for (let i = 0; i < object.keys.length; i++) scores.push(new NodeScore(object.keys[i], object.values[i].integer));
  return scores;
}

export function sendScores(scores: NodeScore[]): void {
  const members: string[] = [];
  for (let i = 0; i < scores.length; i++) members.push(quote(scores[i].name) + ":" + scores[i].score.toString());
  send("{" + members.join(",") + "}", host.resultNormalizedScoreList);
}

/** Ends a pod's wait on Permit with a rejection. Returns whether the pod waited. */
export function rejectWaitingPod(uid: string): bool {
  const bytes = String.UTF8.encode(uid);
  const answer = new ArrayBuffer(8);
  host.rejectWaitingPod(changetype<usize>(bytes), bytes.byteLength, changetype<usize>(answer), 8);
  return load<u64>(changetype<usize>(answer)) == 1;
}

function told(ask: (buffer: usize, limit: i32) => i32): Value {
  const value = parse(readText(ask));
  if (value === null) throw new Error("malformed JSON from the host");
  return value;
}

import { send } from "./answer";
import * as host from "./host";
import { quote } from "./json";
import { Pod } from "./objects";

/** What names an object. */
export class Reference {
  kind: string = "";
  apiVersion: string = "v1";
  namespace: string = "";
  name: string = "";
  uid: string = "";
  resourceVersion: string = "";

  static pod(pod: Pod): Reference {
    const metadata = pod.metadata;
    const reference = new Reference();
    reference.kind = "Pod";
    reference.namespace = metadata.namespace;
    reference.name = metadata.name;
    reference.uid = metadata.uid;
    reference.resourceVersion = metadata.resourceVersion;
    return reference;
  }

  /** The node of this name. */
  static node(name: string): Reference {
    const reference = new Reference();
    reference.kind = "Node";
    reference.name = name;
    return reference;
  }

  json(): string {
    const members = [
      member("Kind", this.kind),
      member("APIVersion", this.apiVersion),
      member("Namespace", this.namespace),
      member("Name", this.name),
      member("UID", this.uid),
      member("ResourceVersion", this.resourceVersion),
    ];
    return "{" + members.join(",") + "}";
  }
}

/** What is to be known of an object: `kubectl describe` shows it. */
export class Event {
  /** An object that had a part in it. */
  related: Reference | null = null;
  isWarning: bool = false;

  constructor(
    readonly regarding: Reference,
    /** Why, as one word in camel case. */
    readonly reason: string,
    /** What was being done, as one word in camel case. */
    readonly action: string,
    /** The same for people. */
    readonly note: string,
  ) {}

  /** Hands the Event to the host. */
  record(): void {
    const members = [
      '"RegardingReference":' + this.regarding.json(),
      member("Eventtype", this.isWarning ? "Warning" : "Normal"),
      member("Reason", this.reason),
      member("Action", this.action),
      member("Note", this.note),
    ];
    const related = this.related;
    if (related !== null) members.push('"RelatedReference":' + related.json());
    send("{" + members.join(",") + "}", host.eventf);
  }
}

function member(key: string, value: string): string {
  return quote(key) + ":" + quote(value);
}

import { Amounts } from "./amounts";

/** Amounts of resources as `Resource` of pkg/scheduler/framework/types.go has them. */
export class Resources {
  milliCPU: i64 = 0;
  /** Bytes. */
  memory: i64 = 0;
  /** Bytes. */
  ephemeralStorage: i64 = 0;
  /** How many pods. */
  pods: i64 = 0;
  /** Others than 0. */
  private readonly others: Map<string, i64> = new Map<string, i64>();

  static of(amounts: Amounts): Resources {
    const resources = new Resources();
    resources.milliCPU = amounts.get("cpu").milliValue;
    resources.memory = amounts.get("memory").value;
    resources.ephemeralStorage = amounts.get("ephemeral-storage").value;
    resources.pods = amounts.get("pods").value;
    for (let i = 0, names = amounts.names; i < names.length; i++) {
      if (isScalar(names[i])) resources.put(names[i], amounts.get(names[i]).value);
    }
    return resources;
  }

  /** How much there is of an extended resource, of huge pages of a size or of attachable volumes. */
  scalar(name: string): i64 {
    return this.others.has(name) ? this.others.get(name) : 0;
  }

  /** The names of all of those of which there are any. */
  get scalars(): string[] {
    return this.others.keys();
  }

  copy(): Resources {
    const copy = new Resources();
    copy.add(1, this);
    return copy;
  }

  /** Adds `times` as much as the other has. As in the scheduler, what leaves 64 bits wraps, and so comes back. */
  add(times: i64, other: Resources): void {
    this.milliCPU += times * other.milliCPU;
    this.memory += times * other.memory;
    this.ephemeralStorage += times * other.ephemeralStorage;
    this.pods += times * other.pods;
    if (other.others.size == 0) return;
    for (let i = 0, names = other.scalars; i < names.length; i++) {
      this.put(names[i], this.scalar(names[i]) + times * other.scalar(names[i]));
    }
  }

  private put(name: string, amount: i64): void {
    if (amount != 0) this.others.set(name, amount);
    else this.others.delete(name);
  }
}

/**
 * Whether the scheduler counts a resource that has no field of its own: `IsScalarResourceName` of
 * pkg/scheduler/util/utils.go, for names that the API server has let pass.
 */
function isScalar(name: string): bool {
  const isExtended = name.includes("/") && !name.startsWith("requests.");
  const isOfSize = name.startsWith("hugepages-") || name.startsWith("attachable-volumes-");
  return isExtended || isOfSize || name.includes("kubernetes.io/");
}

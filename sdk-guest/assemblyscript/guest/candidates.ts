import { Residents } from "./residents";

/**
 * The nodes that Filter is asked about in one call: those that kube-scheduler's own filters and the plugins before this one
 * have let pass. It is one node alone where a pod is nominated to it, and in preemption.
 */
export class Candidates<Resident> {
  constructor(
    private readonly list: StaticArray<u32>,
    private readonly count: i32,
    /** All nodes, of which these are some. */
    readonly residents: Residents<Resident>,
  ) {}

  /** Whether it is one node alone. */
  get isOne(): bool {
    return this.count == 1;
  }

  /**
   * The numbers of the candidates, for `residents.get`, in the order of the request. A member of a group may name them. A node
   * that could not be read is not among them.
   */
  get numbers(): u32[] {
    const numbers: u32[] = [];
    for (let i = 0; i < this.count; i++) if (this.residents.has(this.list[i])) numbers.push(this.list[i]);
    return numbers;
  }
}

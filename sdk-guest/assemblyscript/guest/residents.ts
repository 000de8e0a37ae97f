/** What is kept of the nodes that the host has announced, by the numbers that it gave them. */
export class Residents<Resident> {
  private readonly slots: Resident[] = [];
  /** By number: whether there is a node, and it could be read. */
  private readonly areRead: bool[] = [];
  /** By number; null where there is no node. */
  private readonly names: (string | null)[] = [];
  private readonly numbers: Map<string, u32> = new Map<string, u32>();

  /** One more than the largest number. */
  get length(): i32 {
    return this.names.length;
  }

  /** Whether there is a node of that number, which could be read. */
  has(number: u32): bool {
    return number < <u32>this.areRead.length && unchecked(this.areRead[number]);
  }

  /** Whether there is a node of that name, which could be read. */
  hasName(name: string): bool {
    return this.numbers.has(name) && this.has(this.numbers.get(name));
  }

  /** The node of that number, which is to be there. */
  get(number: u32): Resident {
    return this.slots[number];
  }

  /** The node of that name, which is to be there. */
  named(name: string): Resident {
    return this.slots[this.numbers.get(name)];
  }

  /** The name of the node of that number, which the host has announced. */
  name(number: u32): string {
    return this.names[number]!;
  }

  /** Takes the place of whatever the number and the name stood for before. */
  set(number: u32, name: string, node: Resident, isRead: bool): void {
    this.remove(number);
    if (this.numbers.has(name)) this.remove(this.numbers.get(name));
    while (<u32>this.names.length <= number) {
      this.names.push(null);
      this.areRead.push(false);
    }
    this.names[number] = name;
    this.areRead[number] = isRead;
    this.numbers.set(name, number);
    this.slots[number] = node;
  }

  remove(number: u32): void {
    if (number >= <u32>this.names.length) return;
    const name = this.names[number];
    if (name === null) return;
    this.numbers.delete(name);
    this.names[number] = null;
    this.areRead[number] = false;
    if (isReference<Resident>()) this.slots[number] = changetype<Resident>(0);
  }
}

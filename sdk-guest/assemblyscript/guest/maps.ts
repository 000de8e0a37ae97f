import { Message } from "./protobuf";
import { Quantity } from "./quantity";

/** A field of type `map<string, string>`, such as labels. */
export class TextMap {
  constructor(
    private readonly object: Message,
    private readonly field: u32,
  ) {}

  has(key: string): bool {
    return this.object.hasKey(this.field, key);
  }

  /** The value of a key; the empty text where there is none. */
  get(key: string): string {
    return this.object.textAt(this.field, key);
  }

  keys(): string[] {
    return this.object.keysOf(this.field);
  }
}

/** A field of type `map<string, Quantity>`: amounts by the names of their resources. */
export class QuantityMap {
  constructor(
    private readonly object: Message,
    private readonly field: u32,
  ) {}

  has(resource: string): bool {
    return this.object.hasKey(this.field, resource);
  }

  values(): Quantity[] {
    return this.object.entryValuesOf<Quantity>(this.field);
  }

  /** The amount of a resource; 0 where there is none. */
  get(resource: string): Quantity {
    return this.object.messageAt<Quantity>(this.field, resource);
  }

  keys(): string[] {
    return this.object.keysOf(this.field);
  }
}

/** A reader of JSON values (RFC 8259), and a writer of texts. */

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const COLON = 0x3a;

/** How deep values may be nested: what is deeper is no JSON of ours, and would take the stack. */
const DEEPEST = 64;

/** What a value is. */
export enum Kind {
  Null,
  Bool,
  Number,
  String,
  List,
  Object,
}

/** A value. Of numbers the digits are kept, so that integers are exact. */
export class Value {
  /** Of an object, in the order of the text; a key may be there twice. */
  readonly keys: string[] = [];
  /** Of a list, or of an object. */
  readonly values: Value[] = [];

  constructor(
    readonly kind: Kind,
    /** Of a string its characters, of a number its digits, of a bool `true` or `false`. */
    readonly text: string = "",
  ) {}

  /** Whether it is an integer of 64 bits. */
  get isInteger(): bool {
    return this.kind == Kind.Number && this.integer.toString() == this.text;
  }

  get integer(): i64 {
    return I64.parseInt(this.text);
  }
}

/** The value that a text is; null if it is no JSON. */
export function parse(text: string): Value | null {
  const reader = new Reader(text);
  const value = reader.value(0);
  reader.space();
  return reader.at == text.length ? value : null;
}

/** A text as JSON. */
export function quote(text: string): string {
  let quoted = '"';
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    if (unit == QUOTE || unit == BACKSLASH) quoted += "\\" + text.charAt(i);
    else if (unit < 0x20) quoted += "\\u00" + (unit < 0x10 ? "0" : "1") + (unit & 15).toString(16);
    else quoted += text.charAt(i);
  }
  return quoted + '"';
}

/** Each function leaves `at` behind what it has read, and returns null where there is something else. */
class Reader {
  at: i32 = 0;

  constructor(private readonly text: string) {}

  value(depth: i32): Value | null {
    this.space();
    if (depth > DEEPEST) return null;
    switch (this.peek()) {
      case 0x7b:
        return this.object(depth);
      case 0x5b:
        return this.list(depth);
      case QUOTE: {
        const text = this.quoted();
        return text === null ? null : new Value(Kind.String, text);
      }
      case 0x74:
        return this.word("true", Kind.Bool);
      case 0x66:
        return this.word("false", Kind.Bool);
      case 0x6e:
        return this.word("null", Kind.Null);
      default:
        return this.number();
    }
  }

  space(): void {
    while (true) {
      const unit = this.peek();
      if (unit != 0x20 && unit != 0x09 && unit != 0x0a && unit != 0x0d) return;
      this.at++;
    }
  }

  private object(depth: i32): Value | null {
    const object = new Value(Kind.Object);
    this.at++;
    this.space();
    if (this.take(0x7d)) return object;
    do {
      this.space();
      const key = this.quoted();
      this.space();
      if (key === null || !this.take(COLON)) return null;
      const value = this.value(depth + 1);
      if (value === null) return null;
      object.keys.push(key);
      object.values.push(value);
      this.space();
    } while (this.take(COMMA));
    return this.take(0x7d) ? object : null;
  }

  private list(depth: i32): Value | null {
    const list = new Value(Kind.List);
    this.at++;
    this.space();
    if (this.take(0x5d)) return list;
    do {
      const value = this.value(depth + 1);
      if (value === null) return null;
      list.values.push(value);
      this.space();
    } while (this.take(COMMA));
    return this.take(0x5d) ? list : null;
  }

  private word(word: string, kind: Kind): Value | null {
    if (this.text.substring(this.at, this.at + word.length) != word) return null;
    this.at += word.length;
    return new Value(kind, word);
  }

  private number(): Value | null {
    const begin = this.at;
    this.take(0x2d);
    const whole = this.at;
    if (this.digits() == 0 || (this.at > whole + 1 && this.text.charCodeAt(whole) == 0x30)) return null;
    if (this.take(0x2e) && this.digits() == 0) return null;
    if (this.take(0x65) || this.take(0x45)) {
      if (!this.take(0x2b)) this.take(0x2d);
      if (this.digits() == 0) return null;
    }
    return new Value(Kind.Number, this.text.substring(begin, this.at));
  }

  /** How many digits are there. */
  private digits(): i32 {
    const begin = this.at;
    while (this.peek() >= 0x30 && this.peek() <= 0x39) this.at++;
    return this.at - begin;
  }

  private quoted(): string | null {
    if (!this.take(QUOTE)) return null;
    let begin = this.at;
    let read = "";
    while (true) {
      const unit = this.peek();
      if (unit < 0x20) return null; // The end of the text too.
      this.at++;
      if (unit != QUOTE && unit != BACKSLASH) continue;
      read += this.text.substring(begin, this.at - 1);
      if (unit == QUOTE) return read;
      const escaped = this.escaped();
      if (escaped < 0) return null;
      read += String.fromCharCode(escaped);
      begin = this.at;
    }
  }

  /** The unit that is behind a backslash; -1 if there is none. */
  private escaped(): i32 {
    const unit = this.peek();
    this.at++;
    const known = '"\\/bfnrt'.indexOf(String.fromCharCode(unit));
    if (known >= 0) return '"\\/\b\f\n\r\t'.charCodeAt(known);
    if (unit != 0x75) return -1;
    let value = 0;
    for (const end = this.at + 4; this.at < end; this.at++) {
      if (this.at >= this.text.length) return -1;
      const digit = "0123456789abcdefABCDEF".indexOf(this.text.charAt(this.at));
      if (digit < 0) return -1;
      value = (value << 4) | (digit < 16 ? digit : digit - 6);
    }
    return value;
  }

  private take(unit: i32): bool {
    if (this.peek() != unit) return false;
    this.at++;
    return true;
  }

  /** The unit that is next; -1 at the end. */
  private peek(): i32 {
    return this.at < this.text.length ? this.text.charCodeAt(this.at) : -1;
  }
}

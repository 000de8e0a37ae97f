/** Where the host writes records; at a multiple of 8, as all objects are. */
let buffer = new ArrayBuffer(0);

/** The address of room for so many bytes. */
export function room(length: i32): usize {
  if (buffer.byteLength < length) buffer = new ArrayBuffer(length);
  return changetype<usize>(buffer);
}

/** Goes from one record to the next. Each begins at a multiple of 8 bytes. */
export abstract class RecordReader {
  /** Where the record at hand begins. */
  protected record: usize = 0;
  private following: usize = changetype<usize>(buffer);

  /** Goes to the next record, which is to be there with a head of so many bytes. */
  protected begin(head: u32): void {
    this.record = this.following;
    this.extend(head);
  }

  /** Says how many bytes the record has, its head included. */
  protected extend(length: u64): void {
    const left = changetype<usize>(buffer) + buffer.byteLength - this.record;
    if (length > left) throw new Error("a record is cut off");
    this.following = this.record + min(left, (<usize>length + 7) & ~7);
  }

  /** A copy of bytes of the record: the buffer is written again. */
  protected copy(from: u32, length: u32): ArrayBuffer {
    const begin = <i32>(this.record - changetype<usize>(buffer) + from);
    return buffer.slice(begin, begin + length);
  }
}

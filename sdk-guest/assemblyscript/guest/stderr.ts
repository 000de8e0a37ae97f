import { fd_write } from "./host";

const STDERR = 2;

/** Writes a line on standard error: hosts quote what a guest printed before it trapped. */
export function print(line: string): void {
  const text = String.UTF8.encode(line + "\n");
  // The address of the text and its length, as `fd_write` has them, and how much of it was written.
  const part: StaticArray<usize> = [changetype<usize>(text), text.byteLength, 0];
  fd_write(STDERR, changetype<usize>(part), 1, changetype<usize>(part) + 2 * sizeof<usize>());
}

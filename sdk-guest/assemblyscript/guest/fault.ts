import { fd_write } from "./host";

const STDERR = 2;
const LONGEST = 1024;

/** Where the text is made: memory may be what is missing. */
const text = memory.data(LONGEST);
/** The address of the text and its length, as `fd_write` has them, and how much of it was written. */
const part = memory.data(12);
/** The statement of the plugin's sources that ran last: the address of the file's name, and the line. */
const place = memory.data(8);

/** Notes where the plugin is: `lines.mjs` puts a call before each of its statements. */
@global
@inline
export function __at(file: string, line: u32): void {
  store<usize>(place, changetype<usize>(file));
  store<u32>(place, line, 4);
}

/**
 * Tells on standard error what went wrong, and where in the sources, and traps. Hosts quote that beside the trap.
 *
 * The compiler calls it for `throw`, for what `assert` finds, and for its own checks, such as an index out of range.
 */
export function abort(message: string | null, file: string | null, line: u32, column: u32): void {
  store<usize>(part, text);
  store<i32>(part + 4, 0);
  put(message !== null ? message : "abort");
  put(", ");
  put(file !== null ? file : "?");
  put(":");
  putNumber(line);
  put(":");
  putNumber(column);
  if (file !== null && file.startsWith("~lib/")) putPlace();
  put("\n");
  fd_write(STDERR, part, 1, part + 8);
  unreachable();
}

/** What is found in a library tells where the plugin was as well. */
function putPlace(): void {
  const line = load<u32>(place, 4);
  if (line == 0) return;
  put(", after ");
  put(changetype<string>(load<usize>(place)));
  put(":");
  putNumber(line);
}

/** Cuts off what is too long. A character takes three bytes at most, or a pair of units four. */
function put(more: string): void {
  const length = load<i32>(part + 4);
  const count = min((LONGEST - length) / 3, more.length);
  const written = String.UTF8.encodeUnsafe(changetype<usize>(more), count, text + length);
  store<i32>(part + 4, length + <i32>written);
}

function putNumber(value: u32): void {
  if (value >= 10) putNumber(value / 10);
  put(String.fromCharCode(0x30 + (value % 10)));
}

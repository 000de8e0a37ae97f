//! What a panic tells: its place in the sources, and its message, on standard error. Hosts quote that beside the trap.

use crate::host;
use std::panic;

const STDERR: u32 = 2;

/// Has panics told from now on.
pub fn tell() {
    panic::set_hook(Box::new(|info| {
        let text = info.to_string();
        let parts = [[text.as_ptr() as usize, text.len()]];
        let mut written = 0;
        // SAFETY: the host reads as many parts as it is given, and says how many bytes these had.
        unsafe { host::fd_write(STDERR, parts.as_ptr(), parts.len(), &mut written) };
    }));
}

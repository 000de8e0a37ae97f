//! Lines in the host's log: `klog::info(format_args!("pod {}", name))`.

use crate::host;
use std::fmt::Arguments;

pub fn info(line: Arguments) {
    log(0, line);
}

pub fn warning(line: Arguments) {
    log(1, line);
}

pub fn error(line: Arguments) {
    log(2, line);
}

fn log(severity: i32, line: Arguments) {
    // Asked first: formatting a line that the host drops costs more than the question.
    // SAFETY: the host reads as many bytes as it is given.
    unsafe {
        if severity >= host::severity() {
            let line = line.to_string();
            host::log(severity, line.as_ptr(), line.len());
        }
    }
}

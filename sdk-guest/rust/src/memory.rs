//! The guest's memory.
//!
//! Sizes are rounded up to powers of two, and what is freed is kept for the next of its size. So a guest that
//! goes on replacing what it has by something of a like size does not grow.

#![cfg(target_arch = "wasm32")]

use std::alloc::{GlobalAlloc, Layout};
use std::arch::wasm32;
use std::cell::UnsafeCell;
use std::ptr;

const PAGE: usize = 64 * 1024;
const SMALLEST: usize = 16;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator(UnsafeCell::new(Heap { free: [ptr::null_mut(); 32], top: 0, end: 0 }));

struct Allocator(UnsafeCell<Heap>);

// SAFETY: a guest has one thread.
unsafe impl Sync for Allocator {}

struct Heap {
    /// Of each size, by its binary logarithm: the first free block. It begins with the address of the next.
    free: [*mut u8; 32],
    /// From here to `end` nothing has been handed out yet.
    top: usize,
    end: usize,
}

impl Heap {
    fn carve(&mut self, size: usize) -> Option<*mut u8> {
        if size > self.end - self.top {
            let pages = (size - (self.end - self.top) + PAGE - 1) / PAGE;
            let before = wasm32::memory_grow(0, pages);
            if before == usize::MAX {
                return None;
            }
            let start = before * PAGE;
            if start != self.end {
                // The first time, or somebody else's pages lie between: begin anew behind them.
                self.top = start;
                self.end = start + pages * PAGE;
                return self.carve(size);
            }
            self.end += pages * PAGE;
        }
        let block = self.top;
        self.top += size;
        Some(block as *mut u8)
    }
}

unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let size = match block(layout) {
            Some(size) => size,
            None => return ptr::null_mut(),
        };
        let heap = &mut *self.0.get();
        let free = &mut heap.free[class(size)];
        if free.is_null() {
            return heap.carve(size).unwrap_or(ptr::null_mut());
        }
        let block = *free;
        *free = *block.cast();
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let size = self::block(layout).unwrap_or(SMALLEST);
        let free = &mut (*self.0.get()).free[class(size)];
        *block.cast() = *free;
        *free = block;
    }

    unsafe fn realloc(&self, old: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let wanted = Layout::from_size_align_unchecked(size, layout.align());
        if block(wanted) == block(layout) {
            return old;
        }
        let new = self.alloc(wanted);
        if !new.is_null() {
            ptr::copy_nonoverlapping(old, new, size.min(layout.size()));
            self.dealloc(old, layout);
        }
        new
    }
}

/// How large a block for this layout is; None if there can be none.
fn block(layout: Layout) -> Option<usize> {
    if layout.align() > SMALLEST || layout.size() > 1 << 31 {
        return None;
    }
    Some(layout.size().max(SMALLEST).next_power_of_two())
}

fn class(size: usize) -> usize {
    size.trailing_zeros() as usize & 31
}

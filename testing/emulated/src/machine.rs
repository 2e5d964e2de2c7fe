//! What the code of a kernel knows of the machine that it runs on: as `Machine` of shim/machine.h.

use std::ffi::{c_char, c_void};

/// A number along each axis.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Place {
    pub x: u32,
    pub y: u32,
    pub z: u32,
}

impl From<[u32; 3]> for Place {
    fn from([x, y, z]: [u32; 3]) -> Place {
        Place { x, y, z }
    }
}

/// From a byte to just before another.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Range {
    pub begin: *const u8,
    pub end: *const u8,
}

impl Range {
    pub fn of(begin: *const u8, bytes: usize) -> Range {
        Range {
            begin,
            end: begin.wrapping_add(bytes),
        }
    }
}

/// The thread that runs, and what it may ask for. Calls may come back after other threads of the group ran,
/// or never.
#[repr(C)]
pub struct Machine {
    pub thread: Place,
    pub block: Place,
    pub threads: Place,
    pub blocks: Place,
    /// The thread's, counted along x first.
    pub number: u32,
    pub barrier: extern "C" fn(*mut Machine, u32),
    pub exchange: extern "C" fn(*mut Machine, u32, u32, u64) -> *const u64,
    pub shared: extern "C" fn(*mut Machine, u64) -> *mut c_void,
    pub fail: extern "C" fn(*mut Machine, *const c_char, u32),
    /// Told of an access beside all memory that may be touched, in dialects that check each.
    pub astray: extern "C" fn(*mut Machine, *const c_void, u64),
    /// What may be touched.
    pub ranges: *const Range,
    pub range_count: u64,
}

impl Machine {
    /// From now on, thread `number` of the group runs.
    pub fn at(&mut self, number: u32) {
        let Place { x, y, .. } = self.threads;
        self.number = number;
        self.thread = [number % x, number / x % y, number / (x * y)].into();
    }
}

/// A kernel's code: its entry, called by each thread with the addresses of its buffers and the bytes of the shared
/// arrays that the launch brings.
pub type Run = unsafe extern "C" fn(*mut Machine, *const *mut u8, *const u64);

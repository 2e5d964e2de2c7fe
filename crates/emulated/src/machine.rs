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

/// The thread that runs, and what it may ask for. Calls may come back after other threads of the group ran,
/// or never.
#[repr(C)]
pub struct Machine {
    pub thread: Place,
    pub block: Place,
    pub threads: Place,
    pub blocks: Place,
    pub barrier: extern "C" fn(*mut Machine, u32),
    pub exchange: extern "C" fn(*mut Machine, u32, u32, u64) -> *const u64,
    pub shared: extern "C" fn(*mut Machine, u64) -> *mut c_void,
    pub fail: extern "C" fn(*mut Machine, *const c_char, u32),
}

/// A kernel's code: its entry, called by each thread.
pub type Run = unsafe extern "C" fn(*mut Machine, *const *mut u8, *const u8);

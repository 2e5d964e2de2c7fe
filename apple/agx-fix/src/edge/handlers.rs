//! Handlers that are given to a command buffer after its commit. Metal would end the process; were they only refused, who waits for one
//! would wait for ever. So they are called when their time has come, on a thread of ours.

use std::ffi::{CStr, c_int, c_void};
use std::io;
use std::ptr::null_mut;

use super::foreign::{self, Object};
use super::runtime::{Owned, Pool, send};

/// How a block begins that takes an object.
#[repr(C)]
struct Block {
    class: *const c_void,
    flags: c_int,
    reserved: c_int,
    invoke: unsafe extern "C" fn(Object, Object),
}

/// A handler and its command buffer, both with a reference.
struct Late {
    commands: Owned,
    block: Object,
    wait: &'static CStr,
}

// SAFETY: Metal calls handlers on threads of its own, too, and a command buffer can be waited for on any.
unsafe impl Send for Late {}

impl Late {
    fn call(self) {
        let _pool = Pool::new();
        // SAFETY: the command buffer is kept, and the message takes no argument. The block was copied, and takes a command buffer.
        unsafe {
            send(self.commands.0, self.wait, null_mut());
            let block = self.block.cast::<Block>();
            ((*block).invoke)(self.block, self.commands.0);
            foreign::_Block_release(self.block);
        }
    }
}

/// Calls a handler when the command buffer is as far as this message waits for, unless there is no thread to do so.
///
/// # Safety
/// The command buffer is alive, and the block is nil or one that takes a command buffer.
pub unsafe fn call_late(commands: Object, block: Object, wait: &'static CStr) -> io::Result<()> {
    if block.is_null() {
        return Ok(());
    }
    // SAFETY: the caller vouches for both.
    let late = unsafe {
        Late {
            commands: Owned(foreign::objc_retain(commands)),
            block: foreign::_Block_copy(block),
            wait,
        }
    };
    let thread = std::thread::Builder::new().name("agx-fix handler".to_owned());
    thread.spawn(|| late.call()).map(drop)
}

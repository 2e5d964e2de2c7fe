//! A handler that comes after the commit.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use streampool_metal_sim::{Id, live_objects, send};

use crate::common::{assert_ended_well, run};
use crate::wrapped_command_buffer;

/// A block that captures nothing.
#[repr(C)]
struct Block {
    class: *const c_void,
    flags: c_int,
    reserved: c_int,
    invoke: extern "C" fn(*const Block, Id),
    descriptor: *const [usize; 2],
}

/// `BLOCK_IS_GLOBAL`
const IS_GLOBAL: c_int = 1 << 28;

unsafe extern "C" {
    safe static _NSConcreteGlobalBlock: c_void;
}

static CALLED_WITH: AtomicUsize = AtomicUsize::new(0);

extern "C" fn handler(_: *const Block, commands: Id) {
    CALLED_WITH.store(commands.as_ptr::<()>() as usize, Ordering::SeqCst);
}

pub fn late_handler() {
    let block = Block {
        class: &raw const _NSConcreteGlobalBlock,
        flags: IS_GLOBAL,
        reserved: 0,
        invoke: handler,
        descriptor: &[0, size_of::<Block>()],
    };
    let commands = wrapped_command_buffer();
    let _: () = send!(commands, "commit");
    let _: () = send!(
        commands,
        "addCompletedHandler:",
        Id::from_ptr(&raw const block)
    );
    let begun = Instant::now();
    while CALLED_WITH.load(Ordering::SeqCst) == 0 {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "it is not called"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(
        CALLED_WITH.load(Ordering::SeqCst),
        commands.as_ptr::<()>() as usize
    );
    assert_eq!(agx_fix::statistics().after_commit, 1);
    commands.release();
    while live_objects().contains_key("ImitationCommandBuffer") {
        assert!(begun.elapsed() < Duration::from_secs(60), "it is kept");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_handler_that_comes_after_the_commit_is_called() {
    assert_ended_well(&run("handler", &[]));
}

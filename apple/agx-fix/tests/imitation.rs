//! An imitation driver that races as AGX does: it crashes without agx-fix and not with it, and what agx-fix says of that is exact.
#![cfg(metal_sim)]

#[path = "imitation/books.rs"]
mod books;
mod common;
#[path = "imitation/handlers.rs"]
mod handlers;
#[path = "imitation/program.rs"]
mod program;
#[path = "imitation/races.rs"]
mod races;

use std::ffi::{c_char, c_void};

use agx_fix::{Settings, Statistics};
use common::asked_for;
use common::driver;
use streampool_metal_sim::{Id, send};

/// What a process does that a test started.
#[test]
fn scenario() {
    common::protocols::define();
    match asked_for().as_deref() {
        None => {}
        Some("race, plain") => races::race(driver::device()),
        Some("race") => races::race_guarded(),
        Some("between, plain") => races::between(driver::device()),
        Some("between") => races::between_guarded(),
        Some("shared, plain") => races::shared(driver::device()),
        Some("shared") => races::shared_guarded(),
        Some("misuse") => books::misuse(),
        Some("shown") => books::shown(),
        Some("committed") => books::committed(),
        Some("handler") => handlers::late_handler(),
        Some("finished late") => books::finished_late(),
        Some("exact") => books::exact(),
        Some("classes") => books::classes(),
        Some("check") => books::check(),
        Some("huge") => books::huge(),
        Some("metal") => program::metal(),
        Some("late, default") => program::late(MTLCreateSystemDefaultDevice, |made| made),
        Some("late, listed") => program::late(MTLCopyAllDevices, |made| {
            send!(made, "objectAtIndex:", 0usize)
        }),
        Some("knows nothing of it") => program::use_metal(program::inserted_default_device()),
        Some("starts another") => program::start_another(),
        Some(other) => panic!("{other}?"),
    }
}

/// Wraps the imitation driver, as the environment says, and returns its device.
fn wrap() -> Id {
    let device = driver::device();
    let (settings, errors) = Settings::from_environment();
    assert_eq!(errors, []);
    // SAFETY: the device is alive, and answers as one of Metal's.
    unsafe { agx_fix::install_on(device.as_ptr(), settings) }
        .expect("it has the classes that a device has");
    device
}

/// A command buffer of the imitation driver, wrapped as the environment says.
fn wrapped_command_buffer() -> Id {
    let device = wrap();
    let commands = driver::command_buffer(device);
    device.release();
    commands
}

/// A function of Metal's that returns a reference.
type Maker = unsafe extern "C" fn() -> *const c_void;

unsafe extern "C" {
    safe static agx_fix_replacements: [[Maker; 2]; 2];
    fn MTLCreateSystemDefaultDevice() -> *const c_void;
    fn MTLCopyAllDevices() -> *const c_void;
    fn agx_fix_statistics(to: *mut Statistics, size: usize) -> usize;
    fn agx_fix_check() -> isize;
    fn class_replaceMethod(
        class: *const c_void,
        selector: *const c_char,
        implementation: *const c_void,
        types: *const c_char,
    ) -> *const c_void;
}

fn default_device() -> Id {
    // SAFETY: it may be called anywhere, and gives a reference.
    Id::from_ptr(unsafe { MTLCreateSystemDefaultDevice() })
}

//! Signposts and capture scopes are noted.
#![cfg(metal_sim)]

mod common;

use std::ffi::{c_char, c_void};
use std::ptr;

use common::*;
use objc2_metal::*;
use streampool_metal_sim::{Mark, signposts};

unsafe extern "C" {
    safe fn os_signpost_id_generate(log: *const c_void) -> u64;
    safe fn os_signpost_enabled(log: *const c_void) -> bool;
    fn os_log_create(subsystem: *const c_char, category: *const c_char) -> *const c_void;
    fn _os_signpost_emit_with_name_impl(
        image: *const c_void,
        log: *const c_void,
        kind: u8,
        id: u64,
        name: *const c_char,
        format: *const c_char,
        arguments: *const u8,
        length: u32,
    );
}

#[test]
fn intervals_are_noted_with_their_log() {
    let _sim = Sim::strict();
    // SAFETY: strings that end with a zero.
    let log = unsafe { os_log_create(c"dev.streampool".as_ptr(), c"stream".as_ptr()) };
    assert!(os_signpost_enabled(log) && !os_signpost_enabled(ptr::null()));
    let id = os_signpost_id_generate(log);
    for kind in [1, 2] {
        // SAFETY: a log, strings that end with a zero, and no arguments.
        unsafe {
            _os_signpost_emit_with_name_impl(
                ptr::null(),
                log,
                kind,
                id,
                c"run".as_ptr(),
                c"".as_ptr(),
                ptr::null(),
                0,
            );
        }
    }
    let noted = signposts();
    let marks: Vec<Mark> = noted.iter().map(|signpost| signpost.mark).collect();
    assert_eq!(marks, [Mark::Begin, Mark::End]);
    assert!(
        noted
            .iter()
            .all(|signpost| signpost.id == id && signpost.name == "run")
    );
    assert_eq!(
        (noted[0].subsystem.as_str(), noted[0].category.as_str()),
        ("dev.streampool", "stream")
    );
}

#[test]
fn capture_scopes_are_noted() {
    let _sim = Sim::strict();
    with_metal(|metal| {
        // SAFETY: it has no preconditions.
        let manager = unsafe { MTLCaptureManager::sharedCaptureManager() };
        let scope = manager.newCaptureScopeWithDevice(&metal.device);
        scope.beginScope();
        scope.endScope();
    });
    let marks: Vec<Mark> = signposts().iter().map(|signpost| signpost.mark).collect();
    assert_eq!(marks, [Mark::Begin, Mark::End]);
}

//! Signposts of the system: while an instrument looks, each buffer on the GPU is an interval.

use std::ffi::{c_char, c_void};

const BEGIN: u8 = 1;
const END: u8 = 2;
const SUBSYSTEM: &std::ffi::CStr = c"streampool";
const CATEGORY: &std::ffi::CStr = c"metal";

// Instruments find names by their place in this section of the program's file.
#[cfg_attr(
    target_vendor = "apple",
    unsafe(link_section = "__TEXT,__oslogstring,cstring_literals")
)]
static NAME: [u8; 7] = *b"buffer\0";
#[cfg_attr(
    target_vendor = "apple",
    unsafe(link_section = "__TEXT,__oslogstring,cstring_literals")
)]
static FORMAT: [u8; 1] = *b"\0";

unsafe extern "C" {
    static __dso_handle: c_void;
    fn os_log_create(subsystem: *const c_char, category: *const c_char) -> *mut c_void;
    fn os_signpost_enabled(log: *mut c_void) -> bool;
    fn os_signpost_id_generate(log: *mut c_void) -> u64;
    fn _os_signpost_emit_with_name_impl(
        dso: *const c_void,
        log: *mut c_void,
        kind: u8,
        id: u64,
        name: *const c_char,
        format: *const c_char,
        buffer: *mut u8,
        size: u32,
    );
}

/// The log that signposts go to.
pub(crate) struct Signposts(*mut c_void);

// SAFETY: logs may be used from any thread, and live as long as the process.
unsafe impl Send for Signposts {}
// SAFETY: as above.
unsafe impl Sync for Signposts {}

/// An interval that was begun, if somebody looks.
pub(crate) struct Signpost(Option<u64>);

impl Signposts {
    pub fn new() -> Signposts {
        // SAFETY: both are C strings; what is returned lives as long as the process.
        Signposts(unsafe { os_log_create(SUBSYSTEM.as_ptr(), CATEGORY.as_ptr()) })
    }

    /// Begins an interval. Unless an instrument looks, it is a question to the log and nothing else.
    pub fn begin(&self) -> Signpost {
        // SAFETY: the log lives as long as the process.
        let id = unsafe { os_signpost_enabled(self.0).then(|| os_signpost_id_generate(self.0)) };
        if let Some(id) = id {
            self.emit(BEGIN, id);
        }
        Signpost(id)
    }

    /// Ends it.
    pub fn end(&self, signpost: Signpost) {
        if let Some(id) = signpost.0 {
            self.emit(END, id);
        }
    }

    fn emit(&self, kind: u8, id: u64) {
        // No arguments: a summary and a count of zero.
        let mut arguments = [0u8; 2];
        // SAFETY: the log and the strings live as long as the process, and the arguments are those of a format without
        // any, read before it returns.
        unsafe {
            _os_signpost_emit_with_name_impl(
                &raw const __dso_handle,
                self.0,
                kind,
                id,
                NAME.as_ptr().cast(),
                FORMAT.as_ptr().cast(),
                arguments.as_mut_ptr(),
                arguments.len() as u32,
            );
        }
    }
}

//! Logs and signposts of the operating system, noted so that a test can see them.

use std::collections::BTreeSet;
use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::inside::Inside;

/// A signpost, or the edge of a capture scope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signpost {
    /// The subsystem of its log.
    pub subsystem: String,
    /// The category of its log.
    pub category: String,
    /// What it marks.
    pub mark: Mark,
    /// Which interval it belongs to.
    pub id: u64,
    /// Its name.
    pub name: String,
}

/// What a signpost marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// A moment.
    Event,
    /// The begin of an interval.
    Begin,
    /// The end of an interval.
    End,
}

struct Log {
    subsystem: String,
    category: String,
}

/// Logs live for ever, as with the operating system; each is known by its address.
static LOGS: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());
static NOTED: Mutex<Vec<Signpost>> = Mutex::new(Vec::new());

/// The signposts since the test began.
pub fn signposts() -> Vec<Signpost> {
    NOTED.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

pub(crate) fn forget() {
    NOTED.lock().unwrap_or_else(PoisonError::into_inner).clear();
}

pub(crate) fn capture(begins: bool) {
    note(Signpost {
        subsystem: "metal".to_owned(),
        category: "capture".to_owned(),
        mark: if begins { Mark::Begin } else { Mark::End },
        id: 0,
        name: "scope".to_owned(),
    });
}

fn note(signpost: Signpost) {
    NOTED
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(signpost);
}

/// The string that a caller passes.
///
/// # Safety
///
/// It ends with a zero and stays as it is.
unsafe fn text(text: *const c_char) -> String {
    // SAFETY: the caller vouches.
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}

fn log(address: *const c_void) -> Option<&'static Log> {
    let known = LOGS
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .contains(&(address as usize));
    // SAFETY: only addresses of logs are known, and those live for ever.
    known.then(|| unsafe { &*address.cast::<Log>() })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn os_log_create(
    subsystem: *const c_char,
    category: *const c_char,
) -> *const c_void {
    // SAFETY: the C interface asks for strings.
    let log = unsafe {
        Log {
            subsystem: text(subsystem),
            category: text(category),
        }
    };
    let log: *const Log = Box::leak(Box::new(log));
    LOGS.lock()
        .unwrap_or_else(PoisonError::into_inner)
        .insert(log as usize);
    log.cast()
}

#[unsafe(no_mangle)]
extern "C" fn os_signpost_enabled(address: *const c_void) -> bool {
    let _inside = Inside::enter();
    log(address).is_some()
}

#[unsafe(no_mangle)]
extern "C" fn os_signpost_id_generate(_log: *const c_void) -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn _os_signpost_emit_with_name_impl(
    _image: *const c_void,
    address: *const c_void,
    kind: u8,
    id: u64,
    name: *const c_char,
    _format: *const c_char,
    _arguments: *const u8,
    _length: u32,
) {
    let _inside = Inside::enter();
    let Some(log) = log(address) else { return };
    let mark = match kind {
        1 => Mark::Begin,
        2 => Mark::End,
        _ => Mark::Event,
    };
    // SAFETY: the C interface asks for a string.
    let name = unsafe { text(name) };
    note(Signpost {
        subsystem: log.subsystem.clone(),
        category: log.category.clone(),
        mark,
        id,
        name,
    });
}

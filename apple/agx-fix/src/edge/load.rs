//! What happens when the library is loaded into a program that knows nothing of it, what happens when that program ends, and the functions
//! for C.

use std::ffi::{CStr, OsStr, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::null;

use super::foreign::{ImageOfAddress, atexit, dladdr};
use super::watch::{guard, guard_with, say};
use crate::{Settings, Statistics, inserted};

#[used]
#[cfg_attr(
    target_vendor = "apple",
    unsafe(link_section = "__DATA,__mod_init_func")
)]
#[cfg_attr(not(target_vendor = "apple"), unsafe(link_section = ".init_array"))]
static LOADED: extern "C" fn() = loaded;

/// Runs when the library is loaded. In a program that was linked with it nothing happens until that asks for it; where it was inserted,
/// it waits for the first device, since most programs have none.
extern "C" fn loaded() {
    let (variable, between) = inserted::VARIABLE;
    let list = std::env::var_os(variable).unwrap_or_default();
    let Some(others) = own_file().and_then(|file| inserted::without(&list, between, file)) else {
        return;
    };
    let (settings, errors) = Settings::from_environment();
    if !settings.children {
        keep_from_children(variable, &others);
    }
    for error in errors {
        say(&format!("{error}; what holds without the variable holds"));
    }
    if settings.disabled {
        return;
    }
    guard_with(settings);
    if settings.verbose {
        let program = std::env::current_exe().unwrap_or_default();
        say(&format!(
            "loaded into process {}, {}",
            std::process::id(),
            program.display()
        ));
    }
    // SAFETY: the function is there until the end: inserted libraries are not unloaded.
    if unsafe { atexit(ending) } != 0 {
        say("the statistics will not be told at exit");
    }
}

/// Leaves only the others in the list of what is inserted into the processes that this one starts. Apple's loader ends a process for which
/// an inserted library has no code: the system's own tools are of another kind, and so are those for other processors.
fn keep_from_children(variable: &str, others: &OsStr) {
    // SAFETY: this runs when the libraries that a program starts with are loaded, before its own code: nobody else is at the environment.
    unsafe {
        if others.is_empty() {
            std::env::remove_var(variable);
        } else {
            std::env::set_var(variable, others);
        }
    }
}

/// The file of this library, as the loader names it.
fn own_file() -> Option<&'static Path> {
    let mut image = ImageOfAddress {
        file: null(),
        base: null(),
        symbol: null(),
        symbol_address: null(),
    };
    let own = loaded as extern "C" fn() as *const c_void;
    // SAFETY: the image has room for what is known of the address.
    let found = unsafe { dladdr(own, &mut image) } != 0;
    if !found || image.file.is_null() {
        return None;
    }
    // SAFETY: the name of a loaded file ends with a zero, and is there as long as the file is loaded.
    let file = unsafe { CStr::from_ptr(image.file) };
    Some(Path::new(OsStr::from_bytes(file.to_bytes())))
}

extern "C" fn ending() {
    let statistics = super::statistics();
    let check = super::check();
    let verbose = guard().is_some_and(|guard| guard.settings.verbose);
    if verbose || statistics.is_worth_telling() || !check.displaced.is_empty() {
        say(&statistics.to_string());
    }
    tell(&check.displaced);
}

/// Names the methods that run something else.
fn tell(displaced: &[String]) {
    for name in displaced {
        say(&format!(
            "{name} was replaced by somebody else: whether its calls are guarded is not known"
        ));
    }
}

/// Writes as much of the statistics as there is room for, and returns how many bytes they have.
///
/// # Safety
/// There is room for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn agx_fix_statistics(to: *mut Statistics, size: usize) -> usize {
    let statistics = super::statistics();
    let whole = size_of::<Statistics>();
    // SAFETY: the caller vouches for the room, and a number has no invalid bytes.
    unsafe {
        (&raw const statistics)
            .cast::<u8>()
            .copy_to(to.cast(), size.min(whole))
    };
    whole
}

/// How many wrapped methods run something else by now; each is named on standard error. -1, if nothing is wrapped.
#[unsafe(no_mangle)]
pub extern "C" fn agx_fix_check() -> isize {
    let check = super::check();
    tell(&check.displaced);
    if check.methods == 0 {
        -1
    } else {
        check.displaced.len() as isize
    }
}

//! NVRTC: an image is the text itself, once a C++ compiler takes it.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int};
use std::sync::{Mutex, MutexGuard, PoisonError};

use cudarc::nvrtc::sys::nvrtcResult::{self, *};
use streampool_emulated::cuda::Kernel;

use crate::handle::{Handle, Out};
use crate::module::MAGIC;

/// A version that no real one has, since devices keep images by it.
const VERSION: [c_int; 2] = [13, 99];
/// The architecture of the GPU.
const ARCHITECTURE: c_int = 90;

#[derive(Default)]
struct Program {
    text: String,
    log: Vec<u8>,
    image: Vec<u8>,
}

struct Programs {
    all: BTreeMap<Handle, Program>,
    last: Handle,
}

fn programs() -> MutexGuard<'static, Programs> {
    static PROGRAMS: Mutex<Programs> = Mutex::new(Programs {
        all: BTreeMap::new(),
        last: 0,
    });
    PROGRAMS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes what `work` gives for the program.
fn give<T>(
    program: Handle,
    to: Out<'_, T>,
    work: impl FnOnce(&Program) -> Option<T>,
) -> nvrtcResult {
    let programs = programs();
    let Some(program) = programs.all.get(&program) else {
        return NVRTC_ERROR_INVALID_PROGRAM;
    };
    match (to, work(program)) {
        (Some(to), Some(value)) => {
            to.write(value);
            NVRTC_SUCCESS
        }
        _ => NVRTC_ERROR_INVALID_INPUT,
    }
}

/// Writes bytes of the program where there is room for them, as the caller was told.
fn copy(program: Handle, to: *mut u8, bytes: impl FnOnce(&Program) -> &[u8]) -> nvrtcResult {
    let programs = programs();
    let Some(program) = programs.all.get(&program) else {
        return NVRTC_ERROR_INVALID_PROGRAM;
    };
    let bytes = bytes(program);
    if to.is_null() || bytes.is_empty() {
        return NVRTC_ERROR_INVALID_INPUT;
    }
    // SAFETY: the caller has asked how many bytes there are, and has room for them.
    unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    NVRTC_SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn nvrtcVersion(major: Out<'_, c_int>, minor: Out<'_, c_int>) -> nvrtcResult {
    match (major, minor) {
        (Some(major), Some(minor)) => {
            major.write(VERSION[0]);
            minor.write(VERSION[1]);
            NVRTC_SUCCESS
        }
        _ => NVRTC_ERROR_INVALID_INPUT,
    }
}

#[unsafe(no_mangle)]
extern "C" fn nvrtcGetNumSupportedArchs(count: Out<'_, c_int>) -> nvrtcResult {
    count.map_or(NVRTC_ERROR_INVALID_INPUT, |count| {
        count.write(1);
        NVRTC_SUCCESS
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvrtcGetSupportedArchs(archs: Out<'_, c_int>) -> nvrtcResult {
    archs.map_or(NVRTC_ERROR_INVALID_INPUT, |archs| {
        archs.write(ARCHITECTURE);
        NVRTC_SUCCESS
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvrtcGetErrorString(result: nvrtcResult) -> *const c_char {
    let words = match result {
        NVRTC_SUCCESS => c"NVRTC_SUCCESS",
        NVRTC_ERROR_COMPILATION => c"NVRTC_ERROR_COMPILATION",
        NVRTC_ERROR_INVALID_PROGRAM => c"NVRTC_ERROR_INVALID_PROGRAM",
        NVRTC_ERROR_INVALID_INPUT => c"NVRTC_ERROR_INVALID_INPUT",
        _ => c"an error of NVRTC",
    };
    words.as_ptr()
}

#[unsafe(no_mangle)]
extern "C" fn nvrtcCreateProgram(
    program: Out<'_, Handle>,
    text: *const c_char,
    _name: *const c_char,
    headers: c_int,
    _texts: *const *const c_char,
    _names: *const *const c_char,
) -> nvrtcResult {
    if text.is_null() || headers != 0 {
        return NVRTC_ERROR_INVALID_INPUT;
    }
    // SAFETY: the caller gives a string that ends with a zero.
    let text = unsafe { CStr::from_ptr(text) };
    let text = text.to_string_lossy().into_owned();
    let mut programs = programs();
    programs.last += 1;
    let (handle, made) = (
        programs.last,
        Program {
            text,
            ..Program::default()
        },
    );
    programs.all.insert(handle, made);
    drop(programs);
    give(handle, program, |_| Some(handle))
}

#[unsafe(no_mangle)]
extern "C" fn nvrtcCompileProgram(
    program: Handle,
    _count: c_int,
    _options: *const *const c_char,
) -> nvrtcResult {
    let text = programs().all.get(&program).map(|known| known.text.clone());
    let Some(text) = text else {
        return NVRTC_ERROR_INVALID_PROGRAM;
    };
    // Without the lock: it takes long.
    let compiled = Kernel::compile(&text);
    let mut programs = programs();
    let Some(program) = programs.all.get_mut(&program) else {
        return NVRTC_ERROR_INVALID_PROGRAM;
    };
    match compiled {
        Ok(kernel) => {
            let name = kernel.name().as_bytes();
            program.image = [MAGIC, name, &[0], text.as_bytes(), &[0]].concat();
            NVRTC_SUCCESS
        }
        Err(log) => {
            program.log = in_words_of_nvrtc(&log).into_bytes();
            NVRTC_ERROR_COMPILATION
        }
    }
}

/// What the C++ compiler says, as NVRTC says it: in which line, and what is not known.
fn in_words_of_nvrtc(log: &str) -> String {
    let told = |line: &str| {
        let (place, error) = line.split_once(": error: ")?;
        let number = place.split(':').nth(1)?;
        let unknown = ["was not declared", "undeclared identifier"];
        let error = match error.split(['\'', '‘', '’']).nth(1) {
            Some(name) if unknown.iter().any(|words| error.contains(words)) => {
                format!("identifier \"{name}\" is undefined")
            }
            _ => error.to_owned(),
        };
        Some(format!("kernel.cu({number}): error: {error}"))
    };
    let lines = log
        .lines()
        .map(|line| told(line).unwrap_or(line.to_owned()));
    lines.collect::<Vec<_>>().join("\n")
}

#[unsafe(no_mangle)]
extern "C" fn nvrtcGetProgramLogSize(program: Handle, bytes: Out<'_, usize>) -> nvrtcResult {
    give(program, bytes, |program| Some(program.log.len() + 1))
}

#[unsafe(no_mangle)]
extern "C" fn nvrtcGetProgramLog(program: Handle, log: *mut u8) -> nvrtcResult {
    copy(program, log, |program| &program.log)
}

#[unsafe(no_mangle)]
extern "C" fn nvrtcGetCUBINSize(program: Handle, bytes: Out<'_, usize>) -> nvrtcResult {
    give(program, bytes, |program| Some(program.image.len()))
}

#[unsafe(no_mangle)]
extern "C" fn nvrtcGetCUBIN(program: Handle, image: *mut u8) -> nvrtcResult {
    copy(program, image, |program| &program.image)
}

#[unsafe(no_mangle)]
extern "C" fn nvrtcDestroyProgram(program: Option<&mut Handle>) -> nvrtcResult {
    match program.map(|program| programs().all.remove(&std::mem::take(program))) {
        Some(Some(_)) => NVRTC_SUCCESS,
        _ => NVRTC_ERROR_INVALID_PROGRAM,
    }
}

//! NVRTC: the compiler of kernel text, if it is there.

use std::ffi::{CStr, CString, c_int};
use std::ptr;
use std::sync::OnceLock;

use cudarc::nvrtc::sys::{self, nvrtcProgram, nvrtcResult};

/// The oldest major version that has every function used here, and the C++ that kernels are written in.
const OLDEST: c_int = 12;

/// What the text is called in the compiler's messages.
const FILE: &CStr = c"kernel.cu";

/// Loads NVRTC, once, and makes sure that it knows `architecture`, such as `sm_90`. The result is its name and
/// version, such as `NVRTC 13.0`; the error says what is missing.
pub(super) fn open(architecture: &str) -> Result<String, String> {
    static OPENED: OnceLock<Result<(c_int, c_int), String>> = OnceLock::new();
    let (major, minor) = OPENED.get_or_init(version).clone()?;
    let known = architectures()?;
    let listed = architecture.trim_end_matches('a');
    if known.iter().any(|known| known == listed) {
        return Ok(format!("NVRTC {major}.{minor}"));
    }
    Err(format!(
        "NVRTC {major}.{minor} does not know this GPU's architecture, {architecture}, only {}",
        known.join(", ")
    ))
}

fn version() -> Result<(c_int, c_int), String> {
    // SAFETY: loading the library runs its initialisers, which is what it is loaded for.
    if !unsafe { sys::is_culib_present() } {
        return Err(
            "no NVRTC: there is no libnvrtc.so.13 or libnvrtc.so.12 in the library path (a folder of \
             LD_LIBRARY_PATH, for one)"
                .to_owned(),
        );
    }
    let (mut major, mut minor) = (0, 0);
    // SAFETY: it writes two integers; every version has it.
    check("nvrtcVersion", unsafe {
        sys::nvrtcVersion(&mut major, &mut minor)
    })?;
    if major < OLDEST {
        return Err(format!(
            "NVRTC {major}.{minor} is too old: at least {OLDEST}.0 is needed"
        ));
    }
    Ok((major, minor))
}

/// The architectures that it compiles for. It was found and is not too old.
fn architectures() -> Result<Vec<String>, String> {
    let mut count = 0;
    // SAFETY: it writes one integer.
    check("nvrtcGetNumSupportedArchs", unsafe {
        sys::nvrtcGetNumSupportedArchs(&mut count)
    })?;
    let mut numbers: Vec<c_int> = vec![0; usize::try_from(count).unwrap_or(0)];
    // SAFETY: it writes as many integers as it said.
    check("nvrtcGetSupportedArchs", unsafe {
        sys::nvrtcGetSupportedArchs(numbers.as_mut_ptr())
    })?;
    Ok(numbers
        .iter()
        .map(|number| format!("sm_{number}"))
        .collect())
}

/// Compiles `text` to an image that a GPU loads. The error is the compiler's log. NVRTC was opened.
pub(super) fn compile(text: &str, options: &[String]) -> Result<Vec<u8>, String> {
    let options = options.iter().map(|option| c_string(option));
    let options = options.collect::<Result<Vec<_>, _>>()?;
    let options: Vec<_> = options.iter().map(|option| option.as_ptr()).collect();
    let program = Program::new(&c_string(text)?)?;
    // SAFETY: the program is alive, and so are the strings.
    let result =
        unsafe { sys::nvrtcCompileProgram(program.0, options.len() as c_int, options.as_ptr()) };
    check("nvrtcCompileProgram", result).map_err(|why| match program.log() {
        Some(log) => log,
        None => why,
    })?;
    program.image()
}

/// A text that is compiled.
struct Program(nvrtcProgram);

impl Program {
    fn new(text: &CStr) -> Result<Program, String> {
        let mut raw = ptr::null_mut();
        // SAFETY: the strings end with a zero and are copied; there are no headers.
        let result = unsafe {
            sys::nvrtcCreateProgram(
                &mut raw,
                text.as_ptr(),
                FILE.as_ptr(),
                0,
                ptr::null(),
                ptr::null(),
            )
        };
        check("nvrtcCreateProgram", result).map(|()| Program(raw))
    }

    /// What the compiler said, if anything.
    fn log(&self) -> Option<String> {
        let mut size = 0;
        // SAFETY: the program is alive; it writes one number.
        let result = unsafe { sys::nvrtcGetProgramLogSize(self.0, &mut size) };
        check("nvrtcGetProgramLogSize", result).ok()?;
        let mut bytes = vec![0u8; size];
        // SAFETY: it writes as many bytes as it said.
        let result = unsafe { sys::nvrtcGetProgramLog(self.0, bytes.as_mut_ptr().cast()) };
        check("nvrtcGetProgramLog", result).ok()?;
        let log = String::from_utf8_lossy(&bytes);
        let log = log.trim_end_matches('\0').trim();
        (!log.is_empty()).then(|| log.to_owned())
    }

    fn image(&self) -> Result<Vec<u8>, String> {
        let mut size = 0;
        // SAFETY: the program is alive; it writes one number.
        let result = unsafe { sys::nvrtcGetCUBINSize(self.0, &mut size) };
        check("nvrtcGetCUBINSize", result)?;
        let mut bytes = vec![0u8; size];
        // SAFETY: it writes as many bytes as it said.
        let result = unsafe { sys::nvrtcGetCUBIN(self.0, bytes.as_mut_ptr().cast()) };
        check("nvrtcGetCUBIN", result).map(|()| bytes)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: it was created and is destroyed once.
        unsafe { sys::nvrtcDestroyProgram(&mut self.0) };
    }
}

fn c_string(text: &str) -> Result<CString, String> {
    CString::new(text).map_err(|_| "there is a zero byte in the text".to_owned())
}

fn check(call: &str, result: nvrtcResult) -> Result<(), String> {
    if result == nvrtcResult::NVRTC_SUCCESS {
        return Ok(());
    }
    // SAFETY: it returns a constant string for every number.
    let words = unsafe { CStr::from_ptr(sys::nvrtcGetErrorString(result)) };
    Err(format!("{call}: {}", words.to_string_lossy()))
}

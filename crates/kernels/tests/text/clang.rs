//! A check of Metal text where there is no Metal: clang reads it as C++ for OpenCL, whose address spaces and
//! rules for copies between them are much like Metal's, with a header that stands for Metal's library.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_ulong, c_void};
use std::ptr::{null, null_mut};

use libloading::{Library, Symbol};
use streampool_conformance::packages;
use streampool_kernels::Source;

type Handle = *mut c_void;

/// A file that is not on disk.
#[repr(C)]
struct Unsaved {
    name: *const c_char,
    contents: *const c_char,
    length: c_ulong,
}

/// A string of clang's.
#[repr(C)]
struct ClangString {
    data: *const c_void,
    flags: c_uint,
}

type CreateIndex = unsafe extern "C" fn(c_int, c_int) -> Handle;
type Parse = unsafe extern "C" fn(
    Handle,
    *const c_char,
    *const *const c_char,
    c_int,
    *mut Unsaved,
    c_uint,
    c_uint,
) -> Handle;
type Count = unsafe extern "C" fn(Handle) -> c_uint;
type Diagnostic = unsafe extern "C" fn(Handle, c_uint) -> Handle;
type Format = unsafe extern "C" fn(Handle, c_uint) -> ClangString;
type Characters = unsafe extern "C" fn(ClangString) -> *const c_char;
type DisposeString = unsafe extern "C" fn(ClangString);
type Dispose = unsafe extern "C" fn(Handle);

const ERROR: c_uint = 3;

pub struct Clang(Library);

impl Clang {
    /// The compiler, or why there is none for this machine.
    pub fn installed() -> Result<Clang, String> {
        let known = cfg!(any(target_os = "linux", target_os = "macos"))
            && cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));
        if !known {
            return Err("there is no package of clang for this system".to_owned());
        }
        let folder = packages::installed(env!("CARGO_TARGET_TMPDIR"), "libclang", "18.1.1")?;
        let path = packages::library(&folder, "libclang.");
        // SAFETY: the library is clang's, whose initialisation asks nothing of us.
        let library = unsafe { Library::new(&path) };
        Ok(Clang(library.unwrap_or_else(|error| {
            panic!("{}: {error}", path.display())
        })))
    }

    /// Reads `source`; what clang says if it refuses.
    pub fn check(&self, source: &Source) -> Result<(), String> {
        let shim = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/tests/metal");
        let arguments = [
            "-xclcpp",
            "-cl-std=clc++2021",
            "-cl-ext=+cl_khr_fp16,-__opencl_c_generic_address_space,-__opencl_c_pipes,-__opencl_c_device_enqueue",
            "--target=spir64-unknown-unknown",
            "-cl-no-stdinc",
            "-Wno-unknown-attributes",
            shim,
        ];
        let arguments = arguments.map(|argument| CString::new(argument).expect("no zeros"));
        let arguments = arguments.each_ref().map(|argument| argument.as_ptr());
        let text = CString::new(source.text.as_str()).expect("text without zeros");
        let mut file = Unsaved {
            name: c"kernel.cc".as_ptr(),
            contents: text.as_ptr(),
            length: text.as_bytes().len() as c_ulong,
        };
        // SAFETY: the signature is that of clang-c/Index.h.
        let index = unsafe { self.function::<CreateIndex>(c"clang_createIndex")(0, 0) };
        // SAFETY: as above; the strings, the arguments and the file outlive the call.
        let unit = unsafe {
            self.function::<Parse>(c"clang_parseTranslationUnit")(
                index,
                file.name,
                arguments.as_ptr(),
                arguments.len() as c_int,
                &mut file,
                1,
                0,
            )
        };
        assert_ne!(unit, null_mut(), "clang reads a file");
        let errors = self.errors(unit);
        // SAFETY: both are disposed of once, the unit before its index.
        unsafe {
            self.function::<Dispose>(c"clang_disposeTranslationUnit")(unit);
            self.function::<Dispose>(c"clang_disposeIndex")(index);
        }
        if errors.is_empty() {
            Ok(())
        } else {
            Err(errors.join("\n"))
        }
    }

    fn errors(&self, unit: Handle) -> Vec<String> {
        // SAFETY: the unit is alive.
        let count = unsafe { self.function::<Count>(c"clang_getNumDiagnostics")(unit) };
        (0..count)
            .filter_map(|number| self.error(unit, number))
            .collect()
    }

    /// Diagnostic `number`, if it is an error.
    fn error(&self, unit: Handle, number: c_uint) -> Option<String> {
        // SAFETY: signatures are those of clang-c/Index.h; the number is below the count; the diagnostic and
        // its string are disposed of once each, after their last use.
        unsafe {
            let diagnostic = self.function::<Diagnostic>(c"clang_getDiagnostic")(unit, number);
            let severity = self.function::<Count>(c"clang_getDiagnosticSeverity")(diagnostic);
            let string = self.function::<Format>(c"clang_formatDiagnostic")(diagnostic, 1);
            let characters =
                self.function::<Characters>(c"clang_getCString")(ClangString { ..string });
            assert_ne!(characters, null(), "a diagnostic has a text");
            let text = CStr::from_ptr(characters).to_string_lossy().into_owned();
            self.function::<DisposeString>(c"clang_disposeString")(string);
            self.function::<Dispose>(c"clang_disposeDiagnostic")(diagnostic);
            (severity >= ERROR).then_some(text)
        }
    }

    fn function<T>(&self, name: &CStr) -> Symbol<'_, T> {
        // SAFETY: callers name the type that clang-c/Index.h gives the function.
        let symbol = unsafe { self.0.get(name.to_bytes_with_nul()) };
        symbol.unwrap_or_else(|error| panic!("clang lacks {name:?}: {error}"))
    }
}

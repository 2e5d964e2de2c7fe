//! The compiler of CUDA text, which needs neither a GPU nor a driver.

use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr::{null, null_mut};

use libloading::{Library, Symbol};
use streampool_conformance::packages;
use streampool_kernels::Source;
use streampool_kernels::text::CUDA_OPTIONS;

type Handle = *mut c_void;
type Create = unsafe extern "C" fn(
    *mut Handle,
    *const c_char,
    *const c_char,
    c_int,
    *const *const c_char,
    *const *const c_char,
) -> c_int;
type Compile = unsafe extern "C" fn(Handle, c_int, *const *const c_char) -> c_int;
type Size = unsafe extern "C" fn(Handle, *mut usize) -> c_int;
type Bytes = unsafe extern "C" fn(Handle, *mut c_char) -> c_int;
type Destroy = unsafe extern "C" fn(*mut Handle) -> c_int;

pub struct Nvrtc {
    library: Library,
    /// What the library opens by name when it compiles: found, because it is open already.
    _builtins: Library,
}

impl Nvrtc {
    /// The compiler, or why there is none for this machine.
    pub fn installed() -> Result<Nvrtc, String> {
        let known =
            cfg!(target_os = "linux") && cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));
        if !known {
            return Err("there is no package of NVRTC for this system".to_owned());
        }
        let folder =
            packages::installed(env!("CARGO_TARGET_TMPDIR"), "nvidia-cuda-nvrtc", "13.0.88")?;
        let open = |name: &str| {
            let path = packages::library(&folder, name);
            // SAFETY: both libraries are NVRTC's, whose initialisation asks nothing of us.
            let library = unsafe { Library::new(&path) };
            library.unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        };
        Ok(Nvrtc {
            _builtins: open("libnvrtc-builtins.so."),
            library: open("libnvrtc.so."),
        })
    }

    /// Compiles `source` to PTX, which takes half as long as machine code does; the compiler's log if it refuses.
    pub fn compile(&self, source: &Source) -> Result<Vec<u8>, String> {
        let text = CString::new(source.text.as_str()).expect("text without zeros");
        let name = CString::new(source.entry).expect("a name without zeros");
        let mut options: Vec<CString> = CUDA_OPTIONS
            .iter()
            .map(|&option| CString::new(option).expect("an option without zeros"))
            .collect();
        options.push(c"--gpu-architecture=compute_90a".to_owned());
        let options: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        let mut program = null_mut();
        // SAFETY: the signature is that of nvrtc.h; strings end in zeros and outlive the call.
        let created = unsafe {
            self.function::<Create>(c"nvrtcCreateProgram")(
                &mut program,
                text.as_ptr(),
                name.as_ptr(),
                0,
                null(),
                null(),
            )
        };
        assert_eq!(created, 0, "NVRTC makes a program");
        // SAFETY: as above; the program is the one just made.
        let compiled = unsafe {
            self.function::<Compile>(c"nvrtcCompileProgram")(
                program,
                options.len() as c_int,
                options.as_ptr(),
            )
        };
        let result = match compiled {
            0 => Ok(self.bytes(program, c"nvrtcGetPTXSize", c"nvrtcGetPTX")),
            _ => {
                let log = self.bytes(program, c"nvrtcGetProgramLogSize", c"nvrtcGetProgramLog");
                Err(String::from_utf8_lossy(&log)
                    .trim_end_matches('\0')
                    .to_owned())
            }
        };
        // SAFETY: the program is destroyed once, and not used after.
        unsafe { self.function::<Destroy>(c"nvrtcDestroyProgram")(&mut program) };
        result
    }

    fn bytes(&self, program: Handle, size: &std::ffi::CStr, get: &std::ffi::CStr) -> Vec<u8> {
        let mut length = 0;
        // SAFETY: the signature is that of nvrtc.h, and the program is alive.
        let known = unsafe { self.function::<Size>(size)(program, &mut length) };
        let mut bytes = vec![0u8; length];
        // SAFETY: as above, with as much room as was asked for.
        let got = unsafe { self.function::<Bytes>(get)(program, bytes.as_mut_ptr().cast()) };
        assert_eq!((known, got), (0, 0), "NVRTC hands out {get:?}");
        bytes
    }

    fn function<T>(&self, name: &std::ffi::CStr) -> Symbol<'_, T> {
        // SAFETY: callers name the type that nvrtc.h gives the function.
        let symbol = unsafe { self.library.get(name.to_bytes_with_nul()) };
        symbol.unwrap_or_else(|error| panic!("NVRTC lacks {name:?}: {error}"))
    }
}

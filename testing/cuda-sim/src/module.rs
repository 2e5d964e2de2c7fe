//! Modules: kernels by their text, and launches of them.

use std::ffi::{CStr, CString, c_char};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cudarc::driver::sys::CUresult;
use streampool_emulated::cuda::Kernel;

use crate::driver::State;
use crate::handle::{Handle, Outcome, find};
use crate::objects::{Function, Launch, Module};
use crate::report::{Rule, breach};

/// What an image of the imitation's NVRTC begins with. The name of its kernel follows and its text, each with a zero.
pub const MAGIC: &[u8] = b"\x7fELF of the imitation of NVRTC: ";
const PTX: &[u8] = b".version ";

/// The most threads of a group, together and along each axis.
const MOST_THREADS: u32 = 1024;
const MOST_ALONG: [u32; 3] = [1024, 1024, 64];
/// The most groups along each axis.
const MOST_GROUPS: [u32; 3] = [i32::MAX as u32, 65535, 65535];
/// The most bytes of shared memory, unless more is asked for; and then.
pub const MOST_SHARED: usize = 48 << 10;
pub const MOST_BROUGHT: usize = 227 << 10;

/// What launches and nodes are told of a kernel.
pub struct Asked {
    pub function: Handle,
    pub groups: [u32; 3],
    pub threads: [u32; 3],
    pub shared: u32,
    /// Where the addresses of the arguments are.
    pub arguments: usize,
}

/// Whether an image begins so. No byte is read beyond the first that differs: an image says nowhere how long it is.
fn begins(image: *const c_char, with: &[u8]) -> bool {
    let mut bytes = with.iter().enumerate();
    // SAFETY: an image has at least a byte, and all before this one were none that end it.
    bytes.all(|(at, byte)| *byte == unsafe { image.cast::<u8>().add(at).read() })
}

/// The kernels of an image.
fn functions(image: *const c_char) -> Outcome<Vec<Function>> {
    if begins(image, MAGIC) {
        // SAFETY: so begin only images of ours, which have two strings that end with a zero.
        let text = unsafe {
            let name = CStr::from_ptr(image.add(MAGIC.len()));
            CStr::from_ptr(name.as_ptr().add(name.count_bytes() + 1))
        };
        let text = text.to_string_lossy();
        let kernel = Kernel::compile(&text);
        let kernel = kernel.map_err(|_| CUresult::CUDA_ERROR_INVALID_IMAGE)?;
        return Ok(vec![Function {
            name: CString::new(kernel.name()).map_err(|_| CUresult::CUDA_ERROR_INVALID_IMAGE)?,
            kernel: Some(kernel),
            most_brought: AtomicUsize::new(0),
            waits: text.contains("WAIT_FOR_EARLIER_KERNELS();"),
        }]);
    }
    if !begins(image, PTX) {
        return Err(CUresult::CUDA_ERROR_INVALID_IMAGE);
    }
    // SAFETY: PTX ends with a zero.
    let text = unsafe { CStr::from_ptr(image) }.to_string_lossy();
    let entries = text.split(".entry ").skip(1).map(|entry| {
        let (name, rest) = entry.split_once('(')?;
        let (_, body) = rest.split_once('{')?;
        let (body, _) = body.split_once('}')?;
        if body.trim() != "ret;" {
            breach(
                Rule::Imitated,
                &format!("{name}: of PTX, only kernels that do nothing are imitated"),
            );
        }
        Some(Function {
            name: CString::new(name.trim()).ok()?,
            kernel: None,
            most_brought: AtomicUsize::new(0),
            waits: false,
        })
    });
    let entries: Option<Vec<_>> = entries.collect();
    entries.ok_or(CUresult::CUDA_ERROR_INVALID_PTX)
}

/// Loads an image. Compiling takes long, so nothing is locked meanwhile.
pub fn load(image: *const c_char) -> Outcome<impl FnOnce(&mut State) -> Handle> {
    let functions = functions(image)?;
    Ok(|state: &mut State| {
        let handles = functions.into_iter().map(|function| {
            let handle = state.handle();
            state.functions.insert(handle, Arc::new(function));
            handle
        });
        let module = Module(handles.collect());
        let handle = state.handle();
        state.modules.insert(handle, module);
        handle
    })
}

impl State {
    pub fn unload(&mut self, handle: Handle) -> Outcome {
        let Module(functions) = find(&mut self.modules, "module", handle)?;
        for function in functions {
            let gone = self.functions.remove(function);
            if let Some(function) = gone
                && Arc::strong_count(&function) > 1
            {
                breach(
                    Rule::InFlight,
                    &format!(
                        "the module of kernel {} is unloaded, and a launch is under way",
                        function.name.to_string_lossy()
                    ),
                );
            }
        }
        self.modules.remove(&handle);
        Ok(())
    }

    /// The function of this name.
    pub fn function(&mut self, module: Handle, name: &CStr) -> Outcome<Handle> {
        let Module(functions) = find(&mut self.modules, "module", module)?;
        let mut found = functions.iter();
        let found = found.find(|function| {
            let known = self.functions.get(*function);
            known.is_some_and(|known| *known.name == *name)
        });
        found.copied().ok_or(CUresult::CUDA_ERROR_NOT_FOUND)
    }

    /// Checks a launch, and takes its arguments.
    pub fn asked(&mut self, asked: &Asked) -> Outcome<Launch> {
        let function = find(&mut self.functions, "function", asked.function)?;
        let within = |given: [u32; 3], most: [u32; 3]| {
            given
                .iter()
                .zip(most)
                .all(|(given, most)| (1..=most).contains(given))
        };
        let threads: u64 = asked.threads.iter().map(|side| u64::from(*side)).product();
        let kernel = function.kernel.as_ref();
        let most = kernel.and_then(Kernel::most_threads);
        let named = kernel.map_or(0, Kernel::shared_bytes);
        let brought = asked.shared as usize;
        let most_shared = MOST_SHARED.max(named + function.most_brought.load(Ordering::Relaxed));
        if !within(asked.groups, MOST_GROUPS)
            || !within(asked.threads, MOST_ALONG)
            || threads > u64::from(most.unwrap_or(MOST_THREADS))
            || named + brought > most_shared
            // A GPU would launch it, and it would go astray.
            || brought < kernel.map_or(0, Kernel::brought_bytes)
        {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let (operands, params) = match kernel {
            Some(_) if asked.arguments == 0 => return Err(CUresult::CUDA_ERROR_INVALID_VALUE),
            Some(kernel) => arguments(kernel, asked.arguments),
            None => (Vec::new(), Vec::new()),
        };
        Ok(Launch {
            function: asked.function,
            groups: asked.groups,
            threads: asked.threads,
            operands,
            params,
        })
    }
}

/// The pointers that a kernel is given, and its parameters.
fn arguments(kernel: &Kernel, at: usize) -> (Vec<usize>, Vec<u64>) {
    let at: *const *const u8 = std::ptr::with_exposed_provenance(at);
    let count = kernel.operands();
    let mut params = vec![0u64; kernel.params_bytes().div_ceil(8)];
    // SAFETY: the caller of the launch gives the address of each argument that the kernel's text declares, as long as it
    // is declared, and the parameters come last. There is room for them.
    unsafe {
        let operand = |index| at.add(index).read().cast::<usize>().read_unaligned();
        let operands = (0..count).map(operand).collect();
        let from = at.add(count).read();
        from.copy_to_nonoverlapping(params.as_mut_ptr().cast(), kernel.params_bytes());
        (operands, params)
    }
}

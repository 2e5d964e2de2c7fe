//! Metal's compiler takes the text of every kernel. There are thousands, so a Mac is asked for that by `bench/apple.sh`; the imitation, which
//! compiles them for the CPU, tries some.
#![cfg(any(target_vendor = "apple", metal_sim))]

mod common;
#[path = "../../kernels/tests/text/ops.rs"]
mod ops;
#[path = "../../kernels/tests/text/sources.rs"]
mod sources;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use objc2::rc::{Retained, autoreleasepool};
use objc2::runtime::ProtocolObject;
use objc2_foundation::{NSError, NSString};
use objc2_metal::{
    MTLCompileOptions, MTLCreateSystemDefaultDevice, MTLDevice, MTLLanguageVersion, MTLLibrary,
};
use streampool_kernels::{Dialect, Source};

/// The folder for texts that do not compile, each with what the compiler says of it.
const KEPT: &str = "KERNEL_TEXTS";

/// Of so many texts the imitation tries one.
const SAMPLE: usize = if cfg!(metal_sim) { 101 } else { 1 };

/// Compiles a text down to the code of this GPU.
fn compile(gpu: &ProtocolObject<dyn MTLDevice>, source: &Source) -> Result<(), String> {
    let log = |error: Retained<NSError>| error.localizedDescription().to_string();
    let options = MTLCompileOptions::new();
    options.setLanguageVersion(MTLLanguageVersion::Version3_1);
    #[allow(deprecated, reason = "what replaces it is not there before macOS 15")]
    options.setFastMathEnabled(false);
    let library = gpu
        .newLibraryWithSource_options_error(&NSString::from_str(&source.text), Some(&options))
        .map_err(log)?;
    let function = library
        .newFunctionWithName(&NSString::from_str(source.entry))
        .ok_or_else(|| format!("there is no function {}", source.entry))?;
    gpu.newComputePipelineStateWithFunction_error(&function)
        .map(drop)
        .map_err(log)
}

/// Compiles each on as many threads as there are processors, and keeps those that fail. Says which.
fn failures(sources: &[Source], folder: Option<&Path>) -> Option<Vec<String>> {
    common::device()?;
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let work = || {
        autoreleasepool(|_| {
            let gpu = MTLCreateSystemDefaultDevice().expect("there is one");
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(source) = sources.get(number) else {
                    return;
                };
                let Err(log) = autoreleasepool(|_| compile(&gpu, source)) else {
                    continue;
                };
                let name = format!("{}-{number}", source.entry);
                if let Some(folder) = folder {
                    let file = |ending| folder.join(format!("{name}.{ending}"));
                    std::fs::write(file("metal"), &source.text).expect("the folder is there");
                    std::fs::write(file("log"), &log).expect("the folder is there");
                }
                let failure = format!("{name}: {log}");
                failures.lock().expect("no panic").push(failure);
            }
        })
    };
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    Some(failures.into_inner().expect("no panic"))
}

#[test]
#[cfg_attr(
    any(sanitize_address, sanitize_thread),
    ignore = "runs a compiler for each"
)]
fn every_text_compiles() {
    let folder = std::env::var_os(KEPT).map(PathBuf::from);
    let ops = [ops::all(), ops::drawn()].concat();
    let sources: Vec<Source> = sources::kernels(&ops, Dialect::Metal)
        .into_iter()
        .map(|(_, source)| source)
        .step_by(SAMPLE)
        .collect();
    println!("{} texts", sources.len());
    let Some(failures) = failures(&sources, folder.as_deref()) else {
        return;
    };
    assert!(
        failures.is_empty(),
        "{} of {} texts do not compile\n{}",
        failures.len(),
        sources.len(),
        failures.join("\n")
    );
}

#[test]
#[cfg_attr(
    any(sanitize_address, sanitize_thread),
    ignore = "runs a compiler for each"
)]
fn a_text_that_does_not_compile_is_kept_with_the_log() {
    let folder = std::env::temp_dir().join(format!("kernel texts {}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let (_, right) = sources::kernels(&[streampool_device::Op::Nop], Dialect::Metal).swap_remove(0);
    let wrong = Source {
        entry: right.entry,
        text: format!("{}\nthis is no text", right.text),
        brought: 0,
    };
    let told = failures(&[right, wrong], Some(&folder));
    if let Some(told) = told {
        assert_eq!(told.len(), 1, "{told:?}");
        let text = std::fs::read_to_string(folder.join("nop-1.metal")).expect("it is kept");
        assert!(text.ends_with("this is no text"));
        let log = std::fs::read_to_string(folder.join("nop-1.log")).expect("it is kept");
        assert!(!log.is_empty());
    }
    std::fs::remove_dir_all(&folder).expect("it is ours");
}

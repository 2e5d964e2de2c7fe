//! The C++ compiler of this machine, and what it has compiled before.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use libloading::Library;

use crate::machine::Run;
use crate::text::{Entry, Unit, file};

const OPTIONS: &[&str] = &[
    "-std=c++17",
    "-Og",
    "-fPIC",
    "-c",
    "-w",
    // As on a GPU: integers wrap, and memory has no type. Products are fused with sums where the text says so.
    "-fwrapv",
    "-fno-strict-aliasing",
    "-ffp-contract=off",
    "-fno-exceptions",
    "-fno-rtti",
    // Where machines differ, the shim is called.
    "-fsanitize=alignment,bounds,shift-exponent,integer-divide-by-zero,float-cast-overflow",
];

/// Kernels in one file. The compiler starts slowly, so few; and each processor gets some, so not all.
const BATCH: usize = 16;

/// Characters of what a compiler says.
const LONGEST_LOG: usize = 6000;

/// A compiler, and the folder of what it made.
pub struct Compiler {
    program: String,
    /// What tells its code from another compiler's.
    identity: String,
    folder: PathBuf,
}

/// The code of a kernel.
pub struct Code {
    pub run: Run,
    pub entry: Entry,
    /// Bytes of the arrays that the kernel names.
    pub shared_bytes: usize,
    /// Bytes of an element of each buffer, zero where that is not known.
    pub element_bytes: Vec<usize>,
    /// What `run` lies in.
    _library: Arc<Library>,
}

impl Compiler {
    /// The compiler that `$CXX` names, or else the first of the usual ones that is there.
    pub fn installed() -> Result<Compiler, String> {
        let named = std::env::var("CXX").ok().filter(|name| !name.is_empty());
        let candidates = match &named {
            Some(name) => vec![name.as_str()],
            None => vec!["c++", "g++", "clang++"],
        };
        for program in &candidates {
            let Ok(output) = Command::new(program).arg("--version").output() else {
                continue;
            };
            if output.status.success() {
                let folder = folder()?;
                return Ok(Compiler {
                    program: (*program).to_owned(),
                    identity: format!("{}{OPTIONS:?}", String::from_utf8_lossy(&output.stdout)),
                    folder,
                });
            }
        }
        Err(format!(
            "there is no C++ compiler: {} cannot be run",
            candidates.join(", ")
        ))
    }

    /// The one that is installed, looked for once.
    pub fn shared() -> Result<&'static Compiler, String> {
        static SHARED: OnceLock<Result<Compiler, String>> = OnceLock::new();
        SHARED
            .get_or_init(Compiler::installed)
            .as_ref()
            .map_err(String::clone)
    }

    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// Compiles those of `units` that never were, on all processors. They are of one dialect.
    pub fn compile(&self, units: &[Unit]) -> Result<(), String> {
        let mut missing: Vec<Unit> = units
            .iter()
            .filter(|unit| !self.library(unit).exists())
            .cloned()
            .collect();
        // Kernels that differ may have one text.
        missing.sort_by(|a, b| a.name.cmp(&b.name));
        missing.dedup();
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let batch = missing.len().div_ceil(processors).clamp(1, BATCH);
        let batches: Vec<&[Unit]> = missing.chunks(batch).collect();
        let next = AtomicUsize::new(0);
        let work = || -> Result<(), String> {
            while let Some(units) = batches.get(next.fetch_add(1, Ordering::Relaxed)) {
                self.compile_file(units)?;
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let others: Vec<_> = (1..processors.min(batches.len()))
                .map(|_| scope.spawn(work))
                .collect();
            let own = work();
            let all = others
                .into_iter()
                .map(|other| other.join().expect("compiling does not panic"));
            all.fold(own, Result::and)
        })
    }

    fn compile_file(&self, units: &[Unit]) -> Result<(), String> {
        static FILES: AtomicUsize = AtomicUsize::new(0);
        let number = FILES.fetch_add(1, Ordering::Relaxed);
        let text = self
            .folder
            .join(format!("{}-{number}.cpp", std::process::id()));
        let (object, library) = (text.with_extension("o"), text.with_extension("so"));
        fs::write(&text, file(units)).map_err(|error| failed(&text, error))?;
        let options = units.first().map_or(&[][..], Unit::options);
        self.run(&[OPTIONS, options].concat(), [&object, &text])?;
        // Apart, so that the linker is not told of sanitizers, whose own library may not be there.
        // And without C++'s libraries, which takes most of the linker's time.
        self.run(&["-shared", "-nostdlib", "-lm"], [&library, &object])?;
        // One file, with the name of each kernel that is in it. Another process may have been faster.
        for unit in units {
            let name = self.library(unit);
            if let Err(error) = fs::hard_link(&library, &name)
                && !name.exists()
            {
                return Err(failed(&name, error));
            }
        }
        for done in [text, object, library] {
            fs::remove_file(&done).map_err(|error| failed(&done, error))?;
        }
        Ok(())
    }

    fn run(&self, options: &[&str], [to, from]: [&PathBuf; 2]) -> Result<(), String> {
        let output = Command::new(&self.program)
            .arg("-o")
            .args([to, from])
            .args(options)
            .output()
            .map_err(|error| format!("{} cannot be run: {error}", self.program))?;
        if output.status.success() {
            return Ok(());
        }
        let log = String::from_utf8_lossy(&output.stderr);
        let log: String = log.chars().take(LONGEST_LOG).collect();
        Err(format!(
            "{} does not take {}:\n{log}",
            self.program,
            from.display()
        ))
    }

    fn library(&self, unit: &Unit) -> PathBuf {
        self.folder.join(format!("{}.so", unit.name))
    }

    /// The code of each kernel of a unit that was compiled.
    pub fn load(&self, unit: &Unit) -> Result<Vec<Code>, String> {
        let path = self.library(unit);
        let missing = |error| format!("{}: {error}", path.display());
        // SAFETY: the library is ours and does nothing when it is loaded.
        let library = Arc::new(unsafe { Library::new(&path) }.map_err(missing)?);
        let code = |(number, entry): (usize, &Entry)| {
            let name = &unit.name;
            // SAFETY: the library has both functions for each entry, of these types, and there are as many sizes.
            unsafe {
                let run = *library
                    .get::<Run>(format!("run_{name}_{number}"))
                    .map_err(missing)?;
                let size = *library
                    .get::<unsafe extern "C" fn(u64) -> u64>(format!("size_{name}_{number}"))
                    .map_err(missing)?;
                let buffers = entry.buffers().count() as u64;
                Ok(Code {
                    run,
                    entry: entry.clone(),
                    shared_bytes: size(0) as usize,
                    element_bytes: (1..=buffers).map(|number| size(number) as usize).collect(),
                    _library: library.clone(),
                })
            }
        };
        unit.entries.iter().enumerate().map(code).collect()
    }
}

/// Below the outermost target directory that the running program is in: what is compiled for one build serves the others, with
/// sanitizers and without.
fn folder() -> Result<PathBuf, String> {
    let program =
        std::env::current_exe().map_err(|error| format!("the running program: {error}"))?;
    let deps = program.ancestors().find(|folder| folder.ends_with("deps"));
    let outermost = program
        .ancestors()
        .filter(|folder| folder.ends_with("target"))
        .last();
    let target = outermost.or(deps.and_then(Path::parent));
    let folder = match target {
        Some(target) => target.join("emulated"),
        None => std::env::temp_dir().join("streampool-emulated"),
    };
    fs::create_dir_all(&folder).map_err(|error| failed(&folder, error))?;
    Ok(folder)
}

fn failed(path: &Path, error: std::io::Error) -> String {
    format!("{}: {error}", path.display())
}

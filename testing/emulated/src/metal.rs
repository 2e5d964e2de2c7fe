//! Libraries of Metal text, as an imitation of Metal compiles and runs them.

use std::sync::Arc;

use crate::compiler::{Code, Compiler};
use crate::group::{self, Bound, Launch};
use crate::random::Random;
use crate::text::Unit;
pub use crate::text::{Buffer, Space};

/// What a shared array begins at a multiple of.
const ALIGNMENT: usize = 16;

/// The kernels of a text.
#[derive(Clone)]
pub struct Library {
    functions: Vec<Function>,
}

impl Library {
    /// Compiles a text, unless that was done before; else what is wrong with it.
    pub fn compile(text: &str) -> Result<Library, String> {
        let compiler = Compiler::shared()?;
        let unit = Unit::metal(text, compiler.identity())?;
        compiler.compile(std::slice::from_ref(&unit))?;
        let functions = compiler.load(&unit)?.into_iter();
        Ok(Library {
            functions: functions.map(|code| Function(Arc::new(code))).collect(),
        })
    }

    /// The names of all kernels, in the order of the text.
    pub fn functions(&self) -> impl Iterator<Item = &str> {
        self.functions.iter().map(Function::name)
    }

    /// The kernel of this name.
    pub fn function(&self, name: &str) -> Option<Function> {
        let mut functions = self.functions.iter();
        functions.find(|function| function.name() == name).cloned()
    }
}

/// A kernel of a library. Clones are the same.
#[derive(Clone)]
pub struct Function(Arc<Code>);

/// Memory that is bound for a run.
#[derive(Debug, Clone, Copy)]
pub struct Binding {
    /// Where it is bound.
    pub index: u32,
    /// What the kernel gets.
    pub address: *mut u8,
    /// How many bytes of the same buffer lie before that: distances in memory may be negative.
    pub before: usize,
    /// How many bytes there are from there on.
    pub bytes: usize,
}

impl Function {
    /// Its name in the text.
    pub fn name(&self) -> &str {
        &self.0.entry.name
    }

    /// The buffers it declares, each with the bytes of one element: no less may be bound.
    pub fn buffers(&self) -> impl Iterator<Item = (&Buffer, usize)> {
        let sizes = self.0.element_bytes.iter().copied();
        self.0.entry.buffers().zip(sizes)
    }

    /// The indices of the threadgroup memory it declares.
    pub fn threadgroup_bindings(&self) -> impl Iterator<Item = u32> {
        self.0.entry.lengths()
    }

    /// The most threads that a threadgroup may have, if the text says so.
    pub fn max_total_threads_per_threadgroup(&self) -> Option<u32> {
        self.0.entry.most_threads
    }

    /// Bytes of the threadgroup arrays that its body names.
    pub fn static_threadgroup_bytes(&self) -> usize {
        self.0.shared_bytes
    }

    /// Runs all threads of a grid of `grid` threadgroups on the calling thread, one after the other, and returns
    /// when they have ended. Other threads may run it, too, meanwhile.
    ///
    /// `buffers` has a binding for each buffer it declares, and `threadgroup_lengths` a length in bytes for each
    /// threadgroup memory; more are ignored.
    ///
    /// It fails if something is not bound or bound too short, if threads of a group do not come to a barrier or
    /// an exchange together, and if they touch memory that they were not given.
    ///
    /// # Safety
    /// Each binding is of live memory of so many bytes, and while this runs nobody else writes what the kernel
    /// reads or touches what it writes, but for its atomic functions. A kernel that goes far astray does so in
    /// this process.
    pub unsafe fn run(
        &self,
        grid: [u32; 3],
        threads: [u32; 3],
        buffers: &[Binding],
        threadgroup_lengths: &[(u32, usize)],
    ) -> Result<(), String> {
        if grid.contains(&0) || threads.contains(&0) {
            return Err(format!(
                "nothing runs: {grid:?} threadgroups of {threads:?} threads"
            ));
        }
        let buffers = self.bound(buffers)?;
        let lengths = self.lengths(threadgroup_lengths)?;
        let brought: u64 = lengths.iter().sum();
        let launch = Launch {
            run: self.0.run,
            groups: grid,
            threads,
            buffers: &buffers,
            lengths: &lengths,
            shared_bytes: self.0.shared_bytes + brought as usize,
        };
        group::run(&launch, &mut Random::new(u64::from(grid[0])))
            .map_err(|why| format!("kernel {}: {why}", self.name()))
    }

    /// The memory of each buffer, in the order of the declaration.
    fn bound(&self, given: &[Binding]) -> Result<Vec<Bound>, String> {
        let bound = |(buffer, least): (&Buffer, usize)| {
            let told = |why: &str| {
                let Buffer { index, name, .. } = buffer;
                format!("kernel {}: buffer {index} ({name}) {why}", self.name())
            };
            let binding = given.iter().rfind(|binding| binding.index == buffer.index);
            let binding = binding.ok_or_else(|| told("is not bound"))?;
            match binding.bytes < least {
                true => Err(told(&format!(
                    "has {} bytes of at least {least}",
                    binding.bytes
                ))),
                false => Ok(Bound {
                    address: binding.address,
                    before: binding.before,
                    bytes: binding.bytes,
                }),
            }
        };
        self.buffers().map(bound).collect()
    }

    /// The length of each threadgroup memory, in the order of the declaration.
    fn lengths(&self, given: &[(u32, usize)]) -> Result<Vec<u64>, String> {
        let length = |index: u32| {
            let given = given.iter().rfind(|(other, _)| *other == index);
            let given = given.ok_or_else(|| {
                format!(
                    "kernel {}: threadgroup memory {index} has no length",
                    self.name()
                )
            })?;
            Ok(given.1.next_multiple_of(ALIGNMENT) as u64)
        };
        self.threadgroup_bindings().map(length).collect()
    }
}

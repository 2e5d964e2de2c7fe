//! Kernels of CUDA text, as an imitation of NVIDIA's driver compiles and runs them.

use std::sync::Arc;

use crate::compiler::{Code, Compiler};
use crate::group::{self, Bound, Launch};
use crate::random::Random;
use crate::text::Unit;

const KERNEL: &str = "extern \"C\" __global__ void ";
/// What may stand before its name.
const ATTRIBUTES: [&str; 2] = ["__cluster_dims__(", "__launch_bounds__("];

/// The one kernel of a text, which takes pointers and, last, its parameters by value if it has any: as this project's
/// texts do. Clones are the same.
#[derive(Clone)]
pub struct Kernel(Arc<Code>);

/// Memory that a kernel is given a pointer into.
#[derive(Debug, Clone, Copy)]
pub struct Operand {
    /// What the pointer points to.
    pub address: *mut u8,
    /// How many bytes of the same allocation lie before that.
    pub before: usize,
    /// How many bytes there are from there on.
    pub bytes: usize,
}

impl Kernel {
    /// Compiles a text, unless that was done before; else what is wrong with it.
    pub fn compile(text: &str) -> Result<Kernel, String> {
        let compiler = Compiler::shared()?;
        let (name, operands) = declared(text).ok_or_else(|| {
            format!("a text has one kernel, declared as `{KERNEL}NAME(POINTERS, const Params p)`")
        })?;
        let unit = Unit::cuda(name, text, operands, compiler.identity())?;
        compiler.compile(std::slice::from_ref(&unit))?;
        let code = compiler.load(&unit)?.into_iter().next();
        let code = code.ok_or_else(|| format!("{name} was compiled to nothing"))?;
        Ok(Kernel(Arc::new(code)))
    }

    /// Its name in the text.
    pub fn name(&self) -> &str {
        &self.0.entry.name
    }

    /// How many pointers it takes.
    pub fn operands(&self) -> usize {
        let buffers = self.0.entry.buffers();
        buffers.filter(|buffer| buffer.ty.is_none()).count()
    }

    /// Bytes of its parameters. A pointer's elements are of no known size.
    pub fn params_bytes(&self) -> usize {
        self.0.element_bytes.last().copied().unwrap_or(0)
    }

    /// The most threads that a group may have, if the text says so.
    pub fn most_threads(&self) -> Option<u32> {
        self.0.entry.most_threads
    }

    /// Bytes of the shared arrays that it names.
    pub fn shared_bytes(&self) -> usize {
        self.0.shared_bytes - self.brought_bytes()
    }

    /// Bytes of shared memory that each launch has to bring.
    pub fn brought_bytes(&self) -> usize {
        match self.0.entry.brings {
            true => self.0.shared_bytes,
            false => 0,
        }
    }

    /// Runs all threads of `groups` on the calling thread, one after the other, and returns when they have ended.
    /// Other threads may run it, too, meanwhile. `params` holds at least [`params_bytes`](Self::params_bytes).
    ///
    /// It fails if it is not given what it declares, and if threads of a group do not come to a barrier or an
    /// exchange together.
    ///
    /// # Safety
    /// Each operand is live memory of so many bytes, and while this runs nobody else writes what the kernel reads
    /// or touches what it writes, but for its atomic functions. A kernel that goes astray does so in this process.
    pub unsafe fn run(
        &self,
        groups: [u32; 3],
        threads: [u32; 3],
        operands: &[Operand],
        params: &mut [u64],
    ) -> Result<(), String> {
        let told = |why: &str| format!("kernel {}: {why}", self.name());
        if operands.len() != self.operands() || size_of_val(params) < self.params_bytes() {
            return Err(told("it is not given what it declares"));
        }
        if groups.contains(&0) || threads.contains(&0) {
            return Err(told("it has no threads"));
        }
        let params = Bound {
            address: params.as_mut_ptr().cast(),
            before: 0,
            bytes: size_of_val(params),
        };
        let bound = |operand: &Operand| Bound {
            address: operand.address,
            before: operand.before,
            bytes: operand.bytes,
        };
        let params = (self.params_bytes() > 0).then_some(params);
        let buffers: Vec<Bound> = operands.iter().map(bound).chain(params).collect();
        let launch = Launch {
            run: self.0.run,
            groups,
            threads,
            buffers: &buffers,
            lengths: &[],
            shared_bytes: self.0.shared_bytes,
        };
        group::run(&launch, &mut Random::new(u64::from(groups[0]))).map_err(|why| told(&why))
    }
}

/// The name of the kernel, and how many pointers stand before its parameters.
fn declared(text: &str) -> Option<(&str, usize)> {
    let (_, mut rest) = text.split_once(KERNEL)?;
    for attribute in ATTRIBUTES {
        if let Some(given) = rest.strip_prefix(attribute) {
            rest = given.split_once(") ")?.1;
        }
    }
    let (name, parameters) = rest.split_once('(')?;
    let (parameters, _) = parameters.split_once(") {")?;
    let mut pointers: Vec<&str> = parameters
        .split(", ")
        .filter(|one| !one.is_empty())
        .collect();
    pointers.pop_if(|last| last.starts_with("const Params "));
    let is_right = pointers.iter().all(|one| one.contains('*'));
    is_right.then_some((name, pointers.len()))
}

//! The imitation GPU.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use streampool_device::{Combine, DType, Op};
use streampool_kernels::{
    Dialect, Dispatch, Kernel, Limits, Operand, Plan, Source, lower, lower_to_simdgroups,
};

use crate::compiler::{Code, Compiler};
use crate::group::{self, Bound, Launch};
use crate::guarded::Guarded;
use crate::random::Random;
use crate::regions::Regions;
use crate::text::Unit;

/// Small enough that ops of the sizes of tests are split over groups.
const LIMITS: Limits = Limits {
    compute_units: 8,
    shared_bytes: 48 << 10,
    buffers: 480,
};

/// What a group shares at most on an Apple GPU.
const APPLE_SHARED_BYTES: u32 = 32 << 10;

/// Of its 31 buffers, one is for the parameters.
const APPLE_BUFFERS: u32 = 30;

/// Set where compilers have to be there: then a test that would skip for want of one fails.
const REQUIRED: &str = "REQUIRE_PACKAGES";

/// The launches that execute an op on a device of this size, if there are kernels for it.
pub type Lowering = fn(&Op, &Limits) -> Option<Plan>;

/// Executes the kernels of ops on the CPU.
pub struct Emulator {
    compiler: Compiler,
    dialect: Dialect,
    limits: Limits,
    lowering: Lowering,
    codes: Mutex<HashMap<Kernel, Arc<Code>>>,
    /// What is replaced in each text, to see that what is wrong is found.
    #[cfg(test)]
    pub(crate) broken: Option<(&'static str, &'static str)>,
}

impl Emulator {
    /// With the C++ compiler of this machine and kernels in CUDA's dialect; or why there is none.
    pub fn new() -> Result<Emulator, String> {
        Ok(Emulator {
            compiler: Compiler::installed()?,
            dialect: Dialect::Cuda,
            limits: LIMITS,
            lowering: lower,
            codes: Mutex::default(),
            #[cfg(test)]
            broken: None,
        })
    }

    /// As [`new`](Emulator::new), for tests: without a compiler it says so, and the test is skipped; where
    /// compilers are required, it fails.
    pub fn or_skip() -> Option<Emulator> {
        match Emulator::new() {
            Ok(emulator) => Some(emulator),
            Err(why) => {
                assert!(std::env::var_os(REQUIRED).is_none(), "{why}");
                println!("skipped: {why}");
                None
            }
        }
    }

    /// As [`or_skip`](Emulator::or_skip), one for each dialect.
    pub fn of_each_dialect() -> impl Iterator<Item = Emulator> {
        [Dialect::Cuda, Dialect::Metal]
            .into_iter()
            .filter_map(|dialect| Some(Emulator::or_skip()?.with_dialect(dialect)))
    }

    /// The same, and one with the kernels that only some of Apple's GPUs have.
    pub fn of_each_kind() -> impl Iterator<Item = Emulator> {
        let apple = Emulator::or_skip().map(|emulator| {
            let emulator = emulator.with_dialect(Dialect::Metal);
            emulator.with_lowering(|op, limits| {
                lower_to_simdgroups(op, limits).or_else(|| lower(op, limits))
            })
        });
        Emulator::of_each_dialect().chain(apple)
    }

    /// With kernels in this dialect. In Metal's, the GPU is no larger than Apple's are.
    pub fn with_dialect(self, dialect: Dialect) -> Emulator {
        let limits = self.limits;
        let codes = Mutex::default();
        Emulator {
            dialect,
            codes,
            ..self
        }
        .with_limits(limits)
    }

    /// As if the GPU were of this size.
    pub fn with_limits(self, limits: Limits) -> Emulator {
        let limits = match self.dialect {
            Dialect::Cuda => limits,
            Dialect::Metal => Limits {
                shared_bytes: limits.shared_bytes.min(APPLE_SHARED_BYTES),
                buffers: limits.buffers.min(APPLE_BUFFERS),
                ..limits
            },
        };
        Emulator { limits, ..self }
    }

    /// With other kernels than those that every device has.
    pub fn with_lowering(self, lowering: Lowering) -> Emulator {
        Emulator { lowering, ..self }
    }

    /// The language of its kernels.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Whether the dialect has no words for what `op` does: Metal knows no doubles, and changes at most 32 bits
    /// at once.
    pub fn lacks(&self, op: &Op) -> bool {
        let mut doubles = false;
        op.for_each_operand(|_, _, view| doubles |= view.dtype() == DType::F64);
        let within = match op {
            Op::Map { expr, .. } => expr.nodes().iter().any(|(_, dtype)| *dtype == DType::F64),
            Op::Scatter(op) => op.combine != Combine::Replace && op.dst.dtype().size() == 8,
            _ => false,
        };
        self.dialect == Dialect::Metal && (doubles || within)
    }

    /// Compiles the kernels of `ops`, many at a time: sooner than when each is first executed.
    pub fn prepare<'a>(&self, ops: impl IntoIterator<Item = &'a Op>) -> Result<(), String> {
        let mut dispatches = Vec::new();
        for op in ops {
            dispatches.extend(self.plan(op)?.dispatches);
        }
        self.codes(&dispatches).map(|_| ())
    }

    /// Executes `op`, which was [validated](Op::validate).
    ///
    /// It fails if a kernel does not compile, if its threads do not all come to a barrier or an exchange, and if
    /// it writes anything but the elements that the op writes.
    ///
    /// # Safety
    /// The handles of all operands are addresses of live memory, and nobody else touches that meanwhile. A kernel
    /// that goes far astray does so in this process.
    pub unsafe fn execute(&self, op: &Op) -> Result<(), String> {
        let plan = self.plan(op)?;
        let codes = self.codes(&plan.dispatches)?;
        // SAFETY: passed on from the caller.
        let mut regions = unsafe { Regions::of(op) };
        let mut scratch = Guarded::new(plan.scratch, 0);
        let mut random = Random::new(plan.dispatches.len() as u64);
        for (number, (dispatch, code)) in plan.dispatches.iter().zip(&codes).enumerate() {
            let told = |why| format!("launch {number}, {:?}: {why}", dispatch.kernel);
            self.launch(dispatch, code, &mut regions, &mut scratch, &mut random)
                .map_err(told)?;
            regions.check().map_err(told)?;
            scratch.check("scratch memory").map_err(told)?;
        }
        // SAFETY: passed on from the caller.
        unsafe { regions.put_back() };
        Ok(())
    }

    fn plan(&self, op: &Op) -> Result<Plan, String> {
        (self.lowering)(op, &self.limits)
            .ok_or_else(|| format!("there is no kernel for {}", op.kind()))
    }

    /// The code of the kernel of each of them.
    fn codes(&self, dispatches: &[Box<Dispatch>]) -> Result<Vec<Arc<Code>>, String> {
        let mut units: HashMap<Kernel, Unit> = HashMap::new();
        for dispatch in dispatches {
            let kernel = &dispatch.kernel;
            if units.contains_key(kernel) || self.known(kernel).is_some() {
                continue;
            }
            #[cfg_attr(not(test), expect(unused_mut, reason = "only tests break it"))]
            let mut source = kernel
                .source(self.dialect)
                .ok_or_else(|| format!("{kernel:?} has no text for {:?}", self.dialect))?;
            #[cfg(test)]
            if let Some((right, wrong)) = self.broken {
                source.text = source.text.replace(right, wrong);
            }
            let unit = self.unit(&source, dispatch.operands.len())?;
            units.insert(kernel.clone(), unit);
        }
        let texts: Vec<Unit> = units.values().cloned().collect();
        self.compiler.compile(&texts)?;
        for (kernel, unit) in units {
            let [code] = <[Code; 1]>::try_from(self.compiler.load(&unit)?)
                .map_err(|_| format!("{kernel:?} is one of several in its text"))?;
            let code = Arc::new(code);
            let mut codes = self.codes.lock().unwrap_or_else(PoisonError::into_inner);
            codes.insert(kernel, code);
        }
        let kernels = dispatches.iter().map(|dispatch| &dispatch.kernel);
        let codes = kernels.map(|kernel| self.known(kernel).expect("it was loaded"));
        Ok(codes.collect())
    }

    fn unit(&self, source: &Source, operands: usize) -> Result<Unit, String> {
        let compiler = self.compiler.identity();
        match self.dialect {
            Dialect::Cuda => Unit::cuda(source.entry, &source.text, operands, compiler),
            Dialect::Metal => Unit::metal(&source.text, compiler),
        }
    }

    fn known(&self, kernel: &Kernel) -> Option<Arc<Code>> {
        let codes = self.codes.lock().unwrap_or_else(PoisonError::into_inner);
        codes.get(kernel).cloned()
    }

    fn launch(
        &self,
        dispatch: &Dispatch,
        code: &Code,
        regions: &mut Regions,
        scratch: &mut Guarded,
        random: &mut Random,
    ) -> Result<(), String> {
        let mut params = dispatch.params.as_bytes().to_vec();
        let threads = dispatch.threads;
        let taken = code
            .element_bytes
            .last()
            .map_or(0, |bytes| bytes.next_multiple_of(8));
        if params.len() != taken {
            let given = params.len();
            return Err(format!(
                "{given} bytes of parameters are given and {taken} taken"
            ));
        }
        let indices = code.entry.buffers().map(|buffer| buffer.index as usize);
        if !indices.eq(0..=dispatch.operands.len()) || code.entry.lengths().next().is_some() {
            return Err(format!(
                "it is given its operands and parameters, not {:?}",
                code.entry
            ));
        }
        let most = code.entry.most_threads;
        if threads == 0 || !threads.is_multiple_of(32) || threads > most.unwrap_or(1024) {
            return Err(format!("a group has {threads} threads, at most {most:?}"));
        }
        if dispatch.groups.contains(&0) {
            return Err(format!("it has {:?} groups", dispatch.groups));
        }
        let mut buffers = dispatch
            .operands
            .iter()
            .map(|operand| match operand {
                Operand::Memory(span) => regions.bound(span),
                Operand::Scratch(at) => scratch
                    .bytes_mut()
                    .get_mut(*at..)
                    .map(bound)
                    .ok_or_else(|| format!("byte {at} is beyond the scratch memory")),
            })
            .collect::<Result<Vec<_>, String>>()?;
        buffers.push(bound(&mut params));
        let launch = Launch {
            run: code.run,
            groups: dispatch.groups,
            threads: [threads, 1, 1],
            buffers: &buffers,
            lengths: &[],
            shared_bytes: match code.entry.brings {
                true => code.shared_bytes,
                false => self.limits.shared_bytes as usize,
            },
        };
        group::run(&launch, random)
    }
}

fn bound(bytes: &mut [u8]) -> Bound {
    Bound {
        address: bytes.as_mut_ptr(),
        before: 0,
        bytes: bytes.len(),
    }
}

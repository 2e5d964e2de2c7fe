//! Matrix products by cuBLASLt.
//!
//! The algorithm of a product is chosen once for everything that it depends on and remembered. What the
//! library does not apply to a product, a kernel of ours does after it; what it does not multiply is left to
//! our own kernels wholly.

mod algorithm;
mod descriptors;
mod ending;
mod key;
mod library;
mod problem;
mod product;

use std::sync::{Arc, OnceLock};

use cudarc::driver::sys::CUdeviceptr;
use smallvec::smallvec;
use streampool_device::{CacheReport, DType, MatMul, Op, View};
use streampool_kernels::{Cache, Missing, NotReady, scratch};

use crate::context::Context;
use crate::options::Precision;
use crate::place::start;
use crate::step::{NoSteps, Step, Steps};

use algorithm::{Addresses, Algorithm};
use ending::Way;
use key::{Alignment, Ending, Key, Terms};
use library::Library;
use problem::Problem;

pub(crate) use ending::after_product;
pub(crate) use product::Product;

/// How many algorithms are remembered.
const CAPACITY: usize = 4096;

/// What the library wants the address of a bias to be a multiple of.
const BIAS_ALIGNMENT: u64 = 16;

/// What the library wants the start of its scratch memory to be a multiple of.
const WORKSPACE_ALIGNMENT: usize = 256;

/// The library, and the algorithms chosen so far.
pub(crate) struct Blas {
    library: Option<Arc<Library>>,
    found: Result<String, String>,
    terms: Terms,
    /// `None` for what the library has no algorithm for.
    algorithms: Cache<Key, Option<Arc<Algorithm>>>,
    /// The first failure of the library that was no answer.
    problem: OnceLock<String>,
}

impl Blas {
    /// The context is bound.
    pub fn new(context: &Arc<Context>, precision: Precision) -> Blas {
        let (library, found) = match Library::open(context) {
            Ok((library, version)) => (Some(library), Ok(version)),
            Err(why) => (None, Err(why)),
        };
        // From Hopper on, the fastest algorithms need more.
        let workspace = match context.capability() {
            Ok((9.., _)) => 32 << 20,
            _ => 4 << 20,
        };
        Blas {
            library,
            found,
            terms: Terms {
                precision,
                workspace,
            },
            algorithms: Cache::new("cuda products", CAPACITY),
            problem: OnceLock::new(),
        }
    }

    /// The library and its version, or why there is none.
    pub fn library(&self) -> &Result<String, String> {
        &self.found
    }

    /// The steps of a product that was validated; `None` if it is not for the library. What the library leaves to be done after
    /// it, `lower` lowers. The context is bound.
    pub fn steps(
        &self,
        op: &MatMul,
        missing: Missing,
        lower: impl FnOnce(&Op) -> Result<Steps, NoSteps>,
    ) -> Result<Option<Steps>, NoSteps> {
        let Some(library) = &self.library else {
            return Ok(None);
        };
        if !is_taken(op) {
            return Ok(None);
        }
        let Some(problem) = Problem::of(op) else {
            return Ok(None);
        };
        let fits = op.bias.is_some_and(|bias| {
            problem.takes_bias(op, &bias) && start(&bias).is_multiple_of(BIAS_ALIGNMENT)
        });
        for way in ending::ways(op, fits) {
            let Some(target) = way.target(op) else {
                continue;
            };
            let found = self.product(library, op, &way, &target, problem, missing)?;
            if let Some((product, scratch)) = found {
                return finished(op, &way, &target, product, scratch, lower).map(Some);
            }
        }
        Ok(None)
    }

    /// A product whose result lies at the start of scratch memory, and how much of that it needs in all; `None`
    /// if it is not for the library.
    pub fn to_scratch(
        &self,
        op: &MatMul,
        missing: Missing,
    ) -> Result<Option<(Product, usize)>, NoSteps> {
        let library = self.library.as_ref().filter(|_| is_taken(op));
        let (Some(library), Some(problem)) = (library, Problem::of(op)) else {
            return Ok(None);
        };
        let way = Way {
            ending: Ending::PLAIN,
            waits: true,
        };
        self.product(library, op, &way, &op.out, problem, missing)
    }

    /// What the library does this way, and the scratch memory that it needs; `None` if it does not.
    /// `problem` is that of the op with its own target.
    fn product(
        &self,
        library: &Arc<Library>,
        op: &MatMul,
        way: &Way,
        target: &View,
        problem: Problem,
        missing: Missing,
    ) -> Result<Option<(Product, usize)>, NoSteps> {
        let waits = way.waits;
        let problem = match waits {
            true => Problem::of(&MatMul {
                out: *target,
                ..*op
            }),
            false => Some(problem),
        };
        let Some(problem) = problem else {
            return Ok(None);
        };
        let ([a, b], bias) = (problem.factors(op), op.bias.filter(|_| way.ending.bias));
        let addresses = Addresses {
            a: start(a),
            b: start(b),
            bias: bias.as_ref().map_or(0, start),
            out: if waits { 0 } else { start(&op.out) },
            workspace: 0,
        };
        let key = Key {
            problem,
            factors: a.dtype(),
            result: target.dtype(),
            ending: way.ending,
            alignment: Alignment::of(addresses.a, addresses.b, addresses.out),
        };
        let Some(algorithm) = self.algorithm(library, &key, addresses.bias, missing)? else {
            return Ok(None);
        };
        let workspace_at = match waits {
            true => target.span().bytes.next_multiple_of(WORKSPACE_ALIGNMENT),
            false => 0,
        };
        let scratch = workspace_at + algorithm.workspace;
        let product = Product {
            algorithm,
            addresses,
            waits,
            workspace_at,
            alpha: op.alpha,
        };
        Ok(Some((product, scratch)))
    }

    fn algorithm(
        &self,
        library: &Arc<Library>,
        key: &Key,
        bias: CUdeviceptr,
        missing: Missing,
    ) -> Result<Option<Arc<Algorithm>>, NoSteps> {
        let chosen = self.algorithms.find(key, missing, || {
            Algorithm::choose(library, key, &self.terms, bias)
                .map(|algorithm| algorithm.map(Arc::new))
                .map_err(|status| format!("cuBLASLt chooses no algorithm: {status:?}"))
        });
        match chosen {
            Ok(algorithm) => Ok((*algorithm).clone()),
            Err(NotReady::Missing) => Err(NoSteps::Missing),
            Err(NotReady::Failed(why)) => {
                // Our own kernels take the product; the report says why.
                self.problem.get_or_init(|| why);
                Ok(None)
            }
        }
    }

    pub fn report(&self) -> CacheReport {
        CacheReport {
            problem: self.problem.get().cloned(),
            ..self.algorithms.report()
        }
    }
}

/// Whether the library multiplies such elements, and this alpha.
fn is_taken(op: &MatMul) -> bool {
    let alpha = match op.out.dtype() {
        DType::F64 => op.alpha,
        DType::F32 | DType::F16 | DType::BF16 => f64::from(op.alpha as f32),
        _ => return false,
    };
    // With an alpha of zero the library looks at neither factor, and a NaN in them is lost.
    alpha != 0.0 && alpha.is_finite()
}

/// The library's part, then ours.
fn finished(
    op: &MatMul,
    way: &Way,
    target: &View,
    product: Product,
    scratch: usize,
    lower: impl FnOnce(&Op) -> Result<Steps, NoSteps>,
) -> Result<Steps, NoSteps> {
    let mut steps = Steps {
        list: smallvec![Step::Product(product)],
        of_many: smallvec![],
        scratch,
    };
    if !way.is_all_of(op) {
        let rest = lower(&ending::rest(op, way, target)?)?;
        debug_assert_eq!(rest.scratch, 0, "a map needs no scratch memory");
        steps.list.extend(rest.list.into_iter().map(in_scratch));
    }
    Ok(steps)
}

/// The step with the operand that stands for scratch memory put there.
fn in_scratch(mut step: Step) -> Step {
    if let Step::Launch(launch) = &mut step {
        scratch::place(std::slice::from_mut(&mut launch.dispatch));
    }
    step
}

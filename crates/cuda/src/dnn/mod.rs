//! Convolutions by cuDNN.
//!
//! The algorithm of a convolution is chosen once for everything that it depends on and remembered. Bias and activation
//! are a kernel of ours after it; what the library does not have, or does slowly, is left to our own kernels wholly.

mod algorithm;
mod convolution;
mod problem;
mod session;

use std::sync::{Arc, OnceLock};

use cudarc::cudnn::sys;
use smallvec::smallvec;
use streampool_device::{Activation, CacheReport, Conv, Layout, Op, Result, View};
use streampool_kernels::{Cache, Missing, NotReady};

use crate::blas::after_product;
use crate::context::Context;
use crate::options::Precision;
use crate::place::start;
use crate::step::{NoSteps, Step, Steps};

use algorithm::{Addresses, Algorithm};
use problem::Problem;
use session::Sessions;

pub(crate) use convolution::Convolution;

/// The first version that has all that is used here, as the library numbers its versions.
const OLDEST: usize = 90_100;

/// How many algorithms are remembered.
const CAPACITY: usize = 4096;

/// What the library's fastest algorithms want addresses to be multiples of.
const ALIGNMENT: u64 = 16;

/// The most bytes of scratch memory for one convolution.
const MOST_WORKSPACE: usize = 256 << 20;

/// The library, and the algorithms chosen so far.
pub(crate) struct Dnn {
    sessions: Option<Arc<Sessions>>,
    found: Result<String, String>,
    /// `None` for what the library has no algorithm for.
    algorithms: Cache<Arc<Problem>, Option<Arc<Algorithm>>>,
    /// The first failure of the library that was no answer.
    problem: OnceLock<String>,
}

impl Dnn {
    /// The context is bound.
    pub fn new(context: &Arc<Context>, precision: Precision) -> Dnn {
        let (sessions, found) = match open(context, precision) {
            Ok((sessions, version)) => (Some(Arc::new(sessions)), Ok(version)),
            Err(why) => (
                None,
                Err(format!(
                    "no cuDNN: {why}; convolutions run on slower kernels"
                )),
            ),
        };
        Dnn {
            sessions,
            found,
            algorithms: Cache::new("cuda convolutions", CAPACITY),
            problem: OnceLock::new(),
        }
    }

    /// The library and its version, or why there is none.
    pub fn library(&self) -> &Result<String, String> {
        &self.found
    }

    /// The steps of a convolution that was validated; `None` if it is not for the library. What the library leaves to be done
    /// after it, `lower` lowers. The context is bound.
    pub fn steps(
        &self,
        op: &Conv,
        missing: Missing,
        lower: impl FnOnce(&Op) -> Result<Steps, NoSteps>,
    ) -> Result<Option<Steps>, NoSteps> {
        let Some(sessions) = &self.sessions else {
            return Ok(None);
        };
        let is_aligned = |view: &View| start(view).is_multiple_of(ALIGNMENT);
        if ![&op.src, &op.weight, &op.dst].into_iter().all(is_aligned) {
            return Ok(None);
        }
        let Some(problem) = Problem::of(op).map(Arc::new) else {
            return Ok(None);
        };
        let Some(algorithm) = self.algorithm(sessions, &problem, missing)? else {
            return Ok(None);
        };
        let workspace = algorithm.workspace;
        let mut steps = Steps {
            list: smallvec![Step::Conv(Convolution {
                sessions: sessions.clone(),
                problem,
                algorithm,
                addresses: Addresses {
                    src: start(&op.src),
                    weight: start(&op.weight),
                    dst: start(&op.dst),
                    workspace: 0,
                },
            })],
            of_many: smallvec![],
            scratch: workspace,
        };
        if op.bias.is_some() || op.activation != Activation::None {
            let bias = op
                .bias
                .as_ref()
                .map(|bias| along_channels(bias, op))
                .transpose()?;
            let rest = after_product(&op.dst, bias, op.activation, &op.dst)?;
            let rest = lower(&rest)?;
            debug_assert_eq!(rest.scratch, 0, "a map needs no scratch memory");
            steps.list.extend(rest.list);
        }
        Ok(Some(steps))
    }

    fn algorithm(
        &self,
        sessions: &Sessions,
        problem: &Arc<Problem>,
        missing: Missing,
    ) -> Result<Option<Arc<Algorithm>>, NoSteps> {
        let chosen = self.algorithms.find(problem, missing, || {
            let mut session = sessions
                .take()
                .map_err(|status| format!("cuDNN: {status:?}"))?;
            let _alone = sessions.context.alone();
            Algorithm::choose(&mut session, problem, MOST_WORKSPACE)
                .map(|algorithm| algorithm.map(Arc::new))
                .map_err(|status| format!("cuDNN chooses no algorithm: {status:?}"))
        });
        match chosen {
            Ok(algorithm) => Ok((*algorithm).clone()),
            Err(NotReady::Missing) => Err(NoSteps::Missing),
            Err(NotReady::Failed(why)) => {
                // Our own kernels take the convolution; the report says why.
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

/// Loads the library and opens a first session, with which come its name and version. The error says what is missing.
fn open(context: &Arc<Context>, precision: Precision) -> Result<(Sessions, String), String> {
    // SAFETY: loading the library runs its initialisers, which is what it is loaded for.
    if !unsafe { sys::is_culib_present() } {
        return Err(
            "libcudnn.so.9 is not in the library path (install it, or add its folder to LD_LIBRARY_PATH)"
                .to_owned(),
        );
    }
    // SAFETY: the library is there; the function has no preconditions.
    let version = unsafe { sys::cudnnGetVersion() };
    if version < OLDEST {
        return Err(format!(
            "version {version} is in the library path, and at least {OLDEST} is needed"
        ));
    }
    let (major, minor) = (version / 10_000, version / 100 % 100);
    let sessions = Sessions::new(context.clone(), precision);
    let opened = sessions.take().map(drop);
    opened.map_err(|status| {
        format!("version {major}.{minor} does not start on this GPU ({status:?})")
    })?;
    Ok((sessions, format!("cuDNN {major}.{minor}")))
}

/// The bias as it broadcasts to the result.
fn along_channels(bias: &View, op: &Conv) -> Result<View> {
    let layout = bias.layout();
    let mut shape = [1; 5];
    let mut strides = [0; 5];
    let rank = op.dst.layout().rank();
    (shape[1], strides[1]) = (layout.shape()[0], layout.strides()[0]);
    let layout = Layout::strided(&shape[..rank], &strides[..rank], layout.offset())?;
    View::new(bias.span(), bias.dtype(), layout)
}

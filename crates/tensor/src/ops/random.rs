//! Random numbers that anybody can have again.

use streampool_device::{DType, Distribution, Op, Random};

use super::checks;
use super::formula::wide;
use crate::{Encoder, Error, Pool, Result, Tensor};

/// A sequence of random numbers: the same seed gives the same tensors, on every device, thread and stream.
///
/// It is a value of its own, not a state of the process: who asks it in the same order gets the same numbers. Threads
/// that work at the same time each take one by [`fork`](Self::fork).
///
/// ```
/// # use streampool_host::{HostDevice, HostOptions};
/// # use streampool_tensor::{DType, Generator, Pool};
/// # let pool = Pool::new(HostDevice::new(HostOptions::default())?)?;
/// let (mut a, mut b) = (Generator::new(7), Generator::new(7));
/// let x = a.normal(&pool, &[3], 0.0, 1.0, DType::F32)?;
/// let y = b.normal(&pool, &[3], 0.0, 1.0, DType::F32)?;
/// assert_eq!(x.to_vec::<f32>()?, y.to_vec::<f32>()?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Generator {
    seed: u64,
    offset: u64,
}

impl Generator {
    /// The sequence of this seed, from its start.
    pub const fn new(seed: u64) -> Generator {
        Generator { seed, offset: 0 }
    }

    /// The sequence of this seed, from its place `offset`: each element that is made takes one place.
    pub const fn at(seed: u64, offset: u64) -> Generator {
        Generator { seed, offset }
    }

    /// The seed.
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    /// The place of the next element.
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// The sequence number `index` of those that belong to this one's seed, independent of it and of each other.
    pub const fn fork(&self, index: u64) -> Generator {
        // SplitMix64's finisher over both: neighbouring seeds and indices have nothing in common after it.
        let mut seed = self.seed ^ index.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        seed = (seed ^ (seed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        seed = (seed ^ (seed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        Generator::new(seed ^ (seed >> 31))
    }

    /// Floats from `low` to below `high`, each as likely as any other.
    pub fn uniform(
        &mut self,
        pool: &Pool,
        shape: &[usize],
        low: f64,
        high: f64,
        dtype: DType,
    ) -> Result<Tensor> {
        self.drawn(
            "uniform",
            pool,
            shape,
            Distribution::Uniform { low, high },
            dtype,
        )
    }

    /// Normally distributed floats.
    pub fn normal(
        &mut self,
        pool: &Pool,
        shape: &[usize],
        mean: f64,
        deviation: f64,
        dtype: DType,
    ) -> Result<Tensor> {
        self.drawn(
            "normal",
            pool,
            shape,
            Distribution::Normal { mean, deviation },
            dtype,
        )
    }

    /// Exponentially distributed floats, of mean `1 / rate`.
    pub fn exponential(
        &mut self,
        pool: &Pool,
        shape: &[usize],
        rate: f64,
        dtype: DType,
    ) -> Result<Tensor> {
        self.drawn(
            "exponential",
            pool,
            shape,
            Distribution::Exponential { rate },
            dtype,
        )
    }

    /// Floats with a gamma distribution of this shape parameter, times `scale`.
    pub fn gamma(
        &mut self,
        pool: &Pool,
        shape: &[usize],
        concentration: f64,
        scale: f64,
        dtype: DType,
    ) -> Result<Tensor> {
        if !(scale > 0.0 && scale.is_finite()) {
            let expected = "positive and finite";
            return Err(Error::parameter("gamma", "scale", scale, expected));
        }
        let drawn = self.drawn(
            "gamma",
            pool,
            shape,
            Distribution::Gamma { concentration },
            dtype,
        )?;
        if scale == 1.0 {
            Ok(drawn)
        } else {
            drawn.mul(scale)
        }
    }

    /// 1 (or true) with this probability, else 0; in any type.
    pub fn bernoulli(
        &mut self,
        pool: &Pool,
        shape: &[usize],
        probability: f64,
        dtype: DType,
    ) -> Result<Tensor> {
        self.drawn(
            "bernoulli",
            pool,
            shape,
            Distribution::Bernoulli { probability },
            dtype,
        )
    }

    /// True with the probability that each element of `probabilities`, floats, says.
    pub fn bernoulli_of(&mut self, probabilities: &Tensor) -> Result<Tensor> {
        let op = "bernoulli_of";
        checks::floats(op, "probabilities", probabilities)?;
        let dtype = wide(probabilities.dtype());
        let evenly = Distribution::Uniform {
            low: 0.0,
            high: 1.0,
        };
        let (pool, shape) = (probabilities.pool(), probabilities.shape());
        let drawn = self.drawn(op, pool, shape, evenly, dtype)?;
        drawn.lt(&probabilities.to_dtype(dtype)?)
    }

    /// Integers from `low` to below `high`, in any number type.
    pub fn integers(
        &mut self,
        pool: &Pool,
        shape: &[usize],
        low: i64,
        high: i64,
        dtype: DType,
    ) -> Result<Tensor> {
        self.drawn(
            "integers",
            pool,
            shape,
            Distribution::Integers { low, high },
            dtype,
        )
    }

    /// The numbers from 0 to below `count` in random order, as `i64`.
    pub fn permutation(&mut self, pool: &Pool, count: usize) -> Result<Tensor> {
        // Of 64 bits no two are likely ever to be the same.
        self.drawn(
            "permutation",
            pool,
            &[count],
            Distribution::Bits,
            DType::I64,
        )?
        .argsort(0, false)
    }

    /// For each row of `weights`, `[..., classes]`, `count` draws of a class, as likely as its weight among the row's, as
    /// `i64`: `[..., count]`. Without `replacement` no class is drawn twice. Weights are floats, not negative, and not
    /// all zero; their sum does not matter.
    pub fn multinomial(
        &mut self,
        weights: &Tensor,
        count: usize,
        replacement: bool,
    ) -> Result<Tensor> {
        let op = "multinomial";
        checks::floats(op, "weights", weights)?;
        let (rows, classes) = match weights.shape() {
            [rows @ .., classes] if *classes > 0 => (rows, *classes),
            other => {
                let expected = "[..., classes], with at least one class";
                return Err(Error::shape(op, "weights", other, expected));
            }
        };
        if !replacement && count > classes {
            let expected = format!("at most {classes}, the number of classes");
            return Err(Error::parameter(op, "count", count, expected));
        }
        // Each class waits for an exponential time, shorter the heavier it is: those that come first are drawn.
        let races = if replacement { count } else { 1 };
        let shape = [rows, &[races, classes]].concat();
        let dtype = wide(weights.dtype());
        let rate = Distribution::Exponential { rate: 1.0 };
        let times = self.drawn(op, weights.pool(), &shape, rate, dtype)?;
        // A class without weight never comes, however short its time.
        let times = times.maximum(f64::from(f32::MIN_POSITIVE))?;
        if replacement {
            let weights = weights.to_dtype(dtype)?.unsqueeze(-2)?;
            return times.div(&weights)?.argmin(-1, false);
        }
        let times = times.squeeze(-2)?.div(&weights.to_dtype(dtype)?)?;
        Ok(times.topk(count, -1, false)?.1)
    }

    /// Elements of any distribution.
    pub fn draw(
        &mut self,
        pool: &Pool,
        shape: &[usize],
        distribution: Distribution,
        dtype: DType,
    ) -> Result<Tensor> {
        self.drawn("draw", pool, shape, distribution, dtype)
    }

    fn drawn(
        &mut self,
        op: &'static str,
        pool: &Pool,
        shape: &[usize],
        distribution: Distribution,
        dtype: DType,
    ) -> Result<Tensor> {
        let on = Encoder::new(op, pool)?;
        let mut dst = on.blank(dtype, shape)?;
        on.encode(Op::Random(Random {
            distribution,
            dst: dst.operand()?,
            seed: self.seed,
            offset: self.offset,
        }))
        .map_err(|error| of_type(op, dtype, error))?;
        self.offset = self.offset.wrapping_add(dst.layout().elements() as u64);
        Ok(dst.finish())
    }
}

/// What a device says of a result that a distribution does not come in, said of the type that was asked for.
#[cold]
fn of_type(op: &'static str, dtype: DType, error: Error) -> Error {
    match error {
        Error::Parameter {
            argument: "self",
            expected,
            ..
        } => Error::parameter(op, "dtype", dtype, expected),
        other => other,
    }
}

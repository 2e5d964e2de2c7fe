//! One operator over inputs that lie ready on the device, and where that is.

use std::time::{Duration, Instant};

use streampool::device::DeviceKind;
use streampool::{DType, Pool, Tensor, tensor};

use crate::Result;
use crate::errors::difference;
use crate::figures::seconds_per_call;
use crate::noise::Noise;

/// Where operators are measured, in which precision, and how large.
pub struct Stage {
    /// Where.
    pub pool: Pool,
    /// What is computed with.
    pub dtype: DType,
    /// How often the shapes of one request are repeated, to fill the device.
    pub batch: usize,
    /// Sequences of the recurrent layer.
    pub sequences: usize,
    /// By how much a result may be off, as a fraction of the largest.
    tolerance: f64,
}

impl Stage {
    /// The calling thread's stream of `pool`, with the sizes that its device takes to be busy.
    pub fn new(pool: Pool, dtype: DType, tolerance: f64) -> Stage {
        // `bench/ops/peers.py` has the same.
        let (batch, sequences) = match pool.device().properties().kind {
            DeviceKind::Host => (1, 1),
            DeviceKind::Cuda | DeviceKind::Metal => (256, 2048),
        };
        Stage {
            pool,
            dtype,
            batch,
            sequences,
            tolerance,
        }
    }

    /// Whether it is the host, where each call is waited for.
    pub fn is_host(&self) -> bool {
        self.pool.device().properties().kind == DeviceKind::Host
    }

    /// An input of this shape: values that look random, up to `most`, a power of two.
    pub fn input(&self, noise: &mut Noise, shape: &[usize], most: f32) -> Result<Input> {
        let mut values = noise.values(shape.iter().product());
        values.iter_mut().for_each(|value| *value *= most);
        let tensor = Tensor::from_slice(&self.pool, &values, shape)?.to_dtype(self.dtype)?;
        Ok(Input { values, tensor })
    }

    /// Seconds of one of as many calls as fill `slice`. On the host each is waited for; elsewhere they go one after
    /// the other, and the last is waited for.
    pub fn seconds(&self, slice: Duration, call: &Call) -> Result<f64> {
        let stream = self.pool.current()?;
        seconds_per_call(slice, |calls| {
            stream.synchronize()?;
            let begin = Instant::now();
            for _ in 0..calls {
                call()?;
                if self.is_host() {
                    stream.synchronize()?;
                }
            }
            stream.synchronize()?;
            Ok(begin.elapsed())
        })
    }
}

/// The same values on the device and on the host. Every float type holds them exactly.
pub struct Input {
    /// On the host.
    pub values: Vec<f32>,
    /// On the device.
    pub tensor: Tensor,
}

/// One call of an operator.
pub type Call = Box<dyn Fn() -> tensor::Result<Tensor>>;

/// What an element of the result should be, counted row-major.
pub type Right = Box<dyn Fn(usize) -> f64>;

/// One operator over inputs that lie ready on the device.
pub struct Case {
    /// Its name in the table and in JSON.
    pub name: &'static str,
    /// Floating-point operations of its products, two for each multiply-add. Other arithmetic is not counted.
    pub flops: f64,
    /// Bytes of its operands, as if each was read or written once.
    pub bytes: f64,
    /// Whether nothing but memory should decide how fast it is.
    pub memory_bound: bool,
    /// Computes it.
    pub call: Call,
}

impl Case {
    /// An operator of which nothing is known yet but what it is.
    pub fn new(name: &'static str, call: impl Fn() -> tensor::Result<Tensor> + 'static) -> Case {
        Case {
            name,
            flops: 0.0,
            bytes: 0.0,
            memory_bound: false,
            call: Box::new(call),
        }
    }

    /// With products of so many multiply-adds.
    pub fn multiply_adds(self, count: usize) -> Case {
        Case {
            flops: 2.0 * count as f64,
            ..self
        }
    }

    /// Over operands that have so many bytes together.
    pub fn bytes(self, bytes: usize) -> Case {
        Case {
            bytes: bytes as f64,
            ..self
        }
    }

    /// Over operands that have so many bytes together, which alone should decide.
    pub fn memory_bound(self, bytes: usize) -> Case {
        Case {
            memory_bound: true,
            ..self.bytes(bytes)
        }
    }

    /// Runs it once; an error if some elements of the result are not what `right` says.
    pub fn check(&self, stage: &Stage, right: &Right) -> Result<()> {
        let result = (self.call)()?.to_dtype(DType::F32)?.to_vec::<f32>()?;
        let places = places(result.len());
        let got: Vec<f32> = places.iter().map(|&place| result[place]).collect();
        let right: Vec<f32> = places.iter().map(|&place| right(place) as f32).collect();
        let apart = difference(&got, &right);
        if apart <= stage.tolerance {
            return Ok(());
        }
        Err(format!(
            "{} comes out wrong: off by {apart:.1e} of the largest value, at most {:.0e} is right",
            self.name, stage.tolerance
        )
        .into())
    }
}

/// The ends and some places between them, spread so that they have no rhythm.
fn places(elements: usize) -> Vec<usize> {
    const BETWEEN: usize = 30;
    const GOLDEN: f64 = 0.618_033_988_749_894_9;
    let Some(last) = elements.checked_sub(1) else {
        return Vec::new();
    };
    let between = (1..=BETWEEN).map(|step| {
        let fraction = (step as f64 * GOLDEN).fract();
        (fraction * last as f64) as usize
    });
    [0].into_iter().chain(between).chain([last]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_result_is_an_error() {
        let stage = Stage::new(streampool::host_pool().unwrap(), DType::F32, 1e-5);
        let input = stage.input(&mut Noise::new(1), &[5, 8], 2.0).unwrap();
        let (values, tensor) = (input.values, input.tensor);
        let case = Case::new("itself", move || Ok(tensor.clone()));
        let (same, other) = (values.clone(), values);
        let right: Right = Box::new(move |place| f64::from(same[place]));
        case.check(&stage, &right).unwrap();
        let right: Right = Box::new(move |place| f64::from(other[place]) + 1e-3);
        let wrong = case.check(&stage, &right).unwrap_err().to_string();
        assert!(wrong.starts_with("itself comes out wrong"), "{wrong}");
    }

    #[test]
    fn places_are_inside() {
        assert!(places(0).is_empty());
        assert!(places(1).iter().all(|&place| place == 0));
        let mut some = places(1000);
        assert_eq!((some[0], some[some.len() - 1]), (0, 999));
        some.sort_unstable();
        some.dedup();
        assert!(some.len() > 30 && some[some.len() - 1] == 999, "{some:?}");
    }
}

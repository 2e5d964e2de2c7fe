//! The gamma distribution, by the method of Marsaglia and Tsang.

use super::draw::Source;
use super::math::{Exact, exp, log, radius, turned};
use super::philox::{Key, PLACES, blocks};
use crate::kernels::convert::Float;
use crate::kernels::real::Real;

/// After so many refusals the median of the cubes is taken: it never comes to that.
const MOST_ATTEMPTS: u32 = 64;

/// Floats with a gamma distribution.
pub(super) struct Gamma<T: Float> {
    key: Key,
    d: T::Wide,
    c: T::Wide,
    boost: Option<T::Wide>,
}

/// A float whose attempts are drawn from blocks of its own.
pub(super) trait Attempts: Exact {
    /// The words of attempt `number` at a place: for the radius and the turn of a normal number, for the level of
    /// acceptance, and for the boost.
    fn attempt(key: &Key, place: u64, number: u32) -> [Self::Word; 4];
}

#[inline(always)]
fn block(key: &Key, place: u64, third: u32, fourth: u32) -> [u32; 4] {
    let counter = [place as u32, (place >> 32) as u32, third, fourth];
    blocks(key, counter.map(|word| [word])).map(|[word]| word)
}

impl Attempts for f32 {
    #[inline(always)]
    fn attempt(key: &Key, place: u64, number: u32) -> [u32; 4] {
        block(key, place, 2, number)
    }
}

impl Attempts for f64 {
    #[inline(always)]
    fn attempt(key: &Key, place: u64, number: u32) -> [u64; 4] {
        let [a, b, c, d] = block(key, place, 3, 2 * number);
        let [e, f, g, h] = block(key, place, 3, 2 * number + 1);
        [[a, b], [c, d], [e, f], [g, h]].map(|[low, high]| u64::from(low) | u64::from(high) << 32)
    }
}

impl<T: Float<Wide: Attempts>> Gamma<T> {
    pub(super) fn new(key: Key, d: f64, c: f64, boost: Option<f64>) -> Self {
        Gamma {
            key,
            d: Real::from_f64(d),
            c: Real::from_f64(c),
            boost: boost.map(Real::from_f64),
        }
    }

    #[inline(always)]
    fn at(&self, place: u64) -> T::Wide {
        let one = T::Wide::ONE;
        let mut result = self.d;
        let mut number = 0;
        let mut last;
        loop {
            let [far, turn, level, boost] = T::Wide::attempt(&self.key, place, number);
            last = boost;
            let x = radius::<T::Wide>(far) * turned::<T::Wide>(turn)[0];
            let root = self.c.fma(x, one);
            if root > T::Wide::ZERO {
                let v = root * root * root;
                let half_square = T::Wide::from_f64(0.5) * x * x;
                let most = self.d.fma((one - v) + log(v), half_square);
                if log(T::Wide::positive(level)) < most {
                    result = self.d * v;
                    break;
                }
            }
            number += 1;
            if number == MOST_ATTEMPTS {
                break;
            }
        }
        match self.boost {
            Some(boost) => result * exp(log(T::Wide::positive(last)) * boost),
            None => result,
        }
    }
}

impl<T: Float<Wide: Attempts>> Source for Gamma<T> {
    type Out = T;

    #[inline(always)]
    fn draw(&self, first: u64, drawn: &mut [T; PLACES]) {
        for (index, drawn) in drawn.iter_mut().enumerate() {
            *drawn = T::narrow(self.at(first.wrapping_add(index as u64)));
        }
    }
}

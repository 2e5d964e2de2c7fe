//! How words become elements.

use std::marker::PhantomData;

use super::math::{Exact, log, radius, turned};
use super::philox::{Key, PLACES, Word};
use crate::kernels::convert::{Float, Native, Truth};
use crate::kernels::real::Real;
use half::{bf16, f16};

/// Elements by their places.
pub(super) trait Source: Sync {
    type Out: Native;
    /// Draws the elements of [`PLACES`] places from `first` on, a multiple of that.
    fn draw(&self, first: u64, drawn: &mut [Self::Out; PLACES]);
}

/// An element, and the word that it is made of.
pub(super) trait Element: Native {
    type Word: Word;
    /// The lower bits of the word, of an integer.
    fn from_bits(word: Self::Word) -> Self;
}

macro_rules! elements {
    ($word:ty: $($type:ty),*) => {$(
        impl Element for $type {
            type Word = $word;

            #[inline(always)]
            fn from_bits(word: $word) -> $type {
                Native::of_int(word as i64)
            }
        }
    )*};
}

elements!(u32: u8, u16, u32, f32, f16, bf16, Truth);
elements!(u64: u64, f64);

/// The type that an element of a float type is computed in.
type Wide<T> = <T as Float>::Wide;
/// The word of a float type.
type WordOf<T> = <Wide<T> as Exact>::Word;

/// All integers.
pub(super) struct Bits<T>(Key, PhantomData<T>);

impl<T: Element> Bits<T> {
    pub(super) fn new(key: Key) -> Self {
        Bits(key, PhantomData)
    }
}

impl<T: Element> Source for Bits<T> {
    type Out = T;

    #[inline(always)]
    fn draw(&self, first: u64, drawn: &mut [T; PLACES]) {
        let words = T::Word::words(&self.0, first);
        for (drawn, word) in drawn.iter_mut().zip(words) {
            *drawn = T::from_bits(word);
        }
    }
}

/// Integers of a range.
pub(super) struct Integers<T> {
    key: Key,
    low: i64,
    range: u64,
    element: PhantomData<T>,
}

impl<T: Element> Integers<T> {
    pub(super) fn new(key: Key, low: i64, range: u64) -> Self {
        Integers {
            key,
            low,
            range,
            element: PhantomData,
        }
    }
}

impl<T: Element> Source for Integers<T> {
    type Out = T;

    #[inline(always)]
    fn draw(&self, first: u64, drawn: &mut [T; PLACES]) {
        let words = T::Word::words(&self.key, first);
        for (drawn, word) in drawn.iter_mut().zip(words) {
            *drawn = T::of_int(self.low.wrapping_add(word.share(self.range) as i64));
        }
    }
}

/// One with a probability, else zero.
pub(super) struct Bernoulli<T> {
    key: Key,
    threshold: u64,
    element: PhantomData<T>,
}

impl<T: Element> Bernoulli<T> {
    pub(super) fn new(key: Key, threshold: u64) -> Self {
        Bernoulli {
            key,
            threshold,
            element: PhantomData,
        }
    }
}

impl<T: Element> Source for Bernoulli<T> {
    type Out = T;

    #[inline(always)]
    fn draw(&self, first: u64, drawn: &mut [T; PLACES]) {
        let (zero, one) = (T::of_int(0), T::of_int(1));
        let words = T::Word::words(&self.key, first);
        for (drawn, word) in drawn.iter_mut().zip(words) {
            *drawn = if u64::from(word.head()) < self.threshold {
                one
            } else {
                zero
            };
        }
    }
}

/// Evenly spread floats.
pub(super) struct Uniform<T: Float> {
    key: Key,
    low: Wide<T>,
    high: Wide<T>,
    span: Wide<T>,
}

impl<T: Float<Wide: Exact>> Uniform<T> {
    pub(super) fn new(key: Key, [low, high, span]: [Wide<T>; 3]) -> Self {
        Uniform {
            key,
            low,
            high,
            span,
        }
    }
}

impl<T: Float<Wide: Exact>> Source for Uniform<T> {
    type Out = T;

    #[inline(always)]
    fn draw(&self, first: u64, drawn: &mut [T; PLACES]) {
        let low = T::narrow(self.low);
        let words = WordOf::<T>::words(&self.key, first);
        for (drawn, word) in drawn.iter_mut().zip(words) {
            let value = T::narrow(Wide::<T>::unit(word).fma(self.span, self.low));
            *drawn = if value.widen() >= self.high {
                low
            } else {
                value
            };
        }
    }
}

/// Normally distributed floats, by the method of Box and Muller.
pub(super) struct Normal<T: Float> {
    key: Key,
    mean: Wide<T>,
    deviation: Wide<T>,
}

impl<T: Float<Wide: Exact>> Normal<T> {
    pub(super) fn new(key: Key, [mean, deviation]: [Wide<T>; 2]) -> Self {
        Normal {
            key,
            mean,
            deviation,
        }
    }
}

impl<T: Float<Wide: Exact>> Source for Normal<T> {
    type Out = T;

    #[inline(always)]
    fn draw(&self, first: u64, drawn: &mut [T; PLACES]) {
        let words = WordOf::<T>::words(&self.key, first);
        let (drawn, _) = drawn.as_chunks_mut::<2>();
        let (words, _) = words.as_chunks::<2>();
        for (pair, &[far, turn]) in drawn.iter_mut().zip(words) {
            let (far, [cosine, sine]) = (radius::<Wide<T>>(far), turned::<Wide<T>>(turn));
            pair[0] = T::narrow((far * cosine).fma(self.deviation, self.mean));
            pair[1] = T::narrow((far * sine).fma(self.deviation, self.mean));
        }
    }
}

/// Exponentially distributed floats.
pub(super) struct Exponential<T: Float> {
    key: Key,
    rate: Wide<T>,
}

impl<T: Float<Wide: Exact>> Exponential<T> {
    pub(super) fn new(key: Key, rate: Wide<T>) -> Self {
        Exponential { key, rate }
    }
}

impl<T: Float<Wide: Exact>> Source for Exponential<T> {
    type Out = T;

    #[inline(always)]
    fn draw(&self, first: u64, drawn: &mut [T; PLACES]) {
        let words = WordOf::<T>::words(&self.key, first);
        for (drawn, word) in drawn.iter_mut().zip(words) {
            let minus_log = Wide::<T>::ZERO - log(Wide::<T>::positive(word));
            *drawn = T::narrow(minus_log / self.rate);
        }
    }
}

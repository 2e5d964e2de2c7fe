//! Discrete Fourier transforms. Complex numbers are pairs of a real and an imaginary part along the last axis; a last axis
//! of one element is real parts only.
//!
//! A short transform is one product with the matrix of its waves. A longer one is divided as Cooley and Tukey did it, into
//! transforms of its factors, each again a product. A length with a large prime factor is a convolution of a length that
//! has none (Bluestein). So a transform takes memory in proportion to its length, on every device.

use std::f64::consts::TAU;

use streampool_device::DType;

use super::formula::wide;
use crate::room::{filled, room};
use crate::{Error, Padding, Pool, Result, Tensor};

/// Up to this length a transform is one product.
const DIRECT: usize = 256;
/// The most that a longer one is divided by at once.
const RADIX: usize = 64;
/// Longer ones are refused: the squares of places are counted in 64 bits.
const LONGEST: usize = 1 << 30;

/// What a transform of one length needs: constants that depend on nothing else. They may be made in another pool than
/// what is transformed: [`moved`](Self::moved) says how they get there.
#[derive(Clone)]
pub struct Fourier {
    kind: Kind,
    length: usize,
    /// So many frequencies are wanted.
    kept: usize,
    parts: Parts,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Forward,
    Inverse,
    /// From the frequencies up to the middle to real elements.
    InverseReal,
}

/// A transform of complex numbers, `[rows, 1 or 2, length]` to `[rows, 2, length]`.
#[derive(Clone)]
enum Parts {
    /// One product with `[2 * read, made * elements]`, for so many parts that it makes.
    Product { waves: Tensor, made: usize },
    /// Of each residue, then of what these make.
    Split {
        /// `[2 * radix, 2 * radix]`, multiplied from the left.
        waves: Tensor,
        /// By what the results are turned.
        turn: Turn,
        rest: Box<Parts>,
        radix: usize,
    },
    /// A convolution with a wave whose frequency rises.
    Chirp {
        chirp: Turn,
        response: Turn,
        forward: Box<Parts>,
        back: Box<Parts>,
        longer: usize,
    },
}

/// Complex numbers to multiply by.
#[derive(Clone)]
struct Turn {
    /// `[1, ...]`
    real: Tensor,
    /// `[2, ...]`: the imaginary parts, negative and as they are.
    imaginary: Tensor,
}

impl Fourier {
    /// The first `kept` frequencies of `length` elements, for elements of type `dtype`.
    pub fn forward(pool: &Pool, dtype: DType, length: usize, kept: usize) -> Result<Fourier> {
        Fourier::new(pool, dtype, Kind::Forward, length, kept.min(length))
    }

    /// The elements that have these frequencies.
    pub fn inverse(pool: &Pool, dtype: DType, length: usize) -> Result<Fourier> {
        Fourier::new(pool, dtype, Kind::Inverse, length, length)
    }

    /// The `length` real elements of which these are the frequencies, those up to the middle: the others mirror them.
    pub fn inverse_real(pool: &Pool, dtype: DType, length: usize) -> Result<Fourier> {
        Fourier::new(pool, dtype, Kind::InverseReal, length, length)
    }

    fn new(pool: &Pool, dtype: DType, kind: Kind, length: usize, kept: usize) -> Result<Fourier> {
        if length > LONGEST {
            let expected = format!("at most {LONGEST}");
            return Err(Error::parameter("fft", "length", length, expected));
        }
        let make = Make {
            pool,
            dtype: wide(dtype),
            sign: if kind == Kind::Forward { -1.0 } else { 1.0 },
        };
        let scale = match kind {
            Kind::Forward => 1.0,
            Kind::Inverse | Kind::InverseReal => 1.0 / length.max(1) as f64,
        };
        let parts = match kind {
            Kind::InverseReal if length <= DIRECT => make.real_product(length, scale)?,
            _ if length <= DIRECT => make.product(length, kept, scale)?,
            _ => make.parts(length, scale)?,
        };
        Ok(Fourier {
            kind,
            length,
            kept,
            parts,
        })
    }

    /// With its constants as `each` gives them.
    pub fn moved<E>(&self, mut each: impl FnMut(&Tensor) -> Result<Tensor, E>) -> Result<Self, E> {
        Ok(Fourier {
            parts: self.parts.moved(&mut each)?,
            ..*self
        })
    }

    /// How many elements along the axis are read; zeros stand for those that are not there.
    fn read(&self) -> usize {
        match self.kind {
            Kind::InverseReal => self.length / 2 + 1,
            _ => self.length,
        }
    }

    /// The transform along `axis`: `[..., 1 or 2]` gives `[..., 2]`, or `[..., 1]` where it makes real elements.
    pub fn apply(&self, x: &Tensor, axis: isize) -> Result<Tensor> {
        let op = match self.kind {
            Kind::Forward => "fft",
            Kind::Inverse => "ifft",
            Kind::InverseReal => "irfft",
        };
        let axis = x.axis(op, axis)?;
        let parts = x.shape().last().copied().unwrap_or(0);
        if axis + 1 >= x.rank() || !(1..=2).contains(&parts) {
            let expected = "[..., 1 or 2], and the axis not the last";
            return Err(Error::shape(op, "self", x.shape(), expected));
        }
        super::checks::floats(op, "self", x)?;
        let transformed = self.transformed(x, axis, parts);
        transformed.map_err(|error| error.named(op))
    }

    fn transformed(&self, x: &Tensor, axis: usize, parts: usize) -> Result<Tensor> {
        let taken = fitted(x, axis, self.read())?;
        // `[..., parts, elements]`, with the axis last.
        let rows = taken
            .to_dtype(wide(x.dtype()))?
            .unsqueeze(-1)?
            .transpose(axis as isize, -1)?
            .squeeze(axis as isize)?;
        let (kept, _) = rows.shape().split_at(rows.rank() - 2);
        let count = kept.iter().product::<usize>();
        let flat = rows.reshape(&[count, parts, self.read()])?;
        let product = match (self.kind, &self.parts) {
            (_, Parts::Product { waves, made }) => through(&flat, waves, *made)?,
            (Kind::InverseReal, parts) => parts.apply(&self.mirrored(&flat)?)?.narrow(1, 0, 1)?,
            (_, parts) => parts.apply(&flat)?.narrow(2, 0, self.kept)?,
        };
        let made = &product.shape()[1..];
        let product = product.reshape(&[kept, made].concat())?;
        let back = product
            .unsqueeze(axis as isize)?
            .transpose(axis as isize, -1)?
            .squeeze(-1)?;
        back.to_dtype(x.dtype())
    }

    /// All frequencies: those behind the middle mirror those before it.
    fn mirrored(&self, half: &Tensor) -> Result<Tensor> {
        let half = match half.shape()[1] {
            1 => Tensor::cat(&[half, &half.full_like(0.0)?], 1)?,
            _ => half.clone(),
        };
        let (real, imaginary) = (half.narrow(1, 0, 1)?, half.narrow(1, 1, 1)?);
        // Of the first, and of the middle of an even length, only the real part counts.
        let others = (self.length - 1) / 2;
        let mirror = |part: &Tensor| part.narrow(2, 1, others)?.flip(&[2]);
        let ends = |part: &Tensor| {
            let first = part.narrow(2, 0, 1)?.full_like(0.0)?;
            let inner = part.narrow(2, 1, others)?;
            match self.length.is_multiple_of(2) {
                true => Tensor::cat(&[&first, &inner, &first, &mirror(part)?.neg()?], 2),
                false => Tensor::cat(&[&first, &inner, &mirror(part)?.neg()?], 2),
            }
        };
        let reals = Tensor::cat(&[&real, &mirror(&real)?], 2)?;
        Tensor::cat(&[&reals, &ends(&imaginary)?], 1)
    }
}

/// The first elements along an axis, or all and zeros behind.
fn fitted(x: &Tensor, axis: usize, read: usize) -> Result<Tensor> {
    let own = x.shape()[axis];
    if own >= read {
        return x.narrow(axis as isize, 0, read);
    }
    let mut amounts = vec![(0, 0); x.rank()];
    amounts[axis] = (0, (read - own) as isize);
    x.pad(&amounts, Padding::Constant(0.into()))
}

/// `[rows, parts, read]` through a matrix, of which real parts alone need the first half.
fn through(x: &Tensor, waves: &Tensor, made: usize) -> Result<Tensor> {
    let [rows, parts, read] = [0, 1, 2].map(|axis| x.shape()[axis]);
    let elements = waves.shape()[1] / made;
    let waves = waves.narrow(0, 0, parts * read)?;
    let there = x.reshape(&[rows, parts * read])?.matmul(&waves)?;
    there.reshape(&[rows, made, elements])
}

impl Parts {
    fn moved<E>(&self, each: &mut impl FnMut(&Tensor) -> Result<Tensor, E>) -> Result<Parts, E> {
        Ok(match self {
            Parts::Product { waves, made } => Parts::Product {
                waves: each(waves)?,
                made: *made,
            },
            Parts::Split {
                waves,
                turn,
                rest,
                radix,
            } => Parts::Split {
                waves: each(waves)?,
                turn: turn.moved(each)?,
                rest: Box::new(rest.moved(each)?),
                radix: *radix,
            },
            Parts::Chirp {
                chirp,
                response,
                forward,
                back,
                longer,
            } => Parts::Chirp {
                chirp: chirp.moved(each)?,
                response: response.moved(each)?,
                forward: Box::new(forward.moved(each)?),
                back: Box::new(back.moved(each)?),
                longer: *longer,
            },
        })
    }

    fn apply(&self, x: &Tensor) -> Result<Tensor> {
        let [rows, parts, length] = [0, 1, 2].map(|axis| x.shape()[axis]);
        match self {
            Parts::Product { waves, made } => through(x, waves, *made),
            Parts::Split {
                waves,
                turn,
                rest,
                radix,
            } => {
                let (radix, others) = (*radix, length / radix);
                // Element `i * others + j` to frequency `k + radix * l`: first from `i` to `k`.
                let waves = waves.narrow(1, 0, parts * radix)?;
                let first = waves.matmul(&x.reshape(&[rows, parts * radix, others])?)?;
                let turned = turn.of(&first.reshape(&[rows, 2, radix, others])?)?;
                // Then from `j` to `l`.
                let inner = turned.permute(&[0, 2, 1, 3])?;
                let second = rest.apply(&inner.reshape(&[rows * radix, 2, others])?)?;
                let second = second.reshape(&[rows, radix, 2, others])?;
                let ordered = second.permute(&[0, 2, 3, 1])?;
                ordered.reshape(&[rows, 2, length])
            }
            Parts::Chirp {
                chirp,
                response,
                forward,
                back,
                longer,
            } => {
                let turned = fitted(&chirp.of(x)?, 2, *longer)?;
                let joined = back.apply(&response.of(&forward.apply(&turned)?)?)?;
                chirp.of(&joined.narrow(2, 0, length)?)
            }
        }
    }
}

impl Turn {
    fn moved<E>(&self, each: &mut impl FnMut(&Tensor) -> Result<Tensor, E>) -> Result<Turn, E> {
        Ok(Turn {
            real: each(&self.real)?,
            imaginary: each(&self.imaginary)?,
        })
    }

    /// The products with `[rows, 1 or 2, ...]`.
    fn of(&self, x: &Tensor) -> Result<Tensor> {
        if x.shape()[1] == 1 {
            let imaginary = self.imaginary.narrow(0, 1, 1)?;
            return Tensor::cat(&[&x.mul(&self.real)?, &x.mul(&imaginary)?], 1);
        }
        x.mul(&self.real)?.add(&x.flip(&[1])?.mul(&self.imaginary)?)
    }
}

/// Where constants are made, their type, and which way the waves turn.
struct Make<'a> {
    pool: &'a Pool,
    dtype: DType,
    sign: f64,
}

impl Make<'_> {
    fn tensor(&self, values: Vec<f64>, shape: &[usize]) -> Result<Tensor> {
        if self.dtype == DType::F64 {
            return Tensor::from_vec(self.pool, values)?.reshape(shape);
        }
        let mut single = room(values.len())?;
        single.extend(values.iter().map(|&value| value as f32));
        Tensor::from_vec(self.pool, single)?.reshape(shape)
    }

    /// What part `p` of element `j` gives to part `q` of frequency `k`: `[p, j, q, k]` as a matrix.
    fn waves(&self, period: usize, made: usize, scale: f64) -> Result<Vec<f64>> {
        let wave = waves_of(period, self.sign)?;
        let mut values = room(4 * period * made)?;
        for part in [0, 1] {
            for j in 0..period {
                for q in [0, 1] {
                    values.extend((0..made).map(|k| {
                        let (cos, sin) = wave[j * k % period];
                        // (re + i im) (cos + i sin)
                        scale
                            * match (part, q) {
                                (0, 0) | (1, 1) => cos,
                                (0, _) => sin,
                                (_, _) => -sin,
                            }
                    }));
                }
            }
        }
        Ok(values)
    }

    fn product(&self, length: usize, made: usize, scale: f64) -> Result<Parts> {
        let values = self.waves(length, made, scale)?;
        let waves = self.tensor(values, &[2 * length, 2 * made])?;
        Ok(Parts::Product { waves, made: 2 })
    }

    /// From the frequencies up to the middle to real elements.
    fn real_product(&self, length: usize, scale: f64) -> Result<Parts> {
        let half = length / 2 + 1;
        let wave = waves_of(length, self.sign)?;
        let mut values = room(2 * half * length)?;
        for part in [0, 1] {
            for k in 0..half {
                // Each counts for its mirror image, too, save the first, and the last of an even length.
                let counts = if k == 0 || 2 * k == length { 1.0 } else { 2.0 };
                values.extend((0..length).map(|j| {
                    let (cos, sin) = wave[j * k % length];
                    scale * counts * if part == 0 { cos } else { -sin }
                }));
            }
        }
        let waves = self.tensor(values, &[2 * half, length])?;
        Ok(Parts::Product { waves, made: 1 })
    }

    /// A transform of any length.
    fn parts(&self, length: usize, scale: f64) -> Result<Parts> {
        if length <= DIRECT {
            return self.product(length, length, scale);
        }
        let Some(radix) = (2..=RADIX).rev().find(|&by| length.is_multiple_of(by)) else {
            return self.chirp(length, scale);
        };
        let others = length / radix;
        let plain = self.waves(radix, radix, 1.0)?;
        let size = 2 * radix;
        // From the left: turned over.
        let mut waves = filled(0.0, size * size)?;
        for (place, value) in plain.into_iter().enumerate() {
            waves[place % size * size + place / size] = value;
        }
        let turns = (0..radix).flat_map(|k| (0..others).map(move |j| j * k));
        let wave = waves_of(length, self.sign)?;
        Ok(Parts::Split {
            waves: self.tensor(waves, &[size, size])?,
            turn: self.turn(turns.map(|place| wave[place]), &[radix, others])?,
            rest: Box::new(self.parts(others, scale)?),
            radix,
        })
    }

    fn turn(
        &self,
        numbers: impl Iterator<Item = (f64, f64)> + Clone,
        shape: &[usize],
    ) -> Result<Turn> {
        let count = shape.iter().product::<usize>();
        let (mut real, mut imaginary) = (room(count)?, room(2 * count)?);
        real.extend(numbers.clone().map(|number| number.0));
        imaginary.extend(numbers.clone().map(|number| -number.1));
        imaginary.extend(numbers.map(|number| number.1));
        Ok(Turn {
            real: self.tensor(real, &[&[1], shape].concat())?,
            imaginary: self.tensor(imaginary, &[&[2], shape].concat())?,
        })
    }

    /// j·k = (j² + k² - (k - j)²) / 2: turned by the square of its place, convolved with the opposite, and turned again.
    fn chirp(&self, length: usize, scale: f64) -> Result<Parts> {
        let longer = (2 * length - 1).next_power_of_two();
        let wave = waves_of(2 * length, self.sign)?;
        let square = |place: usize| wave[place * place % (2 * length)];
        let mut response: Vec<(f64, f64)> = filled((0.0, 0.0), longer)?;
        for place in 0..length {
            let (cos, sin) = square(place);
            response[place] = (cos, -sin);
            response[(longer - place) % longer] = (cos, -sin);
        }
        frequencies(&mut response)?;
        let forward = Make {
            sign: -1.0,
            ..*self
        };
        let back = Make { sign: 1.0, ..*self };
        let response = response.iter().map(|&(re, im)| (re * scale, im * scale));
        Ok(Parts::Chirp {
            chirp: self.turn((0..length).map(square), &[length])?,
            response: self.turn(response, &[longer])?,
            forward: Box::new(forward.parts(longer, 1.0)?),
            back: Box::new(back.parts(longer, 1.0 / longer as f64)?),
            longer,
        })
    }
}

/// Cosine and sine of each part of a turn.
fn waves_of(period: usize, sign: f64) -> Result<Vec<(f64, f64)>> {
    let mut waves = room(period)?;
    waves.extend((0..period).map(|place| {
        let (sin, cos) = (TAU * place as f64 / period as f64).sin_cos();
        (cos, sign * sin)
    }));
    Ok(waves)
}

/// The frequencies of a power of two of complex numbers, in their place.
fn frequencies(numbers: &mut [(f64, f64)]) -> Result<()> {
    let count = numbers.len();
    let wave = waves_of(count, -1.0)?;
    let bits = count.trailing_zeros();
    for place in 0..count {
        let mirror = place.reverse_bits() >> (usize::BITS - bits.max(1));
        if bits > 0 && place < mirror {
            numbers.swap(place, mirror);
        }
    }
    let mut half = 1;
    while half < count {
        for begin in (0..count).step_by(2 * half) {
            for at in 0..half {
                let (cos, sin) = wave[at * (count / (2 * half))];
                let (a, b) = (numbers[begin + at], numbers[begin + at + half]);
                let turned = (b.0 * cos - b.1 * sin, b.0 * sin + b.1 * cos);
                numbers[begin + at] = (a.0 + turned.0, a.1 + turned.1);
                numbers[begin + at + half] = (a.0 - turned.0, a.1 - turned.1);
            }
        }
        half *= 2;
    }
    Ok(())
}

impl Tensor {
    /// The frequencies along `axis`, of the first `length` elements, or all and zeros behind: `[..., 1 or 2]` gives
    /// `[..., 2]`.
    pub fn fft(&self, axis: isize, length: usize) -> Result<Tensor> {
        Fourier::forward(self.pool(), self.dtype(), length, length)?.apply(self, axis)
    }

    /// The elements that have these frequencies, the reverse of [`fft`](Self::fft).
    pub fn ifft(&self, axis: isize, length: usize) -> Result<Tensor> {
        Fourier::inverse(self.pool(), self.dtype(), length)?.apply(self, axis)
    }

    /// The `length` real elements of which these are the frequencies, those up to the middle: the others mirror them.
    pub fn irfft(&self, axis: isize, length: usize) -> Result<Tensor> {
        Fourier::inverse_real(self.pool(), self.dtype(), length)?.apply(self, axis)
    }

    /// Pieces of `length` elements along `axis`, each `step` behind the one before, without a copy: along a new axis before
    /// it. They share elements where they overlap.
    pub fn frames(&self, axis: isize, length: usize, step: usize) -> Result<Tensor> {
        let op = "frames";
        let axis = self.axis(op, axis)?;
        let size = self.shape()[axis];
        if length > size || step == 0 {
            let got = format!("{length} and {step}");
            let expected = format!("at most {size} elements, and a step of at least 1");
            return Err(Error::parameter(op, "length and step", got, expected));
        }
        let layout = self.layout();
        let stride = layout.strides()[axis];
        let (mut sizes, mut strides) = (self.shape().to_vec(), layout.strides().to_vec());
        sizes[axis] = length;
        sizes.insert(axis, (size - length) / step + 1);
        // Where there is one piece, nothing is apart.
        strides.insert(axis, stride * step.min(size.max(1)) as isize);
        let layout = streampool_device::Layout::strided(&sizes, &strides, layout.offset())?;
        Ok(self.with_layout(layout))
    }
}

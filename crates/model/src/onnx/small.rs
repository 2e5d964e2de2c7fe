//! Types of less than eight bits, and 8-bit floats: tensors hold their numbers in a wider type.

use streampool_tensor::room::room;
use streampool_tensor::{DType, Tensor};

use crate::error::NodeError;
use crate::graph::{Attribute, Node, Operator, ValueId};

/// A type of elements that are smaller than those of tensors.
#[derive(Clone, Copy, PartialEq)]
pub struct Small {
    element: i32,
    /// Bits of an element.
    bits: usize,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Unsigned,
    Signed,
    /// Only an exponent: a power of two, or not a number.
    Exponent,
    /// A sign, an exponent, and so many bits behind the point.
    Float {
        fraction: usize,
        bias: i32,
        /// Whether the largest exponent is of infinities, or of not-a-numbers, as far as there are any.
        special: Special,
    },
}

#[derive(Clone, Copy, PartialEq)]
enum Special {
    /// All codes are numbers.
    None,
    /// As IEEE has it.
    Ieee,
    /// But one, with all bits set.
    AllSet,
    /// But that of a negative zero.
    NegativeZero,
}

/// How what lies between two powers of two becomes one of them.
#[derive(Clone, Copy, PartialEq)]
pub enum Round {
    /// The larger one.
    Up,
    /// The smaller one.
    Down,
    /// The nearer one, and the larger of two as near.
    Nearest,
}

/// A version of the operator that knows these types.
const CAST_VERSION: i64 = 25;
/// Bits of an `f32` behind the point.
const F32_FRACTION: i64 = 23;

impl Small {
    /// The type that a file means by this number, if it is one of these.
    pub fn of(element: i32) -> Option<Small> {
        let float = |bits, fraction, bias, special| Small {
            element,
            bits,
            kind: Kind::Float {
                fraction,
                bias,
                special,
            },
        };
        let whole = |bits, kind| Small {
            element,
            bits,
            kind,
        };
        Some(match element {
            17 => float(8, 3, 7, Special::AllSet),
            18 => float(8, 3, 8, Special::NegativeZero),
            19 => float(8, 2, 15, Special::Ieee),
            20 => float(8, 2, 16, Special::NegativeZero),
            21 => whole(4, Kind::Unsigned),
            22 => whole(4, Kind::Signed),
            23 => float(4, 1, 1, Special::None),
            24 => whole(8, Kind::Exponent),
            25 => whole(2, Kind::Unsigned),
            26 => whole(2, Kind::Signed),
            _ => return None,
        })
    }

    /// The type of tensors that holds all its numbers.
    pub fn dtype(self) -> DType {
        match self.kind {
            Kind::Unsigned => DType::U8,
            Kind::Signed => DType::I8,
            Kind::Exponent | Kind::Float { .. } => DType::BF16,
        }
    }

    /// Whether these are powers of two, which scales may be.
    pub fn is_exponent(self) -> bool {
        self.kind == Kind::Exponent
    }

    /// An attribute of this name that tells a node of this type.
    pub fn attribute(self, name: &str) -> (String, Attribute) {
        (name.to_owned(), Attribute::Int(self.element.into()))
    }

    /// A node that makes `to` of `from`, as numbers of this type.
    pub fn cast(self, name: &str, from: ValueId, to: ValueId) -> Node {
        Node {
            name: name.to_owned(),
            operator: Operator::onnx("Cast", CAST_VERSION),
            inputs: vec![Some(from)],
            outputs: vec![Some(to)],
            attributes: vec![self.attribute("to")],
        }
    }

    /// The numbers of this type that stand for those of `x`, in the type that holds them. Floats are the nearest, an even one of
    /// two as near. Those beyond the largest become that if they are `saturated`, else infinities or not-a-numbers. Integers
    /// keep their lowest bits. Powers of two are the next above.
    pub fn of_numbers(self, x: &Tensor, saturated: bool) -> Result<Tensor, NodeError> {
        if self.is_exponent() {
            return powers(x, saturated, Round::Up);
        }
        let Kind::Float {
            fraction,
            bias,
            special,
        } = self.kind
        else {
            let above = 32 - self.bits as i64;
            let bits = x.to_dtype(DType::I32)?.bitwise_left_shift(above)?;
            let bits = match self.kind {
                Kind::Signed => bits.bitwise_right_shift(above)?,
                _ => bits
                    .bitwise_right_shift(above)?
                    .bitwise_and((1i64 << self.bits) - 1)?,
            };
            return Ok(bits.to_dtype(self.dtype())?);
        };
        let mut x = x.to_dtype(DType::F32)?;
        let most = f64::from(self.largest());
        if saturated {
            x = x.is_nan()?.where_cond(&x, &x.clamp(-most, most)?)?;
        }
        // The bits that go are rounded away.
        let gone = F32_FRACTION - fraction as i64;
        let bits = x.bit_cast(DType::I32)?;
        let odd = bits.bitwise_right_shift(gone)?.bitwise_and(1)?;
        let rounded = bits.add(&odd)?.add((1i64 << (gone - 1)) - 1)?;
        let kept = rounded
            .bitwise_right_shift(gone)?
            .bitwise_left_shift(gone)?
            .bit_cast(DType::F32)?;
        // Below the least number with all its bits, numbers are equally far from each other.
        let (least, step) = (2f64.powi(1 - bias), 2f64.powi(1 - bias - fraction as i32));
        let fine = x.div(step)?.round()?.mul(step)?;
        let mut y = x.abs()?.lt(least)?.where_cond(&fine, &kept)?;
        if !saturated {
            let beyond = y.abs()?.gt(most)?;
            y = match special {
                Special::Ieee => beyond.where_cond(&y.sign()?.mul(f64::INFINITY)?, &y)?,
                Special::None => y.clamp(-most, most)?,
                _ => beyond.where_cond(f64::NAN, &y)?,
            };
        }
        // Rounding is for numbers.
        let y = match special {
            Special::None => x.is_nan()?.where_cond(-0.0, &y)?,
            Special::NegativeZero => x.is_nan()?.where_cond(&x, &y.add(0.0)?)?,
            _ => x.is_nan()?.where_cond(&x, &y)?,
        };
        Ok(y.to_dtype(DType::BF16)?)
    }

    /// The nearest numbers of this type to `scaled`, plus a zero point, as far as they go.
    pub fn quantised(
        self,
        scaled: &Tensor,
        zero: Option<&Tensor>,
        saturated: bool,
    ) -> Result<Tensor, NodeError> {
        let scaled = scaled.to_dtype(DType::F32)?;
        let moved = |x: &Tensor| match zero {
            Some(zero) => x.add(&zero.to_dtype(DType::F32)?),
            None => Ok(x.clone()),
        };
        let (low, high) = match self.kind {
            Kind::Exponent | Kind::Float { .. } => {
                return self.of_numbers(&moved(&scaled)?, saturated);
            }
            Kind::Unsigned => (0.0, 2f64.powi(self.bits as i32) - 1.0),
            Kind::Signed => {
                let half = 2f64.powi(self.bits as i32 - 1);
                (-half, half - 1.0)
            }
        };
        let whole = moved(&scaled.round()?)?.clamp(low, high)?;
        Ok(whole.to_dtype(self.dtype())?)
    }

    /// The largest of its floats.
    fn largest(self) -> f32 {
        let codes = 0..=0xff >> (9 - self.bits);
        let finite = codes.map(|code| self.float(code)).filter(|x| x.is_finite());
        finite.fold(0.0, f32::max)
    }

    /// The bytes of so many elements in a file.
    pub fn packed(self, count: usize) -> usize {
        count.div_ceil(8 / self.bits)
    }

    /// So many elements, which lie packed with the first in the lowest bits, in the type of tensors.
    pub fn widened(self, packed: &[u8], count: usize) -> Result<Vec<u8>, NodeError> {
        let bytes = count.saturating_mul(self.dtype().size());
        let mut wide = room(bytes)?;
        let each = 8 / self.bits;
        for place in 0..count {
            let byte = packed.get(place / each).copied().unwrap_or(0);
            let code = (byte >> (place % each * self.bits)) & (0xff >> (8 - self.bits));
            match self.kind {
                Kind::Unsigned => wide.push(code),
                Kind::Signed => {
                    let up = 8 - self.bits as u32;
                    wide.push((((code << up).cast_signed()) >> up).cast_unsigned());
                }
                Kind::Exponent | Kind::Float { .. } => {
                    let value = half::bf16::from_f32(self.float(code));
                    wide.extend(value.to_ne_bytes());
                }
            }
        }
        Ok(wide)
    }

    /// The number of a code of a float.
    fn float(self, code: u8) -> f32 {
        if self.is_exponent() {
            return match code {
                u8::MAX => f32::NAN,
                code => f32::from_bits(power_bits(code)),
            };
        }
        let Kind::Float {
            fraction,
            bias,
            special,
        } = self.kind
        else {
            return f32::from(code);
        };
        let magnitude = code & ((1 << (self.bits - 1)) - 1);
        let sign = if code == magnitude { 1.0 } else { -1.0 };
        let behind = magnitude & ((1 << fraction) - 1);
        let exponent = i32::from(magnitude >> fraction);
        let largest = (1 << (self.bits - 1 - fraction)) - 1;
        match special {
            Special::Ieee if exponent == largest && behind == 0 => return sign * f32::INFINITY,
            Special::Ieee if exponent == largest => return f32::NAN,
            Special::AllSet if magnitude == (1 << (self.bits - 1)) - 1 => return f32::NAN,
            Special::NegativeZero if code != 0 && magnitude == 0 => return f32::NAN,
            _ => {}
        }
        let behind = f32::from(behind) / (1u32 << fraction) as f32;
        match exponent {
            0 => sign * behind * 2f32.powi(1 - bias),
            _ => sign * (1.0 + behind) * 2f32.powi(exponent - bias),
        }
    }
}

/// The bits, as `f32`, of the power of two with this code. The least has no exponent there.
fn power_bits(code: u8) -> u32 {
    match code {
        0 => 1 << (F32_FRACTION - 1),
        code => u32::from(code) << F32_FRACTION,
    }
}

/// The powers of two from 2^-127 to 2^127 that stand for numbers, whose signs do not count. What is beyond these is the nearest of
/// them if it is `saturated`, else not a number.
pub fn powers(x: &Tensor, saturated: bool, round: Round) -> Result<Tensor, NodeError> {
    const LEAST: i64 = 1 << (F32_FRACTION - 1);
    const LARGEST: u8 = u8::MAX - 1;
    let x = x.to_dtype(DType::F32)?.abs()?;
    let bits = x.bit_cast(DType::I32)?;
    let more = match round {
        Round::Up => (1i64 << F32_FRACTION) - 1,
        Round::Down => 0,
        Round::Nearest => 1 << (F32_FRACTION - 1),
    };
    // No sum overflows: what is beyond the largest comes to that first.
    let most = i64::from(power_bits(LARGEST));
    let whole = bits.minimum(most)?.add(more)?;
    let whole = whole
        .bitwise_right_shift(F32_FRACTION)?
        .bitwise_left_shift(F32_FRACTION)?;
    let is_least = bits.le(LEAST)?.logical_or(&whole.eq(0)?)?;
    let powers = is_least.where_cond(LEAST, &whole)?.bit_cast(DType::F32)?;
    let mut is_none = x.is_nan()?;
    if !saturated {
        // No number is between infinity and not-a-number.
        let beyond = bits.gt(most)?.logical_or(&bits.lt(LEAST)?)?;
        is_none = is_none.logical_or(&beyond)?;
    }
    Ok(is_none
        .where_cond(f64::NAN, &powers)?
        .to_dtype(DType::BF16)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Random, host_pool};

    fn numbers(element: i32, codes: &[u8], count: usize) -> Vec<f32> {
        let small = Small::of(element).expect("a small type");
        let wide = small.widened(codes, count).expect("room");
        match small.dtype() {
            DType::U8 => wide.iter().map(|&value| value.into()).collect(),
            DType::I8 => wide
                .iter()
                .map(|value| value.cast_signed().into())
                .collect(),
            _ => {
                let pairs = wide.chunks_exact(2);
                pairs
                    .map(|pair| half::bf16::from_ne_bytes([pair[0], pair[1]]).to_f32())
                    .collect()
            }
        }
    }

    #[test]
    fn codes_are_the_numbers_that_onnx_says() {
        assert_eq!(numbers(21, &[0x1f, 0x08], 3), [15.0, 1.0, 8.0]);
        assert_eq!(numbers(22, &[0x7f, 0x08], 3), [-1.0, 7.0, -8.0]);
        assert_eq!(numbers(25, &[0b11_10_01_00], 4), [0.0, 1.0, 2.0, 3.0]);
        assert_eq!(numbers(26, &[0b11_10_01_00], 4), [0.0, 1.0, -2.0, -1.0]);
        assert_eq!(numbers(23, &[0x71, 0xaf], 4), [0.5, 6.0, -6.0, -1.0]);
        assert_eq!(
            numbers(17, &[0x7e, 0x38, 0x01], 3),
            [448.0, 1.0, 2f32.powi(-9)]
        );
        assert_eq!(
            numbers(19, &[0x7b, 0x3c, 0xfc], 3),
            [57344.0, 1.0, f32::NEG_INFINITY]
        );
        assert_eq!(numbers(18, &[0x7f, 0x40], 2), [240.0, 1.0]);
        assert_eq!(numbers(20, &[0x7f, 0x40], 2), [57344.0, 1.0]);
        assert!(numbers(17, &[0x7f], 1)[0].is_nan() && numbers(18, &[0x80], 1)[0].is_nan());
    }

    /// Every number of a type, with its code.
    fn all(small: Small) -> Vec<(u8, f32)> {
        let codes = 0..=(0xff >> (8 - small.bits)) as u8;
        let numbers = codes.map(|code| (code, small.float(code)));
        numbers.filter(|(_, number)| number.is_finite()).collect()
    }

    /// The nearest number, and of two as near that of the even code.
    fn nearest(numbers: &[(u8, f32)], x: f32) -> f32 {
        let far = |number: f32| (f64::from(number) - f64::from(x)).abs();
        let by = |one: &&(u8, f32), other: &&(u8, f32)| {
            far(one.1)
                .total_cmp(&far(other.1))
                .then((one.0 % 2).cmp(&(other.0 % 2)))
        };
        numbers.iter().min_by(by).unwrap().1
    }

    #[test]
    fn floats_become_the_nearest() {
        let pool = host_pool();
        let mut random = Random::new(8);
        for element in [17, 18, 19, 20, 23] {
            let small = Small::of(element).unwrap();
            let numbers = all(small);
            let mut given: Vec<f32> = numbers.iter().map(|number| number.1).collect();
            // Halfway between two, and a little to each side.
            let mut sorted = given.clone();
            sorted.sort_by(f32::total_cmp);
            for two in sorted.windows(2) {
                let half = two[0] + (two[1] - two[0]) / 2.0;
                given.extend([half, half.next_up(), half.next_down()]);
            }
            for _ in 0..4000 {
                let size = 2f32.powf(random.below(4200) as f32 / 100.0 - 24.0);
                given.push(if random.below(2) == 0 { size } else { -size });
            }
            let x = Tensor::from_slice(&pool, &given, &[given.len()]).unwrap();
            let y = small.of_numbers(&x, true).unwrap();
            let y = y.to_dtype(DType::F32).unwrap().to_vec::<f32>().unwrap();
            for (&x, &y) in given.iter().zip(&y) {
                assert_eq!(y, nearest(&numbers, x), "{x:e} as {element}");
                assert!(y != 0.0 || !y.is_sign_negative() || element != 18 && element != 20);
            }
        }
    }

    #[test]
    fn what_is_beyond_all_is_the_largest_or_no_number() {
        let pool = host_pool();
        let given = [f32::INFINITY, f32::NEG_INFINITY, 1e9, f32::NAN];
        let x = Tensor::from_slice(&pool, &given, &[4]).unwrap();
        let of = |element, saturated| -> Vec<f32> {
            let y = Small::of(element)
                .unwrap()
                .of_numbers(&x, saturated)
                .unwrap();
            y.to_dtype(DType::F32).unwrap().to_vec().unwrap()
        };
        let infinite = f32::INFINITY;
        for (element, most) in [
            (17, 448.0),
            (18, 240.0),
            (19, 57344.0),
            (20, 57344.0),
            (23, 6.0),
        ] {
            let y = of(element, true);
            assert_eq!(y[..3], [most, -most, most]);
            assert!(y[3].is_nan() || element == 23 && y[3] == 0.0);
        }
        assert!(
            of(17, false)
                .iter()
                .chain(&of(20, false))
                .all(|y| y.is_nan())
        );
        assert_eq!(of(19, false)[..3], [infinite, -infinite, infinite]);
    }

    #[test]
    fn powers_of_two_are_the_next_ones() {
        let pool = host_pool();
        let least = 2f32.powi(-127);
        let most = 2f32.powi(127);
        let of = |given: &[f32], saturated, round| -> Vec<f32> {
            let x = Tensor::from_slice(&pool, given, &[given.len()]).unwrap();
            let y = powers(&x, saturated, round).unwrap();
            y.to_dtype(DType::F32).unwrap().to_vec().unwrap()
        };
        let all: Vec<f32> = (0..255)
            .map(|code| Small::of(24).unwrap().float(code))
            .collect();
        assert_eq!((all[0], all[127], all[254]), (least, 1.0, most));
        for round in [Round::Up, Round::Down, Round::Nearest] {
            assert_eq!(of(&all, true, round), all);
            assert_eq!(of(&all, false, round), all);
        }
        let given = [0.124, 1.1, 1.5, 3.0, 0.0, f32::INFINITY, 1.5 * most];
        let eighth = 0.125;
        let up = of(&given, true, Round::Up);
        assert_eq!(up, [eighth, 2.0, 2.0, 4.0, least, most, most]);
        let down = of(&given, true, Round::Down);
        assert_eq!(down, [eighth / 2.0, 1.0, 1.0, 2.0, least, most, most]);
        let nearest = of(&given, false, Round::Nearest);
        assert_eq!(nearest[..4], [eighth, 1.0, 2.0, 4.0]);
        assert!(nearest[4..].iter().all(|y| y.is_nan()));
        assert!(of(&[f32::NAN], true, Round::Up)[0].is_nan());
    }

    #[test]
    fn integers_keep_their_lowest_bits_and_are_quantised_within_their_range() {
        let pool = host_pool();
        let given = [-9i32, -8, -1, 0, 7, 8, 15, 16, 21];
        let x = Tensor::from_slice(&pool, &given, &[given.len()]).unwrap();
        let of = |element| Small::of(element).unwrap().of_numbers(&x, true).unwrap();
        let signed = [7i8, -8, -1, 0, 7, -8, -1, 0, 5];
        assert_eq!(of(22).to_vec::<i8>().unwrap(), signed);
        let unsigned = [7u8, 8, 15, 0, 7, 8, 15, 0, 5];
        assert_eq!(of(21).to_vec::<u8>().unwrap(), unsigned);
        let scaled = Tensor::from_slice(&pool, &[-9.5f32, -1.5, 0.5, 6.5, 99.0], &[5]).unwrap();
        let one = Tensor::from_slice(&pool, &[1i8], &[]).unwrap();
        let quantised = |element, zero| {
            let small = Small::of(element).unwrap();
            small.quantised(&scaled, zero, true).unwrap()
        };
        assert_eq!(
            quantised(22, Some(&one)).to_vec::<i8>().unwrap(),
            [-8, -1, 1, 7, 7]
        );
        assert_eq!(
            quantised(21, None).to_vec::<u8>().unwrap(),
            [0, 0, 0, 6, 15]
        );
        assert_eq!(
            quantised(26, None).to_vec::<i8>().unwrap(),
            [-2, -2, 0, 1, 1]
        );
    }
}

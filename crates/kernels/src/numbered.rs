//! Dimensions gone over in row-major order, as few as will do, and the kernel text that finds an element by its
//! number.

use std::fmt::Write;

use smallvec::SmallVec;
use streampool_device::MAX_RANK;

use crate::Params;
use crate::text::Field;

/// A size, and the stride of each of `N` operands.
type Dim<const N: usize> = (usize, [i64; N]);

/// The dimensions of `N` operands of one shape, the outermost first: none of size one, and neighbours that are one
/// dimension in every operand merged.
#[derive(Debug, Clone)]
pub(crate) struct Numbered<const N: usize>(SmallVec<[Dim<N>; MAX_RANK]>);

impl<const N: usize> Numbered<N> {
    pub fn new(shape: &[usize], strides: [&[isize]; N]) -> Numbered<N> {
        let mut dims: SmallVec<[Dim<N>; MAX_RANK]> = SmallVec::new();
        for (axis, &size) in shape.iter().enumerate() {
            if size == 1 {
                continue;
            }
            let steps = strides.map(|strides| strides[axis] as i64);
            match dims.last_mut() {
                Some((outer, outer_steps)) if ends(steps, size) == *outer_steps => {
                    *outer *= size;
                    *outer_steps = steps;
                }
                _ => dims.push((size, steps)),
            }
        }
        Numbered(dims)
    }

    pub fn rank(&self) -> u8 {
        self.0.len() as u8
    }

    pub fn elements(&self) -> usize {
        self.0.iter().map(|(size, _)| size).product()
    }

    /// Whether the elements of each operand lie one behind the other.
    pub fn is_dense(&self) -> bool {
        match &self.0[..] {
            [] => true,
            [(_, steps)] => steps.iter().all(|&step| step == 1),
            _ => false,
        }
    }

    /// The parameters that [`locate`] reads.
    pub fn params(&self, mut params: Params) -> Params {
        for (size, steps) in &self.0 {
            params = params.i64(*size as i64);
            for &step in steps {
                params = params.i64(step);
            }
        }
        params
    }
}

/// The strides that a dimension outside of this one has if it goes on where this one ends.
fn ends<const N: usize>(steps: [i64; N], size: usize) -> [i64; N] {
    steps.map(|step| step.wrapping_mul(size as i64))
}

/// The fields of [`Numbered::params`] for so many dimensions.
pub(crate) fn fields(rank: u8, operands: &[&str]) -> Vec<Field> {
    let mut fields = Vec::new();
    for axis in 0..rank {
        fields.push(Field::new("i64", format!("size_{axis}")));
        for operand in operands {
            fields.push(Field::new("i64", format!("{operand}_step_{axis}")));
        }
    }
    fields
}

/// A function that the text of [`locate`] calls.
pub(crate) const FUNCTIONS: &str = "\
// Division of wide integers is slow, and mostly they are not.
FUNCTION u64 divided(u64 a, u64 b) {
    return ((a | b) >> 32) == 0 ? u64(u32(a) / u32(b)) : a / b;
}
";

/// Statements that add the place of the element `number` to the variable `NAME_at` of each operand.
pub(crate) fn locate(rank: u8, number: &str, operands: &[&str]) -> String {
    let mut text = format!("    {{ u64 rest = u64({number});\n");
    for axis in (1..rank).rev() {
        let _ = writeln!(
            text,
            "    {{ const u64 next = divided(rest, u64(p.size_{axis}));\n      \
             const i64 index = i64(rest - next * u64(p.size_{axis})); rest = next;"
        );
        for operand in operands {
            let _ = writeln!(
                text,
                "      {operand}_at += index * p.{operand}_step_{axis};"
            );
        }
        text.push_str("    }\n");
    }
    if rank > 0 {
        for operand in operands {
            let _ = writeln!(
                text,
                "      {operand}_at += i64(rest) * p.{operand}_step_0;"
            );
        }
    }
    text.push_str("    }\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dimensions_that_go_on_in_every_operand_become_one() {
        let dims = Numbered::new(&[2, 1, 3, 4], [&[12, 7, 4, 1], &[24, 0, 4, 1]]);
        assert_eq!(&dims.0[..], [(2, [12, 24]), (12, [1, 1])]);
        assert_eq!(
            (dims.rank(), dims.elements(), dims.is_dense()),
            (2, 24, false)
        );
        assert!(Numbered::new(&[2, 3], [&[3, 1]]).is_dense());
        assert!(
            Numbered::new(&[1, 1], [&[5, 7]]).is_dense(),
            "a single element"
        );
        assert_eq!(Numbered::new(&[3, 0], [&[9, 1]]).elements(), 0);
    }

    #[test]
    fn the_order_is_that_of_the_shape() {
        let dims = Numbered::new(&[3, 4], [&[1, 3]]);
        assert_eq!(&dims.0[..], [(3, [1]), (4, [3])]);
        let params = dims.params(Params::new());
        let values: Vec<i64> = params
            .as_bytes()
            .chunks(8)
            .map(|bytes| i64::from_le_bytes(bytes.try_into().expect("eight bytes")))
            .collect();
        assert_eq!(values, [3, 1, 4, 3]);
        let names: Vec<String> = fields(2, &["dst"])
            .into_iter()
            .map(|field| field.name)
            .collect();
        assert_eq!(names, ["size_0", "dst_step_0", "size_1", "dst_step_1"]);
    }
}

//! The dimensions of a few operands at once, as few as will do, and the kernel text that finds an element
//! by them.

use std::fmt::Write;

use streampool_device::MAX_RANK;

use crate::Params;
use crate::text::Field;

/// A dimension: its size and the stride of each operand along it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dim<const N: usize> {
    pub size: usize,
    pub strides: [isize; N],
}

/// Dimensions, the outermost first. None has size one, and the first operand's stride falls, so that the
/// last dimension is the one along which its elements are neighbours. (Where it repeats its elements, the
/// dimension comes first.)
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dims<const N: usize> {
    dims: [Dim<N>; MAX_RANK],
    rank: usize,
}

impl<const N: usize> Dims<N> {
    /// The fewest dimensions that name the same elements as these, though in another order.
    pub fn collapsed(given: impl Iterator<Item = Dim<N>>) -> Dims<N> {
        let mut dims = Dims::none();
        for dim in given {
            match dim.size {
                0 => {
                    (dims.dims[0], dims.rank) = (dim, 1);
                    return dims;
                }
                1 => {}
                _ => dims.insert(dim),
            }
        }
        dims.merge();
        dims
    }

    fn none() -> Dims<N> {
        let unit = Dim {
            size: 1,
            strides: [0; N],
        };
        Dims {
            dims: [unit; MAX_RANK],
            rank: 0,
        }
    }

    fn insert(&mut self, dim: Dim<N>) {
        let mut at = self.rank;
        while at > 0 && self.dims[at - 1].distance() < dim.distance() {
            self.dims[at] = self.dims[at - 1];
            at -= 1;
        }
        self.dims[at] = dim;
        self.rank += 1;
    }

    /// Makes one of neighbours that every operand passes through in equal steps.
    fn merge(&mut self) {
        let mut merged = 0;
        for at in 0..self.rank {
            let dim = self.dims[at];
            match self.dims[..merged].last_mut() {
                Some(outer) if outer.steps_over(&dim) => {
                    outer.size *= dim.size;
                    outer.strides = dim.strides;
                }
                _ => {
                    self.dims[merged] = dim;
                    merged += 1;
                }
            }
        }
        self.rank = merged;
    }

    pub fn as_slice(&self) -> &[Dim<N>] {
        &self.dims[..self.rank]
    }

    fn as_mut_slice(&mut self) -> &mut [Dim<N>] {
        &mut self.dims[..self.rank]
    }

    pub fn elements(&self) -> usize {
        self.as_slice().iter().map(|dim| dim.size).product()
    }

    /// The dimension along which elements are closest; of size one and stride zero if there is none.
    pub fn innermost(&self) -> Dim<N> {
        self.as_slice().last().copied().unwrap_or(Dim {
            size: 1,
            strides: [0; N],
        })
    }

    /// Whether all strides of an operand are multiples of `pack`.
    pub fn keep_alignment(&self, operand: usize, pack: usize) -> bool {
        let pack = pack as isize;
        self.as_slice()
            .iter()
            .all(|dim| dim.strides[operand] % pack == 0)
    }

    /// Whether the elements of an operand can be taken `pack` neighbours at a time.
    pub fn divides_into(&self, operand: usize, pack: usize) -> bool {
        let Some((inner, outer)) = self.as_slice().split_last() else {
            return false;
        };
        let pack_stride = pack as isize;
        inner.strides[operand] == 1
            && inner.size.is_multiple_of(pack)
            && outer
                .iter()
                .all(|dim| dim.strides[operand] % pack_stride == 0)
    }

    /// The dimensions of packs of `pack` elements that are neighbours along the last.
    pub fn in_packs(mut self, pack: usize) -> Dims<N> {
        if let Some(inner) = self.as_mut_slice().last_mut() {
            inner.size /= pack;
            inner
                .strides
                .iter_mut()
                .for_each(|stride| *stride *= pack as isize);
        }
        self
    }

    /// With `operand` laid out without gaps in the order of these dimensions, `step` between neighbours.
    pub fn numbered(mut self, operand: usize, step: usize) -> Dims<N> {
        let mut stride = step as isize;
        for dim in self.as_mut_slice().iter_mut().rev() {
            dim.strides[operand] = stride;
            stride *= dim.size as isize;
        }
        self
    }

    /// For how many dimensions there is kernel text that fits: few texts serve all.
    pub fn class(&self) -> u8 {
        self.rank.next_power_of_two() as u8
    }

    /// Appends the values of the [`fields`] of this class.
    pub fn params(&self, mut params: Params) -> Params {
        let class = usize::from(self.class());
        let padding = class - self.rank;
        let dim = |index: usize| Some(&self.dims[index.checked_sub(padding)?]);
        for index in 1..class {
            params = params.i64(dim(index).map_or(1, |dim| dim.size as i64));
        }
        for operand in 0..N {
            for index in 0..class {
                params = params.i64(dim(index).map_or(0, |dim| dim.strides[operand] as i64));
            }
        }
        params
    }
}

impl<const N: usize> Dim<N> {
    /// How far neighbours are apart, for the order of dimensions.
    fn distance(&self) -> usize {
        self.strides[0].unsigned_abs().wrapping_sub(1)
    }

    /// Whether this dimension goes on where `inner` ends, for every operand.
    fn steps_over(&self, inner: &Dim<N>) -> bool {
        let ends = inner
            .strides
            .map(|stride| stride.wrapping_mul(inner.size as isize));
        self.strides == ends
    }
}

/// The kernel's parameters that describe the dimensions `name` of a class.
pub(crate) fn fields(fields: &mut Vec<Field>, name: &str, class: u8, operands: &[&str]) {
    for index in 1..class {
        fields.push(Field::new("i64", format!("{name}_size{index}")));
    }
    for operand in operands {
        for index in 0..class {
            fields.push(Field::new("i64", format!("{name}_{operand}{index}")));
        }
    }
}

/// A function that the text of [`locate`] calls.
pub(crate) const FUNCTIONS: &str = "\
// Division of wide integers is slow, and mostly they are not.
FUNCTION i64 divided(i64 a, i64 b) {
    return ((u64(a) | u64(b)) >> 32) == 0 ? i64(u32(a) / u32(b)) : a / b;
}
";

/// Statements that add the offset of element `index` of the dimensions `name` to a variable for each operand.
pub(crate) fn locate(name: &str, class: u8, index: &str, operands: &[(&str, &str)]) -> String {
    let mut text = format!("{{ i64 rest = {index};\n");
    for dim in (1..class).rev() {
        let _ = writeln!(
            text,
            "    {{ const i64 next = divided(rest, p.{name}_size{dim}), index = rest - next * p.{name}_size{dim};"
        );
        for (variable, operand) in operands {
            let _ = writeln!(text, "      {variable} += index * p.{name}_{operand}{dim};");
        }
        text.push_str("      rest = next; }\n");
    }
    for (variable, operand) in operands {
        let _ = writeln!(text, "    {variable} += rest * p.{name}_{operand}0;");
    }
    text.push_str("}\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collapsed<const N: usize>(dims: &[(usize, [isize; N])]) -> Vec<(usize, [isize; N])> {
        let given = dims.iter().map(|&(size, strides)| Dim { size, strides });
        Dims::collapsed(given)
            .as_slice()
            .iter()
            .map(|dim| (dim.size, dim.strides))
            .collect()
    }

    #[test]
    fn dimensions_that_go_on_become_one() {
        assert_eq!(
            collapsed(&[(2, [12]), (3, [4]), (4, [1])]),
            [(24, [1])],
            "row-major"
        );
        assert_eq!(
            collapsed(&[(4, [1]), (1, [77]), (3, [4])]),
            [(12, [1])],
            "in another order"
        );
        assert_eq!(
            collapsed(&[(3, [-4]), (4, [-1])]),
            [(12, [-1])],
            "backwards"
        );
        assert_eq!(
            collapsed(&[(3, [5]), (4, [1])]),
            [(3, [5]), (4, [1])],
            "a gap"
        );
    }

    #[test]
    fn every_operand_has_to_go_on() {
        assert_eq!(
            collapsed(&[(3, [4, 1]), (4, [1, 3])]),
            [(3, [4, 1]), (4, [1, 3])]
        );
        assert_eq!(collapsed(&[(3, [4, 40]), (4, [1, 10])]), [(12, [1, 10])]);
    }

    #[test]
    fn repeated_elements_come_first() {
        assert_eq!(
            collapsed(&[(3, [1]), (4, [0]), (5, [3])]),
            [(4, [0]), (15, [1])]
        );
    }

    #[test]
    fn nothing_and_one_element_are_told_apart() {
        let of = |sizes: &[usize]| {
            Dims::collapsed(sizes.iter().map(|&size| Dim { size, strides: [7] })).elements()
        };
        assert_eq!((of(&[]), of(&[1, 1]), of(&[3, 0, 2])), (1, 1, 0));
    }

    #[test]
    fn params_match_the_fields_of_the_class() {
        let given = [(2, [100, 1]), (3, [20, 2]), (4, [1, 6])];
        let dims = Dims::collapsed(given.iter().map(|&(size, strides)| Dim { size, strides }));
        assert_eq!(dims.class(), 4);
        let mut names = Vec::new();
        fields(&mut names, "kept", dims.class(), &["src", "dst"]);
        let values: Vec<i64> = dims
            .params(Params::new())
            .as_bytes()
            .chunks(8)
            .map(|bytes| i64::from_le_bytes(bytes.try_into().expect("eight bytes")))
            .collect();
        assert_eq!(values, [2, 3, 4, 0, 100, 20, 1, 0, 1, 2, 6]);
        assert_eq!(names.len(), values.len());
        assert_eq!(names[0].name, "kept_size1");
        assert_eq!(names[4].name, "kept_src1");
    }
}

//! How a kernel finds its elements: what its text depends on, and what it is told at each launch.

use smallvec::SmallVec;

use super::space::{Space, Strided};
use crate::dispatch::{Limits, Params};
use crate::text::Field;

/// The most bytes of operands' addresses and parameters that every device passes to a kernel.
pub(super) const MOST_ARGUMENT_BYTES: usize = 4000;

/// Threads in each group.
pub(super) const THREADS: u32 = 256;

/// Groups for each processor, at most: beyond that, each thread goes on to further elements.
const GROUPS_PER_UNIT: u32 = 16;

/// Bytes that a thread moves at once, at most.
const WIDEST_ACCESS: usize = 16;

/// The shape of a kernel's loop. A thread takes a chunk of `width` neighbours along the last dimension at a
/// time.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Form {
    pub(super) rank: usize,
    /// Elements of a chunk.
    pub(super) width: usize,
    /// Whether numbers of elements and distances need 64 bits.
    pub(super) wide: bool,
    /// One for each operand.
    pub(super) reach: SmallVec<[Reach; 16]>,
}

/// How an operand's elements of a chunk are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Reach {
    /// Side by side, at the chunk's number.
    Dense,
    /// One for all chunks.
    Single,
    /// Side by side, by strides.
    Strided,
    /// One for the chunk, by strides.
    Repeated,
}

impl Reach {
    /// Whether its place comes from strides.
    pub(super) fn is_strided(self) -> bool {
        matches!(self, Reach::Strided | Reach::Repeated)
    }
}

impl Form {
    /// The form for `space` with chunks of at most `widest` elements.
    pub(super) fn new(space: &Space, widest: usize) -> Form {
        let width = width(space, widest);
        let reach = |operand: &Strided| {
            if space.is_dense(operand) {
                Reach::Dense
            } else if space.is_single(operand) {
                Reach::Single
            } else if width > 1 && operand.strides[space.rank - 1] == 0 {
                Reach::Repeated
            } else {
                Reach::Strided
            }
        };
        Form {
            rank: space.rank,
            width,
            wide: !space.is_small(),
            reach: space.operands.iter().map(reach).collect(),
        }
    }

    /// Whether there may be elements behind the last chunk.
    pub(super) fn has_tail(&self) -> bool {
        self.width > 1 && self.rank == 1
    }

    /// The kernel's own parameters, followed by those of its loop.
    pub(super) fn params(&self, space: &Space, own: Params) -> Params {
        let last = self.rank - 1;
        let mut params = number(own, self.wide, self.chunks(space));
        if self.has_tail() {
            params = params.u32((space.elements() % self.width) as u32);
        }
        for axis in 1..self.rank {
            let chunks = if axis == last { self.width } else { 1 };
            params = size(params, self.wide, space.sizes[axis] / chunks);
        }
        for (operand, reach) in space.operands.iter().zip(&self.reach) {
            for axis in (0..self.rank).filter(|_| reach.is_strided()) {
                let step = if axis == last { self.width as isize } else { 1 };
                params = distance(params, self.wide, operand.strides[axis] * step);
            }
        }
        params
    }

    /// The fields of [`params`](Self::params), behind the kernel's own.
    pub(super) fn fields(&self) -> Vec<Field> {
        let mut fields = vec![number_field(self.wide, "count")];
        if self.has_tail() {
            fields.push(Field::new("u32", "tail"));
        }
        for axis in 1..self.rank {
            fields.extend(size_fields(self.wide, axis));
        }
        for (operand, _) in self.strided() {
            let strides = (0..self.rank).map(|axis| stride_name(operand, axis));
            fields.extend(strides.map(|name| Field::new(distance_type(self.wide), name)));
        }
        fields
    }

    /// Bytes of [`params`](Self::params) for this form, at most.
    pub(super) fn params_size(&self) -> usize {
        16 + 16 * self.rank + 8 * self.rank * self.strided().count()
    }

    /// Statements that find the place `at{operand}` of each strided operand's elements of chunk `index`.
    pub(super) fn places(&self) -> String {
        let distance = distance_type(self.wide);
        let mut text = String::new();
        if self.strided().next().is_none() {
            return text;
        }
        text += &positions(self.wide, self.rank, "index");
        for (operand, _) in self.strided() {
            let steps: Vec<String> = (0..self.rank)
                .map(|axis| format!("position{axis} * p.{}", stride_name(operand, axis)))
                .collect();
            text += &format!("const {distance} place{operand} = {};\n", steps.join(" + "));
        }
        text
    }

    /// The operands whose places come from strides.
    pub(super) fn strided(&self) -> impl Iterator<Item = (usize, Reach)> + '_ {
        let reach = self.reach.iter().copied().enumerate();
        reach.filter(|(_, reach)| reach.is_strided())
    }

    /// How many groups go over `space`.
    pub(super) fn groups(&self, space: &Space, limits: &Limits) -> u32 {
        groups(
            self.chunks(space).div_ceil(THREADS as usize),
            GROUPS_PER_UNIT,
            limits,
        )
    }

    fn chunks(&self, space: &Space) -> usize {
        space.elements() / self.width
    }
}

/// One group for each of `parts`, but no more than `per_unit` for each processor.
pub(super) fn groups(parts: usize, per_unit: u32, limits: &Limits) -> u32 {
    let most = limits.compute_units.max(1).saturating_mul(per_unit);
    u32::try_from(parts).unwrap_or(most).clamp(1, most)
}

/// The type of numbers of elements.
pub(crate) fn number_type(wide: bool) -> &'static str {
    if wide { "u64" } else { "u32" }
}

/// The type of distances in memory.
pub(crate) fn distance_type(wide: bool) -> &'static str {
    if wide { "i64" } else { "i32" }
}

/// Appends a number of elements.
#[inline(always)]
pub(crate) fn number(params: Params, wide: bool, value: usize) -> Params {
    if wide {
        params.i64(value as i64)
    } else {
        params.u32(value as u32)
    }
}

/// Appends a distance in elements.
#[inline(always)]
pub(crate) fn distance(params: Params, wide: bool, value: isize) -> Params {
    if wide {
        params.i64(value as i64)
    } else {
        params.u32(value as i32 as u32)
    }
}

/// Appends the size of a dimension, and what [`positions`] divides by it with.
#[inline(always)]
pub(crate) fn size(params: Params, wide: bool, value: usize) -> Params {
    let params = number(params, wide, value);
    if wide {
        return params;
    }
    let (factor, shift) = reciprocal(value as u32);
    params.u32(factor).u32(shift)
}

pub(crate) fn number_field(wide: bool, name: impl Into<String>) -> Field {
    Field::new(number_type(wide), name)
}

/// The fields of [`size`].
pub(crate) fn size_fields(wide: bool, axis: usize) -> Vec<Field> {
    let mut fields = vec![number_field(wide, format!("size{axis}"))];
    if !wide {
        fields.push(Field::new("u32", format!("factor{axis}")));
        fields.push(Field::new("u32", format!("shift{axis}")));
    }
    fields
}

/// Statements that split `index` into `position0` to `position{rank - 1}`.
pub(crate) fn positions(wide: bool, rank: usize, index: &str) -> String {
    let (number, distance) = (number_type(wide), distance_type(wide));
    let (mut text, mut left) = (String::new(), index.to_owned());
    for axis in (1..rank).rev() {
        let quotient = if wide {
            format!("{left} / p.size{axis}")
        } else {
            format!("quotient({left}, p.factor{axis}, p.shift{axis})")
        };
        text += &format!(
            "const {number} left{axis} = {quotient};\n\
             const {distance} position{axis} = {distance}({left} - left{axis} * p.size{axis});\n"
        );
        left = format!("left{axis}");
    }
    text + &format!("const {distance} position0 = {distance}({left});\n")
}

fn stride_name(operand: usize, axis: usize) -> String {
    format!("stride{operand}_{axis}")
}

/// The factor and the shift by which the prelude's `quotient` divides numbers below 2³¹ by `divisor`.
///
/// With `2^s` the first power not below the divisor, the factor `2^(31+s) / divisor` rounded up is too large
/// by less than `2^s / divisor` parts of `2^s`, so that the error of a quotient stays below that of one part
/// in the divisor.
fn reciprocal(divisor: u32) -> (u32, u32) {
    let shift = 31 + divisor.next_power_of_two().trailing_zeros();
    ((1u64 << shift).div_ceil(u64::from(divisor)) as u32, shift)
}

/// The most elements, a power of two, that every operand has side by side, or repeats, in each chunk.
fn width(space: &Space, widest: usize) -> usize {
    let largest = space.operands.iter().map(|operand| operand.size).max();
    let mut width = widest.min(WIDEST_ACCESS / largest.unwrap_or(1));
    let last = space.rank - 1;
    while width > 1 {
        let whole = space.rank == 1 || space.sizes[last].is_multiple_of(width);
        let fits = |operand: &Strided| match operand.strides[last] {
            0 => true,
            1 => {
                let outer = &operand.strides[..last];
                operand.is_aligned(width * operand.size)
                    && outer.iter().all(|stride| stride % width as isize == 0)
            }
            _ => false,
        };
        if whole && space.operands.iter().all(fits) {
            return width;
        }
        width /= 2;
    }
    1
}

#[cfg(test)]
mod tests {
    use streampool_device::{DType, Layout, Span, View};

    use super::super::space::Order;
    use super::*;

    const LIMITS: Limits = Limits {
        compute_units: 10,
        shared_bytes: 32768,
        buffers: 480,
    };

    fn view(dtype: DType, shape: &[usize], strides: &[isize], offset: usize) -> View {
        let span = Span {
            handle: 4096,
            offset: 0,
            bytes: 1 << 40,
        };
        View::new(
            span,
            dtype,
            Layout::strided(shape, strides, offset).unwrap(),
        )
        .unwrap()
    }

    fn form(views: &[View]) -> (Space, Form) {
        let space = Space::new(views.iter(), Order::Any).unwrap();
        let form = Form::new(&space, 16);
        (space, form)
    }

    fn bytes(params: Params) -> Vec<u32> {
        let bytes = params.as_bytes();
        bytes
            .chunks(4)
            .map(|word| u32::from_le_bytes(word.try_into().unwrap()))
            .collect()
    }

    #[test]
    fn reciprocals_divide_every_number_below_their_limit() {
        let mut divisors: Vec<u32> = (1..300).collect();
        for power in 1..31 {
            divisors.extend([(1 << power) - 1, 1 << power, (1 << power) + 1]);
        }
        for divisor in divisors {
            let (factor, shift) = reciprocal(divisor);
            let most = i32::MAX as u32;
            let near = |n: u32| [n.saturating_sub(1), n, n.saturating_add(1).min(most)];
            let multiples = [1, 2, 3, 1000, most / divisor]
                .map(|times| divisor.saturating_mul(times).min(most));
            for n in multiples.into_iter().chain([0, most]).flat_map(near) {
                let quotient = ((u64::from(n) * u64::from(factor)) >> shift) as u32;
                assert_eq!(quotient, n / divisor, "{n} / {divisor}");
            }
        }
    }

    #[test]
    fn contiguous_operands_move_in_wide_chunks_with_a_tail() {
        let x = view(DType::F32, &[10, 101], &[101, 1], 0);
        let (space, form) = form(&[x, x]);
        assert_eq!((form.rank, form.width, form.wide), (1, 4, false));
        assert_eq!(form.reach[..], [Reach::Dense, Reach::Dense]);
        assert_eq!(bytes(form.params(&space, Params::new())), [252, 2]);
        assert_eq!(form.fields().len(), 2);
        assert_eq!(form.groups(&space, &LIMITS), 1);
    }

    #[test]
    fn the_largest_element_decides_how_wide_a_chunk_is() {
        let narrow = view(DType::U8, &[64], &[1], 0);
        let middle = view(DType::F16, &[64], &[1], 0);
        let large = view(DType::I64, &[64], &[1], 0);
        assert_eq!(form(&[narrow]).1.width, 16);
        assert_eq!(form(&[narrow, middle]).1.width, 8);
        assert_eq!(form(&[narrow, large]).1.width, 2);
    }

    #[test]
    fn a_chunk_is_aligned_and_whole() {
        let misaligned = view(DType::F32, &[64], &[1], 1);
        assert_eq!(form(&[misaligned]).1.width, 1);
        let by_two = view(DType::F32, &[64], &[1], 2);
        assert_eq!(form(&[by_two]).1.width, 2);
        let odd_rows = view(DType::F32, &[4, 6], &[7, 1], 0);
        assert_eq!(form(&[odd_rows]).1.width, 1);
        let rows = view(DType::F32, &[4, 6], &[8, 1], 0);
        assert_eq!(form(&[rows]).1.width, 2);
    }

    #[test]
    fn broadcast_operands_are_strided_repeated_or_single() {
        let out = view(DType::F32, &[6, 8], &[8, 1], 0);
        let row = view(DType::F32, &[8], &[1], 0);
        let column = view(DType::F32, &[6, 1], &[1, 1], 0);
        let one = view(DType::F32, &[], &[], 0);
        let (space, form) = form(&[row, column, one, out]);
        assert_eq!(
            form.reach[..],
            [Reach::Strided, Reach::Repeated, Reach::Single, Reach::Dense]
        );
        assert_eq!((form.rank, form.width), (2, 4));
        // Twelve chunks, two in a row; then the strides of the row and of the column.
        assert_eq!(
            bytes(form.params(&space, Params::new())),
            [12, 2, 1 << 31, 32, 0, 4, 1, 0]
        );
        let names: Vec<String> = form.fields().into_iter().map(|field| field.name).collect();
        assert_eq!(
            names,
            [
                "count",
                "size1",
                "factor1",
                "shift1",
                "stride0_0",
                "stride0_1",
                "stride1_0",
                "stride1_1"
            ]
        );
    }

    #[test]
    fn large_spaces_count_in_64_bits() {
        let (space, form) = form(&[view(DType::U8, &[3, 1 << 30], &[1 << 32, 2], 0)]);
        assert!(form.wide);
        assert_eq!((form.rank, form.width), (2, 1));
        let params = form.params(&space, Params::new());
        assert_eq!(bytes(params), [3 << 30, 0, 1 << 30, 0, 0, 1, 2, 0]);
        assert_eq!(form.groups(&space, &LIMITS), 160);
    }
}

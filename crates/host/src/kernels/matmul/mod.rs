//! Matrix products.

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub(super) mod amx;
#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
#[path = "no_amx.rs"]
pub(super) mod amx;
pub(super) mod blocked;
pub(super) mod factor;
mod gathering;
#[cfg_attr(
    not(all(target_arch = "x86_64", target_os = "linux")),
    allow(dead_code, reason = "only the matrix unit reads what it is given")
)]
mod image;
mod in_place;
pub(super) mod lanes;
mod merged;
pub(super) mod multiply;
mod product;
#[cfg(target_arch = "x86_64")]
pub(super) mod quads;
mod ready;
mod skinny;

use std::any::Any;
use std::ops::Range;

use half::{bf16, f16};
use streampool_device::{DType, MAX_RANK, MatMul, View};

use self::blocked::{TILE_COLUMNS, TILE_ROWS};
use self::factor::Factor;
pub(super) use self::gathering::{Gathering, columns_of_a_block, gathered};
pub(super) use self::in_place::{Lying, in_place};
pub(super) use self::multiply::Sums;
use self::multiply::{InPlaceUnit, Unit};
use self::product::{Matrix, Product, Side};
pub(super) use self::ready::Ready;
use self::skinny::Reading;
use super::convert::with_types;
use super::preparation::Preparation;
use super::scratch::{Count, with_scratch};
#[cfg(target_arch = "x86_64")]
use super::simd::has_byte_dots;
use super::strided::{Walk, address, broadcast_strides};
use crate::given_up::Steps;
use crate::packs::Form;
use crate::team::Team;

/// Multiplications that are worth a thread.
const GRAIN: usize = 3 << 19;
/// The same where the operand is only streamed through once.
const SKINNY_GRAIN: usize = 1 << 17;
/// The same on the matrix unit.
const AMX_GRAIN: usize = 1 << 20;

/// `$body` with `$name` as the type of a factor.
macro_rules! with_factor {
    ($dtype:expr, $name:ident => $body:expr) => {
        with_types!($dtype, $name => $body, {
            F32 = f32, F64 = f64, F16 = f16, BF16 = bf16, I8 = i8, U8 = u8
        }, other => Err(format!("a product of {other} reached the kernels")))
    };
}

/// Packs the operand that is constant, if one is and packing pays.
///
/// # Safety
/// Constants can be read.
pub(super) unsafe fn prepare(op: &MatMul, preparation: &Preparation<'_>) -> Option<Ready> {
    let merged = merged::merged(op);
    let op = merged.as_ref().unwrap_or(op);
    #[cfg(target_arch = "x86_64")]
    if op.a.dtype() == DType::I8 && has_byte_dots() {
        // SAFETY: the elements are `i8`; the rest is passed on.
        return unsafe { prepare_as::<quads::Dotted>(op, preparation) };
    }
    // SAFETY: the view's element types are checked here; the rest is passed on.
    with_factor!(op.a.dtype(), T => Ok(unsafe { prepare_as::<T>(op, preparation) })).ok()?
}

/// # Safety
/// As for [`execute`](super::execute); what is ready was [prepared](prepare) for an op that differs in where its other
/// operands lie.
pub(super) unsafe fn execute(
    op: &MatMul,
    ready: Option<&Ready>,
    team: &dyn Team,
) -> Result<(), String> {
    let merged = merged::merged(op);
    let op = merged.as_ref().unwrap_or(op);
    // SAFETY: the view's element types are checked here; the rest is passed on.
    unsafe {
        match op.a.dtype() {
            DType::F32 => where_it_lies::<f32>(op, ready, team),
            DType::F64 => where_it_lies::<f64>(op, ready, team),
            #[cfg(target_arch = "x86_64")]
            DType::I8 if has_byte_dots() => tiles(Batch::<quads::Dotted>::new(op, ready), team),
            other => {
                return with_factor!(other, T => {
                    tiles(Batch::<T>::new(op, ready), team);
                    Ok(())
                });
            }
        }
    }
    Ok(())
}

/// Whether the matrix unit multiplies these matrices of `f32`.
pub(super) fn is_on_amx(op: &MatMul) -> bool {
    Batch::<f32>::new(op, None).first.on_amx
}

/// The products of an op: one for each index of the batch.
struct Batch<T: Factor> {
    first: Product<T>,
    /// Whether they are the transposed products.
    turned: bool,
    /// By operands, result, bias and what is ready.
    walk: Walk<5>,
}

impl<T: Factor> Batch<T> {
    fn new(op: &MatMul, ready: Option<&Ready>) -> Self {
        let shape = op.out.shape();
        let lead = shape.len() - 2;
        let batch = &shape[..lead];
        let bias = op.bias.map(|bias| (bias, broadcast_strides(&bias, shape)));
        let first = Product {
            m: shape[lead],
            n: shape[lead + 1],
            k: op.b.shape()[op.b.layout().rank() - 2],
            a: matrix(&op.a),
            b: matrix(&op.b),
            out: matrix(&op.out),
            bias: bias.map(|(bias, strides)| Matrix {
                at: address(&bias),
                row: strides[lead],
                column: strides[lead + 1],
            }),
            alpha: op.alpha,
            activation: op.activation,
            ready_a: std::ptr::null(),
            ready_b: std::ptr::null(),
            in_one: false,
            on_amx: false,
        };
        // The transposed product has its operands exchanged.
        let turned = first.reads_better_transposed();
        let (mut first, left, right) = match turned {
            true => (first.transposed(), &op.b, &op.a),
            false => (first, &op.a, &op.b),
        };
        first.on_amx = amx::suits(&first);
        let mut ready_strides = [0; MAX_RANK];
        if let Some(Ready { side, pack }) = ready {
            let operand = match side {
                Side::Left => {
                    first.ready_a = pack.at();
                    left
                }
                Side::Right => {
                    first.ready_b = pack.at();
                    right
                }
            };
            let each = ready::length(&first, *side) as isize;
            ready_strides = one_after_another(operand, batch, each);
        }
        let walk = Walk::new(
            batch,
            [
                &batch_strides(left, batch)[..lead],
                &batch_strides(right, batch)[..lead],
                &op.out.layout().strides()[..lead],
                &bias.map_or([0; MAX_RANK], |(_, strides)| strides)[..lead],
                &ready_strides[..lead],
            ],
        );
        Batch {
            first,
            turned,
            walk,
        }
    }

    /// How many products there are, none if they have no elements.
    fn count(&self) -> usize {
        match self.first.m * self.first.n {
            0 => 0,
            _ => self.walk.elements(),
        }
    }

    /// Calls `f` with each product of the range.
    fn for_each(&self, range: Range<usize>, mut f: impl FnMut(&Product<T>)) {
        let (steps, mut taken) = (self.walk.run_strides(), Steps::default());
        self.walk.for_each_run(range, &mut |offsets, length| {
            for index in 0..length as isize {
                taken.take(self.first.multiplications());
                let mut product = self.first;
                product.a.at = product.a.at.wrapping_offset(offsets[0] + index * steps[0]);
                product.b.at = product.b.at.wrapping_offset(offsets[1] + index * steps[1]);
                product.out.at = product
                    .out
                    .at
                    .wrapping_offset(offsets[2] + index * steps[2]);
                if let Some(bias) = &mut product.bias {
                    bias.at = bias.at.wrapping_offset(offsets[3] + index * steps[3]);
                }
                let ready = offsets[4] + index * steps[4];
                if !product.ready_a.is_null() {
                    product.ready_a = product.ready_a.wrapping_offset(ready);
                }
                if !product.ready_b.is_null() {
                    product.ready_b = product.ready_b.wrapping_offset(ready);
                }
                f(&product);
            }
        });
    }
}

/// The last two dimensions of a view.
fn matrix<T>(view: &View) -> Matrix<T> {
    let strides = view.layout().strides();
    Matrix {
        at: address(view),
        row: strides[strides.len() - 2],
        column: strides[strides.len() - 1],
    }
}

/// The strides of a view's other dimensions as they broadcast to `batch`.
fn batch_strides(view: &View, batch: &[usize]) -> [isize; MAX_RANK] {
    let own = view.layout().rank() - 2;
    let lead = batch.len() - own;
    let mut strides = [0; MAX_RANK];
    for axis in 0..own {
        if view.shape()[axis] == batch[lead + axis] {
            strides[lead + axis] = view.layout().strides()[axis];
        }
    }
    strides
}

/// The strides as they broadcast to `batch`, if a view's matrices lay one after another, `each` elements apart.
fn one_after_another(view: &View, batch: &[usize], each: isize) -> [isize; MAX_RANK] {
    let own = view.layout().rank() - 2;
    let lead = batch.len() - own;
    let (mut strides, mut step) = ([0; MAX_RANK], each);
    for axis in (0..own).rev() {
        let size = view.shape()[axis];
        if size == batch[lead + axis] {
            strides[lead + axis] = step;
        }
        step *= size as isize;
    }
    strides
}

impl<T: Factor> Product<T> {
    /// Whether the transposed product is the better one to compute: that with fewer rows if one of the sides
    /// is short, else that which is stored by rows.
    fn reads_better_transposed(&self) -> bool {
        let short = self.m.min(self.n) <= skinny::FEW_ROWS;
        let by_columns = self.out.row == 1 && self.out.column != 1;
        if short { self.n < self.m } else { by_columns }
    }

    fn multiplications(&self) -> usize {
        self.m.saturating_mul(self.n).saturating_mul(self.k.max(1))
    }
}

/// # Safety
/// As for [`prepare`]; the op's elements are of type `T`.
unsafe fn prepare_as<T: Factor>(op: &MatMul, preparation: &Preparation<'_>) -> Option<Ready> {
    let batch = Batch::<T>::new(op, None);
    if batch.count() == 0 || batch.first.k == 0 {
        return None;
    }
    let (turned, on_amx) = (batch.turned, batch.first.on_amx);
    let (left, right) = match turned {
        true => (&op.b, &op.a),
        false => (&op.a, &op.b),
    };
    let constant = |view| preparation.is_constant(view);
    let (side, view, form) = match skinny::reading(&batch.first) {
        // Dot products read what they need where it lies, in another order than panels have.
        Some(Reading::Dots) => return None,
        // Blocks are filled up to whole ones.
        Some(Reading::Rows) if batch.first.is_small() || batch.first.n < T::Unit::block().1 => {
            return None;
        }
        _ if constant(right) => (Side::Right, right, Form::Right { turned, on_amx }),
        None if constant(left) => (Side::Left, left, Form::Left { turned, on_amx }),
        _ => return None,
    };
    // The products of the view's own matrices, whatever they are broadcast to.
    let shape = view.shape();
    let own = &shape[..shape.len() - 2];
    let walk = Walk::new(own, [&view.layout().strides()[..own.len()]]);
    let product = |number: usize| {
        let mut product = batch.first;
        let mut distance = 0;
        walk.for_each_run(number..number + 1, &mut |[offset], _| distance = offset);
        match side {
            Side::Left => product.a.at = product.a.at.wrapping_offset(distance),
            Side::Right => product.b.at = product.b.at.wrapping_offset(distance),
        }
        product
    };
    let count = ready::matrices(view);
    let bytes = count * ready::length(&batch.first, side) * size_of::<T::Unit>();
    let pack = preparation.packs.get(view, form, bytes, |to| {
        // SAFETY: the caller lets constants be read, and the memory has room for all matrices.
        unsafe { ready::pack(count, product, side, to.cast(), preparation.team) };
    })?;
    Some(Ready { side, pack })
}

/// Products of a type that can be multiplied where it lies.
///
/// # Safety
/// As for [`execute`]; the op's elements are of type `T`.
unsafe fn where_it_lies<T: Factor<Unit = T> + InPlaceUnit>(
    op: &MatMul,
    ready: Option<&Ready>,
    team: &dyn Team,
) {
    let mut batch = Batch::<T>::new(op, ready);
    match skinny::reading(&batch.first) {
        Some(_) if !batch.first.ready_b.is_null() => {
            batch.first.in_one = true;
            // SAFETY: passed on from the caller.
            unsafe { tiles(batch, team) }
        }
        // SAFETY: passed on from the caller.
        Some(reading) => unsafe { few_rows(&batch, reading, team) },
        // SAFETY: passed on from the caller.
        None => unsafe { tiles(batch, team) },
    }
}

/// # Safety
/// As for [`where_it_lies`].
unsafe fn few_rows<T: Factor<Unit = T> + InPlaceUnit>(
    batch: &Batch<T>,
    reading: Reading,
    team: &dyn Team,
) {
    if batch.count() == 0 {
        return;
    }
    let each = batch.first.multiplications();
    let n = batch.first.n;
    let parts = pieces(each, SKINNY_GRAIN, team);
    divide(
        batch.count(),
        parts,
        each,
        SKINNY_GRAIN,
        team,
        &|products, piece| {
            let columns = part(n, parts, piece, multiply::MAX_COLUMNS);
            // SAFETY: parts are disjoint; the rest the caller promises.
            batch.for_each(products, |product| unsafe {
                skinny::columns(product, columns.clone(), reading)
            });
        },
    );
}

/// The most bytes of rows that are packed for all pieces of a product before the first.
const PACKED_AHEAD: usize = 3 << 20;

/// # Safety
/// As for [`where_it_lies`].
unsafe fn tiles<T: Factor>(mut batch: Batch<T>, team: &dyn Team) {
    // There may be any number of rows without columns.
    if batch.count() == 0 {
        return;
    }
    let Product { m, n, .. } = batch.first;
    let each = batch.first.multiplications();
    let on_amx = batch.first.on_amx;
    let (most, steps) = match on_amx {
        true => (
            (amx::MOST_ROWS, amx::MOST_COLUMNS),
            (amx::BLOCK, amx::BLOCK),
        ),
        false => ((TILE_ROWS, TILE_COLUMNS), T::Unit::block()),
    };
    let (mut down, mut across) = (m.div_ceil(most.0).max(1), n.div_ceil(most.1).max(1));
    let grain = match batch.first.in_one {
        _ if on_amx => AMX_GRAIN,
        true => SKINNY_GRAIN,
        false => GRAIN,
    };
    let wanted = pieces(each, grain, team).div_ceil(batch.count());
    while down * across < wanted {
        if n / across >= m / down {
            across += 1;
        } else {
            down += 1;
        }
    }
    // As many for each thread, where each has few.
    let all = |down: usize, across: usize| batch.count() * down * across;
    if wanted > 1 && all(down, across) < 8 * team.width() {
        let is_wide = n / across >= m / down;
        while !all(down, across).is_multiple_of(team.width()) {
            match is_wide {
                true => across += 1,
                false => down += 1,
            }
        }
    }
    // Pieces that have rows in common would pack them once each.
    let bytes = match on_amx && across > 1 && batch.count() == 1 && batch.first.ready_a.is_null() {
        true => ready::length(&batch.first, Side::Left) * size_of::<T::Unit>(),
        false => 0,
    };
    let run = |batch: &Batch<T>| {
        let work = |products: Range<usize>, piece: usize| {
            let rows = part(m, down, piece / across, steps.0);
            let columns = part(n, across, piece % across, steps.1);
            if rows.is_empty() || columns.is_empty() {
                return;
            }
            batch.for_each(products, |product| {
                let (rows, columns) = (rows.clone(), columns.clone());
                // SAFETY: tiles are disjoint; the rest the caller promises.
                unsafe {
                    match on_amx {
                        true => amx::tile(product, rows, columns),
                        false => vector_tile(product, rows, columns),
                    }
                }
            });
        };
        divide(batch.count(), down * across, each, grain, team, &work);
    };
    if bytes == 0 || bytes > PACKED_AHEAD {
        return run(&batch);
    }
    with_scratch(Count::of(bytes), |scratch: *mut u8| {
        let product = batch.first;
        // SAFETY: the memory has room for all rows of the only product; the rest the caller promises.
        unsafe { ready::pack(1, |_| product, Side::Left, scratch.cast(), team) };
        batch.first.ready_a = scratch.cast();
        run(&batch);
    });
}

/// Computes a tile without the matrix unit: its rows are multiplied where they lie, or else packed. The bits are the same.
///
/// # Safety
/// As for [`blocked::tile`].
unsafe fn vector_tile<T: Factor>(product: &Product<T>, rows: Range<usize>, columns: Range<usize>) {
    let mut begin = columns.start;
    // SAFETY: passed on from the caller.
    unsafe {
        if let Some(product) = (product as &dyn Any).downcast_ref::<Product<f32>>() {
            begin = in_place::rows_in_place(product, rows.clone(), columns.clone());
        }
        if begin < columns.end {
            blocked::tile(product, rows, begin..columns.end);
        }
    }
}

/// Into how many pieces one product of `each` multiplications is worth dividing.
fn pieces(each: usize, grain: usize, team: &dyn Team) -> usize {
    match team.width() {
        1 => 1,
        // As many for each thread.
        width => match (each / grain).min(2 * width) {
            few if few < width => few.max(1),
            many => many / width * width,
        },
    }
}

/// The part `index` of `0..total` in `parts`, which begin at multiples of `step`.
pub(super) fn part(total: usize, parts: usize, index: usize, step: usize) -> Range<usize> {
    let steps = total.div_ceil(step);
    let bound = |index: usize| (steps * index / parts * step).min(total);
    bound(index)..bound(index + 1)
}

/// Calls `work` with ranges of products and pieces until each piece of each product is done: all here if it
/// is little, else spread over the team.
fn divide(
    products: usize,
    pieces: usize,
    each: usize,
    grain: usize,
    team: &dyn Team,
    work: &(dyn Fn(Range<usize>, usize) + Sync),
) {
    let worth = each.saturating_mul(products) / grain;
    let width = team.width();
    if width == 1 || worth < 2 || products * pieces < 2 {
        (0..pieces).for_each(|piece| work(0..products, piece));
    } else if products >= 2 * width {
        let parts = products.min(worth).min(4 * width);
        team.run(parts, &|index| {
            (0..pieces).for_each(|piece| work(part(products, parts, index, 1), piece));
        });
    } else {
        team.run(products * pieces, &|task| {
            let product = task / pieces;
            work(product..product + 1, task % pieces);
        });
    }
}

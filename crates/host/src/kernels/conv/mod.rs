//! Convolution and its transpose.
//!
//! A part of the image is copied, padding and all, so that what a tap of the window contributes to neighbouring
//! elements of the result lies side by side; then each element is one sum over channels and taps, in one order,
//! kept in registers. How the work was divided cannot be seen in the result.

mod apart;
mod axis;
#[cfg(target_arch = "x86_64")]
mod bytes;
mod each;
mod image;
mod last;
mod plan;
mod pointwise;
mod store;
mod sums;
mod then;
mod tiles;
mod weights;
mod window;
mod winograd;

use std::sync::{Arc, OnceLock};

use streampool_device::{Conv, Slide};

use self::axis::Axis;
use self::plan::Plan;
use self::sums::Summed;
pub(crate) use self::then::Then;
use self::weights::{Rows, Weights};
use super::convert::{Float, with_float};
use super::matmul;
use super::preparation::Preparation;
use super::scratch::{Count, LINE, list, push, with_scratch};
#[cfg(target_arch = "x86_64")]
use super::simd::has_byte_dots;
use super::strided::address;
use crate::given_up;
use crate::packs::{Form, Pack};
use crate::team::Team;

/// What a convolution with constant weights is executed with.
pub(crate) enum Ready {
    /// It is a product.
    Product(matmul::Ready),
    /// Its channels lie last.
    Last(last::Ready),
    /// It is of bytes.
    #[cfg(target_arch = "x86_64")]
    Bytes(bytes::Ready),
    Phases(Vec<Phase>),
}

/// One of the convolutions that the op is made of.
pub(crate) struct Phase {
    axes: [Axis; 3],
    rows: Rows,
    /// The weights in rows, unless they are in place.
    pack: Option<Arc<Pack>>,
    /// The same for the matrix unit, if it is used.
    packed: Option<Arc<Pack>>,
    /// By one less than how many threads it is divided for.
    plans: Box<[OnceLock<Plan>]>,
}

/// More phases than this take more memory than they save time.
const MOST_PREPARED: usize = 4096;

/// # Safety
/// Constants can be read.
pub(super) unsafe fn prepare(op: &Conv, preparation: &Preparation<'_>) -> Option<Ready> {
    if op.dst.layout().elements() == 0 || !preparation.is_constant(&op.weight) {
        return None;
    }
    if op.is_of_bytes() {
        #[cfg(target_arch = "x86_64")]
        if has_byte_dots() {
            // SAFETY: passed on from the caller.
            return unsafe { bytes::prepare(op, preparation) }.map(Ready::Bytes);
        }
        return None;
    }
    // SAFETY: passed on from the caller.
    if let Some(ready) = unsafe { last::prepare(op, preparation) } {
        return Some(Ready::Last(ready));
    }
    if let Some(product) = pointwise::product(op) {
        // SAFETY: passed on from the caller.
        return unsafe { matmul::prepare(&product, preparation) }.map(Ready::Product);
    }
    let mut ready = Vec::new();
    for axes in phases(op) {
        if ready.len() == MOST_PREPARED {
            return None;
        }
        let phase = with_float!(op.src.dtype(), T => {
            // SAFETY: the elements are of type `T`; the rest is passed on from the caller.
            Ok::<_, String>(unsafe { Phase::new::<T>(op, axes, preparation) })
        });
        push(&mut ready, phase.ok()??);
    }
    Some(Ready::Phases(ready))
}

impl Phase {
    /// Nothing if there is no memory for the weights.
    ///
    /// # Safety
    /// As for [`prepare`]; the elements are of type `T`.
    unsafe fn new<T: Float>(
        op: &Conv,
        axes: [Axis; 3],
        preparation: &Preparation<'_>,
    ) -> Option<Self> {
        let rows = Rows::new::<T>(op, &axes);
        let form = |on_amx| Form::Taps {
            groups: op.groups,
            transposed: op.transposed,
            on_amx,
            taps: [0, 1, 2].map(|place: usize| list(axes[place].taps.iter().map(|tap| tap.number))),
        };
        let (mut pack, mut packed) = (None, None);
        if !rows.are_in_place() {
            let bytes = rows.length() * size_of::<T::Wide>();
            let made = preparation.packs.get(&op.weight, form(false), bytes, |to| {
                // SAFETY: the caller lets constants be read, and the memory has room for all rows.
                unsafe { rows.copy::<T>(op, &axes, to.cast()) };
            });
            pack = Some(made?);
        }
        if rows.are_on_amx() {
            let from = match &pack {
                Some(pack) => pack.at(),
                None => address::<f32>(&op.weight).cast_const(),
            };
            let bytes = rows.packed_bytes();
            let made = preparation.packs.get(&op.weight, form(true), bytes, |to| {
                // SAFETY: the rows are in place or were copied, and the memory has room for all of them.
                unsafe { rows.pack(from, to) };
            });
            packed = Some(made?);
        }
        Some(Phase {
            axes,
            rows,
            pack,
            packed,
            plans: list((0..preparation.threads).map(|_| OnceLock::new())).into(),
        })
    }

    /// # Safety
    /// As for [`execute`]; the elements are of type `T`.
    unsafe fn execute<T: Float>(&self, op: &Conv, team: &dyn Team)
    where
        T::Wide: Summed,
    {
        let copy = self
            .pack
            .as_ref()
            .map_or(std::ptr::null(), |pack| pack.at());
        let packed = self
            .packed
            .as_ref()
            .map_or(std::ptr::null(), |pack| pack.at());
        let weights = Weights::<T>::new(op, &self.rows, copy, packed);
        let width = team.width();
        let fresh = || Plan::new(op, self.axes.clone(), self.rows.are_on_amx(), width);
        // SAFETY: passed on from the caller.
        unsafe {
            match self.plans.get(width - 1) {
                Some(plan) => plan.get_or_init(fresh).execute::<T>(op, &weights, team),
                None => fresh().execute::<T>(op, &weights, team),
            }
        }
    }
}

/// # Safety
/// As for [`execute`](super::execute).
pub(super) unsafe fn execute(
    op: &Conv,
    ready: Option<&Ready>,
    team: &dyn Team,
) -> Result<(), String> {
    if op.dst.layout().elements() == 0 {
        return Ok(());
    }
    if op.is_of_bytes() {
        #[cfg(target_arch = "x86_64")]
        if has_byte_dots() {
            let ready = match ready {
                Some(Ready::Bytes(ready)) => Some(ready),
                _ => None,
            };
            // SAFETY: passed on from the caller; the machine has the instructions.
            unsafe { bytes::execute(op, ready, team, None) };
            return Ok(());
        }
        return Err(
            "a convolution of bytes reached a processor without instructions for it".to_owned(),
        );
    }
    if let Some(Ready::Last(ready)) = ready {
        // SAFETY: passed on from the caller.
        unsafe { last::execute(op, ready, team, None) };
        return Ok(());
    }
    if let Some(Ready::Phases(phases)) = ready {
        return with_float!(op.src.dtype(), T => {
            for phase in phases {
                // SAFETY: the elements are of type `T`; the rest is passed on.
                unsafe { phase.execute::<T>(op, team) };
            }
            Ok(())
        });
    }
    // SAFETY: passed on from the caller.
    if ready.is_none() && unsafe { last::execute_plain(op, team) } {
        return Ok(());
    }
    if let Some(product) = pointwise::product(op) {
        let ready = match ready {
            Some(Ready::Product(ready)) => Some(ready),
            _ => None,
        };
        // SAFETY: the product reads and writes the elements that the convolution does.
        return unsafe { matmul::execute(&product, ready, team) };
    }
    with_float!(op.src.dtype(), T => {
        // SAFETY: the elements are of type `T`; the rest is passed on.
        unsafe { direct::<T>(op, team) };
        Ok(())
    })
}

impl Ready {
    /// Whether something can follow part by part.
    pub(crate) fn goes_on(&self, op: &Conv) -> bool {
        let lies_last = match self {
            Ready::Last(_) => true,
            #[cfg(target_arch = "x86_64")]
            Ready::Bytes(_) => true,
            Ready::Product(_) | Ready::Phases(_) => false,
        };
        lies_last && last::lies_in_order(op)
    }
}

/// As [`execute`], with something that is done with results as soon as they are there.
///
/// # Safety
/// As for [`execute`]; what is ready [goes on](Ready::goes_on), and the op has no activation if results are kept between bounds.
pub(crate) unsafe fn execute_then(op: &Conv, ready: &Ready, team: &dyn Team, then: Then<'_>) {
    if op.dst.layout().elements() == 0 {
        return;
    }
    // SAFETY: passed on from the caller; bytes are only ready on machines with the instructions.
    unsafe {
        match ready {
            Ready::Last(ready) => last::execute(op, ready, team, Some(then)),
            #[cfg(target_arch = "x86_64")]
            Ready::Bytes(ready) => bytes::execute(op, Some(ready), team, Then::parts(Some(then)).1),
            Ready::Product(_) | Ready::Phases(_) => {}
        }
    }
}

/// # Safety
/// As for [`execute`]; the elements are of type `T`.
unsafe fn direct<T: Float>(op: &Conv, team: &dyn Team)
where
    T::Wide: Summed,
{
    for axes in phases(op) {
        given_up::check();
        let rows = Rows::new::<T>(op, &axes);
        let length = if rows.are_in_place() {
            0
        } else {
            rows.length()
        };
        let bytes = (Count::of(length) * size_of::<T::Wide>()).rounded_to(LINE);
        with_scratch(bytes + rows.packed_bytes(), |scratch: *mut u8| {
            let copy: *mut T::Wide = scratch.cast();
            let packed = scratch.wrapping_add(bytes.here());
            // SAFETY: the scratch has room for all rows, twice if need be; the rest is passed on from the caller.
            // Phases write different elements of the result.
            unsafe {
                if length > 0 {
                    rows.copy::<T>(op, &axes, copy);
                }
                if rows.are_on_amx() {
                    let from = match rows.are_in_place() {
                        true => address::<f32>(&op.weight).cast_const(),
                        false => copy.cast_const().cast(),
                    };
                    rows.pack(from, packed);
                }
                let weights = Weights::<T>::new(op, &rows, copy, packed);
                Plan::new(op, axes, rows.are_on_amx(), team.width())
                    .execute::<T>(op, &weights, team);
            }
        });
    }
}

/// The convolutions that the op is made of, by their dimensions: one, or for the transpose one for each place of the result
/// between two neighbours of the source, because each sees other taps. Where some see none, all results are made first as
/// if none did. They are made one by one: there may be as many as results.
fn phases(op: &Conv) -> impl Iterator<Item = [Axis; 3]> {
    let blank = [0, 1, 2].map(|place| axes(op, place).any(|axis| axis.is_none()));
    let blank = blank.contains(&true).then(|| {
        [0, 1, 2].map(|place| match dimension(op, place) {
            Some((_, _, outputs)) => Axis::blank(outputs),
            None => Axis::single(),
        })
    });
    let seen = |place: usize| axes(op, place).flatten();
    let seen = seen(0).flat_map(move |z| {
        seen(1).flat_map(move |y| {
            let z = z.clone();
            seen(2).map(move |x| [z.clone(), y.clone(), x])
        })
    });
    blank.into_iter().chain(seen)
}

/// A dimension of the convolutions that the op is made of; none for those of results that no tap of it reaches.
fn axes(op: &Conv, place: usize) -> impl Iterator<Item = Option<Axis>> {
    let (one, many) = match dimension(op, place) {
        None => (Some(Axis::single()), None),
        Some((slide, size, outputs)) => match op.transposed {
            false => (Some(Axis::forward(slide, size, outputs)), None),
            true => (None, Some(Axis::transposed(slide, size, outputs))),
        },
    };
    one.map(Some).into_iter().chain(many.into_iter().flatten())
}

/// How the window slides along a dimension of three, over how many elements and to how many results. Missing ones come first.
fn dimension(op: &Conv, place: usize) -> Option<(&Slide, usize, usize)> {
    let axis = (place + op.window.len()).checked_sub(3)?;
    let (size, outputs) = (op.src.shape()[axis + 2], op.dst.shape()[axis + 2]);
    Some((&op.window[axis], size, outputs))
}

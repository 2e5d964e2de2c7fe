//! Pictures with the channels of each place side by side, for devices that compute convolutions faster so.
//!
//! Only the strides of views change, and only those of memory between inputs and outputs. What an op computes is the same.

use rustc_hash::{FxHashMap, FxHashSet};

use streampool_device::{DType, Layout, Op, View};

use super::{direct, uses};
use crate::trace::{Listing, Memory};

/// Memory of pictures: `[any, channels, places]`, or one place after another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Picture {
    channels: usize,
    places: usize,
}

/// Lays out what convolutions read and make with channels last; says how many pictures.
///
/// Pictures that ops combine element by element lie alike: all of them change, or none does.
pub fn channels_last(listing: &mut Listing) -> usize {
    direct::write_directly(listing);
    let fixed = fixed(listing);
    let pictures = pictures(listing, &fixed);
    let mut chosen = chosen(listing, &fixed, &pictures);
    if chosen.is_empty() {
        return 0;
    }
    chosen.retain(|memory| pictures[memory].channels > 1 && pictures[memory].places > 1);
    let mut new = Vec::new();
    for step in &listing.steps {
        let op = step.op.try_map(|_, _, view| {
            let memory = Memory::of(view.span());
            match chosen.contains(&memory) {
                true => turned(view, pictures[&memory]).ok_or(()),
                false => Ok(*view),
            }
        });
        // An op that cannot have it so leaves all as it was.
        match op.ok().filter(|op| op.validate().is_ok()) {
            Some(op) => new.push(op),
            None => return 0,
        }
    }
    for (step, op) in listing.steps.iter_mut().zip(new) {
        step.op = op;
    }
    chosen.len()
}

/// Memory that callers and constants have as it is.
fn fixed(listing: &Listing) -> FxHashSet<Memory> {
    let mut fixed = uses::outputs(&listing.outputs);
    fixed.extend(listing.sources.keys());
    fixed
}

/// What memory is made of pictures, as far as ops say.
fn pictures(listing: &Listing, fixed: &FxHashSet<Memory>) -> FxHashMap<Memory, Picture> {
    let mut known = FxHashMap::default();
    for step in &listing.steps {
        let ends = match &step.op {
            Op::Conv(conv) => [conv.src, conv.dst],
            Op::Pool(pool) => [pool.src, pool.dst],
            Op::Resize(resize) => [resize.src, resize.dst],
            _ => continue,
        };
        for view in ends {
            note(&view, fixed, &mut known);
        }
    }
    // What is combined with a picture element by element is one too, step by step from there.
    loop {
        let before = known.len();
        for step in &listing.steps {
            let mut alike = Vec::new();
            match &step.op {
                Op::Map {
                    inputs, outputs, ..
                } => alike.extend(inputs.iter().chain(outputs)),
                Op::Copy { src, dst } => alike.extend([src, dst]),
                _ => continue,
            }
            let is_known = |view: &View| known.contains_key(&Memory::of(view.span()));
            let Some(shape) = alike
                .iter()
                .find(|view| is_whole(view) && is_known(view))
                .map(|view| view.shape().to_vec())
            else {
                continue;
            };
            for view in alike.iter().filter(|view| view.shape() == shape) {
                note(view, fixed, &mut known);
            }
        }
        if known.len() == before {
            return known;
        }
    }
}

fn is_whole(view: &View) -> bool {
    uses::is_whole(view) && view.layout().rank() == 4 && view.dtype() == DType::F32
}

fn note(view: &View, fixed: &FxHashSet<Memory>, known: &mut FxHashMap<Memory, Picture>) {
    let memory = Memory::of(view.span());
    if is_whole(view) && !fixed.contains(&memory) {
        let shape = view.shape();
        known.entry(memory).or_insert(Picture {
            channels: shape[1],
            places: shape[2] * shape[3],
        });
    }
}

/// The memory that changes: groups that a convolution gains by and nothing stands against.
fn chosen(
    listing: &Listing,
    fixed: &FxHashSet<Memory>,
    pictures: &FxHashMap<Memory, Picture>,
) -> FxHashSet<Memory> {
    let mut groups = Groups::default();
    let (mut wanted, mut refused) = (FxHashSet::default(), FxHashSet::default());
    for step in &listing.steps {
        let mut of_op: Vec<View> = Vec::new();
        step.op.for_each_operand(|_, _, view| of_op.push(*view));
        let most = of_op.iter().map(|view| view.layout().elements()).max();
        let mut joined = None;
        for view in &of_op {
            let memory = Memory::of(view.span());
            let Some(&picture) = pictures.get(&memory) else {
                continue;
            };
            if !can_turn(&step.op, view, picture) {
                refused.insert(memory);
            }
            if gains(&step.op) {
                wanted.insert(memory);
            }
            let is_large = Some(view.layout().elements()) == most;
            let matters = picture.channels > 1 && picture.places > 1;
            if is_large && matters && goes_along(&step.op) {
                match joined {
                    None => joined = Some(memory),
                    Some(other) => groups.join(memory, other),
                }
            }
        }
    }
    let mut verdicts: FxHashMap<Memory, (bool, bool)> = FxHashMap::default();
    for &memory in pictures.keys() {
        let verdict = verdicts.entry(groups.of(memory)).or_default();
        verdict.0 |= wanted.contains(&memory);
        verdict.1 |= refused.contains(&memory) || fixed.contains(&memory);
    }
    let all = pictures.keys().copied();
    all.filter(|&memory| verdicts[&groups.of(memory)] == (true, false))
        .collect()
}

/// Of groups with fewer channels, most lanes of a vector would be idle.
const LEAST_OF_A_GROUP: usize = 8;

/// Whether it is a convolution that is faster so.
fn gains(op: &Op) -> bool {
    let Op::Conv(conv) = op else { return false };
    let [read, made] = [&conv.src, &conv.dst].map(|view| view.shape()[1]);
    let is_for_each_channel = conv.groups == read && conv.groups == made;
    let each = [read, made].map(|channels| channels / conv.groups.max(1));
    conv.window.len() == 2
        && !conv.transposed
        && conv.src.dtype() == DType::F32
        && (conv.groups == 1
            || is_for_each_channel
            || each.into_iter().all(|all| all >= LEAST_OF_A_GROUP))
}

/// Whether an op goes over its largest operands in step.
fn goes_along(op: &Op) -> bool {
    matches!(
        op,
        Op::Map { .. } | Op::Copy { .. } | Op::Pool(_) | Op::Resize(_)
    )
}

/// Whether an op reads or writes a view of a picture as well with the channels last.
fn can_turn(op: &Op, view: &View, picture: Picture) -> bool {
    let Some(new) = turned(view, picture) else {
        return false;
    };
    match op {
        Op::Conv(conv) => !conv.transposed,
        Op::Map { .. } | Op::Copy { .. } | Op::Pool(_) | Op::Resize(_) | Op::Reduce { .. } => true,
        Op::Norm(_) | Op::Softmax { .. } | Op::MatMul(_) | Op::Attention(_) => {
            // Those go along the last axis, whose elements must not be taken from each other.
            let last = |view: &View| view.layout().strides().last().copied();
            last(view) != Some(1) || last(&new) == Some(1)
        }
        _ => false,
    }
}

/// The view with the channels of each place side by side, if it can be told what its axes go along.
fn turned(view: &View, picture: Picture) -> Option<View> {
    let Picture { channels, places } = picture;
    let each = channels.checked_mul(places)?;
    let layout = view.layout();
    let offset = layout.offset();
    let (image, channel, place) = (
        offset / each.max(1),
        offset % each.max(1) / places.max(1),
        offset % places.max(1),
    );
    // How far the axes reach along channels and places.
    let (mut last_channel, mut last_place) = (channel, place);
    let mut strides = Vec::new();
    for (&size, &stride) in layout.shape().iter().zip(layout.strides()) {
        let step = usize::try_from(stride).ok()?;
        if size <= 1 || step.is_multiple_of(each) {
            strides.push(stride);
        } else if step.is_multiple_of(places) {
            last_channel += (size - 1) * (step / places);
            strides.push((step / places) as isize);
        } else {
            last_place += (size - 1) * step;
            strides.push((step * channels) as isize);
        }
    }
    if last_channel >= channels || last_place >= places {
        return None;
    }
    let offset = image * each + place * channels + channel;
    let layout = Layout::strided(layout.shape(), &strides, offset).ok()?;
    View::new(view.span(), view.dtype(), layout).ok()
}

/// Memory that changes together.
#[derive(Default)]
struct Groups {
    parents: FxHashMap<Memory, Memory>,
}

impl Groups {
    fn of(&self, mut memory: Memory) -> Memory {
        while let Some(&parent) = self.parents.get(&memory) {
            memory = parent;
        }
        memory
    }

    fn join(&mut self, one: Memory, other: Memory) {
        let (one, other) = (self.of(one), self.of(other));
        if one != other {
            self.parents.insert(one, other);
        }
    }
}

#[cfg(test)]
mod tests;

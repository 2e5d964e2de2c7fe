//! Pictures with the channels of each place side by side, for devices that compute convolutions faster so.
//!
//! Only the strides of views change, and only those of memory between inputs and outputs. What an op computes is the same.

use rustc_hash::{FxHashMap, FxHashSet};

use streampool_device::{ChannelsLast, Conv, Layout, Op, Span, View};

use super::{direct, uses};
use crate::trace::{ListedOp, Listing, Memory, Picture, Source};

/// Lays out what the `wanted` convolutions read and make with channels last; says how many pictures.
///
/// Pictures that ops combine element by element lie alike: all of them change, or none does.
pub fn channels_last(listing: &mut Listing, wanted: ChannelsLast) -> usize {
    if wanted.dtypes.is_empty() && wanted.simple.is_empty() {
        return 0;
    }
    if !wanted.throughout {
        direct::write_directly(listing);
    }
    let fixed = fixed(listing);
    let pictures = pictures(listing, &fixed, wanted);
    let mut chosen = chosen(listing, &fixed, &pictures, wanted);
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
        *step.op = op;
    }
    if wanted.throughout {
        line_up(listing, wanted);
    }
    chosen.len()
}

/// Has each convolution that reads or makes pictures with channels last read and make all of them so, and its weights lie so:
/// copies bring there what lies otherwise.
fn line_up(listing: &mut Listing, wanted: ChannelsLast) {
    let mut fresh = Fresh::of(listing);
    let mut laid_out: FxHashMap<(Memory, Picture), View> = FxHashMap::default();
    for mut step in std::mem::take(&mut listing.steps) {
        let nodes = step.nodes.clone();
        let copy = |src: View, dst: View| ListedOp {
            op: Box::new(Op::Copy { src, dst }),
            nodes: nodes.clone(),
        };
        let mut after = None;
        if let Op::Conv(conv) = &mut *step.op
            && conv.window.len() == 2
            && !is_slower(conv, wanted)
            && [&conv.src, &conv.dst].into_iter().any(is_turned)
        {
            let is_for_each_channel = is_for_each_channel(conv);
            let (weight, memory) = (conv.weight, Memory::of(conv.weight.span()));
            let weights = match is_for_each_channel {
                // There is one channel to read, so those that are made are what lies side by side.
                true => Picture {
                    channels: weight.shape()[0],
                    places: weight.shape()[2] * weight.shape()[3],
                },
                false => picture(&weight),
            };
            let known = laid_out.get(&(memory, weights));
            if let Some(view) = known.filter(|view| view.shape() == weight.shape()) {
                conv.weight = *view;
            } else if weights.channels > 1
                && weights.places > 1
                && let Some(view) = fresh.turned(&weight, weights)
            {
                match listing.sources.get(&memory) {
                    Some(Source::Constant(tensor, None)) if uses::is_whole(&weight) => {
                        let source = Source::Constant(tensor.clone(), Some(weights));
                        listing.sources.insert(Memory::of(view.span()), source);
                        laid_out.insert((memory, weights), view);
                    }
                    _ => listing.steps.push(copy(weight, view)),
                }
                conv.weight = view;
            }
            // What sees each channel by itself is not the library's: it reads and writes whatever lies in whatever way.
            if !is_for_each_channel {
                if !lies_last(&conv.src)
                    && let Some(view) = fresh.turned(&conv.src, picture(&conv.src))
                {
                    listing.steps.push(copy(conv.src, view));
                    conv.src = view;
                }
                if !lies_last(&conv.dst)
                    && let Some(view) = fresh.turned(&conv.dst, picture(&conv.dst))
                {
                    after = Some(copy(view, conv.dst));
                    conv.dst = view;
                }
            }
        }
        listing.steps.push(step);
        listing.steps.extend(after);
    }
}

/// Makes memory that a listing does not have yet.
struct Fresh {
    last: u64,
}

impl Fresh {
    fn of(listing: &Listing) -> Fresh {
        let handles = listing.sources.keys().map(Memory::handle);
        let mut last = handles.max().unwrap_or(0);
        for step in &listing.steps {
            let op = &step.op;
            op.for_each_operand(|_, _, view| last = last.max(view.span().handle));
        }
        Fresh { last }
    }

    /// Memory for what a view has, with the channels of each place side by side.
    fn turned(&mut self, view: &View, picture: Picture) -> Option<View> {
        self.last += 1;
        let plain = Layout::contiguous(view.shape()).ok()?;
        let span = Span {
            handle: self.last,
            offset: 0,
            bytes: plain.elements() * view.dtype().size(),
        };
        turned(&View::new(span, view.dtype(), plain).ok()?, picture)
    }
}

/// Whether the channels of each place lie side by side, and in no other way.
fn is_turned(view: &View) -> bool {
    lies_last(view) && !view.layout().is_contiguous()
}

/// The pictures that a view of four axes is of.
fn picture(view: &View) -> Picture {
    let shape = view.shape();
    Picture {
        channels: shape[1],
        places: shape[2] * shape[3],
    }
}

/// Whether the channels of each place lie side by side, and the places one after the other.
fn lies_last(view: &View) -> bool {
    let turned = view.layout().permute(&[0, 2, 3, 1]);
    turned.is_ok_and(|layout| layout.is_contiguous())
}

/// Memory that callers and constants have as it is.
fn fixed(listing: &Listing) -> FxHashSet<Memory> {
    let mut fixed = uses::outputs(&listing.outputs);
    fixed.extend(listing.sources.keys());
    fixed
}

/// What memory is made of pictures, as far as ops say.
fn pictures(
    listing: &Listing,
    fixed: &FxHashSet<Memory>,
    wanted: ChannelsLast,
) -> FxHashMap<Memory, Picture> {
    let is_whole =
        |view: &View| uses::is_whole(view) && view.layout().rank() == 4 && is_wanted(view, wanted);
    let note = |view: &View, known: &mut FxHashMap<Memory, Picture>| {
        let memory = Memory::of(view.span());
        if is_whole(view) && !fixed.contains(&memory) {
            known.entry(memory).or_insert(picture(view));
        }
    };
    let mut known = FxHashMap::default();
    for step in &listing.steps {
        let ends = match &*step.op {
            Op::Conv(conv) => [conv.src, conv.dst],
            Op::Pool(pool) => [pool.src, pool.dst],
            Op::Resize(resize) => [resize.src, resize.dst],
            _ => continue,
        };
        for view in ends {
            note(&view, &mut known);
        }
    }
    // What is combined with a picture element by element is one too, step by step from there.
    loop {
        let before = known.len();
        for step in &listing.steps {
            let mut alike = Vec::new();
            match &*step.op {
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
                note(view, &mut known);
            }
        }
        if known.len() == before {
            return known;
        }
    }
}

/// The memory that changes: groups that a convolution gains by and nothing stands against.
fn chosen(
    listing: &Listing,
    fixed: &FxHashSet<Memory>,
    pictures: &FxHashMap<Memory, Picture>,
    wanted: ChannelsLast,
) -> FxHashSet<Memory> {
    let mut groups = Groups::default();
    let (mut gaining, mut refused) = (FxHashSet::default(), FxHashSet::default());
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
            if !can_turn(&step.op, view, picture, wanted) {
                refused.insert(memory);
            }
            if gains(&step.op, wanted) {
                gaining.insert(memory);
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
    let mut verdicts: FxHashMap<Memory, [bool; 3]> = FxHashMap::default();
    for (&memory, picture) in pictures {
        let [gains, stays, is_filled] = verdicts.entry(groups.of(memory)).or_default();
        *gains |= gaining.contains(&memory);
        *stays |= refused.contains(&memory) || fixed.contains(&memory);
        *is_filled |= wanted.throughout || picture.channels >= LEAST_CHANNELS;
    }
    let all = pictures.keys().copied();
    all.filter(|&memory| verdicts[&groups.of(memory)] == [true, false, true])
        .collect()
}

/// Pictures of fewer channels stay as they are, where convolutions read them so: to turn them costs more than it gains.
const LEAST_CHANNELS: usize = 4;

/// Of groups with fewer channels, most lanes of a vector would be idle.
const LEAST_OF_A_GROUP: usize = 8;

/// Whether it is a convolution that is faster so.
fn gains(op: &Op, wanted: ChannelsLast) -> bool {
    let Op::Conv(conv) = op else { return false };
    is_wanted(&conv.src, wanted) && is_faster(conv) && !is_slower(conv, wanted)
}

fn is_wanted(view: &View, wanted: ChannelsLast) -> bool {
    let dtypes = [wanted.dtypes, wanted.simple];
    dtypes.iter().any(|dtypes| dtypes.contains(&view.dtype()))
}

/// Whether it is a convolution that is slower so.
fn is_slower(conv: &Conv, wanted: ChannelsLast) -> bool {
    let is_simple = is_for_each_channel(conv) || conv.is_of_patches();
    wanted.simple.contains(&conv.src.dtype()) && !is_simple
}

fn is_faster(conv: &Conv) -> bool {
    let of_a_group = |view: &View| view.shape()[1] / conv.groups.max(1);
    let is_filled = |view| of_a_group(view) >= LEAST_OF_A_GROUP;
    conv.window.len() == 2
        && !conv.transposed
        && (conv.groups == 1
            || is_for_each_channel(conv)
            || is_filled(&conv.src) && is_filled(&conv.dst))
}

fn is_for_each_channel(conv: &Conv) -> bool {
    conv.groups > 1 && conv.groups == conv.src.shape()[1] && conv.groups == conv.dst.shape()[1]
}

/// Whether an op goes over its largest operands in step.
fn goes_along(op: &Op) -> bool {
    matches!(
        op,
        Op::Map { .. } | Op::Copy { .. } | Op::Pool(_) | Op::Resize(_)
    )
}

/// Whether an op reads or writes a view of a picture as well with the channels last.
fn can_turn(op: &Op, view: &View, picture: Picture, wanted: ChannelsLast) -> bool {
    let Some(new) = turned(view, picture) else {
        return false;
    };
    match op {
        Op::Conv(conv) => {
            !conv.transposed && (!wanted.throughout || is_faster(conv)) && !is_slower(conv, wanted)
        }
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
        if size <= 1 {
            // Nothing goes along it. Kernels that read several channels at once want places to begin at a multiple of these.
            strides.push(isize::try_from(channels).ok()?);
        } else if step.is_multiple_of(each) {
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

//! What each place along a dimension is made of.

use std::ops::Range;

use streampool_device::{Along, Interpolation, Resize, Rounding};

use crate::given_up::Steps;
use crate::kernels::scratch::{Count, filled, push, with_room};

/// Which elements count for each place of a dimension, and how much.
#[derive(Debug)]
pub(super) struct Taps {
    /// Where each place's begin among all, and where the last's end.
    starts: Vec<usize>,
    /// Elements of the source and their weights, none of which is zero.
    all: Vec<(usize, f64)>,
    /// Which places lie beyond the first or the last element.
    pub(super) is_outside: Vec<bool>,
}

impl Taps {
    /// The taps of dimension `axis`.
    pub(super) fn new(op: &Resize, axis: usize) -> Taps {
        let (along, size) = (op.along[axis], op.src.shape()[axis]);
        let places = op.dst.shape()[axis];
        let mut taps = Taps {
            starts: filled(0, Count::of(1)),
            all: with_room(Count::of(places)),
            is_outside: with_room(Count::of(places)),
        };
        for output in 0..places {
            let place = place(along, output);
            taps.append(op, along, size, place);
            push(&mut taps.starts, taps.all.len());
            push(&mut taps.is_outside, is_outside(place, size));
        }
        taps
    }

    /// How many places there are.
    pub(super) fn places(&self) -> usize {
        self.starts.len() - 1
    }

    /// What the place is made of.
    pub(super) fn of(&self, place: usize) -> &[(usize, f64)] {
        &self.all[self.starts[place]..self.starts[place + 1]]
    }

    /// Whether each place is the element of its number.
    pub(super) fn is_identity(&self, size: usize) -> bool {
        self.places() == size
            && (0..size).all(|place| !self.is_outside[place] && self.of(place) == [(place, 1.0)])
    }

    fn append(&mut self, op: &Resize, along: Along, size: usize, place: f64) {
        // A filter as wide as the distance between places, so that each element counts somewhere.
        let stretch = match op.antialias {
            true => along.scale.clamp(1.0, WIDEST),
            false => 1.0,
        };
        let reach = match op.interpolation {
            Interpolation::Cubic(_) => 2.0,
            _ => 1.0,
        };
        let last = size as f64 - 1.0;
        // Beyond the edge all elements are one: a place far out may lie just out.
        let place = place.clamp(-1.0 - reach * stretch, last + 1.0 + reach * stretch);
        let first = (place - reach * stretch).floor() as isize;
        let end = (place + reach * stretch).ceil() as isize;
        let from = self.all.len();
        let (mut total, mut steps) = (0.0, Steps::default());
        let mut add = |element: isize, weight: f64| {
            steps.take(1);
            let inside = element.clamp(0, size as isize - 1) as usize;
            if weight == 0.0 {
                return;
            }
            total += weight;
            match self.all[from..].last_mut() {
                Some((tap, sum)) if *tap == inside => *sum += weight,
                _ => push(&mut self.all, (inside, weight)),
            }
        };
        let one = |element: isize| weight(op.interpolation, (element as f64 - place) / stretch);
        // All that lie beyond an edge count as the one at the edge. They may be any number, far more than there are.
        let beyond = |range: Range<isize>, add: &mut dyn FnMut(isize, f64)| {
            if op.exclude_outside {
                return;
            }
            if range.len() <= MOST_BEYOND {
                return range.for_each(|element| add(element, one(element)));
            }
            let up_to = |end: isize| {
                let distance = (end as f64 - 0.5 - place) / stretch;
                area(op.interpolation, distance)
            };
            add(
                range.start,
                (up_to(range.end) - up_to(range.start)) * stretch,
            );
        };
        let end = end.saturating_add(1);
        beyond(first..end.min(0), &mut add);
        (first.max(0)..end.min(size as isize)).for_each(|element| add(element, one(element)));
        beyond(first.max(size as isize)..end, &mut add);
        if total == 0.0 {
            // Nothing inside counts: the edge does.
            self.all.truncate(from);
            push(&mut self.all, (place.clamp(0.0, last) as usize, 1.0));
            return;
        }
        if op.antialias || op.exclude_outside {
            self.all[from..]
                .iter_mut()
                .for_each(|(_, weight)| *weight /= total);
        }
    }
}

/// No filter is wider, in elements: of one that is, each element inside counts the same all the more.
const WIDEST: f64 = (1u64 << 60) as f64;
/// Of more elements than this beyond an edge, the weights are not added up but integrated: by so many, that is as
/// exact.
const MOST_BEYOND: usize = 1 << 16;

/// Where an output lies along the source.
fn place(along: Along, output: usize) -> f64 {
    output as f64 * along.scale + along.shift
}

fn is_outside(place: f64, size: usize) -> bool {
    !(0.0..=size as f64 - 1.0).contains(&place)
}

/// How much an element counts that lies so far away.
fn weight(interpolation: Interpolation, distance: f64) -> f64 {
    let x = distance.abs();
    match interpolation {
        Interpolation::Cubic(a) if x <= 1.0 => ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0,
        Interpolation::Cubic(a) if x < 2.0 => ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a,
        Interpolation::Cubic(_) => 0.0,
        _ => (1.0 - x).max(0.0),
    }
}

/// The integral of the weight from `-inf` to a distance: one up to `inf`.
fn area(interpolation: Interpolation, distance: f64) -> f64 {
    let x = distance.abs();
    let half = match interpolation {
        Interpolation::Cubic(a) => {
            let near = |x: f64| (((a + 2.0) / 4.0 * x - (a + 3.0) / 3.0) * x * x + 1.0) * x;
            let far = |x: f64| a * (((x / 4.0 - 5.0 / 3.0) * x + 4.0) * x - 4.0) * x;
            let x = x.min(2.0);
            near(x.min(1.0)) + far(x.max(1.0)) - far(1.0)
        }
        _ => {
            let x = x.min(1.0);
            x - x * x / 2.0
        }
    };
    0.5 + half.copysign(distance)
}

/// The element nearest to each place of dimension `axis`; `None` for places beyond the first or the last, if
/// those are told apart.
pub(super) fn nearest(
    op: &Resize,
    axis: usize,
    rounding: Rounding,
) -> impl ExactSizeIterator<Item = Option<usize>> {
    let (along, size) = (op.along[axis], op.src.shape()[axis]);
    let told_apart = op.outside.is_some();
    (0..op.dst.shape()[axis]).map(move |output| {
        let place = place(along, output);
        // A sum of a place and a half may be rounded up to the next whole number; the difference is exact.
        let (below, part) = (place.floor(), place - place.floor());
        let nearest = match rounding {
            Rounding::HalfDown => below + f64::from(u8::from(part > 0.5)),
            Rounding::HalfUp => below + f64::from(u8::from(part >= 0.5)),
            Rounding::Floor => below,
            Rounding::Ceil => place.ceil(),
        };
        let told = told_apart && is_outside(place, size);
        (!told).then(|| (nearest as isize).clamp(0, size as isize - 1) as usize)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_one_in_all() {
        for interpolation in [Interpolation::Linear, Interpolation::Cubic(-0.75)] {
            for tenth in 0..10 {
                let place = f64::from(tenth) / 10.0;
                let sum: f64 = (-3..5)
                    .map(|element| weight(interpolation, f64::from(element) - place))
                    .sum();
                assert!((sum - 1.0).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn many_weights_are_their_integral() {
        for interpolation in [Interpolation::Linear, Interpolation::Cubic(-0.75)] {
            let stretch = 1e5;
            let mut sum = 0.0;
            for element in -250_000..250_000 {
                let distance = f64::from(element) / stretch;
                if element % 12_345 == 0 {
                    let wanted = area(interpolation, distance - 0.5 / stretch) * stretch;
                    assert!((sum - wanted).abs() < 1e-4, "{sum} for {wanted}");
                }
                sum += weight(interpolation, distance);
            }
            assert!((area(interpolation, 9.0) - 1.0).abs() < 1e-12);
        }
    }
}

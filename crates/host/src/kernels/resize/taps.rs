//! What each place along a dimension is made of.

use streampool_device::{Along, Interpolation, Resize, Rounding};

/// Which elements count for each place of a dimension, and how much.
#[derive(Debug, Default)]
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
        let mut taps = Taps {
            starts: vec![0],
            ..Taps::default()
        };
        for output in 0..op.dst.shape()[axis] {
            let place = place(along, output);
            taps.append(op, along, size, place);
            taps.starts.push(taps.all.len());
            taps.is_outside.push(is_outside(place, size));
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
            true => along.scale.max(1.0),
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
        let mut total = 0.0;
        for element in first..=end {
            let weight = weight(op.interpolation, (element as f64 - place) / stretch);
            let inside = element.clamp(0, size as isize - 1);
            if weight == 0.0 || op.exclude_outside && inside != element {
                continue;
            }
            total += weight;
            match self.all[from..].last_mut() {
                Some((tap, sum)) if *tap == inside as usize => *sum += weight,
                _ => self.all.push((inside as usize, weight)),
            }
        }
        if total == 0.0 {
            // Nothing inside counts: the edge does.
            self.all.truncate(from);
            self.all.push((place.clamp(0.0, last) as usize, 1.0));
            return;
        }
        if op.antialias || op.exclude_outside {
            self.all[from..]
                .iter_mut()
                .for_each(|(_, weight)| *weight /= total);
        }
    }
}

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

/// The element nearest to each place of dimension `axis`; `None` for places beyond the first or the last, if
/// those are told apart.
pub(super) fn nearest(op: &Resize, axis: usize, rounding: Rounding) -> Vec<Option<usize>> {
    let (along, size) = (op.along[axis], op.src.shape()[axis]);
    (0..op.dst.shape()[axis])
        .map(|output| {
            let place = place(along, output);
            let nearest = match rounding {
                Rounding::HalfDown => (place - 0.5).ceil(),
                Rounding::HalfUp => (place + 0.5).floor(),
                Rounding::Floor => place.floor(),
                Rounding::Ceil => place.ceil(),
            };
            let told = op.outside.is_some() && is_outside(place, size);
            (!told).then(|| (nearest as isize).clamp(0, size as isize - 1) as usize)
        })
        .collect()
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
}

//! Interpolation: each place from all elements that count for it.

use streampool_device::{Interpolation, Resize, Rounding};

use super::expected::{Expected, constant};
use crate::num::Num;
use crate::operand::Operand;

/// What is looked at, in other places.
pub(super) fn resize(op: &Resize<usize>, operands: &[Operand]) -> Vec<Expected> {
    let (src, dst) = (&operands[op.src], &operands[op.dst]);
    let values = src.values();
    let along: Vec<Vec<Along>> = (0..dst.shape().len())
        .map(|axis| {
            (0..dst.shape()[axis])
                .map(|output| Along::new(op, axis, output, src.shape()[axis]))
                .collect()
        })
        .collect();
    (0..dst.layout.elements())
        .map(|number| {
            let mut rest = number;
            let mut taps = vec![(0usize, 1.0f64)];
            let mut is_outside = false;
            let mut step = 1;
            for axis in (0..along.len()).rev() {
                let here = &along[axis][rest % dst.shape()[axis]];
                rest /= dst.shape()[axis];
                is_outside |= here.is_outside;
                taps = taps
                    .iter()
                    .flat_map(|&(at, weight)| {
                        let here = here.taps.iter();
                        here.map(move |&(place, more)| (at + place * step, weight * more))
                    })
                    .collect();
                step *= src.shape()[axis];
            }
            match op.outside {
                Some(value) if is_outside => {
                    return Expected::exact(constant(value.into(), dst.dtype));
                }
                _ => {}
            }
            // Between elements a place that is one by rounding alone may count as just beside it.
            if let ([(at, 1.0)], Interpolation::Nearest(_)) = (&taps[..], op.interpolation) {
                return Expected::exact(values[*at]);
            }
            let terms = || taps.iter().map(|&(at, weight)| values[at].float() * weight);
            let scale = 4.0 * terms().map(f64::abs).sum::<f64>();
            Expected {
                value: Num::Float(terms().sum()),
                scale: if scale.is_finite() { scale } else { 0.0 },
            }
        })
        .collect()
}

/// One dimension of one place.
struct Along {
    taps: Vec<(usize, f64)>,
    is_outside: bool,
}

impl Along {
    fn new(op: &Resize<usize>, axis: usize, output: usize, size: usize) -> Along {
        let along = op.along[axis];
        let place = output as f64 * along.scale + along.shift;
        let last = size as i64 - 1;
        let stretch = match op.antialias && along.scale > 1.0 {
            true => along.scale,
            false => 1.0,
        };
        let taps = match op.interpolation {
            Interpolation::Nearest(rounding) => {
                let (below, above) = (place.floor(), place.ceil());
                let nearest = match rounding {
                    Rounding::Floor => below,
                    Rounding::Ceil => above,
                    Rounding::HalfDown if place - below <= 0.5 => below,
                    Rounding::HalfUp if place - below < 0.5 => below,
                    Rounding::HalfDown | Rounding::HalfUp => below + 1.0,
                };
                vec![((nearest as i64).clamp(0, last) as usize, 1.0)]
            }
            Interpolation::Linear | Interpolation::Cubic(_) => {
                let far = (2.0 * stretch).ceil() as i64 + 1;
                let centre = place.floor() as i64;
                let all = (centre - far..=centre + far)
                    .map(|at| {
                        let distance = (at as f64 - place).abs() / stretch;
                        (at, weight(op.interpolation, distance))
                    })
                    .filter(|&(at, weight)| {
                        weight != 0.0 && (!op.exclude_outside || (0..=last).contains(&at))
                    });
                let all: Vec<(i64, f64)> = all.collect();
                let total: f64 = match op.antialias || op.exclude_outside {
                    true => all.iter().map(|(_, weight)| weight).sum(),
                    false => 1.0,
                };
                let mut taps: Vec<(usize, f64)> = Vec::new();
                for (at, weight) in all {
                    let at = at.clamp(0, last) as usize;
                    match taps.iter_mut().find(|tap| tap.0 == at) {
                        Some(tap) => tap.1 += weight / total,
                        None => taps.push((at, weight / total)),
                    }
                }
                if taps.is_empty() {
                    taps.push((place.clamp(0.0, last as f64) as usize, 1.0));
                }
                taps
            }
        };
        Along {
            taps,
            is_outside: place < 0.0 || place > last as f64,
        }
    }
}

fn weight(interpolation: Interpolation, x: f64) -> f64 {
    match interpolation {
        Interpolation::Cubic(a) => {
            if x < 1.0 {
                (a + 2.0) * x.powi(3) - (a + 3.0) * x.powi(2) + 1.0
            } else if x < 2.0 {
                a * x.powi(3) - 5.0 * a * x.powi(2) + 8.0 * a * x - 4.0 * a
            } else {
                0.0
            }
        }
        _ => (1.0 - x).max(0.0),
    }
}

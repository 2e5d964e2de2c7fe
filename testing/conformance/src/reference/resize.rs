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
            let mut taps = vec![Tap {
                at: 0,
                weight: 1.0,
                made_of: 1.0,
            }];
            let mut is_outside = false;
            let mut step = 1;
            for axis in (0..along.len()).rev() {
                let here = &along[axis][rest % dst.shape()[axis]];
                rest /= dst.shape()[axis];
                is_outside |= here.is_outside;
                taps = taps
                    .iter()
                    .flat_map(|tap| {
                        let here = here.taps.iter();
                        here.map(move |more| Tap {
                            at: tap.at + more.at * step,
                            weight: tap.weight * more.weight,
                            made_of: tap.made_of * more.made_of,
                        })
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
            if let (
                [
                    Tap {
                        at, weight: 1.0, ..
                    },
                ],
                Interpolation::Nearest(_),
            ) = (&taps[..], op.interpolation)
            {
                return Expected::exact(values[*at]);
            }
            let terms = taps.iter().map(|tap| values[tap.at].float() * tap.weight);
            let sizes = taps
                .iter()
                .map(|tap| values[tap.at].float().abs() * tap.made_of);
            let scale = 4.0 * sizes.sum::<f64>();
            Expected {
                value: Num::Float(terms.sum()),
                scale: if scale.is_finite() { scale } else { 0.0 },
            }
        })
        .collect()
}

/// An element that counts for a place.
#[derive(Debug, Clone, Copy)]
struct Tap {
    at: usize,
    weight: f64,
    /// What the weight is the sum of, all positive: rounding errors are a part of it.
    made_of: f64,
}

/// One dimension of one place.
struct Along {
    taps: Vec<Tap>,
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
                vec![Tap {
                    at: (nearest as i64).clamp(0, last) as usize,
                    weight: 1.0,
                    made_of: 1.0,
                }]
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
                let mut taps: Vec<Tap> = Vec::new();
                for (at, weight) in all {
                    let at = at.clamp(0, last) as usize;
                    let weight = weight / total;
                    let made_of = weight.abs() + unsure(op.interpolation) / total.abs();
                    match taps.iter_mut().find(|tap| tap.at == at) {
                        Some(tap) => {
                            tap.weight += weight;
                            tap.made_of += made_of;
                        }
                        None => taps.push(Tap {
                            at,
                            weight,
                            made_of,
                        }),
                    }
                }
                if taps.is_empty() {
                    taps.push(Tap {
                        at: place.clamp(0.0, last as f64) as usize,
                        weight: 1.0,
                        made_of: 1.0,
                    });
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

/// What a weight may be off by, in parts of its precision, however small it is: a cubic one is a difference of terms, each of which
/// loses a few bits at most.
fn unsure(interpolation: Interpolation) -> f64 {
    match interpolation {
        Interpolation::Cubic(a) => a.abs() / 8.0,
        _ => 0.0,
    }
}

/// Where it is small it is a product, so that no digits are lost.
fn weight(interpolation: Interpolation, x: f64) -> f64 {
    match interpolation {
        Interpolation::Cubic(a) => {
            if x < 1.0 {
                (1.0 - x) * (1.0 + x - (a + 2.0) * x.powi(2))
            } else if x < 2.0 {
                a * (x - 1.0) * (x - 2.0).powi(2)
            } else {
                0.0
            }
        }
        _ => (1.0 - x).max(0.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_weight_of_a_cubic_has_all_its_digits() {
        let a = -0.75;
        for small in [1e-3, 1e-6] {
            for (x, expected) in [
                (2.0 - small, a * (1.0 - small) * small * small),
                (
                    1.0 - small,
                    small * (-a + small * (2.0 * a + 3.0 - (a + 2.0) * small)),
                ),
            ] {
                let found = weight(Interpolation::Cubic(a), x);
                assert!(
                    (found / expected - 1.0).abs() < 1e-8,
                    "{found} for {expected}"
                );
            }
        }
    }
}

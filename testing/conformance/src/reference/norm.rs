//! Layer and RMS normalisation.

use streampool_device::{Norm, NormKind};

use super::expected::{Expected, total};
use crate::num::Num;
use crate::operand::Operand;

/// `norm(src + added) * scale + bias`, and `src + added`.
pub(super) fn norm(op: &Norm<usize>, operands: &[Operand]) -> [Vec<Expected>; 2] {
    let src = &operands[op.src];
    let width: usize = src.shape()[op.axis..].iter().product();
    let affine = |operand: Option<usize>| {
        operand.map(|index| -> Vec<f64> {
            operands[index]
                .values()
                .iter()
                .map(|value| value.float())
                .collect()
        })
    };
    let (scale, bias) = (affine(op.scale), affine(op.bias));
    let mut values: Vec<f64> = src.values().iter().map(|value| value.float()).collect();
    if let Some(added) = op.added {
        let added = operands[added].values();
        values
            .iter_mut()
            .zip(added)
            .for_each(|(value, added)| *value += added.float());
    }
    let sum = values.iter().map(|&value| Expected {
        value: Num::Float(value),
        scale: value.abs(),
    });
    let sum = sum.collect();
    let normalised = values
        .chunks(width.max(1))
        .flat_map(|row| {
            let count = row.len() as f64;
            let centre = match op.kind {
                NormKind::Layer => total(row.iter().copied()) / count,
                NormKind::Rms => 0.0,
            };
            let spread = total(row.iter().map(|x| (x - centre).powi(2))) / count;
            let divisor = (spread + op.epsilon).sqrt();
            let magnitude = row.iter().fold(0.0f64, |largest, x| largest.max(x.abs()));
            let (scale, bias) = (&scale, &bias);
            row.iter().enumerate().map(move |(index, x)| {
                let factor = scale.as_ref().map_or(1.0, |scale| scale[index]);
                let shift = bias.as_ref().map_or(0.0, |bias| bias[index]);
                let normal = (x - centre) / divisor;
                Expected {
                    value: Num::Float(normal * factor + shift),
                    scale: (magnitude / divisor + normal.abs()) * factor.abs() + shift.abs(),
                }
            })
        })
        .collect();
    [normalised, sum]
}

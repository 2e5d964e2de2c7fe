//! Regions: each cell from all its samples, however far they lie.

use streampool_device::Regions;

use super::expected::Expected;
use crate::num::Num;
use crate::operand::Operand;

/// The cells of all regions.
pub(super) fn regions(op: &Regions<usize>, operands: &[Operand]) -> Vec<Expected> {
    let [src, corners, batches] = [op.src, op.corners, op.batches].map(|place| &operands[place]);
    let shape = operands[op.dst].shape().to_vec();
    let [_, channels, height, width] = [0, 1, 2, 3].map(|axis| src.shape()[axis]);
    let (values, corners, batches) = (src.values(), corners.values(), batches.values());
    let mut made = Vec::new();
    for region in 0..shape[0] {
        let corner = |column: usize| corners[region * 4 + column].float();
        let picture = batches[region].float() as usize;
        for channel in 0..channels {
            for row in 0..shape[2] {
                for column in 0..shape[3] {
                    let down = samples(op, [corner(1), corner(3)], row, shape[2], height);
                    let across = samples(op, [corner(0), corner(2)], column, shape[3], width);
                    let (mut sum, mut scale, mut most) = (0.0f64, 0.0f64, f64::NEG_INFINITY);
                    let count = down.len() * across.len();
                    for &(y, down) in &down {
                        for &(x, across) in &across {
                            if !(down && across) {
                                most = most.max(0.0);
                                continue;
                            }
                            for (y, by_row) in ends(y, height) {
                                for (x, by_column) in ends(x, width) {
                                    let place = (picture * channels + channel) * height + y;
                                    let value = values[place * width + x].float();
                                    let weighted = value * by_row * by_column;
                                    sum += weighted;
                                    scale += 8.0 * value.abs();
                                    most = most.max(weighted);
                                }
                            }
                        }
                    }
                    let value = match (count, op.largest) {
                        (0, _) => 0.0,
                        (_, true) => most,
                        (count, false) => sum / count as f64,
                    };
                    made.push(Expected {
                        value: Num::Float(value),
                        scale: if op.largest {
                            scale
                        } else {
                            scale / count.max(1) as f64
                        },
                    });
                }
            }
        }
    }
    made
}

/// The places of a cell's samples, and whether they are in the picture.
fn samples(
    op: &Regions<usize>,
    [first, last]: [f64; 2],
    cell: usize,
    cells: usize,
    size: usize,
) -> Vec<(f64, bool)> {
    let half = if op.aligned { 0.5 } else { 0.0 };
    let start = first * op.scale - half;
    let mut length = last * op.scale - half - start;
    if !op.aligned {
        length = length.max(1.0);
    }
    let each = length / cells as f64;
    let count = match op.samples {
        0 => each.ceil().max(0.0) as usize,
        count => count,
    };
    let place =
        |sample: usize| start + cell as f64 * each + (sample as f64 + 0.5) * each / count as f64;
    (0..count)
        .map(|sample| {
            (
                place(sample),
                place(sample) >= -1.0 && place(sample) <= size as f64,
            )
        })
        .collect()
}

/// The two elements that a place lies between, and what they count.
fn ends(place: f64, size: usize) -> [(usize, f64); 2] {
    let place = place.max(0.0);
    let low = (place as usize).min(size - 1);
    let high = (low + 1).min(size - 1);
    let far = if low == high { 0.0 } else { place - low as f64 };
    [(low, 1.0 - far), (high, far)]
}

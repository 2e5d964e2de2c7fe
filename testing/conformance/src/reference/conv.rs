//! Convolution and its transpose: each pair of an element and a tap that meet, one by one.

use streampool_device::{Conv, ToBytes};

use super::expected::{Expected, Total};
use super::map::activation;
use crate::num::{Num, wrapped};
use crate::operand::Operand;

/// `activation(src * weight + bias)`.
pub(super) fn conv(op: &Conv<usize>, operands: &[Operand]) -> Vec<Expected> {
    let (src, weight, dst) = (&operands[op.src], &operands[op.weight], &operands[op.dst]);
    let (values, weights) = (src.values(), weight.values());
    let [images, read, ..] = *src.shape() else {
        panic!("the source has channels")
    };
    let made = dst.shape()[1];
    let (group_read, group_made) = (read / op.groups, made / op.groups);
    let pixels = |shape: &[usize]| shape[2..].iter().product::<usize>();
    let (from, to, taps) = (
        pixels(src.shape()),
        pixels(dst.shape()),
        pixels(weight.shape()),
    );
    let meetings = meetings(op, src.shape(), dst.shape(), weight.shape());
    let bias = op.bias.map(|bias| operands[bias].values());
    let is_float = src.dtype.is_float();
    let mut expected = Vec::new();
    for image in 0..images {
        for channel in 0..made {
            let group = channel / group_made;
            let mut sums = vec![(Total::default(), 0.0); to];
            let mut whole = vec![0i128; to];
            for other in 0..group_read {
                let seen = group * group_read + other;
                let row = match op.transposed {
                    false => channel * group_read + other,
                    true => seen * group_made + channel % group_made,
                };
                for &[source, target, tap] in &meetings {
                    if !is_float {
                        let value = values[(image * read + seen) * from + source].int()
                            - i128::from(op.zero_point);
                        whole[target] += value * weights[row * taps + tap].int();
                        continue;
                    }
                    let product = values[(image * read + seen) * from + source].float()
                        * weights[row * taps + tap].float();
                    sums[target].0.add(product);
                    sums[target].1 += product.abs();
                }
            }
            if !is_float {
                if let Some(ToBytes { scale, zero_point }) = op.to_bytes {
                    let scale = operands[scale].values()[channel].float() as f32;
                    let bias = bias.as_ref().map_or(0.0, |bias| bias[channel].float()) as f32;
                    expected.extend(whole.into_iter().map(|sum| {
                        let near =
                            (sum as f32 * scale + bias).round_ties_even() + f32::from(zero_point);
                        Expected::exact(Num::Int(i128::from(near as u8)))
                    }));
                    continue;
                }
                let bias = bias.as_ref().map_or(0, |bias| bias[channel].int());
                let exact = |sum: i128| Expected::exact(Num::Int(wrapped(dst.dtype, sum + bias)));
                expected.extend(whole.into_iter().map(exact));
                continue;
            }
            let bias = bias.as_ref().map_or(0.0, |bias| bias[channel].float());
            expected.extend(sums.iter().map(|(sum, magnitude)| {
                // No activation is steeper than about 1.13.
                let scale = 1.2 * (magnitude + bias.abs());
                Expected {
                    value: Num::Float(activation(op.activation, sum.value() + bias)),
                    scale: if scale.is_finite() { scale } else { 0.0 },
                }
            }));
        }
    }
    expected
}

/// Which pixel of the source reaches which of the result, and by which tap.
fn meetings(op: &Conv<usize>, from: &[usize], to: &[usize], kernel: &[usize]) -> Vec<[usize; 3]> {
    let mut meetings = vec![[0; 3]];
    for (axis, slide) in op.window.iter().enumerate() {
        let sizes = [from[axis + 2], to[axis + 2], kernel[axis + 2]];
        let mut longer = Vec::new();
        for outer in &meetings {
            // The window slides over the one, and stands at the elements of the other.
            let (slid, stood) = match op.transposed {
                false => (0, 1),
                true => (1, 0),
            };
            for stand in 0..sizes[stood] {
                for tap in 0..sizes[2] {
                    let place = (stand * slide.stride as usize + tap * slide.dilation as usize)
                        .checked_sub(slide.before as usize);
                    let Some(place) = place.filter(|&place| place < sizes[slid]) else {
                        continue;
                    };
                    let mut met = [0, 0, tap];
                    met[slid] = place;
                    met[stood] = stand;
                    longer.push([0, 1, 2].map(|of| outer[of] * sizes[of] + met[of]));
                }
            }
        }
        meetings = longer;
    }
    meetings
}

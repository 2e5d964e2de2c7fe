//! Operators that move elements, against where each element should come from.

mod errors;

use crate::common::values::{Values, disguised, shape};
use crate::common::{Rng, pool};
use streampool_tensor::{DType, DepthOrder, Padding, Pool, Tensor};

/// Numbered elements, somehow laid out.
fn numbered(choices: &mut Rng, pool: &Pool, shape: &[usize]) -> (Tensor, Values<i32>) {
    let mut next = 0;
    let values = Values::from_fn(shape, |_| {
        next += 1;
        next
    });
    (values.tensor(choices, pool), values)
}

fn check(name: &str, got: &Tensor, wanted: &Values<i32>) {
    assert_eq!(&Values::of(got), wanted, "{name}");
}

/// Index `index` with another number for one axis.
fn with(index: &[usize], axis: usize, place: usize) -> Vec<usize> {
    let mut index = index.to_vec();
    index[axis] = place;
    index
}

#[test]
fn tensors_end_to_end_and_on_top_of_each_other() {
    let (pool, mut choices) = (pool(), Rng::new(1));
    for _ in 0..40 {
        let shape = shape(&mut choices, 8);
        if shape.is_empty() {
            continue;
        }
        let axis = choices.below(shape.len());
        let count = 1 + choices.below(4);
        let mut parts = Vec::new();
        for _ in 0..count {
            let part = with(&shape, axis, choices.below(4));
            parts.push(numbered(&mut choices, &pool, &part));
        }
        let total = parts.iter().map(|(_, values)| values.shape[axis]).sum();
        let wanted = Values::from_fn(&with(&shape, axis, total), |index| {
            let mut place = index[axis];
            let (_, part) = parts
                .iter()
                .find(|(_, part)| {
                    let inside = place < part.shape[axis];
                    place -= if inside { 0 } else { part.shape[axis] };
                    inside
                })
                .unwrap();
            part.at(&with(&index, axis, place))
        });
        let tensors: Vec<&Tensor> = parts.iter().map(|(tensor, _)| tensor).collect();
        let signed = axis as isize
            - if choices.below(2) == 0 {
                shape.len() as isize
            } else {
                0
            };
        check("cat", &Tensor::cat(&tensors, signed).unwrap(), &wanted);

        if shape.len() == 8 {
            continue;
        }
        let parts: Vec<_> = (0..count)
            .map(|_| numbered(&mut choices, &pool, &shape))
            .collect();
        let mut raised = shape.clone();
        raised.insert(axis, count);
        let wanted = Values::from_fn(&raised, |mut index| {
            let part = index.remove(axis);
            parts[part].1.at(&index)
        });
        let tensors: Vec<&Tensor> = parts.iter().map(|(tensor, _)| tensor).collect();
        check(
            "stack",
            &Tensor::stack(&tensors, axis as isize).unwrap(),
            &wanted,
        );
    }
}

#[test]
fn elements_again_and_again() {
    let (pool, mut choices) = (pool(), Rng::new(2));
    for _ in 0..40 {
        let shape = shape(&mut choices, 8);
        let (tensor, values) = numbered(&mut choices, &pool, &shape);
        let more = choices.below(9 - shape.len().max(1)).min(2);
        let times: Vec<usize> = (0..shape.len() + more)
            .map(|_| [1, 1, 2, 3, 0][choices.below(5)])
            .collect();
        let lead = times.len() - shape.len();
        let sizes: Vec<usize> = times
            .iter()
            .enumerate()
            .map(|(axis, count)| count * if axis < lead { 1 } else { shape[axis - lead] })
            .collect();
        let wanted = Values::from_fn(&sizes, |index| {
            let own: Vec<usize> = (0..shape.len())
                .map(|axis| index[axis + lead] % shape[axis])
                .collect();
            values.at(&own)
        });
        check("repeat", &tensor.repeat(&times).unwrap(), &wanted);
        check("tile", &tensor.tile(&times).unwrap(), &wanted);
        if shape.is_empty() {
            continue;
        }
        let all: Vec<usize> = [&vec![1; shape.len() - 1][..], &[2]].concat();
        let twice = tensor.repeat(&all).unwrap();
        check(
            "tile of the last",
            &tensor.tile(&[2]).unwrap(),
            &Values::of(&twice),
        );
        let (axis, count) = (choices.below(shape.len()), choices.below(4));
        let wanted = Values::from_fn(&with(&shape, axis, shape[axis] * count), |index| {
            values.at(&with(&index, axis, index[axis] / count))
        });
        let got = tensor.repeat_interleave(count, axis as isize).unwrap();
        check("repeat_interleave", &got, &wanted);
    }
}

#[test]
fn padding_goes_on_where_the_tensor_ends() {
    let (pool, mut choices) = (pool(), Rng::new(3));
    for round in 0..80 {
        let shape = shape(&mut choices, if round % 8 == 0 { 8 } else { 4 });
        if shape.contains(&0) && round % 4 != 0 {
            continue;
        }
        let (tensor, values) = numbered(&mut choices, &pool, &shape);
        let padding = match round % 4 {
            0 => Padding::Constant(7.into()),
            1 => Padding::Reflect,
            2 => Padding::Edge,
            _ => Padding::Wrap,
        };
        let amounts: Vec<(isize, isize)> = shape
            .iter()
            .map(|&size| {
                let size = size as isize;
                // First what is taken away, then how much of what is left can be put around it.
                let lost = -(choices.between(0, size.min(2) as i64) as isize);
                let left = size + lost;
                let most = match padding {
                    Padding::Reflect => (left - 1).max(0),
                    Padding::Wrap => left,
                    Padding::Edge if left == 0 => 0,
                    _ => 3,
                };
                let before = choices.between(0, most.min(3) as i64) as isize;
                if choices.below(3) > 0 {
                    (before, lost)
                } else {
                    (lost, before)
                }
            })
            .collect();
        let sizes: Vec<usize> = shape
            .iter()
            .zip(&amounts)
            .map(|(&size, &(before, after))| (size as isize + before + after) as usize)
            .collect();
        let wanted = Values::from_fn(&sizes, |index| {
            let mut source = Vec::new();
            for (axis, &place) in index.iter().enumerate() {
                let (before, after) = amounts[axis];
                let (low, high) = (-before.min(0), shape[axis] as isize + after.min(0));
                let place = place as isize - before;
                let place = match padding {
                    _ if (low..high).contains(&place) => place,
                    Padding::Constant(_) => return 7,
                    Padding::Reflect if place < low => 2 * low - place,
                    Padding::Reflect => 2 * (high - 1) - place,
                    Padding::Edge => place.clamp(low, high - 1),
                    Padding::Wrap => low + (place - low).rem_euclid(high - low),
                };
                source.push(place as usize);
            }
            values.at(&source)
        });
        let name = format!("pad {shape:?} by {amounts:?} with {padding:?}");
        check(&name, &tensor.pad(&amounts, padding).unwrap(), &wanted);
    }
}

#[test]
fn elements_roll_around() {
    let (pool, mut choices) = (pool(), Rng::new(4));
    for _ in 0..30 {
        let shape = shape(&mut choices, 8);
        let (tensor, values) = numbered(&mut choices, &pool, &shape);
        let shift = choices.between(-9, 9) as isize;
        let count = values.values.len();
        let mut row = values.values.clone();
        if count > 0 {
            row.rotate_right(shift.rem_euclid(count as isize) as usize);
        }
        let wanted = Values {
            shape: shape.clone(),
            values: row,
        };
        check("roll of all", &tensor.roll(&[shift], &[]).unwrap(), &wanted);
        if shape.is_empty() {
            continue;
        }
        let (a, b) = (choices.below(shape.len()), choices.below(shape.len()));
        let back = choices.between(-3, 3) as isize;
        let turned = |index: usize, by: isize, size: usize| {
            (index as isize - by).rem_euclid(size as isize) as usize
        };
        let wanted = Values::from_fn(&shape, |index| {
            let index = with(&index, a, turned(index[a], shift, shape[a]));
            values.at(&with(&index, b, turned(index[b], back, shape[b])))
        });
        let got = tensor.roll(
            &[shift, back],
            &[a as isize, b as isize - shape.len() as isize],
        );
        check("roll", &got.unwrap(), &wanted);
    }
}

#[test]
fn triangles_and_diagonals() {
    let (pool, mut choices) = (pool(), Rng::new(5));
    for _ in 0..30 {
        let shape = shape(&mut choices, 8);
        let (tensor, values) = numbered(&mut choices, &pool, &shape);
        let offset = choices.between(-4, 4) as isize;
        if let [.., _, _] = shape[..] {
            let distance = |index: &[usize]| {
                let [.., row, column] = *index else {
                    unreachable!()
                };
                column as i64 - row as i64
            };
            for upper in [true, false] {
                let wanted = Values::from_fn(&shape, |index| {
                    let stays = match upper {
                        true => distance(&index) >= offset as i64,
                        false => distance(&index) <= offset as i64,
                    };
                    if stays { values.at(&index) } else { 0 }
                });
                let got = if upper {
                    tensor.triu(offset as i64)
                } else {
                    tensor.tril(offset as i64)
                };
                check("triangle", &got.unwrap(), &wanted);
            }
        }
        if let [rows, columns] = shape[..] {
            let line: Vec<i32> = crate::common::values::indices(&shape)
                .iter()
                .filter(|index| index[1] as isize - index[0] as isize == offset)
                .map(|index| values.at(index))
                .collect();
            let got = tensor.diag(offset).unwrap();
            assert_eq!(
                got.to_vec::<i32>().unwrap(),
                line,
                "{rows} by {columns}, {offset}"
            );
        }
        if let [size] = shape[..] {
            let matrix = tensor.diag(offset).unwrap();
            assert_eq!(matrix.shape(), [size + offset.unsigned_abs(); 2]);
            let sum = matrix.sum(&[], false).unwrap().item::<i32>().unwrap();
            assert_eq!(sum, values.values.iter().sum::<i32>());
            assert_eq!(
                matrix.diag(offset).unwrap().to_vec::<i32>().unwrap(),
                values.values
            );
        }
    }
    let flags = Tensor::ones(&pool, &[2, 2], DType::Bool)
        .unwrap()
        .triu(0)
        .unwrap();
    assert_eq!(flags.to_vec::<bool>().unwrap(), [true, true, false, true]);
    let halves = Tensor::full(&pool, &[2, 2], f32::NAN, DType::F16)
        .unwrap()
        .tril(-2)
        .unwrap();
    assert_eq!(
        halves
            .to_dtype(DType::F32)
            .unwrap()
            .to_vec::<f32>()
            .unwrap(),
        [0.0; 4]
    );
}

#[test]
fn indices_become_vectors() {
    let pool = pool();
    let x = Tensor::from_slice(&pool, &[1i32, -1, 5, 0], &[2, 2]).unwrap();
    let last = x.one_hot(3, -1, DType::F32).unwrap();
    assert_eq!(last.shape(), [2, 2, 3]);
    let wanted = [0., 1., 0., 0., 0., 1., 0., 0., 0., 1., 0., 0.];
    assert_eq!(last.to_vec::<f32>().unwrap(), wanted);
    let first = x.one_hot(3, 0, DType::Bool).unwrap();
    let moved = last
        .permute(&[2, 0, 1])
        .unwrap()
        .to_dtype(DType::Bool)
        .unwrap();
    assert_eq!(Values::<bool>::of(&first), Values::of(&moved));
    // More classes than the indices' type counts.
    let bytes = Tensor::from_slice(&pool, &[200u8], &[1]).unwrap();
    let hot = bytes.one_hot(300, -1, DType::I64).unwrap();
    assert_eq!(hot.argmax(1, false).unwrap().item::<i64>().unwrap(), 200);
    assert_eq!(hot.sum(&[], false).unwrap().item::<i64>().unwrap(), 1);
    assert_eq!(x.one_hot(0, -1, DType::I64).unwrap().shape(), [2, 2, 0]);
}

#[test]
fn channels_become_blocks_and_blocks_channels() {
    let (pool, mut choices) = (pool(), Rng::new(6));
    for order in [DepthOrder::BlockFirst, DepthOrder::ChannelFirst] {
        for outer in [&[][..], &[2], &[2, 1, 3]] {
            let (block, left, height, width) = (2, 3, 2, 5);
            let deep: Vec<usize> = [outer, &[left * block * block, height, width]].concat();
            let (tensor, values) = numbered(&mut choices, &pool, &deep);
            let wide: Vec<usize> = [outer, &[left, height * block, width * block]].concat();
            let wanted = Values::from_fn(&wide, |index| {
                let (lead, &[channel, y, x]) = index.split_at(outer.len()) else {
                    unreachable!()
                };
                let cell = (y % block) * block + x % block;
                let depth = match order {
                    DepthOrder::BlockFirst => cell * left + channel,
                    DepthOrder::ChannelFirst => channel * block * block + cell,
                };
                values.at(&[lead, &[depth, y / block, x / block]].concat())
            });
            let got = tensor.depth_to_space(block, order).unwrap();
            check("depth_to_space", &got, &wanted);
            let back = disguised(&mut choices, &got)
                .space_to_depth(block, order)
                .unwrap();
            check("space_to_depth", &back, &values);
        }
    }
    let x = numbered(&mut choices, &pool, &[4, 1, 1]).0;
    assert_eq!(
        x.pixel_shuffle(2).unwrap().to_vec::<i32>().unwrap(),
        [1, 2, 3, 4]
    );
    assert_eq!(
        x.pixel_shuffle(2)
            .unwrap()
            .pixel_unshuffle(2)
            .unwrap()
            .shape(),
        [4, 1, 1]
    );
}

#[test]
fn grids_and_scales() {
    let (pool, mut choices) = (pool(), Rng::new(7));
    let (x, y) = (
        numbered(&mut choices, &pool, &[2]).0,
        numbered(&mut choices, &pool, &[3]).0,
    );
    let one = Tensor::scalar(&pool, 9i32).unwrap();
    let grid = Tensor::meshgrid(&[&x, &y, &one]).unwrap();
    assert_eq!(grid[0].shape(), [2, 3, 1]);
    assert_eq!(grid[0].to_vec::<i32>().unwrap(), [1, 1, 1, 2, 2, 2]);
    assert_eq!(grid[1].to_vec::<i32>().unwrap(), [1, 2, 3, 1, 2, 3]);
    assert_eq!(grid[2].to_vec::<i32>().unwrap(), [9; 6]);
    let columns = Tensor::meshgrid_xy(&[&x, &y]).unwrap();
    assert_eq!(columns[0].shape(), [3, 2]);
    assert_eq!(columns[0].to_vec::<i32>().unwrap(), [1, 2, 1, 2, 1, 2]);
    let scale = Tensor::logspace(&pool, 0.0, 3.0, 4, 10.0, DType::F32).unwrap();
    for (got, wanted) in scale
        .to_vec::<f32>()
        .unwrap()
        .into_iter()
        .zip([1.0, 10.0, 100.0, 1000.0])
    {
        assert!((got / wanted - 1.0f32).abs() < 1e-5, "{got}");
    }
}

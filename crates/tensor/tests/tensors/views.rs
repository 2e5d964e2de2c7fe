//! Views name the elements they should, share memory, and refuse what cannot be.

use crate::common::values::Values;
use crate::common::{Rng, pool};
use streampool_tensor::{DType, Error, Pool, Tensor};

pub(crate) type Model = Values<i32>;

/// The value of `shape` whose element at an index is what `pick` names of the model.
pub(crate) fn picked(
    model: &Model,
    shape: Vec<usize>,
    pick: impl Fn(&[usize]) -> Vec<usize>,
) -> Model {
    Values::from_fn(&shape, |index| model.at(&pick(&index)))
}

pub(crate) fn numbered(pool: &Pool, shape: &[usize]) -> (Tensor, Model) {
    let count: usize = shape.iter().product();
    let values: Vec<i32> = (0..count as i32).collect();
    let tensor = Tensor::from_slice(pool, &values, shape).unwrap();
    let shape = shape.to_vec();
    (tensor, Model { shape, values })
}

/// The axis, or the same counted from the end.
fn either(choices: &mut Rng, axis: usize, rank: usize) -> isize {
    match choices.below(2) {
        0 => axis as isize,
        _ => axis as isize - rank as isize,
    }
}

/// One random view of both.
pub(crate) fn step(choices: &mut Rng, tensor: &Tensor, model: &Model) -> (Tensor, Model) {
    let rank = model.shape.len();
    if rank == 0 || rank < 8 && choices.below(6) == 0 {
        let place = choices.below(rank + 1);
        let mut shape = model.shape.clone();
        shape.insert(place, 1);
        let seen = tensor.unsqueeze(either(choices, place, rank + 1)).unwrap();
        let pick = |index: &[usize]| [&index[..place], &index[place + 1..]].concat();
        return (seen, picked(model, shape, pick));
    }
    let axis = choices.below(rank);
    let size = model.shape[axis];
    let signed = either(choices, axis, rank);
    match choices.below(7) {
        0 => {
            let other = choices.below(rank);
            let seen = tensor.transpose(signed, other as isize).unwrap();
            let mut shape = model.shape.clone();
            shape.swap(axis, other);
            let pick = |index: &[usize]| {
                let mut index = index.to_vec();
                index.swap(axis, other);
                index
            };
            (seen, picked(model, shape, pick))
        }
        1 => {
            let start = choices.between(-(size as i64) - 2, size as i64 + 2) as isize;
            let end = choices.between(-(size as i64) - 2, size as i64 + 2) as isize;
            let step = [-3, -2, -1, 1, 2, 3][choices.below(6)];
            let seen = tensor.slice(signed, start..end, step).unwrap();
            let kept = python_slice(start, end, step, size as isize);
            let mut shape = model.shape.clone();
            shape[axis] = kept.len();
            let pick = |index: &[usize]| {
                let mut index = index.to_vec();
                index[axis] = kept[index[axis]];
                index
            };
            (seen, picked(model, shape, pick))
        }
        2 => {
            let pick = |index: &[usize]| {
                let mut index = index.to_vec();
                index[axis] = size - 1 - index[axis];
                index
            };
            let shape = model.shape.clone();
            (tensor.flip(&[signed]).unwrap(), picked(model, shape, pick))
        }
        3 if size > 0 => {
            let at = choices.below(size);
            let mut shape = model.shape.clone();
            shape.remove(axis);
            let pick = |index: &[usize]| [&index[..axis], &[at], &index[axis..]].concat();
            let at = either(choices, at, size);
            (
                tensor.select(signed, at).unwrap(),
                picked(model, shape, pick),
            )
        }
        4 if size == 1 => {
            let mut shape = model.shape.clone();
            shape[axis] = choices.below(4);
            let pick = |index: &[usize]| {
                let mut index = index.to_vec();
                index[axis] = 0;
                index
            };
            let seen = tensor.broadcast_to(&shape).unwrap();
            (seen, picked(model, shape, pick))
        }
        5 => {
            // Joins the axis with the next, where there is one.
            let last = (axis + 1).min(rank - 1);
            let mut shape = model.shape.clone();
            let joined: usize = shape.splice(axis..=last, [0]).product();
            shape[axis] = joined;
            let values = model.values.clone();
            let seen = tensor.flatten(signed, last as isize).unwrap();
            (seen, Model { shape, values })
        }
        _ => {
            let start = choices.below(size + 1);
            let length = choices.below(size - start + 1);
            let mut shape = model.shape.clone();
            shape[axis] = length;
            let pick = |index: &[usize]| {
                let mut index = index.to_vec();
                index[axis] += start;
                index
            };
            let seen = tensor.narrow(signed, start, length).unwrap();
            (seen, picked(model, shape, pick))
        }
    }
}

/// The indices of Python's `start:end:step`, by walking.
fn python_slice(start: isize, end: isize, step: isize, size: isize) -> Vec<usize> {
    let from_start = |at: isize| if at < 0 { at + size } else { at };
    let (mut at, end) = (from_start(start), from_start(end));
    if step < 0 {
        at = at.min(size - 1);
    } else {
        at = at.max(0);
    }
    let mut kept = Vec::new();
    while at >= 0 && at < size && (if step > 0 { at < end } else { at > end }) {
        kept.push(at as usize);
        at += step;
    }
    kept
}

#[test]
fn chains_of_views_name_the_elements_they_should() {
    let pool = pool();
    for seed in 0..400 {
        let mut choices = Rng::new(seed);
        let rank = choices.below(5);
        let shape: Vec<usize> = (0..rank).map(|_| choices.below(5)).collect();
        let (mut tensor, mut model) = numbered(&pool, &shape);
        for _ in 0..6 {
            (tensor, model) = step(&mut choices, &tensor, &model);
            assert_eq!(tensor.shape(), model.shape, "seed {seed}");
            let values = tensor.to_vec::<i32>().unwrap();
            assert_eq!(values, model.values, "seed {seed}: {tensor:?}");
        }
        let dense = tensor.contiguous().unwrap();
        assert!(dense.is_contiguous());
        assert_eq!(dense.to_vec::<i32>().unwrap(), model.values);
        let flat = tensor.reshape(&[-1]).map(|flat| flat.to_vec::<i32>());
        match flat {
            Ok(flat) => assert_eq!(flat.unwrap(), model.values),
            Err(error) => panic!("seed {seed}: {error}"),
        }
    }
}

#[test]
fn views_share_memory_and_copies_do_not() {
    let pool = pool();
    let (x, _) = numbered(&pool, &[4, 6]);
    let home = x.buffer().span();
    let shares = |view: &Tensor| view.buffer().span() == home;
    assert!(shares(&x.reshape(&[2, 12]).unwrap()));
    assert!(shares(&x.slice(0, .., -2).unwrap()));
    assert!(shares(&x.transpose(0, 1).unwrap()));
    assert!(shares(
        &x.unsqueeze(0).unwrap().expand(&[3, -1, -1]).unwrap()
    ));
    assert!(shares(&x.contiguous().unwrap()));
    let turned = x.transpose(0, 1).unwrap();
    assert!(!shares(&turned.contiguous().unwrap()));
    assert!(!shares(&turned.reshape(&[24]).unwrap()));
    let message = turned.view(&[24]).unwrap_err().to_string();
    assert!(
        message.starts_with("view: shape is [24] of [6, 4]"),
        "{message}"
    );
}

#[test]
fn pieces_together_are_the_whole() {
    let pool = pool();
    let (x, _) = numbered(&pool, &[7, 2]);
    let sizes = |pieces: Vec<Tensor>| -> Vec<usize> {
        pieces.iter().map(|piece| piece.shape()[0]).collect()
    };
    assert_eq!(sizes(x.split(0, 3).unwrap()), [3, 3, 1]);
    assert_eq!(sizes(x.chunk(0, 3).unwrap()), [3, 3, 1]);
    assert_eq!(sizes(x.chunk(-2, 100).unwrap()), [1; 7]);
    assert_eq!(sizes(x.split_sizes(0, &[5, 0, 2]).unwrap()), [5, 0, 2]);
    let rows = x.unbind(0).unwrap();
    assert_eq!(rows[6].to_vec::<i32>().unwrap(), [12, 13]);
    assert_eq!(rows[6].shape(), [2]);
    let empty = x.narrow(0, 7, 0).unwrap();
    assert!(empty.unbind(0).unwrap().is_empty());
    assert!(empty.chunk(0, 3).unwrap().is_empty());
    assert!(x.split_sizes(0, &[5, 1]).is_err());
    assert!(x.split_sizes(0, &[usize::MAX, 8]).is_err());
}

#[test]
fn every_rank_up_to_eight_is_one() {
    let pool = pool();
    for rank in 0..=8 {
        let shape: Vec<usize> = (0..rank).map(|axis| 1 + axis % 2).collect();
        let (x, model) = numbered(&pool, &shape);
        let order: Vec<isize> = (0..rank as isize).rev().collect();
        let back = x.permute(&order).unwrap().contiguous().unwrap();
        let back = back.permute(&order).unwrap();
        assert_eq!(back.to_vec::<i32>().unwrap(), model.values);
        let squeezed = x.squeeze_all().unwrap();
        assert_eq!(squeezed.elem_count(), x.elem_count());
        assert!(!squeezed.shape().contains(&1));
        assert_eq!(x.unsqueeze(-1).is_ok(), rank < 8);
    }
}

#[test]
fn what_cannot_be_is_refused_with_op_argument_got_and_expected() {
    let pool = pool();
    let (x, _) = numbered(&pool, &[2, 3]);
    let told = |result: Result<Tensor, Error>| result.unwrap_err().to_string();
    assert_eq!(
        told(x.reshape(&[4, -1])),
        "reshape: shape is [4, -1], expected 6 elements, as in [2, 3]"
    );
    let empty = x.narrow(0, 0, 0).unwrap();
    assert_eq!(
        told(empty.reshape(&[0, 1usize << 49])),
        format!(
            "reshape: shape has shape {:?}, expected at most 8 axes and 281474976710656 elements",
            [0, 1usize << 49]
        )
    );
    assert_eq!(
        told(x.broadcast_to(&[4, 3])),
        "broadcast_to: self has shape [2, 3], expected one that broadcasts to [4, 3]"
    );
    let one = Tensor::zeros(&pool, &[1], DType::F32).unwrap();
    for large in [&[1; 9][..], &[1 << 49]] {
        assert_eq!(
            told(one.broadcast_to(large)),
            format!(
                "broadcast_to: shape has shape {large:?}, expected at most 8 axes and 281474976710656 elements"
            )
        );
    }
    assert_eq!(
        told(x.transpose(0, 2)),
        "transpose: b is 2, expected -2 to 1"
    );
    assert_eq!(told(x.select(1, 3)), "select: index is 3, expected -3 to 2");
    assert_eq!(
        told(x.narrow(1, 2, 2)),
        "narrow: length is 2 from 2, expected an end of at most 3, the size of the axis"
    );
    assert_eq!(
        told(x.slice(0, .., 0)),
        "slice: step is 0, expected not zero"
    );
    assert_eq!(
        told(x.squeeze(0)),
        "squeeze: self has shape [2, 3], expected size 1 along axis 0"
    );
    assert_eq!(
        told(x.permute(&[0, 0])),
        "permute: order is [0, 0], expected each axis once"
    );
    assert!(x.permute(&[0]).is_err());
    assert!(x.flatten(1, 0).is_err());
    assert!(x.narrow(0, usize::MAX, 2).is_err());
    assert!(x.expand(&[-1, 2, 3]).is_err());
    assert!(x.expand(&[1; 9]).is_err());
    assert_eq!(
        told(x.expand(&[4, 5])),
        "expand: shape is [4, 5], expected sizes that [2, 3] broadcasts to"
    );
    assert!(x.flip(&[0, -2]).is_err());
    assert!(x.split(0, 0).is_err() && x.chunk(0, 0).is_err());
    let other = Tensor::zeros(&pool, &[4], DType::F32).unwrap();
    assert!(x.broadcast_with(&other).is_err());
    let (a, b) = x.broadcast_with(&x.select(0, 0).unwrap()).unwrap();
    assert_eq!(a.shape(), b.shape());
}

/// A view of 2⁴⁵ elements takes no memory: what is made of it takes no time either, and more is refused.
#[test]
fn what_is_broadcast_far_is_reduced_at_once() {
    let pool = pool();
    let one = Tensor::full(&pool, &[1, 2], 3.0, DType::F32).unwrap();
    let many = 1usize << 44;
    let far = one.broadcast_to(&[many, 2]).unwrap();
    let sum = far.sum(&[0], false).unwrap().to_vec::<f32>().unwrap();
    assert_eq!(sum, [3.0 * many as f32; 2]);
    let most = far.max(&[0, 1], false).unwrap().to_vec::<f32>().unwrap();
    assert_eq!(most, [3.0]);
    assert!(one.broadcast_to(&[1 << 48, 2]).is_err());
    assert!(one.broadcast_to(&[1, 1, 1, 1, 1, 1, 1, 1, 2]).is_err());
}

#[test]
fn more_pieces_than_memory_holds_are_an_error() {
    let pool = pool();
    let many = Tensor::scalar(&pool, 1f32).unwrap();
    let many = many.broadcast_to(&[1usize << 44]).unwrap();
    assert!(many.unbind(0).is_err());
    assert!(many.split(0, 1).is_err());
    assert!(many.chunk(0, 1 << 44).is_err());
    assert!(many.to_vec::<f32>().is_err());
    assert!(many.to_bytes().is_err());
    assert_eq!(many.narrow(0, 7, 3).unwrap().unbind(0).unwrap().len(), 3);
}

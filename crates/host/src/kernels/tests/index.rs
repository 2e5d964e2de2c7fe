//! Gather and scatter.

use proptest::prelude::*;
use streampool_device::{Combine, DType, Gather, Indexing, Op, Scatter};

use super::tensor::{Number, Random, Tensor, Threads, near, run, run_on};
use crate::kernels::{Prepared, execute};
use crate::team::Solo;
use crate::testing::cases;

/// A way of indexing, and shapes of the data, the indices and the indexed elements that go with it.
fn shapes(random: &mut Random) -> (Indexing, [Vec<usize>; 3]) {
    let rank = 1 + random.below(4);
    let most = if rank < 3 && random.chance(4) { 40 } else { 5 };
    let data = random.shape(rank, most);
    match random.below(3) {
        0 => {
            let axis = random.below(data.len());
            let rank = random.below(3);
            let indices = random.shape(rank, most);
            let picked = [&data[..axis], &indices, &data[axis + 1..]].concat();
            (Indexing::Axis(axis), [data, indices, picked])
        }
        1 => {
            let axis = random.below(data.len());
            let mut indices: Vec<usize> = data.iter().map(|&size| random.below(size + 1)).collect();
            indices[axis] = random.below(most + 4);
            (Indexing::Elements(axis), [data, indices.clone(), indices])
        }
        _ => {
            let batch = random.below(data.len() + 1);
            let depth = random.below(data.len() - batch + 1);
            let rank = random.below(2);
            let lists = [&data[..batch], &random.shape(rank, most)].concat();
            let indices = [&lists[..], &[depth]].concat();
            let picked = [&lists[..], &data[batch + depth..]].concat();
            (Indexing::Nd(batch), [data, indices, picked])
        }
    }
}

/// How many indices there are along an axis of the data that an index at `at` decides on.
fn size(indexing: Indexing, data: &[usize], at: &[usize]) -> usize {
    match indexing {
        Indexing::Axis(axis) | Indexing::Elements(axis) => data[axis],
        Indexing::Nd(batch) => data[batch + at[at.len() - 1]],
    }
}

/// Where in the data an indexed element is, by definition.
fn place(indexing: Indexing, data: &Tensor, indices: &Tensor, at: &[usize]) -> Vec<usize> {
    let shape = data.view.shape();
    let index = |at: &[usize], axis: usize| {
        let index = indices.get(at).int();
        (if index < 0 {
            index + shape[axis] as i128
        } else {
            index
        }) as usize
    };
    match indexing {
        Indexing::Axis(axis) => {
            let lists = indices.view.shape().len();
            let found = index(&at[axis..axis + lists], axis);
            [&at[..axis], &[found], &at[axis + lists..]].concat()
        }
        Indexing::Elements(axis) => {
            let mut place = at.to_vec();
            place[axis] = index(at, axis);
            place
        }
        Indexing::Nd(batch) => {
            let (&depth, lists) = indices.view.shape().split_last().unwrap();
            let list =
                |number: usize| index(&[&at[..lists.len()], &[number]].concat(), batch + number);
            let found: Vec<usize> = (0..depth).map(list).collect();
            [&at[..batch], &found, &at[lists.len()..]].concat()
        }
    }
}

/// Indices in range, if there are any.
fn indices(
    random: &mut Random,
    indexing: Indexing,
    data: &[usize],
    shape: &[usize],
) -> Option<Tensor> {
    let dtype = random.pick(&[DType::I32, DType::I64]);
    let mut indices = Tensor::new(random, dtype, shape, false);
    for at in indices.indices() {
        let size = size(indexing, data, &at);
        if size == 0 {
            return None;
        }
        let index = random.below(2 * size) as i128 - size as i128;
        indices.set(&at, Number::Int(index));
    }
    Some(indices)
}

fn gather(indexing: Indexing, src: &Tensor, indices: &Tensor, dst: &Tensor) -> Op {
    Op::Gather(Gather {
        indexing,
        src: src.view,
        indices: indices.view,
        dst: dst.view,
    })
}

proptest! {
    #![proptest_config(cases(700))]

    #[test]
    fn gathers_pick_what_is_named(seed in any::<u64>()) {
        let random = &mut Random(seed);
        let (indexing, [data, lists, picked]) = shapes(random);
        prop_assume!(picked.len() <= 8 && picked.iter().product::<usize>() < 20_000);
        let dtype = random.pick(&DType::ALL);
        let Some(indices) = indices(random, indexing, &data, &lists) else { return Ok(()) };
        let src = Tensor::new(random, dtype, &data, true).small(random);
        let dst = Tensor::new(random, dtype, &picked, false);
        run(&gather(indexing, &src, &indices, &dst));
        for at in dst.indices() {
            prop_assert_eq!(dst.get(&at), src.get(&place(indexing, &src, &indices, &at)), "{:?}", at);
        }
        prop_assert!(dst.gaps_untouched());
    }

    #[test]
    fn scatters_put_in_order(seed in any::<u64>()) {
        let random = &mut Random(seed);
        let (indexing, [data, lists, picked]) = shapes(random);
        prop_assume!(picked.len() <= 8 && picked.iter().product::<usize>() < 20_000);
        let combine = random.pick(&[Combine::Replace, Combine::Add, Combine::Mul, Combine::Min, Combine::Max]);
        let dtype = match combine {
            Combine::Replace => random.pick(&DType::ALL),
            _ => random.pick(&DType::ALL[..12]),
        };
        let Some(indices) = indices(random, indexing, &data, &lists) else { return Ok(()) };
        let in_place = random.chance(3);
        let src = Tensor::new(random, dtype, &data, !in_place).small(random);
        let updates = Tensor::new(random, dtype, &picked, true).small(random);
        let mut expected = Tensor::plain(dtype, &data);
        let mut scale = Tensor::plain(DType::F64, &data);
        for at in src.indices() {
            expected.set(&at, src.get(&at));
            scale.set(&at, Number::Float(src.get(&at).float().abs()));
        }
        for at in updates.indices() {
            let to = place(indexing, &src, &indices, &at);
            let (old, new) = (expected.get(&to), updates.get(&at));
            let both = |f: fn(f64, f64) -> f64, i: fn(i128, i128) -> i128| match (old, new) {
                (Number::Int(old), Number::Int(new)) => Number::Int(i(old, new)),
                _ => Number::Float(f(old.float(), new.float())),
            };
            expected.set(&to, match combine {
                Combine::Replace => new,
                Combine::Add => both(|x, y| x + y, |x, y| x + y),
                Combine::Mul => both(|x, y| x * y, |x, y| x * y),
                Combine::Min => both(f64::min, i128::min),
                Combine::Max => both(f64::max, i128::max),
            });
            let sum = scale.get(&to).float() + new.float().abs();
            scale.set(&to, Number::Float(sum));
        }
        let dst = if in_place { None } else { Some(Tensor::new(random, dtype, &data, false)) };
        let out = dst.as_ref().unwrap_or(&src);
        let op = Op::Scatter(Scatter {
            indexing,
            combine,
            src: src.view,
            indices: indices.view,
            updates: updates.view,
            dst: out.view,
        });
        run_on(&op, if random.chance(2) { &Solo } else { &Threads(3) });
        for at in out.indices() {
            let (got, wanted) = (out.get(&at), expected.get(&at));
            let exact = !matches!(combine, Combine::Add | Combine::Mul) || !dtype.is_float();
            let scale = scale.get(&at).float();
            prop_assert!(
                got == wanted || !exact && near(dtype, got.float(), wanted.float(), scale, 1.0),
                "{:?}: {:?}, not {:?}", at, got, wanted
            );
        }
        prop_assert!(out.gaps_untouched());
    }
}

#[test]
fn every_index_out_of_range_is_found_before_anything_is_written() {
    let src = Tensor::plain(DType::F32, &[4, 5]);
    let data = Tensor::plain(DType::F32, &[4, 5]);
    for (wrong, at) in [
        (5, [2, 0]),
        (-6, [0, 1]),
        (i64::MAX, [2, 1]),
        (i64::MIN, [1, 1]),
    ] {
        let mut indices = Tensor::plain(DType::I64, &[3, 2]);
        indices.set(&at, Number::Int(wrong.into()));
        let mut dst = Tensor::plain(DType::F32, &[4, 3, 2]);
        dst.clear();
        let before = dst.bytes().to_vec();
        let ops = [
            gather(Indexing::Axis(1), &src, &indices, &dst),
            Op::Scatter(Scatter {
                indexing: Indexing::Axis(1),
                combine: Combine::Add,
                src: src.view,
                indices: indices.view,
                updates: dst.view,
                dst: data.view,
            }),
        ];
        for op in ops {
            op.validate().unwrap();
            // SAFETY: the tensors outlive the call, and nobody else has them.
            let failed = unsafe { execute(&op, &Prepared::Plain, &Solo) };
            let wanted =
                format!("index {wrong} at {at:?} is out of range for axis 1 of 5 elements");
            assert_eq!(failed, Err(wanted));
            assert_eq!(dst.bytes(), before);
            assert!(data.bytes().iter().all(|&byte| byte == 0));
        }
    }
}

#[test]
fn a_list_of_indices_is_named_by_its_own_axis() {
    let src = Tensor::plain(DType::U8, &[2, 3, 0]);
    let mut indices = Tensor::plain(DType::I32, &[2, 2]);
    indices.set(&[1, 1], Number::Int(3));
    let dst = Tensor::plain(DType::U8, &[2, 0]);
    let op = gather(Indexing::Nd(0), &src, &indices, &dst);
    op.validate().unwrap();
    // SAFETY: the tensors outlive the call, and nobody else has them.
    let failed = unsafe { execute(&op, &Prepared::Plain, &Solo) };
    let wanted = "index 3 at [1, 1] is out of range for axis 1 of 3 elements";
    assert_eq!(failed, Err(wanted.to_owned()));
}

#[test]
fn scatters_are_the_same_on_any_number_of_threads() {
    let random = &mut Random(7);
    let (rows, width) = (3000, 70);
    let mut indices = Tensor::plain(DType::I64, &[rows]);
    indices = indices.fill(|| Number::Int(random.below(40) as i128));
    let random = &mut Random(8);
    let updates = Tensor::plain(DType::F32, &[rows, width]).small(random);
    let src = Tensor::plain(DType::F32, &[40, width]);
    let results: Vec<Vec<u8>> = [1, 2, 3, 8]
        .iter()
        .map(|&threads| {
            let dst = Tensor::plain(DType::F32, &[40, width]);
            let op = Op::Scatter(Scatter {
                indexing: Indexing::Axis(0),
                combine: Combine::Add,
                src: src.view,
                indices: indices.view,
                updates: updates.view,
                dst: dst.view,
            });
            run_on(&op, &Threads(threads));
            dst.bytes().to_vec()
        })
        .collect();
    assert!(results.windows(2).all(|pair| pair[0] == pair[1]));
}

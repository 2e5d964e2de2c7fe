//! Chains of all views, also of such as cannot be: each is what a plain walk over the indices says, or is refused.

use crate::common::values::{Values, indices, joined};
use crate::common::{Rng, pool};
use crate::views::{Model, numbered, picked, step};
use streampool_tensor::{Pool, Result, Tensor};

/// What a view gives, and what it should: pieces, or none if it has to be refused.
struct Outcome {
    name: String,
    got: Result<Vec<Tensor>>,
    wanted: Option<Vec<Model>>,
}

impl Outcome {
    fn one(name: String, got: Result<Tensor>, wanted: Option<Model>) -> Outcome {
        let got = got.map(|tensor| vec![tensor]);
        let wanted = wanted.map(|model| vec![model]);
        Outcome { name, got, wanted }
    }
}

/// The same elements under another shape.
fn renamed(model: &Model, shape: Vec<usize>) -> Model {
    let values = model.values.clone();
    Values { shape, values }
}

/// A number that is often an axis, from either end, and the axis that it means.
fn some_axis(choices: &mut Rng, rank: usize) -> (isize, Option<usize>) {
    let rank = rank as isize;
    let given = choices.between(-rank as i64 - 1, rank as i64) as isize;
    let meant = (0..rank).find(|&axis| axis == given || axis - rank == given);
    (given, meant.map(|axis| axis as usize))
}

/// An order of the axes, or a list that may be none.
fn permuted(choices: &mut Rng, tensor: &Tensor, model: &Model) -> Outcome {
    let rank = model.shape.len();
    let order: Vec<(isize, Option<usize>)> = if choices.chance(4) {
        let length = choices.below(rank + 2);
        (0..length).map(|_| some_axis(choices, rank)).collect()
    } else {
        let mut left: Vec<usize> = (0..rank).collect();
        let mut taken = |_| {
            let axis = left.remove(choices.below(left.len()));
            let back = if choices.chance(2) { rank } else { 0 };
            (axis as isize - back as isize, Some(axis))
        };
        (0..rank).map(&mut taken).collect()
    };
    let (given, meant): (Vec<isize>, Vec<Option<usize>>) = order.into_iter().unzip();
    let once = |axis| meant.iter().filter(|&&other| other == Some(axis)).count() == 1;
    let fits = meant.len() == rank && (0..rank).all(once);
    let wanted = fits.then(|| {
        let shape = meant.iter().flatten().map(|&axis| model.shape[axis]);
        picked(model, shape.collect(), |index| {
            let place = |axis| meant.iter().position(|&other| other == Some(axis));
            (0..rank).map(|axis| index[place(axis).unwrap()]).collect()
        })
    });
    Outcome::one(format!("permute {given:?}"), tensor.permute(&given), wanted)
}

fn squeezed(choices: &mut Rng, tensor: &Tensor, model: &Model) -> Outcome {
    if choices.chance(4) {
        let mut shape = model.shape.clone();
        shape.retain(|&size| size != 1);
        let wanted = Some(renamed(model, shape));
        return Outcome::one("squeeze_all".to_owned(), tensor.squeeze_all(), wanted);
    }
    let (given, meant) = some_axis(choices, model.shape.len());
    let single = meant.filter(|&axis| model.shape[axis] == 1);
    let wanted = single.map(|axis| {
        let mut shape = model.shape.clone();
        shape.remove(axis);
        renamed(model, shape)
    });
    Outcome::one(format!("squeeze {given}"), tensor.squeeze(given), wanted)
}

fn expanded(choices: &mut Rng, tensor: &Tensor, model: &Model) -> Outcome {
    let own = &model.shape;
    let mut given: Vec<i64> = Vec::new();
    for _ in 0..choices.below(3) {
        given.push(choices.pick(&[0, 1, 1, 2, 2, 3, 3, 3, -1]));
    }
    for &size in own {
        given.push(match choices.below(12) {
            0 => choices.between(-2, 4),
            1..6 => -1,
            _ if size == 1 => choices.between(0, 3),
            _ => size as i64,
        });
    }
    if choices.chance(12) && !given.is_empty() {
        given.remove(0);
    }
    // Each axis says the size that it is of, and each of its own has to be that size or one.
    let lead = given
        .len()
        .checked_sub(own.len())
        .filter(|_| given.len() <= 8);
    let sizes: Option<Vec<usize>> = lead.and_then(|lead| {
        let size = |(axis, &size): (usize, &i64)| match (size, axis.checked_sub(lead)) {
            (-1, Some(axis)) => Some(own[axis]),
            (0.., None) => Some(size as usize),
            (0.., Some(axis)) if own[axis] == size as usize || own[axis] == 1 => {
                Some(size as usize)
            }
            _ => None,
        };
        given.iter().enumerate().map(size).collect()
    });
    let wanted = sizes.map(|shape| Values::from_fn(&shape, |index| model.broadcast_at(&index)));
    Outcome::one(format!("expand {given:?}"), tensor.expand(&given), wanted)
}

/// Sizes, some of them −1, that are often as many elements as there are.
fn some_shape(choices: &mut Rng, count: usize) -> Vec<i64> {
    let mut shape = Vec::new();
    let mut left = count;
    while left > 1 && shape.len() < 6 {
        let divisors: Vec<usize> = (1..=left)
            .filter(|&size| left.is_multiple_of(size))
            .collect();
        let size = choices.pick(&divisors);
        shape.push(size as i64);
        left /= size;
    }
    if left != 1 || choices.chance(4) {
        shape.insert(choices.below(shape.len() + 1), left as i64);
    }
    for _ in 0..choices.below(3) {
        shape.insert(choices.below(shape.len() + 1), 1);
    }
    for odds in [4, 30] {
        if !shape.is_empty() && choices.chance(odds) {
            let axis = choices.below(shape.len());
            shape[axis] = if choices.chance(5) {
                choices.between(-2, 3)
            } else {
                -1
            };
        }
    }
    shape
}

/// The sizes that are meant: the only number in place of −1 for which the elements are as many.
fn resolved(given: &[i64], count: usize) -> Option<Vec<usize>> {
    let filled = |number: i64| {
        let sizes = given
            .iter()
            .map(|&size| if size == -1 { number } else { size });
        let sizes: Option<Vec<usize>> = sizes.map(|size| usize::try_from(size).ok()).collect();
        sizes.filter(|sizes| sizes.iter().product::<usize>() == count)
    };
    let mut fits: Vec<Vec<usize>> = match given.iter().filter(|&&size| size == -1).count() {
        0 => filled(0).into_iter().collect(),
        1 => (0..=count as i64 + 1).filter_map(filled).collect(),
        _ => vec![],
    };
    let only = fits.len() == 1 && given.len() <= 8;
    only.then(|| fits.remove(0))
}

/// Whether a view of this shape can name the elements: along each axis they are evenly apart.
fn is_even(tensor: &Tensor, shape: &[usize]) -> bool {
    let layout = tensor.layout();
    let place = |index: Vec<usize>| -> i32 {
        let steps = index.iter().zip(layout.strides());
        steps.map(|(&at, &stride)| at as i32 * stride as i32).sum()
    };
    let values = indices(layout.shape()).into_iter().map(place).collect();
    let places = Values {
        shape: shape.to_vec(),
        values,
    };
    let step = |axis: usize| {
        let mut next = vec![0; shape.len()];
        next[axis] = 1;
        if shape[axis] > 1 { places.at(&next) } else { 0 }
    };
    if places.values.is_empty() {
        return true;
    }
    let steps: Vec<i32> = (0..shape.len()).map(step).collect();
    indices(shape).iter().all(|index| {
        let even: i32 = index
            .iter()
            .zip(&steps)
            .map(|(&at, step)| at as i32 * step)
            .sum();
        places.at(index) == even
    })
}

fn reshaped(choices: &mut Rng, tensor: &Tensor, model: &Model) -> Outcome {
    let count = model.values.len();
    let given = some_shape(choices, count);
    let sizes = resolved(&given, count);
    let seen = tensor.view(&given);
    let even = sizes.as_ref().is_some_and(|sizes| is_even(tensor, sizes));
    assert_eq!(seen.is_ok(), even, "view {given:?} of {tensor:?}");
    let got = tensor.reshape(&given);
    if let Ok(made) = &got {
        let shared = made.buffer().span() == tensor.buffer().span();
        assert_eq!(shared, even, "{given:?} of {tensor:?}");
    }
    let name = format!("reshape {given:?}");
    let wanted = sizes.map(|shape| renamed(model, shape));
    match (seen, got, wanted) {
        (Ok(seen), Ok(made), Some(model)) => {
            assert_eq!(seen.buffer().span(), tensor.buffer().span());
            Outcome {
                name,
                got: Ok(vec![seen, made]),
                wanted: Some(vec![model.clone(), model]),
            }
        }
        (_, got, wanted) => Outcome::one(name, got, wanted),
    }
}

fn broadcast(choices: &mut Rng, pool: &Pool, tensor: &Tensor, model: &Model) -> Outcome {
    let lead = choices.below(3);
    let mut shape: Vec<usize> = (0..lead).map(|_| choices.below(3)).collect();
    for &size in &model.shape {
        shape.push(match choices.below(10) {
            0 => choices.below(5),
            1..4 => 1,
            _ if size == 1 => choices.below(4),
            _ => size,
        });
    }
    let less = choices.below(shape.len() + 1).min(3);
    let shape = shape.split_off(less.max(shape.len().saturating_sub(8)));
    let (other, other_model) = numbered(pool, &shape);
    let both = tensor.broadcast_with(&other);
    let joined = joined(&model.shape, &shape).filter(|joined| joined.len() <= 8);
    let wanted = joined.map(|joined| {
        let wide = |model: &Model| Values::from_fn(&joined, |index| model.broadcast_at(&index));
        vec![wide(model), wide(&other_model)]
    });
    Outcome {
        name: format!("broadcast_with {shape:?}"),
        got: both.map(|(a, b)| vec![a, b]),
        wanted,
    }
}

/// The pieces of an axis that are these stretches of its places.
fn pieces(model: &Model, axis: usize, stretches: &[Vec<usize>]) -> Vec<Model> {
    let piece = |places: &Vec<usize>| {
        let mut shape = model.shape.clone();
        shape[axis] = places.len();
        picked(model, shape, |index| {
            let mut index = index.to_vec();
            index[axis] = places[index[axis]];
            index
        })
    };
    stretches.iter().map(piece).collect()
}

/// Places dealt to pieces of one size.
fn dealt(whole: usize, size: usize) -> Vec<Vec<usize>> {
    let mut stretches: Vec<Vec<usize>> = Vec::new();
    for place in 0..whole {
        match stretches.last_mut() {
            Some(last) if last.len() < size => last.push(place),
            _ => stretches.push(vec![place]),
        }
    }
    stretches
}

fn cut(choices: &mut Rng, tensor: &Tensor, model: &Model) -> Outcome {
    let (given, meant) = some_axis(choices, model.shape.len());
    let whole = meant.map_or(3, |axis| model.shape[axis]);
    let count = choices.below(whole + 3);
    let (name, got, stretches) = match choices.below(3) {
        0 => {
            let stretches = (count > 0).then(|| dealt(whole, count));
            (
                format!("split {count}"),
                tensor.split(given, count),
                stretches,
            )
        }
        1 => {
            // The smallest size of which so many are enough.
            let enough = |size: &usize| count > 0 && size * count >= whole;
            let size = (1..=whole.max(1)).find(enough);
            let stretches = size.map(|size| dealt(whole, size));
            (
                format!("chunk {count}"),
                tensor.chunk(given, count),
                stretches,
            )
        }
        _ => {
            let mut left = whole;
            let mut sizes = Vec::new();
            for _ in 0..choices.below(4) {
                sizes.push(choices.below(left + 1));
                left -= sizes[sizes.len() - 1];
            }
            if !choices.chance(3) {
                sizes.push(left);
            }
            if choices.chance(8) {
                sizes.push(choices.below(2));
            }
            let mut places = 0..whole;
            let taken = sizes.iter().map(|&size| {
                let taken: Vec<usize> = places.by_ref().take(size).collect();
                (taken.len() == size).then_some(taken)
            });
            let stretches: Option<Vec<Vec<usize>>> = taken.collect();
            let stretches = stretches.filter(|_| places.next().is_none());
            let got = tensor.split_sizes(given, &sizes);
            (format!("split_sizes {sizes:?}"), got, stretches)
        }
    };
    let wanted = meant.zip(stretches);
    Outcome {
        name: format!("{name} of {given}"),
        got,
        wanted: wanted.map(|(axis, stretches)| pieces(model, axis, &stretches)),
    }
}

fn unbound(choices: &mut Rng, tensor: &Tensor, model: &Model) -> Outcome {
    let (given, meant) = some_axis(choices, model.shape.len());
    let wanted = meant.map(|axis| {
        let mut shape = model.shape.clone();
        let size = shape.remove(axis);
        let at = |at: usize| {
            let pick = |index: &[usize]| [&index[..axis], &[at], &index[axis..]].concat();
            picked(model, shape.clone(), pick)
        };
        (0..size).map(at).collect()
    });
    Outcome {
        name: format!("unbind {given}"),
        got: tensor.unbind(given),
        wanted,
    }
}

#[test]
fn chains_of_all_views_are_as_walked_or_refused() {
    const KINDS: usize = 7;
    let pool = pool();
    let mut met = [[0; 2]; KINDS];
    for seed in 0..1500 {
        let mut choices = Rng::new(seed);
        let shape: Vec<usize> = (0..choices.below(5))
            .map(|_| choices.below(24) % 5)
            .collect();
        let (mut tensor, mut model) = numbered(&pool, &shape);
        for _ in 0..8 {
            if choices.chance(3) {
                (tensor, model) = step(&mut choices, &tensor, &model);
            }
            let kind = choices.below(KINDS);
            let Outcome { name, got, wanted } = match kind {
                0 => permuted(&mut choices, &tensor, &model),
                1 => squeezed(&mut choices, &tensor, &model),
                2 => expanded(&mut choices, &tensor, &model),
                3 => reshaped(&mut choices, &tensor, &model),
                4 => broadcast(&mut choices, &pool, &tensor, &model),
                5 => cut(&mut choices, &tensor, &model),
                _ => unbound(&mut choices, &tensor, &model),
            };
            let case = format!("seed {seed}: {name} of {:?}", model.shape);
            met[kind][usize::from(wanted.is_some())] += 1;
            let (got, wanted) = match (got, wanted) {
                (Ok(got), Some(wanted)) => (got, wanted),
                (Err(_), None) => continue,
                (got, _) => panic!("{case}: {:?}", got.map(|pieces| pieces.len())),
            };
            assert_eq!(got.len(), wanted.len(), "{case}");
            for (got, wanted) in got.iter().zip(&wanted) {
                assert_eq!(&Values::of(got), wanted, "{case}");
            }
            let all = got.into_iter().zip(wanted);
            let small = all.filter(|(_, model)| model.values.len() <= 400);
            let mut small: Vec<(Tensor, Model)> = small.collect();
            if !small.is_empty() {
                (tensor, model) = small.swap_remove(choices.below(small.len()));
            }
        }
    }
    // Each is made often, and refused sometimes.
    let often = |&[refused, made]: &[usize; 2]| refused >= 20 && made >= 200;
    assert!(met.iter().all(often), "{met:?}");
}

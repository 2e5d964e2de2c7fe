//! Elementwise operators compute what their names say, of tensors that broadcast and lie in memory as they like.

mod errors;
mod floats;
mod integers;
mod truths;

use crate::common::values::{Values, part, shape};
use crate::common::{Rng, pool};
use streampool_tensor::{Element, Pool, Result, Tensor};

type Unary<T> = (&'static str, fn(&Tensor) -> Result<Tensor>, fn(T) -> T);
type Binary<T> = (
    &'static str,
    fn(&Tensor, &Tensor) -> Result<Tensor>,
    fn(T, T) -> T,
);

/// Two tensors that broadcast to `shape`, and their values.
fn pair<T: Element>(
    choices: &mut Rng,
    pool: &Pool,
    of: impl Fn(&mut Rng) -> T,
) -> ([Tensor; 2], [Values<T>; 2], Vec<usize>) {
    let whole = shape(choices, 8);
    let mut shapes = [whole.clone(), part(choices, &whole)];
    if choices.below(2) == 0 {
        shapes.reverse();
    }
    let values = shapes.map(|shape| Values::random(choices, &shape, &of));
    let tensors = [0, 1].map(|place: usize| values[place].tensor(choices, pool));
    (tensors, values, whole)
}

/// Compares element by element.
fn check<T: Element, U: Element>(
    name: &str,
    got: &Tensor,
    shape: &[usize],
    operands: &[&Values<T>],
    fits: impl Fn(&[T], U) -> bool,
) {
    let got = Values::<U>::of(got);
    assert_eq!(got.shape, shape, "{name} {:?}", T::DTYPE);
    for (index, &value) in crate::common::values::indices(shape)
        .iter()
        .zip(&got.values)
    {
        let arguments: Vec<T> = operands.iter().map(|x| x.broadcast_at(index)).collect();
        assert!(
            fits(&arguments, value),
            "{name} of {arguments:?} ({}) is {value:?}",
            T::DTYPE
        );
    }
}

//! Matrix products and other sums of products, beside sums that walk over all indices; what does not fit is refused.

use std::collections::BTreeMap;

use streampool_tensor::{DType, Tensor};

use crate::common::values::{Values, indices, joined, joined_size};
use crate::common::{Rng, pool};

/// Small whole numbers, whose sums of products are exact.
fn wholes(choices: &mut Rng, shape: &[usize]) -> Values<f64> {
    Values::random(choices, shape, |choices| choices.between(-3, 3) as f64)
}

/// A shape that often broadcasts with another.
fn partner(choices: &mut Rng, shape: &[usize]) -> Vec<usize> {
    let mut partner: Vec<usize> = shape
        .iter()
        .map(|&size| match choices.below(12) {
            0 => choices.below(4),
            1..5 => 1,
            _ => size,
        })
        .collect();
    partner.drain(..choices.below(partner.len() + 1));
    partner
}

#[test]
fn matrix_products_broadcast_their_batches() {
    let pool = pool();
    let mut choices = Rng::new(23);
    let mut met = [0; 2];
    for case in 0..1500 {
        let batch: Vec<usize> = (0..choices.below(5))
            .map(|_| choices.pick(&[0, 1, 1, 2, 2, 3, 3, 3]))
            .collect();
        let mut batches = [batch.clone(), partner(&mut choices, &batch)];
        batches.rotate_left(choices.below(2));
        let [m, k, n] = [(); 3].map(|()| choices.below(4));
        let other = if choices.chance(8) {
            choices.below(4)
        } else {
            k
        };
        let [left, right] = batches;
        let mut a = [&left[..], &[m, k]].concat();
        let mut b = [&right[..], &[other, n]].concat();
        if choices.chance(6) {
            a = vec![k];
        }
        if choices.chance(6) {
            b = vec![other];
        }
        if choices.chance(40) {
            a.clear();
        }

        // A vector is a row on the left and a column on the right.
        let (row, column) = (a.len() == 1, b.len() == 1);
        let matrix_a = if row { vec![1, a[0]] } else { a.clone() };
        let matrix_b = if column { vec![b[0], 1] } else { b.clone() };
        let wanted = (|| {
            let [left @ .., m, k] = &matrix_a[..] else {
                return None;
            };
            let [right @ .., rows, n] = &matrix_b[..] else {
                return None;
            };
            let batch = joined(left, right).filter(|_| k == rows)?;
            Some((batch, *m, *k, *n))
        })();
        let (x, y) = (wholes(&mut choices, &a), wholes(&mut choices, &b));
        let wanted = wanted.map(|(batch, m, k, n)| {
            let seen = |values: &Values<f64>, shape: &[usize]| Values {
                shape: shape.to_vec(),
                values: values.values.clone(),
            };
            let (x, y) = (seen(&x, &matrix_a), seen(&y, &matrix_b));
            let mut sum = Values::from_fn(&[&batch[..], &[m, n]].concat(), |index| {
                let (batch, ends) = index.split_at(batch.len());
                let own = |shape: &[usize], ends: [usize; 2]| {
                    let lead = batch.len() + 2 - shape.len();
                    [&batch[lead..], &ends].concat()
                };
                let products = (0..k).map(|step| {
                    let left = own(&x.shape, [ends[0], step]);
                    let right = own(&y.shape, [step, ends[1]]);
                    x.broadcast_at(&left) * y.broadcast_at(&right)
                });
                products.sum::<f64>()
            });
            let rank = sum.shape.len();
            if column {
                sum.shape.remove(rank - 1);
            }
            if row {
                sum.shape.remove(rank - 2);
            }
            sum
        });
        let (left, right) = (x.tensor(&mut choices, &pool), y.tensor(&mut choices, &pool));
        let got = left.matmul(&right).map(|product| Values::of(&product));
        met[usize::from(wanted.is_some())] += 1;
        assert_eq!(
            got.as_ref().ok(),
            wanted.as_ref(),
            "case {case}: {a:?} by {b:?}: {got:?}"
        );
    }
    assert!(met.iter().all(|&times| times > 100), "{met:?}");
}

/// A sum of products as an equation writes it.
struct Equation {
    /// The labels of each operand: letters, and digits for what an ellipsis stands for, the last of it first.
    operands: Vec<Vec<char>>,
    result: Vec<char>,
    text: String,
}

impl Equation {
    fn random(choices: &mut Rng) -> Equation {
        // Labels with what an ellipsis of so many axes stands for at some place, and how they are written.
        let hiding = |choices: &mut Rng, letters: &str, hidden: usize| {
            let (before, after) = letters.split_at(choices.below(letters.len() + 1));
            let digits = &"210"[3 - hidden..];
            let labels = format!("{before}{digits}{after}");
            (labels, format!("{before}...{after}"))
        };
        let is_hiding = choices.chance(2);
        let mut most_hidden = 0;
        let (mut operands, mut texts) = (Vec::<Vec<char>>::new(), Vec::new());
        for _ in 0..1 + choices.below(3) {
            let letter = |_| choices.pick(&['a', 'b', 'c', 'B']);
            let letters: String = (0..3).map(letter).collect();
            let letters = &letters[choices.below(4)..];
            let (labels, text) = if is_hiding && !choices.chance(4) {
                let hidden = choices.below(3);
                most_hidden = hidden.max(most_hidden);
                hiding(choices, letters, hidden)
            } else {
                (letters.to_owned(), letters.to_owned())
            };
            operands.push(labels.chars().collect());
            texts.push(text);
        }
        let mut times: BTreeMap<char, usize> = BTreeMap::new();
        for label in operands.iter().flatten() {
            *times.entry(*label).or_default() += 1;
        }
        let mut letters: Vec<char> = times.keys().copied().collect();
        letters.retain(|label| label.is_alphabetic());
        let mut text = texts.join(", ");
        let result = if choices.chance(3) {
            letters.retain(|letter| times[letter] == 1);
            format!(
                "{}{}",
                &"210"[3 - most_hidden..],
                String::from_iter(letters)
            )
        } else {
            let mut kept = String::new();
            for _ in 0..choices.below(letters.len() + 1) {
                kept.push(letters.swap_remove(choices.below(letters.len())));
            }
            if choices.chance(16) {
                kept.push(choices.pick(&['a', 'b', 'd']));
            }
            let (labels, end) = match is_hiding {
                true => hiding(choices, &kept, most_hidden),
                false => (kept.clone(), kept),
            };
            text = format!("{text} -> {end}");
            labels
        };
        Equation {
            operands,
            result: result.chars().collect(),
            text,
        }
    }

    /// The sum over all numbers of the labels that are not in the result.
    fn value(&self, operands: &[Values<f64>]) -> Option<Values<f64>> {
        let mut sizes: BTreeMap<char, usize> = BTreeMap::new();
        for (labels, operand) in self.operands.iter().zip(operands) {
            let mut own: BTreeMap<char, usize> = BTreeMap::new();
            for (&label, &size) in labels.iter().zip(&operand.shape) {
                // A diagonal is of axes that are equal.
                if *own.entry(label).or_insert(size) != size {
                    return None;
                }
            }
            for (label, size) in own {
                let known = sizes.get(&label).copied().unwrap_or(1);
                sizes.insert(label, joined_size(known, size)?);
            }
        }
        let once = |label| self.result.iter().filter(|&other| other == label).count() == 1;
        let known = |label| sizes.contains_key(label) && once(label);
        if !self.result.iter().all(known) {
            return None;
        }
        let all: Vec<char> = sizes.keys().copied().collect();
        let ranges: Vec<usize> = sizes.values().copied().collect();
        let shape: Vec<usize> = self.result.iter().map(|label| sizes[label]).collect();
        let mut sum = Values::from_fn(&shape, |_| 0.0);
        for numbers in indices(&ranges) {
            let at = |labels: &[char]| -> Vec<usize> {
                let number =
                    |label: &char| numbers[all.iter().position(|other| other == label).unwrap()];
                labels.iter().map(number).collect()
            };
            let factors = self.operands.iter().zip(operands);
            let factors = factors.map(|(labels, operand)| operand.broadcast_at(&at(labels)));
            let place = at(&self.result)
                .iter()
                .zip(&shape)
                .fold(0, |place, (&at, &size)| place * size + at);
            sum.values[place] += factors.product::<f64>();
        }
        Some(sum)
    }
}

#[test]
fn sums_of_products_are_over_all_numbers_of_their_labels() {
    let pool = pool();
    let mut choices = Rng::new(24);
    let mut met = [0; 2];
    for case in 0..1500 {
        let equation = Equation::random(&mut choices);
        let labels: BTreeMap<char, usize> = ("abcBd0123".chars())
            .map(|label| (label, choices.pick(&[0, 1, 2, 2, 3, 3])))
            .collect();
        let mut operand = |labels_of: &Vec<char>| {
            let shape: Vec<usize> = labels_of
                .iter()
                .map(|label| match choices.below(40) {
                    0 => choices.below(4),
                    1..5 if labels_of.iter().filter(|&other| other == label).count() == 1 => 1,
                    _ => labels[label],
                })
                .collect();
            wholes(&mut choices, &shape)
        };
        let operands: Vec<Values<f64>> = equation.operands.iter().map(&mut operand).collect();
        let wanted = equation.value(&operands);
        let tensors: Vec<Tensor> = operands
            .iter()
            .map(|operand| operand.tensor(&mut choices, &pool))
            .collect();
        let mut tensors: Vec<&Tensor> = tensors.iter().collect();
        let whole: Vec<Tensor> = tensors
            .iter()
            .map(|tensor| tensor.to_dtype(DType::I64).unwrap())
            .collect();
        if case % 2 == 0 {
            tensors = whole.iter().collect();
        }
        let got = Tensor::einsum(&equation.text, &tensors);
        let got = got.map(|sum| Values::of(&sum.to_dtype(DType::F64).unwrap()));
        met[usize::from(wanted.is_some())] += 1;
        let shapes: Vec<&[usize]> = tensors.iter().map(|tensor| tensor.shape()).collect();
        let what = format!("case {case}: {} of {shapes:?}", equation.text);
        assert_eq!(got.as_ref().ok(), wanted.as_ref(), "{what}: {got:?}");
    }
    assert!(met.iter().all(|&times| times > 100), "{met:?}");
}

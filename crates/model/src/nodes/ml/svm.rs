//! Support vector machines.

use streampool_tensor::{DType, Tensor};

use super::super::call::{Call, Operator, Outputs, parts};
use super::common::{attr_floats, class_labels, float_rows, floats, ints, labelled};
use super::score::Transform;
use crate::error::{NodeError, alike};

pub fn operator(op: &str) -> Option<Operator> {
    Some(match op {
        "SVMRegressor" => regressor,
        "SVMClassifier" => classifier,
        _ => return None,
    })
}

/// As many differences are held at a time, unless one vector has more.
const AT_ONCE: usize = 1 << 22;

/// The kernel of each row of `x` and each of `[vectors, features]`.
fn kernel(
    call: &Call<'_>,
    x: &Tensor,
    vectors: &Tensor,
    linear: bool,
) -> Result<Tensor, NodeError> {
    let kind = if linear {
        "LINEAR"
    } else {
        call.string_or("kernel_type", "LINEAR")?
    };
    let (gamma, offset, degree) = match call.attr_floats("kernel_params")? {
        None | Some([]) => (0.0, 0.0, 0.0),
        Some(&[gamma, offset, degree, ..]) => {
            (f64::from(gamma), f64::from(offset), f64::from(degree))
        }
        Some(other) => {
            let got = format_args!("of {} values", other.len());
            return Err(NodeError::malformed("attribute kernel_params", got, "3"));
        }
    };
    let product = || x.matmul(&vectors.transpose(0, 1)?);
    Ok(match kind {
        "LINEAR" => product()?,
        "POLY" => product()?.mul(gamma)?.add(offset)?.pow(degree)?,
        "SIGMOID" => product()?.mul(gamma)?.add(offset)?.tanh()?,
        "RBF" => {
            // Differences, not products: near vectors must not cancel. So many vectors at a time as memory bears.
            let (x, all) = (x.unsqueeze(1)?, vectors.dim(0)?);
            let width = (AT_ONCE / x.elem_count().max(1)).clamp(1, all.max(1));
            let mut kernels = Vec::new();
            for part in 0..parts("the support vectors", all.div_ceil(width))? {
                let count = width.min(all - part * width);
                let some = vectors.narrow(0, part * width, count)?.unsqueeze(0)?;
                let far = x.sub(&some)?.sum_square(&[2], false)?;
                kernels.push(far.mul(-gamma)?.exp()?);
            }
            Tensor::cat(&kernels.iter().collect::<Vec<_>>(), 1)?
        }
        other => return Err(call.unknown("kernel_type", other)),
    })
}

/// The support vectors, if there are any.
fn vectors(call: &Call<'_>, count: usize, features: usize) -> Result<Tensor, NodeError> {
    let all = attr_floats(call, "support_vectors")?;
    alike("support_vectors", all.len(), count.saturating_mul(features))?;
    floats(call, all, &[count, features])
}

fn rho(call: &Call<'_>, least: usize) -> Result<Vec<f32>, NodeError> {
    let rho = attr_floats(call, "rho")?;
    if rho.len() < least {
        let got = format_args!("of {} values", rho.len());
        return Err(NodeError::malformed(
            "attribute rho",
            got,
            format!("at least {least}"),
        ));
    }
    Ok(streampool_tensor::room::copied(rho)?)
}

fn regressor(call: &Call<'_>) -> Outputs {
    let x = float_rows(call, 0)?;
    let features = x.dim(1)?;
    let count = call.size_or("n_supports", 0)?;
    let coefficients = attr_floats(call, "coefficients")?;
    let rho = f64::from(rho(call, 1)?[0]);
    let sums = if count > 0 {
        alike("coefficients", coefficients.len(), count)?;
        let kernels = kernel(call, &x, &vectors(call, count, features)?, false)?;
        kernels.matmul(&floats(call, coefficients, &[count, 1])?)?
    } else {
        alike("coefficients", coefficients.len(), features)?;
        kernel(call, &x, &floats(call, coefficients, &[1, features])?, true)?
    };
    let scores = sums.add(rho)?;
    if call.flag_or("one_class", false)? {
        let inside = scores.gt(0.0)?.to_dtype(DType::F32)?;
        return Ok(vec![inside.mul(2.0)?.sub(1.0)?]);
    }
    Ok(vec![scores])
}

/// The most classes: there is a machine for each pair.
const MOST_CLASSES: usize = 256;

fn classifier(call: &Call<'_>) -> Outputs {
    let x = float_rows(call, 0)?;
    let features = x.dim(1)?;
    let labels = class_labels(call)?;
    let classes = labels.len();
    if !(2..=MOST_CLASSES).contains(&classes) {
        return Err(NodeError::malformed(
            "the classes",
            classes,
            format!("2 to {MOST_CLASSES}"),
        ));
    }
    let coefficients = attr_floats(call, "coefficients")?;
    let positive = coefficients.iter().all(|&value| value >= 0.0);
    let transform = Transform::of(call)?;
    let counts = call.sizes("vectors_per_class")?;
    let count = counts
        .iter()
        .try_fold(0usize, |all, &count| all.checked_add(count));
    let count = count.unwrap_or(usize::MAX);
    if count == 0 {
        alike(
            "coefficients",
            coefficients.len(),
            classes.saturating_mul(features),
        )?;
        let weights = floats(call, coefficients, &[classes, features])?;
        let scores = kernel(call, &x, &weights, true)?.add(f64::from(rho(call, 1)?[0]))?;
        let best = scores.argmax(1, false)?;
        let label = match (classes, positive) {
            (2, true) => {
                let high = scores.max(&[1], false)?.ge(0.5)?.to_dtype(DType::I64)?;
                labelled(call, labels, &best.maximum(&high)?)?
            }
            (2, false) => {
                let high = scores.max(&[1], false)?.gt(0.0)?.to_dtype(DType::I64)?;
                labelled(call, labels, &best.maximum(&high)?)?
            }
            _ => labelled(call, labels, &best)?,
        };
        return Ok(vec![label, transform.apply(&scores)?]);
    }
    alike("vectors_per_class", counts.len(), classes)?;
    alike(
        "coefficients",
        coefficients.len(),
        (classes - 1).saturating_mul(count),
    )?;
    let kernels = kernel(call, &x, &vectors(call, count, features)?, false)?;
    let pairs = classes * (classes - 1) / 2;
    let rho = rho(call, pairs)?;
    let (weights, [firsts, seconds]) = machines(coefficients, &counts, count, classes)?;
    let weights = floats(call, &weights, &[count, pairs])?;
    let sums = kernels
        .matmul(&weights)?
        .add(&floats(call, &rho[..pairs], &[1, pairs])?)?;
    let won = sums.gt(0.0)?;
    // Each machine has a vote.
    let table = |list: &[i64]| -> Result<Tensor, NodeError> {
        let mut all: Vec<f32> = Vec::new();
        for class in 0..classes as i64 {
            all.extend(
                list.iter()
                    .map(|&other| f32::from(u8::from(other == class))),
            );
        }
        Ok(floats(call, &all, &[classes, pairs])?.transpose(0, 1)?)
    };
    let yes = won.to_dtype(DType::F32)?;
    let votes = yes.matmul(&table(&firsts)?)?;
    let votes = votes.add(&yes.rsub(1.0)?.matmul(&table(&seconds)?)?)?;
    let best = votes.argmax(1, false)?;
    let proba = call.attr_floats("prob_a")?.unwrap_or(&[]);
    let scores = match proba.is_empty() {
        false => {
            let probb = attr_floats(call, "prob_b")?;
            alike("prob_a", proba.len(), pairs)?;
            alike("prob_b", probb.len(), pairs)?;
            let value = sums.mul(&floats(call, proba, &[1, pairs])?)?.add(&floats(
                call,
                probb,
                &[1, pairs],
            )?)?;
            let apart = value.neg()?.sigmoid()?.clamp(1e-7, 1.0 - 1e-7)?;
            probabilities(call, &apart, [&firsts, &seconds], classes)?
        }
        true if classes > 2 => sums,
        // The score of the second class, and of the first.
        true => match transform {
            Transform::None => Tensor::cat(&[&sums.neg()?, &sums], 1)?,
            _ => Tensor::cat(&[&sums.rsub(1.0)?, &sums], 1)?,
        },
    };
    let label = labelled(call, labels, &best)?;
    let scores = match classes == 2 && proba.is_empty() {
        true => scores,
        false => transform.apply(&scores)?,
    };
    Ok(vec![label, scores])
}

/// What each support vector counts for in each machine, and which classes it tells apart.
fn machines(
    coefficients: &[f32],
    counts: &[usize],
    count: usize,
    classes: usize,
) -> Result<(Vec<f32>, [Vec<i64>; 2]), NodeError> {
    let pairs = classes * (classes - 1) / 2;
    let mut weights = streampool_tensor::room::filled(0.0f32, count.saturating_mul(pairs))?;
    let mut begins = vec![0];
    for &own in counts {
        begins.push(begins[begins.len() - 1] + own);
    }
    let (mut firsts, mut seconds) = (Vec::new(), Vec::new());
    for first in 0..classes {
        for second in first + 1..classes {
            let pair = firsts.len();
            for vector in begins[first]..begins[first + 1] {
                weights[vector * pairs + pair] = coefficients[(second - 1) * count + vector];
            }
            for vector in begins[second]..begins[second + 1] {
                weights[vector * pairs + pair] = coefficients[first * count + vector];
            }
            firsts.push(first as i64);
            seconds.push(second as i64);
        }
    }
    Ok((weights, [firsts, seconds]))
}

/// Rounds in which probabilities come to agree, at most.
const ROUNDS: usize = 100;

/// The probabilities of classes that agree best with those of pairs: the method of Wu, Lin and Weng.
fn probabilities(
    call: &Call<'_>,
    apart: &Tensor,
    [firsts, seconds]: [&[i64]; 2],
    classes: usize,
) -> Result<Tensor, NodeError> {
    let rows = apart.dim(0)?;
    // [rows, classes, classes]: how much rather one than the other.
    let both = Tensor::cat(
        &[apart, &apart.rsub(1.0)?, &apart.narrow(1, 0, 1)?.mul(0.0)?],
        1,
    )?;
    let pairs = firsts.len();
    let mut places = streampool_tensor::room::filled(2 * pairs as i64, classes * classes)?;
    for (pair, (&first, &second)) in firsts.iter().zip(seconds).enumerate() {
        places[first as usize * classes + second as usize] = pair as i64;
        places[second as usize * classes + first as usize] = (pairs + pair) as i64;
    }
    let table = ints_of(call, &places)?;
    let r = both
        .index_select(1, &table)?
        .reshape(&[rows, classes, classes])?;
    let turned = r.transpose(1, 2)?;
    let squares = turned.sum_square(&[2], true)?;
    let own = call.lift(&Tensor::eye(
        call.known_pool(),
        classes,
        classes,
        DType::F32,
    )?)?;
    let q = turned.mul(&r)?.neg()?.add(&squares.mul(&own)?)?;
    let diagonal = squares.squeeze(2)?;
    let mut p = diagonal.mul(0.0)?.add(1.0 / classes as f64)?;
    for _ in 0..ROUNDS {
        let mut qp = q.mul(&p.unsqueeze(1)?)?.sum(&[2], false)?;
        let mut pqp = p.mul(&qp)?.sum(&[1], true)?;
        // A row that agrees already stays as it is.
        let error = qp.sub(&pqp)?.abs()?.max(&[1], true)?;
        let goes_on = error.ge(0.005 / classes as f64)?;
        let before = p.clone();
        for class in 0..classes {
            let of = |x: &Tensor| x.narrow(1, class, 1);
            let difference = pqp.sub(&of(&qp)?)?.div(&of(&diagonal)?)?;
            let added = own.narrow(0, class, 1)?.mul(&difference)?;
            p = p.add(&added)?;
            let share = difference.add(1.0)?;
            let inner = difference.mul(&of(&diagonal)?)?.add(&of(&qp)?.mul(2.0)?)?;
            pqp = pqp
                .add(&difference.mul(&inner)?)?
                .div(&share)?
                .div(&share)?;
            let row = q.narrow(1, class, 1)?.squeeze(1)?;
            qp = qp.add(&difference.mul(&row)?)?.div(&share)?;
            p = p.div(&share)?;
        }
        p = goes_on.where_cond(&p, &before)?;
    }
    Ok(p)
}

fn ints_of(call: &Call<'_>, values: &[i64]) -> Result<Tensor, NodeError> {
    ints(call, values, &[values.len()])
}

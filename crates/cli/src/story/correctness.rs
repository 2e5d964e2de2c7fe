//! The chapter on correctness: how far results are from those of float64.

use streampool::{Array, DType, Input, Pool, Session, SessionOptions};

use super::chapter::{Chapter, Check, Found, Now};
use super::setting::Setting;
use crate::Result;
use crate::errors::errors;
use crate::inputs::From;
use crate::models::Builtin;
use crate::page::{Cell, Part, Table};
use crate::plot::{Axis, Plot, Scale, Series};

/// How many rows, or sequences, a run has: one, and several.
const ROWS: [usize; 2] = [1, 8];

/// What is computed in, and how far a value may then be off, as a part of the largest: some hundred times what one rounding
/// takes.
const PRECISIONS: [(DType, f64); 2] = [(DType::F32, 1e-5), (DType::F16, 2e-2)];

/// Points of a line.
const POINTS: usize = 20;

/// The chapter.
pub fn chapter() -> Chapter {
    let allowed = PRECISIONS.map(|(dtype, most)| format!("{most:.0e} of the largest in {dtype}"));
    Chapter {
        name: "correctness",
        claim: format!(
            "Results are right: no value is off by more than {}.",
            allowed.join(", or ")
        ),
        how: format!(
            "Plain loops in float64, which share no code with the runtime, evaluate the built-in models again: attention, \
             normalisation and GELU by their definitions. Every value is compared, at {} and {} rows. Errors are relative to the \
             largest value.",
            ROWS[0], ROWS[1]
        ),
        tell,
    }
}

fn tell(setting: &Setting, now: Now<'_>) -> Result<Found> {
    let mut found = Found::default();
    let (mut rows, mut series) = (Vec::new(), Vec::new());
    let mut worst = PRECISIONS.map(|_| 0f64);
    for model in [Builtin::linear(), Builtin::encoder()] {
        let name = model.name();
        for ((dtype, most), worst) in PRECISIONS.into_iter().zip(&mut worst) {
            now(&format!("{name} in {dtype}"));
            let errors = sorted_errors(&model, dtype, &setting.pool)?;
            let at = |part: f64| errors[((errors.len() - 1) as f64 * part) as usize];
            rows.push(vec![
                name.into(),
                dtype.to_string().into(),
                Cell::count(errors.len()),
                Cell::small(at(0.5), 1),
                Cell::small(at(0.99), 1),
                Cell::small(at(1.0), 1),
                Cell::small(most, 0),
            ]);
            let what = format!("largest error of {name} in {dtype}");
            let check = Check::at_most(format!("{name}-{dtype}"), what, at(1.0), most);
            found.checks.push(check);
            *worst = worst.max(at(1.0));
            let point = |step: usize| {
                let part = step as f64 / POINTS as f64;
                (at(part), 100.0 * part)
            };
            let points = (1..=POINTS).map(point);
            series.push(Series::new(format!("{name} in {dtype}"), points));
        }
    }
    let head = vec![
        "model",
        "type",
        "values",
        "half below",
        "99 % below",
        "largest",
        "allowed",
    ];
    let what = "Errors as parts of the largest value".to_owned();
    found.tables.push((what, Table { head, rows }));
    found.drawings.push(Part::Plot(Plot {
        title: "Correctness: values with at most such an error".to_owned(),
        x: Axis::new("error, as a part of the largest value", Scale::Log10),
        y: Axis::new("% of the values", Scale::Linear),
        series,
    }));
    let worst = PRECISIONS.iter().zip(worst);
    let worst = worst.map(|((dtype, _), worst)| format!("{worst:.1e} of the largest in {dtype}"));
    let worst: Vec<String> = worst.collect();
    found.sum = format!("No value was off by more than {}.", worst.join(", or "));
    Ok(found)
}

/// How far each value is off, the least first: of runs with few rows and with many, in a certain type.
fn sorted_errors(model: &Builtin, dtype: DType, pool: &Pool) -> Result<Vec<f64>> {
    let options = SessionOptions {
        precision: (dtype != DType::F32).then_some(dtype),
        ..SessionOptions::default()
    };
    let session = Session::from_bytes(pool, model.onnx()?, &options)?;
    let mut errors = Vec::new();
    for rows in ROWS {
        errors.extend(errors_of(model, &session, rows)?);
    }
    errors.sort_by(f64::total_cmp);
    Ok(errors)
}

/// How far each value of a run is off, as a part of the largest.
fn errors_of(model: &Builtin, session: &Session, rows: usize) -> Result<Vec<f64>> {
    let row = |seed: usize| {
        let made = From::Seed(seed as u64, &[]).inputs(session.inputs(), 0, session.pool());
        Ok(made?.remove(0))
    };
    let each: Vec<Array> = (0..rows).map(row).collect::<Result<_>>()?;
    let x = Array::join(&each.iter().collect::<Vec<_>>())?;
    let outputs = session.run_positional(&[Input::from(&x)])?;
    let y = outputs.at(0).ok_or("the model gave nothing")?;
    Ok(errors(
        y.values::<f32>()?,
        &model.reference(x.values::<f32>()?),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_with_another_weight_is_not_right() {
        let pool = streampool::host_pool().unwrap();
        let model = Builtin::linear();
        let options = SessionOptions::default();
        let session = Session::from_bytes(&pool, model.onnx().unwrap(), &options).unwrap();
        let most = |errors: Vec<f64>| errors.into_iter().fold(0.0, f64::max);
        assert!(most(errors_of(&model, &session, 2).unwrap()) < 1e-5);
        let Builtin::Linear(mut other) = model else {
            unreachable!("it is the linear layer")
        };
        other.weight[1000] += 0.01;
        let other = Builtin::Linear(other);
        assert!(most(errors_of(&other, &session, 2).unwrap()) > 1e-5);
    }
}

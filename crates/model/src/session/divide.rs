//! Runs whose outputs are divided among the requests of a batch.

use streampool_tensor::{Array, DType};

use super::compiled::Ends;
use super::input::Input;
use super::options::RunOptions;
use super::outputs::Outputs;
use super::prepared::Prepared;
use super::programs::Ready;
use super::run::shared;
use crate::error::{Error, Result};
use crate::graph::ValueId;
use crate::lower::Output;
use crate::trace::TensorKind;

impl Prepared {
    /// As [`run_arrays`](Self::run_arrays), each output divided into so many rows at a time.
    pub fn run_batch(
        &self,
        inputs: &[Input<'_>],
        rows: &[usize],
        options: &RunOptions,
    ) -> Result<Vec<Vec<Array>>> {
        self.check_depends()?;
        let first = inputs.first().and_then(|input| input.shape().first());
        let share = Shares {
            rows,
            all: first.copied().unwrap_or_default(),
        };
        self.run_and_read(
            inputs,
            Ends::Host,
            options,
            |ready| self.read_divided(ready, &share),
            |outputs| share.of(&outputs),
        )
    }

    /// Refuses to divide an output that has the same rows however many are asked for.
    fn check_depends(&self) -> Result<()> {
        let graph = self.plans.graph();
        let is_constant = |id: &&ValueId| graph.constants.contains_key(id);
        match graph.outputs.iter().find(is_constant) {
            None => Ok(()),
            Some(&id) => Err(Error::Output {
                name: graph.name(id).to_owned(),
                got: "the same whatever is given".to_owned(),
                expected: "rows along its first axis, one for each of the batch".to_owned(),
            }),
        }
    }

    /// The same, divided: each share is copied once, out of the program's memory.
    fn read_divided(&self, ready: &mut Ready, shares: &Shares<'_>) -> Result<Vec<Vec<Array>>> {
        let plan = &ready.compiled.plan;
        let mut left: Vec<(&TensorKind, &[u8])> = Vec::new();
        let shared: &[u8] = shared(&mut ready.program)?;
        for ((_, output), name) in plan.outputs.iter().zip(self.output_names.iter()) {
            let Output::Tensor(port) = output else {
                let outputs = self.read_outputs(ready)?;
                return shares.of(&outputs);
            };
            shares.check(name, port.kind.dtype, &port.kind.shape)?;
            left.push((&port.kind, &shared[port.offset..][..port.kind.bytes()]));
        }
        let each = shares.rows.iter().map(|&rows| {
            let own = |(place, (kind, left)): (usize, &mut (&TensorKind, &[u8]))| {
                let mut shape = kind.shape.clone();
                let row = kind.bytes() / shape[0].max(1);
                shape[0] = rows;
                let (own, others) = left.split_at(rows * row);
                *left = others;
                self.named(place, Array::from_bytes(kind.dtype, own, &shape)?)
            };
            left.iter_mut().enumerate().map(own).collect()
        });
        each.collect()
    }
}

/// How the rows of outputs are divided.
struct Shares<'a> {
    /// The rows of each share. Those behind them are nobody's.
    rows: &'a [usize],
    /// How many there are.
    all: usize,
}

impl Shares<'_> {
    fn check(&self, name: &str, dtype: DType, shape: &[usize]) -> Result<()> {
        let mut rows = self.rows.iter();
        let asked = rows.try_fold(0usize, |all, &rows| all.checked_add(rows));
        if shape.first() == Some(&self.all) && asked.is_some_and(|asked| asked <= self.all) {
            return Ok(());
        }
        Err(Error::Output {
            name: name.to_owned(),
            got: format!("{dtype} {shape:?}"),
            expected: format!(
                "{} rows along its first axis, one for each of the batch",
                self.all
            ),
        })
    }

    fn of(&self, outputs: &Outputs) -> Result<Vec<Vec<Array>>> {
        let named = outputs
            .iter()
            .flat_map(|(name, arrays)| arrays.iter().map(move |array| (name, array)));
        let arrays: Vec<&Array> = named
            .map(|(name, array)| {
                self.check(name, array.dtype(), array.shape())?;
                Ok(array)
            })
            .collect::<Result<_>>()?;
        let mut begin = 0;
        let each = self.rows.iter().map(|rows| {
            let own = begin..begin + rows;
            begin = own.end;
            arrays
                .iter()
                .map(|array| Ok(array.rows(own.clone())?))
                .collect()
        });
        each.collect()
    }
}

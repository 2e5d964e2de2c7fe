//! Reductions of several steps: norms, logarithms of sums, variances. Halves are computed in `f32` to the end.

use streampool_device::{Axes, Binary, Compare, ReduceKind, Unary};

use super::formula::{Formula, Takes, wide};
use super::other::Other;
use crate::{Error, Result, Tensor, axis};

impl Tensor {
    /// The sum of magnitudes; integers wrap.
    pub fn l1_norm(&self, axes: &[isize], keep: bool) -> Result<Tensor> {
        self.magnitudes("l1_norm", axes, keep)
    }

    fn magnitudes(&self, op: &'static str, axes: &[isize], keep: bool) -> Result<Tensor> {
        static MAGNITUDE: Formula<1> =
            Formula::raised("l1_norm", ["self"], Takes::Number, |e, [x]| {
                e.unary(Unary::Abs, x)
            });
        let axes = axis::set_or_all(op, "axes", axes, self.rank())?;
        self.sum_of(op, &MAGNITUDE, axes)?.settled(self, axes, keep)
    }

    /// The square root of the sum of squares.
    pub fn l2_norm(&self, axes: &[isize], keep: bool) -> Result<Tensor> {
        self.length("l2_norm", axes, keep)
    }

    fn length(&self, op: &'static str, axes: &[isize], keep: bool) -> Result<Tensor> {
        static SQUARE: Formula<1> = square("l2_norm", Takes::Float);
        let axes = axis::set_or_all(op, "axes", axes, self.rank())?;
        self.sum_of(op, &SQUARE, axes)?
            .sqrt()?
            .settled(self, axes, keep)
    }

    /// `(Σ |x|^p)^(1/p)` for a positive power `p`, the largest magnitude for an infinite one, and for zero how many
    /// elements are not zero.
    pub fn norm(&self, p: f64, axes: &[isize], keep: bool) -> Result<Tensor> {
        static POWER: Formula<2> =
            Formula::raised("norm", ["self", "p"], Takes::Float, |e, [x, p]| {
                let magnitude = e.unary(Unary::Abs, x)?;
                e.binary(Binary::Pow, magnitude, p)
            });
        static COUNT: Formula<1> = Formula::raised("norm", ["self"], Takes::Float, |e, [x]| {
            let (zero, one) = (e.number(0.0)?, e.number(1.0)?);
            let is_zero = e.compare(Compare::Eq, x, zero)?;
            e.select(is_zero, zero, one)
        });
        let op = "norm";
        if p.is_nan() || p < 0.0 {
            return Err(Error::parameter(op, "p", p, "not negative"));
        }
        Takes::Float.check(op, "self", self.dtype())?;
        if p == 1.0 {
            return self.magnitudes(op, axes, keep);
        }
        if p == 2.0 {
            return self.length(op, axes, keep);
        }
        let set = axis::set_or_all(op, "axes", axes, self.rank())?;
        if p == f64::INFINITY {
            return self.abs()?.reduced_over(op, ReduceKind::Max, set, keep);
        }
        if p == 0.0 {
            return self.sum_of(op, &COUNT, set)?.settled(self, set, keep);
        }
        let powers = POWER.apply(self, [self.into(), p.into()])?;
        powers
            .reduced_over(op, ReduceKind::Sum, set, true)?
            .pow(1.0 / p)?
            .settled(self, set, keep)
    }

    /// The sum of squares; integers wrap.
    pub fn sum_square(&self, axes: &[isize], keep: bool) -> Result<Tensor> {
        static SQUARE: Formula<1> = square("sum_square", Takes::Number);
        let axes = axis::set_or_all("sum_square", "axes", axes, self.rank())?;
        self.sum_of("sum_square", &SQUARE, axes)?
            .settled(self, axes, keep)
    }

    /// The logarithm of the sum.
    pub fn log_sum(&self, axes: &[isize], keep: bool) -> Result<Tensor> {
        let op = "log_sum";
        Takes::Float.check(op, "self", self.dtype())?;
        let axes = axis::set_or_all(op, "axes", axes, self.rank())?;
        let precise = self.to_dtype(wide(self.dtype()))?;
        let sum = precise.reduced_over(op, ReduceKind::Sum, axes, true)?;
        sum.log()?.settled(self, axes, keep)
    }

    /// The logarithm of the sum of exponentials, computed so that none overflows. That of nothing is minus infinity.
    pub fn log_sum_exp(&self, axes: &[isize], keep: bool) -> Result<Tensor> {
        static EXP: Formula<2> = Formula::raised(
            "log_sum_exp",
            ["self", "shift"],
            Takes::Float,
            |e, [x, shift]| {
                let below = e.binary(Binary::Sub, x, shift)?;
                e.unary(Unary::Exp, below)
            },
        );
        static LOG: Formula<2> = Formula::own(
            "log_sum_exp",
            ["sum", "shift"],
            Takes::Float,
            |e, [sum, shift]| {
                let log = e.unary(Unary::Log, sum)?;
                e.binary(Binary::Add, log, shift)
            },
        );
        // An infinite largest would only make NaN of those that are infinite as well.
        static SHIFT: Formula<1> =
            Formula::own("log_sum_exp", ["largest"], Takes::Float, |e, [x]| {
                let (zero, infinite) = (e.number(0.0)?, e.unary(Unary::IsInf, x)?);
                e.select(infinite, zero, x)
            });
        let op = "log_sum_exp";
        Takes::Float.check(op, "self", self.dtype())?;
        let axes = axis::set_or_all(op, "axes", axes, self.rank())?;
        let shift = if self.elem_count() == 0 {
            self.reduced_over(op, ReduceKind::Sum, axes, true)?
        } else {
            let largest = self.reduced_over(op, ReduceKind::Max, axes, true)?;
            SHIFT.apply(&largest, [(&largest).into()])?
        };
        let powers = EXP.apply(self, [self.into(), (&shift).into()])?;
        let sum = powers.reduced_over(op, ReduceKind::Sum, axes, true)?;
        let shift = shift.to_dtype(sum.dtype())?;
        LOG.apply(&sum, [(&sum).into(), (&shift).into()])?
            .settled(self, axes, keep)
    }

    /// The variance: the mean of the squared distances from the mean, but their sum is divided by `correction` less
    /// than their number. PyTorch has one where it is left out; zero gives that of the elements themselves. It is NaN
    /// where nothing is left to divide by.
    pub fn var(&self, axes: &[isize], correction: usize, keep: bool) -> Result<Tensor> {
        let axes = axis::set_or_all("var", "axes", axes, self.rank())?;
        self.variance("var", axes, correction)?
            .settled(self, axes, keep)
    }

    /// The standard deviation: the square root of the [variance](Self::var).
    pub fn std(&self, axes: &[isize], correction: usize, keep: bool) -> Result<Tensor> {
        let axes = axis::set_or_all("std", "axes", axes, self.rank())?;
        self.variance("std", axes, correction)?
            .sqrt()?
            .settled(self, axes, keep)
    }

    /// In two passes: the difference of two large sums would leave nothing.
    fn variance(&self, op: &'static str, axes: Axes, correction: usize) -> Result<Tensor> {
        static DISTANCE: Formula<2> =
            Formula::own("var", ["self", "mean"], Takes::Float, |e, [x, mean]| {
                let distance = e.binary(Binary::Sub, x, mean)?;
                e.binary(Binary::Mul, distance, distance)
            });
        Takes::Float.check(op, "self", self.dtype())?;
        let precise = self.to_dtype(wide(self.dtype()))?;
        let mean = precise.reduced_over(op, ReduceKind::Mean, axes, true)?;
        let squares = DISTANCE.apply(&precise, [(&precise).into(), (&mean).into()])?;
        let sum = squares.reduced_over(op, ReduceKind::Sum, axes, true)?;
        let count: usize = axes.iter().map(|axis| self.shape()[axis]).product();
        sum.div(count.saturating_sub(correction) as f64)
    }

    /// The sum of a formula of the elements, over axes that stay, in the type it is computed in.
    fn sum_of(&self, op: &'static str, formula: &Formula<1>, axes: Axes) -> Result<Tensor> {
        let terms = formula.apply(self, [Other::Tensor(self)])?;
        terms.reduced_over(op, ReduceKind::Sum, axes, true)
    }

    /// What was reduced from `source`, in its type, with or without the axes.
    fn settled(&self, source: &Tensor, axes: Axes, keep: bool) -> Result<Tensor> {
        let result = self.to_dtype(source.dtype())?;
        if keep {
            Ok(result)
        } else {
            result.dropped(axes)
        }
    }
}

const fn square(op: &'static str, takes: Takes) -> Formula<1> {
    Formula::raised(op, ["self"], takes, |e, [x]| e.binary(Binary::Mul, x, x))
}

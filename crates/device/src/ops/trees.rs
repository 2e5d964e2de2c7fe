//! Ensembles of decision trees: each row goes down every tree, and the leaves that it reaches are combined.

use crate::check::{dtype, float, require, same_type, shape, steps, writable};
use crate::{Access, DType, OpKind, Result, View};

/// `dst[row, target] =` the weights for this target of the leaves that the row reaches, combined in the order of the trees.
///
/// A record is four words. The low byte of the first says what it is, the others hold a number, which is that of a feature in
/// a test and that of a target in a weight. The second is the number of a record. The last two hold a value: an `f32` in the
/// third, or an `f64` with its low word first.
///
/// - A **test** compares a feature with the value. Is the outcome among its [bits](Trees::LESS), the row goes on at the record
///   of the second word, otherwise at the one behind that. A test that the row is at in the end adds nothing.
/// - A **weight** is a leaf of one target. Its second word is its own number.
/// - A **list** is a leaf whose third word is the number of its first weight, and whose fourth word is how many there are.
///   Its second word is its own number.
///
/// A leaf whose second word is another number leads on to that on some devices.
///
/// The number of a record, of a feature or of a target beyond the last counts as the last. A list ends with the records, and
/// after as many weights as there are targets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trees<T = View> {
    /// `[rows, features]`: `f32` or `f64`.
    pub src: T,
    /// `[records, 4]`, `i32`, row-major: the first are the roots.
    pub records: T,
    /// `[rows, targets]`: type of `src`.
    pub dst: T,
    /// How many trees there are.
    pub trees: usize,
    /// How many tests lie one below the other, at most.
    pub depth: usize,
    /// What tests ask.
    pub test: TreeTest,
    /// What becomes of several weights for a target. Where there is none, the result is zero.
    pub combine: TreeCombine,
}

/// What the tests of [`Trees`] ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TreeTest {
    /// Each whether the feature is at most the value, whatever its bits are.
    AtMost,
    /// Each whether it is below the value, whatever its bits are.
    Below,
    /// Each what its bits say.
    Bits,
}

/// How [`Trees`] combines the weights for a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TreeCombine {
    /// The sum.
    Sum,
    /// The smallest.
    Min,
    /// The largest.
    Max,
}

impl Trees<()> {
    /// Of the low byte: it is a test.
    pub const TEST: u32 = 1;
    /// It is a list.
    pub const LIST: u32 = 2;
    /// A test is passed by what is less than its value.
    pub const LESS: u32 = 4;
    /// By what is equal.
    pub const EQUAL: u32 = 8;
    /// By what is greater.
    pub const GREATER: u32 = 16;
    /// By NaN.
    pub const NAN: u32 = 32;
    /// Where the other bits of the word begin.
    pub const SHIFT: u32 = 8;
    /// The words of a record.
    pub const WORDS: usize = 4;
    /// As many features, or targets, can be told apart.
    pub const MOST: usize = 1 << 24;
}

impl<T> Trees<T> {
    #[inline(always)]
    pub(crate) fn try_map<'a, U, E>(
        &'a self,
        f: &mut impl FnMut(&'static str, Access, &'a T) -> Result<U, E>,
    ) -> Result<Trees<U>, E> {
        Ok(Trees {
            src: f("src", Access::Read, &self.src)?,
            records: f("records", Access::Read, &self.records)?,
            dst: f("dst", Access::Write, &self.dst)?,
            trees: self.trees,
            depth: self.depth,
            test: self.test,
            combine: self.combine,
        })
    }
}

impl Trees<View> {
    pub(crate) fn check(&self) -> Result<()> {
        let kind = OpKind::Trees;
        writable(kind, "dst", &self.dst)?;
        float(kind, "src", &self.src)?;
        let wide = matches!(self.src.dtype(), DType::F32 | DType::F64);
        let got = format_args!("of type {}", self.src.dtype());
        require(kind, "src", wide, got, "f32 or f64")?;
        same_type(kind, "dst", &self.dst, &self.src)?;
        for (argument, view) in [
            ("src", &self.src),
            ("dst", &self.dst),
            ("records", &self.records),
        ] {
            crate::check::rank(kind, argument, view, 2)?;
        }
        let ([rows, features], targets) = (
            [self.src.shape()[0], self.src.shape()[1]],
            self.dst.shape()[1],
        );
        shape(kind, "dst", self.dst.shape(), &[rows, targets])?;
        for (argument, count) in [("src", features), ("dst", targets)] {
            let fits = (1..=Trees::MOST).contains(&count);
            let got = format_args!("of {count} columns");
            require(
                kind,
                argument,
                fits,
                got,
                format_args!("1 to {}", Trees::MOST),
            )?;
        }
        dtype(kind, "records", self.records.dtype(), DType::I32)?;
        let records = self.records.shape()[0];
        shape(
            kind,
            "records",
            self.records.shape(),
            &[records, Trees::WORDS],
        )?;
        let dense = self.records.layout().is_contiguous();
        require(kind, "records", dense, "not row-major", "row-major")?;
        let fits = (1..=i32::MAX as usize).contains(&records);
        require(
            kind,
            "records",
            fits,
            records,
            format_args!("1 to {}", i32::MAX),
        )?;
        for (argument, count) in [("trees", self.trees), ("depth", self.depth)] {
            let expected = format_args!("at most {records}, the number of records");
            require(kind, argument, count <= records, count, expected)?;
        }
        steps(kind, "trees", [rows, self.trees, self.depth])?;
        // Each leaf may list weights for all targets, or more.
        steps(kind, "dst", [rows, self.trees, targets])?;
        crate::check::countable(kind, "trees", "leaves", [rows, self.trees])
    }
}

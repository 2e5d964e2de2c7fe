//! What the larger ops are given: a file for each family, with its operands and what must hold for them.

#![forbid(unsafe_code)]

mod attention;
mod conv;
mod index;
mod linalg;
mod pool;
mod random;
mod regions;
mod resize;
mod rnn;
mod sort;
mod tally;
mod trees;
mod window;

pub use attention::Attention;
pub use conv::{Conv, ToBytes};
pub use index::{Combine, Gather, Indexing, Scatter};
pub use linalg::Linalg;
pub use pool::{Pool, PoolKind};
pub use random::{Distribution, Random};
pub use regions::Regions;
pub use resize::{Along, Interpolation, Resize, Rounding};
pub use rnn::{Cell, Direction, Rnn};
pub use sort::{Scan, ScanKind, Sort};
pub use tally::{Histogram, NonZero};
pub use trees::{TreeCombine, TreeTest, Trees};
pub use window::{Slide, Window};

use crate::Access;

/// An operand that may be left out, handed to `f` as one that is read or written.
#[inline(always)]
fn optional<'a, T, U, E>(
    operand: &'a Option<T>,
    name: &'static str,
    access: Access,
    f: &mut impl FnMut(&'static str, Access, &'a T) -> Result<U, E>,
) -> Result<Option<U>, E> {
    operand
        .as_ref()
        .map(|operand| f(name, access, operand))
        .transpose()
}

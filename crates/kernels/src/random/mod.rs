//! Random numbers that depend on nothing but a seed and a place.
//!
//! Every step is a basic operation of IEEE arithmetic, rounded by itself: the host, which uses [`Recipe`] and the
//! same [`Series`], comes to the same bits.

mod recipe;
mod series;
mod text;

pub use recipe::Recipe;
pub use series::{SERIES_F32, SERIES_F64, Series};
pub use text::Random;

pub(crate) use text::random;

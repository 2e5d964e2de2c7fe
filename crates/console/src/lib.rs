//! What the programs of Streampool share: devices by name, models and inputs for them, tables, plots and pages for what was found,
//! and threads that begin together.
//!
//! ```
//! use streampool_console::table::{Align, Table};
//!
//! let mut table = Table::new(2, &[Align::Left, Align::Right]);
//! table.row(["launch", "125 k/s"]);
//! assert_eq!(table.render(), "  launch  125 k/s\n");
//! ```
#![forbid(unsafe_code)]

pub mod device;
pub mod errors;
pub mod inputs;
pub mod latencies;
pub mod machine;
pub mod models;
pub mod noise;
pub mod output;
pub mod page;
pub mod plot;
pub mod progress;
pub mod table;
pub mod text;
pub mod threads;

/// Why a command failed, in words for whoever typed it.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// What a command does, or why it cannot.
pub type Result<T, E = Failure> = std::result::Result<T, E>;

/// What a command found, once it could do its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// All is well.
    Good,
    /// Something is wrong, and the output says what.
    Bad,
}

impl Outcome {
    /// Good or not.
    pub fn of(good: bool) -> Self {
        if good { Outcome::Good } else { Outcome::Bad }
    }
}

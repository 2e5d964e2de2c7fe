//! What tiled products and convolutions have in common: tiles in shared memory, of which each of 256 threads sums a block of
//! rows and columns in its registers.

use crate::text::{SharedArray, constants};

pub(crate) const THREADS: u32 = 256;
/// Threads along each side of a tile.
const SIDE: u32 = 16;
/// How far a tile reaches along the inner dimension.
const DEPTH: u32 = 16;
/// Unused elements behind each line of a tile: lines begin in different banks, and stay aligned.
const GAP: u32 = 4;

/// Multiplies the tiles that lie in shared memory, and waits until all have; it ends the loop over tiles.
pub(crate) const MULTIPLY: &str = include_str!("multiply.h");

/// How many neighbours a thread takes from the tiles of rows and of columns at once.
fn runs(tile: [u32; 2]) -> [u32; 2] {
    tile.map(|tile| (tile / SIDE).min(4))
}

/// The functions of a text with tiles of so many rows and columns.
pub(crate) fn functions(text: &mut String, tile: [u32; 2]) {
    let ([rows, columns], [row_run, column_run]) = (tile, runs(tile));
    constants(
        text,
        &[
            ("THREADS", THREADS),
            ("SIDE", SIDE),
            ("DEPTH", DEPTH),
            ("ROWS", rows),
            ("COLUMNS", columns),
            ("ROW_PITCH", rows + GAP),
            ("COLUMN_PITCH", columns + GAP),
            ("ROW_RUN", row_run),
            ("COLUMN_RUN", column_run),
        ],
    );
    text.push_str(include_str!("functions.h"));
}

/// The tiles of rows and of columns.
pub(crate) fn shared(tile: [u32; 2]) -> Vec<SharedArray> {
    let [row_run, column_run] = runs(tile);
    let array =
        |ty, name, lines, run| SharedArray::new(ty, name, (DEPTH * (lines + GAP) / run) as usize);
    vec![
        array("RowRun", "a_runs", tile[0], row_run),
        array("ColumnRun", "b_runs", tile[1], column_run),
    ]
}

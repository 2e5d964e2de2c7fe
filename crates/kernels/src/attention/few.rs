//! The form for few queries: a text that is written word by word has one.
//!
//! Nothing is multiplied but these queries, and the time is that of reading keys and values once. Queries of the
//! heads that share keys go together. The keys are divided among the teams of a group, and among as many groups
//! as keep the device busy; what these leave is merged by a second launch.

use streampool_device::{Attention as Op, DType};

use crate::dispatch::Limits;
use crate::text::SharedArray;

/// The most queries of a head.
const MOST_QUERIES: usize = 8;
/// The most of short floats where there are heads for all processors: more take less time where matrices are multiplied.
const MOST_SHORT: usize = 2;
/// Elements of a row that a thread has.
const RUN: usize = 8;
/// Keys that a team takes at once.
const AT_ONCE: usize = 4;
/// Warps of a group.
const WARPS: u32 = 4;
/// Threads of a group that merges.
pub(super) const MERGE_THREADS: u32 = 128;
/// The most queries of a group, whose sums are in the registers of each team.
const MOST_ROWS: usize = 4;
/// The most groups that divide the keys of one query: a thread of a warp for each when they are merged.
const MOST_PARTS: usize = 32;
/// Keys that are worth a group of their own, and with it a second launch.
const PART_KEYS: usize = 128;

/// What the text depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Few {
    /// Threads for a key.
    pub team: u8,
    /// Queries of a group.
    pub rows: u8,
    /// Whether elements of a row are neighbours that can be read several at a time.
    pub dense: bool,
    /// Whether groups divide the keys, and leave what is to be merged.
    pub parted: bool,
}

/// How queries and keys are divided among groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Division {
    /// Queries for each head of keys.
    pub rows: usize,
    /// Groups for them.
    pub blocks: usize,
    /// Groups for their keys.
    pub parts: usize,
    /// Keys of each.
    pub part_keys: usize,
}

impl Few {
    /// The form of an op of single floats, or short ones, whose rows are not too wide for a team.
    pub(super) fn of(op: &Op, limits: &Limits, dense: bool) -> Option<Few> {
        let width = op.query.shape()[3].max(op.value.shape()[3]);
        let [batch, heads, queries] = [0, 1, 2].map(|axis| op.query.shape()[axis]);
        let is_short = op.query.dtype().size() == 2;
        let most = match is_short && batch * heads >= limits.compute_units as usize {
            true => MOST_SHORT,
            false => MOST_QUERIES,
        };
        if op.query.dtype() == DType::F64 || width > 32 * RUN || queries > most {
            return None;
        }
        let few = Few {
            // Not each width has a kernel of its own.
            team: width.div_ceil(RUN).next_power_of_two().max(4) as u8,
            rows: rows(op).next_power_of_two().min(MOST_ROWS) as u8,
            dense,
            parted: false,
        };
        let parted = few.division(op, limits).parts > 1;
        Some(Few { parted, ..few })
    }

    /// How an op is divided.
    pub(super) fn division(self, op: &Op, limits: &Limits) -> Division {
        let (batch, key_heads) = (op.query.shape()[0], op.value.shape()[1]);
        let blocks = rows(op).div_ceil(self.rows.into());
        let groups = batch * key_heads * blocks;
        let seen = seen(op);
        let parts = (2 * limits.compute_units as usize / groups.max(1))
            .min(seen.div_ceil(PART_KEYS))
            .clamp(1, MOST_PARTS);
        let teams = WARPS as usize * 32 / usize::from(self.team);
        let part_keys = seen
            .div_ceil(parts)
            .max(1)
            .next_multiple_of(teams * AT_ONCE);
        Division {
            rows: rows(op),
            blocks,
            parts: seen.div_ceil(part_keys).max(1),
            part_keys,
        }
    }

    pub(super) fn threads(self) -> u32 {
        32 * WARPS
    }

    pub(super) fn constants(self, dtype: DType) -> [(&'static str, u32); 8] {
        [
            ("WARPS", WARPS),
            ("TEAM", self.team.into()),
            ("ROWS", self.rows.into()),
            ("RUN", RUN as u32),
            ("SHORT", (dtype.size() == 2).into()),
            ("AT_ONCE", AT_ONCE as u32),
            ("DENSE", self.dense.into()),
            ("PARTED", self.parted.into()),
        ]
    }

    /// What the warps of a group tell each other: of each query its best score, the total and the sums.
    pub(super) fn shared(self) -> Vec<SharedArray> {
        let ends = WARPS as usize * usize::from(self.rows);
        let array = SharedArray::new;
        vec![
            array("f32", "warp_tops", ends),
            array("f32", "warp_totals", ends),
            array("u32", "warp_opens", WARPS as usize),
            array("f32", "warp_sums", ends * usize::from(self.team) * RUN),
        ]
    }
}

/// Queries for each head of keys.
fn rows(op: &Op) -> usize {
    op.query.shape()[1] / op.value.shape()[1] * op.query.shape()[2]
}

/// How many of the first keys any query attends to.
fn seen(op: &Op) -> usize {
    let (queries, keys) = (op.query.shape()[2], op.key.shape()[2]);
    match op.causal {
        None => keys,
        Some(distance) => {
            let seen = (queries as i64).saturating_add(distance);
            usize::try_from(seen).map_or(0, |seen| seen.min(keys))
        }
    }
}

//! Threads that work on one row together, and how they combine what each has found.

use crate::text::SharedArray;

/// How the threads of a group are divided into teams, each with a row of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Team {
    /// `p.width` neighbours, at most 32: rows are short, and their elements are neighbours.
    Lanes,
    /// The whole group.
    Group,
    /// Each `p.width`-th thread: neighbouring threads work on neighbouring rows.
    Columns,
}

/// A team and its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Teams {
    pub team: Team,
    /// Threads of a group: a power of two.
    pub threads: usize,
    /// Rows that a group works on: a power of two.
    pub rows: usize,
}

impl Teams {
    /// Threads of a team.
    pub fn size(&self) -> usize {
        self.threads / self.rows
    }

    /// The value of the parameter `width`.
    pub fn width(&self) -> u32 {
        let width = match self.team {
            Team::Lanes | Team::Group => self.size(),
            Team::Columns => self.rows,
        };
        width as u32
    }

    /// How many groups work on `rows` rows.
    pub fn groups(&self, rows: usize) -> usize {
        rows.div_ceil(self.rows)
    }
}

impl Team {
    /// Declares `team`, the number of its threads; `slot`, this thread's number in it; and `row`.
    pub fn place(self) -> &'static str {
        match self {
            Team::Lanes => {
                "\
    const u32 team = p.width, slot = lane & (team - 1);
    const i64 row = i64(group_x) * (threads / team) + lane / team;
"
            }
            Team::Group => {
                "\
    const u32 team = threads, slot = lane;
    const i64 row = group_x;
"
            }
            Team::Columns => {
                "\
    const u32 team = threads / p.width, slot = lane / p.width;
    const i64 row = i64(group_x) * p.width + (lane & (p.width - 1));
"
            }
        }
    }

    /// The array through which a team of a group of `threads` exchanges values of type `ty`.
    pub fn shared(self, ty: &'static str, threads: usize) -> Vec<SharedArray> {
        let length = match self {
            Team::Lanes => return Vec::new(),
            Team::Group => 32,
            Team::Columns => threads,
        };
        vec![SharedArray::new(ty, "shared", length)]
    }

    /// The combination, by the struct `operation`, of the values that the team's threads have: every thread
    /// gets it, and every one the same bits.
    pub fn combined(self, operation: &str, value: &str) -> String {
        match self {
            Team::Lanes => format!("among_lanes<{operation}>({value}, p.width)"),
            Team::Group => {
                format!("among_group<{operation}>({value}, shared, lane, threads)")
            }
            Team::Columns => {
                format!("among_columns<{operation}>({value}, shared, lane, threads, p.width)")
            }
        }
    }

    /// The functions that the text of [`combined`](Self::combined) calls. They call `exchanged`, which has
    /// to be there for the type of the values.
    pub fn functions(self) -> &'static str {
        match self {
            Team::Lanes => include_str!("lanes.h"),
            Team::Group => concat!(include_str!("lanes.h"), include_str!("group.h")),
            Team::Columns => include_str!("columns.h"),
        }
    }
}

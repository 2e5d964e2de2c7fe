//! Kernels that work on rows as a whole: how threads are put to the rows.
//!
//! A row is read once and held by its threads in registers. If it is too long for that, it is read again
//! for each pass over it.

mod text;

use smallvec::SmallVec;
use streampool_device::{DType, View};

use super::dims::Dims;
use super::packs::{begins_aligned, packs};
use super::team::{Team, Teams};
use crate::dispatch::{Dispatch, Limits, Operand, Params, Plan, grid};

/// What the text of a kernel that works on lines depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Line {
    pub dtype: DType,
    team: Team,
    threads: u16,
    /// Neighbours that a thread takes at once.
    pub pack: u8,
    /// Elements that a thread holds; none if it reads them again.
    held: u8,
    /// Whether others are added to the source's.
    added: bool,
    /// Whether what is normalised, with others added or not, is written as well.
    summed: bool,
    /// Classes of the dimensions of rows and of those of a row's elements.
    kept: u8,
    inner: u8,
}

/// Which elements are closest in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    /// Those of one row.
    Rows,
    /// Those of neighbouring rows, `run` of them without a gap.
    Columns { run: usize },
}

/// A launch over the rows of a source, a result and whatever else has elements for those of a row.
pub(super) struct Launch<'a, const N: usize> {
    pub line: Line,
    teams: Teams,
    rows: &'a Dims<2>,
    /// Not in packs.
    inner: &'a Dims<N>,
    operands: [Option<&'a View>; N],
    /// What is added to the source, and where the sum goes, laid out as that is.
    sums: Sums<'a>,
}

/// What is added to a source, and where the sum goes, both laid out as that is.
#[derive(Clone, Copy, Default)]
pub(super) struct Sums<'a> {
    pub added: Option<&'a View>,
    pub sum: Option<&'a View>,
}

impl<'a> Sums<'a> {
    fn each(self) -> impl Iterator<Item = &'a View> {
        self.added.into_iter().chain(self.sum)
    }
}

impl<'a, const N: usize> Launch<'a, N> {
    /// The launch over `rows`, each of the elements `inner`. Source and result come first among `operands`;
    /// only they, and sums, depend on the row. `None` if there are no elements.
    pub fn new(
        rows: &'a Dims<2>,
        inner: &'a Dims<N>,
        operands: [Option<&'a View>; N],
        sums: Sums<'a>,
        limits: &Limits,
    ) -> Option<Self> {
        let length = inner.elements();
        if rows.elements() * length == 0 {
            return None;
        }
        let dtype = operands[0]?.dtype();
        let order = order(rows, inner);
        let in_packs = |pack: usize| {
            sums.each().all(|view| begins_aligned(view, pack))
                && operands.iter().enumerate().all(|(index, operand)| {
                    operand.is_none_or(|view| {
                        begins_aligned(view, pack)
                            && inner.divides_into(index, pack)
                            && (index >= 2 || rows.keep_alignment(index, pack))
                    })
                })
        };
        let pack = match order {
            Order::Rows => packs(dtype.size())
                .find(|&pack| in_packs(pack))
                .unwrap_or(1),
            Order::Columns { .. } => 1,
        };
        let (teams, held) = teams(order, rows.elements(), length, pack, dtype, limits);
        let line = Line {
            dtype,
            team: teams.team,
            threads: teams.threads as u16,
            pack: pack as u8,
            held: held as u8,
            added: sums.added.is_some(),
            summed: sums.sum.is_some(),
            kept: rows.class(),
            inner: inner.class(),
        };
        Some(Launch {
            line,
            teams,
            rows,
            inner,
            operands,
            sums,
        })
    }

    /// The plan of this launch. `complete` appends the parameters that the kernel has besides the shape's.
    pub fn plan<K>(self, kernel: K, complete: impl FnOnce(Params) -> Params) -> Plan<K> {
        let rows = self.rows.elements();
        let inner = self.inner.in_packs(usize::from(self.line.pack));
        let mut params = Params::new().i64(rows as i64).i64(inner.elements() as i64);
        for operand in self.operands {
            let at = operand.map_or(0, |view| view.layout().offset());
            params = params.i64(at as i64);
        }
        let start = |view: &View| view.layout().offset() as i64;
        if let Some(src) = self.operands[0] {
            for view in self.sums.each() {
                params = params.i64(start(view) - start(src));
            }
        }
        let params = inner.params(self.rows.params(params));
        // The result is the last buffer, after the sum.
        let [src, dst] = [self.operands[0], self.operands[1]];
        let others = self.operands[2..].iter().copied();
        let order = [src, self.sums.added].into_iter().chain(others);
        let order = order.chain([self.sums.sum, dst]);
        let memory = |view: &View| Operand::Memory(view.span());
        let operands: SmallVec<[Operand; 4]> = order.flatten().map(memory).collect();
        Plan::of(Dispatch {
            kernel,
            groups: grid([self.teams.groups(rows), 1, 1]),
            threads: self.teams.threads as u32,
            operands,
            params: complete(params.u32(self.teams.width())),
        })
    }
}

fn order<const N: usize>(rows: &Dims<2>, inner: &Dims<N>) -> Order {
    let (across, along) = (rows.innermost(), inner.innermost());
    let by_columns = across.size > 1
        && along.size > 1
        && across.strides[0].unsigned_abs() < along.strides[0].unsigned_abs();
    if by_columns {
        Order::Columns { run: across.size }
    } else {
        Order::Rows
    }
}

/// The threads for `rows` rows of `length` elements, and how many elements each holds.
fn teams(
    order: Order,
    rows: usize,
    length: usize,
    pack: usize,
    dtype: DType,
    limits: &Limits,
) -> (Teams, usize) {
    let most = if dtype == DType::F64 { 16 } else { 32 };
    // The fewest that hold the row.
    let held_by = |threads: usize, most: usize| {
        [4, 8, 16, 32]
            .into_iter()
            .find(|&held| held >= pack && held <= most && threads * held >= length)
    };
    let (team, together) = match order {
        Order::Columns { run } => (Team::Columns, run.next_power_of_two().min(32)),
        Order::Rows => (Team::Group, 1),
    };
    let units = limits.compute_units as usize;
    let few = rows < if length <= 512 { 2 * units } else { 8 * units };
    if order == Order::Rows
        && (length <= 256 || !few)
        && let Some(held) = held_by(32, most)
    {
        let size = length.div_ceil(held).next_power_of_two();
        let teams = Teams {
            team: Team::Lanes,
            threads: 256,
            rows: 256 / size,
        };
        return (teams, held);
    }
    for (threads, most) in [(256, most / 2), (1024, most)] {
        if let Some(held) = held_by(threads / together, most) {
            let busy = length.div_ceil(held).next_power_of_two();
            let (threads, rows) = match order {
                // Idle threads would take the room of other groups.
                Order::Rows => (busy.clamp(64, threads), 1),
                Order::Columns { .. } => (threads, threads / busy),
            };
            let teams = Teams {
                team,
                threads,
                rows,
            };
            return (teams, held);
        }
    }
    let teams = Teams {
        team,
        threads: 1024,
        rows: together,
    };
    (teams, 0)
}

#[cfg(test)]
mod tests;

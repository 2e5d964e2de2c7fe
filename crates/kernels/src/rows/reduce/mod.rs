//! Reductions: which launches execute one.

mod kernel;
mod text;

use smallvec::{SmallVec, smallvec};
use streampool_device::{Axes, ReduceKind, View};

use kernel::{Stage, THREADS, finds_index, value_size};

use super::dims::{Dim, Dims};
use super::packs::{begins_aligned, packs};
use super::team::{Team, Teams};
use crate::dispatch::{Dispatch, Limits, Operand, Params, Plan, grid};

pub use kernel::Reduction;

/// Elements of a group that are too few to be divided: another launch takes longer.
const UNDIVIDED: usize = 1 << 15;
/// The fewest elements of a group where rows are divided.
const PART: usize = 1 << 13;
/// Groups that keep a processor busy.
const GROUPS_PER_UNIT: usize = 4;
/// Packs that a lane takes before more lanes help it.
const PACKS_PER_LANE: usize = 4;

/// Neighbouring rows, or packs of them, of a group, at most.
const MOST_TOGETHER: usize = 32;
/// With fewer of them for each processor, more groups are faster.
const ROWS_PER_UNIT: usize = 32;
/// Bytes that memory moves at once.
const LINE: usize = 128;

/// The launches of `dst = kind(src)` over `axes`.
pub(in crate::rows) fn reduce<K>(
    kind: ReduceKind,
    src: &View,
    dst: &View,
    axes: Axes,
    limits: &Limits,
    wrap: impl Fn(Reduction) -> K,
) -> Plan<K> {
    let (from, to) = (src.layout().strides(), dst.layout().strides());
    let sizes = || src.shape().iter().copied().enumerate();
    let kept = sizes().filter(|&(axis, _)| !axes.contains(axis));
    let kept = Dims::collapsed(kept.map(|(axis, size)| Dim {
        size,
        strides: [from[axis], to[axis]],
    }));
    let inner = || sizes().filter(|&(axis, _)| axes.contains(axis));
    // Along a broadcast axis all elements are one: they are not read one by one.
    let repeats: usize = inner()
        .filter(|&(axis, size)| size > 1 && from[axis] == 0)
        .map(|(_, size)| size)
        .product();
    let inner = Dims::collapsed(inner().map(|(axis, size)| Dim {
        size: if from[axis] == 0 { size.min(1) } else { size },
        strides: [from[axis]],
    }));
    if kept.elements() == 0 {
        return Plan::default();
    }
    let mut pass = Pass::over_elements(kind, src, dst, kept, inner, limits);
    if repeats > 1 && matches!(kind, ReduceKind::Sum | ReduceKind::Prod) {
        pass.kernel.repeated = true;
        pass.count = repeats;
    }
    let (source, result) = (Operand::Memory(src.span()), Operand::Memory(dst.span()));
    let Some(parts) = pass.parts(limits) else {
        return Plan::of(pass.dispatch(&wrap, smallvec![source, result]));
    };
    let known = kept.elements() * parts;
    let indices_at = (known * value_size(kind, src.dtype())).next_multiple_of(16);
    let first = pass.divided_into(parts);
    let last = pass.over_parts(parts, kept, limits);
    let (values, indices) = (Operand::Scratch(0), Operand::Scratch(indices_at));
    if finds_index(kind) {
        let dispatches = [
            first.dispatch(&wrap, smallvec![source, values, indices]),
            last.dispatch(&wrap, smallvec![values, indices, result]),
        ];
        return Plan::with_scratch(indices_at + known * size_of::<i64>(), dispatches);
    }
    let dispatches = [
        first.dispatch(&wrap, smallvec![source, values]),
        last.dispatch(&wrap, smallvec![values, result]),
    ];
    Plan::with_scratch(indices_at, dispatches)
}

/// One launch.
#[derive(Debug, Clone, Copy)]
struct Pass {
    kernel: Reduction,
    teams: Teams,
    /// In packs, if a thread takes packs of columns.
    kept: Dims<2>,
    /// In packs, if a thread takes packs of its row.
    inner: Dims<1>,
    /// How many packs of a row a group takes, and how many groups share a row.
    chunk: usize,
    parts: usize,
    /// How many elements are reduced to one, in all stages; or how often they count.
    count: usize,
    src_at: usize,
    dst_at: usize,
    /// Between the results of a pack of columns.
    dst_step: isize,
}

impl Pass {
    fn over_elements(
        kind: ReduceKind,
        src: &View,
        dst: &View,
        kept: Dims<2>,
        inner: Dims<1>,
        limits: &Limits,
    ) -> Pass {
        let count = inner.elements();
        let (across, along) = (kept.innermost(), inner.innermost());
        let by_columns = across.size > 1
            && count > 1
            && across.strides[0].unsigned_abs() < along.strides[0].unsigned_abs();
        let mut packs = packs(src.dtype().size()).filter(|&pack| begins_aligned(src, pack));
        let pack = if by_columns {
            let most = if finds_index(kind) { 4 } else { 8 };
            packs.find(|&pack| {
                pack <= most && kept.divides_into(0, pack) && inner.keep_alignment(0, pack)
            })
        } else {
            packs.find(|&pack| inner.divides_into(0, pack) && kept.keep_alignment(0, pack))
        };
        let pack = pack.unwrap_or(1);
        let dst_step = kept.innermost().strides[1];
        let (kept, inner, teams) = if by_columns {
            let kept = kept.in_packs(pack);
            // Few rows are divided among more groups, as long as each reads whole lines of memory.
            let is_few = kept.elements() < ROWS_PER_UNIT * limits.compute_units as usize;
            let together = match is_few {
                true => LINE.div_ceil(pack * src.dtype().size()).min(MOST_TOGETHER),
                false => MOST_TOGETHER,
            };
            (
                kept,
                inner,
                columns(kept.innermost().size.min(together), count),
            )
        } else {
            let inner = inner.in_packs(pack);
            (
                kept,
                inner,
                along_rows(kept.elements(), inner.elements(), limits),
            )
        };
        Pass {
            kernel: Reduction {
                kind,
                dtype: src.dtype(),
                stage: Stage::Whole,
                team: teams.team,
                pack: pack as u8,
                kept: kept.class(),
                inner: inner.class(),
                repeated: false,
            },
            teams,
            kept,
            inner,
            chunk: inner.elements(),
            parts: 1,
            count,
            src_at: src.layout().offset(),
            dst_at: dst.layout().offset(),
            dst_step,
        }
    }

    /// Into how many parts each row is divided, if that is worth another launch.
    fn parts(&self, limits: &Limits) -> Option<usize> {
        let elements = self.teams.rows * self.inner.elements() * usize::from(self.kernel.pack);
        let groups = self.kept.elements().div_ceil(self.teams.rows);
        let wanted = limits.compute_units as usize * GROUPS_PER_UNIT;
        let parts = (wanted / groups).min(elements / PART);
        if elements < UNDIVIDED || parts < 2 {
            return None;
        }
        // None is empty.
        let packs = self.inner.elements();
        Some(packs.div_ceil(packs.div_ceil(parts)))
    }

    /// This launch, but to what is known of each of `parts` parts: those of a row are neighbours.
    fn divided_into(&self, parts: usize) -> Pass {
        let columns = match self.kernel.team {
            Team::Columns => usize::from(self.kernel.pack),
            Team::Lanes | Team::Group => 1,
        };
        Pass {
            kernel: Reduction {
                stage: Stage::First,
                ..self.kernel
            },
            kept: self.kept.numbered(1, columns * parts),
            chunk: self.inner.elements().div_ceil(parts),
            parts,
            dst_at: 0,
            dst_step: parts as isize,
            ..*self
        }
    }

    /// The launch that combines the parts; `kept` are this one's dimensions, not in packs.
    fn over_parts(&self, parts: usize, kept: Dims<2>, limits: &Limits) -> Pass {
        let teams = along_rows(kept.elements(), parts, limits);
        let kept = kept.numbered(0, parts);
        let part = Dim {
            size: parts,
            strides: [1],
        };
        let inner = Dims::collapsed([part].into_iter());
        Pass {
            kernel: Reduction {
                stage: Stage::Last,
                team: teams.team,
                pack: 1,
                kept: kept.class(),
                inner: inner.class(),
                ..self.kernel
            },
            teams,
            kept,
            inner,
            chunk: parts,
            src_at: 0,
            ..*self
        }
    }

    fn dispatch<K>(
        &self,
        wrap: impl FnOnce(Reduction) -> K,
        operands: SmallVec<[Operand; 4]>,
    ) -> Dispatch<K> {
        let rows = self.kept.elements();
        let params = Params::new()
            .i64(rows as i64)
            .i64(self.inner.elements() as i64)
            .i64(self.chunk as i64)
            .i64(self.count as i64)
            .i64(self.src_at as i64)
            .i64(self.dst_at as i64)
            .i64(self.dst_step as i64);
        let params = self.inner.params(self.kept.params(params));
        Dispatch {
            kernel: wrap(self.kernel),
            groups: grid([self.teams.groups(rows), self.parts, 1]),
            threads: self.teams.threads as u32,
            operands,
            params: params.u32(self.teams.width()),
        }
    }
}

/// Teams for rows whose elements are neighbours, or at least no farther apart than the rows.
fn along_rows(rows: usize, packs: usize, limits: &Limits) -> Teams {
    let few = rows < 8 * limits.compute_units as usize;
    if packs > 1024 || (packs > 64 && few) {
        return Teams {
            team: Team::Group,
            threads: THREADS,
            rows: 1,
        };
    }
    let size = packs.div_ceil(PACKS_PER_LANE).next_power_of_two().min(32);
    Teams {
        team: Team::Lanes,
        threads: THREADS,
        rows: THREADS / size,
    }
}

/// Teams for so many rows that are neighbours, without a gap, at most [`MOST_TOGETHER`].
fn columns(together: usize, packs: usize) -> Teams {
    let size = packs.div_ceil(PACKS_PER_LANE).next_power_of_two();
    let together = together.next_power_of_two();
    Teams {
        team: Team::Columns,
        threads: THREADS,
        rows: THREADS / size.min(THREADS / together),
    }
}

#[cfg(test)]
mod tests;

//! An op as the blocks see it.

use streampool_device::{Attention, DType, View};

use crate::given_up::Steps;
use crate::kernels::convert::Float;
use crate::kernels::real::Real;
use crate::kernels::split::Shared;
use crate::kernels::strided::{address, broadcast_strides};

/// Matrices, one for each head of each batch.
#[derive(Debug)]
pub(super) struct Heads<T> {
    at: Shared<T>,
    batch: isize,
    head: isize,
    row: isize,
    column: isize,
}

impl<T> Clone for Heads<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Heads<T> {}

impl<T> Heads<T> {
    fn new(view: &View, strides: &[isize]) -> Self {
        Heads {
            at: Shared(address(view)),
            batch: strides[0],
            head: strides[1],
            row: strides[2],
            column: strides[3],
        }
    }

    fn of(view: &View) -> Self {
        Heads::new(view, view.layout().strides())
    }

    fn from(self, batch: usize, head: usize) -> Self {
        let distance = batch as isize * self.batch + head as isize * self.head;
        Heads {
            at: Shared(self.at.at(distance)),
            ..self
        }
    }

    /// The element of the next head `head`, at a row and a column.
    #[inline(always)]
    pub(super) fn at(&self, head: usize, row: usize, column: usize) -> *mut T {
        self.at
            .at(head as isize * self.head + row as isize * self.row + column as isize * self.column)
    }

    /// From one row to the next.
    pub(super) fn row(&self) -> isize {
        self.row
    }

    /// From one column to the next.
    pub(super) fn column(&self) -> isize {
        self.column
    }
}

/// Which keys a query attends to, or what is added to its scores.
#[derive(Debug, Clone, Copy)]
pub(super) enum Mask<T> {
    None,
    Keep(Heads<u8>),
    Add(Heads<T>),
}

impl<T> Mask<T> {
    fn from(self, batch: usize, head: usize) -> Self {
        match self {
            Mask::None => Mask::None,
            Mask::Keep(heads) => Mask::Keep(heads.from(batch, head)),
            Mask::Add(heads) => Mask::Add(heads.from(batch, head)),
        }
    }
}

/// All of an op, or what one head of `key` takes part in: the heads of `query` that it serves are then one below
/// the other.
#[derive(Debug, Clone, Copy)]
pub(super) struct Problem<T: Float> {
    batch: usize,
    heads: usize,
    /// Heads of `query` for each of `key`.
    shares: usize,
    queries: usize,
    pub(super) keys: usize,
    pub(super) width: usize,
    pub(super) value_width: usize,
    pub(super) query: Heads<T>,
    pub(super) key: Heads<T>,
    pub(super) value: Heads<T>,
    pub(super) out: Heads<T>,
    pub(super) mask: Mask<T>,
    pub(super) scale: f64,
    pub(super) softcap: f64,
    causal: Option<i64>,
}

impl<T: Float> Problem<T> {
    pub(super) fn new(op: &Attention) -> Self {
        let (query, value) = (op.query.shape(), op.value.shape());
        let [batch, heads, queries] = [query[0], query[1], query[2]];
        let key_heads = value[1];
        let mask = op.mask.map_or(Mask::None, |mask| {
            let strides = broadcast_strides(&mask, &[batch, heads, queries, value[2]]);
            match mask.dtype() {
                DType::Bool => Mask::Keep(Heads::new(&mask, &strides)),
                _ => Mask::Add(Heads::new(&mask, &strides)),
            }
        });
        Problem {
            batch,
            heads: key_heads,
            shares: heads / key_heads.max(1),
            queries,
            keys: value[2],
            width: query[3],
            value_width: value[3],
            query: Heads::of(&op.query),
            key: Heads::of(&op.key),
            value: Heads::of(&op.value),
            out: Heads::of(&op.out),
            mask,
            scale: op.scale,
            softcap: op.softcap,
            causal: op.causal,
        }
    }

    /// Heads of `key` in all.
    pub(super) fn key_heads(&self) -> usize {
        self.batch * self.heads
    }

    /// Queries of one head of `key`.
    pub(super) fn rows(&self) -> usize {
        self.shares * self.queries
    }

    /// What this head of `key` takes part in.
    pub(super) fn head(&self, index: usize) -> Self {
        let (batch, head) = (index / self.heads, index % self.heads);
        let first = head * self.shares;
        Problem {
            query: self.query.from(batch, first),
            key: self.key.from(batch, head),
            value: self.value.from(batch, head),
            out: self.out.from(batch, first),
            mask: self.mask.from(batch, first),
            ..*self
        }
    }

    /// The head, among those that share, and the query of a row.
    #[inline(always)]
    pub(super) fn place(&self, row: usize) -> (usize, usize) {
        (row / self.queries, row % self.queries)
    }

    /// How many of the first keys the query of a row attends to at most.
    #[inline(always)]
    pub(super) fn visible(&self, row: usize) -> usize {
        let Some(distance) = self.causal else {
            return self.keys;
        };
        let (_, query) = self.place(row);
        let end = (query as i64).saturating_add(distance).saturating_add(1);
        usize::try_from(end).unwrap_or(0).min(self.keys)
    }

    /// Whether the query of a row may attend to any key, whatever its scores are.
    ///
    /// # Safety
    /// The views are as promised to `execute`.
    pub(super) unsafe fn attends(&self, row: usize) -> bool {
        let (head, query) = self.place(row);
        let mut steps = Steps::default();
        (0..self.visible(row)).any(|key| {
            steps.take(1);
            // SAFETY: the mask has this key.
            unsafe {
                match &self.mask {
                    Mask::None => true,
                    Mask::Keep(mask) => *mask.at(head, query, key) != 0,
                    Mask::Add(mask) => (*mask.at(head, query, key)).widen() != Real::NEG_INFINITY,
                }
            }
        })
    }

    /// Calls `f` with runs of the rows that are queries of one head: where they begin, and how many there are.
    pub(super) fn for_each_head(
        &self,
        rows: std::ops::Range<usize>,
        mut f: impl FnMut(usize, usize),
    ) {
        let mut row = rows.start;
        while row < rows.end {
            let (_, query) = self.place(row);
            let count = (self.queries - query).min(rows.end - row);
            f(row, count);
            row += count;
        }
    }
}

//! Pooling.

use super::{Window, optional};
use crate::check::{dtype, float, invalid, rank, require, same_type, shape, writable};
use crate::{Access, Axes, DType, OpKind, ReduceKind, Result, View};

/// What becomes of the elements of a window. Padding is no element.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PoolKind {
    /// The largest; NaN wins. Without elements: the type's lowest value.
    Max,
    /// The arithmetic mean (floats only). Without elements: zero.
    Mean {
        /// Whether padding inside `before` and `after` counts as zeros.
        count_padding: bool,
    },
    /// `(Σ |x|^p)^(1/p)` (floats only).
    Lp(f64),
}

/// `dst = kind(windows of src)`, channel by channel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pool<T = View> {
    /// What becomes of a window.
    pub kind: PoolKind,
    /// `[batch, channels, spatial ...]`, one to three spatial dimensions.
    pub src: T,
    /// As many windows as there are, or one more in a dimension that they do not fill
    /// (see [`windows_ceil`](super::Slide::windows_ceil)).
    pub dst: T,
    /// For the maximum: where it is, the first if there are more, as `i64`, counted row-major over the spatial
    /// dimensions. Without elements: -1.
    pub indices: Option<T>,
    /// How the window slides.
    pub window: Window,
}

impl<T> Pool<T> {
    #[inline(always)]
    pub(crate) fn try_map<'a, U, E>(
        &'a self,
        f: &mut impl FnMut(&'static str, Access, &'a T) -> Result<U, E>,
    ) -> Result<Pool<U>, E> {
        Ok(Pool {
            kind: self.kind,
            src: f("src", Access::Read, &self.src)?,
            dst: f("dst", Access::Write, &self.dst)?,
            indices: optional(&self.indices, "indices", Access::Write, f)?,
            window: self.window,
        })
    }
}

impl Pool<View> {
    /// The reduction over all spatial axes that this is, if its only window is the whole source and no more.
    pub fn as_reduction(&self) -> Option<(ReduceKind, Axes)> {
        let is_whole = self.window.iter().enumerate().all(|(axis, slide)| {
            slide.kernel as usize == self.src.shape()[axis + 2]
                && (slide.dilation, slide.before, slide.after) == (1, 0, 0)
                && self.dst.shape()[axis + 2] == 1
        });
        let kind = match self.kind {
            PoolKind::Max => ReduceKind::Max,
            PoolKind::Mean { .. } => ReduceKind::Mean,
            PoolKind::Lp(_) => return None,
        };
        let axes = Axes::new(&[2, 3, 4][..self.window.len()]).ok()?;
        (is_whole && self.indices.is_none()).then_some((kind, axes))
    }

    pub(crate) fn check(&self) -> Result<()> {
        let kind = OpKind::Pool;
        let Pool { src, dst, .. } = self;
        writable(kind, "dst", dst)?;
        rank(kind, "src", src, self.window.len() + 2)?;
        rank(kind, "dst", dst, self.window.len() + 2)?;
        same_type(kind, "dst", dst, src)?;
        self.window.check(kind, src.shape())?;
        match self.kind {
            PoolKind::Max => require(
                kind,
                "src",
                src.dtype() != DType::Bool,
                format_args!("of type {}", src.dtype()),
                "a number type",
            )?,
            PoolKind::Mean { .. } => float(kind, "src", src)?,
            PoolKind::Lp(power) => {
                float(kind, "src", src)?;
                require(
                    kind,
                    "kind",
                    (1e-30..=1e30).contains(&power),
                    power,
                    "a power from 1e-30 to 1e30",
                )?;
            }
        }
        shape(kind, "dst", &dst.shape()[..2], &src.shape()[..2])?;
        for (axis, slide) in self.window.iter().enumerate() {
            let (size, got) = (src.shape()[axis + 2], dst.shape()[axis + 2]);
            let (floor, ceil) = (slide.windows(size), slide.windows_ceil(size));
            require(
                kind,
                "dst",
                got == floor || got == ceil,
                format_args!("of shape {:?}", dst.shape()),
                format_args!("{floor} or {ceil} elements in dimension {}", axis + 2),
            )?;
        }
        let Some(indices) = &self.indices else {
            return Ok(());
        };
        if self.kind != PoolKind::Max {
            return Err(invalid(
                kind,
                "indices",
                "given",
                "none, save for the maximum",
            ));
        }
        writable(kind, "indices", indices)?;
        dtype(kind, "indices", indices.dtype(), DType::I64)?;
        shape(kind, "indices", indices.shape(), dst.shape())
    }
}

//! Views: the same memory, seen otherwise. Only `reshape`, `flatten` and `contiguous` may copy.

use std::ops::RangeBounds;

use streampool_device::{Dims, Layout, MAX_RANK, Op};

use crate::room::collected;
use crate::{Error, Result, Size, Tensor, axis, range, shape};

impl Tensor {
    /// The elements in row-major order under another shape; one size may be −1, the one that fits. It copies
    /// if they do not lie in memory so that a view can be.
    pub fn reshape<S: Size>(&self, shape: &[S]) -> Result<Tensor> {
        let sizes = shape::infer("reshape", self.shape(), shape)?;
        match shape::reshaped(self.layout(), &sizes) {
            Some(layout) => Ok(self.with_layout(layout)),
            None => self.copied("reshape")?.view(&sizes),
        }
    }

    /// As [`reshape`](Self::reshape), and an error where that would copy.
    pub fn view<S: Size>(&self, shape: &[S]) -> Result<Tensor> {
        let sizes = shape::infer("view", self.shape(), shape)?;
        match shape::reshaped(self.layout(), &sizes) {
            Some(layout) => Ok(self.with_layout(layout)),
            None => Err(Error::parameter(
                "view",
                "shape",
                format_args!("{shape:?} of {}", self.layout()),
                "axes that lie in memory as one to be joined: use `reshape`, which copies",
            )),
        }
    }

    /// The axes from `first` to `last`, both included, joined to one; it copies if it must.
    pub fn flatten(&self, first: isize, last: isize) -> Result<Tensor> {
        let op = "flatten";
        if self.rank() == 0 {
            return self.reshape(&[1usize]);
        }
        let from = axis::resolve(op, "first", first, self.rank())?;
        let to = axis::resolve(op, "last", last, self.rank())?;
        if from > to {
            let expected = format!("at most {last}, the last axis");
            return Err(Error::parameter(op, "first", first, expected));
        }
        let (head, rest) = self.shape().split_at(from);
        let (joined, tail) = rest.split_at(to - from + 1);
        self.reshape(&[head, &[joined.iter().product()], tail].concat())
    }

    /// Its elements row-major without gaps: itself, or a copy.
    pub fn contiguous(&self) -> Result<Tensor> {
        if self.is_contiguous() {
            return Ok(self.clone());
        }
        self.copied("contiguous")
    }

    /// A copy of its own, row-major without gaps.
    pub(crate) fn copied(&self, op: &'static str) -> Result<Tensor> {
        let on = self.encoder(op)?;
        let mut copy = on.blank(self.dtype(), self.shape())?;
        on.encode(Op::Copy {
            src: self.operand()?,
            dst: copy.operand()?,
        })?;
        Ok(copy.finish())
    }

    /// Two axes changed for each other.
    pub fn transpose(&self, a: isize, b: isize) -> Result<Tensor> {
        let a = axis::resolve("transpose", "a", a, self.rank())?;
        let b = axis::resolve("transpose", "b", b, self.rank())?;
        let mut order = [0, 1, 2, 3, 4, 5, 6, 7];
        order.swap(a, b);
        Ok(self.with_layout(self.layout().permute(&order[..self.rank()])?))
    }

    /// The axes in another order: axis `i` of the result is axis `order[i]` of this.
    pub fn permute(&self, order: &[isize]) -> Result<Tensor> {
        let op = "permute";
        if order.len() != self.rank() {
            return Err(Error::parameter(
                op,
                "order",
                format_args!("{order:?}"),
                format_args!("{} axes, as many as {:?} has", self.rank(), self.shape()),
            ));
        }
        let order = axis::each(op, "order", order, self.rank())?;
        Ok(self.with_layout(self.layout().permute(&order)?))
    }

    /// The elements repeated to `shape`, without a copy: axes of size one, and missing ones at the front, are
    /// as long as it says.
    pub fn broadcast_to(&self, shape: &[usize]) -> Result<Tensor> {
        let op = "broadcast_to";
        match self.layout().broadcast_to(shape) {
            Ok(layout) => Ok(self.with_layout(layout)),
            Err(_) if shape::broadcasts(self.shape(), shape) => Err(shape::too_large(op, shape)),
            Err(_) => Err(Error::shape(
                op,
                "self",
                self.shape(),
                format_args!("one that broadcasts to {shape:?}"),
            )),
        }
    }

    /// The elements without what repeats them: axes along which all are the same have size one.
    pub(crate) fn each_once(&self) -> Result<Tensor> {
        let mut once = self.clone();
        for (axis, &stride) in self.layout().strides().iter().enumerate() {
            if stride == 0 && self.shape()[axis] > 1 {
                once = once.narrow(axis as isize, 0, 1)?;
            }
        }
        Ok(once)
    }

    /// Both repeated to the one shape that they broadcast to, aligned from the right, without a copy.
    pub fn broadcast_with(&self, other: &Tensor) -> Result<(Tensor, Tensor)> {
        let op = "broadcast_with";
        let joined = shape::broadcast(op, "other", self.shape(), other.shape())?;
        Ok((self.broadcast_to(&joined)?, other.broadcast_to(&joined)?))
    }

    /// As [`broadcast_to`](Self::broadcast_to), where −1 keeps the size that is.
    pub fn expand<S: Size>(&self, shape: &[S]) -> Result<Tensor> {
        let refused = |expected: &str| {
            Error::parameter("expand", "shape", format_args!("{shape:?}"), expected)
        };
        if shape.len() > MAX_RANK {
            return Err(refused("at most 8 axes"));
        }
        let mut sizes = Dims::new(&[0; MAX_RANK][..shape.len()])?;
        let own = self.shape();
        for (axis, &size) in shape.iter().enumerate() {
            sizes[axis] = match size.wide() {
                -1 => (axis + own.len())
                    .checked_sub(shape.len())
                    .and_then(|axis| own.get(axis).copied())
                    .ok_or_else(|| refused("no −1 for a new axis"))?,
                wide => usize::try_from(wide).map_err(|_| refused("sizes of at least 0, or −1"))?,
            };
        }
        self.broadcast_to(&sizes)
            .map_err(|_| refused(&format!("sizes that {own:?} broadcasts to")))
    }

    /// Without an axis of size one.
    pub fn squeeze(&self, axis: isize) -> Result<Tensor> {
        let resolved = self.axis("squeeze", axis)?;
        if self.shape()[resolved] != 1 {
            let expected = format!("size 1 along axis {axis}");
            return Err(Error::shape("squeeze", "self", self.shape(), expected));
        }
        self.without(resolved)
    }

    /// Without all its axes of size one.
    pub fn squeeze_all(&self) -> Result<Tensor> {
        let kept = |&axis: &usize| self.shape()[axis] != 1;
        self.of_axes((0..self.rank()).filter(kept))
    }

    /// With a new axis of size one, which is `axis` of the result.
    pub fn unsqueeze(&self, axis: isize) -> Result<Tensor> {
        let op = "unsqueeze";
        let place = axis::insertion(op, "axis", axis, self.rank())?;
        if self.rank() == MAX_RANK {
            let expected = format!("fewer than {MAX_RANK} axes");
            return Err(Error::shape(op, "self", self.shape(), expected));
        }
        let (mut sizes, mut strides) = ([1; MAX_RANK], [0; MAX_RANK]);
        for axis in 0..self.rank() {
            let to = axis + usize::from(axis >= place);
            sizes[to] = self.shape()[axis];
            strides[to] = self.layout().strides()[axis];
        }
        let rank = self.rank() + 1;
        self.seen(&sizes[..rank], &strides[..rank], self.layout().offset())
    }

    /// The elements of `axis` in `range`, every `step`-th of them, as NumPy reads `start:end:step`: negative ends
    /// count from the end, ends outside are the nearest inside, and a negative step goes down from the start.
    ///
    /// ```
    /// # use streampool_host::{HostDevice, HostOptions};
    /// # use streampool_tensor::{DType, Pool, Tensor};
    /// # let pool = Pool::new(HostDevice::new(HostOptions::default())?)?;
    /// let x = Tensor::arange(&pool, 0, 6, 1, DType::I32)?;
    /// assert_eq!(x.slice(0, 1..-1, 2)?.to_vec::<i32>()?, [1, 3]);
    /// assert_eq!(x.slice(0, .., -1)?.to_vec::<i32>()?, [5, 4, 3, 2, 1, 0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn slice(
        &self,
        axis: isize,
        range: impl RangeBounds<isize>,
        step: isize,
    ) -> Result<Tensor> {
        let axis = self.axis("slice", axis)?;
        let stretch = range::resolve("slice", &range, step, self.shape()[axis])?;
        let (mut sizes, mut strides) = self.dims()?;
        let offset = match stretch.length {
            0 => self.layout().offset(),
            _ => self.offset_at(axis, stretch.start),
        };
        sizes[axis] = stretch.length;
        if stretch.length > 1 {
            strides[axis] *= stretch.step;
        }
        self.seen(&sizes, &strides, offset)
    }

    /// `length` elements of `axis` from `start`; all of them have to be there.
    pub fn narrow(&self, axis: isize, start: usize, length: usize) -> Result<Tensor> {
        let op = "narrow";
        let axis = self.axis(op, axis)?;
        let size = self.shape()[axis];
        match start.checked_add(length) {
            Some(end) if end <= size => {
                Ok(self.with_layout(self.layout().slice(axis, start, end, 1)?))
            }
            _ => Err(Error::parameter(
                op,
                "length",
                format_args!("{length} from {start}"),
                format_args!("an end of at most {size}, the size of the axis"),
            )),
        }
    }

    /// What is at `index` of `axis`, without that axis; a negative index counts from the end.
    pub fn select(&self, axis: isize, index: isize) -> Result<Tensor> {
        let axis = self.axis("select", axis)?;
        let index = axis::index("select", "index", index, self.shape()[axis])?;
        let part = self.layout().slice(axis, index, index + 1, 1)?;
        self.with_layout(part).without(axis)
    }

    /// The elements of these axes in reverse order.
    pub fn flip(&self, axes: &[isize]) -> Result<Tensor> {
        let axes = axis::each("flip", "axes", axes, self.rank())?;
        axes.iter().try_fold(self.clone(), |flipped, &axis| {
            flipped.slice(axis as isize, .., -1)
        })
    }

    /// Pieces of `size` along `axis`; the last may be shorter.
    pub fn split(&self, axis: isize, size: usize) -> Result<Vec<Tensor>> {
        let op = "split";
        let axis = self.axis(op, axis)?;
        if size == 0 {
            return Err(Error::parameter(op, "size", size, "at least 1"));
        }
        let whole = self.shape()[axis];
        collected((0..whole.div_ceil(size)).map(|piece| {
            let start = piece * size;
            self.narrow(axis as isize, start, size.min(whole - start))
        }))
    }

    /// Pieces of these sizes along `axis`, which together are all of it.
    pub fn split_sizes(&self, axis: isize, sizes: &[usize]) -> Result<Vec<Tensor>> {
        let op = "split_sizes";
        let axis = self.axis(op, axis)?;
        let whole = self.shape()[axis];
        let total = sizes
            .iter()
            .try_fold(0usize, |sum, &size| sum.checked_add(size));
        if total != Some(whole) {
            return Err(Error::parameter(
                op,
                "sizes",
                format_args!("{sizes:?}"),
                format_args!("a sum of {whole}, the size of the axis"),
            ));
        }
        let mut start = 0;
        collected(sizes.iter().map(|&size| {
            let piece = self.narrow(axis as isize, start, size);
            start += size;
            piece
        }))
    }

    /// At most `count` pieces of one size along `axis`; the last may be shorter.
    pub fn chunk(&self, axis: isize, count: usize) -> Result<Vec<Tensor>> {
        let resolved = self.axis("chunk", axis)?;
        if count == 0 {
            return Err(Error::parameter("chunk", "count", count, "at least 1"));
        }
        let size = self.shape()[resolved].div_ceil(count);
        self.split(axis, size.max(1))
    }

    /// What is at each index of `axis`, without that axis.
    pub fn unbind(&self, axis: isize) -> Result<Vec<Tensor>> {
        let axis = self.axis("unbind", axis)? as isize;
        let size = self.dim(axis)?;
        collected((0..size).map(|index| self.select(axis, index as isize)))
    }

    fn without(&self, axis: usize) -> Result<Tensor> {
        self.of_axes((0..self.rank()).filter(|&other| other != axis))
    }

    /// Only these axes, rising; the others are of size one.
    fn of_axes(&self, axes: impl Iterator<Item = usize>) -> Result<Tensor> {
        let (mut sizes, mut strides, mut rank) = ([0; MAX_RANK], [0; MAX_RANK], 0);
        for axis in axes {
            sizes[rank] = self.shape()[axis];
            strides[rank] = self.layout().strides()[axis];
            rank += 1;
        }
        self.seen(&sizes[..rank], &strides[..rank], self.layout().offset())
    }

    fn dims(&self) -> Result<(Dims, Dims<isize>)> {
        Ok((
            Dims::new(self.shape())?,
            Dims::new(self.layout().strides())?,
        ))
    }

    fn offset_at(&self, axis: usize, index: usize) -> usize {
        let layout = self.layout();
        (layout.offset() as isize + index as isize * layout.strides()[axis]) as usize
    }

    fn seen(&self, sizes: &[usize], strides: &[isize], offset: usize) -> Result<Tensor> {
        Ok(self.with_layout(Layout::strided(sizes, strides, offset)?))
    }
}

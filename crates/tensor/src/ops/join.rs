//! Tensors put together: end to end, on top of each other, and repeated.

use streampool_device::{Dims, MAX_RANK, Op};

use crate::{Encoder, Error, Result, Tensor, UninitTensor, axis};

impl Tensor {
    /// The tensors end to end along an axis. They have one type, and one shape but for that axis.
    pub fn cat(tensors: &[&Tensor], axis: isize) -> Result<Tensor> {
        let op = "cat";
        let first = first_of(op, tensors)?;
        joined(op, tensors, axis::resolve(op, "axis", axis, first.rank())?)
    }

    /// The tensors, which have one type and shape, on top of each other: along a new axis, which is `axis` of the
    /// result.
    pub fn stack(tensors: &[&Tensor], axis: isize) -> Result<Tensor> {
        let op = "stack";
        let first = first_of(op, tensors)?;
        let place = axis::insertion(op, "axis", axis, first.rank())?;
        for (number, tensor) in tensors.iter().enumerate() {
            if tensor.rank() == MAX_RANK {
                let expected = format!("fewer than {MAX_RANK} axes");
                return Err(Error::shape(op, "tensors", tensor.shape(), expected));
            }
            if tensor.shape() != first.shape() {
                let expected = format!("{:?} for tensor {number}, as the first", first.shape());
                return Err(Error::shape(op, "tensors", tensor.shape(), expected));
            }
        }
        let raised: Vec<Tensor> = tensors
            .iter()
            .map(|tensor| tensor.unsqueeze(place as isize))
            .collect::<Result<_>>()?;
        joined(op, &raised.iter().collect::<Vec<_>>(), place)
    }

    /// All of it, this many times along each axis; further axes at the front are new. PyTorch's `repeat`.
    pub fn repeat(&self, times: &[usize]) -> Result<Tensor> {
        let op = "repeat";
        if times.len() < self.rank() {
            let expected = format!("at least {} numbers, one for each axis", self.rank());
            return Err(Error::parameter(
                op,
                "times",
                format_args!("{times:?}"),
                expected,
            ));
        }
        self.tiled(op, times)
    }

    /// As [`repeat`](Self::repeat), where axes at the front that are left out are there once. PyTorch's and NumPy's
    /// `tile`.
    pub fn tile(&self, times: &[usize]) -> Result<Tensor> {
        let missing = self.rank().saturating_sub(times.len());
        self.tiled("tile", &[&vec![1; missing][..], times].concat())
    }

    fn tiled(&self, op: &'static str, times: &[usize]) -> Result<Tensor> {
        let refused =
            |expected: String| Error::parameter(op, "times", format_args!("{times:?}"), expected);
        if times.len() > MAX_RANK {
            return Err(refused(format!("at most {MAX_RANK} numbers")));
        }
        let mut sizes = [&vec![1; times.len() - self.rank()][..], self.shape()].concat();
        let mut whole = self.view(&sizes)?;
        for (axis, &count) in times.iter().enumerate() {
            let too_many = || refused(format!("at most {} elements", isize::MAX));
            let size = sizes[axis].checked_mul(count).ok_or_else(too_many)?;
            let one = sizes[axis] == 1;
            sizes[axis] = size;
            whole = match count {
                1 => whole,
                0 => whole.narrow(axis as isize, 0, 0)?,
                // Of one element, a view is enough.
                _ if one => {
                    let repeated = [&sizes[..=axis], &whole.shape()[axis + 1..]].concat();
                    whole.broadcast_to(&repeated).map_err(|_| too_many())?
                }
                _ => whole.times(op, axis, count)?,
            };
        }
        whole.own(op)
    }

    /// The elements of an axis one after the other `count` times.
    fn times(&self, op: &'static str, axis: usize, count: usize) -> Result<Tensor> {
        let on = self.encoder(op)?;
        let mut sizes = Dims::new(self.shape())?;
        let size = sizes[axis];
        sizes[axis] = size
            .checked_mul(count)
            .ok_or_else(|| Error::parameter(op, "times", count, "fewer elements in the result"))?;
        if self.rank() < MAX_RANK {
            let mut whole = on.blank(self.dtype(), &sizes)?;
            // Both seen with an axis more, which the source does not move along.
            let source = self.unsqueeze(axis as isize)?;
            let mut cut = [&sizes[..axis], &[count, size], &sizes[axis + 1..]].concat();
            let target = streampool_device::Layout::contiguous(&cut)?;
            cut[axis] = count;
            let source = source.broadcast_to(&cut)?;
            on.encode(Op::Copy {
                src: source.operand()?,
                dst: whole.operand_as(target)?,
            })?;
            return Ok(whole.finish());
        }
        // As few axes as it takes leave room for one more.
        let (outer, inner) = (&self.shape()[..axis], &self.shape()[axis + 1..]);
        let lines = [outer.iter().product(), size, inner.iter().product()];
        let lines: Tensor = self.reshape(&lines)?;
        lines.times(op, 1, count)?.view(&sizes)
    }

    /// Each element of an axis this many times in a row.
    pub fn repeat_interleave(&self, times: usize, axis: isize) -> Result<Tensor> {
        let on = self.encoder("repeat_interleave")?;
        let axis = self.axis(on.op(), axis)?;
        let mut sizes = Dims::new(self.shape())?;
        sizes[axis] = sizes[axis].checked_mul(times).ok_or_else(|| {
            Error::parameter(on.op(), "times", times, "fewer elements in the result")
        })?;
        if sizes.contains(&0) {
            return Ok(on.blank(self.dtype(), &sizes)?.finish());
        }
        let (outer, inner) = (&self.shape()[..axis], &self.shape()[axis + 1..]);
        let (rows, columns) = (outer.iter().product(), inner.iter().product());
        let size = self.shape()[axis];
        let lines: Tensor = self.reshape(&[rows, size, 1usize, columns])?;
        let repeated = lines.broadcast_to(&[rows, size, times, columns])?;
        repeated.contiguous()?.view(&sizes)
    }

    /// Itself, or a copy where elements share memory.
    fn own(&self, op: &'static str) -> Result<Tensor> {
        match self.is_contiguous() {
            true => Ok(self.clone()),
            false => self.copied(op),
        }
    }
}

fn first_of<'a>(op: &'static str, tensors: &[&'a Tensor]) -> Result<&'a Tensor> {
    match tensors.first() {
        Some(first) => Ok(first),
        None => Err(Error::parameter(op, "tensors", "none", "at least one")),
    }
}

/// Tensors end to end: each is copied to where it belongs.
pub(super) fn joined(op: &'static str, tensors: &[&Tensor], axis: usize) -> Result<Tensor> {
    let first = first_of(op, tensors)?;
    let on = first
        .encoder(op)?
        .with("tensors", tensors.iter().copied())?;
    let mut sizes = Dims::new(first.shape())?;
    let mut total = 0usize;
    for (number, tensor) in tensors.iter().enumerate() {
        if tensor.dtype() != first.dtype() {
            let expected = format!("{} for tensor {number}, as the first", first.dtype());
            return Err(Error::dtype(op, "tensors", tensor.dtype(), expected));
        }
        let alike = tensor.rank() == first.rank()
            && (0..first.rank())
                .all(|other| other == axis || tensor.shape()[other] == sizes[other]);
        if !alike {
            let expected = format!(
                "{:?} but for axis {axis}, for tensor {number}, as the first",
                first.shape()
            );
            return Err(Error::shape(op, "tensors", tensor.shape(), expected));
        }
        total = total.saturating_add(tensor.shape()[axis]);
    }
    sizes[axis] = total;
    let mut whole = on.blank(first.dtype(), &sizes)?;
    let mut start = 0;
    for tensor in tensors {
        put(on, &mut whole, axis, start, tensor)?;
        start += tensor.shape()[axis];
    }
    Ok(whole.finish())
}

/// Copies `part` to where it lies from `start` of an axis.
fn put(
    on: Encoder<'_>,
    whole: &mut UninitTensor<'_>,
    axis: usize,
    start: usize,
    part: &Tensor,
) -> Result<()> {
    if part.elem_count() == 0 {
        return Ok(());
    }
    let place = whole
        .layout()
        .slice(axis, start, start + part.shape()[axis], 1)?;
    on.encode(Op::Copy {
        src: part.operand()?,
        dst: whole.operand_as(place)?,
    })
}

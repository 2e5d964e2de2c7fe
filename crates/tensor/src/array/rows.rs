//! Arrays as rows: what lies along their first axis is joined, taken out, filled up and cut.

use std::ops::Range;

use streampool_runtime::DType;

use super::Array;
use crate::{Error, Result};

impl Array {
    /// How many rows it has: the size of its first axis, and one without axes.
    pub fn row_count(&self) -> usize {
        self.shape.first().copied().unwrap_or(1)
    }

    /// These rows of it.
    pub fn rows(&self, rows: Range<usize>) -> Result<Array> {
        let Some(&count) = self.shape.first() else {
            return Err(Error::Array {
                got: "one value without axes".to_owned(),
                expected: "rows along a first axis".to_owned(),
            });
        };
        if rows.start > rows.end || rows.end > count {
            return Err(Error::Array {
                got: format!("{count} rows"),
                expected: format!("as many as {rows:?} asks for"),
            });
        }
        let mut shape = self.shape.clone();
        shape[0] = rows.len();
        let row = self.bytes / count.max(1);
        let bytes = &self.bytes()[row * rows.start..row * rows.end];
        let mut own = Array::filled(self.dtype, shape, bytes)?;
        own.list = self.list.clone();
        Ok(own)
    }

    /// The type and the shape of the rows of all of these, one after the other. They have to be of one type, and of one shape
    /// but for their rows.
    pub fn joined(parts: &[&Array]) -> Result<(DType, Vec<usize>)> {
        let Some(first) = parts.first() else {
            return Err(Error::Array {
                got: "no arrays".to_owned(),
                expected: "at least one to be joined".to_owned(),
            });
        };
        let alike = |part: &&&Array| {
            !part.shape.is_empty()
                && part.dtype == first.dtype
                && part.is_strings() == first.is_strings()
                && part.shape.get(1..) == first.shape.get(1..)
        };
        if let Some(other) = parts.iter().find(|part| !alike(part)) {
            return Err(Error::Array {
                got: format!("{} {:?}", other.kind(), other.shape),
                expected: format!("rows like those of {} {:?}", first.kind(), first.shape),
            });
        }
        let mut shape = first.shape.to_vec();
        let mut counts = parts.iter().map(|part| part.row_count());
        let rows = counts.try_fold(0, |all: usize, count| all.checked_add(count));
        shape[0] = rows.ok_or_else(|| Error::Array {
            got: format!("{} arrays of rows", parts.len()),
            expected: format!("at most {} rows in all", usize::MAX),
        })?;
        Ok((first.dtype, shape))
    }

    /// The rows of all of these, one after the other, as [`joined`](Self::joined) describes them.
    pub fn join(parts: &[&Array]) -> Result<Array> {
        let (dtype, shape) = Array::joined(parts)?;
        let (list, begins) = Array::joined_list(parts).unzip();
        let begins: Vec<i64> = begins.unwrap_or_default();
        let mut joined = Array::made(dtype, &shape, |mut room| {
            for (number, part) in parts.iter().enumerate() {
                let (own, rest) = room.split_at_mut(part.bytes);
                own.copy_from_slice(part.bytes());
                // The elements are places in a list.
                if let Some(&begin) = begins.get(number) {
                    for place in own.as_chunks_mut().0 {
                        *place = i64::from_ne_bytes(*place).wrapping_add(begin).to_ne_bytes();
                    }
                }
                room = rest;
            }
        })?;
        joined.list = list;
        Ok(joined)
    }

    /// With zeros behind what lies along an axis, or empty strings, so that it is this long.
    pub fn filled_up(&self, axis: usize, size: usize) -> Result<Array> {
        let old = self.size_along(axis)?;
        if size < old {
            return Err(Error::Array {
                got: format!("{old} long along axis {axis}"),
                expected: format!("at most {size}, to be filled up to that"),
            });
        }
        self.with_size(axis, old, size)
    }

    /// Without what lies behind this many elements of an axis.
    pub fn cut_to(&self, axis: usize, size: usize) -> Result<Array> {
        let old = self.size_along(axis)?;
        if size > old {
            return Err(Error::Array {
                got: format!("{old} long along axis {axis}"),
                expected: format!("at least {size}, to be cut to that"),
            });
        }
        self.with_size(axis, old, size)
    }

    fn size_along(&self, axis: usize) -> Result<usize> {
        self.shape.get(axis).copied().ok_or_else(|| Error::Array {
            got: format!("{:?}", self.shape),
            expected: format!("a shape with an axis {axis}"),
        })
    }

    /// The same elements along an axis, as far as both sizes go.
    fn with_size(&self, axis: usize, old: usize, new: usize) -> Result<Array> {
        let mut shape = self.shape.clone();
        shape[axis] = new;
        let (list, empty) = self.with_empty().unzip();
        let mut array = Array::made(self.dtype, &shape, |to| {
            if let Some(empty) = empty {
                to.as_chunks_mut().0.fill(empty.to_ne_bytes());
            }
            // Where there are none, the sizes of the other axes may be any.
            if self.bytes > 0 && !to.is_empty() {
                let element = self.shape[axis + 1..].iter().product::<usize>() * self.dtype.size();
                let kept = old.min(new) * element;
                let from = self.bytes().chunks_exact(old * element);
                for (from, to) in from.zip(to.chunks_exact_mut(new * element)) {
                    to[..kept].copy_from_slice(&from[..kept]);
                }
            }
        })?;
        array.list = list;
        Ok(array)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(shape: &[usize]) -> Array {
        let values: Vec<i32> = (0..shape.iter().product::<usize>() as i32).collect();
        Array::new(&values, shape).unwrap()
    }

    #[test]
    fn rows_taken_out_and_joined_again_are_the_same() {
        let whole = counted(&[5, 3]);
        let parts = [
            whole.rows(0..2).unwrap(),
            whole.rows(2..2).unwrap(),
            whole.rows(2..5).unwrap(),
        ];
        assert_eq!(parts[0].values::<i32>().unwrap(), [0, 1, 2, 3, 4, 5]);
        let parts: Vec<&Array> = parts.iter().collect();
        assert_eq!(Array::join(&parts).unwrap(), whole);
    }

    #[test]
    fn what_is_filled_up_and_cut_is_the_same() {
        let whole = counted(&[2, 3, 2]);
        let long = whole.filled_up(1, 4).unwrap();
        assert_eq!(long.shape(), [2, 4, 2]);
        assert_eq!(
            long.values::<i32>().unwrap(),
            [0, 1, 2, 3, 4, 5, 0, 0, 6, 7, 8, 9, 10, 11, 0, 0]
        );
        assert_eq!(long.cut_to(1, 3).unwrap(), whole);
        assert_eq!(whole.cut_to(1, 0).unwrap().shape(), [2, 0, 2]);
        let none = whole.cut_to(1, 0).unwrap();
        assert_eq!(
            none.filled_up(1, 1).unwrap().values::<i32>().unwrap(),
            [0; 4]
        );
    }

    #[test]
    fn sizes_that_no_memory_holds_are_refused() {
        let refused = |result: Result<Array>| matches!(result, Err(Error::Array { .. }));
        for shape in [&[usize::MAX, 2][..], &[1 << 62], &[1 << 61, 8], &[1 << 60]] {
            assert!(refused(Array::zeros(DType::F32, shape)), "{shape:?}");
        }
        assert!(Array::zeros(DType::F32, &[0, 1 << 62]).is_ok());
        let none = Array::from_bytes(DType::F32, &[], &[0, usize::MAX, 2]).unwrap();
        assert_eq!(none.cut_to(1, 3).unwrap().shape(), [0, 3, 2]);
        assert!(refused(none.filled_up(0, 1)));
        let many = Array::from_bytes(DType::U8, &[], &[usize::MAX, 0]).unwrap();
        assert!(refused(Array::join(&[&many, &many])));
        assert!(refused(counted(&[1]).filled_up(0, usize::MAX)));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let whole = counted(&[2, 3]);
        let told = |result: Result<Array>| result.unwrap_err().to_string();
        assert!(told(whole.rows(1..3)).contains("2 rows"));
        assert!(told(Array::join(&[])).contains("at least one"));
        assert!(told(Array::join(&[&whole, &counted(&[2, 4])])).contains("[2, 4]"));
        assert!(told(Array::join(&[&Array::scalar(1i32)])).contains("[]"));
        assert!(told(whole.filled_up(1, 2)).contains("3 long"));
        assert!(told(whole.cut_to(2, 1)).contains("an axis 2"));
        assert!(told(Array::scalar(1i32).rows(0..1)).contains("without axes"));
    }
}

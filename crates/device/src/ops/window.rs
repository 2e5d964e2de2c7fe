//! Windows that slide over spatial dimensions.

use crate::check::countable;
use crate::{Error, OpKind, Result};

/// How a window lies and moves along one dimension. Output `o` sees, for each `k` below `kernel`, the input
/// at `o * stride + k * dilation - before`; where that is none, there is padding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Slide {
    /// Elements in the window; not zero.
    pub kernel: u32,
    /// The distance between neighbouring windows; not zero.
    pub stride: u32,
    /// The distance between neighbouring elements of a window; not zero.
    pub dilation: u32,
    /// Padding before the first element.
    pub before: u32,
    /// Padding after the last.
    pub after: u32,
}

impl Slide {
    /// Neighbouring windows of neighbouring elements, without padding.
    pub const fn new(kernel: u32) -> Slide {
        Slide {
            kernel,
            stride: 1,
            dilation: 1,
            before: 0,
            after: 0,
        }
    }

    /// Elements from the first of a window to its last.
    pub fn reach(&self) -> usize {
        // Each is below 2³², so this is below 2⁶⁴.
        (self.kernel as usize).saturating_sub(1) * self.dilation as usize + 1
    }

    /// How many windows lie wholly inside `size` elements and the padding.
    pub fn windows(&self, size: usize) -> usize {
        match self.room(size) {
            Some(room) => room / self.stride as usize + 1,
            None => 0,
        }
    }

    /// As [`windows`](Self::windows), with one more if the last would reach beyond the padding, as long as
    /// it begins before that.
    pub fn windows_ceil(&self, size: usize) -> usize {
        let Some(room) = self.room(size) else {
            return 0;
        };
        // Rounded up, it may be beyond what a `usize` holds.
        let windows = room.div_ceil(self.stride as usize) + 1;
        let last = (windows as u128 - 1) * u128::from(self.stride);
        if last >= size as u128 + u128::from(self.before) {
            windows - 1
        } else {
            windows
        }
    }

    /// How far the transposed window spreads `size` elements, less the padding; negative if the padding is wider.
    pub fn spread(&self, size: usize) -> i128 {
        if size == 0 {
            return 0;
        }
        (size as i128 - 1) * i128::from(self.stride) + self.reach() as i128
            - i128::from(self.before)
            - i128::from(self.after)
    }

    /// How far a window may move; `None` if there is no window, or no step.
    fn room(&self, size: usize) -> Option<usize> {
        let padded = size.checked_add(self.before as usize)?;
        let padded = padded.checked_add(self.after as usize)?;
        let room = padded.checked_sub(self.reach())?;
        (self.kernel > 0 && self.stride > 0).then_some(room)
    }
}

/// A window over one to three spatial dimensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Window {
    rank: u32,
    slides: [Slide; 3],
}

impl Window {
    /// The window with these slides, one for each spatial dimension.
    pub fn new(slides: &[Slide]) -> Result<Window> {
        let mut all = [Slide::new(1); 3];
        match slides.len() {
            1..=3 => all[..slides.len()].copy_from_slice(slides),
            rank => {
                return Err(Error::Invalid {
                    what: "the rank of a window",
                    got: rank.to_string(),
                    expected: "1, 2 or 3".to_owned(),
                });
            }
        }
        for slide in slides {
            if slide.kernel == 0 || slide.stride == 0 || slide.dilation == 0 {
                return Err(Error::Invalid {
                    what: "a window",
                    got: format!("{slide:?}"),
                    expected: "a kernel, stride and dilation of at least 1".to_owned(),
                });
            }
        }
        Ok(Window {
            rank: slides.len() as u32,
            slides: all,
        })
    }
}

impl Window {
    /// Refuses a window that slides over a tensor of this shape, batch and channels first, if the padded tensor, the
    /// window or what it spans has more elements than a layout may have.
    pub(crate) fn check(&self, op: OpKind, over: &[usize]) -> Result<()> {
        let (mut padded, mut kernel) = ([1; 5], [1; 3]);
        for (size, &given) in padded.iter_mut().zip(over) {
            *size = given;
        }
        for (axis, slide) in self.iter().enumerate() {
            let around = slide.before as usize + slide.after as usize;
            padded[axis + 2] = padded[axis + 2].saturating_add(around);
            kernel[axis] = slide.kernel as usize;
            countable(op, "window", "elements from first to last", [slide.reach()])?;
        }
        countable(op, "window", "elements", kernel)?;
        countable(op, "window", "elements with the padding", padded)
    }
}

impl std::ops::Deref for Window {
    type Target = [Slide];
    fn deref(&self) -> &[Slide] {
        &self.slides[..self.rank as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_counted() {
        let slide = Slide {
            stride: 2,
            before: 1,
            after: 1,
            ..Slide::new(3)
        };
        assert_eq!((slide.windows(7), slide.windows_ceil(7)), (4, 4));
        assert_eq!((slide.windows(8), slide.windows_ceil(8)), (4, 5));
        assert_eq!(slide.spread(4), 7);
        assert_eq!(Slide::new(3).windows(2), 0);
        // The window that would begin in the padding after the last element does not count.
        let apart = Slide {
            stride: 2,
            after: 1,
            ..Slide::new(1)
        };
        assert_eq!(apart.windows_ceil(4), 2);
    }

    #[test]
    fn windows_without_extent_are_refused() {
        assert!(Window::new(&[]).is_err());
        assert!(Window::new(&[Slide::new(1); 4]).is_err());
        assert!(Window::new(&[Slide::new(0)]).is_err());
        assert_eq!(Window::new(&[Slide::new(2); 2]).unwrap().len(), 2);
    }
}

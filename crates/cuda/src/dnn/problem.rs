//! A convolution as cuDNN is told of it.

use std::ffi::c_int;

use smallvec::SmallVec;
use streampool_device::{Conv, DType, Slide, View};

/// Sizes along all dimensions, or along the spatial ones.
pub(super) type Sizes = SmallVec<[c_int; 5]>;

/// In which order images and weights lie: channels before pixels, or behind them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Order {
    ChannelsFirst,
    ChannelsLast,
}

/// Everything that the library's work depends on, but addresses. A single spatial dimension has one of size one
/// before it: the library knows images only.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Problem {
    pub dtype: DType,
    pub order: Order,
    pub transposed: bool,
    pub groups: c_int,
    pub src: Sizes,
    pub weight: Sizes,
    pub dst: Sizes,
    pub padding: Sizes,
    pub stride: Sizes,
    pub dilation: Sizes,
}

impl Problem {
    /// `None` if the library does not have it, or has nothing to do.
    pub fn of(op: &Conv) -> Option<Problem> {
        let views = [&op.src, &op.weight, &op.dst];
        let is_known = matches!(op.src.dtype(), DType::F32 | DType::F16 | DType::BF16);
        let is_empty = views.iter().any(|view| view.layout().elements() == 0);
        if !is_known || is_empty || is_depthwise(op) {
            return None;
        }
        let order = [Order::ChannelsFirst, Order::ChannelsLast]
            .into_iter()
            .find(|&order| views.iter().all(|view| lies(view, order)))?;
        let spatial = op.src.shape()[2..].iter().zip(&op.dst.shape()[2..]);
        let fits = |(slide, (&src, &dst)): (&Slide, (&usize, &usize))| {
            let (slid, stood) = match op.transposed {
                false => (src, dst),
                true => (dst, src),
            };
            // The library pads both ends alike.
            let even = Slide {
                after: slide.before,
                ..*slide
            };
            even.windows(slid) == stood
        };
        if !op.window.iter().zip(spatial).all(fits) {
            return None;
        }
        let parts = |part: fn(&Slide) -> u32, missing: c_int| -> Option<Sizes> {
            let parts = op
                .window
                .iter()
                .map(|slide| c_int::try_from(part(slide)).ok());
            let mut all: Sizes = parts.collect::<Option<_>>()?;
            if all.len() == 1 {
                all.insert(0, missing);
            }
            Some(all)
        };
        Some(Problem {
            dtype: op.src.dtype(),
            order,
            transposed: op.transposed,
            groups: c_int::try_from(op.groups).ok()?,
            src: sizes(&op.src)?,
            weight: sizes(&op.weight)?,
            dst: sizes(&op.dst)?,
            padding: parts(|slide| slide.before, 0)?,
            stride: parts(|slide| slide.stride, 1)?,
            dilation: parts(|slide| slide.dilation, 1)?,
        })
    }

    /// The strides of an image of these sizes. The library counts in 32 bits.
    pub fn strides(&self, sizes: &[c_int]) -> Option<Sizes> {
        let mut strides: Sizes = sizes.into();
        let mut step: c_int = 1;
        let mut place = |axis: usize| {
            strides[axis] = step;
            step = step.checked_mul(sizes[axis])?;
            Some(())
        };
        match self.order {
            Order::ChannelsFirst => (0..sizes.len()).rev().try_for_each(&mut place)?,
            Order::ChannelsLast => {
                place(1)?;
                (2..sizes.len()).rev().try_for_each(&mut place)?;
                place(0)?;
            }
        }
        Some(strides)
    }
}

/// Whether each group reads one channel: that is not the library's strength.
fn is_depthwise(op: &Conv) -> bool {
    op.groups > 1 && op.src.shape()[1] == op.groups
}

fn lies(view: &View, order: Order) -> bool {
    match order {
        Order::ChannelsFirst => view.layout().is_contiguous(),
        Order::ChannelsLast => {
            let rank = view.layout().rank();
            let behind: SmallVec<[usize; 5]> =
                std::iter::once(0).chain(2..rank).chain([1]).collect();
            let turned = view.layout().permute(&behind);
            turned.is_ok_and(|layout| layout.is_contiguous())
        }
    }
}

fn sizes(view: &View) -> Option<Sizes> {
    let sizes = view.shape().iter().map(|&size| c_int::try_from(size).ok());
    let mut sizes: Sizes = sizes.collect::<Option<_>>()?;
    if sizes.len() == 3 {
        sizes.insert(2, 1);
    }
    Some(sizes)
}

#[cfg(test)]
mod tests {
    use streampool_device::{Activation, Layout, Span, Window};

    use super::*;

    fn view(layout: Layout) -> View {
        let span = Span {
            handle: 1 << 20,
            offset: 0,
            bytes: 1 << 30,
        };
        View::new(span, DType::F32, layout).unwrap()
    }

    fn plain(shape: &[usize]) -> View {
        view(Layout::contiguous(shape).unwrap())
    }

    fn conv(src: View, weight: View, dst: View, slides: &[Slide]) -> Conv {
        Conv {
            src,
            weight,
            bias: None,
            dst,
            window: Window::new(slides).unwrap(),
            groups: 1,
            transposed: false,
            activation: Activation::None,
            to_bytes: None,
            zero_point: 0,
        }
    }

    #[test]
    fn a_line_becomes_an_image() {
        let slide = Slide {
            stride: 2,
            before: 1,
            after: 1,
            ..Slide::new(3)
        };
        let op = conv(
            plain(&[2, 3, 8]),
            plain(&[5, 3, 3]),
            plain(&[2, 5, 4]),
            &[slide],
        );
        let problem = Problem::of(&op).unwrap();
        assert_eq!(problem.src[..], [2, 3, 1, 8]);
        assert_eq!(problem.weight[..], [5, 3, 1, 3]);
        assert_eq!(
            (&problem.padding[..], &problem.stride[..]),
            (&[0, 1][..], &[1, 2][..])
        );
        assert_eq!(problem.strides(&problem.src).unwrap()[..], [24, 8, 8, 1]);
    }

    #[test]
    fn padding_that_makes_a_difference_is_refused() {
        let slide = Slide {
            after: 1,
            ..Slide::new(3)
        };
        let views = || (plain(&[1, 1, 8, 8]), plain(&[1, 1, 3, 3]));
        let (src, weight) = views();
        let op = conv(src, weight, plain(&[1, 1, 7, 7]), &[slide; 2]);
        assert_eq!(Problem::of(&op), None);
        // With a stride of two, nothing sees what lies behind.
        let skipping = Slide { stride: 2, ..slide };
        let (src, weight) = views();
        let op = conv(src, weight, plain(&[1, 1, 4, 4]), &[skipping; 2]);
        assert_eq!(Problem::of(&op), None);
        let (src, weight) = (plain(&[1, 1, 9, 9]), plain(&[1, 1, 3, 3]));
        let op = conv(src, weight, plain(&[1, 1, 4, 4]), &[skipping; 2]);
        assert!(Problem::of(&op).is_some());
    }

    #[test]
    fn channels_may_come_last_everywhere() {
        let last = |shape: [usize; 4]| {
            let [n, c, h, w] = shape;
            let layout = Layout::contiguous(&[n, h, w, c]).unwrap();
            view(layout.permute(&[0, 3, 1, 2]).unwrap())
        };
        let slides = [Slide::new(3); 2];
        let (src, weight, dst) = ([2, 3, 9, 8], [5, 3, 3, 3], [2, 5, 7, 6]);
        let op = conv(last(src), last(weight), last(dst), &slides);
        let problem = Problem::of(&op).unwrap();
        assert_eq!(problem.order, Order::ChannelsLast);
        assert_eq!(problem.strides(&problem.src).unwrap()[..], [216, 1, 24, 3]);
        let mixed = conv(last(src), plain(&weight), last(dst), &slides);
        assert_eq!(Problem::of(&mixed), None);
    }
}

//! Sizes of what windows give, beside windows that are counted one by one.

use streampool_tensor::{ConvOptions, DType, PoolOptions, Tensor};

use crate::common::{Rng, pool};

/// A window along one axis.
#[derive(Debug, Clone, Copy)]
struct Axis {
    size: usize,
    kernel: usize,
    stride: usize,
    dilation: usize,
    padding: (usize, usize),
    extra: usize,
}

impl Axis {
    fn random(choices: &mut Rng) -> Axis {
        Axis {
            size: choices.below(8),
            kernel: choices.pick(&[1, 1, 2, 2, 3, 4]),
            stride: choices.pick(&[1, 1, 2, 3, 4]),
            dilation: choices.pick(&[1, 1, 1, 2, 3]),
            padding: (choices.below(4), choices.below(4)),
            extra: choices.pick(&[0, 0, 0, 1, 2, 3]),
        }
    }

    fn padded(&self) -> usize {
        self.padding.0 + self.size + self.padding.1
    }

    /// The places of window `number`, in the padded axis.
    fn places(&self, number: usize) -> impl Iterator<Item = usize> {
        let Axis {
            stride, dilation, ..
        } = *self;
        (0..self.kernel).map(move |element| number * stride + element * dilation)
    }

    fn fits(&self, number: usize) -> bool {
        self.places(number).all(|place| place < self.padded())
    }

    /// Windows that lie inside; `None` if there are none.
    fn windows(&self) -> Option<usize> {
        let count = (0..).take_while(|&number| self.fits(number)).count();
        (count > 0).then_some(count)
    }

    /// Windows that begin before the padding at the end, up to the first that reaches the end.
    fn windows_ceil(&self) -> Option<usize> {
        let begins = |number: usize| number * self.stride < self.padding.0 + self.size;
        let last = self.padded().checked_sub(1)?;
        let reaches = |number: usize| self.places(number).any(|place| place >= last);
        let before = |&number: &usize| begins(number) && (number == 0 || !reaches(number - 1));
        let count = (0..).take_while(before).count();
        (count > 0 && self.fits(0)).then_some(count)
    }

    /// The places that transposed windows reach, without the padding and with what is extra.
    fn spread(&self) -> Option<usize> {
        let reached = (0..self.size).flat_map(|number| self.places(number));
        let reached = reached.max().map_or(0, |last| last + 1);
        // Nothing is spread over nothing: there is no padding to take away.
        let (before, after) = if self.size == 0 { (0, 0) } else { self.padding };
        let is_less = self.extra == 0 || self.extra < self.stride || self.extra < self.dilation;
        let left = (reached + self.extra).checked_sub(before + after);
        left.filter(|_| is_less)
    }
}

/// Windows along up to three axes, and what the options say of them.
struct Windows {
    axes: Vec<Axis>,
    kernel: Vec<usize>,
    stride: Vec<usize>,
    dilation: Vec<usize>,
    padding: Vec<(usize, usize)>,
}

impl Windows {
    fn random(choices: &mut Rng) -> Windows {
        let axes: Vec<Axis> = (0..1 + choices.below(3))
            .map(|_| Axis::random(choices))
            .collect();
        Windows {
            kernel: axes.iter().map(|axis| axis.kernel).collect(),
            stride: axes.iter().map(|axis| axis.stride).collect(),
            dilation: axes.iter().map(|axis| axis.dilation).collect(),
            padding: axes.iter().map(|axis| axis.padding).collect(),
            axes,
        }
    }

    /// These sizes, and a size for each spatial axis.
    fn shape(&self, first: [usize; 2], each: impl Fn(&Axis) -> usize) -> Vec<usize> {
        first
            .into_iter()
            .chain(self.axes.iter().map(each))
            .collect()
    }

    /// As [`shape`](Self::shape), if each axis has a size.
    fn made(&self, first: [usize; 2], each: impl Fn(&Axis) -> Option<usize>) -> Option<Vec<usize>> {
        let spatial: Option<Vec<usize>> = self.axes.iter().map(each).collect();
        spatial.map(|spatial| [&first[..], &spatial].concat())
    }
}

/// How many channels each of so many groups has, if they are equally many.
fn per_group(channels: usize, groups: usize) -> Option<usize> {
    (0..=channels).find(|each| each * groups == channels)
}

#[test]
fn convolutions_have_as_many_elements_as_windows_fit() {
    let pool = pool();
    let mut choices = Rng::new(21);
    let mut met = [[0; 2]; 2];
    for case in 0..1500 {
        let windows = Windows::random(&mut choices);
        let groups = choices.pick(&[1, 1, 2, 3]);
        let mut channels = [
            groups * choices.pick(&[1, 2]),
            groups * choices.pick(&[1, 2]),
        ];
        if choices.chance(8) {
            channels[choices.below(2)] = choices.below(5);
        }
        let [read, made] = channels;
        let batch = choices.below(3);
        let ones = |shape: &[usize]| Tensor::ones(&pool, shape, DType::F32).unwrap();
        let x = ones(&windows.shape([batch, read], |axis| axis.size));
        let options = ConvOptions {
            stride: &windows.stride,
            padding: &windows.padding,
            dilation: &windows.dilation,
            groups,
            ..ConvOptions::default()
        };
        // A weight has the channels of one group of one side, and all of the other.
        let reading = per_group(read, groups).filter(|&each| each > 0 || groups == 1);
        let each = choices.chance(12).then(|| choices.below(4));
        let kernel = |axis: &Axis| axis.kernel;

        let seen = each.unwrap_or(read / groups);
        let weight = ones(&windows.shape([made, seen], kernel));
        let wanted = reading
            .filter(|&each| seen == each && per_group(made, groups).is_some())
            .and_then(|_| windows.made([batch, made], Axis::windows));
        let got = x.conv(&weight, &options);
        let got = got.map(|y| y.shape().to_vec());
        met[0][usize::from(wanted.is_some())] += 1;
        let what = || format!("case {case}: {channels:?} in {groups}, {:?}", windows.axes);
        assert_eq!(got.as_ref().ok(), wanted.as_ref(), "{}: {got:?}", what());

        let each = each.unwrap_or(made / groups);
        let weight = ones(&windows.shape([read, each], kernel));
        let extra: Vec<usize> = windows.axes.iter().map(|axis| axis.extra).collect();
        let wanted = reading.and_then(|_| windows.made([batch, each * groups], Axis::spread));
        let got = x.conv_transpose(&weight, &extra, &options);
        let got = got.map(|y| y.shape().to_vec());
        met[1][usize::from(wanted.is_some())] += 1;
        assert_eq!(got.as_ref().ok(), wanted.as_ref(), "{}: {got:?}", what());
    }
    assert!(
        met.as_flattened().iter().all(|&times| times > 100),
        "{met:?}"
    );
}

#[test]
fn pools_have_as_many_elements_as_windows_fit_or_begin() {
    let pool = pool();
    let mut choices = Rng::new(22);
    let mut met = [[0; 2]; 2];
    for case in 0..1500 {
        let mut windows = Windows::random(&mut choices);
        let ceil = choices.chance(2);
        if ceil {
            // No window lies in the padding at the end alone: there is more than one opinion whether those count.
            for (axis, padding) in windows.axes.iter_mut().zip(&mut windows.padding) {
                axis.padding.1 = axis.padding.1.min((axis.kernel - 1) * axis.dilation);
                *padding = axis.padding;
            }
        }
        let options = PoolOptions {
            stride: &windows.stride,
            padding: &windows.padding,
            dilation: &windows.dilation,
            ceil,
        };
        let first = [choices.below(3), choices.below(3)];
        let x = windows.shape(first, |axis| axis.size);
        let x = Tensor::ones(&pool, &x, DType::F32).unwrap();
        let kernel = &windows.kernel;
        let got = match choices.below(4) {
            0 => x.max_pool(kernel, &options),
            1 => x.max_pool_with_indices(kernel, &options).map(|both| {
                assert_eq!(both.0.shape(), both.1.shape());
                both.1
            }),
            2 => x.avg_pool(kernel, choices.chance(2), &options),
            _ => x.lp_pool(2.0, kernel, &options),
        };
        let got = got.map(|y| y.shape().to_vec());
        let wanted = windows.made(first, |axis| match ceil {
            true => axis.windows_ceil(),
            false => axis.windows(),
        });
        met[usize::from(ceil)][usize::from(wanted.is_some())] += 1;
        let what = format!("case {case}: {first:?}, {ceil}, {:?}", windows.axes);
        assert_eq!(got.as_ref().ok(), wanted.as_ref(), "{what}: {got:?}");
    }
    assert!(
        met.as_flattened().iter().all(|&times| times > 100),
        "{met:?}"
    );
}

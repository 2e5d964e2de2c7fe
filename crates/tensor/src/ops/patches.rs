//! Patches of pictures: put together, and taken where offsets say.

use super::conv::ConvOptions;
use super::formula::wide;
use super::grid::{Lookup, Outside, Sampling};
use super::window::Sliding;
use crate::{Error, Result, Tensor, shape};

impl Tensor {
    /// The sum of patches, each where it was taken: `[batch, channels * block elements, places]` gives `[batch, channels,
    /// sizes ...]`. Stride, padding and dilation say how patches of the sizes `block` were taken.
    pub fn fold(
        &self,
        sizes: &[usize],
        block: &[usize],
        options: &ConvOptions<'_>,
    ) -> Result<Tensor> {
        let (op, rank) = ("fold", sizes.len());
        let window = Sliding {
            op,
            kernel: block,
            stride: options.stride,
            padding: options.padding,
            dilation: options.dilation,
        }
        .window(rank)?;
        let too_many =
            || Error::parameter(op, "sizes", format_args!("{sizes:?}"), "fewer elements");
        let elements = shape::elements(block).ok_or_else(too_many)?;
        let counts: Vec<usize> = window
            .iter()
            .zip(sizes)
            .map(|(slide, &size)| slide.windows(size))
            .collect();
        let places = shape::elements(&counts).ok_or_else(too_many)?;
        let fits = matches!(self.shape(), &[_, channels, own]
            if elements > 0 && channels % elements == 0 && own == places);
        if !fits {
            let expected = format!("[batch, channels * {elements}, {places}]");
            return Err(Error::shape(op, "self", self.shape(), expected));
        }
        let (batch, joined) = (self.shape()[0], self.shape()[1]);
        let channels = joined / elements;
        // Each element of a patch is spread by a kernel that is one in its place.
        let one = Tensor::eye(self.pool(), elements, elements, self.dtype())?;
        let weight = one.broadcast_to(&[channels, elements, elements])?;
        let weight = weight.reshape(&[&[joined, 1], block].concat())?;
        let apart = self.reshape(&[&[batch, joined], &counts[..]].concat())?;
        let mut extra = Vec::new();
        for ((slide, &count), &size) in window.iter().zip(&counts).zip(sizes) {
            let missing = size as i128 - slide.spread(count);
            extra.push(usize::try_from(missing).map_err(|_| {
                Error::parameter(
                    op,
                    "sizes",
                    format_args!("{sizes:?}"),
                    "at least what patches reach",
                )
            })?);
        }
        let options = ConvOptions {
            groups: channels,
            bias: None,
            ..*options
        };
        apart.conv_transpose(&weight, &extra, &options)
    }

    /// A convolution of `[batch, channels, height, width]` whose kernel's elements are moved, each by an offset of its own in
    /// each place: `[batch, groups of channels * kernel elements * 2, rows, columns]`, down and to the right. What lies
    /// between elements is interpolated, what is beyond the edges is zero, and `mask`, `[batch, groups of channels * kernel
    /// elements, rows, columns]`, is multiplied onto it.
    pub fn deform_conv(
        &self,
        weight: &Tensor,
        offset: &Tensor,
        mask: Option<&Tensor>,
        options: &ConvOptions<'_>,
    ) -> Result<Tensor> {
        let op = "deform_conv";
        super::checks::floats(op, "self", self)?;
        let (&[batch, channels, height, width], &[made, read, kernel_rows, kernel_columns]) =
            (self.shape(), weight.shape())
        else {
            let expected = "[batch, channels, height, width], and so has weight";
            return Err(Error::shape(op, "self", self.shape(), expected));
        };
        let groups = options.groups;
        if groups == 0 || channels != read * groups || made % groups != 0 {
            let expected = format!("one for {channels} channels in {groups} groups");
            return Err(Error::shape(op, "weight", weight.shape(), expected));
        }
        let window = Sliding {
            op,
            kernel: &[kernel_rows, kernel_columns],
            stride: options.stride,
            padding: options.padding,
            dilation: options.dilation,
        }
        .window(2)?;
        let (rows, columns) = (window[0].windows(height), window[1].windows(width));
        let (elements, places) = (kernel_rows * kernel_columns, rows * columns);
        let sets = match offset.shape() {
            &[of, joined, own_rows, own_columns]
                if (of, own_rows, own_columns) == (batch, rows, columns)
                    && joined > 0
                    && joined % (2 * elements) == 0
                    && channels % (joined / (2 * elements)) == 0 =>
            {
                joined / (2 * elements)
            }
            other => {
                let expected = format!(
                    "[{batch}, groups of channels * {}, {rows}, {columns}]",
                    2 * elements
                );
                return Err(Error::shape(op, "offset", other, expected));
            }
        };
        let dtype = wide(self.dtype());
        let offset =
            offset
                .to_dtype(dtype)?
                .reshape(&[batch * sets, elements, 2, rows, columns])?;
        // `[kernel rows, kernel columns, rows, columns]`
        let along = |axis: usize| -> Result<Tensor> {
            let slide = &window[axis];
            let count = |size: usize, step: u32, place: usize| {
                let mut shape = [1; 4];
                shape[place] = size;
                Tensor::arange(self.pool(), 0, size as i64, 1, dtype)?
                    .mul(f64::from(step))?
                    .view(&shape)
            };
            let inner = count([kernel_rows, kernel_columns][axis], slide.dilation, axis)?;
            let outer = count([rows, columns][axis], slide.stride, axis + 2)?;
            let start = inner.add(&outer)?.sub(f64::from(slide.before))?;
            let start = start.broadcast_to(&[kernel_rows, kernel_columns, rows, columns])?;
            let start = start.reshape(&[elements, rows, columns])?;
            let moved = start.add(&offset.select(2, axis as isize)?)?;
            moved.reshape(&[batch * sets, elements * places])
        };
        let lookup = Lookup {
            sampling: Sampling::Linear,
            outside: Outside::Zeros,
            mirrors_inside: false,
        };
        let apart = self.reshape(&[batch * sets, channels / sets, height, width])?;
        let mut found = lookup.find(&apart, &[along(0)?, along(1)?])?;
        if let Some(mask) = mask {
            let expected = [batch, sets * elements, rows, columns];
            super::checks::shaped(
                op,
                "mask",
                mask,
                &expected,
                "one for each element that is looked up",
            )?;
            found = found.mul(&mask.reshape(&[batch * sets, 1, elements * places])?)?;
        }
        let found = found.reshape(&[batch, groups, read * elements, places])?;
        let weight = weight.reshape(&[groups, made / groups, read * elements])?;
        let sums = weight
            .matmul(&found)?
            .reshape(&[batch, made, rows, columns])?;
        match options.bias {
            Some(bias) => {
                super::checks::shaped(
                    op,
                    "bias",
                    bias,
                    &[made],
                    "one for each channel that is made",
                )?;
                sums.add(&bias.view(&[made, 1, 1])?)
            }
            None => Ok(sums),
        }
    }
}

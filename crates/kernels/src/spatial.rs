//! Images: how kernels that go over windows find their elements.

use streampool_device::{Slide, View, Window};

use crate::Params;
use crate::elementwise::form::{
    distance, distance_type, number, number_field, positions, size, size_fields,
};
use crate::text::Field;

/// Places beyond this are not counted in 32 bits.
const LIMIT: usize = 1 << 30;

/// The dimensions of an image: its number, its channel and three spatial ones, of which missing ones come first.
pub(crate) const RANK: usize = 5;

/// The shape of a view of images.
pub(crate) fn shape(view: &View) -> [usize; RANK] {
    spread(view.shape(), 1)
}

/// The strides of a view of images.
pub(crate) fn strides(view: &View) -> [isize; RANK] {
    spread(view.layout().strides(), 0)
}

fn spread<T: Copy>(of: &[T], missing: T) -> [T; RANK] {
    let mut all = [missing; RANK];
    all[..2].copy_from_slice(&of[..2]);
    all[RANK + 2 - of.len()..].copy_from_slice(&of[2..]);
    all
}

/// The three slides of a window, of which missing ones come first.
pub(crate) fn slides(window: &Window) -> [Slide; 3] {
    let mut all = [Slide::new(1); 3];
    all[3 - window.len()..].copy_from_slice(window);
    all
}

/// Whether the window's places, of both `views`, can be counted in 32 bits.
pub(crate) fn is_countable(window: &Window, views: [&View; 2]) -> bool {
    let extent = |slide: &Slide| {
        let lengths = [slide.before, slide.after, slide.stride, slide.dilation];
        slide.reach() + lengths.iter().map(|&length| length as usize).sum::<usize>()
    };
    let sizes = views.iter().flat_map(|view| view.shape()[2..].iter());
    let pixels = |view: &View| view.shape()[2..].iter().product::<usize>();
    let longest = sizes.copied().max().unwrap_or(0);
    window.iter().all(|slide| extent(slide) + longest < LIMIT)
        && views.iter().all(|view| pixels(view) < LIMIT)
}

/// Whether elements are so many, or so far apart, that it takes 64 bits.
pub(crate) fn is_wide(views: &[&View]) -> bool {
    const MOST: usize = 1 << 31;
    let reach = |view: &View| {
        let layout = view.layout();
        let axes = layout.shape().iter().zip(layout.strides());
        axes.map(|(&size, &stride)| size.saturating_sub(1) * stride.unsigned_abs())
            .sum::<usize>()
    };
    views
        .iter()
        .any(|view| view.layout().elements() >= MOST || reach(view) >= MOST)
}

/// The stride of all elements along these axes, sizes and strides, if they follow one another in one.
pub(crate) fn step_of<A>(axes: A) -> Option<isize>
where
    A: IntoIterator<Item = (usize, isize), IntoIter: DoubleEndedIterator>,
{
    let mut long = axes.into_iter().rev().filter(|&(size, _)| size > 1);
    let Some((size, step)) = long.next() else {
        return Some(1);
    };
    let end = step.checked_mul(size as isize)?;
    long.try_fold(end, |next, (size, stride)| {
        (stride == next).then(|| next.checked_mul(size as isize))?
    })?;
    Some(step)
}

/// In which order threads go over the elements of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Order {
    ChannelsFirst,
    ChannelsLast,
}

impl Order {
    /// That in which the elements of `result` lie, so that neighbouring threads write side by side.
    pub fn of(result: &View) -> Order {
        let strides = strides(result);
        let has_places = shape(result)[2..].iter().any(|&size| size > 1);
        match strides[1] == 1 && has_places && shape(result)[1] > 1 {
            true => Order::ChannelsLast,
            false => Order::ChannelsFirst,
        }
    }

    /// The axes, the outermost first.
    fn axes(self) -> [usize; RANK] {
        match self {
            Order::ChannelsFirst => [0, 1, 2, 3, 4],
            Order::ChannelsLast => [0, 2, 3, 4, 1],
        }
    }

    /// Appends how many elements of this shape there are, and what [`places`](Self::places) divides by.
    pub fn count(self, params: Params, wide: bool, shape: [usize; RANK]) -> Params {
        let params = number(params, wide, shape.iter().product());
        let inner = self.axes().into_iter().skip(1);
        inner.fold(params, |params, axis| size(params, wide, shape[axis]))
    }

    /// The text that finds the place of element `index` along each axis, from `at_image` and `at_channel` to `at_place_2`.
    pub fn places(self, wide: bool) -> String {
        const NAMES: [&str; RANK] = ["image", "channel", "place_0", "place_1", "place_2"];
        let mut text = positions(wide, RANK, "index");
        for (position, axis) in self.axes().into_iter().enumerate() {
            text += &format!(
                "const {} at_{} = position{position};\n",
                distance_type(wide),
                NAMES[axis]
            );
        }
        text
    }
}

/// The fields of [`Order::count`].
pub(crate) fn count_fields(wide: bool) -> Vec<Field> {
    let mut fields = vec![number_field(wide, "count")];
    fields.extend((1..RANK).flat_map(|axis| size_fields(wide, axis)));
    fields
}

/// Appends where the first element lies, and the strides.
pub(crate) fn walk(params: Params, wide: bool, view: &View) -> Params {
    let params = params.i64(view.layout().offset() as i64);
    let strides = strides(view).into_iter();
    strides.fold(params, |params, stride| distance(params, wide, stride))
}

/// The fields of [`walk`].
pub(crate) fn walk_fields(wide: bool, operand: &str) -> Vec<Field> {
    let mut fields = vec![Field::new("i64", format!("{operand}_at"))];
    fields
        .extend((0..RANK).map(|axis| Field::new(distance_type(wide), format!("{operand}_{axis}"))));
    fields
}

/// Appends how the window slides over a source of this shape.
pub(crate) fn window(params: Params, window: &Window, source: [usize; RANK]) -> Params {
    let axes = slides(window).into_iter().zip(&source[2..]);
    axes.fold(params, |params, (slide, &size)| {
        params
            .size(slide.kernel as usize)
            .size(slide.stride as usize)
            .size(slide.dilation as usize)
            .size(slide.before as usize)
            .size(slide.after as usize)
            .size(size)
    })
}

/// The fields of [`window`].
pub(crate) fn window_fields() -> Vec<Field> {
    let parts = ["kernel", "stride", "dilation", "before", "after", "extent"];
    let fields = (0..3).flat_map(|axis| parts.map(|part| format!("{part}_{axis}")));
    fields.map(|name| Field::new("i32", name)).collect()
}

//! The same elements, where they lie otherwise.

use streampool_device::Layout;

/// What names in a tensor that lies as `place` says the elements that `layout` names in a row-major one of its shape. None if one of
/// the axes of `layout` does not go along one axis of the tensor, or if there is nothing to name.
pub fn relaid(layout: &Layout, place: &Layout) -> Option<Layout> {
    let shape = place.shape();
    let dense = Layout::contiguous(shape).ok()?;
    if dense.elements() == 0 || layout.elements() == 0 {
        return None;
    }
    // The farthest index along each axis.
    let mut last: Vec<usize> = Vec::new();
    let (mut rest, mut offset) = (layout.offset(), place.offset());
    for (&step, &stride) in dense.strides().iter().zip(place.strides()) {
        let step = usize::try_from(step).ok()?;
        let index = rest / step;
        last.push(index);
        let moved = isize::try_from(index).ok()?.checked_mul(stride)?;
        offset = offset.checked_add_signed(moved)?;
        rest %= step;
    }
    if last.iter().zip(shape).any(|(last, size)| last >= size) {
        return None;
    }
    let mut strides = Vec::new();
    for (&size, &stride) in layout.shape().iter().zip(layout.strides()) {
        let steps = usize::try_from(stride).ok()?;
        if size == 1 || steps == 0 {
            strides.push(stride);
            continue;
        }
        let along = |&axis: &usize| {
            let step = dense.strides()[axis] as usize;
            let farthest = (steps / step).checked_mul(size - 1);
            steps.is_multiple_of(step)
                && farthest.is_some_and(|more| more < shape[axis] - last[axis])
        };
        let axis = (0..shape.len()).find(along)?;
        let times = steps / dense.strides()[axis] as usize;
        last[axis] += times * (size - 1);
        strides.push(
            isize::try_from(times)
                .ok()?
                .checked_mul(place.strides()[axis])?,
        );
    }
    Layout::strided(layout.shape(), &strides, offset).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_something_packed_is_named_there() {
        let part = Layout::strided(&[4, 2, 24], &[144, 72, 1], 48).unwrap();
        let heads = Layout::strided(&[2, 3, 4, 8], &[24, 8, 48, 1], 0).unwrap();
        let there = Layout::strided(&[2, 3, 4, 8], &[72, 8, 144, 1], 48).unwrap();
        assert_eq!(relaid(&heads, &part), Some(there));
    }

    #[test]
    fn of_nothing_nothing_is_named() {
        for shape in [[4, 0, 24], [0, 2, 24], [4, 2, 0]] {
            let nothing = Layout::contiguous(&shape).unwrap();
            assert_eq!(relaid(&nothing, &nothing), None, "{shape:?}");
        }
    }
}

//! All small layouts name the elements that a plain walk over their indices names, and so does all that is made of them.

use streampool_device::Layout;

/// Every index of a shape, row-major.
fn indices(shape: &[usize]) -> Vec<Vec<usize>> {
    shape.iter().fold(vec![vec![]], |indices, &size| {
        let longer = |index: &Vec<usize>, at| [&index[..], &[at]].concat();
        let each = |index| (0..size).map(move |at| longer(index, at));
        indices.iter().flat_map(each).collect()
    })
}

/// The element that an index names.
fn place(layout: &Layout, index: &[usize]) -> isize {
    let steps = index.iter().zip(layout.strides());
    layout.offset() as isize
        + steps
            .map(|(&at, stride)| at as isize * stride)
            .sum::<isize>()
}

/// All that a layout names, row-major.
fn places(layout: &Layout) -> Vec<isize> {
    let all = indices(layout.shape());
    all.iter().map(|index| place(layout, index)).collect()
}

/// All layouts of up to three dimensions with these sizes and strides.
fn layouts() -> impl Iterator<Item = Layout> {
    let shapes = (0..4).flat_map(|rank| indices(&[4].repeat(rank)));
    shapes.flat_map(|shape| {
        let strides = indices(&[8].repeat(shape.len()));
        strides.into_iter().map(move |strides| {
            let strides: Vec<isize> = strides.iter().map(|&stride| stride as isize - 2).collect();
            Layout::strided(&shape, &strides, 12).unwrap()
        })
    })
}

#[test]
fn what_a_layout_says_of_itself_is_so() {
    for layout in layouts() {
        let places = places(&layout);
        assert_eq!(layout.elements(), places.len(), "{layout}");
        let extent = places.iter().min().zip(places.iter().max());
        assert_eq!(
            layout.extent(),
            extent.map(|(&low, &high)| (low, high)),
            "{layout}"
        );
        let in_a_row = places.iter().zip(12..).all(|(&place, next)| place == next);
        assert_eq!(layout.is_contiguous(), in_a_row, "{layout}");
        let mut apart = places.clone();
        apart.sort_unstable();
        apart.dedup();
        let meets = apart.len() < places.len();
        assert!(layout.overlaps() || !meets, "{layout}");
        // Of one dimension it is exact.
        if layout.shape().iter().filter(|&&size| size != 1).count() < 2 {
            assert_eq!(layout.overlaps(), meets, "{layout}");
        }
    }
}

#[test]
fn dimensions_in_another_order_name_the_same() {
    let orders = (0..4).flat_map(|rank| indices(&[rank + 1].repeat(rank)));
    let orders: Vec<Vec<usize>> = orders.collect();
    for layout in layouts().step_by(7) {
        for order in &orders {
            let mut sorted = order.clone();
            sorted.sort_unstable();
            let permuted = layout.permute(order);
            if sorted != (0..layout.rank()).collect::<Vec<_>>() {
                assert!(permuted.is_err(), "{layout} by {order:?}");
                continue;
            }
            let permuted = permuted.unwrap();
            for index in indices(permuted.shape()) {
                let mut before = vec![0; index.len()];
                order
                    .iter()
                    .zip(&index)
                    .for_each(|(&axis, &at)| before[axis] = at);
                assert_eq!(
                    place(&permuted, &index),
                    place(&layout, &before),
                    "{layout} by {order:?}"
                );
            }
        }
    }
    let dense = Layout::contiguous(&[2, 3, 4]).unwrap();
    assert!(
        !dense.permute(&[2, 0, 1]).unwrap().overlaps(),
        "it fills its memory"
    );
}

#[test]
fn a_broadcast_repeats() {
    let shapes: Vec<_> = (0..4).flat_map(|rank| indices(&[4].repeat(rank))).collect();
    for layout in layouts().step_by(61) {
        for shape in &shapes {
            let wide = layout.broadcast_to(shape);
            let lead = shape.len().checked_sub(layout.rank());
            let agree = lead.is_some_and(|lead| {
                let sizes = layout.shape().iter().zip(&shape[lead..]);
                sizes
                    .clone()
                    .all(|(size, wanted)| size == wanted || *size == 1)
            });
            assert_eq!(wide.is_ok(), agree, "{layout} to {shape:?}");
            let (Ok(wide), Some(lead)) = (wide, lead) else {
                continue;
            };
            assert_eq!(wide.shape(), shape);
            for index in indices(shape) {
                let sizes = index[lead..].iter().zip(layout.shape());
                let before: Vec<_> = sizes.map(|(&at, &size)| at.min(size - 1)).collect();
                assert_eq!(
                    place(&wide, &index),
                    place(&layout, &before),
                    "{layout} to {shape:?}"
                );
            }
        }
    }
}

#[test]
fn a_slice_takes_each_so_many() {
    for layout in layouts().step_by(37) {
        for cut in indices(&[4, 5, 6, 4]) {
            let [axis, start, end, step] = cut[..] else {
                unreachable!("four numbers");
            };
            let sliced = layout.slice(axis, start, end, step);
            let size = layout.shape().get(axis);
            if !size.is_some_and(|&size| start <= end && end <= size && step > 0) {
                assert!(sliced.is_err(), "{layout}: {cut:?}");
                continue;
            }
            let taken = |index: &Vec<usize>| (start..end).step_by(step).any(|at| at == index[axis]);
            let all = indices(layout.shape());
            let wanted: Vec<_> = all.iter().filter(|index| taken(index)).collect();
            let wanted: Vec<_> = wanted.iter().map(|index| place(&layout, index)).collect();
            match sliced {
                Ok(sliced) => assert_eq!(places(&sliced), wanted, "{layout}: {cut:?}"),
                // It would begin before its memory.
                Err(_) => assert!(
                    wanted.first().is_some_and(|&first| first < 0),
                    "{layout}: {cut:?}"
                ),
            }
        }
    }
}

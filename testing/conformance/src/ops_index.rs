//! Picking and putting by index.

use streampool_device::{
    Combine, DType, DeviceKind, Error, Gather, Indexing, MAX_RANK, Op, OpKind, Scatter,
};

use crate::execute::{Example, check};
use crate::fixture::Fixture;
use crate::num::Num;
use crate::operand::Operand;
use crate::random::{any_shape, any_value, operand, read_operand, small, target};
use crate::rng::Rng;

/// A way of indexing, with the shapes of what is indexed, of the indices and of the indexed elements.
struct Shapes {
    indexing: Indexing,
    data: Vec<usize>,
    indices: Vec<usize>,
    picked: Vec<usize>,
}

impl Shapes {
    /// One of any way; `None` if it has too many dimensions or elements.
    fn any(rng: &mut Rng) -> Option<Shapes> {
        let data = any_shape(rng, 200);
        let rank = data.len();
        let few =
            |rng: &mut Rng| -> Vec<usize> { (0..rng.below(3)).map(|_| rng.below(7)).collect() };
        let shapes = match (rng.below(3), rank) {
            (0, 1..) => {
                let (axis, indices) = (rng.below(rank), few(rng));
                let picked = [&data[..axis], &indices, &data[axis + 1..]].concat();
                Shapes {
                    indexing: Indexing::Axis(axis),
                    data,
                    indices,
                    picked,
                }
            }
            (1, 1..) => {
                let axis = rng.below(rank);
                let mut indices: Vec<usize> =
                    data.iter().map(|&size| rng.below(size + 1)).collect();
                indices[axis] = rng.below(9);
                let picked = indices.clone();
                Shapes {
                    indexing: Indexing::Elements(axis),
                    data,
                    indices,
                    picked,
                }
            }
            _ => {
                let batch = rng.below(rank + 1);
                let depth = rng.below(rank - batch + 1);
                let lists = [&data[..batch], &few(rng)].concat();
                let indices = [&lists[..], &[depth]].concat();
                let picked = [&lists[..], &data[batch + depth..]].concat();
                Shapes {
                    indexing: Indexing::Nd(batch),
                    data,
                    indices,
                    picked,
                }
            }
        };
        let fits = shapes.picked.len() <= MAX_RANK
            && shapes.indices.len() <= MAX_RANK
            && shapes.picked.iter().product::<usize>() <= 5000;
        fits.then_some(shapes)
    }

    /// The size of the axis that the index with this row-major number is for.
    fn size(&self, number: usize) -> usize {
        match self.indexing {
            Indexing::Axis(axis) | Indexing::Elements(axis) => self.data[axis],
            Indexing::Nd(batch) => self.data[batch + number % self.indices[self.indices.len() - 1]],
        }
    }

    /// Indices in range, counted from either end; `None` if there is nothing to name.
    fn indices(&self, rng: &mut Rng) -> Option<Operand> {
        let dtype = rng.pick(&[DType::I32, DType::I64]);
        let count: usize = self.indices.iter().product();
        let mut values = Vec::with_capacity(count);
        for number in 0..count {
            let size = self.size(number) as i64;
            if size == 0 {
                return None;
            }
            values.push(Num::whole(rng.between(-size, size - 1)));
        }
        let mut values = values.into_iter();
        Some(operand(rng, dtype, &self.indices, |_| {
            values.next().expect("one for each")
        }))
    }
}

fn gather(indexing: Indexing) -> Op<usize> {
    Op::Gather(Gather {
        indexing,
        src: 0,
        indices: 1,
        dst: 2,
    })
}

/// Operands are the source, the indices, the updates and the result, which may be the source.
fn scatter(indexing: Indexing, combine: Combine, dst: usize) -> Op<usize> {
    Op::Scatter(Scatter {
        indexing,
        combine,
        src: 0,
        indices: 1,
        updates: 2,
        dst,
    })
}

/// A gather by any way of indexing; `None` if what came up has nothing to name.
pub(crate) fn any_gather(rng: &mut Rng, dtype: DType) -> Option<Example> {
    let shapes = Shapes::any(rng)?;
    let indices = shapes.indices(rng)?;
    let src = read_operand(rng, dtype, &shapes.data, |rng| any_value(rng, dtype));
    let dst = target(rng, dtype, &shapes.picked);
    Some((gather(shapes.indexing), vec![src, indices, dst]))
}

/// Elements of every type are picked, by every way of indexing, from any layout to any layout.
pub fn gathers_of_any_layout(fixture: &Fixture) {
    if !fixture.supports(OpKind::Gather) {
        return;
    }
    let mut rng = Rng::new(80);
    let mut lane = fixture.lane();
    for turn in 0..400 {
        let dtype = DType::ALL[turn % DType::ALL.len()];
        if let Some((op, operands)) = any_gather(&mut rng, dtype) {
            check(fixture, &mut lane, &op, &operands);
        }
    }
}

/// Rows whose lengths are around those that a device may move at once.
pub fn gathers_of_rows(fixture: &Fixture) {
    if !fixture.supports(OpKind::Gather) {
        return;
    }
    let mut rng = Rng::new(81);
    let mut lane = fixture.lane();
    for dtype in [DType::F32, DType::F16, DType::U8, DType::I64, DType::Bool] {
        for width in [1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 64, 65, 128] {
            let indices = (0..37).map(|_| Num::whole(rng.between(-20, 19)));
            let indices = Operand::of(DType::I64, &[37], indices.collect::<Vec<_>>());
            let values: Vec<Num> = (0..20 * width)
                .map(|_| any_value(&mut rng, dtype))
                .collect();
            let src = Operand::of(dtype, &[20, width], values);
            let dst = Operand::row_major(dtype, &[37, width]);
            check(
                fixture,
                &mut lane,
                &gather(Indexing::Axis(0)),
                &[src, indices, dst],
            );
        }
    }
}

/// Updates that are combined with what is there; `None` if what came up has nothing to name.
pub(crate) fn any_scatter(
    rng: &mut Rng,
    dtype: DType,
    combine: Combine,
    may_be_in_place: bool,
) -> Option<Example> {
    let shapes = Shapes::any(rng)?;
    let indices = shapes.indices(rng)?;
    let value = |rng: &mut Rng| match combine {
        Combine::Mul if dtype.is_float() => Num::Float(rng.real(0.9, 1.1)),
        Combine::Add if dtype.is_float() => Num::Float(rng.real(-3.0, 3.0)),
        _ => any_value(rng, dtype),
    };
    let in_place = may_be_in_place && rng.chance(3);
    let src = match in_place {
        true => operand(rng, dtype, &shapes.data, value),
        false => read_operand(rng, dtype, &shapes.data, value),
    };
    let updates = read_operand(rng, dtype, &shapes.picked, value);
    let mut operands = vec![src, indices, updates];
    if !in_place {
        operands.push(target(rng, dtype, &shapes.data));
    }
    let dst = if in_place { 0 } else { 3 };
    Some((scatter(shapes.indexing, combine, dst), operands))
}

/// Updates of every number type, many in one place, are combined with what is there, in place or not.
pub fn scatters_combine(fixture: &Fixture) {
    if !fixture.supports(OpKind::Scatter) {
        return;
    }
    let mut rng = Rng::new(82);
    let mut lane = fixture.lane();
    for turn in 0..600 {
        let dtype = DType::ALL[turn % 12];
        let combine = rng.pick(&[Combine::Add, Combine::Mul, Combine::Min, Combine::Max]);
        if let Some((op, operands)) = any_scatter(&mut rng, dtype, combine, true) {
            check(fixture, &mut lane, &op, &operands);
        }
    }
}

/// Rows that are replaced, each at most once.
pub(crate) fn any_replacement(rng: &mut Rng, dtype: DType) -> Example {
    let (rows, width) = (1 + rng.below(40), 1 + rng.below(20));
    let mut places: Vec<i64> = (0..rows as i64).collect();
    for index in (1..rows).rev() {
        places.swap(index, rng.below(index + 1));
    }
    places.truncate(rng.below(rows + 1));
    let indices = places.iter().map(|&place| {
        let from_end = place - rows as i64;
        Num::whole(if rng.chance(3) { from_end } else { place })
    });
    let indices = Operand::of(DType::I64, &[places.len()], indices.collect::<Vec<_>>());
    let src = read_operand(rng, dtype, &[rows, width], |rng| any_value(rng, dtype));
    let updates = read_operand(rng, dtype, &[places.len(), width], |rng| small(rng, dtype));
    let dst = target(rng, dtype, &[rows, width]);
    let op = scatter(Indexing::Axis(0), Combine::Replace, 3);
    (op, vec![src, indices, updates, dst])
}

/// Where each place is named once, what is put there stays.
pub fn scatters_replace(fixture: &Fixture) {
    if !fixture.supports(OpKind::Scatter) {
        return;
    }
    let mut rng = Rng::new(83);
    let mut lane = fixture.lane();
    for turn in 0..200 {
        let dtype = DType::ALL[turn % DType::ALL.len()];
        let (op, operands) = any_replacement(&mut rng, dtype);
        check(fixture, &mut lane, &op, &operands);
    }
}

/// On the host, of several updates of one place the last stays; elsewhere it is one of them.
pub fn one_of_several_updates_stays(fixture: &Fixture) {
    if !fixture.supports(OpKind::Scatter) {
        return;
    }
    let mut lane = fixture.lane();
    let on_host = fixture.device().properties().kind == DeviceKind::Host;
    let values: Vec<Num> = (0..64).map(|value| Num::whole(value / 8 + 1)).collect();
    let updates = if on_host {
        Operand::of(DType::I32, &[64], values)
    } else {
        // All the same: whichever stays is right.
        Operand::of(DType::I32, &[64], vec![Num::whole(7); 64])
    };
    let indices = Operand::of(
        DType::I32,
        &[64],
        (0..64).map(|number| Num::whole(number % 5)),
    );
    let src = Operand::of(DType::I32, &[9], vec![Num::whole(-1); 9]);
    let op = scatter(Indexing::Axis(0), Combine::Replace, 3);
    let operands = [src, indices, updates, Operand::row_major(DType::I32, &[9])];
    check(fixture, &mut lane, &op, &operands);
}

/// An index out of range is a fault on the host that names it. Elsewhere it picks zero and puts nothing.
pub fn indices_out_of_range(fixture: &Fixture) {
    let kinds = [OpKind::Gather, OpKind::Scatter];
    if !kinds.into_iter().all(|kind| fixture.supports(kind)) {
        return;
    }
    let on_host = fixture.device().properties().kind == DeviceKind::Host;
    for wrong in [5, -6, 1 << 40, i64::MAX, i64::MIN] {
        for width in [1, 4] {
            let src = Operand::of(
                DType::F32,
                &[5, width],
                (0..5 * width as i64).map(Num::whole),
            );
            let indices = [1, wrong, -5].map(Num::whole);
            let indices = Operand::of(DType::I64, &[3], indices);
            let picked = Operand::row_major(DType::F32, &[3, width]);
            let updates = Operand::of(DType::F32, &[3, width], vec![Num::Float(9.0); 3 * width]);
            let dst = Operand::row_major(DType::F32, &[5, width]);
            let axis = Indexing::Axis(0);
            let put = [src.clone(), indices.clone(), updates, dst];
            let cases = [
                (gather(axis), vec![src, indices, picked]),
                (scatter(axis, Combine::Replace, 3), put.to_vec()),
                (scatter(axis, Combine::Add, 3), put.to_vec()),
            ];
            for (op, operands) in cases {
                if on_host {
                    faults(fixture, &op, &operands, wrong);
                } else {
                    check(fixture, &mut fixture.lane(), &op, &operands);
                }
            }
        }
    }
}

fn faults(fixture: &Fixture, op: &Op<usize>, operands: &[Operand], wrong: i64) {
    let mut lane = fixture.lane();
    let outcome = crate::execute::outcome(fixture, &mut lane, op, operands);
    let Err(Error::Fault(fault)) = outcome else {
        panic!("{op:?} with index {wrong}: {outcome:?}");
    };
    assert_eq!(fault.op(), op.kind());
    let named = format!("index {wrong} at [1]");
    let said = fault.message();
    assert!(
        said.contains(&named) && said.contains("axis 0 of 5 elements"),
        "{said}"
    );
}

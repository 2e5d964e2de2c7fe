//! Regions of pictures.

use streampool_device::{DType, Op, OpKind, Regions};

use crate::execute::check;
use crate::fixture::Fixture;
use crate::num::Num;
use crate::operand::Operand;
use crate::rng::Rng;

/// Regions anywhere, in and around their pictures, with few samples and with as many as they have elements.
pub fn regions_of_any_place(fixture: &Fixture) {
    if !fixture.supports(OpKind::Regions) {
        return;
    }
    let mut lane = fixture.lane();
    let mut rng = Rng::new(93);
    for round in 0..120 {
        let dtype = [DType::F32, DType::F16, DType::BF16, DType::F64][round % 4];
        let of_sums = if dtype == DType::F64 {
            dtype
        } else {
            DType::F32
        };
        let [pictures, channels, height, width] = [2, 3, 9, 12].map(|most| 1 + rng.below(most));
        let [count, rows, columns] = [5, 4, 5].map(|most| 1 + rng.below(most));
        // Places and sides are odd parts of an element: no rounding takes a sample over an edge.
        let mut corners = Vec::new();
        for _ in 0..count {
            let [x, y] = [width, height].map(|size| rng.below(2 * size + 4) as f64 - 3.0 + 0.3125);
            let [w, h] = [0, 1].map(|_| (1 + rng.below(30)) as f64 * 0.4375);
            corners.extend([x, y, x + w, y + h].map(Num::Float));
        }
        let picture = |rng: &mut Rng| Num::Int(rng.below(pictures) as i128);
        let batches: Vec<Num> = (0..count).map(|_| picture(&mut rng)).collect();
        let values: Vec<Num> = (0..pictures * channels * height * width)
            .map(|_| Num::Float(rng.below(2001) as f64 / 1000.0 - 1.0))
            .collect();
        let op = Op::Regions(Regions {
            src: 0,
            corners: 1,
            batches: 2,
            dst: 3,
            scale: [1.0, 0.5][rng.below(2)],
            samples: rng.below(4),
            aligned: rng.chance(2),
            largest: rng.chance(3),
        });
        let operands = [
            Operand::of(dtype, &[pictures, channels, height, width], values),
            Operand::of(of_sums, &[count, 4], corners),
            Operand::of(DType::I64, &[count], batches),
            Operand::row_major(dtype, &[count, channels, rows, columns]),
        ];
        check(fixture, &mut lane, &op, &operands);
    }
}

/// A region as large as a float can be takes no longer than one as large as its picture.
pub fn regions_far_larger_than_pictures(fixture: &Fixture) {
    if !fixture.supports(OpKind::Regions) {
        return;
    }
    let far = [
        [-1e30, -1e30, 1e30, 1e30],
        [f64::NAN, 0.0, f64::INFINITY, 1.0],
    ];
    let src = fixture.tensor::<f32>(&[1, 1, 4, 4]);
    let corners = fixture.tensor::<f32>(&[2, 4]);
    let batches = fixture.tensor::<i64>(&[2]);
    let dst = fixture.tensor::<f32>(&[2, 1, 2, 2]);
    let mut lane = fixture.lane();
    let corner: Vec<f32> = far
        .as_flattened()
        .iter()
        .map(|&value| value as f32)
        .collect();
    lane.put(src, &[1.0f32; 16]);
    lane.put(corners, &corner);
    lane.put(batches, &[0i64; 2]);
    lane.run(&Op::Regions(Regions {
        src,
        corners,
        batches,
        dst,
        scale: 1.0,
        samples: 0,
        aligned: true,
        largest: false,
    }));
    let got: Vec<f32> = lane.get(dst);
    assert!(got.iter().all(|value| value.abs() < 1e-6), "{got:?}");
}

//! Operators made of others: what the node tests of ONNX do not reach.

use crate::common::{Rng, pool};
use streampool_tensor::{
    BoxFormat, ConvOptions, DType, GridOptions, Outside, Pool, RoiOptions, Sampling, Tensor,
};

fn floats(pool: &Pool, shape: &[usize], seed: u64) -> Tensor {
    let mut choices = Rng::new(seed);
    let mut value = || choices.between(-100, 100) as f64 / 16.0;
    let values: Vec<f64> = (0..shape.iter().product()).map(|_| value()).collect();
    Tensor::from_slice(pool, &values, shape).unwrap()
}

fn near(a: &Tensor, b: &Tensor) {
    assert_eq!(a.shape(), b.shape());
    let (a, b) = (a.to_vec::<f64>().unwrap(), b.to_vec::<f64>().unwrap());
    for (a, b) in a.iter().zip(&b) {
        assert!((a - b).abs() <= 1e-9 * (1.0 + b.abs()), "{a} is not {b}");
    }
}

#[test]
fn einsum_without_an_arrow_sorts_what_occurs_once() {
    let pool = pool();
    let (x, y) = (floats(&pool, &[2, 3], 1), floats(&pool, &[4, 3], 2));
    let product = Tensor::einsum("bk, ak", &[&x, &y]).unwrap();
    near(&product, &y.matmul(&x.transpose(0, 1).unwrap()).unwrap());
    let three = Tensor::einsum("ij, kj, k -> i", &[&x, &y, &floats(&pool, &[4], 3)]).unwrap();
    assert_eq!(three.shape(), [2]);
    let sums = Tensor::einsum("...j -> ...", &[&floats(&pool, &[2, 5, 3], 4)]).unwrap();
    assert_eq!(sums.shape(), [2, 5]);
}

#[test]
fn einsum_of_integers_is_exact() {
    let pool = pool();
    let x = Tensor::from_slice(&pool, &[1i64 << 60, 1, 2, 3], &[2, 2]).unwrap();
    let product = Tensor::einsum("ij,jk->ik", &[&x, &x]).unwrap();
    let expected = [(1i128 << 120) as i64 + 2, (1 << 60) + 3, (1 << 61) + 6, 11];
    assert_eq!(product.to_vec::<i64>().unwrap(), expected);
}

#[test]
fn an_equation_that_does_not_fit_is_refused() {
    let pool = pool();
    let x = floats(&pool, &[2, 3], 1);
    for wrong in [
        "ij,jk->ik",
        "i->i",
        "ijk->i",
        "ij->k",
        "ij->ii",
        "i1->i",
        "i->->i",
        "ii->i",
        "",
    ] {
        let error = Tensor::einsum(wrong, &[&x]).expect_err(wrong).to_string();
        assert!(error.starts_with("einsum: "), "{error}");
    }
    assert!(Tensor::einsum("", &[]).is_err());
    let turned = Tensor::einsum("ij,ij->ij", &[&x, &floats(&pool, &[3, 2], 2)]);
    assert_eq!(
        turned.expect_err("sizes differ").to_string(),
        "einsum: equation is ij,ij->ij where i is 2 and 3, expected one size for each label"
    );
}

#[test]
fn a_transform_comes_back() {
    let pool = pool();
    for length in [1, 2, 7, 16, 33] {
        let x = floats(&pool, &[2, length, 3, 2], length as u64);
        near(&x.fft(1, length).unwrap().ifft(1, length).unwrap(), &x);
        let real = x.narrow(3, 0, 1).unwrap();
        let half = real
            .fft(-3, length)
            .unwrap()
            .narrow(1, 0, length / 2 + 1)
            .unwrap();
        near(&half.irfft(1, length).unwrap(), &real);
    }
    let x = floats(&pool, &[4, 2], 9);
    assert!(x.fft(1, 4).is_err() && x.fft(2, 4).is_err());
    assert!(floats(&pool, &[4, 3], 9).fft(0, 4).is_err());
}

#[test]
fn what_is_unique_is_found_once() {
    let pool = pool();
    let mut choices = Rng::new(3);
    for count in [0, 1, 2, 50, 333] {
        let values: Vec<i32> = (0..count).map(|_| choices.between(-9, 9) as i32).collect();
        let found = Tensor::from_slice(&pool, &values, &[count])
            .unwrap()
            .unique(None)
            .unwrap();
        let unique = found.values.to_vec::<i32>().unwrap();
        let mut sorted = values.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(unique, sorted);
        let inverse = found.inverse.to_vec::<i64>().unwrap();
        let back: Vec<i32> = inverse
            .iter()
            .map(|&place| unique[place as usize])
            .collect();
        assert_eq!(back, values);
        let first = found.first.to_vec::<i64>().unwrap();
        let counts = found.counts.to_vec::<i64>().unwrap();
        for (place, value) in unique.iter().enumerate() {
            let is = |other: &&i32| *other == value;
            assert_eq!(
                values.iter().position(|other| other == value),
                Some(first[place] as usize)
            );
            assert_eq!(values.iter().filter(is).count(), counts[place] as usize);
        }
    }
}

#[test]
fn patches_that_do_not_overlap_are_a_picture() {
    let pool = pool();
    let x = floats(&pool, &[2, 3, 4, 6], 5);
    // `[batch, channels, rows, 2, columns, 3]`
    let apart = x
        .reshape(&[2, 3, 2, 2, 2, 3])
        .unwrap()
        .permute(&[0, 1, 3, 5, 2, 4])
        .unwrap();
    let patches = apart.reshape(&[2, 18, 4]).unwrap();
    let options = ConvOptions {
        stride: &[2, 3],
        ..ConvOptions::default()
    };
    near(&patches.fold(&[4, 6], &[2, 3], &options).unwrap(), &x);
    assert!(patches.fold(&[4, 7], &[2, 2], &options).is_err());
}

#[test]
fn sizes_that_no_number_holds_are_refused() {
    let pool = pool();
    let huge = 1 << 31;
    let (x, options) = (floats(&pool, &[1, 4, 4], 1), ConvOptions::default());
    assert!(x.fold(&[huge; 3], &[huge; 3], &options).is_err());
    assert!(x.fold(&[huge; 3], &[1; 3], &options).is_err());
    let column = floats(&pool, &[1, 1], 1)
        .broadcast_to(&[1 << 40, 1])
        .unwrap();
    let row = column.transpose(0, 1).unwrap();
    assert!(Tensor::einsum("ij,ij->ij", &[&column, &row]).is_err());
}

#[test]
fn a_kernel_that_is_not_deformed_is_plain() {
    let pool = pool();
    let (x, weight) = (
        floats(&pool, &[2, 4, 7, 6], 1),
        floats(&pool, &[6, 2, 3, 2], 2),
    );
    let bias = floats(&pool, &[6], 3);
    let options = ConvOptions {
        bias: Some(&bias),
        stride: &[2, 1],
        padding: &[(1, 0), (0, 2)],
        dilation: &[1, 2],
        groups: 2,
        ..ConvOptions::default()
    };
    let plain = x.conv(&weight, &options).unwrap();
    let offset = [2, 2 * 2 * 6, plain.shape()[2], plain.shape()[3]];
    let offset = Tensor::zeros(&pool, &offset, DType::F64).unwrap();
    near(
        &x.deform_conv(&weight, &offset, None, &options).unwrap(),
        &plain,
    );
    assert!(x.deform_conv(&weight, &plain, None, &options).is_err());
}

#[test]
fn a_regular_grid_gives_the_picture_back() {
    let pool = pool();
    let x = floats(&pool, &[2, 3, 5, 4], 6);
    let same = Tensor::eye(&pool, 2, 3, DType::F64)
        .unwrap()
        .broadcast_to(&[2, 2, 3])
        .unwrap();
    for align_corners in [false, true] {
        let grid = same.affine_grid(&[5, 4], align_corners).unwrap();
        for sampling in [Sampling::Nearest, Sampling::Linear, Sampling::Cubic] {
            for outside in [Outside::Zeros, Outside::Edge, Outside::Reflect] {
                let options = GridOptions {
                    sampling,
                    outside,
                    align_corners,
                };
                near(&x.grid_sample(&grid, &options).unwrap(), &x);
            }
        }
    }
    assert!(x.grid_sample(&same, &GridOptions::default()).is_err());
    assert!(x.affine_grid(&[5, 4], false).is_err());
}

#[test]
fn regions_take_as_many_samples_as_they_have_elements() {
    let pool = pool();
    let x = Tensor::arange(&pool, 0, 64, 1, DType::F64)
        .unwrap()
        .reshape(&[1, 1, 8, 8])
        .unwrap();
    let regions =
        Tensor::from_slice(&pool, &[0.0, 0.0, 8.0, 8.0, 2.0, 2.0, 4.0, 4.0], &[2, 4]).unwrap();
    let batches = Tensor::from_slice(&pool, &[0i64, 0], &[2]).unwrap();
    let options = RoiOptions {
        sizes: [2, 2],
        samples: 0,
        scale: 1.0,
        aligned: true,
        largest: false,
    };
    let found = x.roi_align(&regions, &batches, &options).unwrap();
    // The means of quarters, and the elements of a region of two by two.
    let expected = [13.5, 17.5, 45.5, 49.5, 18.0, 19.0, 26.0, 27.0];
    near(
        &found,
        &Tensor::from_slice(&pool, &expected, &[2, 1, 2, 2]).unwrap(),
    );
    let sizes = [usize::MAX / 2, 2];
    let endless = RoiOptions {
        sizes,
        samples: 4,
        ..options
    };
    assert!(x.roi_align(&regions, &batches, &endless).is_err());
}

#[test]
fn boxes_that_overlap_a_better_one_are_left_out() {
    let pool = pool();
    let boxes = [
        [0.0, 0.0, 2.0, 2.0],
        [0.0, 0.5, 2.0, 2.5],
        [5.0, 5.0, 6.0, 6.0],
        [9.0, 9.0, 8.0, 8.0],
    ];
    let boxes = Tensor::from_slice(&pool, boxes.as_flattened(), &[4, 4]).unwrap();
    let ratings = Tensor::from_slice(&pool, &[0.5, 0.75, 0.25, 0.9], &[4]).unwrap();
    let kept = |overlap, least| {
        let kept = boxes.non_max_suppression(&ratings, BoxFormat::Corners, overlap, least);
        kept.unwrap().to_vec::<i64>().unwrap()
    };
    assert_eq!(kept(0.5, 0.0), [3, 1, 2]);
    assert_eq!(kept(0.7, 0.0), [3, 1, 0, 2]);
    assert_eq!(kept(0.5, 0.5), [3, 1]);
    assert!(
        boxes
            .non_max_suppression(&boxes, BoxFormat::Center, 0.5, 0.0)
            .is_err()
    );
}

#[test]
fn turning_keeps_lengths() {
    let pool = pool();
    let (x, angle) = (floats(&pool, &[2, 3, 8], 1), floats(&pool, &[3, 4], 2));
    let (cos, sin) = (angle.cos().unwrap(), angle.sin().unwrap());
    for interleaved in [false, true] {
        let turned = x.rotary(&cos, &sin, interleaved).unwrap();
        let length = |x: &Tensor| x.square().unwrap().sum(&[-1], false).unwrap();
        near(&length(&turned), &length(&x));
        let back = turned
            .rotary(&cos, &sin.neg().unwrap(), interleaved)
            .unwrap();
        near(&back, &x);
    }
    assert!(
        x.narrow(2, 0, 7)
            .unwrap()
            .rotary(&cos, &sin, false)
            .is_err()
    );
}

#[test]
fn bits_are_kept() {
    let pool = pool();
    let x = Tensor::from_slice(&pool, &[1.0f32, -0.0, f32::NAN, 1e-40], &[2, 2]).unwrap();
    let bits = x.transpose(0, 1).unwrap().bit_cast(DType::U32).unwrap();
    let expected = [1.0f32, f32::NAN, -0.0, 1e-40].map(f32::to_bits);
    assert_eq!(bits.to_vec::<u32>().unwrap(), expected);
    assert!(x.bit_cast(DType::F64).is_err());
    let bytes = Tensor::from_slice(&pool, &[2u8], &[1]).unwrap();
    assert!(bytes.bit_cast(DType::Bool).is_err());
}

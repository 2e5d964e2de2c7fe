//! What goes in comes out: every type, every way in and out, casts, and moves to another pool.

use crate::common::pool;
use half::{bf16, f16};
use streampool_tensor::{DType, Encoder, Error, Tensor};

#[test]
fn every_type_comes_out_as_it_went_in() {
    let pool = pool();
    macro_rules! round {
        ($($type:ty: $values:expr;)*) => {$({
            let values: [$type; 3] = $values;
            let x = Tensor::from_slice(&pool, &values, &[3]).unwrap();
            assert_eq!(x.to_vec::<$type>().unwrap(), values);
            let mut out = values;
            out.reverse();
            x.flip(&[0]).unwrap().copy_to_slice(&mut out).unwrap();
            out.reverse();
            assert_eq!(out, values);
            assert_eq!(x.select(0, 1).unwrap().item::<$type>().unwrap(), values[1]);
            assert_eq!(Tensor::scalar(&pool, values[2]).unwrap().item::<$type>().unwrap(), values[2]);
            let again = Tensor::from_bytes(&pool, x.dtype(), &x.to_bytes().unwrap(), &[3, 1]).unwrap();
            assert_eq!(again.to_vec::<$type>().unwrap(), values);
        })*};
    }
    round! {
        f32: [1.5, -0.0, f32::INFINITY];
        f16: [1.5, -2.0, 6e-8].map(f16::from_f32);
        bf16: [1.5, -2.0, 3e38].map(bf16::from_f32);
        f64: [1e300, -1.0, 0.1];
        i8: [i8::MIN, 0, i8::MAX];
        i16: [i16::MIN, 0, i16::MAX];
        i32: [i32::MIN, 0, i32::MAX];
        i64: [i64::MIN, 0, i64::MAX];
        u8: [0, 1, u8::MAX];
        u16: [0, 1, u16::MAX];
        u32: [0, 1, u32::MAX];
        u64: [0, 1, u64::MAX];
        bool: [true, false, true];
    }
}

#[test]
fn patterns_are_what_they_say() {
    let pool = pool();
    let int = |start: i64, end: i64, step: i64| {
        let x = Tensor::arange(&pool, start, end, step, DType::I64).unwrap();
        x.to_vec::<i64>().unwrap()
    };
    assert_eq!(int(0, 5, 2), [0, 2, 4]);
    assert_eq!(int(5, 0, -2), [5, 3, 1]);
    assert_eq!(int(3, 3, 1), [0; 0]);
    assert_eq!(int(0, 5, -1), [0; 0]);
    let far = i64::MAX - 2;
    assert_eq!(int(far, i64::MAX, 1), [far, far + 1]);
    let halves = Tensor::arange(&pool, 0.0, 1.1, 0.5, DType::F32).unwrap();
    assert_eq!(halves.to_vec::<f32>().unwrap(), [0.0, 0.5, 1.0]);
    let even = Tensor::linspace(&pool, 0.0, 1.0, 5, DType::F64).unwrap();
    assert_eq!(even.to_vec::<f64>().unwrap(), [0.0, 0.25, 0.5, 0.75, 1.0]);
    let one = Tensor::linspace(&pool, 7.0, 9.0, 1, DType::F32).unwrap();
    assert_eq!(one.item::<f32>().unwrap(), 7.0);
    for (rows, columns) in [(2, 3), (3, 2), (0, 2), (1, 1)] {
        let eye = Tensor::eye(&pool, rows, columns, DType::F16).unwrap();
        let expected: Vec<f16> = (0..rows * columns)
            .map(|place| f16::from_f32(f32::from(u8::from(place / columns == place % columns))))
            .collect();
        assert_eq!(eye.to_vec::<f16>().unwrap(), expected);
    }
    for dtype in DType::ALL {
        let ones = Tensor::ones(&pool, &[2, 2], dtype).unwrap();
        let zeros = ones.full_like(0).unwrap();
        for (tensor, value) in [(ones, 1.0), (zeros, 0.0)] {
            let values = tensor.to_dtype(DType::F64).unwrap();
            assert_eq!(values.to_vec::<f64>().unwrap(), [value; 4], "{dtype}");
        }
    }
}

#[test]
fn casts_follow_the_words_of_the_contract() {
    let pool = pool();
    let x = Tensor::from_slice(&pool, &[-1.9f32, f32::NAN, 300.0, 0.0], &[4]).unwrap();
    let bytes = x.to_dtype(DType::U8).unwrap().to_vec::<u8>().unwrap();
    assert_eq!(bytes, [0, 0, 255, 0]);
    let truths = x.to_dtype(DType::Bool).unwrap().to_vec::<bool>().unwrap();
    assert_eq!(truths, [true, true, true, false]);
    let same = x.to_dtype(DType::F32).unwrap();
    assert_eq!(same.buffer().span(), x.buffer().span());
    // Of a view, too.
    let every_second = x.slice(0, .., 2).unwrap().to_dtype(DType::I32).unwrap();
    assert_eq!(every_second.to_vec::<i32>().unwrap(), [-1, 300]);
}

#[test]
fn nothing_is_a_value_too() {
    let pool = pool();
    for shape in [&[0][..], &[2, 0, 3], &[0; 8]] {
        let x = Tensor::zeros(&pool, shape, DType::F32).unwrap();
        assert_eq!(x.to_vec::<f32>().unwrap(), [0f32; 0]);
        assert_eq!(x.to_dtype(DType::I8).unwrap().shape(), shape);
        assert_eq!(x.contiguous().unwrap().elem_count(), 0);
        assert_eq!(x.reshape(&[0, 5]).unwrap().shape(), [0, 5]);
        x.synchronize().unwrap();
        assert!(x.item::<f32>().is_err());
    }
    let none: [bool; 0] = [];
    let x = Tensor::from_slice(&pool, &none, &[0, 3]).unwrap();
    assert_eq!(x.to_vec::<bool>().unwrap(), none);
}

#[test]
fn tensors_move_to_another_pool() {
    let (here, there) = (pool(), pool());
    let x = Tensor::arange(&here, 0, 6, 1, DType::I32).unwrap();
    let x = x.reshape(&[2, 3]).unwrap().transpose(0, 1).unwrap();
    let moved = x.to(&there).unwrap();
    assert_eq!(moved.to_vec::<i32>().unwrap(), [0, 3, 1, 4, 2, 5]);
    assert_eq!(moved.shape(), [3, 2]);
    assert_eq!(x.to(&here).unwrap().buffer().span(), x.buffer().span());
    // An operator of both is refused before anything is encoded.
    let on = moved.encoder("add").unwrap();
    assert!(on.with("other", [&moved]).is_ok());
    let refused = on.with("other", [&moved, &x]).map(drop).unwrap_err();
    let Error::OtherPool { op, argument, .. } = &refused else {
        panic!("{refused:?}");
    };
    assert_eq!((*op, *argument), ("add", "other"));
    assert!(refused.to_string().contains("on host"), "{refused}");
}

#[test]
fn what_does_not_fit_is_refused() {
    let pool = pool();
    let told = |result: Result<Tensor, Error>| result.unwrap_err().to_string();
    assert_eq!(
        told(Tensor::from_slice(&pool, &[1, 2, 3], &[2, 2])),
        "from_slice: shape has shape [2, 2], expected one of 3 elements, as many as values"
    );
    let limit = format!("expected at most 8 axes and {} elements", 1u64 << 48);
    assert_eq!(
        told(Tensor::zeros(&pool, &[1 << 40, 1 << 40], DType::F32)),
        format!("full: shape has shape [1099511627776, 1099511627776], {limit}")
    );
}

#[test]
fn wrong_types_and_lengths_are_told() {
    let pool = pool();
    let x = Tensor::zeros(&pool, &[2, 2], DType::F32).unwrap();
    assert_eq!(
        x.to_vec::<i32>().unwrap_err().to_string(),
        "to_vec: self is of type f32, expected i32, the type asked for: convert it with `to_dtype`"
    );
    assert_eq!(
        x.item::<f32>().unwrap_err().to_string(),
        "item: self has shape [2, 2], expected one element"
    );
    assert!(x.copy_to_slice(&mut [0f32; 3]).is_err());
    assert!(Tensor::from_bytes(&pool, DType::F32, &[0; 7], &[2]).is_err());
    let bad = Tensor::from_bytes(&pool, DType::Bool, &[0, 2], &[2]);
    assert!(bad.unwrap_err().to_string().contains("byte 2 for a bool"));
    assert!(Tensor::zeros(&pool, &[1; 9], DType::F32).is_err());
    assert!(Tensor::zeros(&pool, &[1 << 62], DType::F64).is_err());
    for step in [0.0, f64::NAN] {
        assert!(Tensor::arange(&pool, 0, 5, step, DType::F32).is_err());
    }
    assert!(Tensor::arange(&pool, 0.0, 1e300, 1e-300, DType::F32).is_err());
    assert!(Tensor::arange(&pool, 0, 2, 1, DType::Bool).is_err());
    assert!(Tensor::linspace(&pool, 0.0, f64::INFINITY, 5, DType::F32).is_err());
    assert!(
        Encoder::new("x", &pool)
            .unwrap()
            .blank(DType::F64, &[1 << 60])
            .is_err()
    );
}

//! Arrays of the crate `ndarray`, in and out.

#![cfg(feature = "ndarray")]

use crate::common::pool;
use ndarray::{Array2, arr0, array, s};
use streampool_tensor::{Array, DType, Tensor};

#[test]
fn arrays_go_in_and_come_out() {
    let pool = pool();
    let a = Array2::from_shape_fn((3, 4), |(i, j)| (10 * i + j) as f32);
    let x = Tensor::from_ndarray(&pool, &a).unwrap();
    assert_eq!(x.to_ndarray::<f32>().unwrap(), a.clone().into_dyn());
    // However the array lies in memory.
    for view in [a.t(), a.slice(s![..;-1, 1..;2])] {
        let x = Tensor::from_ndarray(&pool, &view).unwrap();
        assert_eq!(x.shape(), view.shape());
        assert_eq!(x.to_ndarray::<f32>().unwrap(), view.to_owned().into_dyn());
    }
    // And however the tensor does.
    let turned = x.transpose(0, 1).unwrap().to_ndarray::<f32>().unwrap();
    assert_eq!(turned, a.t().to_owned().into_dyn());
}

#[test]
fn scalars_empty_ones_and_wrong_types() {
    let pool = pool();
    let x = Tensor::from_ndarray(&pool, &arr0(7i64)).unwrap();
    assert_eq!(x.rank(), 0);
    assert_eq!(x.to_ndarray::<i64>().unwrap(), arr0(7i64).into_dyn());
    let x = Tensor::from_ndarray(&pool, &Array2::<u8>::zeros((0, 3))).unwrap();
    assert_eq!(x.to_ndarray::<u8>().unwrap().shape(), [0, 3]);
    let x = Tensor::from_ndarray(&pool, &array![true, false]).unwrap();
    assert!(x.to_ndarray::<u8>().is_err());
}

#[test]
fn arrays_come_in_and_are_seen_without_a_copy() {
    let a = array![[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]];
    let own = Array::try_from(&a).unwrap();
    assert_eq!((own.shape(), own.dtype()), (&[2, 3][..], DType::F32));
    let view = own.view::<f32>().unwrap();
    assert_eq!(view, a.view().into_dyn());
    assert_eq!(view.as_ptr().cast::<u8>(), own.bytes().as_ptr());
    // Also what lies otherwise in memory.
    let turned = Array::try_from(&a.t()).unwrap();
    assert_eq!(
        turned.values::<f32>().unwrap(),
        [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]
    );
    assert_eq!(turned.view::<f32>().unwrap(), a.t().into_dyn());
    let yes = Array::try_from(&arr0(true)).unwrap();
    assert_eq!(yes.values::<bool>().unwrap(), [true]);
    let none = Array::try_from(&Array2::<u8>::zeros((0, 3))).unwrap();
    assert_eq!(none.shape(), [0, 3]);
    assert!(own.view::<i32>().is_err());
    assert_eq!(
        own,
        Array::from_vec(vec![1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3]).unwrap()
    );
}

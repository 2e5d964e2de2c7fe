//! DLPack: what is exported can be read and imported again, and every deleter is called once.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::pool;
use streampool_tensor::dlpack::{
    DLDataType, DLDevice, DLManagedTensor, DLManagedTensorVersioned, DLPackVersion, DLTensor,
};
use streampool_tensor::{DType, Pool, Tensor};

const HOST: DLDevice = DLDevice {
    device_type: 1,
    device_id: 0,
};
const F32: DLDataType = DLDataType {
    code: 2,
    bits: 32,
    lanes: 1,
};

/// A tensor of another library: its memory, aligned to 256 bytes, and a count of the calls of its deleter.
struct Foreign {
    values: Box<[Line]>,
    shape: Vec<i64>,
    strides: Vec<i64>,
    deleted: Arc<AtomicUsize>,
}

#[repr(C, align(256))]
#[derive(Clone, Copy)]
struct Line([f32; 64]);

impl Foreign {
    /// The numbers from 0 on; `first` is where the tensor begins.
    fn managed(
        shape: &[i64],
        strides: &[i64],
        first: u64,
    ) -> (DLManagedTensorVersioned, Arc<AtomicUsize>) {
        let deleted = Arc::new(AtomicUsize::new(0));
        let values = (0..4).map(|line| Line(std::array::from_fn(|at| (64 * line + at) as f32)));
        let mut foreign = Box::new(Foreign {
            values: values.collect(),
            shape: shape.to_vec(),
            strides: strides.to_vec(),
            deleted: deleted.clone(),
        });
        let tensor = DLTensor {
            data: foreign.values.as_mut_ptr().cast(),
            device: HOST,
            ndim: shape.len() as i32,
            dtype: F32,
            shape: foreign.shape.as_mut_ptr(),
            strides: match strides {
                [] => null_mut(),
                _ => foreign.strides.as_mut_ptr(),
            },
            byte_offset: 4 * first,
        };
        let managed = DLManagedTensorVersioned {
            version: DLPackVersion { major: 1, minor: 1 },
            manager_ctx: Box::into_raw(foreign).cast::<c_void>(),
            deleter: Some(Foreign::delete),
            flags: 0,
            dl_tensor: tensor,
        };
        (managed, deleted)
    }

    unsafe extern "C" fn delete(managed: *mut DLManagedTensorVersioned) {
        // SAFETY: the address of the box, put there by `managed`; it is called once, which tests check.
        let foreign = unsafe { Box::from_raw((*managed).manager_ctx.cast::<Foreign>()) };
        foreign.deleted.fetch_add(1, Ordering::SeqCst);
    }
}

fn import(pool: &Pool, managed: &mut DLManagedTensorVersioned) -> Result<Tensor, String> {
    // SAFETY: a structure of this test, filled and not written again, which outlives the tensor.
    unsafe { Tensor::from_dlpack(pool, managed) }.map_err(|error| error.to_string())
}

#[test]
fn aligned_memory_of_the_host_is_used_where_it_is() {
    let pool = pool();
    let (mut managed, deleted) = Foreign::managed(&[3, 4], &[], 64);
    let home = managed.dl_tensor.data as u64 + 256;
    let x = import(&pool, &mut managed).unwrap();
    assert_eq!(x.buffer().span().handle, home);
    let expected: Vec<f32> = (64..76).map(|value| value as f32).collect();
    assert_eq!(x.to_vec::<f32>().unwrap(), expected);
    let view = x.select(0, 2).unwrap();
    drop(x);
    pool.synchronize().unwrap();
    assert_eq!(deleted.load(Ordering::SeqCst), 0, "a view still uses it");
    assert_eq!(view.to_vec::<f32>().unwrap(), expected[8..]);
    drop((view, pool));
    assert_eq!(deleted.load(Ordering::SeqCst), 1);
}

#[test]
fn other_memory_of_the_host_is_copied_and_let_go_at_once() {
    let pool = pool();
    for (shape, strides, first, expected) in [
        (&[2, 3][..], &[][..], 1, vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
        (&[2, 2], &[1, 10], 3, vec![3.0, 13.0, 4.0, 14.0]),
        (&[3], &[-2], 9, vec![9.0, 7.0, 5.0]),
        (&[2, 2], &[0, 1], 5, vec![5.0, 6.0, 5.0, 6.0]),
        (&[], &[], 7, vec![7.0]),
        (&[0, 4], &[], 1, vec![]),
    ] {
        let (mut managed, deleted) = Foreign::managed(shape, strides, first);
        let x = import(&pool, &mut managed).unwrap();
        assert_eq!(deleted.load(Ordering::SeqCst), 1);
        assert_eq!(x.to_vec::<f32>().unwrap(), expected);
    }
}

#[test]
fn what_is_not_understood_is_refused_and_let_go() {
    let pool = pool();
    let refused = |change: &dyn Fn(&mut DLManagedTensorVersioned), expected: &str| {
        let (mut managed, deleted) = Foreign::managed(&[2, 3], &[3, 1], 0);
        change(&mut managed);
        let message = import(&pool, &mut managed).unwrap_err();
        assert!(message.contains(expected), "{message}");
        assert_eq!(deleted.load(Ordering::SeqCst), 1, "{message}");
    };
    refused(&|m| m.version.major = 2, "version is 2.1");
    refused(&|m| m.dl_tensor.ndim = -1, "ndim is -1");
    refused(&|m| m.dl_tensor.ndim = 9, "ndim is 9");
    refused(&|m| m.dl_tensor.dtype.lanes = 4, "dtype is");
    refused(&|m| m.dl_tensor.dtype.bits = 4, "dtype is");
    refused(&|m| m.dl_tensor.shape = null_mut(), "shape is null");
    refused(&|m| m.dl_tensor.data = null_mut(), "data is 0x0");
    refused(
        &|m| m.dl_tensor.byte_offset = 2,
        "an address aligned for f32",
    );
    refused(
        &|m| m.dl_tensor.device.device_type = 2,
        "is in a pool on DLPack device",
    );
    // SAFETY: null is refused before it is looked at.
    let null = unsafe { Tensor::from_dlpack::<DLManagedTensor>(&pool, null_mut()) };
    assert!(null.is_err());
    let (mut managed, deleted) = Foreign::managed(&[2, -3], &[], 0);
    assert!(
        import(&pool, &mut managed)
            .unwrap_err()
            .contains("shape is [2, -3]")
    );
    let (mut wide, more) = Foreign::managed(&[i64::MAX, i64::MAX], &[], 0);
    assert!(import(&pool, &mut wide).is_err());
    assert_eq!(
        deleted.load(Ordering::SeqCst) + more.load(Ordering::SeqCst),
        2
    );
}

#[test]
fn what_is_exported_is_described_and_kept_alive() {
    let pool = pool();
    let x = Tensor::arange(&pool, 0, 12, 1, DType::F32).unwrap();
    let turned = x
        .reshape(&[3, 4])
        .unwrap()
        .narrow(1, 1, 2)
        .unwrap()
        .transpose(0, 1)
        .unwrap();
    let raw = turned
        .to_dlpack::<DLManagedTensorVersioned>()
        .unwrap()
        .into_raw();
    drop((x, turned, pool));
    // SAFETY: the structure is ours until its deleter is called, below.
    unsafe {
        let tensor = &(*raw).dl_tensor;
        assert_eq!((tensor.ndim, tensor.device, tensor.dtype), (2, HOST, F32));
        assert_eq!((tensor.byte_offset, (*raw).flags), (4, 1));
        assert_eq!(std::slice::from_raw_parts(tensor.shape, 2), [2, 3]);
        assert_eq!(std::slice::from_raw_parts(tensor.strides, 2), [1, 4]);
        let first = tensor.data.cast::<f32>().add(1);
        let values: Vec<f32> = [0, 4, 8, 1].map(|at| *first.add(at)).to_vec();
        assert_eq!(values, [1.0, 5.0, 9.0, 2.0]);
        (*raw).deleter.unwrap()(raw);
    }
}

#[test]
fn every_type_goes_out_and_comes_in_by_either_structure() {
    let pool = pool();
    let other = crate::common::pool();
    for dtype in DType::ALL {
        let x = Tensor::arange(&pool, 0, 6, 1, DType::I32).unwrap();
        let x = x
            .to_dtype(dtype)
            .unwrap()
            .reshape(&[2, 3])
            .unwrap()
            .flip(&[1])
            .unwrap();
        let (new, old) = (
            x.to_dlpack::<DLManagedTensorVersioned>(),
            x.to_dlpack::<DLManagedTensor>(),
        );
        let (new, old) = (new.unwrap().into_raw(), old.unwrap().into_raw());
        // SAFETY: both were just exported, and are handed over here.
        let both = unsafe {
            [
                Tensor::from_dlpack(&other, new),
                Tensor::from_dlpack(&other, old),
            ]
        };
        for again in both {
            let again = again.unwrap();
            assert_eq!((again.dtype(), again.shape()), (dtype, x.shape()));
            assert_eq!(again.to_bytes().unwrap(), x.to_bytes().unwrap());
        }
        // Not handed over, it lets go by itself.
        drop(x.to_dlpack::<DLManagedTensor>().unwrap());
    }
}

//! The structures of `dlpack.h`, and what its numbers mean.

use std::ffi::c_void;

use streampool_device::{DType, DeviceKind};
use streampool_runtime::Pool;

/// The consumer must not write.
const READ_ONLY: u64 = 1;

const CPU: i32 = 1;
const CUDA: i32 = 2;
const CUDA_HOST: i32 = 3;

/// Which version of the structures it is.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DLPackVersion {
    /// Another major number is another structure.
    pub major: u32,
    /// A higher minor number adds values.
    pub minor: u32,
}

/// The version that is exported.
pub(super) const VERSION: DLPackVersion = DLPackVersion { major: 1, minor: 0 };

/// Where memory is.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DLDevice {
    /// The kind of device: 1 is the CPU, 2 is CUDA, 3 is pinned memory of the host.
    pub device_type: i32,
    /// Which one of its kind.
    pub device_id: i32,
}

/// What elements are.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DLDataType {
    /// The kind of number.
    pub code: u8,
    /// Its width.
    pub bits: u8,
    /// How many there are in one element.
    pub lanes: u16,
}

/// Elements in memory.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct DLTensor {
    /// The memory.
    pub data: *mut c_void,
    /// Where it is.
    pub device: DLDevice,
    /// The number of axes.
    pub ndim: i32,
    /// What the elements are.
    pub dtype: DLDataType,
    /// The size of each axis.
    pub shape: *mut i64,
    /// The stride of each axis in elements; null for row-major elements without gaps.
    pub strides: *mut i64,
    /// Where the first element is, in bytes behind `data`.
    pub byte_offset: u64,
}

/// A tensor and who owns it, up to version 0.8.
#[repr(C)]
#[derive(Debug)]
pub struct DLManagedTensor {
    /// The tensor.
    pub dl_tensor: DLTensor,
    /// The owner's own.
    pub manager_ctx: *mut c_void,
    /// Called by the consumer when it is done.
    pub deleter: Option<unsafe extern "C" fn(*mut DLManagedTensor)>,
}

/// A tensor and who owns it, from version 1.0 on.
#[repr(C)]
#[derive(Debug)]
pub struct DLManagedTensorVersioned {
    /// The version of this structure.
    pub version: DLPackVersion,
    /// The owner's own.
    pub manager_ctx: *mut c_void,
    /// Called by the consumer when it is done.
    pub deleter: Option<unsafe extern "C" fn(*mut DLManagedTensorVersioned)>,
    /// Bit 0: it must not be written.
    pub flags: u64,
    /// The tensor.
    pub dl_tensor: DLTensor,
}

/// Either structure of a tensor and who owns it.
pub trait Managed: sealed::Sealed + Sized + 'static {
    #[doc(hidden)]
    fn new(tensor: DLTensor, owner: *mut c_void, deleter: unsafe extern "C" fn(*mut Self)) -> Self;
    #[doc(hidden)]
    fn tensor(&self) -> &DLTensor;
    #[doc(hidden)]
    fn owner(&self) -> *mut c_void;
    #[doc(hidden)]
    fn deleter(&self) -> Option<unsafe extern "C" fn(*mut Self)>;
    /// The version, where the structure tells it.
    #[doc(hidden)]
    fn version(&self) -> Option<DLPackVersion>;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::DLManagedTensor {}
    impl Sealed for super::DLManagedTensorVersioned {}
}

impl Managed for DLManagedTensor {
    fn new(tensor: DLTensor, owner: *mut c_void, deleter: unsafe extern "C" fn(*mut Self)) -> Self {
        DLManagedTensor {
            dl_tensor: tensor,
            manager_ctx: owner,
            deleter: Some(deleter),
        }
    }

    fn tensor(&self) -> &DLTensor {
        &self.dl_tensor
    }

    fn owner(&self) -> *mut c_void {
        self.manager_ctx
    }

    fn deleter(&self) -> Option<unsafe extern "C" fn(*mut Self)> {
        self.deleter
    }

    fn version(&self) -> Option<DLPackVersion> {
        None
    }
}

impl Managed for DLManagedTensorVersioned {
    fn new(tensor: DLTensor, owner: *mut c_void, deleter: unsafe extern "C" fn(*mut Self)) -> Self {
        DLManagedTensorVersioned {
            version: VERSION,
            manager_ctx: owner,
            deleter: Some(deleter),
            flags: READ_ONLY,
            dl_tensor: tensor,
        }
    }

    fn tensor(&self) -> &DLTensor {
        &self.dl_tensor
    }

    fn owner(&self) -> *mut c_void {
        self.manager_ctx
    }

    fn deleter(&self) -> Option<unsafe extern "C" fn(*mut Self)> {
        self.deleter
    }

    fn version(&self) -> Option<DLPackVersion> {
        Some(self.version)
    }
}

impl DLDataType {
    /// What `dtype` is called.
    pub(super) fn of(dtype: DType) -> DLDataType {
        let code = match dtype {
            DType::Bool => 6,
            DType::BF16 => 4,
            float if float.is_float() => 2,
            DType::U8 | DType::U16 | DType::U32 | DType::U64 => 1,
            _ => 0,
        };
        DLDataType {
            code,
            bits: 8 * dtype.size() as u8,
            lanes: 1,
        }
    }

    /// The type that is called so.
    pub fn dtype(self) -> Option<DType> {
        DType::ALL
            .into_iter()
            .find(|&dtype| DLDataType::of(dtype) == self)
    }
}

impl DLDevice {
    /// The device of `pool`, if its memory has addresses.
    pub fn of(pool: &Pool) -> Option<DLDevice> {
        let properties = pool.device().properties();
        let (device_type, device_id) = match properties.kind {
            DeviceKind::Host => (CPU, 0),
            DeviceKind::Cuda => {
                // `cuda`, `cuda:1`, and `cuda:1#2` where a GPU was opened twice.
                let name = properties.name.split('#').next()?;
                let number = name.split_once(':').map_or("0", |(_, number)| number);
                (CUDA, number.parse().ok()?)
            }
            DeviceKind::Metal => return None,
        };
        Some(DLDevice {
            device_type,
            device_id,
        })
    }

    /// Whether the host can read its memory.
    pub(super) fn is_host(self) -> bool {
        matches!(self.device_type, CPU | CUDA_HOST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_has_one_name() {
        for dtype in DType::ALL {
            assert_eq!(DLDataType::of(dtype).dtype(), Some(dtype));
        }
        let pair = DLDataType {
            lanes: 2,
            ..DLDataType::of(DType::F32)
        };
        assert_eq!(pair.dtype(), None);
    }

    #[test]
    fn the_structures_are_those_of_the_header() {
        assert_eq!(size_of::<DLTensor>(), 48);
        assert_eq!(std::mem::offset_of!(DLTensor, byte_offset), 40);
        assert_eq!(size_of::<DLManagedTensor>(), 64);
        assert_eq!(size_of::<DLManagedTensorVersioned>(), 80);
        assert_eq!(
            std::mem::offset_of!(DLManagedTensorVersioned, dl_tensor),
            32
        );
    }
}

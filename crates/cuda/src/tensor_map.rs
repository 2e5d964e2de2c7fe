//! Tensor maps: how the GPU's copy engine finds tiles of an operand.

use cudarc::driver::sys::{
    self, CUdeviceptr, CUresult, CUtensorMap, CUtensorMapDataType, CUtensorMapFloatOOBfill,
    CUtensorMapInterleave, CUtensorMapL2promotion, CUtensorMapSwizzle,
};
use streampool_device::DType;
use streampool_kernels::{MAP_BYTES, Params, TensorMap};

use crate::context::{Context, Failure};

/// Parameters that begin with maps have a multiple of so many bytes.
const ALIGNMENT: usize = 64;

/// The bytes of parameters that begin with maps, in a launch whose operands are at `addresses`. The driver computes maps, on the host.
pub(crate) fn written(
    context: &Context,
    params: &Params,
    addresses: &[CUdeviceptr],
) -> Result<Vec<u8>, Failure> {
    let mut written = params.as_bytes().to_vec();
    written.resize(written.len().next_multiple_of(ALIGNMENT), 0);
    for (map, bytes) in params
        .maps()
        .iter()
        .zip(written.chunks_exact_mut(MAP_BYTES))
    {
        let encoded = encoded(context, map, addresses)?;
        for (to, word) in bytes.chunks_exact_mut(8).zip(encoded.opaque) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
    }
    Ok(written)
}

fn encoded(
    context: &Context,
    map: &TensorMap,
    addresses: &[CUdeviceptr],
) -> Result<CUtensorMap, Failure> {
    let operand = addresses.get(map.operand);
    let address = operand.and_then(|operand| operand.checked_add(map.offset as u64));
    let invalid = Failure::Call("cuTensorMapEncodeTiled", CUresult::CUDA_ERROR_INVALID_VALUE);
    let address = address.ok_or(invalid)?;
    let (sizes, strides) = (
        map.sizes.map(|size| size as u64),
        map.strides.map(|stride| stride as u64),
    );
    let (tile, every) = ([map.tile[0], map.tile[1], 1], [1; 3]);
    let mut encoded = CUtensorMap { opaque: [0; 16] };
    // SAFETY: it reads three sizes, two strides, and three numbers of each of the last, and writes the map. The address is that
    // of memory of the device, which it does not touch.
    let result = unsafe {
        sys::cuTensorMapEncodeTiled(
            &mut encoded,
            match map.dtype {
                DType::BF16 => CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
                _ => CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
            },
            sizes.len() as u32,
            std::ptr::with_exposed_provenance_mut(address as usize),
            sizes.as_ptr(),
            strides.as_ptr(),
            tile.as_ptr(),
            every.as_ptr(),
            CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
            match tile[0] as usize * map.dtype.size() {
                64 => CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_64B,
                _ => CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_128B,
            },
            CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
            CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
    };
    context.check("cuTensorMapEncodeTiled", result)?;
    Ok(encoded)
}

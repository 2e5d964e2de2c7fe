//! How the copy engine finds tiles: what the driver takes. No kernel reads a map here, because those that do have another way to their
//! tiles on a CPU.

use std::ffi::c_void;

use cudarc::driver::sys::CUresult;

const MOST_RANK: usize = 5;
const MOST_SIZE: u64 = 1 << 32;
const MOST_STRIDE: u64 = 1 << 40;
const MOST_OF_TILE: u32 = 256;
const MOST_STEP: u32 = 8;
const MAP_ALIGNMENT: usize = 64;
const ALIGNMENT: u64 = 16;

#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments, reason = "it is NVIDIA's")]
pub extern "C" fn cuTensorMapEncodeTiled(
    map: Option<&mut [u64; 16]>,
    ty: u32,
    rank: u32,
    address: *mut c_void,
    sizes: *const u64,
    strides: *const u64,
    tile: *const u32,
    steps: *const u32,
    interleave: u32,
    swizzle: u32,
    _promotion: u32,
    _fill: u32,
) -> CUresult {
    let rank = rank as usize;
    let is_null = sizes.is_null() || strides.is_null() || tile.is_null() || steps.is_null();
    let bytes = match ty {
        // FLOAT16 and BFLOAT16: no other is asked for.
        6 | 9 => 2,
        _ => return CUresult::CUDA_ERROR_NOT_SUPPORTED,
    };
    let Some(map) = map.filter(|_| !is_null && (3..=MOST_RANK).contains(&rank)) else {
        return CUresult::CUDA_ERROR_INVALID_VALUE;
    };
    // SAFETY: a caller in C vouches for as many numbers as there are axes, and one stride less.
    let (sizes, strides, tile, steps) = unsafe {
        (
            std::slice::from_raw_parts(sizes, rank),
            std::slice::from_raw_parts(strides, rank - 1),
            std::slice::from_raw_parts(tile, rank),
            std::slice::from_raw_parts(steps, rank),
        )
    };
    let line = tile[0] * bytes;
    let most_line = match (interleave, swizzle) {
        (0, 0) => u32::MAX,
        (0, kind @ 1..=3) => 16 << kind,
        _ => return CUresult::CUDA_ERROR_NOT_SUPPORTED,
    };
    let is_right = std::ptr::from_ref(map).addr().is_multiple_of(MAP_ALIGNMENT)
        && !address.is_null()
        && (address.addr() as u64).is_multiple_of(ALIGNMENT)
        && sizes.iter().all(|size| (1..=MOST_SIZE).contains(size))
        && strides
            .iter()
            .all(|stride| stride.is_multiple_of(ALIGNMENT) && *stride < MOST_STRIDE)
        && tile.iter().all(|side| (1..=MOST_OF_TILE).contains(side))
        && steps.iter().all(|step| (1..=MOST_STEP).contains(step))
        && u64::from(line).is_multiple_of(ALIGNMENT)
        && line <= most_line;
    if !is_right {
        return CUresult::CUDA_ERROR_INVALID_VALUE;
    }
    map.fill(1);
    CUresult::CUDA_SUCCESS
}

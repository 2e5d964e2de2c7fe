//! A GPU that is lost: it takes the whole process with it, so this test has one.

mod common;

use common::*;
use cudarc::driver::sys::CUresult::*;
use streampool_cuda_sim::api::*;

#[test]
fn a_lost_gpu_answers_every_call_with_its_loss() {
    begin();
    let (stream, memory) = (stream(), device_memory());
    ok(cuStreamSynchronize(stream));
    cudaSimLose();
    for answer in [
        cuStreamSynchronize(stream),
        cuStreamQuery(stream),
        cuMemcpyDtoDAsync_v2(memory, memory, BYTES, stream),
        cuMemFree_v2(memory),
        cuStreamDestroy_v2(stream),
    ] {
        assert_eq!(answer, CUDA_ERROR_ECC_UNCORRECTABLE);
    }
}

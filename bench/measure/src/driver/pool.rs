//! The driver's memory pool, made to keep what it has.

use cudarc::driver::sys::{self, CUmemPool_attribute, CUmemoryPool};
use streampool_console::Result;
use streampool_cuda::ceiling::BareStream;

const THRESHOLD: CUmemPool_attribute = CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;

/// The default pool of a GPU, which gives nothing back as long as this lives.
pub struct GreedyPool<'s> {
    bare: &'s BareStream,
    pool: CUmemoryPool,
    threshold_before: u64,
}

impl<'s> GreedyPool<'s> {
    /// That of the stream's GPU.
    pub fn of(bare: &'s BareStream) -> Result<GreedyPool<'s>> {
        let _bound = bare.bind()?;
        let mut pool = std::ptr::null_mut();
        // SAFETY: the GPU is there; one handle is written.
        let result = unsafe { sys::cuDeviceGetDefaultMemPool(&mut pool, bare.device()) };
        bare.check("cuDeviceGetDefaultMemPool", result)?;
        let mut threshold_before = 0u64;
        let value = std::ptr::from_mut(&mut threshold_before).cast();
        // SAFETY: the attribute is one number of 64 bits, as is what it is written to.
        let result = unsafe { sys::cuMemPoolGetAttribute(pool, THRESHOLD, value) };
        bare.check("cuMemPoolGetAttribute", result)?;
        let greedy = GreedyPool {
            bare,
            pool,
            threshold_before,
        };
        greedy.set_threshold(u64::MAX)?;
        Ok(greedy)
    }

    fn set_threshold(&self, mut bytes: u64) -> Result<()> {
        let value = std::ptr::from_mut(&mut bytes).cast();
        // SAFETY: the attribute is one number of 64 bits, as is what is given.
        let result = unsafe { sys::cuMemPoolSetAttribute(self.pool, THRESHOLD, value) };
        Ok(self.bare.check("cuMemPoolSetAttribute", result)?)
    }
}

impl Drop for GreedyPool<'_> {
    fn drop(&mut self) {
        // On a lost device there is nothing to put back.
        if let Ok(_bound) = self.bare.bind()
            && self.set_threshold(self.threshold_before).is_ok()
        {
            // SAFETY: the pool is the GPU's own and always there.
            unsafe { sys::cuMemPoolTrimTo(self.pool, 0) };
        }
    }
}

//! The driver's memory pool, made to keep what it has.

use std::sync::Arc;

use cudarc::driver::sys::{self, CUmemPool_attribute, CUmemoryPool};

use crate::context::{Context, Failure};

const THRESHOLD: CUmemPool_attribute = CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;

/// The default pool of a GPU, which gives nothing back as long as this lives.
pub(super) struct GreedyPool {
    context: Arc<Context>,
    pool: CUmemoryPool,
    threshold_before: u64,
}

impl GreedyPool {
    pub fn of(context: &Arc<Context>) -> Result<GreedyPool, Failure> {
        let _bound = context.bind()?;
        let mut pool = std::ptr::null_mut();
        // SAFETY: the GPU is there; one handle is written.
        let result = unsafe { sys::cuDeviceGetDefaultMemPool(&mut pool, context.device()) };
        context.check("cuDeviceGetDefaultMemPool", result)?;
        let mut threshold_before = 0u64;
        let value = std::ptr::from_mut(&mut threshold_before).cast();
        // SAFETY: the attribute is one number of 64 bits, as is what it is written to.
        let result = unsafe { sys::cuMemPoolGetAttribute(pool, THRESHOLD, value) };
        context.check("cuMemPoolGetAttribute", result)?;
        let greedy = GreedyPool {
            context: context.clone(),
            pool,
            threshold_before,
        };
        greedy.set_threshold(u64::MAX)?;
        Ok(greedy)
    }

    fn set_threshold(&self, mut bytes: u64) -> Result<(), Failure> {
        let value = std::ptr::from_mut(&mut bytes).cast();
        // SAFETY: the attribute is one number of 64 bits, as is what is given.
        let result = unsafe { sys::cuMemPoolSetAttribute(self.pool, THRESHOLD, value) };
        self.context.check("cuMemPoolSetAttribute", result)
    }
}

impl Drop for GreedyPool {
    fn drop(&mut self) {
        // On a lost device there is nothing to put back.
        if let Ok(_bound) = self.context.bind()
            && self.set_threshold(self.threshold_before).is_ok()
        {
            // SAFETY: the pool is the GPU's own and always there.
            unsafe { sys::cuMemPoolTrimTo(self.pool, 0) };
        }
    }
}

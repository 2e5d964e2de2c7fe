//! The two ways to get a large block of device memory, which the choice between them is measured by.

use std::sync::Arc;

use cudarc::driver::sys::{
    self, CUdeviceptr, CUmemAccess_flags, CUmemAccessDesc, CUmemAllocationGranularity_flags,
    CUmemAllocationHandleType, CUmemAllocationProp, CUmemAllocationProp_st__bindgen_ty_1,
    CUmemAllocationType, CUmemLocation, CUmemLocationType,
};

use crate::context::{Context, Failure};

/// A block from `cuMemAlloc`, over and over.
pub(super) struct Plain {
    context: Arc<Context>,
    bytes: usize,
}

impl Plain {
    pub fn new(context: Arc<Context>, bytes: usize) -> Plain {
        Plain { context, bytes }
    }

    /// Takes the block and gives it back. The context is bound.
    pub fn allocate_and_free(&mut self) -> Result<(), Failure> {
        let mut address = 0;
        // SAFETY: the context is bound; one address is written.
        let result = unsafe { sys::cuMemAlloc_v2(&mut address, self.bytes) };
        self.context.check("cuMemAlloc", result)?;
        // SAFETY: it was just allocated, and nothing uses it.
        let result = unsafe { sys::cuMemFree_v2(address) };
        self.context.check("cuMemFree", result)
    }
}

/// A range of addresses to which memory is mapped, over and over.
pub(super) struct Mapped {
    context: Arc<Context>,
    memory: CUmemAllocationProp,
    address: CUdeviceptr,
    bytes: usize,
}

// SAFETY: the null pointer among the properties, which is all that keeps this on its thread, is never followed.
unsafe impl Send for Mapped {}

impl Mapped {
    /// Reserves addresses for at least `bytes`: memory is mapped in multiples of what the GPU asks for.
    pub fn new(context: Arc<Context>, bytes: usize) -> Result<Mapped, Failure> {
        let _bound = context.bind()?;
        let memory = CUmemAllocationProp {
            type_: CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
            requestedHandleTypes: CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE,
            location: CUmemLocation {
                type_: CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
                id: context.device(),
            },
            win32HandleMetaData: std::ptr::null_mut(),
            allocFlags: CUmemAllocationProp_st__bindgen_ty_1 {
                compressionType: 0,
                gpuDirectRDMACapable: 0,
                usage: 0,
                reserved: [0; 4],
            },
        };
        let mut grain = 0;
        // SAFETY: the properties are filled in; one number is written.
        let result = unsafe {
            sys::cuMemGetAllocationGranularity(
                &mut grain,
                &memory,
                CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_MINIMUM,
            )
        };
        context.check("cuMemGetAllocationGranularity", result)?;
        let bytes = bytes.next_multiple_of(grain.max(1));
        let mut address = 0;
        // SAFETY: the context is bound; one address is written.
        let result = unsafe { sys::cuMemAddressReserve(&mut address, bytes, 0, 0, 0) };
        context.check("cuMemAddressReserve", result)?;
        Ok(Mapped {
            context,
            memory,
            address,
            bytes,
        })
    }

    /// Creates memory, maps it so that the GPU may use it, and takes both back. The context is bound.
    pub fn map_and_unmap(&mut self) -> Result<(), Failure> {
        let mut handle = 0;
        // SAFETY: the properties are those that the size was rounded for; one handle is written.
        let result = unsafe { sys::cuMemCreate(&mut handle, self.bytes, &self.memory, 0) };
        self.context.check("cuMemCreate", result)?;
        // SAFETY: addresses and memory are ours and as long.
        let result = unsafe { sys::cuMemMap(self.address, self.bytes, 0, handle, 0) };
        let mapped = self.context.check("cuMemMap", result);
        // SAFETY: the handle is ours; a mapping keeps the memory by itself.
        let result = unsafe { sys::cuMemRelease(handle) };
        mapped?;
        let released = self.context.check("cuMemRelease", result);
        let access = CUmemAccessDesc {
            location: self.memory.location,
            flags: CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        };
        // SAFETY: the range was just mapped; one description is given.
        let result = unsafe { sys::cuMemSetAccess(self.address, self.bytes, &access, 1) };
        let opened = self.context.check("cuMemSetAccess", result);
        // SAFETY: the range was mapped above, and nothing uses it.
        let result = unsafe { sys::cuMemUnmap(self.address, self.bytes) };
        released?;
        opened?;
        self.context.check("cuMemUnmap", result)
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        if let Ok(_bound) = self.context.bind() {
            // SAFETY: the addresses were reserved by `new`, and nothing is mapped to them.
            unsafe { sys::cuMemAddressFree(self.address, self.bytes) };
        }
    }
}

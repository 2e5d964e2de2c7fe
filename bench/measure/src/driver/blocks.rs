//! The two ways to get a large block of device memory, by which the choice between them is measured.

use std::marker::PhantomData;

use cudarc::driver::sys::{
    self, CUdeviceptr, CUmemAccess_flags, CUmemAccessDesc, CUmemAllocationGranularity_flags,
    CUmemAllocationHandleType, CUmemAllocationProp, CUmemAllocationProp_st__bindgen_ty_1,
    CUmemAllocationType, CUmemLocation, CUmemLocationType,
};
use streampool_console::Result;
use streampool_cuda::ceiling::BareStream;

/// A block from `cuMemAlloc`, while its stream, and with it the context, is open.
pub struct Block<'s>(CUdeviceptr, PhantomData<&'s ()>);

impl<'s> Block<'s> {
    /// A block of so many bytes.
    pub fn new(bare: &'s BareStream, bytes: usize) -> Result<Block<'s>> {
        let _bound = bare.bind()?;
        let mut address = 0;
        // SAFETY: the context is bound; one address is written.
        let result = unsafe { sys::cuMemAlloc_v2(&mut address, bytes) };
        bare.check("cuMemAlloc", result)?;
        Ok(Block(address, PhantomData))
    }

    /// Where it is on the device.
    pub fn address(&self) -> CUdeviceptr {
        self.0
    }
}

impl Drop for Block<'_> {
    fn drop(&mut self) {
        // SAFETY: it was allocated by `new`, and what used it was waited for. Its thread still has the context: nobody here has
        // another.
        unsafe { sys::cuMemFree_v2(self.0) };
    }
}

/// A range of addresses to which memory is mapped, over and over.
pub struct Mapped<'s> {
    bare: &'s mut BareStream,
    memory: CUmemAllocationProp,
    address: CUdeviceptr,
    bytes: usize,
}

// SAFETY: the null pointer among the properties, which is all that keeps this on its thread, is never followed.
unsafe impl Send for Mapped<'_> {}

impl<'s> Mapped<'s> {
    /// Reserves addresses for at least `bytes`: memory is mapped in multiples of what the GPU asks for.
    pub fn new(bare: &'s mut BareStream, bytes: usize) -> Result<Mapped<'s>> {
        let _bound = bare.bind()?;
        let memory = CUmemAllocationProp {
            type_: CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
            requestedHandleTypes: CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE,
            location: CUmemLocation {
                type_: CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
                id: bare.device(),
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
        bare.check("cuMemGetAllocationGranularity", result)?;
        let bytes = bytes.next_multiple_of(grain.max(1));
        let mut address = 0;
        // SAFETY: the context is bound; one address is written.
        let result = unsafe { sys::cuMemAddressReserve(&mut address, bytes, 0, 0, 0) };
        bare.check("cuMemAddressReserve", result)?;
        Ok(Mapped {
            bare,
            memory,
            address,
            bytes,
        })
    }

    /// Creates memory, maps it so that the GPU may use it, and takes both back.
    pub fn map_and_unmap(&mut self) -> Result<()> {
        let _bound = self.bare.bind()?;
        let check = |call, result| self.bare.check(call, result);
        let mut handle = 0;
        // SAFETY: the properties are those that the size was rounded for; one handle is written.
        check("cuMemCreate", unsafe {
            sys::cuMemCreate(&mut handle, self.bytes, &self.memory, 0)
        })?;
        // SAFETY: addresses and memory are ours and as long.
        let mapped = check("cuMemMap", unsafe {
            sys::cuMemMap(self.address, self.bytes, 0, handle, 0)
        });
        // SAFETY: the handle is ours; a mapping keeps the memory by itself.
        let released = check("cuMemRelease", unsafe { sys::cuMemRelease(handle) });
        mapped?;
        let access = CUmemAccessDesc {
            location: self.memory.location,
            flags: CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        };
        // SAFETY: the range was just mapped; one description is given.
        let opened = check("cuMemSetAccess", unsafe {
            sys::cuMemSetAccess(self.address, self.bytes, &access, 1)
        });
        // SAFETY: the range was mapped above, and nothing uses it.
        let unmapped = check("cuMemUnmap", unsafe {
            sys::cuMemUnmap(self.address, self.bytes)
        });
        Ok(released.and(opened).and(unmapped)?)
    }
}

impl Drop for Mapped<'_> {
    fn drop(&mut self) {
        if let Ok(_bound) = self.bare.bind() {
            // SAFETY: the addresses were reserved by `new`, and nothing is mapped to them.
            unsafe { sys::cuMemAddressFree(self.address, self.bytes) };
        }
    }
}

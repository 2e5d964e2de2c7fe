//! `MTLBuffer`.

use std::alloc::{Layout, alloc, dealloc};
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::device::Device;
use super::hazards::Access;
use super::resource::{Resource, freed_in_flight};
use super::values::{Storage, is_tracked};
use crate::foundation::{NSOBJECT, autoreleased_string, text};
use crate::lock::lock;
use crate::method;
use crate::report::{Rule, violation};
use crate::runtime::{Block, Body, Class, Definition, Id};
use crate::settings::{Refusal, is_refused, settings};

pub(super) static BUFFER: Class = Class::fixed(c"_Imitation_Buffer", Some(&NSOBJECT), define);

/// What the device allocates in, and a page of Apple silicon.
const PAGE: usize = 16 * 1024;
/// What memory holds that nobody wrote: a NaN in every type of float.
const POISON: u8 = 0xff;
/// Memory at least this long takes none of this machine's before it is written, and holds zeros until then.
const HUGE: usize = 1 << 30;

pub(super) struct Buffer {
    pub number: u64,
    pub length: usize,
    pub tracked: bool,
    storage: Storage,
    memory: Memory,
    device: Arc<Device>,
    uses: AtomicUsize,
    /// How many residency sets have it, as committed.
    pub sets: AtomicUsize,
    label: Mutex<String>,
}

enum Memory {
    /// Of its own.
    Own { start: *mut u8, layout: Layout },
    /// Of its own, mapped.
    Mapped { start: *mut u8 },
    /// The host's, and who to tell when it is no longer needed.
    Host {
        start: *mut u8,
        deallocator: Option<Block>,
    },
}

// SAFETY: the addresses are of memory that lives as long as the buffer; who reads and writes it when is what the
// imitation is there to check.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    fn poisoned(length: usize) -> Memory {
        let layout = Layout::from_size_align(length, PAGE).expect("a length that was checked");
        // SAFETY: the layout is not empty; the memory is as large as what is filled.
        let start = unsafe {
            let start = alloc(layout);
            assert!(
                !start.is_null(),
                "this machine has no {length} bytes for a buffer"
            );
            start.write_bytes(POISON, layout.size());
            start
        };
        Memory::Own { start, layout }
    }

    fn mapped(length: usize) -> Memory {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: new memory, where the system chooses.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), length, access, kind, -1, 0) };
        assert!(
            start != libc::MAP_FAILED,
            "this machine has no {length} bytes for a buffer"
        );
        Memory::Mapped {
            start: start.cast(),
        }
    }
}

impl Buffer {
    pub fn allocate(device: &Arc<Device>, length: usize, options: usize) -> Id {
        let Some(storage) = storage(options) else {
            return Id::NULL;
        };
        let size = length.next_multiple_of(PAGE) as u64;
        let taken = device.allocated.fetch_add(size, Ordering::AcqRel);
        if taken + size > settings().capacity {
            device.allocated.fetch_sub(size, Ordering::AcqRel);
            return Id::NULL;
        }
        let memory = match length < HUGE {
            true => Memory::poisoned(length),
            false => Memory::mapped(length),
        };
        Buffer::object(device, length, options, storage, memory)
    }

    pub fn allocate_with(device: &Arc<Device>, bytes: &[u8], options: usize) -> Id {
        let id = Buffer::allocate(device, bytes.len(), options);
        if let Some(buffer) = id.body_if::<Buffer>() {
            // SAFETY: the buffer is as long as the bytes, and nobody else knows it.
            unsafe {
                buffer
                    .address()
                    .copy_from_nonoverlapping(bytes.as_ptr(), bytes.len())
            };
        }
        id
    }

    pub fn adopt(
        device: &Arc<Device>,
        bytes: *mut c_void,
        length: usize,
        options: usize,
        deallocator: Id,
    ) -> Id {
        if bytes.is_null() || !(bytes as usize).is_multiple_of(PAGE) || !length.is_multiple_of(PAGE)
        {
            violation(
                Rule::PageAligned,
                format!("{length} bytes at {bytes:p} are no whole pages of {PAGE}"),
            );
            return Id::NULL;
        }
        if is_refused(Refusal::WrappedBuffer) {
            return Id::NULL;
        }
        if storage(options) != Some(Storage::Shared) {
            violation(
                Rule::Contents,
                "host memory is taken over by a buffer that is not shared".to_owned(),
            );
        }
        device
            .allocated
            .fetch_add(length.next_multiple_of(PAGE) as u64, Ordering::AcqRel);
        let memory = Memory::Host {
            start: bytes.cast(),
            deallocator: Block::keep(deallocator),
        };
        Buffer::object(device, length, options, Storage::Shared, memory)
    }

    fn object(
        device: &Arc<Device>,
        length: usize,
        options: usize,
        storage: Storage,
        memory: Memory,
    ) -> Id {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        BUFFER.instance(Buffer {
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
            length,
            tracked: is_tracked(options),
            storage,
            memory,
            device: Arc::clone(device),
            uses: AtomicUsize::new(0),
            sets: AtomicUsize::new(0),
            label: Mutex::default(),
        })
    }

    pub fn address(&self) -> *mut u8 {
        let (Memory::Own { start, .. } | Memory::Mapped { start } | Memory::Host { start, .. }) =
            &self.memory;
        *start
    }

    pub fn name(&self) -> String {
        format!(
            "buffer {} '{}' of {} bytes",
            self.number,
            lock(&self.label),
            self.length
        )
    }
}

impl Access {
    pub fn of(buffer: &Buffer, writes: bool) -> Option<Access> {
        buffer.tracked.then_some(Access {
            number: buffer.number,
            writes,
        })
    }
}

impl Resource for Buffer {
    fn uses(&self) -> &AtomicUsize {
        &self.uses
    }
}

impl Body for Buffer {
    fn freed(&self) {
        freed_in_flight(self, || self.name());
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.device
            .allocated
            .fetch_sub(self.length.next_multiple_of(PAGE) as u64, Ordering::AcqRel);
        match &self.memory {
            // SAFETY: allocated with this layout, and nobody has the buffer any more.
            Memory::Own { start, layout } => unsafe { dealloc(*start, *layout) },
            // SAFETY: mapped with this length, and nobody has the buffer any more.
            Memory::Mapped { start } => unsafe {
                libc::munmap(start.cast(), self.length);
            },
            Memory::Host { start, deallocator } => {
                if let Some(deallocator) = deallocator {
                    deallocator.call_with_range(start.cast(), self.length);
                }
            }
        }
    }
}

fn storage(options: usize) -> Option<Storage> {
    let storage = Storage::of(options);
    if storage.is_none() {
        violation(
            Rule::Argument,
            format!("options {options:#x} have no storage mode for a buffer"),
        );
    }
    storage
}

fn define(class: &Definition) {
    method!(class, "contents", |this: Buffer| -> *mut c_void {
        if this.storage == Storage::Private {
            violation(
                Rule::Contents,
                format!("{} is private and has no contents", this.name()),
            );
            return std::ptr::without_provenance_mut(PAGE);
        }
        this.address().cast()
    });
    method!(class, "length", |this: Buffer| -> usize { this.length });
    method!(class, "allocatedSize", |this: Buffer| -> usize {
        this.length.next_multiple_of(PAGE)
    });
    // Kernels reach by its address what is not bound, and that has to be resident.
    method!(class, "gpuAddress", |this: Buffer| -> u64 {
        if this.sets.load(Ordering::Acquire) == 0 {
            violation(
                Rule::Residency,
                format!(
                    "the address of {}, which is in no residency set",
                    this.name()
                ),
            );
        }
        this.address() as u64
    });
    method!(class, "storageMode", |this: Buffer| -> usize {
        this.storage as usize
    });
    method!(class, "hazardTrackingMode", |this: Buffer| -> usize {
        if this.tracked { 2 } else { 1 }
    });
    method!(class, "setLabel:", |this: Buffer, label: Id| {
        *lock(&this.label) = text(label).unwrap_or_default()
    });
    method!(class, "label", |this: Buffer| -> Id {
        autoreleased_string(&lock(&this.label))
    });
}

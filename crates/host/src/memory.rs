//! Memory of the host device: aligned allocations within a budget.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

use streampool_device::{Aligned, Error, Memory, MemoryUse, Result, Space};

use crate::injector::Injector;

/// Every allocation begins at a multiple of this, as on the other devices.
pub(crate) const ALIGNMENT: usize = Aligned::ALIGNMENT;

/// The device's budget and what is taken from it.
pub(crate) struct Ledger {
    device: String,
    capacity: usize,
    in_use: AtomicUsize,
    allocations: AtomicUsize,
    #[cfg(debug_assertions)]
    live: streampool_device::lock::Mutex<std::collections::HashMap<u64, usize>>,
}

impl Ledger {
    pub(crate) fn new(device: &str, capacity: usize) -> Self {
        Ledger {
            device: device.to_owned(),
            capacity,
            in_use: AtomicUsize::new(0),
            allocations: AtomicUsize::new(0),
            #[cfg(debug_assertions)]
            live: streampool_device::lock::Mutex::new(crate::ranks::LEDGER, Default::default()),
        }
    }

    pub(crate) fn memory_use(&self) -> MemoryUse {
        MemoryUse {
            in_use: self.in_use.load(Ordering::Relaxed),
            allocations: self.allocations.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn allocate(
        &self,
        bytes: usize,
        space: Space,
        injector: &Injector,
    ) -> Result<Memory> {
        if bytes == 0 {
            return Err(Error::Invalid {
                what: "the size of an allocation",
                got: "0 bytes".to_owned(),
                expected: "at least 1".to_owned(),
            });
        }
        let rounded = bytes
            .checked_next_multiple_of(ALIGNMENT)
            .filter(|_| !injector.fails_allocation())
            .ok_or_else(|| self.exhausted(bytes))?;
        self.reserve(rounded).ok_or_else(|| self.exhausted(bytes))?;
        let Some(zeros) = Aligned::zeroed(rounded) else {
            self.in_use.fetch_sub(rounded, Ordering::Relaxed);
            return Err(self.exhausted(bytes));
        };
        self.allocations.fetch_add(1, Ordering::Relaxed);
        let handle = zeros.into_first().expose_provenance().get() as u64;
        #[cfg(debug_assertions)]
        self.live.lock().insert(handle, rounded);
        Ok(Memory {
            handle,
            bytes: rounded,
            space,
        })
    }

    /// # Safety
    /// `memory` came from [`allocate`](Self::allocate) of this ledger, is given back once, and nobody uses
    /// it any more.
    pub(crate) unsafe fn free(&self, memory: Memory) {
        #[cfg(debug_assertions)]
        {
            let size = self.live.lock().remove(&memory.handle);
            assert_eq!(
                size,
                Some(memory.bytes),
                "{memory:?} is freed twice, or is not this device's"
            );
        }
        let first = std::ptr::with_exposed_provenance_mut::<u8>(memory.handle as usize);
        if let Some(first) = NonNull::new(first) {
            // SAFETY: the caller gives back what `allocate` gave out.
            drop(unsafe { Aligned::from_first(first, memory.bytes) });
        }
        self.in_use.fetch_sub(memory.bytes, Ordering::Relaxed);
        self.allocations.fetch_sub(1, Ordering::Relaxed);
    }

    fn reserve(&self, bytes: usize) -> Option<()> {
        self.in_use
            .try_update(Ordering::Relaxed, Ordering::Relaxed, |in_use| {
                in_use
                    .checked_add(bytes)
                    .filter(|&total| total <= self.capacity)
            })
            .ok()
            .map(|_| ())
    }

    fn exhausted(&self, requested: usize) -> Error {
        Error::OutOfMemory {
            device: self.device.clone(),
            requested,
            in_use: self.in_use.load(Ordering::Relaxed),
            capacity: self.capacity,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_holds_and_comes_back() {
        let (ledger, injector) = (Ledger::new("host", 10 * ALIGNMENT), Injector::new());
        let first = ledger.allocate(1, Space::Device, &injector).unwrap();
        assert_eq!(
            (first.bytes, first.handle % ALIGNMENT as u64),
            (ALIGNMENT, 0)
        );
        let refused = ledger
            .allocate(9 * ALIGNMENT + 1, Space::Device, &injector)
            .unwrap_err();
        assert_eq!(
            refused,
            Error::OutOfMemory {
                device: "host".to_owned(),
                requested: 9 * ALIGNMENT + 1,
                in_use: ALIGNMENT,
                capacity: 10 * ALIGNMENT
            }
        );
        let second = ledger
            .allocate(9 * ALIGNMENT, Space::Staging, &injector)
            .unwrap();
        assert_eq!(ledger.memory_use().allocations, 2);
        // SAFETY: both came from this ledger and nothing uses them.
        unsafe {
            ledger.free(first);
            ledger.free(second);
        }
        assert_eq!(ledger.memory_use(), MemoryUse::default());
    }

    #[test]
    fn nonsense_sizes_are_errors() {
        let (ledger, injector) = (Ledger::new("host", 1 << 40), Injector::new());
        for bytes in [usize::MAX, isize::MAX as usize, 1 << 62] {
            let refused = ledger.allocate(bytes, Space::Device, &injector);
            assert!(matches!(refused, Err(Error::OutOfMemory { .. })));
        }
        let nothing = ledger.allocate(0, Space::Device, &injector);
        assert!(matches!(nothing, Err(Error::Invalid { .. })));
        assert_eq!(ledger.memory_use(), MemoryUse::default());
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "freed twice")]
    fn a_double_free_is_caught() {
        let (ledger, injector) = (Ledger::new("host", 1000), Injector::new());
        let memory = ledger.allocate(8, Space::Device, &injector).unwrap();
        let again = Memory { ..memory };
        // SAFETY: the second call breaks the contract on purpose; the check ends it before it frees.
        unsafe {
            ledger.free(memory);
            ledger.free(again);
        }
    }

    #[test]
    fn injected_failures_count_down() {
        let (ledger, injector) = (Ledger::new("host", 1000), Injector::new());
        injector.fail_allocations(1);
        assert!(ledger.allocate(8, Space::Device, &injector).is_err());
        let memory = ledger.allocate(8, Space::Device, &injector).unwrap();
        // SAFETY: it came from this ledger and nothing uses it.
        unsafe { ledger.free(memory) };
    }
}

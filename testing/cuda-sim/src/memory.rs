//! Memory: what is allocated, what commands under way use, and what was freed.

use std::collections::BTreeMap;
use std::sync::Arc;

use cudarc::driver::sys::CUresult;

use crate::handle::Outcome;
use crate::report::{Rule, breach};
use crate::settings::settings;

const PAGE: usize = 4096;
/// What the context takes for itself.
const CONTEXT: usize = 64 << 20;
/// So many bytes of new memory are poisoned: all of most, and not hours for the rest.
const POISONED: usize = 1 << 20;
/// A NaN of every float type.
const POISON: u8 = 0xff;

/// Where memory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// On the device.
    Device,
    /// On the device, from the pool: to be freed in the order of a stream, or at once.
    Pooled,
    /// On the device, mapped to addresses that were reserved.
    Mapped,
    /// On the host, where the device reaches it.
    Pinned,
    /// The caller's own, registered.
    Registered,
}

impl Kind {
    pub fn is_host(self) -> bool {
        matches!(self, Kind::Pinned | Kind::Registered)
    }
}

/// Who uses a range of memory holds this.
pub type Life = Arc<()>;

/// All memory that is known.
pub struct Memory {
    ranges: BTreeMap<usize, Range>,
    freed: BTreeMap<usize, usize>,
    /// Of the device's memory.
    pub used: usize,
}

struct Range {
    bytes: usize,
    kind: Kind,
    life: Life,
    /// Whether a stream will free it.
    leaving: bool,
}

/// A part of a range, which stays as long as this.
#[derive(Debug, Clone)]
pub struct Place {
    pub address: usize,
    /// Bytes of the range before it.
    pub before: usize,
    /// Bytes of the range from there on.
    pub bytes: usize,
    pub kind: Kind,
    _life: Life,
}

impl Place {
    /// An address at which there is nothing.
    pub fn nowhere(address: usize) -> Place {
        Place {
            address,
            before: 0,
            bytes: 0,
            kind: Kind::Device,
            _life: Life::default(),
        }
    }
}

/// Bytes of the device's memory that programs may have.
pub fn capacity() -> usize {
    settings().memory.saturating_sub(CONTEXT)
}

impl Memory {
    pub const fn new() -> Memory {
        Memory {
            ranges: BTreeMap::new(),
            freed: BTreeMap::new(),
            used: 0,
        }
    }

    pub fn count(&self) -> usize {
        self.ranges.len()
    }

    /// Counts memory of the device as used, if there is so much.
    pub fn take(&mut self, bytes: usize) -> Outcome {
        let total = self.used.checked_add(bytes);
        let total = total.filter(|total| *total <= capacity());
        self.used = total.ok_or(CUresult::CUDA_ERROR_OUT_OF_MEMORY)?;
        Ok(())
    }

    pub fn allocate(&mut self, bytes: usize, kind: Kind) -> Outcome<usize> {
        if bytes == 0 {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        if !kind.is_host() {
            self.take(bytes)?;
        }
        let Some(address) = map(bytes, true) else {
            self.used -= if kind.is_host() { 0 } else { bytes };
            return Err(CUresult::CUDA_ERROR_OUT_OF_MEMORY);
        };
        let first: *mut u8 = std::ptr::with_exposed_provenance_mut(address);
        // SAFETY: so many bytes were just mapped, and nobody else knows of them.
        unsafe { first.write_bytes(POISON, bytes.min(POISONED)) };
        self.add(address, bytes, kind);
        Ok(address)
    }

    /// Knows of this range from now on.
    pub fn add(&mut self, address: usize, bytes: usize, kind: Kind) {
        self.freed
            .retain(|start, length| address + bytes <= *start || *start + *length <= address);
        let range = Range {
            bytes,
            kind,
            life: Life::default(),
            leaving: false,
        };
        self.ranges.insert(address, range);
    }

    /// The place of `bytes` from `address` on, if a range has them.
    pub fn place(&self, address: usize, bytes: usize) -> Option<Place> {
        let (start, range) = self.ranges.range(..=address).next_back()?;
        let before = address - start;
        let fits = before.checked_add(bytes)? <= range.bytes && !range.leaving;
        fits.then(|| Place {
            address,
            before,
            bytes: range.bytes - before,
            kind: range.kind,
            _life: range.life.clone(),
        })
    }

    /// Whether there was memory that is freed now.
    pub fn was_freed(&self, address: usize) -> bool {
        let last = self.freed.range(..=address).next_back();
        last.is_some_and(|(start, bytes)| address < start + bytes)
    }

    /// Frees the range that begins here, which is of one of `kinds`.
    pub fn free(&mut self, address: usize, kinds: &[Kind]) -> Outcome {
        let range = self.find(address, kinds)?;
        if Arc::strong_count(&range.life) > 1 {
            breach(
                Rule::InFlight,
                &format!("{address:#x} is freed, and a command under way uses it"),
            );
        }
        let (bytes, kind) = (range.bytes, range.kind);
        self.ranges.remove(&address);
        if kind != Kind::Registered {
            self.freed.insert(address, bytes);
        }
        match kind {
            Kind::Device | Kind::Pooled => self.used -= bytes,
            Kind::Pinned => {}
            Kind::Mapped | Kind::Registered => return Ok(()),
        }
        unmap(address, bytes);
        Ok(())
    }

    /// The range that begins here will be freed by a stream.
    pub fn leave(&mut self, address: usize) -> Outcome {
        self.find(address, &[Kind::Pooled, Kind::Device])?.leaving = true;
        Ok(())
    }

    /// A stream frees a range that was to be.
    pub fn gone(&mut self, address: usize) {
        if let Some(range) = self.ranges.get_mut(&address) {
            range.leaving = false;
        }
        let _ = self.free(address, &[Kind::Pooled, Kind::Device]);
    }

    fn find(&mut self, address: usize, kinds: &[Kind]) -> Outcome<&mut Range> {
        if self.was_freed(address) {
            breach(Rule::Memory, &format!("{address:#x} is freed twice"));
        }
        let range = self.ranges.get_mut(&address);
        let range = range.filter(|range| kinds.contains(&range.kind));
        let range = range.ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        if range.leaving {
            breach(Rule::Memory, &format!("{address:#x} is freed twice"));
        }
        Ok(range)
    }

    pub fn clear(&mut self) {
        for (address, range) in std::mem::take(&mut self.ranges) {
            if matches!(range.kind, Kind::Device | Kind::Pooled | Kind::Pinned) {
                unmap(address, range.bytes);
            }
        }
        self.freed.clear();
        self.used = 0;
    }
}

/// Bytes of whole pages, and one behind them that nobody may touch.
fn mapped(bytes: usize) -> Option<usize> {
    bytes.checked_next_multiple_of(PAGE)?.checked_add(PAGE)
}

/// Addresses that nobody has, to be used at once or not yet.
pub fn map(bytes: usize, usable: bool) -> Option<usize> {
    let whole = mapped(bytes)?;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: new addresses, wherever there are some.
    let first = unsafe { libc::mmap(std::ptr::null_mut(), whole, libc::PROT_NONE, flags, -1, 0) };
    if first == libc::MAP_FAILED {
        return None;
    }
    let address = first.expose_provenance();
    if usable {
        open(address, whole - PAGE, true);
    }
    Some(address)
}

/// Lets these pages be used, or no more. What was in them is forgotten then.
pub fn open(address: usize, bytes: usize, usable: bool) {
    let first = std::ptr::with_exposed_provenance_mut(address);
    let access = match usable {
        true => libc::PROT_READ | libc::PROT_WRITE,
        false => libc::PROT_NONE,
    };
    // SAFETY: the pages are ours; who closes them knows that nobody uses them.
    let failed = unsafe {
        if !usable {
            libc::madvise(first, bytes, libc::MADV_DONTNEED);
        }
        libc::mprotect(first, bytes, access)
    };
    assert_eq!(failed, 0, "pages of ours are protected");
}

/// Gives addresses of [`map`] back.
pub fn unmap(address: usize, bytes: usize) {
    let whole = mapped(bytes).expect("so many were mapped");
    let first = std::ptr::with_exposed_provenance_mut(address);
    // SAFETY: they were mapped by `map`, and whoever gives them back knows that nobody uses them.
    unsafe { libc::munmap(first, whole) };
}

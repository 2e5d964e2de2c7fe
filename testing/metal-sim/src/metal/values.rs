//! Values of Metal's interface that are passed as they are.

use crate::runtime::Encode;

/// `MTLSize`
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size {
    pub width: usize,
    pub height: usize,
    pub depth: usize,
}

impl Encode for Size {
    const CODE: &'static str = "{?=QQQ}";
    const NOTHING: Size = Size {
        width: 0,
        height: 0,
        depth: 0,
    };
}

impl Size {
    pub fn all(self) -> [usize; 3] {
        [self.width, self.height, self.depth]
    }

    pub fn product(self) -> usize {
        self.all().into_iter().fold(1, usize::saturating_mul)
    }
}

/// `NSRange`
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct Range {
    pub location: usize,
    pub length: usize,
}

impl Encode for Range {
    const CODE: &'static str = "{_NSRange=QQ}";
    const NOTHING: Range = Range {
        location: 0,
        length: 0,
    };
}

/// `MTLStorageMode`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub(super) enum Storage {
    Shared = 0,
    Managed = 1,
    Private = 2,
}

impl Storage {
    /// What `MTLResourceOptions` say.
    pub fn of(options: usize) -> Option<Storage> {
        [Storage::Shared, Storage::Managed, Storage::Private]
            .into_iter()
            .find(|mode| *mode as usize == options >> 4 & 15)
    }
}

/// Whether `MTLResourceOptions` leave it to Metal to order accesses.
pub(super) fn is_tracked(options: usize) -> bool {
    options >> 8 & 3 != 1
}

/// `MTLCommandBufferError`
pub(super) mod failure {
    pub const TIMEOUT: isize = 2;
    pub const PAGE_FAULT: isize = 3;
    /// Of buffers that did nothing wrong: seen in reports, not in Apple's headers.
    pub const INNOCENT_VICTIM: isize = 5;
    pub const DEVICE_REMOVED: isize = 11;
    /// `kIOGPUCommandBufferCallbackErrorImpactingInteractivity`: as above.
    pub const IMPACTING_INTERACTIVITY: isize = 14;
}

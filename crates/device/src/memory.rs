//! Memory as a device sees it: an owned allocation, a range of it, a strided view of that range.

use std::ptr::NonNull;

use crate::{DType, Error, Layout, Result};

/// Where memory lives and who can reach it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Space {
    /// The device's own memory; the fastest for its kernels.
    Device,
    /// Host memory that the device can copy from and to at full speed (pinned).
    Staging,
}

/// One allocation of a device. It is freed by giving it back to its device, not by dropping it.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "memory is freed by Device::free, not by dropping it"]
pub struct Memory {
    /// The device's name for it: an address on the host and CUDA, a buffer object on Metal.
    pub handle: u64,
    /// Its size.
    pub bytes: usize,
    /// Where it lives.
    pub space: Space,
}

impl Memory {
    /// Where the host finds it, on a device whose handles of staging memory are addresses of the host's.
    pub fn staging_address(&self) -> Result<NonNull<u8>> {
        let pointer = std::ptr::with_exposed_provenance_mut(self.handle as usize);
        NonNull::new(pointer)
            .filter(|_| self.space == Space::Staging)
            .ok_or_else(|| Error::Invalid {
                what: "memory for the host to reach",
                got: format!("{:?}", self.space),
                expected: format!("{:?}", Space::Staging),
            })
    }

    /// The whole of it.
    pub fn span(&self) -> Span {
        Span {
            handle: self.handle,
            offset: 0,
            bytes: self.bytes,
        }
    }
}

/// A range of bytes of one allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Span {
    /// The allocation, as [`Memory::handle`].
    pub handle: u64,
    /// Where the range begins, in bytes.
    pub offset: usize,
    /// How long it is, in bytes.
    pub bytes: usize,
}

impl Span {
    /// A part of this range.
    pub fn part(&self, offset: usize, bytes: usize) -> Result<Span> {
        let inside = offset.checked_add(bytes).filter(|&end| end <= self.bytes);
        match (inside, self.offset.checked_add(offset)) {
            (Some(_), Some(offset)) => Ok(Span {
                handle: self.handle,
                offset,
                bytes,
            }),
            _ => Err(Error::Invalid {
                what: "a part of a span",
                got: format!("{bytes} bytes at {offset}"),
                expected: format!("at most {} bytes in all", self.bytes),
            }),
        }
    }

    /// Where it ends. Spans may be made of any numbers, so this may be more than a `usize` holds.
    pub(crate) fn end(&self) -> u128 {
        self.offset as u128 + self.bytes as u128
    }

    /// Whether `other` lies within this range of the same allocation.
    pub fn contains(&self, other: &Span) -> bool {
        self.handle == other.handle && self.offset <= other.offset && other.end() <= self.end()
    }
}

/// Elements in memory: a span, what the elements are, and how they are laid out.
///
/// A view that exists is in bounds and aligned: [`View::new`] checks it once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct View {
    span: Span,
    dtype: DType,
    layout: Layout,
}

impl View {
    /// A view of `span`; every element that `layout` can name must lie inside it.
    #[inline(always)]
    pub fn new(span: Span, dtype: DType, layout: Layout) -> Result<View> {
        let size = dtype.size();
        if let Some((first, last)) = layout.extent() {
            let needed = last
                .checked_add(1)
                .and_then(|elements| usize::try_from(elements).ok())
                .and_then(|elements| elements.checked_mul(size));
            if first < 0 || needed.is_none_or(|needed| needed > span.bytes) {
                return Err(Error::Invalid {
                    what: "the layout of a view",
                    got: format!("{layout} of {dtype}, which names elements {first} to {last}"),
                    expected: format!("elements 0 to {} at most", (span.bytes / size) as i128 - 1),
                });
            }
        }
        if usize::try_from(span.end()).is_err() {
            return Err(Error::Invalid {
                what: "the span of a view",
                got: format!("{} bytes from byte {}", span.bytes, span.offset),
                expected: format!("an end at byte {} at most", usize::MAX),
            });
        }
        if !span.offset.is_multiple_of(size) {
            return Err(Error::Invalid {
                what: "the offset of a view",
                got: format!("byte {}", span.offset),
                expected: format!("a multiple of {size}, the size of {dtype}"),
            });
        }
        Ok(View {
            span,
            dtype,
            layout,
        })
    }

    /// The bytes it lies in.
    pub fn span(&self) -> Span {
        self.span
    }

    /// What its elements are.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// How they are laid out.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Its shape.
    pub fn shape(&self) -> &[usize] {
        self.layout.shape()
    }

    /// The bytes that its elements lie in, from the first to the last; `None` if it has none.
    pub fn reach(&self) -> Option<Span> {
        let (first, last) = self.layout.extent()?;
        let size = self.dtype.size();
        Some(Span {
            handle: self.span.handle,
            offset: self.span.offset + first as usize * size,
            bytes: (last - first + 1) as usize * size,
        })
    }

    /// The same elements in other memory, as a replay binds them: a part of what was checked to be as long and as
    /// aligned as what this is a part of.
    pub(crate) fn rebased(&self, span: Span) -> View {
        debug_assert!(span.bytes >= self.span.bytes);
        View { span, ..*self }
    }
}

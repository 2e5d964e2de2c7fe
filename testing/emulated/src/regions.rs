//! The memory of an op's operands, copied to where all that a kernel does to it is seen.

use std::convert::Infallible;

use streampool_device::{Access, Layout, Op, Span, View};

use crate::group::Bound;
use crate::guarded::Guarded;
use crate::tensor::each_element;

const READ: u8 = 1;
const WRITTEN: u8 = 2;

/// A range of one allocation.
struct Region {
    /// The operands that lie in it.
    names: String,
    span: Span,
    memory: Guarded,
    /// What the op does with each byte.
    access: Vec<u8>,
    before: Vec<u8>,
}

/// All ranges that an op names.
pub struct Regions(Vec<Region>);

impl Regions {
    /// Copies what `op` reads. All else is poisoned: what is written, and what lies between elements.
    ///
    /// # Safety
    /// Handles are addresses, and the memory of the operands is alive.
    pub unsafe fn of(op: &Op) -> Regions {
        let mut operands: Vec<(&'static str, Access, View)> = Vec::new();
        let visited = op.try_map(|name, access, view| {
            operands.push((name, access, *view));
            Ok::<_, Infallible>(*view)
        });
        let Ok(_) = visited;
        let mut regions = Regions(Vec::new());
        for (name, _, view) in &operands {
            regions.name(name, view.span());
        }
        for (_, access, view) in &operands {
            regions.mark(*access, view);
        }
        for region in &mut regions.0 {
            let base = (region.span.handle as usize + region.span.offset) as *const u8;
            for (at, byte) in region.memory.bytes_mut().iter_mut().enumerate() {
                if region.access[at] & READ != 0 {
                    // SAFETY: the byte is one of an element of a live operand.
                    *byte = unsafe { base.add(at).read() };
                }
            }
            region.before = region.memory.bytes().to_vec();
        }
        regions
    }

    /// Adds a range, joined with those it overlaps.
    fn name(&mut self, name: &str, span: Span) {
        let end = |span: &Span| span.offset + span.bytes;
        let (mut names, mut joined) = (name.to_owned(), span);
        self.0.retain(|region| {
            let apart = region.span.handle != joined.handle
                || end(&region.span) <= joined.offset
                || end(&joined) <= region.span.offset;
            if !apart {
                names = format!("{} and {names}", region.names);
                let offset = joined.offset.min(region.span.offset);
                joined.bytes = end(&joined).max(end(&region.span)) - offset;
                joined.offset = offset;
            }
            apart
        });
        self.0.push(Region {
            names,
            span: joined,
            memory: Guarded::new(joined.bytes, joined.offset),
            access: vec![0; joined.bytes],
            before: Vec::new(),
        });
    }

    fn mark(&mut self, access: Access, view: &View) {
        let mark = match access {
            Access::Read => READ,
            Access::Write => WRITTEN,
        };
        let region = self
            .0
            .iter_mut()
            .find(|region| region.span.contains(&view.span()));
        let region = region.expect("every operand has a region");
        let start = view.span().offset - region.span.offset;
        let size = view.dtype().size();
        each_element(&once(view.layout()), |_, at| {
            let place = start + at * size;
            region.access[place..place + size]
                .iter_mut()
                .for_each(|byte| *byte |= mark);
        });
    }

    /// Where the copy of `span` lies.
    pub fn bound(&mut self, span: &Span) -> Result<Bound, String> {
        let region = self.0.iter_mut().find(|region| region.span.contains(span));
        let region = region.ok_or_else(|| format!("{span:?} is not of the op"))?;
        let at = span.offset - region.span.offset;
        Ok(Bound {
            // SAFETY: the span lies inside the region.
            address: unsafe { region.memory.address().add(at) },
            before: at,
            bytes: region.span.bytes - at,
        })
    }

    /// Fails if anything but the elements that the op writes is written.
    pub fn check(&self) -> Result<(), String> {
        for region in &self.0 {
            region
                .memory
                .check(&format!("the memory of {}", region.names))?;
            let (now, before) = (region.memory.bytes(), &region.before);
            let strays = |at: &usize| region.access[*at] & WRITTEN == 0 && now[*at] != before[*at];
            if let Some(at) = (0..now.len()).find(strays) {
                return Err(format!(
                    "byte {at} of the memory of {} is written, which belongs to no element that is",
                    region.names
                ));
            }
        }
        Ok(())
    }

    /// Copies back what was written.
    ///
    /// # Safety
    /// As for [`of`](Regions::of), and nobody else touches what the op writes.
    pub unsafe fn put_back(&self) {
        for region in &self.0 {
            let base = (region.span.handle as usize + region.span.offset) as *mut u8;
            for (at, byte) in region.memory.bytes().iter().enumerate() {
                if region.access[at] & WRITTEN != 0 {
                    // SAFETY: the byte is one of an element of a live operand.
                    unsafe { base.add(at).write(*byte) };
                }
            }
        }
    }
}

/// The same places, each once where dimensions repeat: there may be more than can be walked.
fn once(layout: &Layout) -> Layout {
    let axes = layout.shape().iter().zip(layout.strides());
    let sizes = axes.map(|(&size, &stride)| if stride == 0 { size.min(1) } else { size });
    let sizes: Vec<usize> = sizes.collect();
    Layout::strided(&sizes, layout.strides(), layout.offset()).expect("a part of a layout")
}

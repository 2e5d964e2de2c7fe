//! A dispatch: a kernel and what is bound to it, checked as Metal's validation does, then run on the CPU.

use std::collections::BTreeMap;
use std::sync::Arc;

use streampool_emulated::metal::Buffer as Declared;
use streampool_emulated::metal::{Binding, Space};

use super::buffer::Buffer;
use super::device::{MOST_THREADS, THREADGROUP_MEMORY};
use super::hazards::Access;
use super::pipeline::Pipeline;
use super::values::Size;
use crate::report::Rule;

/// A rule that is broken, and how.
type Broken = (Rule, String);

/// What an encoder has bound.
#[derive(Default)]
pub(super) struct Bindings {
    pub slots: BTreeMap<usize, Slot>,
    /// Of threadgroup memory.
    pub lengths: BTreeMap<usize, usize>,
}

/// What is bound to an index.
#[derive(Clone)]
pub(super) enum Slot {
    /// From this offset.
    Buffer(Arc<Buffer>, usize),
    /// So many bytes, kept in words so that they are aligned.
    Bytes(Arc<[u128]>, usize),
}

pub(super) struct Dispatch {
    pipeline: Arc<Pipeline>,
    groups: [u32; 3],
    threads: [u32; 3],
    slots: Vec<Bound>,
    lengths: Vec<(u32, usize)>,
}

/// A buffer that the kernel declares.
struct Bound {
    index: u32,
    written: bool,
    slot: Slot,
}

impl Dispatch {
    pub fn new(
        pipeline: Arc<Pipeline>,
        bindings: &Bindings,
        groups: Size,
        threads: Size,
    ) -> Result<Dispatch, Broken> {
        let function = &pipeline.function;
        let kernel = |what: String| format!("kernel {}: {what}", function.name());
        let slots = function.buffers().map(|(declared, element)| {
            let bound = bindings.bound(declared, element);
            bound.map_err(|(rule, what)| {
                (
                    rule,
                    kernel(format!(
                        "buffer {} ({}) {what}",
                        declared.index, declared.name
                    )),
                )
            })
        });
        let slots = slots.collect::<Result<_, _>>()?;
        bindings
            .check_lengths(&pipeline)
            .map_err(|what| (Rule::ThreadgroupMemory, kernel(what)))?;
        let wrong_grid = || {
            (
                Rule::GridSize,
                kernel(format!("a grid of {groups:?} threadgroups")),
            )
        };
        let most = pipeline.most_threads();
        let wrong_group = || {
            (
                Rule::ThreadgroupSize,
                kernel(format!("groups of {threads:?} threads, at most {most}")),
            )
        };
        let fits =
            threads.product() <= most && threads.all().iter().all(|side| *side <= MOST_THREADS);
        Ok(Dispatch {
            groups: words(groups).ok_or_else(wrong_grid)?,
            threads: words(threads).filter(|_| fits).ok_or_else(wrong_group)?,
            slots,
            lengths: bindings
                .lengths
                .iter()
                .map(|(index, length)| (*index as u32, *length))
                .collect(),
            pipeline,
        })
    }

    /// How many threads it has.
    pub fn threads(&self) -> u64 {
        let sizes = self.groups.iter().chain(&self.threads);
        sizes.fold(1, |all, side| all.saturating_mul(u64::from(*side)))
    }

    /// What of it Metal orders with others.
    pub fn accesses(&self) -> impl Iterator<Item = Access> {
        self.slots
            .iter()
            .filter_map(|bound| Access::of(bound.slot.buffer()?, bound.written))
    }

    /// Runs it on this thread.
    pub fn run(&self) -> Result<(), String> {
        let bindings: Vec<Binding> = self.slots.iter().map(Bound::binding).collect();
        let function = &self.pipeline.function;
        // SAFETY: buffers and bytes live as long as this command; that no other pass touches what this one writes is
        // what Metal leaves to its user, and what this imitation is there to find out.
        unsafe { function.run(self.groups, self.threads, &bindings, &self.lengths) }
    }
}

impl Bindings {
    fn bound(&self, declared: &Declared, element: usize) -> Result<Bound, Broken> {
        let (index, written) = (declared.index, declared.written);
        let slot = self
            .slots
            .get(&(index as usize))
            .ok_or_else(|| (Rule::BindingMissing, "is not set".to_owned()))?;
        match slot {
            Slot::Buffer(buffer, offset) => {
                let alignment = match declared.space {
                    Space::Constant => 4,
                    Space::Device => 1 << element.max(1).trailing_zeros().min(4),
                };
                if !offset.is_multiple_of(alignment) || buffer.length - offset < element {
                    let what = format!(
                        "begins at {offset} of {}, for elements of {element} bytes",
                        buffer.name()
                    );
                    return Err((Rule::BindingOffset, what));
                }
            }
            Slot::Bytes(_, length) if *length < element => {
                return Err((
                    Rule::BytesLength,
                    format!("has {length} bytes set, of {element}"),
                ));
            }
            Slot::Bytes(..) if written => {
                return Err((
                    Rule::Argument,
                    "is written, and set with setBytes".to_owned(),
                ));
            }
            Slot::Bytes(..) => {}
        }
        Ok(Bound {
            index,
            written,
            slot: slot.clone(),
        })
    }

    fn check_lengths(&self, pipeline: &Pipeline) -> Result<(), String> {
        let function = &pipeline.function;
        let mut declared = function.threadgroup_bindings();
        if let Some(index) = declared.find(|index| !self.lengths.contains_key(&(*index as usize))) {
            return Err(format!("threadgroup memory {index} has no length"));
        }
        let taken = function.static_threadgroup_bytes() + self.lengths.values().sum::<usize>();
        if taken > THREADGROUP_MEMORY {
            return Err(format!(
                "{taken} bytes of threadgroup memory, of {THREADGROUP_MEMORY}"
            ));
        }
        Ok(())
    }
}

/// As the GPU counts; `None` where a side is 0 or beyond it.
fn words(size: Size) -> Option<[u32; 3]> {
    let word = |side: usize| u32::try_from(side).ok().filter(|side| *side > 0);
    let [width, height, depth] = size.all();
    Some([word(width)?, word(height)?, word(depth)?])
}

impl Bound {
    fn binding(&self) -> Binding {
        let (address, before, bytes) = match &self.slot {
            Slot::Buffer(buffer, offset) => (
                buffer.address().wrapping_add(*offset),
                *offset,
                buffer.length - offset,
            ),
            Slot::Bytes(words, length) => (words.as_ptr().cast_mut().cast(), 0, *length),
        };
        Binding {
            index: self.index,
            address,
            before,
            bytes,
        }
    }
}

impl Slot {
    fn buffer(&self) -> Option<&Buffer> {
        match self {
            Slot::Buffer(buffer, _) => Some(buffer),
            Slot::Bytes(..) => None,
        }
    }
}

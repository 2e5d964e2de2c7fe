//! The free ranges of an arena's chunks: carved best fit, merged with their neighbours.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::source::Chunk;

/// A range of a chunk.
#[derive(Clone)]
pub(crate) struct Range {
    pub chunk: Arc<Chunk>,
    pub number: u64,
    pub offset: usize,
    pub bytes: usize,
    /// The last tick of the arena's own stream that used any of it.
    pub last_use: u64,
}

/// What is free.
#[derive(Default)]
pub(crate) struct Heap {
    chunks: BTreeMap<u64, Free>,
    by_size: BTreeSet<(usize, u64, usize)>,
    /// Never the same twice, however long a program runs: nobody makes 2⁶⁴ chunks.
    next: u64,
}

struct Free {
    chunk: Arc<Chunk>,
    ranges: BTreeMap<usize, usize>,
    last_use: u64,
}

impl Heap {
    /// Adds a chunk, all of it free.
    pub fn add(&mut self, chunk: Arc<Chunk>) {
        let number = self.next;
        self.next += 1;
        let bytes = chunk.bytes();
        self.chunks.insert(
            number,
            Free {
                chunk,
                ranges: BTreeMap::from([(0, bytes)]),
                last_use: 0,
            },
        );
        self.by_size.insert((bytes, number, 0));
    }

    /// Takes `bytes` out of the smallest range that holds them.
    pub fn take(&mut self, bytes: usize) -> Option<Range> {
        let &(found, number, offset) = self.by_size.range((bytes, 0, 0)..).next()?;
        self.by_size.remove(&(found, number, offset));
        let free = self.chunks.get_mut(&number)?;
        free.ranges.remove(&offset);
        if found > bytes {
            free.ranges.insert(offset + bytes, found - bytes);
            self.by_size.insert((found - bytes, number, offset + bytes));
        }
        Some(Range {
            chunk: free.chunk.clone(),
            number,
            offset,
            bytes,
            last_use: free.last_use,
        })
    }

    /// Gives a range back and merges it with free neighbours.
    pub fn give(&mut self, range: &Range) {
        let Some(free) = self.chunks.get_mut(&range.number) else {
            return;
        };
        free.last_use = free.last_use.max(range.last_use);
        let (mut offset, mut bytes) = (range.offset, range.bytes);
        if let Some((&before, &length)) = free.ranges.range(..offset).next_back()
            && before + length == offset
        {
            free.ranges.remove(&before);
            self.by_size.remove(&(length, range.number, before));
            offset = before;
            bytes += length;
        }
        if let Some(length) = free.ranges.remove(&(range.offset + range.bytes)) {
            self.by_size
                .remove(&(length, range.number, range.offset + range.bytes));
            bytes += length;
        }
        free.ranges.insert(offset, bytes);
        self.by_size.insert((bytes, range.number, offset));
    }

    /// Lets go of chunks that are wholly free and that the arena's stream, complete up to `completed`,
    /// uses no more. The caller drops them after unlocking.
    pub fn release_idle(&mut self, completed: u64) -> Vec<Arc<Chunk>> {
        let idle = |free: &Free| {
            free.last_use <= completed && free.ranges.get(&0) == Some(&free.chunk.bytes())
        };
        let numbers: Vec<u64> = self
            .chunks
            .iter()
            .filter(|(_, free)| idle(free))
            .map(|(&number, _)| number)
            .collect();
        numbers
            .into_iter()
            .filter_map(|number| {
                let free = self.chunks.remove(&number)?;
                self.by_size.remove(&(free.chunk.bytes(), number, 0));
                Some(free.chunk)
            })
            .collect()
    }

    /// How many chunks there are.
    pub fn chunks(&self) -> usize {
        self.chunks.len()
    }

    /// Bytes of all chunks.
    pub fn reserved(&self) -> usize {
        self.chunks.values().map(|free| free.chunk.bytes()).sum()
    }

    /// Bytes in free ranges.
    pub fn free(&self) -> usize {
        self.by_size.iter().map(|&(bytes, _, _)| bytes).sum()
    }

    /// The largest free range.
    pub fn largest(&self) -> usize {
        self.by_size.last().map_or(0, |&(bytes, _, _)| bytes)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use streampool_host::{HostDevice, HostOptions};

    use super::*;
    use streampool_device::Space;

    use crate::memory::source::Source;

    #[test]
    fn chunks_are_told_apart_after_the_first_four_billion() {
        let device = HostDevice::new(HostOptions::default()).unwrap();
        let source = Arc::new(Source::new(0, device, None));
        let mut heap = Heap {
            next: u32::MAX.into(),
            ..Heap::default()
        };
        for _ in 0..2 {
            heap.add(source.chunk(4096, Space::Device).unwrap().unwrap());
        }
        let taken = [heap.take(4096).unwrap(), heap.take(4096).unwrap()];
        assert!(heap.take(1).is_none());
        taken.iter().for_each(|range| heap.give(range));
        assert_eq!((heap.chunks(), heap.free()), (2, 8192));
    }
}

//! Residency sets: what keeps memory resident between buffers, where the options ask for it.
//!
//! There are none unless they do: what a command binds is resident while its buffer runs, and kernels reach nothing else. One
//! set of everything that is kept resident and changed while the GPU works is what others' reports of kernel panics have
//! in common ("prepare count underflow": mlx#3186, mlx#3346), and macOS 27 makes a set resident as a whole (mlx#4211). So these are
//! several, each with its share, and nothing asks for them to be resident while no buffer needs them.

use objc2::runtime::{NSObjectProtocol, ProtocolObject};
use objc2::sel;
use objc2_foundation::NSString;
use objc2_metal::{MTLCommandQueue, MTLDevice, MTLResidencySet, MTLResidencySetDescriptor};

use super::objects::{Gpu, Movable, RawBuffer, RawQueue, Residency};
use super::pool::pooled;

/// How many sets share the memory of a device. A queue takes 32 at most.
const SETS: usize = 20;

/// The residency sets of one device.
pub(crate) struct Sets {
    sets: Vec<Set>,
    /// The most bytes of one, unless a single buffer is larger.
    share: usize,
}

struct Set {
    set: Residency,
    bytes: usize,
}

impl Sets {
    /// Sets for so many bytes together. `None` before macOS 15, which has none, and where one cannot be made.
    pub fn new(gpu: &Gpu, capacity: usize) -> Option<Sets> {
        if !gpu.respondsToSelector(sel!(newResidencySetWithDescriptor:error:)) {
            return None;
        }
        pooled(|| {
            let descriptor = MTLResidencySetDescriptor::new();
            descriptor.setLabel(Some(&NSString::from_str("streampool")));
            let made = (0..SETS).map(|_| {
                let set = gpu.newResidencySetWithDescriptor_error(&descriptor).ok()?;
                let set = Movable(set);
                Some(Set { set, bytes: 0 })
            });
            Some(Sets {
                sets: made.collect::<Option<_>>()?,
                share: capacity / SETS,
            })
        })
    }

    /// Has `buffer` resident whenever one of the queues works that attend.
    pub fn add(&mut self, buffer: &RawBuffer, bytes: usize) {
        let taken = self.sets.iter().map(|set| set.bytes);
        if let Some(chosen) = place(taken, bytes, self.share).map(|place| &mut self.sets[place]) {
            chosen.bytes = chosen.bytes.saturating_add(bytes);
            pooled(|| {
                chosen.set.addAllocation(ProtocolObject::from_ref(buffer));
                chosen.set.commit();
            });
        }
    }

    /// Lets go of what was added with so many bytes.
    pub fn remove(&mut self, buffer: &RawBuffer, bytes: usize) {
        let allocation = ProtocolObject::from_ref(buffer);
        let mut sets = self.sets.iter_mut();
        if let Some(holder) = sets.find(|holder| holder.set.containsAllocation(allocation)) {
            holder.bytes = holder.bytes.saturating_sub(bytes);
            pooled(|| {
                holder.set.removeAllocation(allocation);
                holder.set.commit();
            });
        }
    }

    /// Makes what is in them resident whenever `queue` works.
    pub fn attend(&self, queue: &RawQueue) {
        for set in &self.sets {
            queue.addResidencySet(&set.set);
        }
    }
}

/// The set for `more` bytes: the first that they fit in, or else the one with the fewest.
fn place(taken: impl Iterator<Item = usize> + Clone, more: usize, share: usize) -> Option<usize> {
    let with_room = taken
        .clone()
        .position(|bytes| bytes.saturating_add(more) <= share);
    let emptiest = || taken.enumerate().min_by_key(|&(_, bytes)| bytes);
    with_room.or_else(|| emptiest().map(|(place, _)| place))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_set_has_its_share_unless_a_buffer_has_more() {
        let place = |taken: &[usize], more| place(taken.iter().copied(), more, 10);
        assert_eq!(place(&[8, 5, 0], 2), Some(0));
        assert_eq!(place(&[8, 5, 0], 3), Some(1));
        assert_eq!(place(&[8, 5, 0], 11), Some(2));
        assert_eq!(place(&[8, 5, 9], usize::MAX), Some(1));
        assert_eq!(place(&[], 1), None);
    }
}

//! What nobody uses any more, still to be given back to the driver. What the driver refuses to take is tried again later.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use cudarc::driver::sys::{
    self, CUdeviceptr, CUevent, CUgraph, CUgraphExec, CUmodule, CUresult, CUstream,
};

use crate::driver;

/// Something that the driver made.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Object {
    Stream(CUstream),
    Event(CUevent),
    Graph(CUgraph),
    Exec(CUgraphExec),
    Module(CUmodule),
    /// Pinned memory of a device that is closed: of one that is open it counts, which the stock of that does.
    Pinned(*mut u8),
}

// SAFETY: the driver's objects may be used from any thread, by one at a time: whoever has this.
unsafe impl Send for Object {}

impl Object {
    fn destroy(self) -> CUresult {
        // SAFETY: whoever retired it vouches for it. What still runs is freed by the driver when it is over.
        unsafe {
            match self {
                Object::Stream(stream) => sys::cuStreamDestroy_v2(stream),
                Object::Event(event) => sys::cuEventDestroy_v2(event),
                Object::Graph(graph) => sys::cuGraphDestroy(graph),
                Object::Exec(exec) => sys::cuGraphExecDestroy(exec),
                Object::Module(module) => sys::cuModuleUnload(module),
                Object::Pinned(pointer) => sys::cuMemFreeHost(pointer.cast()),
            }
        }
    }
}

#[derive(Debug)]
struct Piece {
    address: CUdeviceptr,
    bytes: usize,
    /// Whether the driver has kept it: then it counts.
    is_counted: bool,
}

/// What is still to be given back.
#[derive(Debug, Default)]
pub(crate) struct Retired {
    memory: Mutex<Vec<Piece>>,
    objects: Mutex<Vec<Object>>,
}

impl Retired {
    /// Remembers memory that is to be freed.
    pub fn add_memory(&self, address: CUdeviceptr, bytes: usize) {
        locked(&self.memory).push(Piece {
            address,
            bytes,
            is_counted: false,
        });
    }

    /// Remembers what is to be destroyed, and says how much that is now.
    pub fn add(&self, objects: impl IntoIterator<Item = Object>) -> usize {
        let mut kept = locked(&self.objects);
        kept.extend(objects);
        kept.len()
    }

    /// Pieces of memory that are still to be freed.
    pub fn pieces(&self) -> usize {
        locked(&self.memory).len()
    }

    /// Objects that are still to be destroyed.
    pub fn objects(&self) -> usize {
        locked(&self.objects).len()
    }

    /// Frees the memory that has waited longest, at most so many pieces. What the driver keeps counts in `own`. The context
    /// is bound, and the gate shut.
    pub fn free(&self, most: usize, own: &AtomicUsize) {
        let mut pieces = first(&self.memory, most);
        pieces.retain_mut(|piece| {
            // SAFETY: whoever retired it vouches for it.
            let is_kept = driver::is_refused(unsafe { sys::cuMemFree_v2(piece.address) });
            match (is_kept, piece.is_counted) {
                (true, false) => own.fetch_add(piece.bytes, Ordering::Relaxed),
                (false, true) => own.fetch_sub(piece.bytes, Ordering::Relaxed),
                _ => 0,
            };
            piece.is_counted = is_kept;
            is_kept
        });
        locked(&self.memory).append(&mut pieces);
    }

    /// Destroys the objects that have waited longest, at most so many. The context is bound, and the gate shut.
    pub fn destroy(&self, most: usize) {
        let mut objects = first(&self.objects, most);
        objects.retain(|object| driver::is_refused(object.destroy()));
        locked(&self.objects).append(&mut objects);
    }
}

/// Takes what is in front, at most so many.
fn first<T>(list: &Mutex<Vec<T>>, most: usize) -> Vec<T> {
    let mut list = locked(list);
    let most = most.min(list.len());
    list.drain(..most).collect()
}

fn locked<T>(list: &Mutex<T>) -> MutexGuard<'_, T> {
    list.lock().unwrap_or_else(PoisonError::into_inner)
}

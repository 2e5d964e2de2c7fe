//! Marks: the driver's events, each used for one point of one lane at a time, then for another.

use std::sync::Arc;

use cudarc::driver::sys::{self, CUevent, CUresult, CUstream};
use streampool_device::lock::Mutex;

use crate::context::{Context, Failure};
use crate::ranks;
use crate::stock::Stock;

/// The driver's events that wait for their next use. Who uses them takes them from the shelf of its own lane.
pub(crate) struct Shelf {
    context: Arc<Context>,
    stock: Arc<Stock>,
    spare: Mutex<Spare>,
}

#[derive(Default)]
struct Spare {
    plain: Vec<CUevent>,
    timed: Vec<CUevent>,
}

// SAFETY: the driver's events may be used from any thread.
unsafe impl Send for Spare {}

impl Shelf {
    pub fn new(context: Arc<Context>, stock: Arc<Stock>) -> Arc<Shelf> {
        Arc::new(Shelf {
            context,
            stock,
            spare: Mutex::new(ranks::SHELF, Spare::default()),
        })
    }

    fn list(spare: &mut Spare, timed: bool) -> &mut Vec<CUevent> {
        if timed {
            &mut spare.timed
        } else {
            &mut spare.plain
        }
    }

    /// A mark of this point of `stream`. The context is bound.
    pub fn mark(self: &Arc<Self>, stream: CUstream, timed: bool) -> Result<Mark, Failure> {
        let mark = self.unset(timed)?;
        // SAFETY: both handles are alive and of this context.
        let result = unsafe { sys::cuEventRecord(mark.raw, stream) };
        self.context.check("cuEventRecord", result)?;
        Ok(mark)
    }

    /// A mark for a point that is still to be said. The context is bound.
    pub fn unset(self: &Arc<Self>, timed: bool) -> Result<Mark, Failure> {
        let spare = Shelf::list(&mut self.spare.lock(), timed).pop();
        let raw = match spare {
            Some(raw) => raw,
            None => self.fetch(timed)?,
        };
        Ok(Mark {
            raw,
            timed,
            shelf: self.clone(),
        })
    }

    /// An event from the stock, which gives several.
    #[cold]
    fn fetch(&self, timed: bool) -> Result<CUevent, Failure> {
        let mut events = self.stock.events(timed)?;
        let raw = events.pop();
        Shelf::list(&mut self.spare.lock(), timed).append(&mut events);
        raw.ok_or(Failure::Call("cuEventCreate", CUresult::CUDA_ERROR_UNKNOWN))
    }
}

impl Drop for Shelf {
    fn drop(&mut self) {
        let spare = std::mem::take(self.spare.get_mut());
        // SAFETY: they came from the stock; who had one kept the shelf.
        unsafe {
            self.stock.give_events(false, spare.plain);
            self.stock.give_events(true, spare.timed);
        }
    }
}

/// A point of a stream. Whoever waits for it on the device has been told by the driver already, so it may
/// be used again as soon as nobody asks for it from the host.
pub(crate) struct Mark {
    raw: CUevent,
    timed: bool,
    shelf: Arc<Shelf>,
}

// SAFETY: the driver's events may be used from any thread.
unsafe impl Send for Mark {}
// SAFETY: as above; what is changed by recording it is the driver's.
unsafe impl Sync for Mark {}

impl Mark {
    fn context(&self) -> &Context {
        &self.shelf.context
    }

    /// The driver's event.
    pub fn raw(&self) -> CUevent {
        self.raw
    }

    /// Whether the stream has passed it. The context is bound.
    pub fn is_over(&self) -> Result<bool, Failure> {
        let _exempt = self.context().exempt();
        // SAFETY: the handle is alive.
        match unsafe { sys::cuEventQuery(self.raw) } {
            CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            other => self.context().check("cuEventQuery", other).map(|()| true),
        }
    }

    /// Waits until the stream has passed it. The context is bound.
    pub fn wait(&self) -> Result<(), Failure> {
        let _exempt = self.context().exempt();
        // SAFETY: the handle is alive.
        let result = unsafe { sys::cuEventSynchronize(self.raw) };
        self.context().check("cuEventSynchronize", result)
    }

    /// Makes what follows on `stream` wait for it. The context is bound.
    pub fn hold(&self, stream: CUstream) -> Result<(), Failure> {
        // SAFETY: both handles are alive.
        let result = unsafe { sys::cuStreamWaitEvent(stream, self.raw, 0) };
        self.context().check("cuStreamWaitEvent", result)
    }

    /// Milliseconds from `start` to here; both are timed and over. The context is bound.
    pub fn since(&self, start: &Mark) -> Result<f32, Failure> {
        let mut milliseconds = 0.0;
        let _exempt = self.context().exempt();
        // SAFETY: both handles are alive.
        let result = unsafe { sys::cuEventElapsedTime_v2(&mut milliseconds, start.raw, self.raw) };
        self.context().check("cuEventElapsedTime", result)?;
        Ok(milliseconds)
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        Shelf::list(&mut self.shelf.spare.lock(), self.timed).push(self.raw);
    }
}

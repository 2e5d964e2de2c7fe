//! Several devices as one: a pool for each, and calls go to the device with the least work under way.

use std::fmt;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use streampool_batch::{self as batch, BatchQueue, Request, Ticket};
use streampool_device::DeviceKind;
use streampool_model::{Array, Input, Outputs, RunOptions, Session};
use streampool_runtime::Pool;

use crate::error::{Error, ErrorKind, Result};

/// Several devices, each with a pool of its own. Cheap to clone; clones are the same set.
///
/// [`each`](Self::each) makes something once for each device, such as a session or a queue. Calls then go to the device with the
/// fewest calls under way. A device that is lost is left out from then on, and [`status`](Self::status) says so. What was under way
/// on it fails: nothing is run again elsewhere, because a model that breaks one device would then break the next.
///
/// ```
/// use streampool::prelude::*;
///
/// let set = streampool::host_set(2)?; // or `cuda_set()`: all NVIDIA GPUs
/// # let model = streampool::model::onnx::writer::Graph::new().input("x", DType::F32, "n 2").node("Relu x = y", &[])
/// #     .output("y", DType::F32, "n 2").model(&[("", 18)]);
/// let sessions = set.each(|pool| Ok(Session::from_bytes(pool, model.clone(), &SessionOptions::default())?))?;
/// let queues = sessions.map(|session| BatchQueue::for_session(session, BatchQueue::builder()))?;
/// let x = Array::new(&[-1.0f32, 2.0], &[1, 2])?;
/// assert_eq!(sessions.run([("x", &x)])?["y"].values::<f32>()?, [0.0, 2.0]); // from any thread
/// assert_eq!(queues.infer(x)?[0].values::<f32>()?, [0.0, 2.0]);
/// # Ok::<(), streampool::Error>(())
/// ```
#[derive(Clone)]
pub struct DeviceSet(Arc<[Member]>);

/// One device. Each is in cache lines of its own, since threads count on all of them all the time.
#[repr(align(128))]
struct Member {
    name: String,
    pool: Pool,
    under_way: AtomicUsize,
    begun: AtomicU64,
    lost: OnceLock<String>,
}

/// What a device of a set does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceUse {
    /// What tells it from the others: `cuda`, `cuda:1`.
    pub name: String,
    /// Calls under way on it.
    pub under_way: usize,
    /// Calls that ever began on it.
    pub begun: u64,
    /// Why it is left out, if it is lost.
    pub lost: Option<String>,
}

impl Member {
    fn new(pool: Pool, others: &[Member]) -> Member {
        let properties = pool.device().properties();
        // Host devices are numbered through the process, as they are made.
        let name = match (properties.kind, others.len()) {
            (DeviceKind::Host, 0) => DeviceKind::Host.name().to_owned(),
            (DeviceKind::Host, number) => format!("{}:{number}", DeviceKind::Host.name()),
            _ => properties.name.clone(),
        };
        Member {
            name,
            pool,
            under_way: AtomicUsize::new(0),
            begun: AtomicU64::new(0),
            lost: OnceLock::new(),
        }
    }
}

impl DeviceSet {
    /// A set of these pools, in this order. None at all is an error.
    pub fn new(pools: impl IntoIterator<Item = Pool>) -> Result<DeviceSet> {
        let mut members: Vec<Member> = Vec::new();
        for pool in pools {
            members.push(Member::new(pool, &members));
        }
        match members.is_empty() {
            true => Err(unavailable("there is no device in it")),
            false => Ok(DeviceSet(members.into())),
        }
    }

    /// The pools, in their order; also that of a lost device.
    pub fn pools(&self) -> impl ExactSizeIterator<Item = &Pool> {
        self.0.iter().map(|member| &member.pool)
    }

    /// How many devices there are, lost ones too.
    #[expect(clippy::len_without_is_empty, reason = "a set has at least one device")]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// What each device does, in their order.
    pub fn status(&self) -> Vec<DeviceUse> {
        let status = |member: &Member| DeviceUse {
            name: member.name.clone(),
            under_way: member.under_way.load(Ordering::Relaxed),
            begun: member.begun.load(Ordering::Relaxed),
            lost: member.lost.get().cloned(),
        };
        self.0.iter().map(status).collect()
    }

    /// Whether any device is left.
    pub fn is_usable(&self) -> bool {
        self.0.iter().any(|member| member.lost.get().is_none())
    }

    /// Calls `make` once for each device, one after the other. A device that is lost, or turns out to be, is left out; any other
    /// error is the result.
    pub fn each<T>(&self, make: impl Fn(&Pool) -> Result<T>) -> Result<PerDevice<T>> {
        self.each_by(|index| make(&self.0[index].pool))
    }

    fn each_by<T>(&self, make: impl Fn(usize) -> Result<T>) -> Result<PerDevice<T>> {
        let make = |(index, member): (usize, &Member)| {
            if member.lost.get().is_some() {
                return Ok(None);
            }
            match make(index) {
                Err(error) if self.is_loss(index, &error) => Ok(None),
                made => made.map(Some),
            }
        };
        let each = self.0.iter().enumerate().map(make);
        let each: Arc<[Option<T>]> = each.collect::<Result<_>>()?;
        if each.iter().all(Option::is_none) {
            return Err(self.all_lost());
        }
        Ok(PerDevice {
            set: self.clone(),
            each,
        })
    }

    /// Whether the error says that this device is lost. It is left out from now on.
    fn is_loss(&self, index: usize, error: &Error) -> bool {
        let lost = error.kind() == ErrorKind::DeviceLost;
        if lost {
            self.0[index].lost.get_or_init(|| error.to_string());
        }
        lost
    }

    /// The device with the fewest calls under way, of those that `may` be used; if several have as few, the one where fewer began. One
    /// more call is under way there.
    fn enter(&self, may: impl Fn(usize) -> bool) -> Option<usize> {
        loop {
            let usable = self.0.iter().enumerate();
            let usable =
                usable.filter(|(index, member)| may(*index) && member.lost.get().is_none());
            let load = |member: &Member| {
                let under_way = member.under_way.load(Ordering::Relaxed);
                (under_way, member.begun.load(Ordering::Relaxed))
            };
            let least = usable.map(|(index, member)| (load(member), index)).min();
            let ((under_way, _), index) = least?;
            let member = &self.0[index];
            // If others entered or left meanwhile, another device may have fewer.
            let counted = member.under_way.compare_exchange_weak(
                under_way,
                under_way + 1,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
            if counted.is_ok() {
                member.begun.fetch_add(1, Ordering::Relaxed);
                return Some(index);
            }
        }
    }

    fn all_lost(&self) -> Error {
        let whys = self.0.iter().filter_map(|member| member.lost.get());
        let whys: Vec<&str> = whys.map(String::as_str).collect();
        let why = match whys.is_empty() {
            true => "no device was there when it was made".to_owned(),
            false => whys.join("; "),
        };
        streampool_device::Error::DeviceLost(why).into()
    }
}

fn unavailable(why: &str) -> Error {
    let device = "device set".to_owned();
    let why = why.to_owned();
    streampool_device::Error::Unavailable { device, why }.into()
}

/// The one device of this pool.
impl From<Pool> for DeviceSet {
    fn from(pool: Pool) -> DeviceSet {
        DeviceSet([Member::new(pool, &[])].into())
    }
}

/// One `T` for each device of a [`DeviceSet`]: a session, a queue, or what else a call needs there. Cheap to clone.
pub struct PerDevice<T> {
    set: DeviceSet,
    each: Arc<[Option<T>]>,
}

impl<T> Clone for PerDevice<T> {
    fn clone(&self) -> Self {
        PerDevice {
            set: self.set.clone(),
            each: self.each.clone(),
        }
    }
}

impl<T> PerDevice<T> {
    /// The devices.
    pub fn set(&self) -> &DeviceSet {
        &self.set
    }

    /// Those that were made, in the order of the devices.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.each.iter().flatten()
    }

    /// Makes something else of each, on the same devices.
    pub fn map<U>(&self, make: impl Fn(&T) -> Result<U>) -> Result<PerDevice<U>> {
        self.set.each_by(|index| match &self.each[index] {
            Some(own) => make(own),
            None => Err(streampool_device::Error::DeviceLost("before".to_owned()).into()),
        })
    }

    /// The one on the device with the fewest calls under way. It counts there until it is dropped.
    ///
    /// A caller with state on a device, such as tensors that one call leaves for the next, keeps it for all its calls.
    pub fn take(&self) -> Result<Placed<T>> {
        self.take_of(|_| true)
    }

    fn take_of(&self, may: impl Fn(usize) -> bool) -> Result<Placed<T>> {
        let index = self
            .set
            .enter(|index| self.each[index].is_some() && may(index));
        let index = index.ok_or_else(|| self.set.all_lost())?;
        Ok(Placed {
            all: self.clone(),
            index,
        })
    }
}

/// A `T` on the device that was chosen. A call is under way on that device as long as this lives.
pub struct Placed<T> {
    all: PerDevice<T>,
    index: usize,
}

impl<T> Placed<T> {
    /// The number of its device in the set.
    pub fn device(&self) -> usize {
        self.index
    }

    /// The result of a call with it. If the result says that the device is lost, the set leaves it out from now on.
    pub fn checked<R, E: Into<Error>>(&self, result: Result<R, E>) -> Result<R> {
        let result = result.map_err(Into::into);
        if let Err(error) = &result {
            self.all.set.is_loss(self.index, error);
        }
        result
    }
}

impl<T> Deref for Placed<T> {
    type Target = T;

    fn deref(&self) -> &T {
        match &self.all.each[self.index] {
            Some(own) => own,
            None => unreachable!("only what is there is placed"),
        }
    }
}

impl<T> Drop for Placed<T> {
    fn drop(&mut self) {
        let member = &self.all.set.0[self.index];
        member.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

impl PerDevice<Session> {
    /// As [`Session::run`], on the device with the fewest calls under way; or where an input is, if it is a tensor.
    pub fn run<'a, N, I>(&self, inputs: impl IntoIterator<Item = (N, I)>) -> Result<Outputs>
    where
        N: AsRef<str>,
        I: Into<Input<'a>>,
    {
        self.run_with(inputs, &RunOptions::default())
    }

    /// As [`run`](Self::run), with options.
    pub fn run_with<'a, N, I>(
        &self,
        inputs: impl IntoIterator<Item = (N, I)>,
        options: &RunOptions,
    ) -> Result<Outputs>
    where
        N: AsRef<str>,
        I: Into<Input<'a>>,
    {
        let inputs = inputs.into_iter().map(|(name, input)| (name, input.into()));
        let inputs: Vec<(N, Input<'a>)> = inputs.collect();
        let home = inputs.iter().find_map(|(_, input)| match input {
            Input::Tensor(tensor) => self.set.pools().position(|pool| pool == tensor.pool()),
            _ => None,
        });
        let place = self.take_of(|index| home.is_none_or(|home| home == index))?;
        place.checked(place.run_with(inputs, options))
    }
}

impl Placed<BatchQueue> {
    fn answered<R>(&self, result: batch::Result<R>) -> batch::Result<R> {
        if let Err(error) = &result {
            self.all.set.is_loss(self.index, &error.clone().into());
        }
        result
    }
}

impl PerDevice<BatchQueue> {
    /// As [`BatchQueue::infer`], on the device with the fewest requests under way.
    pub fn infer(&self, request: impl Into<Request>) -> batch::Result<Vec<Array>> {
        let place = self.take().map_err(batch::Error::unavailable)?;
        place.answered(place.infer(request))
    }

    /// As [`BatchQueue::submit`], on the device with the fewest requests under way.
    pub fn submit(&self, request: impl Into<Request>) -> batch::Result<PlacedTicket> {
        let place = self.take().map_err(batch::Error::unavailable)?;
        let ticket = place.answered(place.submit(request))?;
        Ok(PlacedTicket { ticket, place })
    }

    /// As [`BatchQueue::run_or_submit`], on the device with the fewest requests under way.
    pub fn run_or_submit(&self, request: impl Into<Request>) -> batch::Result<PlacedTicket> {
        let place = self.take().map_err(batch::Error::unavailable)?;
        let ticket = place.answered(place.run_or_submit(request))?;
        Ok(PlacedTicket { ticket, place })
    }
}

/// A request under way in the queue of one device, as a [`Ticket`] is.
#[must_use = "a ticket that is dropped cancels its request"]
pub struct PlacedTicket {
    // First: it counts until the request is withdrawn.
    ticket: Ticket,
    place: Placed<BatchQueue>,
}

impl PlacedTicket {
    /// As [`Ticket::wait`].
    pub fn wait(self) -> batch::Result<Vec<Array>> {
        let PlacedTicket { ticket, place } = self;
        place.answered(ticket.wait())
    }

    /// As [`Ticket::is_ready`].
    pub fn is_ready(&self) -> bool {
        self.ticket.is_ready()
    }

    /// The number of its device in the set.
    pub fn device(&self) -> usize {
        self.place.index
    }
}

impl Future for PlacedTicket {
    type Output = batch::Result<Vec<Array>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let polled = Pin::new(&mut self.ticket).poll(context);
        polled.map(|result| self.place.answered(result))
    }
}

impl fmt::Debug for DeviceSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.status()).finish()
    }
}

impl<T> fmt::Debug for PerDevice<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PerDevice").field(&self.set).finish()
    }
}

impl<T> fmt::Debug for Placed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.all.set.0[self.index].name;
        f.debug_tuple("Placed").field(name).finish()
    }
}

impl fmt::Debug for PlacedTicket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlacedTicket")
            .field("ready", &self.is_ready())
            .field("device", &self.device())
            .finish_non_exhaustive()
    }
}

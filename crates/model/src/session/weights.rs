//! What a model knows, where the work is: on a device of its own memory, each weight once.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, OnceLock, Weak};

use streampool_device::lock::Mutex;
use streampool_device::{Layout, Span};
use streampool_runtime::{Budget, Stamp};
use streampool_tensor::{self as tensor, DType, Pool, Tensor, room::filled};

use super::options::in_time;
use crate::error::{NodeError, Result};
use crate::evaluate::is_same;
use crate::ranks;
use crate::trace::Picture;

/// The weights of a session.
pub struct Weights {
    known: Pool,
    work: Pool,
    /// What was moved, as long as a plan holds it.
    moved: Mutex<HashMap<Place, Entry<Weak<Tensor>>>>,
    /// What was lifted, the longest unused first.
    lifted: Mutex<VecDeque<Entry<Tensor>>>,
}

/// The memory of a known tensor, and the pictures that were laid out otherwise when it was moved.
type Place = (Span, Option<Picture>);

/// A tensor that has to stay, since its address stands for it, and what is made of it.
struct Entry<T> {
    from: Tensor,
    made: Arc<Cell<T>>,
    /// What a caller gave, which is made already.
    given: Option<Arc<Tensor>>,
}

/// What one thread makes while others wait; `None` if it could not be made.
type Cell<T> = OnceLock<Option<T>>;

impl<T> Entry<T> {
    fn of(from: &Tensor) -> Entry<T> {
        Entry {
            from: from.clone(),
            made: Arc::default(),
            given: None,
        }
    }
}

fn settle(pool: &Pool, since: Stamp) -> Result<()> {
    let stream = pool.current()?;
    let deadline = Budget::current_deadline();
    in_time(stream.wait_between(since, stream.position(), deadline))
}

/// Smaller tensors are lifted each time.
const LARGE: usize = 1 << 14;

/// So many tensors are kept lifted at most: what is made anew in each run would be, too.
const MOST_LIFTED: usize = 256;

impl Weights {
    /// None so far.
    pub fn new(known: Pool, work: Pool) -> Weights {
        Weights {
            known,
            work,
            moved: Mutex::new(ranks::WEIGHTS, HashMap::new()),
            lifted: Mutex::new(ranks::WEIGHTS, VecDeque::new()),
        }
    }

    /// The pool of what is known.
    pub fn known(&self) -> &Pool {
        &self.known
    }

    /// The pool where the work is.
    pub fn work(&self) -> &Pool {
        &self.work
    }

    /// Where the thread's streams are, of what is known and of the work.
    pub fn positions(&self) -> Result<[Stamp; 2]> {
        Ok([
            self.known.current()?.position(),
            self.work.current()?.position(),
        ])
    }

    /// Waits for what was made known and moved since then: what failed, or was not executed, is not kept for others.
    pub fn settle(&self, [known, work]: [Stamp; 2]) -> Result<()> {
        settle(&self.work, work)?;
        if self.known == self.work {
            return Ok(());
        }
        settle(&self.known, known).inspect_err(|_| {
            // Nobody else knows of this stream.
            let _ = self.known.current().and_then(|stream| stream.recover());
        })
    }

    /// What a caller gave, in the pool of what is known. What is where the work is, whole and row-major, is not moved there again.
    pub fn share(&self, given: &Tensor) -> Result<Tensor> {
        let known = given.to(&self.known)?;
        let is_there = !self.known.is_same(&self.work) && given.pool().is_same(&self.work);
        let is_whole = given.is_contiguous() && given.layout().offset() == 0;
        if is_there && is_whole && known.buffer().bytes() > 0 {
            let given = Arc::new(given.clone());
            let entry = Entry {
                from: known.clone(),
                made: Arc::new(OnceLock::from(Some(Arc::downgrade(&given)))),
                given: Some(given),
            };
            let place = (known.buffer().span(), None);
            self.moved.lock().insert(place, entry);
        }
        Ok(known)
    }

    /// Lets go of what was given and is of no use any more: it was computed with, or cast, when the model was loaded.
    pub fn drop_unused(&self) {
        let mut gone = Vec::new();
        let mut all = self.moved.lock();
        for (place, entry) in std::mem::take(&mut *all) {
            match entry.from.into_buffer() {
                // Nobody else has the known one.
                Ok(known) => gone.push((known, entry.given)),
                Err(known) => {
                    let entry = Entry {
                        from: *known,
                        ..entry
                    };
                    all.insert(place, entry);
                }
            }
        }
        drop(all);
        // Without the lock: who owns the memory may do anything when it goes.
        drop(gone);
    }

    /// What a caller gave as this, where the work is.
    fn given(&self, known: &Tensor) -> Option<Tensor> {
        let all = self.moved.lock();
        let entry = all.get(&(known.buffer().span(), None))?;
        let given = entry.given.as_ref()?;
        is_same(&entry.from, known).then(|| Tensor::clone(given))
    }

    /// A tensor whose memory has, from its start, what that of `known` has; if these are pictures, with the channels of
    /// each place side by side.
    pub fn at_work(&self, known: &Tensor, picture: Option<Picture>) -> Result<Arc<Tensor>> {
        if self.known == self.work && picture.is_none() {
            return Ok(Arc::new(known.clone()));
        }
        let place = (known.buffer().span(), picture);
        loop {
            let mut all = self.moved.lock();
            let entry = all.entry(place).or_insert_with(|| Entry::of(known));
            let cell = entry.made.clone();
            drop(all);
            let mut own = None;
            let there = cell.get_or_init(|| {
                let moved = own.insert(self.moved(known, picture)).as_ref().ok()?;
                Some(Arc::downgrade(moved))
            });
            let there = there.as_ref().and_then(Weak::upgrade);
            if there.is_none() {
                // It failed, or nobody holds it any more: who comes next makes it anew.
                self.forget(place, &cell);
            }
            match (own, there) {
                (Some(own), _) => return own,
                (None, Some(there)) => return Ok(there),
                (None, None) => {}
            }
        }
    }

    fn moved(&self, known: &Tensor, picture: Option<Picture>) -> Result<Arc<Tensor>> {
        let mut bytes = filled(0u8, known.buffer().bytes())?;
        self.known
            .current()?
            .download_into(known.buffer(), &mut bytes)?;
        if let Some(picture) = picture {
            bytes = channels_last(&bytes, known.dtype().size(), picture)?;
        }
        self.upload(&bytes)
    }

    fn forget(&self, place: Place, cell: &Arc<Cell<Weak<Tensor>>>) {
        let mut all = self.moved.lock();
        let is_there = all
            .get(&place)
            .is_some_and(|entry| Arc::ptr_eq(&entry.made, cell));
        let gone = is_there.then(|| all.remove(&place));
        drop(all);
        // Without the lock: who owns the memory may do anything when it goes.
        drop(gone);
    }

    /// Lets go of what no plan holds any more.
    pub fn prune(&self) {
        let is_over = |entry: &Entry<Weak<Tensor>>| match entry.made.get() {
            Some(Some(moved)) => moved.strong_count() == 0,
            // Who makes it, or failed to, sees to it.
            Some(None) | None => false,
        };
        let mut all = self.moved.lock();
        let gone: Vec<_> = all.extract_if(|_, entry| is_over(entry)).collect();
        drop(all);
        // Without the lock, as above.
        drop(gone);
    }

    /// A tensor of the same values where the work is. Large ones are kept, since nodes that are computed by themselves
    /// ask for the same weights again and again.
    pub fn lift(&self, known: &Tensor) -> Result<Tensor, NodeError> {
        if known.pool() == &self.work {
            return Ok(known.clone());
        }
        if let Some(given) = self.given(known) {
            return Ok(given);
        }
        if known.buffer().bytes() <= LARGE {
            return Ok(known.to(&self.work)?);
        }
        let cell = self.lifted(known);
        let mut failed = None;
        let mut made = || {
            let there = || {
                let begin = self.positions()?;
                let bytes = known.to_bytes()?;
                let lifted = self.lasting(known.dtype(), &bytes, known.shape())?;
                self.settle(begin).map(|()| lifted)
            };
            there().map_err(|error| failed = Some(error))
        };
        if let Some(lifted) = cell.get_or_init(|| made().ok()) {
            return Ok(lifted.clone());
        }
        let mut all = self.lifted.lock();
        let place = all.iter().position(|entry| Arc::ptr_eq(&entry.made, &cell));
        let gone = place.and_then(|place| all.remove(place));
        drop(all);
        // Without the lock, as above.
        drop(gone);
        match failed {
            Some(error) => Err(Box::new(error).into()),
            // Another thread has the error; this one finds out by itself.
            None => Ok(known.to(&self.work)?),
        }
    }

    /// Where it is lifted, or will be: the latest used now.
    fn lifted(&self, known: &Tensor) -> Arc<Cell<Tensor>> {
        let mut all = self.lifted.lock();
        let place = all.iter().position(|entry| is_same(&entry.from, known));
        let entry = place.and_then(|place| all.remove(place));
        let entry = entry.unwrap_or_else(|| Entry::of(known));
        let cell = entry.made.clone();
        all.push_back(entry);
        let oldest = (all.len() > MOST_LIFTED).then(|| all.pop_front());
        drop(all);
        drop(oldest);
        cell
    }

    /// Bytes where the work is.
    pub fn upload(&self, bytes: &[u8]) -> Result<Arc<Tensor>> {
        let there = self.lasting(DType::U8, bytes, &[bytes.len()])?;
        Ok(Arc::new(there))
    }

    /// A tensor where the work is, beside which only such lie.
    fn lasting(&self, dtype: DType, bytes: &[u8], shape: &[usize]) -> tensor::Result<Tensor> {
        let stream = self.work.current()?;
        let mut buffer = stream.allocate_lasting(bytes.len())?;
        stream.upload(&mut buffer, bytes)?;
        let layout = Layout::contiguous(shape).map_err(streampool_runtime::Error::from)?;
        Tensor::from_buffer(&self.work, buffer, dtype, layout)
    }
}

/// Pictures of elements of `size` bytes, with the channels of each place side by side.
fn channels_last(bytes: &[u8], size: usize, picture: Picture) -> Result<Vec<u8>> {
    let Picture { channels, places } = picture;
    let mut last = filled(0u8, bytes.len())?;
    let each = channels * places * size;
    for (from, to) in bytes.chunks_exact(each).zip(last.chunks_exact_mut(each)) {
        for (channel, line) in from.chunks_exact(places * size).enumerate() {
            for (place, element) in line.chunks_exact(size).enumerate() {
                let at = (place * channels + channel) * size;
                to[at..at + size].copy_from_slice(element);
            }
        }
    }
    Ok(last)
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use streampool_host::{HostDevice, HostOptions};

    use super::*;

    fn weights() -> Weights {
        let [known, work] = [(), ()].map(|()| crate::testing::host_pool());
        Weights::new(known, work)
    }

    fn constant(weights: &Weights, elements: usize) -> Tensor {
        Tensor::full(weights.known(), &[elements], 0.5, DType::F32).unwrap()
    }

    #[test]
    fn what_no_plan_holds_any_more_goes() {
        let weights = weights();
        let kept = constant(&weights, 7);
        let moved = weights.at_work(&kept, None).unwrap();
        assert_eq!(moved.to_bytes().unwrap()[..28], kept.to_bytes().unwrap());
        for elements in 1..500 {
            weights
                .at_work(&constant(&weights, elements), None)
                .unwrap();
            weights.prune();
            assert_eq!(weights.moved.lock().len(), 1);
        }
        assert!(Arc::ptr_eq(&weights.at_work(&kept, None).unwrap(), &moved));
        // What is gone already, though not told yet, is made anew.
        drop(moved);
        let moved = weights.at_work(&kept, None).unwrap();
        assert_eq!(moved.to_bytes().unwrap()[..28], kept.to_bytes().unwrap());
    }

    #[test]
    fn weights_may_be_moved_with_the_channels_of_each_place_side_by_side() {
        let weights = weights();
        let known: Vec<f32> = (0..24).map(|number| number as f32).collect();
        let known = Tensor::from_slice(weights.known(), &known, &[2, 3, 2, 2]).unwrap();
        let picture = Picture {
            channels: 3,
            places: 4,
        };
        let moved = weights.at_work(&known, Some(picture)).unwrap();
        let turned = known.permute(&[0, 2, 3, 1]).unwrap().to_bytes().unwrap();
        assert_eq!(moved.to_bytes().unwrap()[..96], turned);
        // The same weights may be wanted as they are, too.
        let plain = weights.at_work(&known, None).unwrap();
        assert_eq!(plain.to_bytes().unwrap()[..96], known.to_bytes().unwrap());
    }

    #[test]
    fn weights_lie_apart_from_what_is_computed() {
        let weights = weights();
        let chunk = |tensor: &Tensor| tensor.buffer().span().handle;
        let computed = || Tensor::full(weights.work(), &[7], 0.5, DType::F32).unwrap();
        let before = computed();
        let moved = weights.at_work(&constant(&weights, 7), None).unwrap();
        let lifted = weights.lift(&constant(&weights, LARGE)).unwrap();
        let after = computed();
        assert_eq!(chunk(&moved), chunk(&lifted));
        for tensor in [&before, &after] {
            assert_ne!(chunk(&moved), chunk(tensor));
        }
        assert_eq!(lifted.to_bytes().unwrap()[..4], 0.5f32.to_ne_bytes());
    }

    #[test]
    fn what_is_given_where_the_work_is_stays_there() {
        let weights = weights();
        let span = |tensor: &Tensor| tensor.buffer().span();
        let given = Tensor::full(weights.work(), &[4, LARGE], 0.5, DType::F32).unwrap();
        let known = weights.share(&given).unwrap();
        assert!(known.pool().is_same(weights.known()));
        assert_eq!(known.to_bytes().unwrap(), given.to_bytes().unwrap());
        let turned = known.transpose(0, 1).unwrap();
        for known in [&known, &turned] {
            assert_eq!(span(&weights.at_work(known, None).unwrap()), span(&given));
        }
        assert_eq!(span(&weights.lift(&known).unwrap()), span(&given));
        // Laid out otherwise it is copied.
        assert_eq!(weights.lift(&turned).unwrap().shape(), turned.shape());
        let picture = Some(Picture {
            channels: 4,
            places: LARGE,
        });
        assert_ne!(
            span(&weights.at_work(&known, picture).unwrap()),
            span(&given)
        );
        // So is what is a part of other memory, or elsewhere.
        let part = given.narrow(0, 1, 1).unwrap();
        let elsewhere = constant(&weights, 7)
            .to(&crate::testing::host_pool())
            .unwrap();
        for other in [&part, &elsewhere] {
            let known = weights.share(other).unwrap();
            let moved = weights.at_work(&known, None).unwrap();
            assert_ne!(span(&moved), span(other));
            assert_eq!(known.to_bytes().unwrap(), other.to_bytes().unwrap());
        }
    }

    #[test]
    fn what_is_given_is_let_go_of_once_nobody_has_what_it_stands_for() {
        let weights = weights();
        let given = [(); 2].map(|()| Tensor::full(weights.work(), &[7], 0.5, DType::F32).unwrap());
        let [kept, gone] = given.each_ref().map(|given| weights.share(given).unwrap());
        weights.prune();
        weights.drop_unused();
        assert_eq!(weights.moved.lock().len(), 2);
        drop(gone);
        weights.drop_unused();
        let [one, other] = given.map(Tensor::into_buffer);
        assert!(one.is_err() && other.is_ok());
        weights.at_work(&kept, None).unwrap();
        assert_eq!(weights.moved.lock().len(), 1);
    }

    /// What 8 threads get that ask at the same time.
    fn at_once<T: Send>(ask: impl Fn() -> T + Sync) -> Vec<T> {
        let barrier = Barrier::new(8);
        let asked = || {
            barrier.wait();
            ask()
        };
        std::thread::scope(|scope| {
            let threads = [(); 8].map(|()| scope.spawn(asked));
            threads.map(|thread| thread.join().unwrap()).into()
        })
    }

    #[test]
    fn threads_that_need_a_weight_first_move_it_once() {
        let weights = weights();
        for elements in [1 << 20, 1 << 21] {
            let known = constant(&weights, elements);
            let moved = at_once(|| weights.at_work(&known, None).unwrap());
            assert!(moved.iter().all(|other| Arc::ptr_eq(other, &moved[0])));
            let lifted = at_once(|| weights.lift(&known).unwrap());
            assert!(lifted.iter().all(|other| is_same(other, &lifted[0])));
        }
    }

    #[test]
    fn what_could_not_be_moved_is_tried_again() {
        let known = HostDevice::new(HostOptions::default()).unwrap();
        let work = HostDevice::new(HostOptions::default()).unwrap();
        let weights = Weights::new(Pool::new(known).unwrap(), Pool::new(work.clone()).unwrap());
        let known = constant(&weights, 1 << 22);
        let fail = || work.injector().fail_allocations(usize::MAX);
        fail();
        assert!(weights.at_work(&known, None).is_err());
        assert!(weights.moved.lock().is_empty());
        fail();
        assert!(weights.lift(&known).is_err());
        assert!(weights.lifted.lock().is_empty());
        work.injector().clear();
        let bytes = known.to_bytes().unwrap();
        assert_eq!(
            weights.at_work(&known, None).unwrap().to_bytes().unwrap(),
            bytes
        );
        assert_eq!(weights.lift(&known).unwrap().to_bytes().unwrap(), bytes);
    }

    #[test]
    fn only_so_many_stay_lifted_the_latest_used() {
        let weights = weights();
        let known = constant(&weights, LARGE);
        let lifted = weights.lift(&known).unwrap();
        for more in 1..=2 * MOST_LIFTED {
            weights.lift(&constant(&weights, LARGE + more)).unwrap();
            assert!(weights.lifted.lock().len() <= MOST_LIFTED);
            assert!(is_same(&weights.lift(&known).unwrap(), &lifted));
        }
    }
}

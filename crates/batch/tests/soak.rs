//! Everything at once for some seconds: each request is accounted for exactly once, by its own outcome and by the statistics.
#![cfg(not(loom))]

mod common;

use std::ops::AddAssign;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

use common::*;
use streampool_batch::{
    Batch, BatchQueue, BatchQueueBuilder, Error, Padding, Priority, Request, RequestCounts, Result,
    Shutdown, Statistics, Ticket, WhenFull,
};
use streampool_tensor::Array;

const SEED: u64 = 0x5EED_0006;
const EACH: Duration = Duration::from_millis(if SANITIZED { 1000 } else { 3000 });
const TENANTS: [&str; 4] = ["", "a", "b", "c"];
const MOST_ROWS: usize = 8;

/// Seeded random numbers (xorshift): the same in each run.
struct Random(u64);

impl Random {
    fn new(number: u64) -> Random {
        let mut random = Random((SEED + number).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        for _ in 0..8 {
            random.below(2);
        }
        random
    }

    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end
    }

    /// Once in so many times.
    fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

/// What is wrong with a row.
const FAILS: i64 = 1;
const PANICS: i64 = 2;
const GIVES_TOO_MANY: i64 = 3;

/// Three times each number and one more, if nothing is wrong with any row; now and then it fails for no reason.
fn function(batch: &Batch, calls: &AtomicU64) -> Result<Batch, String> {
    let text = |error: Error| error.to_string();
    let (numbers, wrong) = (batch.array(0).map_err(text)?, batch.array(1).map_err(text)?);
    let wrong = wrong.values::<i64>().unwrap();
    let call = calls.fetch_add(1, Ordering::Relaxed);
    if call.is_multiple_of(5) {
        thread::sleep(Duration::from_micros(call % 400));
    }
    if wrong.contains(&PANICS) {
        panic!("a row that panics");
    }
    if wrong.contains(&FAILS) || call.is_multiple_of(211) {
        return Err("this fails".to_owned());
    }
    let values: Vec<i64> = numbers
        .values::<i64>()
        .unwrap()
        .iter()
        .map(|number| 3 * number + 1)
        .collect();
    let outputs = Array::new(&values, numbers.shape()).unwrap();
    let outputs = match wrong.contains(&GIVES_TOO_MANY) {
        true => Array::join(&[&outputs, &outputs]).unwrap(),
        false => outputs,
    };
    Batch::new(vec![outputs]).map_err(text)
}

/// What became of requests, as far as their callers know.
#[derive(Default, Clone, Copy)]
struct Known {
    completed: u64,
    failed: u64,
    expired: u64,
    rejected: u64,
    closed: u64,
    /// Given up by the caller, who does not know.
    dropped: u64,
}

impl AddAssign for Known {
    fn add_assign(&mut self, other: Known) {
        self.completed += other.completed;
        self.failed += other.failed;
        self.expired += other.expired;
        self.rejected += other.rejected;
        self.closed += other.closed;
        self.dropped += other.dropped;
    }
}

/// A request, and what its answer has to be.
struct Asked {
    request: Request,
    tenant: usize,
    width: usize,
    numbers: Vec<i64>,
    guilty: bool,
}

impl Asked {
    fn new(random: &mut Random) -> Asked {
        let rows = match random.once_in(12) {
            true => MOST_ROWS as u64 + random.below(2 * MOST_ROWS as u64),
            false => 1 + random.below(3),
        } as usize;
        let width = random.of(&[1, 3, 4, 7]);
        let first = random.below(1 << 40) as i64;
        let numbers: Vec<i64> = (first..).take(rows * width).collect();
        let mut wrong = vec![0; rows];
        if random.once_in(10) {
            wrong[random.below(rows as u64) as usize] =
                random.of(&[FAILS, FAILS, PANICS, GIVES_TOO_MANY]);
        }
        let tenant = random.below(TENANTS.len() as u64) as usize;
        let inputs = vec![
            Array::new(&numbers, &[rows, width]).unwrap(),
            Array::new(&wrong, &[rows]).unwrap(),
        ];
        let priority = random.of(&[
            Priority::High,
            Priority::Normal,
            Priority::Normal,
            Priority::Low,
        ]);
        let mut request = Request::new(inputs).priority(priority).key(random.below(2));
        if tenant > 0 {
            request = request.tenant(TENANTS[tenant]);
        }
        if random.once_in(4) {
            request = request.within(Duration::from_micros(random.below(3000)));
        }
        Asked {
            request,
            tenant,
            width,
            numbers,
            guilty: wrong.iter().any(|wrong| *wrong != 0),
        }
    }

    fn check(&self, outputs: &[Array]) {
        assert!(!self.guilty, "a request with a wrong row was answered");
        let expected: Vec<i64> = self.numbers.iter().map(|number| 3 * number + 1).collect();
        assert_eq!(
            outputs[0].shape(),
            [self.numbers.len() / self.width, self.width]
        );
        assert_eq!(
            outputs[0].values::<i64>().unwrap(),
            expected,
            "somebody else's answer"
        );
    }
}

/// Somebody who asks, and keeps account.
struct Client {
    random: Random,
    accounts: [Known; TENANTS.len()],
}

impl Client {
    fn new(number: u64) -> Client {
        Client {
            random: Random::new(number),
            accounts: Default::default(),
        }
    }

    fn dropped(&mut self, asked: &Asked) {
        self.accounts[asked.tenant].dropped += 1;
    }

    fn ended(&mut self, asked: &Asked, result: Result<Vec<Array>>) {
        let account = &mut self.accounts[asked.tenant];
        *match result {
            Ok(outputs) => {
                asked.check(&outputs);
                &mut account.completed
            }
            Err(Error::Failed(_) | Error::Panicked(_) | Error::Rows { .. }) => &mut account.failed,
            Err(Error::Expired) => &mut account.expired,
            Err(Error::Closed) => &mut account.closed,
            Err(Error::Full { retry_after, .. }) => {
                assert!(retry_after < Duration::from_secs(60), "{retry_after:?}");
                &mut account.rejected
            }
            Err(error) => panic!("{error}"),
        } += 1;
    }

    /// Waits for a ticket in one way or another, or drops it.
    fn redeem(&mut self, asked: &Asked, ticket: Result<Ticket>) {
        let ticket = match ticket {
            Ok(ticket) => ticket,
            Err(error) => return self.ended(asked, Err(error)),
        };
        let result = match self.random.below(6) {
            0 => return self.dropped(asked),
            1 => match Bell::new().poll(&mut Box::pin(ticket)) {
                Poll::Ready(result) => result,
                Poll::Pending => return self.dropped(asked),
            },
            2 => match ticket.wait_timeout(Duration::from_micros(self.random.below(2000))) {
                Ok(result) => result,
                Err(ticket) if self.random.once_in(2) => ticket.wait(),
                Err(_) => return self.dropped(asked),
            },
            3 => block_on(ticket),
            _ => ticket.wait(),
        };
        self.ended(asked, result);
    }

    fn many(&mut self, most: u64) -> Vec<Asked> {
        let count = 1 + self.random.below(most);
        (0..count).map(|_| Asked::new(&mut self.random)).collect()
    }

    /// One thing that a thread may do.
    fn act(&mut self, queue: &BatchQueue) {
        match self.random.below(8) {
            0 => {
                let asked = self.many(30);
                let requests = asked.iter().map(|asked| asked.request.clone());
                for (asked, ticket) in asked.iter().zip(queue.submit_many(requests)) {
                    self.redeem(asked, ticket);
                }
            }
            1 => {
                let asked = self.many(30);
                let requests = asked.iter().map(|asked| asked.request.clone());
                let results: Vec<_> = queue.infer_all(requests).collect();
                assert_eq!(results.len(), asked.len());
                for (asked, result) in asked.iter().zip(results) {
                    self.ended(asked, result);
                }
            }
            2 => {
                let asked = Asked::new(&mut self.random);
                let mut entering = Box::pin(queue.submit_when_room(asked.request.clone()));
                match Bell::new().poll(&mut entering) {
                    Poll::Ready(ticket) => self.redeem(&asked, ticket),
                    Poll::Pending => self.dropped(&asked),
                }
            }
            3 => {
                let asked = Asked::new(&mut self.random);
                let ticket = queue.submit(asked.request.clone());
                self.redeem(&asked, ticket);
            }
            _ => {
                let asked = Asked::new(&mut self.random);
                let result = queue.infer(asked.request.clone());
                self.ended(&asked, result);
            }
        }
    }

    /// The same for a task, which never blocks its thread.
    async fn act_as_task(&mut self, queue: &BatchQueue) {
        let asked = Asked::new(&mut self.random);
        match queue.submit_when_room(asked.request.clone()).await {
            Ok(ticket) if self.random.once_in(8) => {
                drop(ticket);
                self.dropped(&asked);
            }
            Ok(ticket) => {
                let result = ticket.await;
                self.ended(&asked, result);
            }
            Err(error) => self.ended(&asked, Err(error)),
        }
    }
}

/// Everything that callers and statistics say of a queue that is closed agrees.
fn agree(known: &[Known; TENANTS.len()], statistics: &Statistics) {
    assert_eq!((statistics.queued_requests, statistics.queued_rows), (0, 0));
    assert_eq!((statistics.queued_bytes, statistics.running), (0, 0));
    let mut all = RequestCounts::default();
    for (name, known) in TENANTS.iter().zip(known) {
        let fates = &statistics.tenants[*name].requests;
        all.add(fates);
        let answered = known.completed + known.failed + known.expired + known.closed;
        let submitted = answered + known.rejected + known.dropped;
        assert_eq!(
            (fates.submitted, fates.over()),
            (submitted, submitted),
            "{name}: {fates:?}"
        );
        assert_eq!(fates.rejected, known.rejected, "{name}");
        // Of those that were given up it is not known, but they are no more.
        let pairs = [
            (fates.completed, known.completed),
            (fates.failed, known.failed),
            (fates.expired, known.expired),
            (fates.closed, known.closed),
            (fates.cancelled, 0),
        ];
        let beyond = pairs
            .map(|(counted, known)| counted.checked_sub(known).expect("a fate was not counted"));
        assert_eq!(
            beyond.iter().sum::<u64>(),
            known.dropped,
            "{name}: {fates:?}"
        );
    }
    assert_eq!(all, statistics.requests);
    assert_eq!(
        statistics.batch_rows.count(),
        statistics.reasons.values().sum::<u64>()
    );
    assert!(statistics.service_time.count() <= statistics.batch_rows.count());
    assert!(statistics.batch_rows.max() <= MOST_ROWS as u64);
    assert!(statistics.queue_time.count() >= all.completed);
    let fates = [
        all.completed,
        all.failed,
        all.cancelled,
        all.expired,
        all.closed,
    ];
    assert!(
        fates.iter().all(|count| *count > 0),
        "something did not happen: {all:?}"
    );
}

/// Threads, tasks, and somebody who closes and restarts.
fn soak(builder: BatchQueueBuilder) -> Statistics {
    let _watch = watch();
    println!("seed {SEED:#x}, {builder:?}");
    let calls = Arc::new(AtomicU64::new(0));
    let counted = calls.clone();
    let queue = builder
        .max_batch_size(MOST_ROWS)
        .tenant("a", 3.0)
        .build(move |batch| function(&batch, &counted))
        .unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let accounts = Arc::new(Mutex::new(Vec::new()));
    let executor = Arc::new(Executor::default());
    for number in 0..20 {
        let (queue, over, accounts) = (queue.clone(), over.clone(), accounts.clone());
        executor.spawn(async move {
            let mut client = Client::new(100 + number);
            while !over.load(Ordering::Relaxed) {
                client.act_as_task(&queue).await;
            }
            accounts.lock().unwrap().push(client.accounts);
        });
    }
    thread::scope(|scope| {
        for number in 0..5 {
            let (queue, over, accounts) = (&queue, &over, &accounts);
            scope.spawn(move || {
                let mut client = Client::new(number);
                while !over.load(Ordering::Relaxed) {
                    client.act(queue);
                }
                accounts.lock().unwrap().push(client.accounts);
            });
        }
        scope.spawn(|| executor.run());
        let (begun, mut random) = (Instant::now(), Random::new(1000));
        while begun.elapsed() < EACH {
            thread::sleep(Duration::from_millis(20 + random.below(60)));
            let requests = queue.statistics().requests;
            assert!(requests.over() <= requests.submitted, "{requests:?}");
            queue.shutdown(random.of(&[Shutdown::Drain, Shutdown::Cancel]));
            thread::sleep(Duration::from_micros(random.below(300)));
            queue.restart().unwrap();
        }
        over.store(true, Ordering::Relaxed);
    });
    queue.shutdown(Shutdown::Drain);
    let mut known = [Known::default(); TENANTS.len()];
    for account in accounts.lock().unwrap().iter() {
        known
            .iter_mut()
            .zip(account)
            .for_each(|(sum, more)| *sum += *more);
    }
    let statistics = queue.statistics();
    agree(&known, &statistics);
    statistics
}

#[test]
fn with_a_small_queue_that_refuses() {
    let statistics = soak(BatchQueue::builder().capacity(12).max_in_flight(2));
    assert!(statistics.requests.rejected > 0 && statistics.retries > 0);
}

#[test]
fn with_a_queue_that_has_callers_wait_and_fills_requests_up() {
    let builder = BatchQueue::builder().capacity(4).when_full(WhenFull::Block);
    let padding = Padding::to_multiples(1, 4).outputs(&[0]);
    let builder = builder.padding(padding).max_wait(Duration::from_millis(1));
    let statistics = soak(builder.max_in_flight(3));
    assert_eq!(statistics.requests.rejected, 0);
    assert!(statistics.padding_waste > 0.0);
}

#[test]
fn with_a_queue_that_has_callers_wait_for_a_time() {
    let builder = BatchQueue::builder()
        .capacity(6)
        .max_in_flight(1)
        .adaptive(false);
    let builder = builder.when_full(WhenFull::Wait(Duration::from_micros(300)));
    let statistics = soak(
        builder
            .max_overtakes(1)
            .latency_objective(Duration::from_millis(1)),
    );
    assert!(statistics.requests.rejected > 0);
}

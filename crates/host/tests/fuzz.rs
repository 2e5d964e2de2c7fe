//! Ops of hostile numbers on the host device: each is refused, or ends soon with its results or an error, and touches
//! nothing but what it may write. The process has little memory.
//!
//! `HOSTILE_CASES` says how many are tried, `HOSTILE_SECONDS` for how long, and `HOSTILE_FIRST` which is the first: a case that
//! fails says its number.

use std::sync::Arc;
use std::time::{Duration, Instant};

use streampool_conformance::hostile::{self, Cases, Effort};
use streampool_device::*;
use streampool_host::{HostDevice, HostOptions};

/// What would take longer is wanted for so long only.
const DEADLINE: Duration = Duration::from_millis(5);
/// Nothing here takes so much time of processors, unless it does not end. A sanitizer slows all down.
const FOREVER: Duration = match cfg!(any(sanitize_address, sanitize_thread)) {
    true => Duration::from_secs(30),
    false => Duration::from_secs(5),
};
/// So many cases that are wrong are enough.
const MOST_WRONG: usize = 4;

/// So much address space has the process, at most.
#[cfg(all(target_os = "linux", not(sanitize_thread), not(sanitize_address)))]
const MOST_MEMORY: u64 = 4 << 30;

/// Numbers of all kinds: also as indices, a few of which are in range.
fn fill(bytes: &mut [u8]) {
    for (place, word) in bytes.chunks_exact_mut(4).enumerate() {
        let word: &mut [u8; 4] = word.try_into().expect("four bytes");
        *word = match place % 7 {
            0 => 1f32.to_le_bytes(),
            1 => (-0.5f32).to_le_bytes(),
            2 => [1, 0, 0, 0],
            _ => [0; 4],
        };
    }
}

/// Cases far from the first that did not end in time once.
const FOUND: [u64; 4] = [2_781_319, 3_511_425, 4_238_617, 8_073_463];

#[test]
fn ops_of_hostile_numbers_end_and_touch_only_their_results() {
    #[cfg(all(target_os = "linux", not(sanitize_thread), not(sanitize_address)))]
    {
        let limit = libc::rlimit {
            rlim_cur: MOST_MEMORY,
            rlim_max: libc::RLIM_INFINITY,
        };
        // SAFETY: it reads the limit.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
    }
    let cases = Cases::from_environment("HOSTILE_CASES", 60_000);
    let (first, begun) = (cases.left().start, Instant::now());
    let mut wanted = vec![0u8; hostile::BYTES];
    fill(&mut wanted);
    let mut bench = Bench::new();
    let (mut refused, mut given_up, mut done, mut failed) = (0u64, 0u64, 0u64, 0u64);
    let mut wrong = Vec::new();
    let found = if first == 0 { &FOUND[..] } else { &[] };
    for case in found.iter().copied().chain(cases) {
        match bench.case(case, &wanted) {
            Ok(Ended::Refused) => refused += 1,
            Ok(Ended::GivenUp) => given_up += 1,
            Ok(Ended::Done) => done += 1,
            Ok(Ended::Failed) => failed += 1,
            Err(why) => {
                eprintln!("case {case}: {why}");
                wrong.push(case);
                if wrong.len() == MOST_WRONG {
                    break;
                }
                // What does not end keeps its device.
                std::mem::forget(std::mem::replace(&mut bench, Bench::new()));
            }
        }
    }
    let tried = refused + given_up + done + failed + wrong.len() as u64;
    let (used, case) = bench.latest;
    println!("at most {used:?} of processors after it was given up, in case {case}");
    println!(
        "ops: {tried} tried from {first} in {:?}: {refused} refused, {given_up} given up, {done} done, {failed} failed, {} wrong",
        begun.elapsed(),
        wrong.len()
    );
    assert!(wrong.is_empty(), "cases {wrong:?}");
    // Neither everything fits nor nothing.
    assert!(tried < 10_000 || (done > tried / 20 && refused > tried / 20 && failed * given_up > 0));
    let Bench { device, memory, .. } = bench;
    // SAFETY: every op was waited for.
    unsafe { device.free(memory) };
}

/// How a case ended that is right.
enum Ended {
    Refused,
    /// It takes too long to be waited for, and ended when nobody wanted it any more.
    GivenUp,
    Done,
    Failed,
}

/// Waits for what is over soon, however busy the machine is.
fn wait(progress: &dyn Progress, tick: Tick) -> Result<()> {
    let mut effort = None;
    loop {
        match progress.wait(tick, Some(Instant::now() + Duration::from_secs(1))) {
            Err(Error::Timeout(_))
                if !effort.get_or_insert_with(Effort::begin).is_beyond(FOREVER) => {}
            waited => return waited,
        }
    }
}

struct Bench {
    device: Arc<HostDevice>,
    queue: Box<dyn Queue>,
    memory: Memory,
    latest: (Duration, u64),
}

impl Bench {
    fn new() -> Bench {
        let device = HostDevice::new(HostOptions::default().threads(2)).unwrap();
        let queue = device.create_queue(QueueOptions::default()).unwrap();
        let memory = device.allocate(hostile::BYTES, Space::Staging).unwrap();
        Bench {
            device,
            queue,
            memory,
            latest: (Duration::ZERO, 0),
        }
    }

    fn case(&mut self, case: u64, wanted: &[u8]) -> std::result::Result<Ended, String> {
        let Some(op) = hostile::op(case, self.memory.handle) else {
            return Ok(Ended::Refused);
        };
        match op.validate() {
            Ok(()) => {}
            Err(Error::InvalidOp { .. } | Error::Invalid { .. }) => return Ok(Ended::Refused),
            Err(error) => return Err(format!("{error}: {op:?}")),
        }
        let address = self.device.host_address(&self.memory).unwrap();
        // SAFETY: nothing is under way, and the memory is as long.
        unsafe {
            let to = address.as_ptr();
            to.copy_from_nonoverlapping(wanted.as_ptr(), wanted.len());
        }
        let begun = Instant::now();
        // SAFETY: the memory lives until the op is over, and nobody else touches it.
        let tick = unsafe { self.queue.encode(&op) }.map_err(|error| format!("{error}: {op:?}"))?;
        let progress = self.queue.progress();
        let mut waited = match hostile::is_short(&op) {
            true => wait(&*progress, tick),
            false => progress.wait(tick, Some(begun + DEADLINE)),
        };
        let mut is_given_up = false;
        if let Err(Error::Timeout(_)) = waited {
            is_given_up = !hostile::is_short(&op);
            let effort = Effort::begin();
            progress.give_up(tick - 1, tick);
            waited = wait(&*progress, tick);
            self.latest = self.latest.max((effort.used(), case));
        }
        let ended = match waited {
            Err(Error::Fault(fault)) if is_given_up && fault.message().contains("given up") => {
                self.queue.recover().unwrap();
                Ended::GivenUp
            }
            Ok(()) => Ended::Done,
            Err(Error::Fault(fault)) if !fault.message().contains("panicked") => {
                self.queue.recover().unwrap();
                Ended::Failed
            }
            Err(error) => return Err(format!("{error}: {op:?}")),
        };
        // SAFETY: as above; the op is over.
        let got = unsafe { std::slice::from_raw_parts_mut(address.as_ptr(), wanted.len()) };
        for (offset, bytes) in hostile::written(&op) {
            got[offset..offset + bytes].copy_from_slice(&wanted[offset..offset + bytes]);
        }
        match got == wanted {
            true => Ok(ended),
            false => Err(format!("it wrote beside its results: {op:?}")),
        }
    }
}

//! The GPU: streams of commands, and the threads that work them off.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Condvar, MutexGuard, Once, PoisonError};
use std::time::Instant;

use cudarc::driver::sys::CUresult;
use streampool_emulated::cuda::Operand;

use crate::driver::{State, state};
use crate::handle::{Handle, Outcome, find};
use crate::memory::Place;
use crate::objects::{Command, Copy, Recording, Run, Stream, Turns, Work};
use crate::report::{Rule, breach};

/// Threads of the GPU: more than one, so that streams overlap.
const THREADS: usize = 3;

/// There may be something to do.
static WORK: Condvar = Condvar::new();
/// Something is over.
static OVER: Condvar = Condvar::new();

impl Recording {
    pub fn is_over(&self) -> bool {
        self.0.get().is_some()
    }

    pub fn at(&self) -> Outcome<Instant> {
        let at = self.0.get().copied();
        at.ok_or(CUresult::CUDA_ERROR_NOT_READY)
    }
}

impl Work {
    fn run(self) -> Outcome {
        match self {
            Work::Astray => Err(CUresult::CUDA_ERROR_ILLEGAL_ADDRESS),
            Work::Copy(copy) => {
                copy.run();
                Ok(())
            }
            Work::Kernel(run) => {
                run.run();
                Ok(())
            }
            Work::Note(recording) => {
                // It is this launch's own.
                let _ = recording.0.set(Instant::now());
                Ok(())
            }
        }
    }
}

impl Copy {
    fn run(&self) {
        let to: *mut u8 = std::ptr::with_exposed_provenance_mut(self.to);
        let from: *const u8 = match &self.staged {
            Some(bytes) => bytes.as_ptr(),
            None => std::ptr::with_exposed_provenance(self.from),
        };
        // SAFETY: both were checked to be so long and apart; ranges of ours stay while this holds them, and pageable
        // memory is waited for by the call that names it.
        unsafe { to.copy_from_nonoverlapping(from, self.bytes) };
    }
}

impl Run {
    fn run(mut self) {
        let Some(kernel) = &self.function.kernel else {
            return;
        };
        let operand = |place: &Place| Operand {
            address: std::ptr::with_exposed_provenance_mut(place.address),
            before: place.before,
            bytes: place.bytes,
        };
        let operands: Vec<Operand> = self.operands.iter().map(operand).collect();
        // SAFETY: the memory stays while this holds its places; that streams are ordered where they use the same is
        // what the driver leaves to its user.
        let outcome = unsafe { kernel.run(self.groups, self.threads, &operands, &mut self.params) };
        if let Err(why) = outcome {
            breach(Rule::Kernel, &why);
        }
    }
}

/// Waits until `done`, or until nothing works any more.
pub fn wait<'a>(
    mut state: MutexGuard<'a, State>,
    mut done: impl FnMut(&State) -> bool,
) -> (MutexGuard<'a, State>, Outcome) {
    loop {
        if let Some(lost) = state.lost {
            return (state, Err(lost));
        }
        if done(&state) {
            return (state, Ok(()));
        }
        state = OVER.wait(state).unwrap_or_else(PoisonError::into_inner);
    }
}

/// Starts the threads of the GPU, once.
pub fn start() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        for number in 0..THREADS {
            let name = format!("cuda-sim-{number}");
            let started = std::thread::Builder::new().name(name).spawn(serve);
            started.expect("the machine has a thread for the imitation");
        }
    });
}

fn serve() {
    let mut turn = state();
    loop {
        let Some((stream, command)) = turn.next() else {
            turn = WORK.wait(turn).unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        drop(turn);
        let (works, turns) = match command {
            Job::One(work) => (vec![work], None),
            Job::Graph(turns, works) => (works, Some(turns)),
        };
        // Each lets go of what it keeps before anybody can know that it is over.
        let outcome = works.into_iter().try_for_each(Work::run);
        turn = state();
        turn.finish(stream, turns, outcome);
        OVER.notify_all();
        WORK.notify_one();
    }
}

enum Job {
    One(Work),
    Graph(Turns, Vec<Work>),
}

impl Stream {
    pub fn new(priority: i32) -> Stream {
        Stream {
            commands: VecDeque::new(),
            running: false,
            appended: 0,
            completed: 0,
            priority,
            served: 0,
            destroyed: false,
            capture: None,
        }
    }

    /// The count of what it was told so far, and of what is over.
    pub fn progress(&self) -> [u64; 2] {
        [self.appended, self.completed]
    }

    pub fn is_idle(&self) -> bool {
        self.appended == self.completed
    }

    pub fn append(&mut self, command: Command) {
        self.appended += 1;
        self.commands.push_back(command);
        WORK.notify_one();
    }

    /// Whether a thread could take its first command now.
    fn is_ready(&self) -> bool {
        !self.running
            && match self.commands.front() {
                Some(Command::Graph(turns, turn, _)) => turns.load(Ordering::Acquire) == *turn,
                Some(Command::Work(_)) => true,
                _ => false,
            }
    }
}

impl State {
    /// The stream of this handle.
    #[track_caller]
    pub fn stream(&mut self, handle: Handle) -> Outcome<&mut Stream> {
        // The names of the default streams.
        if handle <= 2 {
            breach(
                Rule::Imitated,
                "there is no default stream in the imitation",
            );
        }
        let stream = find(&mut self.streams, "stream", handle)?;
        if stream.destroyed {
            breach(
                Rule::Handle,
                &format!("stream {handle:#x} is used after it was destroyed"),
            );
        }
        Ok(stream)
    }

    /// What a thread of the GPU is to do. All that takes no time is done on the way.
    fn next(&mut self) -> Option<(Handle, Job)> {
        while self.pass() {
            OVER.notify_all();
            WORK.notify_all();
        }
        let ready = self.streams.iter().filter(|(_, stream)| stream.is_ready());
        let first = ready.min_by_key(|(_, stream)| (stream.priority, stream.served));
        let handle = first.map(|(handle, _)| *handle)?;
        let latest = self.streams.values().map(|stream| stream.served).max();
        let stream = self.streams.get_mut(&handle)?;
        stream.served = latest.unwrap_or(0) + 1;
        stream.running = true;
        match stream.commands.pop_front()? {
            Command::Work(work) => Some((handle, Job::One(work))),
            Command::Graph(turns, _, works) => Some((handle, Job::Graph(turns, works))),
            _ => None,
        }
    }

    /// Takes each stream past what takes no time. Whether there was any.
    fn pass(&mut self) -> bool {
        let mut any = false;
        for stream in self.streams.values_mut().filter(|stream| !stream.running) {
            while let Some(command) = stream.commands.front() {
                match command {
                    Command::Record(recording) => drop(recording.0.set(Instant::now())),
                    Command::Wait(recording) if recording.is_over() => {}
                    Command::Free(address) => self.memory.gone(*address),
                    _ => break,
                }
                stream.commands.pop_front();
                stream.completed += 1;
                any = true;
            }
        }
        self.streams
            .retain(|_, stream| !stream.destroyed || !stream.is_idle());
        any
    }

    fn finish(&mut self, handle: Handle, turns: Option<Turns>, outcome: Outcome) {
        if let Some(turns) = turns {
            turns.fetch_add(1, Ordering::AcqRel);
        }
        if let Some(stream) = self.streams.get_mut(&handle) {
            stream.running = false;
            stream.completed += 1;
        }
        if let Err(lost) = outcome {
            self.lost.get_or_insert(lost);
        }
        self.drop_if_lost();
    }

    /// Takes from the streams of a lost GPU what they were told.
    fn drop_if_lost(&mut self) {
        if self.lost.is_some() {
            for stream in self.streams.values_mut() {
                stream.commands.clear();
            }
        }
    }
}

/// Loses the GPU now, whatever it does: as when its memory has an error that it cannot correct.
pub fn lose() {
    let mut state = state();
    state
        .lost
        .get_or_insert(CUresult::CUDA_ERROR_ECC_UNCORRECTABLE);
    state.drop_if_lost();
    OVER.notify_all();
}

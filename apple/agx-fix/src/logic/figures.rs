//! What is counted, without a place that all threads write to.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use super::guarded::Thread;

/// What there is a count of.
#[derive(Debug, Clone, Copy)]
pub enum Figure {
    /// Classes that are wrapped.
    Classes,
    /// Methods that are wrapped.
    Methods,
    /// Methods that are not wrapped, because the stubs are used up.
    MethodsLeftOut,
    /// Encoders created.
    Created,
    /// Encoders and command buffers first met in a call.
    Unannounced,
    /// Encoders ended.
    Ended,
    /// Encoders destroyed.
    Destroyed,
    /// Destructions that were deferred because a call was in the object.
    Deferred,
    /// Calls, without those that a call made itself.
    Calls,
    /// Calls that another call on the same object made.
    NestedCalls,
    /// Calls that waited for another thread.
    Waits,
    /// Nanoseconds that they waited.
    WaitNanoseconds,
    /// Waits that were long enough to be told.
    LongWaits,
    /// Waits that were given up.
    GivenUp,
    /// Calls on an encoder that was ended.
    AfterEnd,
    /// Calls on an object that was destroyed.
    AfterDestruction,
    /// Calls that an exception or a jump left.
    Abandoned,
    /// Calls that were let through unseen, because too many others of the thread were under way.
    TooDeep,
    /// Encoders that were kept for a while after they were given up.
    Kept,
    /// Command buffers created.
    Buffers,
    /// Command buffers committed.
    Committed,
    /// Calls on a command buffer that was committed.
    AfterCommit,
}

const FIGURES: usize = Figure::AfterCommit as usize + 1;

/// Threads share so many rows of counters.
const ROWS: usize = 16;

#[derive(Default)]
#[repr(align(128))]
struct Row([AtomicU64; FIGURES]);

/// All counters.
#[derive(Default)]
pub struct Figures {
    rows: [Row; ROWS],
    longest_wait: AtomicU64,
}

impl Figures {
    /// Counts so many.
    pub fn add(&self, thread: Thread, figure: Figure, count: u64) {
        let row = &self.rows[thread.0 as usize % ROWS];
        row.0[figure as usize].fetch_add(count, Ordering::Relaxed);
    }

    /// Counts a wait.
    pub fn waited(&self, thread: Thread, nanoseconds: u64) {
        self.add(thread, Figure::Waits, 1);
        self.add(thread, Figure::WaitNanoseconds, nanoseconds);
        self.longest_wait.fetch_max(nanoseconds, Ordering::Relaxed);
    }

    /// How many so far.
    pub fn sum(&self, figure: Figure) -> u64 {
        let of_row = |row: &Row| row.0[figure as usize].load(Ordering::Relaxed);
        self.rows.iter().map(of_row).sum()
    }

    /// All of them.
    pub fn read(&self) -> Statistics {
        Statistics {
            classes: self.sum(Figure::Classes),
            methods: self.sum(Figure::Methods),
            methods_left_out: self.sum(Figure::MethodsLeftOut),
            created: self.sum(Figure::Created),
            unannounced: self.sum(Figure::Unannounced),
            ended: self.sum(Figure::Ended),
            destroyed: self.sum(Figure::Destroyed),
            deferred: self.sum(Figure::Deferred),
            calls: self.sum(Figure::Calls),
            nested_calls: self.sum(Figure::NestedCalls),
            waits: self.sum(Figure::Waits),
            wait_nanoseconds: self.sum(Figure::WaitNanoseconds),
            longest_wait_nanoseconds: self.longest_wait.load(Ordering::Relaxed),
            long_waits: self.sum(Figure::LongWaits),
            given_up: self.sum(Figure::GivenUp),
            after_end: self.sum(Figure::AfterEnd),
            after_destruction: self.sum(Figure::AfterDestruction),
            abandoned: self.sum(Figure::Abandoned),
            too_deep: self.sum(Figure::TooDeep),
            kept: self.sum(Figure::Kept),
            buffers: self.sum(Figure::Buffers),
            committed: self.sum(Figure::Committed),
            after_commit: self.sum(Figure::AfterCommit),
        }
    }
}

/// What was counted so far. The same as `struct agx_fix_statistics` in C.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Statistics {
    /// Classes that are wrapped.
    pub classes: u64,
    /// Methods that are wrapped.
    pub methods: u64,
    /// Methods that are not wrapped, because the stubs are used up.
    pub methods_left_out: u64,
    /// Encoders created.
    pub created: u64,
    /// Encoders and command buffers first met in a call: they were created before, or where nobody saw it.
    pub unannounced: u64,
    /// Encoders ended.
    pub ended: u64,
    /// Encoders destroyed.
    pub destroyed: u64,
    /// Destructions that were deferred because a call was in the object. Each would have been a use after free.
    pub deferred: u64,
    /// Calls, without those that a call made itself on the same object.
    pub calls: u64,
    /// Calls that another call on the same object made.
    pub nested_calls: u64,
    /// Calls that waited for another thread.
    pub waits: u64,
    /// Nanoseconds that they waited, all together.
    pub wait_nanoseconds: u64,
    /// Nanoseconds of the longest wait.
    pub longest_wait_nanoseconds: u64,
    /// Waits that were long enough to be told.
    pub long_waits: u64,
    /// Waits that were given up: the call went on beside the other.
    pub given_up: u64,
    /// Calls that were refused because the encoder was ended.
    pub after_end: u64,
    /// Calls that were refused because the object was destroyed, or given up.
    pub after_destruction: u64,
    /// Calls that were left by an exception or a jump.
    pub abandoned: u64,
    /// Calls that were let through unseen, because too many others of the thread were under way.
    pub too_deep: u64,
    /// Encoders that were kept for a while after they were given up. Those that are destroyed by now count as destroyed, too.
    pub kept: u64,
    /// Command buffers created.
    pub buffers: u64,
    /// Command buffers committed.
    pub committed: u64,
    /// Calls that were refused because the command buffer was committed.
    pub after_commit: u64,
}

impl Statistics {
    /// Whether something happened that its user wants to know.
    pub fn is_worth_telling(&self) -> bool {
        let notable = [
            self.methods_left_out,
            self.deferred,
            self.long_waits,
            self.given_up,
            self.after_end,
            self.after_destruction,
            self.abandoned,
            self.too_deep,
            self.after_commit,
        ];
        notable.iter().any(|&count| count > 0)
    }
}

impl fmt::Display for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let milliseconds = |nanoseconds: u64| nanoseconds as f64 / 1e6;
        write!(
            f,
            "{} encoders created, {} ended, {} destroyed, {} of them deferred while in use; {} calls and {} nested; \
             {} refused after the end, {} after destruction, {} after a commit; {} waited, {:.3} ms in all, {:.3} ms the longest, {} of them \
             long, {} given up",
            self.created,
            self.ended,
            self.destroyed,
            self.deferred,
            self.calls,
            self.nested_calls,
            self.after_end,
            self.after_destruction,
            self.after_commit,
            self.waits,
            milliseconds(self.wait_nanoseconds),
            milliseconds(self.longest_wait_nanoseconds),
            self.long_waits,
            self.given_up,
        )?;
        let rare = [
            (self.unannounced, "objects first met in a call"),
            (self.abandoned, "calls left by an exception"),
            (self.too_deep, "calls nested too deep to be seen"),
            (self.methods_left_out, "methods left out"),
        ];
        for (count, what) in rare.iter().filter(|(count, _)| *count > 0) {
            write!(f, "; {count} {what}")?;
        }
        write!(
            f,
            "; {} command buffers created, {} committed; {} methods of {} classes wrapped",
            self.buffers, self.committed, self.methods, self.classes
        )
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn threads_add_up() {
        let figures = Figures::default();
        for thread in 0..40 {
            figures.add(Thread(thread), Figure::Calls, 2);
            figures.waited(Thread(thread), thread);
        }
        let read = figures.read();
        assert_eq!((read.calls, read.waits), (80, 40));
        assert_eq!(
            (read.wait_nanoseconds, read.longest_wait_nanoseconds),
            (780, 39)
        );
        assert_eq!(read.nested_calls, 0);
    }

    #[test]
    fn what_is_rare_is_told_only_when_it_happened() {
        let mut statistics = Statistics {
            calls: 3,
            ..Statistics::default()
        };
        assert!(!statistics.is_worth_telling());
        assert!(!statistics.to_string().contains("exception"));
        statistics.abandoned = 1;
        assert!(statistics.is_worth_telling());
        assert!(
            statistics
                .to_string()
                .contains("1 calls left by an exception")
        );
    }
}

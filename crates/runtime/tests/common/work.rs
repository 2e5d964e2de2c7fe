//! What the behaviour tests do on any device: small ops, many threads, and watches against hanging.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use streampool_device::Device;
use streampool_runtime::{
    Binary, Buffer, DType, Expr, Op, Pool, Result, Settings, SettingsBuilder, Stream,
};

/// Longer than anything here takes on the slowest machine, unless it hangs.
pub const FOREVER: Duration = Duration::from_secs(if sanitized() { 900 } else { 240 });

/// How many floats the small ops work on.
pub const N: usize = 64;

/// Whether a sanitizer slows everything down.
pub const fn sanitized() -> bool {
    cfg!(any(sanitize_thread, sanitize_address))
}

/// How often something is repeated: fewer times under a sanitizer, which sees more in each.
pub const fn rounds(full: usize) -> usize {
    match sanitized() {
        true => full.div_ceil(10),
        false => full,
    }
}

/// Runs `work`; if it takes longer than `limit`, says so and ends the process: it hangs.
pub fn within<R>(limit: Duration, work: impl FnOnce() -> R) -> R {
    let test = thread::current().name().unwrap_or("a test").to_owned();
    let (over, watch) = channel::<()>();
    let watchdog = thread::spawn(move || {
        if watch.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
            eprintln!("{test} hangs: not over after {limit:?}");
            std::process::abort();
        }
    });
    let result = work();
    drop(over);
    watchdog.join().unwrap();
    result
}

/// Gives the core away until `condition` holds.
pub fn until(what: &str, condition: impl Fn() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < FOREVER, "it never came to this: {what}");
        thread::yield_now();
    }
}

/// Runs `work` on a new thread, which has ended, its stream returned, when this returns.
pub fn on_thread<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    thread::scope(|scope| join(scope.spawn(work)))
}

/// Waits for a thread's very end, where leases are returned, and hands on its panic.
pub fn join<R>(thread: thread::ScopedJoinHandle<'_, R>) -> R {
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}

/// Runs `work` on `count` threads at once, each told its number. All have ended when this returns.
pub fn on_threads<R: Send>(count: usize, work: impl Fn(usize) -> R + Sync) -> Vec<R> {
    thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..count)
            .map(|number| scope.spawn(move || work(number)))
            .collect();
        threads.into_iter().map(join).collect()
    })
}

/// Settings that no environment changes.
pub fn settings() -> SettingsBuilder {
    Settings::builder().without_environment()
}

/// A pool of so many streams.
pub fn pool(device: &Arc<impl Device + 'static>, streams: usize) -> Pool {
    pool_with(device, settings().streams(streams))
}

/// A pool with these settings.
pub fn pool_with(device: &Arc<impl Device + 'static>, settings: SettingsBuilder) -> Pool {
    Pool::with_settings(device.clone(), settings.build().unwrap()).unwrap()
}

/// A buffer of [`N`] floats, allocated on `stream`.
pub fn buffer(stream: &Stream) -> Buffer {
    stream.allocate(N * 4).unwrap()
}

/// A buffer of [`N`] floats of one value.
pub fn filled(stream: &Stream, value: f32) -> Buffer {
    let mut buffer = buffer(stream);
    fill(stream, &mut buffer, value).unwrap();
    buffer
}

/// Encodes the writing of `value` to the whole buffer.
pub fn fill(stream: &Stream, buffer: &mut Buffer, value: f32) -> Result<()> {
    let dst = buffer.write(DType::F32, &[N])?;
    let value = value.into();
    stream.encode(Op::Fill { dst, value }).map(drop)
}

/// Encodes a copy.
pub fn copy(stream: &Stream, src: &Buffer, dst: &mut Buffer) -> Result<()> {
    let src = src.read(DType::F32, &[N])?;
    let dst = dst.write(DType::F32, &[N])?;
    stream.encode(Op::Copy { src, dst }).map(drop)
}

/// Encodes `dst = src + amount`.
pub fn add(stream: &Stream, src: &Buffer, dst: &mut Buffer, amount: f32) -> Result<()> {
    let inputs = vec![src.read(DType::F32, &[N])?];
    let outputs = vec![dst.write(DType::F32, &[N])?];
    stream
        .encode(Op::Map {
            expr: plus(amount),
            inputs,
            outputs,
        })
        .map(drop)
}

/// The expression `x + amount`.
pub fn plus(amount: f32) -> Arc<Expr> {
    let mut expr = Expr::builder();
    let x = expr.input(DType::F32).unwrap();
    let amount = expr.constant(amount, DType::F32).unwrap();
    let sum = expr.binary(Binary::Add, x, amount).unwrap();
    Arc::new(expr.finish(&[sum]).unwrap())
}

/// The one value that the buffer is full of.
pub fn value_of(stream: &Stream, buffer: &Buffer) -> Result<f32> {
    let values = stream.download::<f32>(buffer)?;
    assert!(
        values.iter().all(|value| *value == values[0]),
        "mixed values: {values:?}"
    );
    Ok(values[0])
}

/// Threads at once that each allocate at most a megabyte at a time, compute with it and let it go, many times. Nothing is left.
pub fn share_what_there_is(pool: &Pool, threads: usize) {
    const MIB: usize = 1 << 20;
    on_threads(threads, |number| {
        let stream = pool.current().unwrap();
        for round in 0..rounds(150) {
            let bytes = MIB / 2 + (number * round * 1000) % (MIB / 2);
            let mut buffer = stream.allocate(bytes).unwrap();
            fill(stream, &mut buffer, round as f32).unwrap();
            let mut values = [0f32; N];
            stream.download_into(&buffer, &mut values).unwrap();
            assert_eq!(values, [round as f32; N]);
        }
    });
    assert_all_returned(pool);
}

/// Asserts that nothing is in use, nothing pending, and every worker stream free.
pub fn assert_all_returned(pool: &Pool) {
    let snapshot = pool.snapshot().unwrap();
    assert_eq!(snapshot.free_streams, snapshot.streams - 1, "lost streams");
    assert_eq!(snapshot.waiting_threads, 0);
    assert_eq!(snapshot.memory.in_use, 0, "bytes left in use");
    assert_eq!(snapshot.memory.pending, 0, "bytes left pending");
}

//! The main thread is on the default stream, and no other thread is. It has no test harness, because that
//! would run its tests on other threads.

#[cfg(not(loom))]
mod common;

#[cfg(not(loom))]
fn main() {
    use common::*;
    use streampool_runtime::WhenExhausted;

    let device = device();
    let pool = pool_with(
        &device,
        settings().streams(2).exhaustion(WhenExhausted::Fail),
    );
    let stream = pool.current().unwrap();
    assert!(stream.is_default() && stream.index() == 0);
    assert_eq!(
        pool.snapshot().unwrap().free_streams,
        1,
        "it leases nothing"
    );
    assert!(!pool.release_current_stream(), "there is no lease to end");
    assert!(pool.current().unwrap().is_default());
    on_thread(|| {
        assert_eq!(pool.current().unwrap().index(), 1);
        pool.with_stream(pool.default_stream().unwrap(), || {
            assert!(pool.current().unwrap().is_default());
        })
        .unwrap();
    });
    pool.with_stream(pool.stream(1).unwrap(), || {
        assert_eq!(pool.current().unwrap().index(), 1);
    })
    .unwrap();
    assert!(pool.current().unwrap().is_default());
    let buffer = filled(stream, 3.0);
    assert_eq!(value_of(stream, &buffer), Ok(3.0));
    println!("the main thread is on the default stream: ok");
}

#[cfg(loom)]
fn main() {}

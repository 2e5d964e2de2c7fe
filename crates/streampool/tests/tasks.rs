//! Many tasks of an executor on few streams.

use std::sync::Arc;

use streampool::host::{HostDevice, HostOptions};
use streampool::{Array, Pool, Session, SessionOptions, Settings, Tensor, WhenExhausted};

/// y = max(x, 0), as a file holds it.
const RELU: &[u8] = &[
    8, 8, 58, 53, 10, 12, 10, 1, 120, 18, 1, 121, 34, 4, 82, 101, 108, 117, 18, 1, 103, 90, 16, 10,
    1, 120, 18, 11, 10, 9, 8, 1, 18, 5, 10, 3, 18, 1, 110, 98, 16, 10, 1, 121, 18, 11, 10, 9, 8, 1,
    18, 5, 10, 3, 18, 1, 110, 66, 4, 10, 0, 16, 13,
];

fn pool(exhaustion: WhenExhausted) -> Pool {
    let device = HostDevice::new(HostOptions::default().threads(1)).unwrap();
    let settings = Settings::builder().without_environment().streams(4);
    Pool::with_settings(device, settings.exhaustion(exhaustion).build().unwrap()).unwrap()
}

fn executor() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(3)
        .build()
        .unwrap()
}

/// Gives way to other tasks, some times.
async fn pause(number: i32) {
    for _ in 0..number % 5 {
        tokio::task::yield_now().await;
    }
}

#[test]
fn a_hundred_tasks_lease_streams_that_they_share() {
    let pool = pool(WhenExhausted::Share);
    executor().block_on(async {
        let tasks: Vec<_> = (0..100)
            .map(|number| {
                let pool = pool.clone();
                tokio::spawn(async move {
                    let stream = pool.lease().unwrap();
                    let inside = pool.clone();
                    let work = pool.bind_future(&stream, async move {
                        let x = Tensor::from_slice(&inside, &[number, 1], &[2]).unwrap();
                        pause(number).await;
                        (&x + &x).unwrap().to_vec::<i32>().unwrap()
                    });
                    assert_eq!(work.unwrap().await, [2 * number, 2]);
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
    assert_eq!(pool.snapshot().unwrap().free_streams, 3);
}

#[test]
fn a_hundred_tasks_wait_for_a_stream_of_their_own() {
    // What is waited for is the same under every policy.
    for exhaustion in [
        WhenExhausted::Share,
        WhenExhausted::Fail,
        WhenExhausted::Wait(None),
    ] {
        let pool = pool(exhaustion);
        let session = Session::from_bytes(&pool, RELU, &SessionOptions::default()).unwrap();
        let session = Arc::new(session);
        // Loading has leased this thread one.
        pool.release_current_stream();
        executor().block_on(async {
            let tasks: Vec<_> = (0..100)
                .map(|number| {
                    let (pool, session) = (pool.clone(), session.clone());
                    tokio::spawn(async move {
                        let stream = pool.lease_when_free().await.unwrap();
                        assert!(!stream.is_shared());
                        let answer = pool.bind_future(&stream, async move {
                            pause(number).await;
                            let x = Array::new(&[number as f32, -1.0], &[2]).unwrap();
                            session.submit([("x", &x)])?.await
                        });
                        let outputs = answer.unwrap().await.unwrap();
                        let y = outputs.at(0).unwrap();
                        assert_eq!(y.values::<f32>().unwrap(), [number as f32, 0.0]);
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
        });
        assert_eq!(pool.snapshot().unwrap().free_streams, 3);
    }
}

//! Each example runs to its end.

/// Includes an example and runs its `main`.
macro_rules! examples {
    ($($name:ident in $path:literal),* $(,)?) => {
        $(
            #[path = $path]
            mod $name;

            #[test]
            fn $name() {
                $name::main().unwrap();
            }
        )*
    };
}

examples! {
    threads in "../examples/threads.rs",
    queue in "../examples/queue.rs",
    tasks in "../examples/async.rs",
    streams_and_events in "../examples/streams_and_events.rs",
    rust_model in "../examples/rust_model.rs",
    metrics in "../examples/metrics.rs",
}

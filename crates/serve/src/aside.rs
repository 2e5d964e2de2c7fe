//! Long work of a request, while other threads go on to read the other requests.

use tokio::runtime::{Handle, RuntimeFlavor};

/// Work on more bytes takes longer than to wake a thread that reads requests meanwhile.
const MANY: usize = 1 << 16;

/// Does work on so many bytes. If they are many, another thread of the runtime takes over what else this one does, where the runtime has threads.
pub fn aside<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    let has_threads = || {
        let runtime = Handle::try_current();
        runtime.is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread)
    };
    match bytes > MANY && has_threads() {
        true => tokio::task::block_in_place(work),
        false => work(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use tokio::runtime::Builder;

    use super::*;

    #[test]
    fn others_are_read_meanwhile() {
        let runtime = Builder::new_multi_thread().worker_threads(1).build();
        let runtime = runtime.expect("a runtime");
        let long = |bytes| {
            let (other, came) = mpsc::channel();
            let work = async move {
                tokio::spawn(async move { other.send(()).expect("somebody waits") });
                aside(bytes, || came.recv_timeout(Duration::from_secs(5)).is_ok())
            };
            runtime.block_on(async { tokio::spawn(work).await.expect("an answer") })
        };
        assert!(long(MANY + 1));
    }

    #[test]
    fn a_runtime_of_one_thread_does_it_itself() {
        let runtime = Builder::new_current_thread().build().expect("a runtime");
        assert_eq!(runtime.block_on(async { aside(MANY + 1, || 3) }), 3);
        assert_eq!(aside(MANY + 1, || 4), 4);
    }
}

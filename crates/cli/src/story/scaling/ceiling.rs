//! The most that a device gives to threads, measured without what they share with us.

use std::time::Duration;

use streampool::Session;
use streampool::cuda::ceiling::BareStream;
use streampool::host::{HostDevice, HostOptions};

use crate::Result;
use crate::machine::processors;
use crate::story::rates::{self, ROUNDS};
use crate::story::setting::{Subject, pool};
use crate::threads::per_second;

/// The most memory for copies.
const MEMORY: usize = 1 << 30;

/// What is measured.
pub enum Ceiling {
    /// Threads with a device, a pool and a session each; those for so many threads have the processors divided among them.
    Copies(Vec<Vec<Session>>),
    /// Bare graphs of the GPU's driver.
    Driver(Vec<BareStream>),
    /// Nothing is known.
    None,
}

impl Ceiling {
    /// Copies of a model on devices of their own, for each of these numbers of threads that there is memory for.
    pub fn copies(subject: &Subject, threads: &[usize]) -> Result<Ceiling> {
        let cores = processors();
        let own = |workers| {
            let options = HostOptions::default().threads(workers);
            subject.again(&pool(HostDevice::new(options)?)?)
        };
        let each = own(cores)?.pool().snapshot()?.memory.reserved;
        let affordable = |&&threads: &&usize| threads == 1 || threads * each <= MEMORY;
        let mut groups: Vec<Vec<Session>> = Vec::new();
        for &threads in threads.iter().filter(affordable) {
            let workers = (cores / threads).max(1);
            // Devices with one processor serve more threads as they do fewer.
            let mut group = match groups.last() {
                Some(fewer) if cores / fewer.len() <= 1 => fewer.clone(),
                _ => Vec::new(),
            };
            while group.len() < threads {
                group.push(own(workers)?);
            }
            groups.push(group);
        }
        Ok(Ceiling::Copies(groups))
    }

    /// The rate of so many threads, where it can be measured.
    pub fn rate(
        &mut self,
        subject: &Subject,
        threads: usize,
        slice: Duration,
    ) -> Result<Option<f64>> {
        match self {
            Ceiling::Copies(groups) => {
                let group = groups.iter().find(|group| group.len() == threads);
                let rate = |group: &Vec<Session>| {
                    rates::of_threads(subject, &group.iter().collect::<Vec<_>>(), slice)
                };
                group.map(rate).transpose()
            }
            Ceiling::Driver(streams) => {
                let replay = |bare: &mut BareStream| Ok(bare.replay(1).map(|()| 1)?);
                let streams = streams[..threads].iter_mut();
                let mut workers: Vec<_> = streams.map(|bare| move || replay(bare)).collect();
                per_second(&mut workers, slice / ROUNDS as u32).map(Some)
            }
            Ceiling::None => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::device::On;
    use crate::story::setting::Setting;

    #[test]
    fn each_thread_has_a_device_of_its_own() {
        let host = Setting::new(On::Host, None, &[], Duration::ZERO).unwrap();
        let Ceiling::Copies(groups) = Ceiling::copies(&host.subjects[0], &[1, 2, 5]).unwrap()
        else {
            unreachable!("they are copies")
        };
        assert_eq!(groups.iter().map(Vec::len).collect::<Vec<_>>(), [1, 2, 5]);
        for group in groups {
            for (number, one) in group.iter().enumerate() {
                let device = one.pool().device();
                let shared = |other: &Session| Arc::ptr_eq(other.pool().device(), device);
                assert!(!group[..number].iter().any(shared));
            }
        }
    }
}

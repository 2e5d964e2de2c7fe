//! How a host device is made, in code or by the environment.

use streampool_device::variables::{self, invalid};
use streampool_device::{Result, machine};

const MAX_THREADS: usize = 1024;
const PREFIX: &str = "STREAMPOOL_HOST_";
const OWN: &str = "an environment variable of the host device";
const THREADS: &str = "STREAMPOOL_HOST_THREADS";
const MEMORY: &str = "STREAMPOOL_HOST_MEMORY";

/// How a [`HostDevice`](crate::HostDevice) is made.
///
/// ```
/// use streampool_host::{HostDevice, HostOptions};
///
/// let device = HostDevice::new(HostOptions::default().threads(2).capacity(64 << 20))?;
/// # Ok::<(), streampool_device::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostOptions {
    /// Worker threads, 1 to 1024; by default one for each processor.
    pub threads: usize,
    /// The most bytes that may be allocated; by default the machine's memory.
    pub capacity: usize,
}

impl Default for HostOptions {
    fn default() -> Self {
        HostOptions {
            threads: std::thread::available_parallelism()
                .map_or(1, |count| count.get().min(MAX_THREADS)),
            capacity: physical_memory(),
        }
    }
}

impl HostOptions {
    /// The environment variables that [`from_env`](Self::from_env) reads, each with its meaning.
    pub const VARIABLES: &[(&str, &str)] = &[
        (THREADS, "worker threads of the host device, 1 to 1024"),
        (
            MEMORY,
            "the most bytes the host device allocates, such as 2GiB",
        ),
    ];

    /// The defaults, changed by the variables that are set. A value that does not parse is an error, and so
    /// is a variable of the host device that does not exist.
    pub fn from_env() -> Result<Self> {
        Self::from_variables(variables::all())
    }

    fn from_variables(variables: impl Iterator<Item = (String, String)>) -> Result<Self> {
        let mut options = HostOptions::default();
        for (name, value) in variables {
            match name.as_str() {
                THREADS => options.threads = parse_threads(&value)?,
                MEMORY => options.capacity = variables::bytes(MEMORY, &value)?,
                name => variables::refuse_unknown(name, PREFIX, OWN, Self::VARIABLES)?,
            }
        }
        Ok(options)
    }

    /// Sets the number of worker threads.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Sets the most bytes that may be allocated.
    pub fn capacity(mut self, bytes: usize) -> Self {
        self.capacity = bytes;
        self
    }

    pub(crate) fn check(&self) -> Result<()> {
        if self.threads == 0 || self.threads > MAX_THREADS {
            return Err(invalid(
                "the number of host worker threads",
                self.threads,
                format!("1 to {MAX_THREADS}"),
            ));
        }
        if self.capacity == 0 {
            return Err(invalid(
                "the memory capacity of the host device",
                0,
                "at least 1 byte",
            ));
        }
        Ok(())
    }
}

fn parse_threads(value: &str) -> Result<usize> {
    match value.trim().parse() {
        Ok(threads) if (1..=MAX_THREADS).contains(&threads) => Ok(threads),
        _ => Err(variables::bad(
            THREADS,
            value,
            format!("a number from 1 to {MAX_THREADS}"),
        )),
    }
}

/// The machine's memory; where it does not say, 8 GiB.
pub(crate) fn physical_memory() -> usize {
    const UNKNOWN: usize = if usize::BITS < 64 { 1 << 30 } else { 8 << 30 };
    machine::memory().unwrap_or(UNKNOWN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<HostOptions> {
        HostOptions::from_variables(
            variables
                .iter()
                .map(|&(name, value)| (name.to_owned(), value.to_owned())),
        )
    }

    #[test]
    fn variables_change_the_defaults() {
        let options = read(&[("HOME", "/root"), (THREADS, "3"), (MEMORY, "512mib")]).unwrap();
        let expected = HostOptions::default().threads(3).capacity(512 << 20);
        assert_eq!(options, expected);
        assert_eq!(read(&[(MEMORY, "4096")]).unwrap().capacity, 4096);
        assert_eq!(read(&[(MEMORY, "2GiB")]).unwrap().capacity, 2 << 30);
        assert_eq!(read(&[(MEMORY, "2G")]).unwrap().capacity, 2_000_000_000);
    }

    #[test]
    fn bad_values_name_the_variable_the_value_and_what_is_allowed() {
        for (name, value, allowed) in [
            (THREADS, "0", "1 to 1024"),
            (THREADS, "many", "1 to 1024"),
            (THREADS, "1025", "1 to 1024"),
            (MEMORY, "", "KiB"),
            (MEMORY, "0K", "KiB"),
            (MEMORY, "-1", "KiB"),
            (MEMORY, "3X", "KiB"),
            (MEMORY, "99999999999999999G", "KiB"),
            (MEMORY, "é", "KiB"),
            ("STREAMPOOL_HOST_THREAD", "2", THREADS),
        ] {
            let message = read(&[(name, value)]).unwrap_err().to_string();
            assert!(message.contains(name), "{message}");
            assert!(message.contains(allowed), "{message}");
        }
    }

    #[test]
    fn absurd_options_are_refused() {
        let options = HostOptions::default();
        assert!(options.check().is_ok() && options.capacity >= 1 << 20);
        assert!(options.clone().threads(0).check().is_err());
        assert!(options.clone().threads(1025).check().is_err());
        assert!(options.capacity(0).check().is_err());
    }
}

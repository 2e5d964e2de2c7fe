//! How a Metal device is made, in code or by the environment.

use std::path::PathBuf;

use streampool_device::variables::{self, CACHE_DIR, CACHE_DIR_MEANING, invalid};
use streampool_device::{Mitigations, Quirk, Result};

use crate::quirks::APPLE_QUIRKS;

const PREFIX: &str = "STREAMPOOL_METAL_";
const OWN: &str = "an environment variable of the Metal device";
const DEVICE: &str = "STREAMPOOL_METAL_DEVICE";
const MEMORY: &str = "STREAMPOOL_METAL_MEMORY";
const RESIDENCY: &str = "STREAMPOOL_METAL_RESIDENCY";

/// The most buffers that all queues together have committed at a time, unless told otherwise.
const IN_FLIGHT: usize = 64;

/// How a [`MetalDevice`](crate::MetalDevice) is made.
///
/// ```
/// use streampool_device::Quirk;
/// use streampool_metal::{MetalDevice, MetalOptions};
///
/// let options = MetalOptions::default().capacity(2 << 30).without(Quirk::EncoderFreedInUse);
/// if let Err(why) = MetalDevice::new(options) {
///     println!("{why}");
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetalOptions {
    /// Metal's number of the GPU.
    pub ordinal: usize,
    /// The most bytes that may be allocated; by default what Metal recommends for the GPU.
    pub capacity: Option<usize>,
    /// Where compiled kernels are kept between runs; by default nowhere.
    pub cache_dir: Option<PathBuf>,
    /// Whether encoders are made and released, and command buffers committed, one at a time on the whole device.
    pub serial_encoders: bool,
    /// The most buffers that all queues together have committed at a time; without one, any number.
    pub in_flight: Option<usize>,
    /// Whether what is allocated stays resident between buffers, from macOS 15 on.
    pub residency_sets: bool,
}

impl Default for MetalOptions {
    fn default() -> Self {
        MetalOptions {
            ordinal: 0,
            capacity: None,
            cache_dir: None,
            serial_encoders: true,
            in_flight: Some(IN_FLIGHT),
            residency_sets: false,
        }
    }
}

impl MetalOptions {
    /// The environment variables that [`from_env`](Self::from_env) reads, each with its meaning.
    pub const VARIABLES: &[(&str, &str)] = &[
        (DEVICE, "the number of the Metal GPU, from 0"),
        (
            MEMORY,
            "the most bytes the Metal device allocates, such as 2GiB",
        ),
        (
            RESIDENCY,
            "whether memory of the Metal GPU stays resident between buffers: on or off",
        ),
        (CACHE_DIR, CACHE_DIR_MEANING),
    ];

    /// The defaults, changed by the variables that are set; [`Mitigations::VARIABLE`] says which quirks are worked around
    /// here, too. A value that does not parse is an error, and so
    /// is a variable of the Metal device that does not exist.
    pub fn from_env() -> Result<Self> {
        Self::from_variables(variables::all())
    }

    fn from_variables(variables: impl Iterator<Item = (String, String)>) -> Result<Self> {
        let mut options = MetalOptions::default();
        for (name, value) in variables {
            match name.as_str() {
                DEVICE => options.ordinal = parse_ordinal(&value)?,
                MEMORY => options.capacity = Some(variables::bytes(MEMORY, &value)?),
                RESIDENCY => options.residency_sets = parse_switch(&value)?,
                Mitigations::VARIABLE => options = options.mitigating(&parse_mitigations(&value)?),
                CACHE_DIR => options.cache_dir = Some(variables::folder(CACHE_DIR, &value)?),
                name => variables::refuse_unknown(name, PREFIX, OWN, Self::VARIABLES)?,
            }
        }
        Ok(options)
    }

    /// Sets Metal's number of the GPU.
    pub fn ordinal(mut self, ordinal: usize) -> Self {
        self.ordinal = ordinal;
        self
    }

    /// Sets the most bytes that may be allocated.
    pub fn capacity(mut self, bytes: usize) -> Self {
        self.capacity = Some(bytes);
        self
    }

    /// Sets where compiled kernels are kept between runs.
    pub fn cache_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.cache_dir = Some(folder.into());
        self
    }

    /// Sets whether what is allocated stays resident between buffers, from macOS 15 on. By default only what a buffer uses is
    /// resident, while it runs. Others gained by it where a model takes nearly all memory that Metal recommends, or where
    /// minutes pass between requests; and kernels panicked where memory that is kept resident changed while the GPU worked.
    pub fn residency_sets(mut self, kept: bool) -> Self {
        self.residency_sets = kept;
        self
    }

    /// Works around this quirk no more: see [`APPLE_QUIRKS`](crate::APPLE_QUIRKS) for those that it concerns.
    pub fn without(mut self, quirk: Quirk) -> Self {
        match quirk {
            Quirk::EncoderFreedInUse => self.serial_encoders = false,
            Quirk::BuffersInFlight(_) => self.in_flight = None,
            Quirk::SharedMatMulState | Quirk::NormBoundToThread | Quirk::StridedCopyRace => {}
        }
        self
    }

    /// Works around this quirk, as it does by default.
    pub fn with(mut self, quirk: Quirk) -> Self {
        match quirk {
            Quirk::EncoderFreedInUse => self.serial_encoders = true,
            Quirk::BuffersInFlight(limit) => self.in_flight = Some(limit),
            Quirk::SharedMatMulState | Quirk::NormBoundToThread | Quirk::StridedCopyRace => {}
        }
        self
    }

    /// Works around those of the quirks that are chosen.
    fn mitigating(self, chosen: &Mitigations) -> Self {
        let left = APPLE_QUIRKS
            .into_iter()
            .filter(|known| !chosen.covers(known.quirk));
        left.fold(self, |options, known| options.without(known.quirk))
    }

    #[cfg_attr(
        not(any(target_vendor = "apple", metal_sim, test)),
        expect(dead_code, reason = "there is no device to make")
    )]
    pub(crate) fn check(&self) -> Result<()> {
        if self.capacity == Some(0) {
            let what = "the memory capacity of the Metal device";
            return Err(invalid(what, 0, "at least 1 byte"));
        }
        if self.in_flight == Some(0) {
            let what = "the limit of buffers in flight";
            return Err(invalid(what, 0, "at least 1 buffer"));
        }
        Ok(())
    }
}

fn parse_ordinal(value: &str) -> Result<usize> {
    let expected = "the number of a GPU: 0 for the first";
    let parsed = value.trim().parse();
    parsed.map_err(|_| variables::bad(DEVICE, value, expected))
}

fn parse_switch(value: &str) -> Result<bool> {
    match value.trim() {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(variables::bad(RESIDENCY, value, "on or off")),
    }
}

fn parse_mitigations(value: &str) -> Result<Mitigations> {
    let parsed = Mitigations::parse(value).filter(Mitigations::is_known);
    parsed.ok_or_else(|| variables::bad(Mitigations::VARIABLE, value, Mitigations::ALLOWED))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<MetalOptions> {
        MetalOptions::from_variables(
            variables
                .iter()
                .map(|&(name, value)| (name.to_owned(), value.to_owned())),
        )
    }

    #[test]
    fn variables_change_the_defaults() {
        let options = read(&[
            ("HOME", "/root"),
            ("STREAMPOOL_CUDA_DEVICE", "3"),
            (DEVICE, "2"),
            (MEMORY, "512mib"),
            (RESIDENCY, "on"),
            (CACHE_DIR, "/var/cache"),
        ])
        .unwrap();
        let expected = MetalOptions::default()
            .ordinal(2)
            .capacity(512 << 20)
            .residency_sets(true)
            .cache_dir("/var/cache");
        assert_eq!(options, expected);
        assert_eq!(read(&[]), Ok(MetalOptions::default()));
    }

    #[test]
    fn quirks_are_switched_by_the_variable_of_all() {
        let read = |value| read(&[(Mitigations::VARIABLE, value)]).unwrap();
        let defaults = MetalOptions::default();
        assert_eq!(read("all"), defaults);
        assert_eq!(read("-shared-matmul-state"), defaults);
        let without_lock = defaults.clone().without(Quirk::EncoderFreedInUse);
        assert_eq!(read("-encoder-freed-in-use"), without_lock);
        let without_any = without_lock.without(Quirk::BuffersInFlight(IN_FLIGHT));
        assert_eq!(read("none"), without_any);
    }

    #[test]
    fn bad_values_name_the_variable_the_value_and_what_is_allowed() {
        for (name, value, allowed) in [
            (DEVICE, "", "0 for the first"),
            (DEVICE, "metal:1", "0 for the first"),
            (MEMORY, "0", "KiB"),
            (MEMORY, "2 gallons", "KiB"),
            (RESIDENCY, "yes", "on or off"),
            (CACHE_DIR, "", "a folder"),
            (Mitigations::VARIABLE, "-gremlins", "-buffers-in-flight"),
            ("STREAMPOOL_METAL_DEVICES", "", MEMORY),
        ] {
            let message = read(&[(name, value)]).unwrap_err().to_string();
            for part in [name, value, allowed] {
                assert!(message.contains(part), "{message}");
            }
        }
    }

    #[test]
    fn absurd_options_are_refused() {
        let options = MetalOptions::default();
        assert_eq!(options.check(), Ok(()));
        assert!(options.clone().capacity(0).check().is_err());
        assert!(options.with(Quirk::BuffersInFlight(0)).check().is_err());
    }

    #[test]
    fn what_is_left_out_can_be_put_back() {
        let quirks = [Quirk::EncoderFreedInUse, Quirk::BuffersInFlight(IN_FLIGHT)];
        let defaults = MetalOptions::default();
        for quirk in quirks {
            let without = defaults.clone().without(quirk);
            assert_ne!(without, defaults, "{quirk}");
            assert_eq!(without.with(quirk), defaults, "{quirk}");
        }
    }
}

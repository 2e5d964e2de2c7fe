//! How a CUDA device is made, in code or by the environment.

use std::path::PathBuf;

use streampool_device::Result;
use streampool_device::variables::{self, CACHE_DIR, CACHE_DIR_MEANING, invalid};

const PREFIX: &str = "STREAMPOOL_CUDA_";
const OWN: &str = "an environment variable of the CUDA device";
const DEVICE: &str = "STREAMPOOL_CUDA_DEVICE";
const MEMORY: &str = "STREAMPOOL_CUDA_MEMORY";
const PRECISION: &str = "STREAMPOOL_CUDA_PRECISION";
const PROGRAM_MEMORY: &str = "STREAMPOOL_CUDA_PROGRAM_MEMORY";

/// How exact a product of `f32` matrices is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Precision {
    /// As exact as `f32` is, also where tensor cores multiply numbers in parts.
    #[default]
    Exact,
    /// Factors rounded to TF32: about three digits.
    Tf32,
    /// Factors rounded to `bf16`.
    Bf16,
    /// Factors rounded to `f16`.
    F16,
}

impl Precision {
    /// Each there is.
    pub const ALL: [Precision; 4] = [
        Precision::Exact,
        Precision::Tf32,
        Precision::Bf16,
        Precision::F16,
    ];

    /// The name in settings and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Precision::Exact => "exact",
            Precision::Tf32 => "tf32",
            Precision::Bf16 => "bf16",
            Precision::F16 => "f16",
        }
    }
}

/// How a [`CudaDevice`](crate::CudaDevice) is made.
///
/// ```
/// use streampool_cuda::{CudaDevice, CudaOptions, Precision};
///
/// let options = CudaOptions::default().ordinal(1).precision(Precision::Tf32);
/// if let Err(why) = CudaDevice::new(options) {
///     println!("{why}");
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CudaOptions {
    /// The driver's number of the GPU.
    pub ordinal: usize,
    /// The most bytes that may be allocated; by default the GPU's memory.
    pub capacity: Option<usize>,
    /// How exact products of `f32` matrices are.
    pub precision: Precision,
    /// Where compiled kernels are kept between runs; by default nowhere.
    pub cache_dir: Option<PathBuf>,
    /// The most bytes that the graphs of programs may take.
    pub program_memory: usize,
}

impl Default for CudaOptions {
    fn default() -> Self {
        CudaOptions {
            ordinal: 0,
            capacity: None,
            precision: Precision::Exact,
            cache_dir: None,
            program_memory: 1 << 30,
        }
    }
}

impl CudaOptions {
    /// The environment variables that [`from_env`](Self::from_env) reads, each with its meaning.
    pub const VARIABLES: &[(&str, &str)] = &[
        (DEVICE, "the number of the GPU, from 0"),
        (
            MEMORY,
            "the most bytes the CUDA device allocates, such as 2GiB",
        ),
        (
            PRECISION,
            "how exact products of f32 matrices are: exact, tf32, bf16 or f16",
        ),
        (
            PROGRAM_MEMORY,
            "the most bytes that the graphs of programs take, such as 1GiB",
        ),
        (CACHE_DIR, CACHE_DIR_MEANING),
    ];

    /// The defaults, changed by the variables that are set. A value that does not parse is an error, and so
    /// is a variable of the CUDA device that does not exist.
    pub fn from_env() -> Result<Self> {
        Self::from_variables(variables::all())
    }

    fn from_variables(variables: impl Iterator<Item = (String, String)>) -> Result<Self> {
        let mut options = CudaOptions::default();
        for (name, value) in variables {
            match name.as_str() {
                DEVICE => options.ordinal = parse_ordinal(&value)?,
                MEMORY => options.capacity = Some(variables::bytes(MEMORY, &value)?),
                PRECISION => options.precision = parse_precision(&value)?,
                PROGRAM_MEMORY => {
                    options.program_memory = variables::bytes(PROGRAM_MEMORY, &value)?;
                }
                CACHE_DIR => options.cache_dir = Some(variables::folder(CACHE_DIR, &value)?),
                name => variables::refuse_unknown(name, PREFIX, OWN, Self::VARIABLES)?,
            }
        }
        Ok(options)
    }

    /// Sets the driver's number of the GPU.
    pub fn ordinal(mut self, ordinal: usize) -> Self {
        self.ordinal = ordinal;
        self
    }

    /// Sets the most bytes that may be allocated.
    pub fn capacity(mut self, bytes: usize) -> Self {
        self.capacity = Some(bytes);
        self
    }

    /// Sets how exact products of `f32` matrices are.
    pub fn precision(mut self, precision: Precision) -> Self {
        self.precision = precision;
        self
    }

    /// Sets where compiled kernels are kept between runs.
    pub fn cache_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.cache_dir = Some(folder.into());
        self
    }

    /// Sets the most bytes that the graphs of programs may take.
    pub fn program_memory(mut self, bytes: usize) -> Self {
        self.program_memory = bytes;
        self
    }

    pub(crate) fn check(&self) -> Result<()> {
        for (what, bytes) in [
            ("the memory capacity of the CUDA device", self.capacity),
            ("the memory for graphs", Some(self.program_memory)),
        ] {
            if bytes == Some(0) {
                return Err(invalid(what, 0, "at least 1 byte"));
            }
        }
        Ok(())
    }
}

fn parse_ordinal(value: &str) -> Result<usize> {
    let expected = "the number of a GPU: 0 for the first";
    let parsed = value.trim().parse();
    parsed.map_err(|_| variables::bad(DEVICE, value, expected))
}

fn parse_precision(value: &str) -> Result<Precision> {
    let asked = value.trim();
    let known = Precision::ALL.into_iter();
    known
        .clone()
        .find(|precision| asked.eq_ignore_ascii_case(precision.name()))
        .ok_or_else(|| {
            let names: Vec<_> = known.map(Precision::name).collect();
            variables::bad(PRECISION, value, format!("one of {}", names.join(", ")))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<CudaOptions> {
        CudaOptions::from_variables(
            variables
                .iter()
                .map(|&(name, value)| (name.to_owned(), value.to_owned())),
        )
    }

    #[test]
    fn variables_change_the_defaults() {
        let options = read(&[
            ("HOME", "/root"),
            ("STREAMPOOL_HOST_THREADS", "3"),
            (DEVICE, "2"),
            (MEMORY, "512mib"),
            (PRECISION, "TF32"),
            (PROGRAM_MEMORY, "1M"),
            (CACHE_DIR, "/var/cache"),
        ])
        .unwrap();
        let expected = CudaOptions::default()
            .ordinal(2)
            .capacity(512 << 20)
            .precision(Precision::Tf32)
            .program_memory(1_000_000)
            .cache_dir("/var/cache");
        assert_eq!(options, expected);
        assert_eq!(read(&[]), Ok(CudaOptions::default()));
        for precision in Precision::ALL {
            let options = read(&[(PRECISION, precision.name())]).unwrap();
            assert_eq!(options.precision, precision);
        }
    }

    #[test]
    fn bad_values_name_the_variable_the_value_and_what_is_allowed() {
        for (name, value, allowed) in [
            (DEVICE, "", "0 for the first"),
            (DEVICE, "-1", "0 for the first"),
            (DEVICE, "cuda:1", "0 for the first"),
            (MEMORY, "0", "KiB"),
            (MEMORY, "2 gallons", "KiB"),
            (PRECISION, "", "exact, tf32, bf16, f16"),
            (PRECISION, "fp8", "exact, tf32, bf16, f16"),
            (PROGRAM_MEMORY, "0", "KiB"),
            (PROGRAM_MEMORY, "much", "KiB"),
            (CACHE_DIR, "", "a folder"),
        ] {
            let message = read(&[(name, value)]).unwrap_err().to_string();
            for part in [name, value, allowed] {
                assert!(message.contains(part), "{message}");
            }
        }
    }

    #[test]
    fn a_variable_that_does_not_exist_is_refused_with_those_that_do() {
        let message = read(&[("STREAMPOOL_CUDA_DEVICES", "1")])
            .unwrap_err()
            .to_string();
        assert!(message.contains("STREAMPOOL_CUDA_DEVICES"), "{message}");
        for name in [DEVICE, MEMORY, PRECISION, PROGRAM_MEMORY] {
            assert!(message.contains(name), "{message}");
        }
        assert!(!message.contains(CACHE_DIR), "{message}");
    }

    #[test]
    fn absurd_options_are_refused() {
        let options = CudaOptions::default();
        assert_eq!(options.check(), Ok(()));
        assert!(options.clone().capacity(0).check().is_err());
        assert!(options.program_memory(0).check().is_err());
    }
}

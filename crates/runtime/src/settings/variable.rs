//! The table of environment variables, and what is said about a name that is not in it.

use serde::Serialize;
use streampool_device::Mitigations;

use super::SettingError;

/// The most streams a pool can have.
pub(super) const MOST_STREAMS: usize = 64;

/// One environment variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// What it decides.
    pub meaning: &'static str,
    /// The values it may have.
    pub allowed: &'static str,
    /// What holds without it.
    pub default: &'static str,
}

pub(super) const STREAMS: Variable = Variable {
    name: "STREAMPOOL_STREAMS",
    meaning: "how many streams a device has, the default stream included",
    allowed: "a whole number from 1 to 64",
    default: "32",
};

pub(super) const EXHAUSTION: Variable = Variable {
    name: "STREAMPOOL_WAIT_TIMEOUT_MS",
    meaning: "what a thread gets when every worker stream is leased",
    allowed: "unset = share a stream; 0 = fail; -1 = wait for ever; N = wait N milliseconds, \
              at most 4294967295",
    default: "share",
};

pub(super) const MEMORY_LIMIT: Variable = Variable {
    name: "STREAMPOOL_MEMORY_LIMIT",
    meaning: "the most bytes of device memory to hold",
    allowed: "`none`, or a whole number of bytes above 0, optionally with K, M, G, T (or KB, MB, GB, TB: \
              powers of 1000) or KiB, MiB, GiB, TiB (powers of 1024)",
    default: "none",
};

pub(super) const HIGH_WATERMARK: Variable = Variable {
    name: "STREAMPOOL_HIGH_WATERMARK",
    meaning: "the fraction of the memory limit above which idle memory is given back",
    allowed: "a number above 0 and up to 1, at least STREAMPOOL_LOW_WATERMARK",
    default: "0.9",
};

pub(super) const LOW_WATERMARK: Variable = Variable {
    name: "STREAMPOOL_LOW_WATERMARK",
    meaning: "the fraction of the memory limit above which, if giving back idle memory leaves more, \
              pressure callbacks are called once",
    allowed: "a number above 0 and up to 1, at most STREAMPOOL_HIGH_WATERMARK",
    default: "0.75",
};

pub(super) const MITIGATIONS: Variable = Variable {
    name: Mitigations::VARIABLE,
    meaning: "which driver quirks are worked around",
    allowed: Mitigations::ALLOWED,
    default: "all",
};

pub(crate) const RUN_STEPS: Variable = Variable {
    name: "STREAMPOOL_RUN_STEPS",
    meaning: "the most nodes that one run of a model evaluates and ops that it encodes, rounds of loops included",
    allowed: "a whole number above 0",
    default: "100000000",
};

pub(crate) const RUN_WORK: Variable = Variable {
    name: "STREAMPOOL_RUN_WORK",
    meaning: "the most elements that the ops of one run go over, multiplications of products included",
    allowed: "a whole number above 0",
    default: "1125899906842624",
};

pub(super) const VARIABLES: &[Variable] = &[
    STREAMS,
    EXHAUSTION,
    MEMORY_LIMIT,
    HIGH_WATERMARK,
    LOW_WATERMARK,
    MITIGATIONS,
    RUN_STEPS,
    RUN_WORK,
];

const PREFIX: &str = "STREAMPOOL_";

/// Names with these beginnings are for a device, or for the server, to check. Nobody looks at those of one that was not built in:
/// they are for other programs on the same machine.
const OTHER_PREFIXES: &[&str] = &[
    "STREAMPOOL_HOST_",
    "STREAMPOOL_CUDA_",
    "STREAMPOOL_METAL_",
    "STREAMPOOL_SERVE_",
];

/// Where compiled kernels are kept: read by whoever keeps them.
const CACHE_DIR: &str = "STREAMPOOL_CACHE_DIR";

/// Whether a name is ours to look at.
pub(super) fn is_ours(name: &str) -> bool {
    name.starts_with(PREFIX)
}

/// Refuses the first, in alphabetical order, of the names that begin like ours but mean nothing.
pub(super) fn refuse_unknown<N: AsRef<str>>(
    names: impl IntoIterator<Item = N>,
) -> Result<(), SettingError> {
    let unknown = names
        .into_iter()
        .filter(|name| !is_known(name.as_ref()))
        .map(|name| name.as_ref().to_owned())
        .min();
    match unknown {
        None => Ok(()),
        Some(name) => Err(SettingError::Unknown {
            nearest: nearest(&name),
            known: known_names()
                .map(str::to_owned)
                .chain(OTHER_PREFIXES.iter().map(|prefix| format!("{prefix}*")))
                .collect(),
            name,
        }),
    }
}

fn is_known(name: &str) -> bool {
    !is_ours(name)
        || known_names().any(|known| known == name)
        || OTHER_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

fn known_names() -> impl Iterator<Item = &'static str> {
    VARIABLES
        .iter()
        .map(|variable| variable.name)
        .chain([CACHE_DIR])
}

/// The known name that differs least, unless more than half of what follows the prefix would have to change.
fn nearest(name: &str) -> Option<&'static str> {
    let (distance, known) = known_names()
        .map(|known| (edit_distance(name, known), known))
        .min()?;
    let own_part = name.chars().count().saturating_sub(PREFIX.len());
    (2 * distance <= own_part).then_some(known)
}

/// How many characters must be added, removed or replaced to turn one into the other.
fn edit_distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    // `row[i]` is the distance from what was read of `from` to the first `i` characters of `to`.
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (read, from) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = read + 1;
        for (i, &to) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(from != to);
            diagonal = row[i + 1];
            row[i + 1] = replaced.min(row[i] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_limit_is_spelled_like_all_sizes() {
        let spelling = streampool_device::bytes::SPELLING;
        assert!(MEMORY_LIMIT.allowed.ends_with(spelling));
    }

    #[test]
    fn distances() {
        assert_eq!(edit_distance("", ""), 0);
        assert_eq!(edit_distance("abc", ""), 3);
        assert_eq!(edit_distance("", "abc"), 3);
        assert_eq!(edit_distance("kitten", "sitting"), 3);
        assert_eq!(edit_distance("flaw", "lawn"), 2);
        assert_eq!(edit_distance("größe", "grösse"), 2);
    }

    #[test]
    fn a_slip_finds_its_name_and_nonsense_finds_none() {
        assert_eq!(nearest("STREAMPOOL_STREAM"), Some("STREAMPOOL_STREAMS"));
        assert_eq!(
            nearest("STREAMPOOL_WAIT_TIMEOUT"),
            Some("STREAMPOOL_WAIT_TIMEOUT_MS")
        );
        assert_eq!(nearest("STREAMPOOL_CACHEDIR"), Some("STREAMPOOL_CACHE_DIR"));
        assert_eq!(nearest("STREAMPOOL_XYZZY"), None);
        assert_eq!(nearest("STREAMPOOL_"), None);
    }

    #[test]
    fn device_variables_and_other_programs_are_left_alone() {
        let names = [
            "PATH",
            "STREAMPOOLX",
            "STREAMPOOL_HOST_THREADS",
            "STREAMPOOL_CUDA_DEVICE",
            "STREAMPOOL_METAL_MEMORY",
            "STREAMPOOL_CACHE_DIR",
            "STREAMPOOL_STREAMS",
        ];
        assert_eq!(refuse_unknown(names), Ok(()));
        assert!(refuse_unknown(["STREAMPOOL_HOST"]).is_err());
    }

    #[test]
    fn variables_of_devices_that_do_not_exist_are_unknown() {
        let name = "STREAMPOOL_VULKAN_HEAP";
        let message = refuse_unknown([name]).unwrap_err().to_string();
        assert!(message.starts_with(name), "{message}");
    }
}

//! Which quirks are worked around: by the runtime, and by devices that work around their own.

use crate::Quirk;

/// Which driver quirks are worked around.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Mitigations {
    /// Each one that the device has.
    #[default]
    All,
    /// None: for a driver known to be repaired, and for tests.
    None,
    /// All but the quirks of these [names](Quirk::name).
    Except(Vec<String>),
}

impl Mitigations {
    /// The environment variable that says so.
    pub const VARIABLE: &str = "STREAMPOOL_MITIGATIONS";
    /// The values that it may have.
    pub const ALLOWED: &str = "`all`, `none`, or a comma list of the ones to switch off: -shared-matmul-state, \
         -norm-bound-to-thread, -encoder-freed-in-use, -strided-copy-race, -buffers-in-flight";

    /// Reads a value of the variable. The names in it need not be those of quirks: see [`is_known`](Self::is_known).
    pub fn parse(text: &str) -> Option<Mitigations> {
        if text.eq_ignore_ascii_case("all") {
            return Some(Mitigations::All);
        }
        if text.eq_ignore_ascii_case("none") {
            return Some(Mitigations::None);
        }
        let off = text
            .split(',')
            .map(|part| part.trim().strip_prefix('-').map(str::to_owned));
        let mut off: Vec<String> = off.collect::<Option<_>>()?;
        off.sort_unstable();
        off.dedup();
        Some(Mitigations::Except(off))
    }

    /// Whether all that it names are quirks.
    pub fn is_known(&self) -> bool {
        match self {
            Mitigations::Except(off) => {
                off.iter().all(|name| Quirk::NAMES.contains(&name.as_str()))
            }
            _ => true,
        }
    }

    /// Whether this quirk is worked around.
    pub fn covers(&self, quirk: Quirk) -> bool {
        match self {
            Mitigations::All => true,
            Mitigations::None => false,
            Mitigations::Except(names) => names.iter().all(|name| name != quirk.name()),
        }
    }
}

/// As it is read.
impl std::fmt::Display for Mitigations {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Mitigations::All => f.write_str("all"),
            Mitigations::None => f.write_str("none"),
            Mitigations::Except(off) if off.is_empty() => f.write_str("all"),
            Mitigations::Except(off) => write!(f, "-{}", off.join(",-")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_cover_all_but_the_named() {
        let but_norm = Mitigations::Except(vec!["norm-bound-to-thread".into()]);
        assert!(!but_norm.covers(Quirk::NormBoundToThread));
        assert!(but_norm.covers(Quirk::BuffersInFlight(64)));
        assert!(Mitigations::All.covers(Quirk::NormBoundToThread));
        assert!(!Mitigations::None.covers(Quirk::NormBoundToThread));
    }

    #[test]
    fn what_is_shown_can_be_read_again() {
        let off = Mitigations::Except(vec![
            "buffers-in-flight".into(),
            "norm-bound-to-thread".into(),
        ]);
        for some in [Mitigations::All, Mitigations::None, off] {
            assert_eq!(Mitigations::parse(&some.to_string()), Some(some));
        }
    }

    #[test]
    fn every_quirk_is_in_the_list_and_among_the_values() {
        // A new quirk stops this from compiling until it is listed.
        let known = |quirk: Quirk| match quirk {
            Quirk::SharedMatMulState
            | Quirk::NormBoundToThread
            | Quirk::EncoderFreedInUse
            | Quirk::StridedCopyRace
            | Quirk::BuffersInFlight(_) => Quirk::NAMES.contains(&quirk.name()),
        };
        assert!(known(Quirk::SharedMatMulState) && known(Quirk::BuffersInFlight(9)));
        for name in Quirk::NAMES {
            assert!(Mitigations::ALLOWED.contains(&format!("-{name}")), "{name}");
        }
    }
}

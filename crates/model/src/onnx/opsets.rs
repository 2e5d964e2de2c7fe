//! Whose operators a model uses, and in which version.

use std::collections::BTreeMap;

use super::proto::OpsetProto;
use crate::error::{Error, NodeError, Result};
use crate::graph::Domain;

/// The first version of ONNX's operators that is understood.
const FIRST: i64 = 1;
/// The last one.
const LAST: i64 = 27;

/// The version of each domain's operators.
pub struct Opsets {
    versions: BTreeMap<String, i64>,
}

impl Opsets {
    pub fn read(protos: &[OpsetProto]) -> Result<Opsets> {
        let mut versions = BTreeMap::new();
        for OpsetProto { domain, version } in protos {
            let domain = normal(domain);
            if domain.is_empty() && !(FIRST..=LAST).contains(version) {
                let expected =
                    format!("{FIRST} to {LAST}; onnx.version_converter converts newer models");
                return Err(Error::file(
                    "the version of ONNX's operators",
                    version,
                    expected,
                ));
            }
            let before = versions.insert(domain.to_owned(), *version);
            if let Some(before) = before.filter(|before| before != version) {
                let what = format!("the version of the operators of domain {domain:?}");
                return Err(Error::file(what, format!("{before} and {version}"), "one"));
            }
        }
        Ok(Opsets { versions })
    }

    /// Whose operator it is that a file says is of `domain`, and its version.
    pub fn find(&self, domain: &str) -> Result<(Domain, i64), NodeError> {
        let domain = normal(domain);
        let version = self.versions.get(domain).copied();
        match (domain, version) {
            ("", Some(version)) => Ok((Domain::Onnx, version)),
            ("", None) => Err(NodeError::malformed(
                "the version of ONNX's operators",
                "left out",
                format_args!("{FIRST} to {LAST}"),
            )),
            // Its operators never changed, and some files leave it out.
            ("com.microsoft", version) => Ok((Domain::Microsoft, version.unwrap_or(1))),
            ("ai.onnx.ml", version) => Ok((Domain::Ml, version.unwrap_or(1))),
            (other, _) => Err(NodeError::unsupported(format_args!(
                "an operator of domain {other:?}"
            ))),
        }
    }

    /// The versions by domain; that of ONNX itself has an empty name.
    pub fn versions(&self) -> BTreeMap<String, i64> {
        self.versions.clone()
    }
}

/// The name of a domain, of which that of ONNX itself has two.
pub fn normal(domain: &str) -> &str {
    match domain {
        "ai.onnx" => "",
        other => other,
    }
}

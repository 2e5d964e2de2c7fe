//! Who sends requests: keys and what their owners may do, and what became of the requests of each.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use axum::http::{HeaderMap, Request, header};
use serde::Deserialize;

use crate::error::{Error, Reason, Result};
use crate::traces::Context;

/// On whose account a request goes, where the server has no keys.
const TENANT: &str = "x-tenant";
/// The key of a request, for clients that cannot send `Authorization`.
const KEY: &str = "x-api-key";
/// The label of those that have none of their own.
pub const OTHERS: &str = "(others)";

/// A tenant, as the file of keys describes it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Account {
    /// Its keys.
    pub keys: Vec<String>,
    /// Its share when all send more than there is time for.
    #[serde(default = "one")]
    pub weight: f64,
    /// How many requests it may have in progress.
    pub max_requests: Option<usize>,
    /// Whether it may load and unload models.
    #[serde(default)]
    pub control: bool,
}

fn one() -> f64 {
    1.0
}

/// A file of keys: a JSON object from the names of tenants to what they may do.
pub struct Keys {
    path: PathBuf,
    known: RwLock<Known>,
}

#[derive(Default)]
struct Known {
    accounts: BTreeMap<String, Account>,
    /// The owner of each key.
    owners: HashMap<String, Who>,
}

/// Who sends a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Who {
    /// Its name, if it has one.
    pub tenant: Option<Arc<str>>,
    /// How many requests it may have in progress.
    pub max_requests: Option<usize>,
    /// Whether it may load and unload models.
    pub control: bool,
    /// The trace that the request is part of.
    pub context: Option<Context>,
}

impl Who {
    /// Who sends a request that was admitted.
    pub(crate) fn of<B>(request: &Request<B>) -> Who {
        request.extensions().get().cloned().unwrap_or_default()
    }
}

impl Keys {
    /// Reads a file of keys.
    pub fn load(path: &Path) -> Result<Keys, String> {
        let keys = Keys {
            path: path.to_owned(),
            known: RwLock::default(),
        };
        keys.reload()?;
        Ok(keys)
    }

    /// Reads the file again. If it is not as expected, the keys stay as they are.
    pub fn reload(&self) -> Result<(), String> {
        let text = std::fs::read_to_string(&self.path).map_err(|error| error.to_string());
        let known = text.and_then(|text| read(&text));
        let known = known.map_err(|why| format!("{}: {why}", self.path.display()))?;
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = known;
        Ok(())
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The names of tenants, and their weights.
    pub fn weights(&self) -> Vec<(String, f64)> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let accounts = known.accounts.iter();
        accounts
            .map(|(name, account)| (name.clone(), account.weight))
            .collect()
    }

    /// The owner of a key.
    fn owner(&self, key: &str) -> Option<Who> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.owners.get(key).cloned()
    }
}

fn read(text: &str) -> Result<Known, String> {
    let accounts: BTreeMap<String, Account> =
        serde_json::from_str(text).map_err(|error| error.to_string())?;
    let mut owners = HashMap::new();
    for (name, account) in &accounts {
        let wrong = |why: &str| Err(format!("tenant {name:?}: {why}"));
        if name.is_empty() || name == OTHERS {
            return wrong("is not a name that a tenant may have");
        }
        if !(0.001..=1000.0).contains(&account.weight) {
            return wrong("`weight` is from 0.001 to 1000");
        }
        if account.max_requests == Some(0) {
            return wrong("`max_requests` is at least 1");
        }
        for key in &account.keys {
            if key.len() < 8 || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
                return wrong("a key has at least 8 characters, all printable ASCII");
            }
            let who = Who {
                tenant: Some(name[..].into()),
                max_requests: account.max_requests,
                control: account.control,
                context: None,
            };
            if owners.insert(key.clone(), who).is_some() {
                return wrong("has a key that is given twice");
            }
        }
    }
    Ok(Known { accounts, owners })
}

/// Finds out who sends a request: by its key if there are keys, and otherwise by what it says.
pub fn who(keys: Option<&Keys>, headers: &HeaderMap) -> Result<Who> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let Some(keys) = keys else {
        return Ok(Who {
            tenant: text(TENANT).map(Arc::from),
            max_requests: None,
            control: true,
            context: None,
        });
    };
    let bearer = text(header::AUTHORIZATION.as_str()).and_then(|value| {
        let (scheme, key) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then_some(key.trim())
    });
    let key = bearer.or_else(|| text(KEY));
    key.and_then(|key| keys.owner(key))
        .ok_or(Error::Unauthenticated)
}

/// What became of the requests of each tenant.
pub struct Tenants {
    /// How many have a label of their own. It bounds what a metrics page has to hold.
    most: usize,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    figures: BTreeMap<Arc<str>, TenantFigures>,
    /// Requests in progress of those that have a limit.
    in_progress: HashMap<Arc<str>, usize>,
}

/// What became of the requests of one tenant.
#[derive(Debug, Clone, Default)]
pub struct TenantFigures {
    /// Those that were answered with outputs.
    pub success: u64,
    /// Those that failed, by reason.
    pub failures: [u64; Reason::ALL.len()],
    /// How long all took together.
    pub time: Duration,
}

impl Tenants {
    /// So many tenants have figures of their own: those that come first.
    pub fn new(most: usize) -> Tenants {
        Tenants {
            most,
            inner: Mutex::default(),
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes one of a tenant's places for requests in progress.
    pub fn enter(self: &Arc<Tenants>, who: &Who) -> Result<Option<Place>> {
        let (Some(tenant), Some(limit)) = (&who.tenant, who.max_requests) else {
            return Ok(None);
        };
        let mut inner = self.inner();
        let count = inner.in_progress.entry(tenant.clone()).or_default();
        if *count >= limit {
            return Err(Error::TenantLimit {
                tenant: tenant.to_string(),
                limit,
            });
        }
        *count += 1;
        Ok(Some(Place {
            tenants: self.clone(),
            tenant: tenant.clone(),
        }))
    }

    /// A request has come. Its tenant has a label from now on.
    pub fn know(&self, tenant: Option<&Arc<str>>) {
        let name = tenant.map_or("", |tenant| &tenant[..]);
        let mut inner = self.inner();
        if !inner.figures.contains_key(name) {
            let full = inner.figures.len() >= self.most;
            let own = if full { OTHERS } else { name };
            inner.figures.entry(own.into()).or_default();
        }
    }

    /// A request is over.
    pub fn count(&self, tenant: Option<&Arc<str>>, reason: Option<Reason>, time: Duration) {
        let mut inner = self.inner();
        let figures = &mut inner.figures;
        let name = tenant.map_or("", |tenant| &tenant[..]);
        let own = match figures.contains_key(name) {
            true => figures.get_mut(name),
            false => figures.get_mut(OTHERS),
        };
        if let Some(own) = own {
            match reason {
                None => own.success += 1,
                Some(reason) => own.failures[reason as usize] += 1,
            }
            own.time += time;
        }
    }

    /// The figures now. Requests that name no tenant are under the empty name.
    pub fn seen(&self) -> Vec<(Arc<str>, TenantFigures)> {
        let inner = self.inner();
        let each = inner.figures.iter();
        each.map(|(name, figures)| (name.clone(), figures.clone()))
            .collect()
    }
}

/// A place for a request in progress.
pub struct Place {
    tenants: Arc<Tenants>,
    tenant: Arc<str>,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut inner = self.tenants.inner();
        if let Some(count) = inner.in_progress.get_mut(&self.tenant) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                inner.in_progress.remove(&self.tenant);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_in_a_file_of_keys_is_named() {
        for (text, why) in [
            ("[]", "expected a map"),
            (r#"{"a": {}}"#, "missing field `keys`"),
            (r#"{"a": {"keys": [], "wieght": 2}}"#, "unknown field"),
            (r#"{"": {"keys": []}}"#, "not a name"),
            (r#"{"a": {"keys": ["short"]}}"#, "at least 8"),
            (r#"{"a": {"keys": [], "weight": 0}}"#, "0.001 to 1000"),
            (r#"{"a": {"keys": [], "max_requests": 0}}"#, "at least 1"),
            (
                r#"{"a": {"keys": ["12345678"]}, "b": {"keys": ["12345678"]}}"#,
                "given twice",
            ),
        ] {
            let error = read(text).err().unwrap_or_default();
            assert!(error.contains(why), "{error:?} for {text}");
        }
    }

    #[test]
    fn labels_are_bounded() {
        let tenants = Arc::new(Tenants::new(2));
        for name in ["a", "b", "c", "d", "a"] {
            let tenant = name.into();
            tenants.know(Some(&tenant));
            tenants.count(Some(&tenant), None, Duration::ZERO);
        }
        let seen = tenants.seen();
        let seen: Vec<_> = seen
            .iter()
            .map(|(name, of)| (&name[..], of.success))
            .collect();
        assert_eq!(seen, [(OTHERS, 2), ("a", 2), ("b", 1)]);
    }
}

//! Which tests are left out, and why: read from `exclusions.txt`.

/// A pattern of names, in which `*` stands for anything, and why tests of such names are left out.
pub struct Exclusion {
    pub pattern: &'static str,
    pub reason: &'static str,
}

/// All there are.
pub fn all() -> Vec<Exclusion> {
    let lines = include_str!("exclusions.txt").lines();
    lines
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| {
            let (pattern, reason) = line
                .split_once(':')
                .unwrap_or_else(|| panic!("exclusions.txt: {line:?} is no `pattern: reason`"));
            Exclusion {
                pattern: pattern.trim(),
                reason: reason.trim(),
            }
        })
        .collect()
}

impl Exclusion {
    /// Whether `name` is of the pattern.
    pub fn matches(&self, name: &str) -> bool {
        let mut parts = self.pattern.split('*');
        let first = parts.next().unwrap_or_default();
        let Some(mut rest) = name.strip_prefix(first) else {
            return false;
        };
        let mut last = None;
        for part in parts {
            if let Some(part) = last.replace(part) {
                match rest.find(part) {
                    Some(place) => rest = &rest[place + part.len()..],
                    None => return false,
                }
            }
        }
        last.map_or(rest.is_empty(), |part| rest.ends_with(part))
    }
}

#[test]
fn patterns_match_whole_names() {
    let matches = |pattern, name| {
        Exclusion {
            pattern,
            reason: "",
        }
        .matches(name)
    };
    assert!(matches("adam", "adam"));
    assert!(!matches("adam", "adam_multiple"));
    assert!(matches("adam*", "adam_multiple"));
    assert!(matches("*_FLOAT8*", "cast_FLOAT_to_FLOAT8E5M2"));
    assert!(matches("cast*_INT4*", "castlike_INT4_to_FLOAT"));
    assert!(!matches("cast*_INT4", "castlike_INT4_to_FLOAT"));
    assert!(!matches("*_FLOAT8*", "cast_FLOAT_to_FLOAT16"));
}

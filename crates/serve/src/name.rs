//! Names that are a part of a path.

/// Whether it may be the name of a model, or of a file of it.
pub fn is_name(name: &str) -> bool {
    let plain = |c: char| !c.is_control() && !"/\\".contains(c);
    !name.is_empty() && !name.starts_with('.') && name.chars().all(plain)
}

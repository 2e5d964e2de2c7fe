//! Arrays of the group are not variables on a CPU: the machine is asked for them.

use std::fmt::Write;

use streampool_kernels::Dialect;

use super::Entry;

/// Begins the declaration of an array that each launch brings, which says how long that is.
const BROUGHT: &str = "extern __shared__ __align__(1024) ";

/// The text, asking for each array that it names; the kernel that has it learns of it.
pub fn asked_for(dialect: Dialect, text: &str, entries: &mut [Entry]) -> Result<String, String> {
    let word = match dialect {
        Dialect::Cuda => "__shared__ ",
        Dialect::Metal => "threadgroup ",
    };
    let mut asking = String::with_capacity(text.len());
    let mut begins = 0;
    for line in text.split_inclusive('\n') {
        // What stands before the length tells an array from a pointer.
        let is_pointer = |declared: &str| {
            declared
                .split('[')
                .next()
                .is_some_and(|ty| ty.contains(['*', '&']))
        };
        let named = line.trim().strip_prefix(word);
        let brought = line.trim().strip_prefix(BROUGHT);
        let declared = named.filter(|declared| !is_pointer(declared));
        if let Some(declared) = declared.or(brought) {
            let parts = match brought {
                Some(_) => brought_array(declared),
                None => array(declared),
            };
            let (ty, name, length) = parts.ok_or_else(|| {
                format!(
                    "an array is declared as `{word}TYPE NAME[LENGTH];` on a line of its own, not as `{}`",
                    line.trim()
                )
            })?;
            let entry = entries.iter_mut().rfind(|entry| entry.begins <= begins);
            let entry = entry.ok_or_else(|| format!("{name} is outside of all kernels"))?;
            entry.arrays.push((ty.to_owned(), length.to_owned()));
            entry.brings |= brought.is_some();
            let _ = writeln!(asking, "    auto& {name} = shared_array<{ty}, {length}>();");
        } else {
            asking.push_str(line);
        }
        begins += line.len();
    }
    Ok(asking)
}

/// The type, the name and the length of an array that launches bring.
fn brought_array(declared: &str) -> Option<(&str, &str, &str)> {
    let (declared, length) = declared.split_once("[]; // ")?;
    let (ty, name) = declared.rsplit_once(' ')?;
    Some((ty, name, length))
}

/// The type, the name and the length of an array.
fn array(declared: &str) -> Option<(&str, &str, &str)> {
    let (declared, length) = declared.strip_suffix("];")?.split_once('[')?;
    let (ty, name) = declared.rsplit_once(' ')?;
    (!length.contains([']', ','])).then_some((ty, name, length))
}

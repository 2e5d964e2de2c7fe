//! Kernel text as C++ that a CPU's compiler takes.

use std::fmt::Write;
use std::hash::{DefaultHasher, Hash, Hasher};

use streampool_kernels::Source;

/// What stands before all kernels of a file.
pub const SHIM: &str = concat!(
    include_str!("shim/machine.h"),
    include_str!("shim/undefined.h"),
    include_str!("shim/intrinsics.h"),
    include_str!("shim/functions.h"),
    include_str!("shim/atomics.h"),
);

/// A kernel in C++. Many stand in one file, each in a namespace of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unit {
    /// Tells it from all others: the hash of its text.
    pub name: String,
    /// The most threads that its group may have, if its text says so.
    pub most_threads: Option<u32>,
    text: String,
}

impl Unit {
    /// The kernel `source`, which takes so many buffers. `compiler` is what else its code depends on.
    pub fn new(source: &Source, buffers: usize, compiler: &str) -> Unit {
        let text =
            with_shared_arrays(&source.text.replace("extern \"C\" __global__", "__global__"));
        let digest = |seed: u8| {
            let mut hasher = DefaultHasher::new();
            (seed, SHIM, compiler, &text, source.entry, buffers).hash(&mut hasher);
            hasher.finish()
        };
        let name = format!("{}_{:016x}{:016x}", source.entry, digest(0), digest(1));
        Unit {
            most_threads: most_threads(&text),
            text: in_namespace(&name, &text, source.entry, buffers),
            name,
        }
    }
}

/// One file of these kernels.
pub fn file(units: &[Unit]) -> String {
    units.iter().fold(SHIM.to_owned(), |mut file, unit| {
        file.push_str(&unit.text);
        file
    })
}

fn in_namespace(name: &str, text: &str, entry: &str, buffers: usize) -> String {
    let mut unit = format!("namespace {name} {{\n#line 1 \"{name}\"\n{text}\n");
    let _ = write!(
        unit,
        "extern \"C\" void run_{name}(Machine* on, void* const* buffers, const void* params) {{\n    \
         machine = on;\n    {entry}("
    );
    for buffer in 0..buffers {
        let _ = write!(unit, "Address{{buffers[{buffer}]}}, ");
    }
    let _ = write!(
        unit,
        "Bytes{{params}});\n}}\n\
         extern \"C\" unsigned long long params_{name}() {{ return sizeof(Params); }}\n}}\n"
    );
    for line in text.lines() {
        if let Some(defined) = line.trim_start().strip_prefix("#define ") {
            let end = |c: char| !c.is_ascii_alphanumeric() && c != '_';
            let macro_name = defined.split(end).next().unwrap_or_default();
            let _ = writeln!(unit, "#undef {macro_name}");
        }
    }
    unit
}

/// Arrays of the group are not variables on a CPU: the machine is asked for them.
fn with_shared_arrays(text: &str) -> String {
    let mut arrays = String::with_capacity(text.len());
    for line in text.lines() {
        let array = line.trim_start().strip_prefix("__shared__ ");
        let parts = array.and_then(|array| {
            let (declared, length) = array.strip_suffix("];")?.split_once('[')?;
            let (ty, name) = declared.rsplit_once(' ')?;
            Some((ty, name, length))
        });
        match parts {
            Some((ty, name, length)) => {
                let _ = writeln!(arrays, "    auto& {name} = shared_array<{ty}, {length}>();");
            }
            None => {
                arrays.push_str(line);
                arrays.push('\n');
            }
        }
    }
    arrays
}

fn most_threads(text: &str) -> Option<u32> {
    let (_, bounds) = text.split_once("__launch_bounds__(")?;
    bounds.split([',', ')']).next()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_undoes_what_it_defines_and_asks_for_shared_memory() {
        let text = "#define SIDE 4\n#define AT(x) (x)\n\
                    extern \"C\" __global__ void __launch_bounds__(64, 1) f(float* to, const Params p) {\n    \
                    __shared__ float tile[SIDE * 2];\n}\n";
        let source = Source {
            entry: "f",
            text: text.to_owned(),
        };
        let unit = Unit::new(&source, 1, "");
        assert_eq!(unit.most_threads, Some(64));
        for part in [
            "auto& tile = shared_array<float, SIDE * 2>();",
            "f(Address{buffers[0]}, Bytes{params});",
            "#undef SIDE\n#undef AT\n",
        ] {
            assert!(unit.text.contains(part), "{part}:\n{}", unit.text);
        }
        assert_ne!(unit.name, Unit::new(&source, 1, "another").name);
    }
}

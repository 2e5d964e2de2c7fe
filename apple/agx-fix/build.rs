//! Against the imitation of Metal, the dylib is tested as it is used: inserted into a program, here one of the tests. That has
//! the imitation in it, where the dylib must find it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var_os("CARGO_CFG_METAL_SIM").is_some() {
        println!("cargo::rustc-link-arg-tests=-rdynamic");
    }
}

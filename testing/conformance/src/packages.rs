//! Packages from the Python package index, for tests: compilers and reference data, each installed once.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Set where these packages have to be had: then a test that would skip for want of one fails.
const REQUIRED: &str = "REQUIRE_PACKAGES";

/// The folder of `package` in `version`, installed now if it is not there; or why it cannot be had.
///
/// It is kept in `home`, a folder below the target directory: `env!("CARGO_TARGET_TMPDIR")` of an integration test.
pub fn installed(home: &str, package: &str, version: &str) -> Result<PathBuf, String> {
    let home = Path::new(home);
    fs::create_dir_all(home).expect("the target directory can be written");
    let folder = home.join(format!("{package}-{version}"));
    // Other test processes may be here at the same time.
    let lock = File::create(home.join(format!("{package}.lock"))).expect("a file to lock");
    lock.lock().expect("the file locks");
    if !folder.exists() {
        let partial = home.join(format!("{package}-{version}.partial"));
        if partial.exists() {
            fs::remove_dir_all(&partial).expect("what a broken installation left can be removed");
        }
        if let Err(why) = install(&format!("{package}=={version}"), &partial) {
            assert!(std::env::var_os(REQUIRED).is_none(), "{why}");
            return Err(why);
        }
        fs::rename(&partial, &folder).expect("the new folder can be renamed");
    }
    Ok(folder)
}

fn install(requirement: &str, folder: &Path) -> Result<(), String> {
    let output = Command::new("python3")
        .args(["-m", "pip", "install", "--quiet", "--no-deps"])
        .args(["--no-compile", "--target"])
        .arg(folder)
        .arg(requirement)
        .output()
        .map_err(|error| format!("the package {requirement} is installed by python3: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!(
            "pip cannot install {requirement}: {}",
            String::from_utf8_lossy(&output.stderr)
        )),
    }
}

/// The file below `folder` whose name begins with `beginning`.
pub fn library(folder: &Path, beginning: &str) -> PathBuf {
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("an installed package can be read") {
            let path = entry.expect("an installed package can be read").path();
            if path.is_dir() {
                folders.push(path);
            } else if path
                .file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with(beginning))
            {
                return path;
            }
        }
    }
    panic!("{} has no {beginning}", folder.display());
}

//! What a GPU is.

use objc2_metal::{MTLDevice, MTLGPUFamily};
use streampool_device::DeviceKind;
use streampool_device::lock::Mutex;

use super::objects::Gpu;
use crate::quirks::{APPLE_QUIRKS, APPLE_REPORTS, Answer};
use crate::ranks;
use crate::{MetalOptions, quirks};

/// Where the system says which it is.
const SYSTEM: &str = "/System/Library/CoreServices/SystemVersion.plist";
/// The first macOS whose Metal compiles our kernels, which are Metal 3.1.
const FIRST_MACOS: u32 = 14;

/// Each family that matters here, the newest of its kind first.
const FAMILIES: [&[(MTLGPUFamily, &str)]; 2] = [
    &[
        (MTLGPUFamily::Apple10, "apple10"),
        (MTLGPUFamily::Apple9, "apple9"),
        (MTLGPUFamily::Apple8, "apple8"),
        (MTLGPUFamily::Apple7, "apple7"),
        (MTLGPUFamily::Mac2, "mac2"),
    ],
    &[
        (MTLGPUFamily::Metal4, "metal4"),
        (MTLGPUFamily::Metal3, "metal3"),
    ],
];

/// The name of the GPU of this number: `metal`, then `metal:1` and so on; of a device that is not the first on it
/// in this process, `metal#2` and so on.
pub(crate) fn unused_name(ordinal: usize) -> String {
    static MADE: Mutex<Vec<usize>> = Mutex::new(ranks::NAMES, Vec::new());
    let name = match ordinal {
        0 => DeviceKind::Metal.name().to_owned(),
        other => format!("{}:{other}", DeviceKind::Metal.name()),
    };
    let mut made = MADE.lock();
    made.push(ordinal);
    match made.iter().filter(|&&known| known == ordinal).count() {
        1 => name,
        count => format!("{name}#{count}"),
    }
}

/// Whether its simdgroups multiply matrices: those of Apple's families from 7 on do.
pub(crate) fn has_simdgroup_matrices(gpu: &Gpu) -> bool {
    gpu.supportsFamily(MTLGPUFamily::Apple7)
}

/// The families it belongs to, whether its simdgroups multiply matrices, the system, the memory that Metal recommends
/// to use, whether it is kept resident, how commands are committed, what is worked around, and what else is done for what was
/// reported from Macs.
pub(crate) fn features(gpu: &Gpu, options: &MetalOptions) -> Vec<String> {
    let newest = |kind: &&[(MTLGPUFamily, &str)]| {
        let found = kind.iter().find(|(family, _)| gpu.supportsFamily(*family));
        found.map(|(_, name)| (*name).to_owned())
    };
    let mut features: Vec<String> = FAMILIES.iter().filter_map(newest).collect();
    features.extend(has_simdgroup_matrices(gpu).then(|| "simdgroup matrices".to_owned()));
    features.extend(system().map(|version| format!("macOS {version}")));
    let recommended = gpu.recommendedMaxWorkingSetSize() >> 20;
    features.push(format!("working set {recommended} MiB"));
    features.extend(options.residency_sets.then(|| "residency sets".to_owned()));
    features.push("queues wait on the host".to_owned());
    features.push("pages end by cost (macOS 26)".to_owned());
    features.extend(in_force(options).map(|quirk| format!("works around {}", quirk.quirk)));
    let reported = APPLE_REPORTS.iter();
    features.extend(reported.map(|known| format!("{} ({})", known.done, known.seen)));
    features
}

/// The quirks that are worked around.
fn in_force(options: &MetalOptions) -> impl Iterator<Item = quirks::AppleQuirk> {
    let switched_on = |known: &quirks::AppleQuirk| {
        known.answer == Answer::InForce && options.clone().without(known.quirk) != *options
    };
    APPLE_QUIRKS.into_iter().filter(switched_on)
}

/// The version of the system and its build, such as `15.1.1 (24B91)`. To programs that were linked for an older one,
/// macOS 26 says that it is 16; the build is the same to all.
pub(crate) fn system() -> Option<String> {
    told_in(&std::fs::read_to_string(SYSTEM).ok()?)
}

/// Why kernels would not compile on this version of macOS, if they would not.
pub(crate) fn too_old(version: &str) -> Option<String> {
    let major = version.split(|c: char| !c.is_ascii_digit()).next()?;
    let major: u32 = major.parse().ok()?;
    (major < FIRST_MACOS)
        .then(|| format!("this is macOS {version}, and it needs macOS {FIRST_MACOS} or later"))
}

fn told_in(plist: &str) -> Option<String> {
    let value = |key: &str| {
        let (_, rest) = plist.split_once(&format!("<key>{key}</key>"))?;
        let (_, rest) = rest.split_once("<string>")?;
        rest.split_once("</string>").map(|(value, _)| value)
    };
    let version = value("ProductVersion")?.to_owned();
    Some(match value("ProductBuildVersion") {
        Some(build) => format!("{version} ({build})"),
        None => version,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_found_among_other_keys() {
        let version = "\t<key>ProductName</key>\n\t<string>macOS</string>\n\
                       \t<key>ProductVersion</key>\n\t<string>15.1.1</string>\n";
        let build = "\t<key>ProductBuildVersion</key>\n\t<string>24B91</string>\n";
        let told = |keys: &str| told_in(&format!("<dict>\n{keys}</dict>"));
        assert_eq!(told(version).as_deref(), Some("15.1.1"));
        let both = [build, version].concat();
        assert_eq!(told(&both).as_deref(), Some("15.1.1 (24B91)"));
        assert_eq!(told(""), None);
    }

    #[test]
    fn systems_before_the_first_are_refused() {
        let why = "this is macOS 13.6.1 (22G313), and it needs macOS 14 or later";
        assert_eq!(too_old("13.6.1 (22G313)").as_deref(), Some(why));
        assert!(too_old("13").is_some());
        for fine in ["14.0", "15", "15 (24A1)", "26.5.1", "unheard of"] {
            assert_eq!(too_old(fine), None, "{fine}");
        }
    }

    #[test]
    fn what_is_switched_off_is_not_in_force() {
        let names = |options: &MetalOptions| -> Vec<&str> {
            in_force(options).map(|quirk| quirk.quirk.name()).collect()
        };
        let options = MetalOptions::default();
        assert_eq!(
            names(&options),
            ["encoder-freed-in-use", "buffers-in-flight"]
        );
        let without = options.without(streampool_device::Quirk::EncoderFreedInUse);
        assert_eq!(names(&without), ["buffers-in-flight"]);
    }
}

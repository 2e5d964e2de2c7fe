//! Programs that use Metal as they should: linked with agx-fix, started with it, and with a device that comes late.

use std::ffi::{CString, c_char, c_int, c_void};
use std::process::Command;
use std::time::Duration;

use agx_fix::{Settings, Statistics};
use streampool_metal_sim::{Id, Message, Sim, send};

use crate::common::driver;
use crate::common::{assert_ended_well, errors, run};
use crate::{MTLCreateSystemDefaultDevice, Maker, agx_fix_replacements, default_device};

/// What a program does that uses encoders as it should.
pub fn use_metal(device: Maker) {
    let sim = Sim::strict();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..25 {
                    driver::pooled(|| {
                        // SAFETY: it may be called anywhere, and gives a reference.
                        let device = Id::from_ptr(unsafe { device() });
                        let queue: Id = send!(device, "newCommandQueue");
                        let commands: Id = send!(queue, "commandBuffer");
                        for kind in ["computeCommandEncoder", "blitCommandEncoder"] {
                            let encoder: Id = Message::new(commands, kind).send(());
                            let _: () = send!(encoder, "endEncoding");
                        }
                        let _: () = send!(commands, "commit");
                        let _: () = send!(commands, "waitUntilCompleted");
                        queue.release();
                        device.release();
                    });
                }
            });
        }
    });
    // Encoders that are ended and given up are kept for two seconds, and until something is done.
    std::thread::sleep(Duration::from_millis(2100));
    driver::pooled(|| {
        // SAFETY: as above.
        let device = Id::from_ptr(unsafe { device() });
        let queue: Id = send!(device, "newCommandQueue");
        let _: Id = send!(queue, "commandBuffer");
        queue.release();
        device.release();
    });
    assert_eq!(sim.violations(), []);
}

/// The imitation of Metal in which nothing races.
pub fn metal() {
    let wrapped = agx_fix::install(Settings::default()).expect("there is a device");
    assert_eq!((wrapped.classes, wrapped.created), (5, 0));
    use_metal(MTLCreateSystemDefaultDevice);
    let expected = Statistics {
        created: 200,
        ended: 200,
        kept: 200,
        buffers: 101,
        committed: 100,
        destroyed: 200,
        // An encoder is made and ended; a command buffer is committed.
        calls: 200 + 200 + 100,
        ..wrapped
    };
    assert_eq!(agx_fix::statistics(), expected);
}

#[test]
fn what_is_right_stays_as_it_is() {
    assert_ended_well(&run("metal", &[]));
}

/// What Apple's loader calls in place of a function where agx-fix is inserted.
fn replacement(of: Maker) -> Maker {
    let row = agx_fix_replacements
        .iter()
        .find(|row| row[1] as usize == of as usize);
    row.expect("it is in the table")[0]
}

/// There is no device when the wrapping begins. The program gets one by a function of Metal's afterwards.
pub fn late(by: Maker, device_of: impl Fn(Id) -> Id) {
    // SAFETY: nil is allowed.
    let nothing = unsafe { agx_fix::install_on(std::ptr::null_mut(), Settings::default()) };
    assert_eq!(nothing, Err(agx_fix::Error::NoDevice));
    assert_eq!(agx_fix::check().methods, 0);
    let same = default_device();
    // SAFETY: it may be called anywhere, and gives a reference.
    let made = Id::from_ptr(unsafe { replacement(by)() });
    assert_eq!(device_of(made), same);
    made.release();
    same.release();
    assert_eq!(agx_fix::statistics().classes, 1, "the device's");
    use_metal(MTLCreateSystemDefaultDevice);
    let read = agx_fix::statistics();
    assert_eq!(
        (read.classes, read.created, read.ended, read.destroyed),
        (5, 200, 200, 200)
    );
    assert_eq!((read.calls, read.unannounced), (500, 0));
}

#[test]
fn a_device_that_comes_late_is_wrapped() {
    assert_ended_well(&run("late, default", &[]));
    assert_ended_well(&run("late, listed", &[]));
}

/// The library that is inserted.
fn dylib() -> String {
    let test = std::env::current_exe().expect("a test has a file");
    let library = test.with_file_name("libagx_fix.so");
    library.to_str().expect("a path of text").to_owned()
}

/// What Apple's loader makes of `MTLCreateSystemDefaultDevice` where the dylib is inserted: what the dylib's table says.
pub fn inserted_default_device() -> Maker {
    const RTLD_LAZY: c_int = 1;
    const RTLD_NOLOAD: c_int = 4;
    unsafe extern "C" {
        fn dlopen(file: *const c_char, how: c_int) -> *mut c_void;
        fn dlsym(library: *mut c_void, symbol: *const c_char) -> *const [Maker; 2];
    }
    let file = CString::new(dylib()).expect("a path");
    // SAFETY: the names end with a zero, and the table has two rows.
    let table = unsafe {
        let library = dlopen(file.as_ptr(), RTLD_LAZY | RTLD_NOLOAD);
        assert!(!library.is_null(), "it is inserted");
        std::slice::from_raw_parts(dlsym(library, c"agx_fix_replacements".as_ptr()), 2)
    };
    let row = table
        .iter()
        .find(|row| row[1] as usize == MTLCreateSystemDefaultDevice as Maker as usize);
    row.expect("it is in the table")[0]
}

/// A program that was not linked with agx-fix: all that it has of it is in the dylib. The symbols that this one has are not used.
#[test]
fn inserted_it_wraps_by_itself() {
    let library = &dylib();
    let output = run(
        "knows nothing of it",
        &[("LD_PRELOAD", library), ("AGX_FIX_VERBOSE", "1")],
    );
    assert_ended_well(&output);
    let said = errors(&output);
    assert!(
        said.contains("agx-fix: loaded into process ") && said.contains("are wrapped (Encoder)"),
        "{said}"
    );
    assert!(
        said.contains(
            "agx-fix: 200 encoders created, 200 ended, 200 destroyed, 0 of them deferred"
        ),
        "{said}"
    );

    let output = run(
        "knows nothing of it",
        &[("LD_PRELOAD", library), ("AGX_FIX_ABORT", "maybe")],
    );
    assert_ended_well(&output);
    let said = errors(&output);
    assert!(
        said.contains("AGX_FIX_ABORT is `maybe`; allowed is 0 or 1"),
        "{said}"
    );
    assert!(
        !said.contains("encoders created"),
        "nothing is worth telling\n{said}"
    );

    let output = run(
        "knows nothing of it",
        &[
            ("LD_PRELOAD", library),
            ("AGX_FIX_VERBOSE", "1"),
            ("AGX_FIX_DISABLE", "1"),
        ],
    );
    assert_ended_well(&output);
    assert!(!errors(&output).contains("agx-fix"), "{}", errors(&output));
}

/// Starts a program into which the dylib cannot be loaded: it does not have the functions that the dylib needs, and ends at once, as one of
/// another architecture does on Apple's systems.
pub fn start_another() {
    let another = Command::new("true").output().expect("it is there");
    print!("another: {}", another.status);
    eprint!("{}", errors(&another));
}

#[test]
fn inserted_it_does_nothing_before_there_is_a_device() {
    let output = run(
        "starts another",
        &[("LD_PRELOAD", &dylib()), ("AGX_FIX_VERBOSE", "1")],
    );
    assert_ended_well(&output);
    let said = errors(&output);
    assert!(
        said.contains("agx-fix: loaded into process ")
            && said.contains("; 0 methods of 0 classes wrapped"),
        "{said}"
    );
}

#[test]
fn what_an_inserted_program_starts_does_without() {
    let ended = |variables: &[(&str, &str)]| {
        let library = dylib();
        let output = run(
            "starts another",
            &[&[("LD_PRELOAD", library.as_str())], variables].concat(),
        );
        assert_ended_well(&output);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        (
            said.contains("another: exit status: 0"),
            said + &errors(&output),
        )
    };
    for variables in [&[][..], &[("AGX_FIX_DISABLE", "1")]] {
        let (well, said) = ended(variables);
        assert!(well, "{said}");
    }
    let (well, said) = ended(&[("AGX_FIX_CHILDREN", "1")]);
    assert!(!well, "by setting they get it, and here they end\n{said}");
}

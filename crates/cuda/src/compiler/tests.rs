//! What needs a GPU, and a way in that users have not. Without one these are skipped.

use streampool_device::{DType, Layout, Op, Span, View};
use streampool_kernels::{Limits, Missing, lower};

use super::images::Image;
use super::*;

fn context() -> Option<Arc<Context>> {
    let context = Context::open(0)
        .inspect_err(|why| eprintln!("skipped: {why}"))
        .ok()?;
    let _bound = context.bind().unwrap();
    Some(context)
}

/// A device's kernels without a folder, if they can be compiled.
fn kernels() -> Option<Kernels> {
    let kernels = Kernels::new(context()?, None);
    match kernels.compiler() {
        Ok(_) => Some(kernels),
        Err(why) => {
            eprintln!("skipped: {why}");
            None
        }
    }
}

fn fill() -> Kernel {
    let span = Span {
        handle: 1 << 20,
        offset: 0,
        bytes: 256,
    };
    let dst = View::new(span, DType::F32, Layout::contiguous(&[64]).unwrap()).unwrap();
    let limits = Limits {
        compute_units: 16,
        shared_bytes: 48 << 10,
        buffers: 480,
    };
    let value = 1f32.into();
    let plan = lower(&Op::Fill { dst, value }, &limits).unwrap();
    plan.dispatches[0].kernel.clone()
}

#[test]
fn a_text_that_does_not_compile_is_an_error_with_the_log() {
    let Some(kernels) = kernels() else { return };
    let source = Source {
        entry: "broken",
        text: "extern \"C\" __global__ void broken(float* x) { *x = nonsense; }".to_owned(),
        brought: 0,
    };
    match kernels.compile(&source, "NVRTC") {
        Err(Error::Compile {
            device,
            kernel,
            log,
        }) => {
            assert_eq!(
                (device, kernel.as_str()),
                (kernels.context.name.clone(), "broken")
            );
            assert!(log.contains("nonsense"), "{log}");
        }
        other => panic!("expected Compile, got {other:?}"),
    }
    assert_eq!(kernels.report().compiled, 0);
}

#[test]
fn an_entry_that_is_not_there_is_an_error_that_names_the_compiler() {
    let Some(kernels) = kernels() else { return };
    let source = Source {
        entry: "elsewhere",
        text: "extern \"C\" __global__ void here() {}".to_owned(),
        brought: 0,
    };
    let message = kernels
        .compile(&source, "NVRTC 1.2")
        .unwrap_err()
        .to_string();
    for part in ["cuModuleGetFunction", "NVRTC 1.2", "the driver knows CUDA"] {
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn without_a_compiler_the_empty_kernel_works_and_others_say_what_is_missing() {
    let Some(context) = context() else { return };
    let images = Images::new(Err("no NVRTC".to_owned()), None);
    let kernels = Kernels::with_images(context, images);
    let nop = kernels
        .function(OpKind::Nop, &Kernel::Nop, Missing::Compile)
        .unwrap();
    assert!(Arc::ptr_eq(
        &nop,
        &kernels
            .function(OpKind::Nop, &Kernel::Nop, Missing::Compile)
            .unwrap()
    ));
    match kernels.function(OpKind::Fill, &fill(), Missing::Compile) {
        Err(NoSteps::Failed(Error::Unsupported { why, .. })) => {
            assert!(
                why.contains("no NVRTC") && why.contains("still work"),
                "{why}"
            );
        }
        other => panic!("expected Unsupported, got {other:?}"),
    }
    assert_eq!(kernels.report().entries, 0);
}

#[test]
fn a_whole_image_that_the_driver_refuses_is_replaced() {
    let Some(kernels) = kernels() else { return };
    let folder = format!("streampool-refused-{}", std::process::id());
    let folder = std::env::temp_dir().join(folder);
    let context = &kernels.context;
    let open = || Kernels::new(context.clone(), Some(folder.clone()));

    let source = fill().source(Dialect::Cuda).unwrap();
    open()
        .images
        .keep(&source, &Image(b"\x7fELF, but not really".to_vec()));
    let (first, second) = (open(), open());
    for kernels in [&first, &second] {
        kernels
            .function(OpKind::Fill, &fill(), Missing::Compile)
            .unwrap();
        kernels
            .function(OpKind::Fill, &fill(), Missing::Compile)
            .unwrap();
    }
    let counts = |kernels: &Kernels| {
        let report = kernels.report();
        (
            report.compiled,
            report.loaded,
            report.entries,
            report.problem,
        )
    };
    assert_eq!(counts(&first), (1, 0, 1, None));
    assert_eq!(counts(&second), (0, 1, 1, None));
    std::fs::remove_dir_all(&folder).unwrap();
}

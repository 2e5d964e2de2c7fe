//! What is not there, not right, or too much: said in words that help, and everything else works on.

mod common;

use common::raw::{
    copy, download, encode, fill, floats, leaked, patience, plus_one, queue, upload,
};
use common::{device, device_with, is_child, options, run_as_child};
use streampool_cuda::{CudaDevice, CudaOptions};
use streampool_device::{
    Activation, Device, Error, Layout, MatMul, Op, OpKind, Result, Space, Span, View,
};

const BYTES: usize = 1 << 10;

/// Why there is no such device.
fn why_unavailable<T>(outcome: Result<T>) -> String {
    match outcome {
        Err(Error::Unavailable { device, why }) => {
            assert!(device.starts_with("cuda"), "{device}");
            why
        }
        Err(error) => panic!("expected Unavailable, got {error}"),
        Ok(_) => panic!("expected Unavailable, and it is there"),
    }
}

#[test]
fn without_a_gpu_it_says_what_is_missing() {
    const NAME: &str = "without_a_gpu_it_says_what_is_missing";
    if !is_child(NAME) {
        return run_as_child(NAME, |command| {
            command.env("CUDA_VISIBLE_DEVICES", "");
        });
    }
    let why = why_unavailable(CudaDevice::new(CudaOptions::default()));
    // Without a driver it says that; with one, what may hide its GPUs.
    assert!(
        why.contains("driver is not installed") || why.contains("CUDA_VISIBLE_DEVICES"),
        "{why}"
    );
    assert_eq!(why_unavailable(CudaDevice::count()), why);
    // Asking again does not change it.
    assert_eq!(why_unavailable(CudaDevice::new(options())), why);
}

#[test]
fn a_gpu_that_is_not_there_is_refused_with_how_many_there_are() {
    let Some(_device) = device() else { return };
    let count = CudaDevice::count().unwrap();
    for ordinal in [count, count + 1, 1_000_000, usize::MAX] {
        let why = why_unavailable(CudaDevice::new(CudaOptions {
            ordinal,
            ..options()
        }));
        let numbers = [format!("no GPU {ordinal}"), format!("shows {count}")];
        assert!(numbers.iter().all(|number| why.contains(number)), "{why}");
    }
}

#[test]
fn a_capacity_is_at_most_the_gpus_and_something() {
    let of = |capacity| CudaOptions {
        capacity: Some(capacity),
        ..options()
    };
    let refused = CudaDevice::new(of(0)).map(drop);
    assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
    let (Some(most), Some(whole), Some(little)) = (
        device_with(of(usize::MAX)),
        device(),
        device_with(of(BYTES)),
    ) else {
        return;
    };
    let memory = |device: &CudaDevice| device.properties().memory_capacity;
    assert_eq!(memory(&most), memory(&whole));
    assert_eq!(
        little.allocate(BYTES + 1, Space::Device),
        Err(Error::OutOfMemory {
            device: little.properties().name.clone(),
            requested: BYTES + 1,
            in_use: 0,
            capacity: BYTES
        })
    );
}

#[test]
fn a_full_gpu_gives_the_figures_and_works_on() {
    let Some(device) = device() else { return };
    let held = leaked(&*device, BYTES);
    let capacity = device.properties().memory_capacity;
    let before = device.memory_use();
    // The account would bear it; the driver, which needs some for itself, does not.
    let requested = capacity - BYTES;
    assert_eq!(
        device.allocate(requested, Space::Device),
        Err(Error::OutOfMemory {
            device: device.properties().name.clone(),
            requested,
            in_use: BYTES,
            capacity
        })
    );
    assert_eq!(device.memory_use(), before);
    let mut queue = queue(&*device, 1).unwrap();
    encode(&mut *queue, &fill(held, 2.0)).unwrap();
    assert_eq!(download(&mut *queue, held), Ok(vec![2.0; BYTES / 4]));
}

#[test]
fn a_launch_beyond_the_limits_is_a_fault_of_its_queue_only() {
    let Some(device) = device() else { return };
    let (mut bad, mut good) = (queue(&*device, 1).unwrap(), queue(&*device, 2).unwrap());
    let (one, two) = (leaked(&*device, BYTES), leaked(&*device, BYTES));
    for round in 0..5 {
        device.refuse_next(1);
        let tick = encode(&mut *bad, &fill(one, 1.0)).unwrap();
        let Err(Error::Fault(fault)) = bad.progress().wait(tick, patience()) else {
            panic!("it has to be a fault");
        };
        assert_eq!((fault.queue(), fault.tick()), ("queue 1", tick));
        assert_eq!(fault.op(), OpKind::Fill);
        assert!(fault.message().contains("cuLaunchKernel"), "{fault}");
        assert!(fault.message().contains("CUDA_ERROR_"), "{fault}");
        let poisoned = Err(Error::Poisoned(fault));
        assert_eq!(encode(&mut *bad, &Op::Nop), poisoned);
        assert_eq!(upload(&mut *bad, one, &[1.0]), poisoned);

        encode(&mut *good, &fill(two, round as f32)).unwrap();
        assert_eq!(download(&mut *good, two), Ok(vec![round as f32; BYTES / 4]));
        bad.recover().unwrap();
        encode(&mut *bad, &fill(one, 3.0)).unwrap();
        assert_eq!(download(&mut *bad, one), Ok(vec![3.0; BYTES / 4]));
    }
}

/// The device of a child process that cannot load `library`, and what it says of that.
fn lacking(missing: &str) -> (std::sync::Arc<CudaDevice>, String) {
    // Kernels that were compiled before would hide that there is no compiler.
    let device = device_with(CudaOptions::default()).expect("the parent has seen the device");
    let features = device.properties().features.clone();
    let found = features.iter().find(|feature| feature.starts_with(missing));
    let feature = found
        .unwrap_or_else(|| panic!("{missing}: {features:?}"))
        .clone();
    (device, feature)
}

/// Runs the test in a process for which `library` is hidden behind files that are no libraries.
fn without_library(test: &str, library: &str) {
    if device().is_none() {
        return;
    }
    let folder =
        std::env::temp_dir().join(format!("streampool-no-{library}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for ending in ["", ".1", ".9", ".10", ".11", ".12", ".13"] {
        std::fs::write(
            folder.join(format!("lib{library}.so{ending}")),
            "no library",
        )
        .unwrap();
    }
    let known = std::env::var("LD_LIBRARY_PATH").unwrap_or_default();
    let path = format!("{}:{known}", folder.display());
    run_as_child(test, |command| {
        command.env("LD_LIBRARY_PATH", &path);
    });
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn without_nvrtc_bytes_are_copied_and_kernels_say_what_they_lack() {
    const NAME: &str = "without_nvrtc_bytes_are_copied_and_kernels_say_what_they_lack";
    if !is_child(NAME) {
        return without_library(NAME, "nvrtc");
    }
    let (device, feature) = lacking("no NVRTC");
    assert!(feature.contains("LD_LIBRARY_PATH"), "{feature}");
    let mut queue = queue(&*device, 1).unwrap();
    let (one, two) = (leaked(&*device, BYTES), leaked(&*device, BYTES));
    let values: Vec<f32> = (0..BYTES / 4).map(|place| place as f32).collect();
    upload(&mut *queue, one, &values).unwrap();
    encode(&mut *queue, &copy(one, two)).unwrap();
    encode(&mut *queue, &Op::Nop).unwrap();
    assert_eq!(download(&mut *queue, two), Ok(values.clone()));
    for op in [plus_one(one, two), fill(two, 1.0)] {
        let error = encode(&mut *queue, &op).unwrap_err();
        assert!(matches!(error, Error::Unsupported { .. }), "{error}");
        assert!(error.to_string().contains("NVRTC"), "{error}");
    }
    // What was refused left nothing behind.
    assert_eq!(download(&mut *queue, two), Ok(values));
}

#[test]
fn without_cublaslt_products_run_on_kernels_of_ours() {
    const NAME: &str = "without_cublaslt_products_run_on_kernels_of_ours";
    if !is_child(NAME) {
        return without_library(NAME, "cublasLt");
    }
    let (device, feature) = lacking("no cuBLASLt");
    assert!(feature.contains("LD_LIBRARY_PATH"), "{feature}");
    const WIDTH: usize = 64;
    let matrix = |span: Span| {
        let layout = Layout::contiguous(&[WIDTH, WIDTH]).unwrap();
        View::new(span, floats(span).dtype(), layout).unwrap()
    };
    let [a, b, out] = [(); 3].map(|()| leaked(&*device, WIDTH * WIDTH * 4));
    let mut queue = queue(&*device, 1).unwrap();
    upload(&mut *queue, a, &[2.0; WIDTH * WIDTH]).unwrap();
    upload(&mut *queue, b, &[3.0; WIDTH * WIDTH]).unwrap();
    let product = encode(
        &mut *queue,
        &Op::MatMul(MatMul {
            a: matrix(a),
            b: matrix(b),
            out: matrix(out),
            bias: None,
            activation: Activation::None,
            alpha: 1.0,
        }),
    );
    product.unwrap();
    let expected = vec![6.0 * WIDTH as f32; WIDTH * WIDTH];
    assert_eq!(download(&mut *queue, out), Ok(expected));
}

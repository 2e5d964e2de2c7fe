//! Files that others change while they are read, and where what was read of them lies.

use std::fs::File;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use streampool_host::{HostDevice, HostOptions};
use streampool_runtime::Settings;

use super::external::Folder;
use super::*;
use crate::onnx;

const ELEMENTS: usize = 1 << 21;

/// The files of a model that gives one large weight, and of that weight: the same one, or one beside it.
fn large(folder: &Folder, beside: bool) -> [PathBuf; 2] {
    let values = (0..ELEMENTS).map(|place| place as f32);
    let bytes: Bytes = values.flat_map(f32::to_le_bytes).collect();
    let [path, data] = ["model.onnx", "model.data"].map(|name| folder.0.join(name));
    let tensor = floats("w", &[ELEMENTS as i64], &[]);
    let tensor = match beside {
        false => TensorProto {
            raw: bytes,
            ..tensor
        },
        true => {
            std::fs::write(&data, bytes).unwrap();
            TensorProto {
                location: TensorProto::EXTERNAL,
                external: vec![EntryProto {
                    key: "location".to_owned(),
                    value: "model.data".to_owned(),
                }],
                ..tensor
            }
        }
    };
    let mut graph = graph(&[], &["w"], Vec::new());
    graph.initializers.push(tensor);
    std::fs::write(&path, model(graph).encode_to_vec()).unwrap();
    [path.clone(), if beside { data } else { path }]
}

#[test]
fn files_that_become_shorter_while_they_are_read_are_read_or_refused() {
    for beside in [false, true] {
        let folder = Folder::new(&format!("shorter-{beside}"));
        let [path, data] = large(&folder, beside);
        let (pool, over) = (pool(), AtomicBool::new(false));
        let shortened = || {
            let file = File::options().write(true).open(&data).unwrap();
            let length = file.metadata().unwrap().len();
            while !over.load(Ordering::Relaxed) {
                file.set_len(length / 2).unwrap();
                file.set_len(length).unwrap();
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(shortened);
            for _ in 0..50 {
                // That the process goes on is what counts.
                let _ = onnx::read(&path, &pool);
            }
            over.store(true, Ordering::Relaxed);
        });
    }
}

#[test]
fn what_is_large_stays_where_it_was_read_whatever_becomes_of_the_file() {
    for beside in [false, true] {
        let folder = Folder::new(&format!("stays-{beside}"));
        let [path, data] = large(&folder, beside);
        let pool = pool();
        let graph = onnx::read(&path, &pool).unwrap().graph;
        let memory = pool.snapshot().unwrap().memory;
        assert_eq!(memory.in_use, ELEMENTS * 4);
        assert_eq!(memory.reserved, 0, "there is no second copy");
        let other = File::options().write(true).open(&data).unwrap();
        other.set_len(0).unwrap();
        let weight = &graph.constants[&graph.outputs[0]];
        let values = weight.to_vec::<f32>().unwrap();
        assert!((0..ELEMENTS).all(|place| values[place] == place as f32));
    }
}

#[test]
fn what_was_read_counts_in_the_limit_of_a_pool() {
    let folder = Folder::new("limit");
    let [path, _] = large(&folder, true);
    let device = HostDevice::new(HostOptions::default()).unwrap();
    let settings = Settings::builder().memory_limit(Some(ELEMENTS)).build();
    let pool = Pool::with_settings(device, settings.unwrap()).unwrap();
    let said = onnx::read(&path, &pool).err().unwrap().to_string();
    assert_tells(&said, &["\"w\"", "memory"]);
}

#[test]
fn files_that_end_early_are_told() {
    let mut bytes = model(graph(&[], &[], Vec::new())).encode_to_vec();
    let length = bytes.len();
    bytes.pop();
    let path = std::path::Path::new("short.onnx");
    let said = crate::onnx::scan::read(path, &bytes[..], length)
        .err()
        .unwrap();
    assert_tells(&said.to_string(), &["short.onnx", "became shorter"]);
}

#[test]
fn what_stands_for_no_truth_is_refused_however_large_it_is() {
    let mut graph = graph(&[], &["w"], Vec::new());
    graph.initializers.push(TensorProto {
        element: 9,
        raw: vec![2u8; 1 << 17].into(),
        ..floats("w", &[1 << 17], &[])
    });
    let said = refusal(&model(graph));
    assert_tells(&said, &["\"w\"", "bool"]);
}

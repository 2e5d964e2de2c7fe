//! Data in files beside the model.

use std::collections::HashMap;
use std::path::PathBuf;

use streampool_tensor::{DType, Tensor};

use super::*;
use crate::onnx;

/// A folder with a model in it, and a file of data; removed at the end.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Folder {
        let folder =
            std::env::temp_dir().join(format!("streampool-reader-{}-{name}", std::process::id()));
        std::fs::create_dir_all(folder.join("below")).unwrap();
        let values = [1f32, 2.0, 3.0, 4.0].map(f32::to_le_bytes);
        std::fs::write(folder.join("below/weights.bin"), values.as_flattened()).unwrap();
        Folder(folder)
    }

    fn read(&self, entries: &[(&str, &str)]) -> Result<Model> {
        let path = self.0.join("model.onnx");
        std::fs::write(&path, proto(entries).encode_to_vec()).unwrap();
        onnx::read(&path, &pool())
    }

    #[track_caller]
    fn refusal(&self, entries: &[(&str, &str)]) -> String {
        match self.read(entries) {
            Ok(_) => panic!("the model is read"),
            Err(error) => error.to_string(),
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn proto(entries: &[(&str, &str)]) -> ModelProto {
    let entry = |&(key, value): &(&str, &str)| EntryProto {
        key: key.to_owned(),
        value: value.to_owned(),
    };
    let mut proto = graph(&[], &["w"], Vec::new());
    proto.initializers.push(TensorProto {
        location: TensorProto::EXTERNAL,
        external: entries.iter().map(entry).collect(),
        ..floats("w", &[2], &[])
    });
    model(proto)
}

#[test]
fn data_is_found_beside_the_model() {
    let folder = Folder::new("found");
    let read = folder.read(&[
        ("location", "./below/weights.bin"),
        ("offset", "4"),
        ("length", "8"),
    ]);
    let graph = read.unwrap().graph;
    assert_eq!(
        graph.constants[&graph.outputs[0]].to_vec::<f32>().unwrap(),
        [2.0, 3.0]
    );
}

#[test]
fn paths_out_of_the_folder_are_refused() {
    let folder = Folder::new("escape");
    for location in [
        "/etc/passwd",
        "../weights.bin",
        "below/../../weights.bin",
        "",
        "a\0b",
    ] {
        let said = folder.refusal(&[("location", location)]);
        assert_tells(&said, &["\"w\"", "location", "below the model's folder"]);
    }
}

#[test]
fn links_lead_where_the_caller_allows_it() {
    let [folder, other] = ["links", "linked"].map(Folder::new);
    let target = other.0.join("below/weights.bin");
    std::os::unix::fs::symlink(&target, folder.0.join("link.bin")).unwrap();
    std::os::unix::fs::symlink("below/weights.bin", folder.0.join("inner.bin")).unwrap();
    let outside = [("location", "link.bin"), ("length", "8")];
    let said = folder.refusal(&outside);
    assert_tells(&said, &["\"link.bin\"", "leads to", "data_folder"]);
    assert!(
        folder
            .read(&[("location", "inner.bin"), ("length", "8")])
            .is_ok()
    );
    // With the other folder allowed, and where the model itself is a link into it, as in the caches of model hubs.
    let path = folder.0.join("model.onnx");
    std::fs::write(&path, proto(&outside).encode_to_vec()).unwrap();
    assert!(onnx::read_with(&path, Some(&other.0), &HashMap::new(), &pool()).is_ok());
    let real = other.0.join("model.onnx");
    std::fs::rename(&path, &real).unwrap();
    std::os::unix::fs::symlink(&real, &path).unwrap();
    assert!(onnx::read(&path, &pool()).is_ok());
}

#[test]
fn pipes_are_refused_at_once() {
    let folder = Folder::new("pipe");
    for name in ["pipe.bin", "pipe.onnx"] {
        let made = std::process::Command::new("mkfifo")
            .arg(folder.0.join(name))
            .status();
        assert!(made.unwrap().success());
    }
    let said = folder.refusal(&[("location", "pipe.bin")]);
    assert_tells(&said, &["no regular file"]);
    let said = onnx::read(&folder.0.join("pipe.onnx"), &pool())
        .map(drop)
        .unwrap_err();
    assert_tells(&said.to_string(), &["no regular file"]);
}

#[test]
fn files_that_do_not_hold_the_data_are_told() {
    let folder = Folder::new("wrong");
    let file = ("location", "below/weights.bin");
    assert_tells(
        &folder.refusal(&[("location", "none.bin")]),
        &["\"w\"", "none.bin"],
    );
    assert_tells(
        &folder.refusal(&[("location", "below")]),
        &["\"w\"", "below"],
    );
    assert_tells(
        &folder.refusal(&[file, ("offset", "12")]),
        &["\"w\"", "within the 16 bytes"],
    );
    assert_tells(
        &folder.refusal(&[file, ("offset", &usize::MAX.to_string())]),
        &["\"w\"", "within"],
    );
    assert_tells(
        &folder.refusal(&[file, ("offset", "-4")]),
        &["\"w\"", "\"-4\""],
    );
    assert_tells(
        &folder.refusal(&[file, ("length", "16")]),
        &["\"w\"", "16", "8"],
    );
}

#[test]
fn models_of_bytes_have_no_files_beside_them() {
    let said = refusal(&proto(&[("location", "below/weights.bin")]));
    assert_tells(&said, &["\"w\"", "below/weights.bin"]);
}

#[test]
fn weights_that_are_given_take_the_place_of_files() {
    let pool = pool();
    let tensor = |shape: &[usize]| Tensor::full(&pool, shape, 7.0, DType::F32).unwrap();
    let read = |proto: &ModelProto, weights: &[(&str, &Tensor)]| {
        let weights = weights
            .iter()
            .map(|&(name, weight)| (name.to_owned(), weight.clone()));
        let bytes = Bytes::from(proto.encode_to_vec());
        onnx::read_bytes_with(bytes, &weights.collect(), &pool).map(|model| model.graph)
    };
    let outside = proto(&[("location", "none.bin")]);
    let w = tensor(&[2]);
    let graph = read(&outside, &[("w", &w)]).unwrap();
    let taken = &graph.constants[&graph.outputs[0]];
    assert_eq!(taken.buffer().span(), w.buffer().span());

    let refusal = |proto: &ModelProto, weights: &[(&str, &Tensor)]| {
        read(proto, weights).err().unwrap().to_string()
    };
    for wrong in [
        tensor(&[3]),
        tensor(&[2, 1]),
        w.to_dtype(DType::F64).unwrap(),
    ] {
        let got = format!("{} {:?}", wrong.dtype(), wrong.shape());
        let said = refusal(&outside, &[("w", &wrong)]);
        assert_tells(&said, &["\"w\"", "given", &got, "f32 [2]"]);
    }
    let said = refusal(&outside, &[("w", &w), ("v", &w)]);
    assert_tells(&said, &["\"v\"", "given", "outside its own file"]);
    // The model has the values of this one.
    let mut inside = super::graph(&[], &["w"], Vec::new());
    inside.initializers.push(floats("w", &[2], &[1.0, 2.0]));
    let said = refusal(&model(inside), &[("w", &w)]);
    assert_tells(&said, &["\"w\"", "given", "outside its own file"]);
}

#[test]
fn a_file_that_is_not_there_or_empty_is_told() {
    let folder = Folder::new("missing");
    let path = folder.0.join("no.onnx");
    let said = onnx::read(&path, &pool()).err().unwrap().to_string();
    assert_tells(&said, &["no.onnx"]);
    std::fs::write(&path, b"").unwrap();
    let said = onnx::read(&path, &pool()).err().unwrap().to_string();
    assert_tells(&said, &["empty"]);
}

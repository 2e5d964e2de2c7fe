//! What production sends: lies, slow bytes, half requests, and bytes that mean nothing.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::time::{Duration, Instant};

use super::common::{Running, folder, plus, request, response, write};
use streampool_serve::{Defaults, Limits};

const ROW: &[u8] =
    br#"{"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}]}"#;
const PATH: &str = "/v2/models/a/infer";

fn running(limits: Limits) -> Running {
    let folder = folder();
    write(&folder, "a.onnx", plus(1.0));
    Running::of(&folder, limits, Defaults::default())
}

fn serves(running: &Running) -> bool {
    running.send("POST", PATH, &[], ROW).status == 200
}

#[test]
fn a_body_that_lies_about_its_length_is_given_up() {
    let running = running(Limits {
        body_time: Duration::from_millis(300),
        ..Limits::default()
    });
    let mut long = running.connect();
    let text = format!("POST {PATH} HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n");
    long.write_all(&[text.as_bytes(), ROW].concat()).unwrap();
    let begun = Instant::now();
    assert_eq!(response(&mut long).expect("an answer").status, 408);
    assert!(begun.elapsed() < Duration::from_secs(5));
    // One that sends more than it says: what is behind is no request.
    let mut short = running.connect();
    let text = format!("POST {PATH} HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n");
    short.write_all(&[text.as_bytes(), ROW].concat()).unwrap();
    assert_eq!(response(&mut short).expect("an answer").status, 400);
    // Two lengths, and one that is no number.
    for lengths in [
        "content-length: 1\r\ncontent-length: 2",
        "content-length: -1",
        "content-length: 99999999999999999999",
    ] {
        let mut stream = running.connect();
        stream
            .write_all(format!("POST {PATH} HTTP/1.1\r\nhost: x\r\n{lengths}\r\n\r\nab").as_bytes())
            .unwrap();
        let answer = response(&mut stream);
        assert!(
            answer
                .as_ref()
                .is_none_or(|answer| (400..500).contains(&answer.status)),
            "{answer:?}"
        );
    }
    assert!(serves(&running));
}

#[test]
fn a_slow_header_is_given_up() {
    // Long enough for the good request at the end, also where its thread waits for a processor.
    let running = running(Limits {
        header_time: Duration::from_secs(2),
        ..Limits::default()
    });
    let mut slow = running.connect();
    let begun = Instant::now();
    let mut closed = false;
    slow.write_all(b"GET /v2 HTTP/1.1\r\n").unwrap();
    while begun.elapsed() < Duration::from_secs(30) && !closed {
        std::thread::sleep(Duration::from_millis(100));
        closed = slow.write_all(b"a: b\r\n").is_err();
    }
    assert!(closed, "it is still open after {:?}", begun.elapsed());
    assert!(serves(&running));
}

#[test]
fn headers_and_paths_beyond_the_limit_are_refused() {
    let running = running(Limits {
        max_header: 8192,
        ..Limits::default()
    });
    let long = "x".repeat(20_000);
    let answer = running.connect();
    let mut stream = answer;
    // The server may close before all is sent.
    let _ = stream.write_all(&request("GET", "/v2", &[("x", &long)], b""));
    let answer = response(&mut stream);
    assert!(
        answer
            .as_ref()
            .is_none_or(|answer| [400, 431].contains(&answer.status)),
        "{answer:?}"
    );
    let mut stream = running.connect();
    let _ = stream.write_all(&request("GET", &format!("/{long}"), &[], b""));
    let answer = response(&mut stream);
    assert!(
        answer
            .as_ref()
            .is_none_or(|answer| [404, 414, 431].contains(&answer.status)),
        "{answer:?}"
    );
    assert!(serves(&running));
}

#[test]
fn half_closed_connections_and_requests_do_no_harm() {
    let running = running(Limits::default());
    let whole = request("POST", PATH, &[], ROW);
    for length in (0..whole.len()).step_by(7) {
        let mut stream = running.connect();
        stream.write_all(&whole[..length]).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all);
        assert!(!all.starts_with(b"HTTP/1.1 200"), "half a request is none");
    }
    assert!(serves(&running));
    let metrics = running.get("/metrics").text();
    assert!(
        metrics.contains("nv_inference_pending_request_count{model=\"a\",version=\"1\"} 0"),
        "{metrics}"
    );
}

#[test]
fn a_thousand_idle_connections_do_no_harm() {
    let running = running(Limits::default());
    let idle: Vec<_> = (0..1000).map(|_| running.connect()).collect();
    let begun = Instant::now();
    assert!(serves(&running));
    assert!(begun.elapsed() < Duration::from_secs(20));
    drop(idle);
    assert!(serves(&running));
}

#[test]
fn connections_beyond_the_limit_wait() {
    let running = running(Limits {
        max_connections: 4,
        ..Limits::default()
    });
    let mut open: Vec<_> = (0..4).map(|_| running.connect()).collect();
    for stream in &mut open {
        stream
            .write_all(&request("GET", "/v2/health/live", &[], b""))
            .unwrap();
        assert_eq!(response(stream).expect("an answer").status, 200);
    }
    let mut fifth = running.connect();
    fifth
        .write_all(&request("GET", "/v2/health/live", &[], b""))
        .unwrap();
    fifth
        .set_read_timeout(Some(Duration::from_millis(200)))
        .unwrap();
    assert!(response(&mut fifth).is_none(), "it waits");
    drop(open);
    fifth
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    assert_eq!(response(&mut fifth).expect("an answer").status, 200);
}

/// How many cases a test of strange bytes has.
fn cases() -> usize {
    let cases = std::env::var("SERVE_CASES").ok();
    cases.and_then(|cases| cases.parse().ok()).unwrap_or(3000)
}

/// Good bytes, cut, changed, and with pieces in between.
fn strange(random: &mut fastrand::Rng, seed: &[u8], pieces: &[&[u8]]) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..random.usize(0..4) {
        let at = random.usize(0..=bytes.len());
        match random.u8(0..4) {
            0 => bytes.truncate(at),
            1 => {
                let piece = pieces[random.usize(0..pieces.len())];
                bytes.splice(at..at, piece.iter().copied());
            }
            2 if at < bytes.len() => bytes[at] = random.u8(..),
            _ => {
                let copy = bytes[at..bytes.len().min(at + 20)].to_vec();
                bytes.splice(at..at, copy);
            }
        }
    }
    bytes
}

/// Whole requests made from good ones, each over a connection of its own: none is a 500, and none ends the server.
#[test]
fn no_head_is_too_strange() {
    let running = running(Limits::default());
    let mut random = fastrand::Rng::with_seed(36);
    let seeds = [
        request("POST", PATH, &[("x-tenant", "ann")], ROW),
        request("GET", "/v2/models/a/versions/1/ready", &[], b""),
        request("POST", "/v2/repository/index", &[], b"{}"),
        request("GET", "/metrics", &[("accept-encoding", "gzip")], b""),
    ];
    let pieces: [&[u8]; 16] = [
        b"\r\n",
        b"\r\n\r\n",
        b": ",
        b" ",
        b"\0",
        b"\xff",
        b"%00",
        b"../",
        b"?a=%",
        b" HTTP/1.1",
        b"\r\ncontent-length: 3",
        b"\r\ntransfer-encoding: chunked",
        b"\r\ncontent-encoding: gzip",
        b"\r\nexpect: 100-continue",
        b"\r\nx-request-timeout-ms: -1",
        b"\r\ntraceparent: 00-0-0-0",
    ];
    let mut answered = 0;
    let cases = cases();
    for case in 0..cases {
        let seed = &seeds[random.usize(0..seeds.len())];
        let bytes = strange(&mut random, seed, &pieces);
        let mut stream = running.connect();
        // A server that has refused the head may have closed already.
        let _ = stream.write_all(&bytes);
        let _ = stream.shutdown(Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let status = answer.strip_prefix(b"HTTP/1.1 ");
        answered += usize::from(status.is_some());
        assert!(
            status.is_none_or(|status| status[0] < b'5'),
            "case {case}: {:?} for {:?}",
            String::from_utf8_lossy(&answer),
            String::from_utf8_lossy(&bytes)
        );
    }
    assert!(answered > cases / 20, "{answered} answers");
    assert!(serves(&running));
}

/// Bodies and headers made from good ones by cutting, doubling and changing: none of them is a 500, and none ends the server.
/// `SERVE_CASES` says how many.
#[test]
fn no_request_is_too_strange() {
    let cases = cases();
    let running = running(Limits::default());
    let mut random = fastrand::Rng::with_seed(34);
    let binary = [
        br#"{"inputs":[{"name":"x","datatype":"FP32","shape":[1,4],"parameters":{"binary_data_size":16}}]}"# as &[u8],
        &[0; 16],
    ]
    .concat();
    let seeds: [(&[u8], Option<usize>); 3] = [
        (ROW, None),
        (&binary, Some(binary.len() - 16)),
        (&[0; 16], Some(0)),
    ];
    let pieces: [&[u8]; 14] = [
        b"[",
        b"]",
        b"{",
        b"}",
        b"\"",
        b",",
        b"-1",
        b"1e999",
        b"null",
        b"\\u0000",
        b"99999999999999999999",
        b"\xff",
        b":",
        b"true",
    ];
    let mut stream = running.connect();
    let (mut good, mut bad) = (0, 0);
    for case in 0..cases {
        let (seed, length) = seeds[random.usize(0..seeds.len())];
        let body = strange(&mut random, seed, &pieces);
        let length = length.map(|length| match random.u8(0..4) {
            0 => random.usize(0..200).to_string(),
            1 => ["-1", "x", "18446744073709551616", ""][random.usize(0..4)].to_owned(),
            _ => length.to_string(),
        });
        let headers: Vec<(&str, &str)> = length
            .iter()
            .map(|length| ("inference-header-content-length", &length[..]))
            .collect();
        stream
            .write_all(&request("POST", PATH, &headers, &body))
            .unwrap();
        let answer =
            response(&mut stream).unwrap_or_else(|| panic!("no answer to case {case}: {body:?}"));
        match answer.status {
            200 => good += 1,
            400 => bad += 1,
            status => panic!(
                "{status} for case {case}: {} {:?}",
                answer.text(),
                String::from_utf8_lossy(&body)
            ),
        }
    }
    assert!(
        good > cases / 20 && bad > cases / 20,
        "{good} good, {bad} bad"
    );
    assert!(serves(&running));
}

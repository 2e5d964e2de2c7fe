//! The points as comma-separated values, for spreadsheets and scripts.

use super::point::Point;

const HEAD: &str = "via,shape,rows,threads,offered_per_second,seconds,requests,requests_per_second,\
    rows_per_second,p50_seconds,p90_seconds,p99_seconds,p99_9_seconds,max_seconds,failed,given_up,rows_per_batch";

/// A line of names, and one for each point; what is not known is empty.
pub fn of(points: &[Point]) -> String {
    let mut text = format!("{HEAD}\n");
    for point in points {
        text += &line(point);
        text.push('\n');
    }
    text
}

fn line(point: &Point) -> String {
    let known = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
    let latency = &point.latency_seconds;
    let cells = [
        point.via.name().to_owned(),
        format!("\"{}\"", point.shape.replace('"', "\"\"")),
        point.rows.to_string(),
        point.threads.to_string(),
        known(point.offered_per_second),
        point.seconds.to_string(),
        point.requests.to_string(),
        point.requests_per_second.to_string(),
        point.rows_per_second.to_string(),
        known(latency.p50),
        known(latency.p90),
        known(latency.p99),
        known(latency.p99_9),
        known(latency.max),
        point.failed.to_string(),
        point.given_up.to_string(),
        known(point.rows_per_batch),
    ];
    cells.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::point::Via;
    use crate::bench::point::tests::point;

    #[test]
    fn every_point_has_a_line_of_as_many_cells() {
        let text = of(&[
            point(Via::Threads, 8, 2, None),
            point(Via::Queue, 1, 1, Some(0.5)),
        ]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[1..],
            [
                "threads,\"x=2,3\",2,8,,1,100,100,200,0.01,,,,,0,0,",
                "queue,\"x=1,3\",1,1,0.5,1,100,100,100,0.01,,,,,0,0,"
            ]
        );
        // The shape is one cell, with a comma in it.
        let cells = |line: &str| line.split(',').count();
        assert_eq!(cells(lines[0]) + 1, cells(lines[1]));
    }
}

//! What is simulated, beside what is known of queues and what the plan asks for.

use streampool_simulate::{
    Arrivals, Autoscale, Balance, Cost, Failures, Plan, Tenant, fewest, simulate,
};

/// One server that takes so long for each request, one at a time.
fn single(seconds: f64, rate: f64) -> Plan {
    Plan {
        lanes: 1,
        max_batch_size: 1,
        capacity: 1_000_000,
        cost: Cost::fixed(&[(1, seconds)]).unwrap(),
        arrivals: Arrivals::Poisson { rate },
        seconds: 20_000.0,
        warm_up: 5.0,
        ..Plan::default()
    }
}

/// The part of requests that wait at most so many service times, at a server that is busy for `load` of the time: Erlang's formula for
/// independent arrivals and one time of service.
fn waits_at_most(times: f64, load: f64) -> f64 {
    let mut term = 0.0;
    for k in 0..=times.floor() as i32 {
        let x = load * (times - f64::from(k));
        let factorial: f64 = (1..=k).map(f64::from).product();
        term += (-x).powi(k) / factorial * x.exp();
    }
    (1.0 - load) * term
}

#[test]
fn one_server_waits_as_the_theory_says() {
    for load in [0.3, 0.6, 0.8] {
        let outcome = simulate(&single(0.01, load / 0.01)).unwrap();
        assert!(
            (outcome.utilisation - load).abs() < 0.01,
            "{}",
            outcome.utilisation
        );
        for (part, got) in [(0.5, outcome.p50), (0.99, outcome.p99)] {
            let got = got.unwrap();
            // In service times, without the service itself.
            let waited = got / 0.01 - 1.0;
            let (less, more) = (waited * 0.95 - 0.02, waited * 1.05 + 0.02);
            let range = waits_at_most(less.max(0.0), load)..=waits_at_most(more, load);
            let fits = range.contains(&part) || (less <= 0.0 && *range.end() >= part);
            assert!(fits, "load {load}: {part} took {got}, {range:?}");
        }
    }
}

#[test]
fn batches_form_while_others_run() {
    let plan = Plan {
        lanes: 1,
        max_batch_size: 16,
        cost: Cost::fixed(&[(1, 0.010), (16, 0.020)]).unwrap(),
        arrivals: Arrivals::Poisson { rate: 400.0 },
        seconds: 100.0,
        ..Plan::default()
    };
    let outcome = simulate(&plan).unwrap();
    // One by one it would take four times as long as there is.
    assert_eq!(outcome.rejected, 0);
    assert!(outcome.rows_per_batch > 3.0, "{outcome:?}");
    assert!(outcome.p99.unwrap() < 0.06, "{:?}", outcome.p99);
}

#[test]
fn better_balance_makes_shorter_waits() {
    // One batch in a hundred takes ten times as long as others: who goes round does not see where.
    let measured = r#"{"points": [{"via": "threads", "threads": 1, "rows": 1,
        "latency_seconds": {"p50": 0.005, "p99": 0.05}}]}"#;
    let late = |balance| {
        let plan = Plan {
            replicas: 16,
            balance,
            cost: Cost::from_bench(measured, 1).unwrap(),
            seconds: 200.0,
            ..single(0.01, 0.8 * 16.0 / 0.01)
        };
        simulate(&plan).unwrap().p99.unwrap()
    };
    let [least, two, round] = [
        Balance::LeastOutstanding,
        Balance::PowerOfTwo,
        Balance::RoundRobin,
    ]
    .map(late);
    assert!(least < two && two < round, "{least} {two} {round}");
}

#[test]
fn what_has_no_room_is_rejected_and_everything_is_counted() {
    let plan = Plan {
        capacity: 10,
        seconds: 50.0,
        warm_up: 0.0,
        ..single(0.01, 200.0)
    };
    let outcome = simulate(&plan).unwrap();
    assert!((outcome.rejected as f64 / outcome.requests as f64 - 0.5).abs() < 0.02);
    assert!((outcome.answered_per_second - 100.0).abs() < 1.0);
    let open = outcome.requests - outcome.answered - outcome.rejected;
    assert!(open <= 11, "{open} are under way at the end");
}

#[test]
fn tenants_get_their_shares_when_there_is_not_enough() {
    let tenant = |name: &str, weight, sends| Tenant {
        name: name.to_owned(),
        weight,
        sends,
    };
    let plan = Plan {
        // The one that sends little is not to wait behind the other.
        tenants: vec![tenant("much", 1.0, 9.0), tenant("little", 1.0, 1.0)],
        capacity: 500,
        seconds: 50.0,
        ..single(0.01, 150.0)
    };
    let outcome = simulate(&plan).unwrap();
    let [(_, much, late_much), (_, little, late_little)] = &outcome.tenants[..] else {
        panic!("two tenants");
    };
    assert!(much > little);
    assert!(
        late_little.unwrap() < late_much.unwrap() / 5.0,
        "{:?}",
        outcome.tenants
    );
}

#[test]
fn failures_lose_what_a_replica_holds_and_others_go_on() {
    let plan = Plan {
        replicas: 10,
        failures: Some(Failures {
            every: 20.0,
            repair: 2.0,
        }),
        seconds: 100.0,
        warm_up: 0.0,
        ..single(0.01, 500.0)
    };
    let outcome = simulate(&plan).unwrap();
    assert!(
        outcome.failed > 0 && outcome.failed < 500,
        "{}",
        outcome.failed
    );
    assert!(
        outcome.mean_replicas > 8.0 && outcome.mean_replicas < 9.8,
        "{}",
        outcome.mean_replicas
    );
    assert!(outcome.answered + outcome.failed + 100 > outcome.requests);
}

#[test]
fn scaling_follows_the_load_with_its_delay() {
    let plan = Plan {
        replicas: 40,
        arrivals: Arrivals::Diurnal {
            rate: 1000.0,
            swing: 0.9,
            period: 600.0,
        },
        autoscale: Some(Autoscale {
            least: 2,
            target: 2.0,
            every: 5.0,
            delay: 10.0,
        }),
        seconds: 600.0,
        ..single(0.01, 1.0)
    };
    let outcome = simulate(&plan).unwrap();
    let counts = || outcome.slices.iter().map(|slice| slice.replicas);
    let (least, most) = (counts().min().unwrap(), counts().max().unwrap());
    assert!(least <= 6 && most >= 19, "{least} to {most}");
    assert!(outcome.mean_replicas < 30.0, "{}", outcome.mean_replicas);
}

#[test]
fn the_warm_up_counts_neither_as_busy_nor_as_there() {
    let plan = Plan {
        replicas: 5,
        capacity: 20,
        autoscale: Some(Autoscale {
            least: 1,
            target: 4.0,
            every: 5.0,
            delay: 100.0,
        }),
        seconds: 200.0,
        warm_up: 100.0,
        ..single(0.01, 300.0)
    };
    let outcome = simulate(&plan).unwrap();
    let busy = outcome.answered_per_second * 0.01 / outcome.mean_replicas;
    assert!((outcome.utilisation - busy).abs() < 0.01, "{outcome:?}");
    // A batch that runs from before the warm-up's end until after the end.
    let long = Plan {
        capacity: 1,
        seconds: 10.0,
        warm_up: 5.0,
        ..single(20.0, 1000.0)
    };
    let outcome = simulate(&long).unwrap();
    assert!((outcome.utilisation - 1.0).abs() < 1e-6, "{outcome:?}");
}

#[test]
fn the_fewest_replicas_for_a_target_are_found() {
    let plan = Plan {
        seconds: 20.0,
        warm_up: 2.0,
        ..single(0.01, 1500.0)
    };
    let (replicas, outcome) = fewest(&plan, 0.03, 100).unwrap().unwrap();
    assert!(outcome.p99.unwrap() <= 0.03);
    assert!((16..=22).contains(&replicas), "{replicas}");
    let fewer = Plan {
        replicas: replicas - 1,
        ..plan.clone()
    };
    assert!(simulate(&fewer).unwrap().p99.unwrap() > 0.03);
    assert!(fewest(&plan, 0.03, 10).unwrap().is_none());
    // Answers are in time, but 4 requests in a thousand are lost with their replicas.
    let failing = Plan {
        failures: Some(Failures {
            every: 2.0,
            repair: 1.0,
        }),
        seconds: 200.0,
        ..single(0.01, 80.0)
    };
    assert!(fewest(&failing, 0.2, 50).unwrap().is_none());
}

#[test]
fn the_same_seed_is_the_same_run() {
    let plan = Plan {
        replicas: 3,
        seconds: 20.0,
        ..single(0.01, 200.0)
    };
    let figures = |seed| {
        let outcome = simulate(&Plan {
            seed,
            ..plan.clone()
        })
        .unwrap();
        (
            outcome.requests,
            outcome.answered,
            outcome.p99.map(f64::to_bits),
        )
    };
    assert_eq!(figures(1), figures(1));
    assert_ne!(figures(1), figures(2));
    assert!(
        simulate(&Plan {
            replicas: 0,
            ..plan.clone()
        })
        .is_err()
    );
    let ann = Tenant {
        name: "ann".to_owned(),
        weight: 1.0,
        sends: 1.0,
    };
    assert!(
        simulate(&Plan {
            tenants: vec![ann.clone(), ann],
            ..plan
        })
        .is_err()
    );
}
